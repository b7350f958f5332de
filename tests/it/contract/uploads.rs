//! Uploads: invisible until committed, in any order, once.

use super::*;
use bytes::Bytes;
use tierfs::tier::Upload;

cases![
    blocks_in_any_order,
    invisible_until_committed,
    dropped_leaves_nothing,
    a_block_can_be_sent_again,
    no_blocks_make_an_empty_object,
    a_missing_block_is_refused,
    a_commit_can_be_repeated,
    a_repeated_commit_after_another_write_is_no_success,
    the_condition_of_a_commit_holds,
    two_uploads_to_one_key,
];

/// Content of block `index`.
fn block(upload: &dyn Upload, index: u64) -> Bytes {
    vec![b'a' + (index % 26) as u8; upload.block_size() as usize].into()
}

async fn send(upload: &dyn Upload, text: &str) {
    upload.put_block(0, text.as_bytes().to_vec().into()).await.unwrap();
}

async fn blocks_in_any_order(tier: Arc<dyn Tier>) {
    let upload = tier.upload(&key("dir/up"), 20 << 20).await.unwrap();
    let (zero, one) = (block(&*upload, 0), block(&*upload, 1));
    upload.put_block(2, "tail".into()).await.unwrap();
    let (a, b) = futures::join!(upload.put_block(0, zero.clone()), upload.put_block(1, one.clone()));
    a.and(b).unwrap();
    let version = upload.commit(3, &write_id("w1"), &Condition::Absent).await.unwrap();
    let whole = [&zero[..], &one, b"tail"].concat();
    assert_eq!(head(&*tier, "dir/up").await.version, version);
    assert!(read(&*tier, "dir/up").await == whole);
}

async fn invisible_until_committed(tier: Arc<dyn Tier>) {
    let upload = tier.upload(&key("up"), 3).await.unwrap();
    send(&*upload, "new").await;
    assert_kind(tier.head(&key("up")).await, &[Kind::NotFound]);
    assert!(names(&*tier, "", b"", 10).await.is_empty());
    upload.commit(1, &no_attrs(), &Condition::Always).await.unwrap();
    assert_eq!(read(&*tier, "up").await, b"new");
}

async fn dropped_leaves_nothing(tier: Arc<dyn Tier>) {
    put(&*tier, "up", "old").await;
    let upload = tier.upload(&key("up"), 3).await.unwrap();
    send(&*upload, "new").await;
    drop(upload);
    assert_eq!(read(&*tier, "up").await, b"old");
    assert_eq!(names(&*tier, "", b"", 10).await, [b"up"]);
}

async fn a_block_can_be_sent_again(tier: Arc<dyn Tier>) {
    let upload = tier.upload(&key("up"), 10).await.unwrap();
    send(&*upload, "the first try").await;
    send(&*upload, "second").await;
    upload.commit(1, &no_attrs(), &Condition::Always).await.unwrap();
    assert_eq!(read(&*tier, "up").await, b"second");
}

async fn no_blocks_make_an_empty_object(tier: Arc<dyn Tier>) {
    let upload = tier.upload(&key("up"), 0).await.unwrap();
    upload.commit(0, &no_attrs(), &Condition::Absent).await.unwrap();
    assert_eq!(read(&*tier, "up").await, b"");
}

async fn a_missing_block_is_refused(tier: Arc<dyn Tier>) {
    let upload = tier.upload(&key("up"), 10).await.unwrap();
    send(&*upload, "x").await;
    assert_kind(upload.commit(2, &no_attrs(), &Condition::Always).await, &[Kind::Invalid, Kind::Refused]);
    assert_kind(tier.head(&key("up")).await, &[Kind::NotFound]);
}

async fn a_commit_can_be_repeated(tier: Arc<dyn Tier>) {
    for condition in [Condition::Absent, Condition::Always] {
        let upload = tier.upload(&key("up"), 3).await.unwrap();
        send(&*upload, "new").await;
        let attrs = write_id("mine");
        let version = upload.commit(1, &attrs, &condition).await.unwrap();
        let again = upload.commit(1, &attrs, &condition).await.unwrap();
        assert_eq!(head(&*tier, "up").await.version, again);
        assert!(version == again || condition == Condition::Always);
        assert_eq!(read(&*tier, "up").await, b"new");
    }
}

async fn a_repeated_commit_after_another_write_is_no_success(tier: Arc<dyn Tier>) {
    let upload = tier.upload(&key("up"), 3).await.unwrap();
    send(&*upload, "new").await;
    upload.commit(1, &write_id("mine"), &Condition::Absent).await.unwrap();
    put(&*tier, "up", "theirs").await;
    let again = upload.commit(1, &write_id("mine"), &Condition::Absent).await;
    assert_kind(again, &[Kind::Exists, Kind::Changed]);
    assert_eq!(read(&*tier, "up").await, b"theirs");
}

async fn the_condition_of_a_commit_holds(tier: Arc<dyn Tier>) {
    let old = put(&*tier, "up", "1").await;
    let upload = tier.upload(&key("up"), 3).await.unwrap();
    send(&*upload, "new").await;
    let now = put(&*tier, "up", "2").await;
    assert_kind(upload.commit(1, &write_id("w"), &Condition::Absent).await, &[Kind::Exists]);
    assert_kind(upload.commit(1, &write_id("w"), &Condition::Matches(old)).await, &[Kind::Changed]);
    assert_eq!(read(&*tier, "up").await, b"2");
    upload.commit(1, &write_id("w"), &Condition::Matches(now)).await.unwrap();
    assert_eq!(read(&*tier, "up").await, b"new");
}

async fn two_uploads_to_one_key(tier: Arc<dyn Tier>) {
    let (one, two) = (tier.upload(&key("up"), 3).await.unwrap(), tier.upload(&key("up"), 3).await.unwrap());
    send(&*one, "one").await;
    send(&*two, "two").await;
    one.commit(1, &write_id("one"), &Condition::Absent).await.unwrap();
    let second = two.commit(1, &write_id("two"), &Condition::Absent).await;
    assert_kind(second, &[Kind::Exists, Kind::Changed]);
    assert_eq!(read(&*tier, "up").await, b"one");
}
