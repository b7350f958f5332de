//! Listings: one level, every name once, and never our own directory.

use super::*;
use std::collections::HashSet;
use tierfs::types::FileKind;

cases![
    one_level_at_a_time,
    a_listing_agrees_with_head,
    a_prefix_narrows,
    large_directories_come_in_pages,
    names_that_stay_are_told_once_while_others_come_and_go,
    own_directory_is_hidden_at_the_root_only,
    a_directory_that_is_not_there,
    a_foreign_cursor_is_refused,
];

async fn one_level_at_a_time(tier: Arc<dyn Tier>) {
    for path in ["a", "b/c", "b/d/e", "b.txt"] {
        put(&*tier, path, "x").await;
    }
    assert_eq!(names(&*tier, "", b"", 100).await, [&b"a"[..], b"b", b"b.txt"]);
    assert_eq!(names(&*tier, "b", b"", 100).await, [&b"c"[..], b"d"]);
    assert_eq!(names(&*tier, "b/d", b"", 1).await, [b"e"]);
    let page = tier.list(&key(""), b"", None, 100).await.unwrap();
    let directory = page.entries.iter().find(|entry| entry.name == b"b").unwrap();
    assert_eq!(directory.object.kind, FileKind::Directory);
}

async fn a_listing_agrees_with_head(tier: Arc<dyn Tier>) {
    put(&*tier, "d/file", "12345").await;
    let page = tier.list(&key("d"), b"", None, 10).await.unwrap();
    let (listed, seen) = (&page.entries[0].object, head(&*tier, "d/file").await);
    assert_eq!((listed.kind, listed.size, &listed.version), (seen.kind, seen.size, &seen.version));
    assert_eq!((listed.modified, listed.attrs.mtime), (seen.modified, seen.attrs.mtime));
    assert_eq!((listed.attrs.mode, listed.attrs.uid), (seen.attrs.mode, seen.attrs.uid));
}

async fn a_prefix_narrows(tier: Arc<dyn Tier>) {
    for path in ["d/part-1", "d/part-2", "d/other", "d/part-dir/x"] {
        put(&*tier, path, "x").await;
    }
    assert_eq!(names(&*tier, "d", b"part-", 1).await, [&b"part-1"[..], b"part-2", b"part-dir"]);
    assert!(names(&*tier, "d", b"none", 10).await.is_empty());
}

async fn large_directories_come_in_pages(tier: Arc<dyn Tier>) {
    let mut expected: Vec<Vec<u8>> = (0..2_500).map(|i| format!("name-{i:05}").into_bytes()).collect();
    put_all(&tier, (0..2_500).map(|i| format!("large/name-{i:05}"))).await;
    expected.sort();
    let page = tier.list(&key("large"), b"", None, 100).await.unwrap();
    assert!(page.next.is_some() && page.entries.len() <= 200, "about 100, not {}", page.entries.len());
    for limit in [100, 1_000, 5_000] {
        assert!(names(&*tier, "large", b"", limit).await == expected, "pages of {limit}");
    }
}

async fn names_that_stay_are_told_once_while_others_come_and_go(tier: Arc<dyn Tier>) {
    put_all(&tier, (0..300).flat_map(|i| [format!("d/stay-{i:03}"), format!("d/go-{i:03}")])).await;
    let (mut seen, mut from, mut turn) = (Vec::new(), None, 0);
    loop {
        let page = tier.list(&key("d"), b"", from, 40).await.unwrap();
        seen.extend(page.entries.into_iter().map(|entry| entry.name));
        from = page.next;
        if from.is_none() {
            break;
        }
        if turn < 300 {
            tier.delete(&key(&format!("d/go-{turn:03}")), &Condition::Always).await.unwrap();
            put(&*tier, &format!("d/come-{turn:03}"), "x").await;
            turn += 1;
        }
    }
    let stayed: Vec<_> = seen.iter().filter(|name| name.starts_with(b"stay-")).collect();
    assert_eq!(stayed.iter().collect::<HashSet<_>>().len(), 300, "none missed");
    assert_eq!(stayed.len(), 300, "none twice");
}

async fn own_directory_is_hidden_at_the_root_only(tier: Arc<dyn Tier>) {
    put(&*tier, ".tierfs/hot/x", "x").await;
    put(&*tier, "d/.tierfs", "x").await;
    assert_eq!(names(&*tier, "", b"", 10).await, [b"d"]);
    assert!(names(&*tier, "", b".tier", 10).await.is_empty());
    assert_eq!(names(&*tier, "d", b"", 10).await, [b".tierfs"]);
    assert_eq!(names(&*tier, ".tierfs/hot", b"", 10).await, [b"x"]);
    assert_eq!(read(&*tier, ".tierfs/hot/x").await, b"x");
}

async fn a_directory_that_is_not_there(tier: Arc<dyn Tier>) {
    match tier.list(&key("no/such"), b"", None, 10).await {
        Ok(page) => assert!(page.entries.is_empty() && page.next.is_none()),
        Err(error) => assert_eq!(error.kind(), Kind::NotFound),
    }
}

async fn a_foreign_cursor_is_refused(tier: Arc<dyn Tier>) {
    put(&*tier, "d/f", "x").await;
    let cursor = tierfs::tier::Cursor("\u{1}no cursor".into());
    match tier.list(&key("d"), b"", Some(cursor), 10).await {
        // Some services take any text as a place to go on from.
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), Kind::Invalid),
    }
}
