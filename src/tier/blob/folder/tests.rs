use super::*;
use futures::TryStreamExt;

struct Rig {
    folder: tempfile::TempDir,
    tier: FolderBlob,
}

fn rig() -> Rig {
    let folder = tempfile::tempdir().unwrap();
    let tier = FolderBlob::open("t", folder.path(), None).unwrap();
    Rig { folder, tier }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

fn key(path: &str) -> Key {
    Key::parse(path).unwrap()
}

async fn bytes_of(tier: &FolderBlob, path: &str, range: Range<u64>) -> Result<Vec<u8>> {
    let version = tier.head(&key(path)).await?.version;
    let parts: Vec<Bytes> = tier.read(&key(path), range, &version).await?.try_collect().await?;
    Ok(parts.concat())
}

#[test]
fn files_are_put_read_listed_and_deleted() {
    run(async {
        let Rig { folder: _folder, tier } = rig();
        let (attrs, bytes) = (Attrs::default(), Bytes::from_static(b"hello"));
        let version = tier.put(&key("a/b#1"), bytes.clone(), &attrs, &Condition::Absent).await.unwrap();
        let again = tier.put(&key("a/b#1"), bytes.clone(), &attrs, &Condition::Absent).await;
        assert_eq!(again.unwrap_err().kind(), Kind::Exists);
        assert_eq!(tier.head(&key("a/b#1")).await.unwrap().version, version);
        assert_eq!(bytes_of(&tier, "a/b#1", 1..3).await.unwrap(), b"el");
        assert_eq!(bytes_of(&tier, "a/b#1", 3..99).await.unwrap(), b"lo");
        let page = tier.list(&Key::ROOT, b"", None, 10).await.unwrap();
        assert_eq!((page.entries.len(), page.entries[0].object.kind), (1, FileKind::Directory));
        assert_eq!(tier.delete(&key("a"), &Condition::Always).await.unwrap_err().kind(), Kind::NotEmpty);
        let other = Condition::Matches(Version::new("x"));
        assert_eq!(tier.delete(&key("a/b#1"), &other).await.unwrap_err().kind(), Kind::Changed);
        tier.delete(&key("a/b#1"), &Condition::Matches(version)).await.unwrap();
        assert_eq!(tier.head(&key("a/b#1")).await.unwrap_err().kind(), Kind::NotFound);
        assert_eq!(tier.list(&key("none"), b"", None, 10).await.unwrap().entries.len(), 0);
    });
}

#[test]
fn uploads_are_invisible_until_committed() {
    run(async {
        let Rig { folder, tier } = rig();
        let upload = tier.upload(&key("d/f"), 100 << 30).await.unwrap();
        let block = usize::try_from(upload.block_size()).unwrap();
        upload.put_block(1, Bytes::from_static(b"end")).await.unwrap();
        assert_eq!(
            upload.commit(2, &Attrs::default(), &Condition::Always).await.unwrap_err().kind(),
            Kind::Invalid
        );
        upload.put_block(0, Bytes::from(vec![1; block])).await.unwrap();
        assert_eq!(tier.head(&key("d/f")).await.unwrap_err().kind(), Kind::NotFound);
        upload.commit(2, &Attrs::default(), &Condition::Absent).await.unwrap();
        assert_eq!(tier.head(&key("d/f")).await.unwrap().size, block as u64 + 3);
        drop(tier.upload(&key("d/g"), 5).await.unwrap());
        drop(upload);
        assert_eq!(std::fs::read_dir(folder.path().join(".tierfs/upload")).unwrap().count(), 0);
    });
}

#[test]
fn symlinks_lead_nowhere() {
    run(async {
        let Rig { folder, tier } = rig();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "x").unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).unwrap();
        let page = tier.list(&Key::ROOT, b"", None, 10).await.unwrap();
        assert_eq!((page.entries.len(), page.hidden), (0, 1));
        assert_eq!(tier.head(&key("link/secret")).await.unwrap_err().kind(), Kind::Outside);
        let put = tier.put(&key("link/new"), Bytes::new(), &Attrs::default(), &Condition::Always).await;
        assert_eq!(put.unwrap_err().kind(), Kind::Outside);
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
    });
}

#[test]
fn pages_go_on_where_they_ended() {
    run(async {
        let Rig { folder, tier } = rig();
        for at in 0..25 {
            std::fs::write(folder.path().join(format!("f{at}")), "").unwrap();
        }
        let (mut names, mut cursor) = (std::collections::BTreeSet::new(), None);
        loop {
            let page = tier.list(&Key::ROOT, b"f", cursor, 4).await.unwrap();
            assert!(page.entries.len() <= 4);
            names.extend(page.entries.into_iter().map(|entry| entry.name));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(names.len(), 25);
    });
}

#[test]
fn a_copy_is_whole_and_of_the_version() {
    run(async {
        let Rig { folder: _folder, tier } = rig();
        let attrs = Attrs::default();
        let version =
            tier.put(&key("a"), Bytes::from_static(b"one"), &attrs, &Condition::Always).await.unwrap();
        tier.copy(&key("a"), &version, &key("x/b"), &attrs, &Condition::Absent).await.unwrap();
        assert_eq!(bytes_of(&tier, "x/b", 0..9).await.unwrap(), b"one");
        tier.put(&key("a"), Bytes::from_static(b"two"), &attrs, &Condition::Always).await.unwrap();
        let stale = tier.copy(&key("a"), &version, &key("c"), &attrs, &Condition::Absent).await;
        assert_eq!(stale.unwrap_err().kind(), Kind::Changed);
    });
}
