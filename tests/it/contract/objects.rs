//! Bytes in, bytes out, and gone.

use super::*;
use tierfs::types::FileKind;

cases![
    put_then_head_and_read,
    a_put_replaces_as_a_whole,
    ranges_are_exact_and_clipped,
    empty_objects,
    what_is_not_there_is_not_found,
    a_read_of_another_version_is_changed,
    a_stream_never_mixes_versions,
    delete_removes,
    copy_is_equal_and_leaves_the_source,
    copy_of_another_version_is_changed,
    usage_and_probe_answer,
];

async fn put_then_head_and_read(tier: Arc<dyn Tier>) {
    let version = put(&*tier, "a/b/file", "hello").await;
    let object = head(&*tier, "a/b/file").await;
    assert_eq!((object.kind, object.size), (FileKind::Regular, 5));
    assert_eq!(object.version, version);
    assert_eq!(read(&*tier, "a/b/file").await, b"hello");
}

async fn a_put_replaces_as_a_whole(tier: Arc<dyn Tier>) {
    let first = put(&*tier, "f", "a longer first text").await;
    let second = put(&*tier, "f", "short").await;
    assert_ne!(first, second);
    assert_eq!(read(&*tier, "f").await, b"short");
    let third = put(&*tier, "f", "shorT").await;
    assert_ne!(second, third, "the same size is still another version");
}

async fn ranges_are_exact_and_clipped(tier: Arc<dyn Tier>) {
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
    let version = tier.put(&key("big"), bytes.clone().into(), &no_attrs(), &Condition::Always).await.unwrap();
    for range in [0..1, 0..3_000_000, 999_999..2_000_001, 2_999_999..3_000_000, 5..5] {
        let got = read_range(&*tier, "big", range.clone(), &version).await.unwrap();
        assert!(got == bytes[range.start as usize..range.end as usize], "{range:?}");
    }
    let tail = read_range(&*tier, "big", 2_999_990..9_000_000, &version).await.unwrap();
    assert_eq!(tail, bytes[2_999_990..]);
    assert_eq!(read_range(&*tier, "big", 4_000_000..4_000_001, &version).await.unwrap(), b"");
}

async fn empty_objects(tier: Arc<dyn Tier>) {
    let version = put(&*tier, "empty", "").await;
    assert_eq!(head(&*tier, "empty").await.size, 0);
    assert_eq!(read(&*tier, "empty").await, b"");
    assert_eq!(read_range(&*tier, "empty", 0..10, &version).await.unwrap(), b"");
}

async fn what_is_not_there_is_not_found(tier: Arc<dyn Tier>) {
    let version = put(&*tier, "here", "x").await;
    for path in ["gone", "no/such/dir/file", "here/below"] {
        assert_kind(tier.head(&key(path)).await, &[Kind::NotFound]);
        assert_kind(read_range(&*tier, path, 0..1, &version).await, &[Kind::NotFound]);
        assert_kind(tier.delete(&key(path), &Condition::Always).await, &[Kind::NotFound]);
        assert_kind(tier.set_attrs(&key(path), &version, &no_attrs()).await, &[Kind::NotFound]);
        let copied = tier.copy(&key(path), &version, &key("to"), &no_attrs(), &Condition::Always).await;
        assert_kind(copied, &[Kind::NotFound]);
    }
    assert_kind(tier.head(&key("to")).await, &[Kind::NotFound]);
}

async fn a_read_of_another_version_is_changed(tier: Arc<dyn Tier>) {
    let old = put(&*tier, "f", "one").await;
    put(&*tier, "f", "two").await;
    assert_kind(read_range(&*tier, "f", 0..3, &old).await, &[Kind::Changed]);
}

async fn a_stream_never_mixes_versions(tier: Arc<dyn Tier>) {
    let (old, new) = (vec![b'o'; 4 << 20], vec![b'n'; 4 << 20]);
    let version = tier.put(&key("f"), old.clone().into(), &no_attrs(), &Condition::Always).await.unwrap();
    let mut stream = tier.read(&key("f"), 0..4 << 20, &version).await.unwrap();
    let mut got = stream.next().await.unwrap().unwrap().to_vec();
    tier.put(&key("f"), new.into(), &no_attrs(), &Condition::Always).await.unwrap();
    let mut end = Ok(());
    while let Some(chunk) = stream.next().await {
        match chunk {
            Ok(bytes) => got.extend_from_slice(&bytes),
            Err(error) => end = Err(error),
        }
    }
    match end {
        Ok(()) => assert!(got == old, "a whole old version"),
        Err(error) => assert_eq!(error.kind(), Kind::Changed),
    }
    assert!(got.iter().all(|&byte| byte == b'o'), "never a byte of the new one");
}

async fn delete_removes(tier: Arc<dyn Tier>) {
    put(&*tier, "d/f", "x").await;
    tier.delete(&key("d/f"), &Condition::Always).await.unwrap();
    assert_kind(tier.head(&key("d/f")).await, &[Kind::NotFound]);
    assert_kind(tier.delete(&key("d/f"), &Condition::Always).await, &[Kind::NotFound]);
}

async fn copy_is_equal_and_leaves_the_source(tier: Arc<dyn Tier>) {
    let bytes = vec![7_u8; 2_500_000];
    let version =
        tier.put(&key("from"), bytes.clone().into(), &no_attrs(), &Condition::Always).await.unwrap();
    let copied = tier.copy(&key("from"), &version, &key("new/to"), &write_id("w"), &Condition::Absent).await;
    match copied {
        Err(error) => assert_eq!(error.kind(), Kind::Unsupported),
        Ok(copied) => {
            assert_eq!(head(&*tier, "new/to").await.version, copied);
            assert!(read(&*tier, "new/to").await == bytes);
            assert!(read(&*tier, "from").await == bytes);
            let attrs = no_attrs();
            let again = tier.copy(&key("from"), &version, &key("new/to"), &attrs, &Condition::Absent).await;
            assert_kind(again, &[Kind::Exists]);
        }
    }
}

async fn copy_of_another_version_is_changed(tier: Arc<dyn Tier>) {
    let old = put(&*tier, "from", "one").await;
    put(&*tier, "from", "two").await;
    let copied = tier.copy(&key("from"), &old, &key("to"), &no_attrs(), &Condition::Always).await;
    assert_kind(copied, &[Kind::Changed, Kind::Unsupported]);
    assert_kind(tier.head(&key("to")).await, &[Kind::NotFound]);
}

async fn usage_and_probe_answer(tier: Arc<dyn Tier>) {
    tier.probe().await.unwrap();
    let usage = tier.usage().await.unwrap();
    assert!(usage.total > 0 && usage.free <= usage.total, "{usage:?}");
}
