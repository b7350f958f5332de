//! What tierfs leaves in the container is what other tools expect there.

use super::*;
use tierfs::tier::Special;
use tierfs::types::{FileKind, Timestamp};

fn full() -> Attrs {
    Attrs {
        mode: Some(0o4751),
        uid: Some(1000),
        gid: Some(100),
        mtime: Some(Timestamp(1_580_608_922_123_456_789)),
        xattrs: vec![
            (b"user.comment".to_vec(), "é\n".as_bytes().to_vec()),
            (b"user.bin".to_vec(), vec![0, 255]),
        ],
        link: Some("g1".into()),
        write_id: Some("w1".into()),
    }
}

#[tokio::test]
async fn attributes_survive_by_head_and_by_list() {
    let container = Container::create().await;
    let tier = container.tier("");
    let version = tier.put(&key("f"), bytes(10), &full(), &Condition::Absent).await.unwrap();
    let object = tier.head(&key("f")).await.unwrap();
    assert_eq!((object.version, object.attrs, object.size), (version.clone(), full(), 10));
    let listed = list(&*tier, "", 10).await.0.remove(0).object;
    assert_eq!((listed.version, listed.attrs, listed.size), (version, full(), 10));
    let seen = container.get("f").await.unwrap().headers;
    for (name, value) in [
        ("owner", "1000"),
        ("group", "100"),
        ("permissions", "0751"),
        ("modtime", "2020-02-02 02:02:02 +0000"),
        ("tierfs_mode", "4751"),
    ] {
        assert_eq!(seen[format!("x-ms-meta-{name}")], value);
    }
}

#[tokio::test]
async fn attributes_are_replaced_without_the_bytes() {
    let container = Container::create().await;
    container.put("f", b"abc", &[("project", "x"), ("mode", "0600")]).await;
    let tier = container.tier("");
    let old = tier.head(&key("f")).await.unwrap().version;
    let attrs = Attrs { write_id: None, ..full() };
    let new = tier.set_attrs(&key("f"), &old, &attrs).await.unwrap();
    assert_ne!(new, old);
    let object = tier.head(&key("f")).await.unwrap();
    assert_eq!((object.version, object.attrs, object.size), (new, attrs.clone(), 3));
    assert_eq!(container.get("f").await.unwrap().headers["x-ms-meta-project"], "x");
    assert_eq!(kind(tier.set_attrs(&key("f"), &old, &attrs).await), Kind::Changed);
    assert_eq!(kind(tier.set_attrs(&key("none"), &old, &attrs).await), Kind::NotFound);
}

#[tokio::test]
async fn special_files_come_back_as_they_were() {
    let container = Container::create().await;
    let tier = container.tier("");
    let target = vec![b't'; 1000];
    let specials = [
        ("dir", Special::Directory),
        ("link", Special::Symlink(b"../a b".to_vec())),
        ("long", Special::Symlink(target.clone())),
        ("fifo", Special::Node { kind: FileKind::Fifo, rdev: 0 }),
        ("dev", Special::Node { kind: FileKind::CharDevice, rdev: 259 }),
    ];
    for (name, special) in &specials {
        let put = |condition| {
            let tier = &tier;
            async move { tier.put_special(&key(name), special, &full(), &condition).await }
        };
        let version = put(Condition::Absent).await.unwrap();
        // The same write id: it was us.
        assert_eq!(put(Condition::Absent).await.unwrap(), version);
        let other = tier.put_special(&key(name), special, &written_by("other"), &Condition::Absent).await;
        assert_eq!(kind(other), Kind::Exists);
    }
    let (entries, _) = list(&*tier, "", 2).await;
    let found =
        |name: &str| entries.iter().find(|entry| entry.name == name.as_bytes()).unwrap().object.clone();
    assert_eq!((found("dir").kind, found("dir").attrs), (FileKind::Directory, full()));
    assert_eq!((found("link").kind, found("link").target), (FileKind::Symlink, Some(b"../a b".to_vec())));
    assert_eq!((found("long").size, found("long").target), (1000, Some(target)));
    assert_eq!(found("fifo").kind, FileKind::Fifo);
    assert_eq!((found("dev").kind, found("dev").rdev), (FileKind::CharDevice, 259));
    let seen = container.get("link").await.unwrap();
    assert_eq!(
        (seen.body.as_slice(), &seen.headers["x-ms-meta-is_symlink"]),
        (&b"../a b"[..], &"true".parse().unwrap())
    );
    assert_eq!(seen.headers["x-ms-meta-ftype"], "LNK");
    assert_eq!(container.get("dir").await.unwrap().headers["x-ms-meta-hdi_isfolder"], "true");
}

#[tokio::test]
async fn a_directory_without_marker_gets_one_with_its_attributes() {
    let container = Container::create().await;
    container.put("d/f", b"x", &[]).await;
    let tier = container.tier("");
    let bare = tier.head(&key("d")).await.unwrap();
    let version = tier.set_attrs(&key("d"), &bare.version, &full()).await.unwrap();
    let marked = tier.head(&key("d")).await.unwrap();
    assert_eq!((marked.kind, marked.version, marked.attrs), (FileKind::Directory, version, full()));
    assert_eq!(kind(tier.set_attrs(&key("d"), &bare.version, &Attrs::default()).await), Kind::Exists);
}

#[tokio::test]
async fn ranges_are_exact() {
    let tier = Container::create().await.tier("");
    let all = bytes(1 << 20);
    let version = tier.put(&key("f"), all.clone(), &Attrs::default(), &Condition::Always).await.unwrap();
    for range in [0..1u64, 0..1 << 20, 65_536..65_537, 1_048_570..1_048_576, 7..7, 100..1000] {
        let expected = &all[range.start as usize..range.end as usize];
        assert_eq!(read(&*tier, "f", range, &version).await.unwrap(), expected);
    }
    assert_eq!(read(&*tier, "f", (1 << 20) - 2..1 << 30, &version).await.unwrap(), &all[(1 << 20) - 2..]);
    assert_eq!(read(&*tier, "f", 1 << 20..1 << 21, &version).await.unwrap(), b"");
    let empty = put(&*tier, "e", "").await;
    assert_eq!(read(&*tier, "e", 0..10, &empty).await.unwrap(), b"");
}

#[tokio::test]
async fn too_many_attributes_are_refused_before_anything_is_sent() {
    let tier = Container::create().await.tier("");
    let attrs = Attrs { xattrs: vec![(b"user.big".to_vec(), vec![1; 4000])], ..Attrs::default() };
    assert!(!tier.can_carry(&attrs));
    assert_eq!(kind(tier.put(&key("f"), bytes(1), &attrs, &Condition::Always).await), Kind::NoSpace);
    assert_eq!(kind(tier.head(&key("f")).await), Kind::NotFound);
}
