//! What other programs put into the container: shown, or hidden and counted, and never in the way.

use super::*;
use tierfs::types::{FileKind, Timestamp};

#[tokio::test]
async fn odd_blobs_leave_their_siblings_usable() {
    let container = Container::create().await;
    for name in ["a//b", "a/", "%2Flead", "a/good", "tail.", "good", "b%5Cc"] {
        container.put(name, b"x", &[]).await;
    }
    let tier = container.tier("");
    let (entries, hidden) = list(&*tier, "", 100).await;
    assert_eq!(names(&entries), ["a", "b", "good"]);
    // Whether a server keeps `\` or makes it `/` is its business; that nothing is confused is ours.
    assert!(hidden >= 2, "{hidden}");
    let (entries, hidden) = list(&*tier, "a", 100).await;
    assert_eq!((names(&entries), hidden), (vec!["good".to_owned()], 2));
    assert_eq!(content(&*tier, "a/good").await, b"x");
}

#[tokio::test]
async fn a_blob_that_is_also_a_directory_is_the_directory() {
    let container = Container::create().await;
    container.put("x", b"file", &[]).await;
    container.put("x%21", b"between", &[]).await;
    container.put("x/y", b"below", &[]).await;
    let tier = container.tier("");
    for limit in 1..5 {
        let (entries, hidden) = list(&*tier, "", limit).await;
        assert_eq!((names(&entries), hidden), (vec!["x".to_owned(), "x!".to_owned()], 1), "{limit}");
        assert_eq!(entries[0].object.kind, FileKind::Directory);
    }
    assert_eq!(tier.head(&key("x")).await.unwrap().kind, FileKind::Directory);
    container.delete("x/y").await;
    assert_eq!(tier.head(&key("x")).await.unwrap().kind, FileKind::Regular);
}

#[tokio::test]
async fn directories_are_there_by_what_is_below() {
    let container = Container::create().await;
    container.put("p/d/s/f", b"x", &[]).await;
    container.put("p/empty/", b"", &[]).await;
    container.put("p/marked", b"", &[("hdi_isfolder", "true"), ("owner", "7")]).await;
    container.put("p/marked/f", b"x", &[]).await;
    let tier = container.tier("p");
    for path in ["d", "d/s", "empty", ""] {
        let object = tier.head(&key(path)).await.unwrap();
        assert_eq!((object.kind, object.version.0.len()), (FileKind::Directory, 0), "{path}");
    }
    assert_eq!(kind(tier.head(&key("e")).await), Kind::NotFound);
    let (entries, hidden) = list(&*tier, "", 1).await;
    assert_eq!((names(&entries), hidden), (vec!["d".into(), "empty".into(), "marked".into()], 0));
    assert_eq!(entries[2].object.attrs.uid, Some(7));
    assert_eq!(list(&*tier, "empty", 10).await.0.len(), 0);
    // Removing the directory removes that kind of marker too, or it would come back.
    tier.delete(&key("empty"), &Condition::Always).await.unwrap();
    assert_eq!(kind(tier.head(&key("empty")).await), Kind::NotFound);
    assert_eq!(kind(tier.delete(&key("d"), &Condition::Always).await), Kind::NotFound);
    assert_eq!(tier.head(&key("d/s/f")).await.unwrap().size, 1);
}

#[tokio::test]
async fn other_dialects_are_read() {
    let container = Container::create().await;
    let azcopy = [
        ("permissions", "33188"),
        ("modtime", "1580608922123456789"),
        ("posix_owner", "5"),
        ("posix_group", "6"),
    ];
    container.put("azcopy", b"x", &azcopy).await;
    container.put("rclone", b"x", &[("mtime", "2020-02-02T02:02:02.5Z"), ("mode", "100600")]).await;
    container.put("link", b"../azcopy", &[("is_symlink", "true")]).await;
    let tier = container.tier("");
    let found = tier.head(&key("azcopy")).await.unwrap().attrs;
    assert_eq!((found.mode, found.uid, found.gid), (Some(0o644), Some(5), Some(6)));
    assert_eq!(found.mtime, Some(Timestamp(1_580_608_922_123_456_789)));
    let found = tier.head(&key("rclone")).await.unwrap().attrs;
    assert_eq!((found.mode, found.mtime), (Some(0o600), Some(Timestamp(1_580_608_922_500_000_000))));
    let link = tier.head(&key("link")).await.unwrap();
    assert_eq!(
        (link.kind, link.size, content(&*tier, "link").await),
        (FileKind::Symlink, 9, b"../azcopy".to_vec())
    );
}

#[tokio::test]
async fn the_reserved_folder_is_hidden_at_the_root_only() {
    let container = Container::create().await;
    container.put("p/.tierfs/x", b"", &[]).await;
    container.put("p/d/.tierfs/x", b"", &[]).await;
    let tier = container.tier("p");
    let (entries, hidden) = list(&*tier, "", 10).await;
    assert_eq!((names(&entries), hidden), (vec!["d".to_owned()], 0));
    assert_eq!(names(&list(&*tier, "d", 10).await.0), [".tierfs"]);
}

#[tokio::test]
async fn many_entries_take_few_pages() {
    let container = Container::create().await;
    let tier = container.tier("");
    let puts = (0..230).map(|at| {
        let tier = &tier;
        async move { put(&**tier, &format!("d/f{at:03}"), "x").await }
    });
    futures::future::join_all(puts).await;
    let (mut count, mut pages, mut cursor) = (0, 0, None);
    loop {
        let page = tier.list(&key("d"), b"", cursor, 100).await.unwrap();
        count += page.entries.len();
        pages += 1;
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!((count, pages), (230, 3));
}
