//! No write, delete or copy happens to a version that the caller does not know.

use super::*;
use crate::support::blob_server::BlobServer;
use std::collections::BTreeMap;
use tierfs::tier::ContentId;

#[tokio::test]
async fn puts_and_deletes_ask_first() {
    let tier = Container::create().await.tier("");
    let put_if = |text: &'static str, condition| {
        let tier = &tier;
        async move { tier.put(&key("f"), Bytes::from(text), &Attrs::default(), &condition).await }
    };
    let none = Condition::Matches(Version::new("0x8D000000000000"));
    assert_eq!(kind(put_if("0", none.clone()).await), Kind::Changed);
    let one = put_if("1", Condition::Absent).await.unwrap();
    assert_eq!(kind(put_if("x", Condition::Absent).await), Kind::Exists);
    let two = put_if("2", Condition::Matches(one.clone())).await.unwrap();
    assert_eq!(kind(put_if("x", Condition::Matches(one.clone())).await), Kind::Changed);
    assert_eq!(content(&*tier, "f").await, b"2");
    assert_eq!(kind(read(&*tier, "f", 0..1, &one).await), Kind::Changed);
    assert_eq!(kind(tier.delete(&key("f"), &Condition::Matches(one)).await), Kind::Changed);
    tier.delete(&key("f"), &Condition::Matches(two.clone())).await.unwrap();
    assert_eq!(kind(tier.delete(&key("f"), &Condition::Matches(two.clone())).await), Kind::NotFound);
    assert_eq!(kind(read(&*tier, "f", 0..1, &two).await), Kind::NotFound);
}

#[tokio::test]
async fn an_outside_change_of_equal_size_is_another_version() {
    let container = Container::create().await;
    let tier = container.tier("");
    let mut last = None;
    for at in 0..5 {
        container.put("f", format!("foo{at:04}\n").as_bytes(), &[]).await;
        let object = tier.head(&key("f")).await.unwrap();
        if let Some(old) = last.replace(object.version.clone()) {
            assert_eq!(kind(read(&*tier, "f", 0..8, &old).await), Kind::Changed);
        }
        let now = read(&*tier, "f", 0..8, &object.version).await.unwrap();
        assert_eq!(now, format!("foo{at:04}\n").as_bytes());
    }
}

#[tokio::test]
async fn blocks_are_invisible_until_committed() {
    let container = Container::create().await;
    let tier = container.tier("");
    let upload = tier.upload(&key("f"), 20 << 20).await.unwrap();
    let size = upload.block_size() as usize;
    assert_eq!(size, 8 << 20);
    let all = bytes(2 * size + 5);
    upload.put_block(2, all.slice(2 * size..)).await.unwrap();
    upload.put_block(0, bytes(3)).await.unwrap();
    upload.put_block(0, all.slice(..size)).await.unwrap();
    upload.put_block(1, all.slice(size..2 * size)).await.unwrap();
    assert_eq!(kind(tier.head(&key("f")).await), Kind::NotFound);
    assert_eq!(list(&*tier, "", 10).await.0.len(), 0);
    let version = upload.commit(3, &written_by("w1"), &Condition::Absent).await.unwrap();
    let object = tier.head(&key("f")).await.unwrap();
    assert_eq!((object.size, &object.version), (all.len() as u64, &version));
    assert_eq!(object.attrs, written_by("w1"));
    assert!(container.get("f").await.unwrap().body == all);
    // The reply was lost, so the caller asks again: it was us.
    assert_eq!(upload.commit(3, &written_by("w1"), &Condition::Absent).await.unwrap(), version);
}

#[tokio::test]
async fn an_upload_takes_up_the_blocks_of_an_earlier_one() {
    let server = BlobServer::start();
    for container in [Container::create().await, Container::create_at(&server.service()).await] {
        let tier = container.tier("");
        let all = bytes((24 << 20) + 5);
        let (ours, theirs) = (ContentId([1; 16]), ContentId([2; 16]));
        let begin = async |content| {
            let upload = tier.upload(&key("f"), all.len() as u64).await.unwrap();
            let there = upload.resume(content).await.unwrap();
            (upload, there)
        };
        let (first, there) = begin(ours).await;
        assert!(there.is_empty());
        for index in [2, 0] {
            first
                .put_block(index, all.slice((index as usize) << 23..(index as usize + 1) << 23))
                .await
                .unwrap();
        }
        assert!(begin(theirs).await.1.is_empty(), "of other bytes nothing is there");
        let (second, there) = begin(ours).await;
        assert_eq!(there, BTreeMap::from([(0, 8 << 20), (2, 8 << 20)]));
        second.put_block(1, all.slice(8 << 20..16 << 20)).await.unwrap();
        second.put_block(3, all.slice(24 << 20..)).await.unwrap();
        second.commit(4, &written_by("w"), &Condition::Absent).await.unwrap();
        assert!(container.get("f").await.unwrap().body == all);
        assert!(begin(ours).await.1.is_empty(), "a commit uses up what was sent");
    }
}

#[tokio::test]
async fn of_two_uploads_the_second_is_refused() {
    let container = Container::create().await;
    let tier = container.tier("");
    let size = 9 << 20;
    let (one, two) =
        (tier.upload(&key("f"), size).await.unwrap(), tier.upload(&key("f"), size).await.unwrap());
    for (upload, fill) in [(&one, 1u8), (&two, 2)] {
        upload.put_block(0, vec![fill; 8 << 20].into()).await.unwrap();
        upload.put_block(1, vec![fill; 1 << 20].into()).await.unwrap();
    }
    let first = one.commit(2, &written_by("one"), &Condition::Absent).await.unwrap();
    assert_eq!(kind(two.commit(2, &written_by("two"), &Condition::Absent).await), Kind::Exists);
    let stale = Condition::Matches(Version::new("0x8D000000000000"));
    assert_eq!(kind(two.commit(2, &written_by("two"), &stale).await), Kind::Changed);
    assert!(container.get("f").await.unwrap().body == vec![1; size as usize]);
    // Nothing is in the way, but the blocks went with the first commit: it is to start again, not to give up.
    let again = two.commit(2, &written_by("two"), &Condition::Matches(first)).await;
    assert!(again.is_ok() || kind(again) == Kind::Unavailable);
}

#[tokio::test]
async fn a_small_upload_is_one_request_and_as_careful() {
    let tier = Container::create().await.tier("");
    let upload = tier.upload(&key("f"), 5).await.unwrap();
    upload.put_block(0, Bytes::from_static(b"hello")).await.unwrap();
    let version = upload.commit(1, &written_by("w1"), &Condition::Absent).await.unwrap();
    assert_eq!(upload.commit(1, &written_by("w1"), &Condition::Absent).await.unwrap(), version);
    assert_eq!(kind(upload.commit(1, &written_by("w2"), &Condition::Absent).await), Kind::Exists);
    assert_eq!(content(&*tier, "f").await, b"hello");
    // It grew after it was announced.
    let upload = tier.upload(&key("g"), 5).await.unwrap();
    upload.put_block(0, bytes(8 << 20)).await.unwrap();
    upload.put_block(1, Bytes::from_static(b"more")).await.unwrap();
    upload.commit(2, &Attrs::default(), &Condition::Absent).await.unwrap();
    assert_eq!(tier.head(&key("g")).await.unwrap().size, (8 << 20) + 4);
    let empty = tier.upload(&key("e"), 0).await.unwrap();
    empty.commit(0, &written_by("e"), &Condition::Absent).await.unwrap();
    assert_eq!(tier.head(&key("e")).await.unwrap().size, 0);
}

#[tokio::test]
async fn copies_are_whole_and_conditional() {
    let container = Container::create().await;
    let tier = container.tier("p");
    let all = bytes((65 << 20) + 7);
    container.put("p/big%20%23", &all, &[("ftype", "REG"), ("owner", "9")]).await;
    container.put("p/none", b"", &[]).await;
    let big = tier.head(&key("big #")).await.unwrap().version;
    let copy = |id: &'static str, from: &'static str, version: Version, to: &'static str, condition| {
        let tier = &tier;
        async move { tier.copy(&key(from), &version, &key(to), &written_by(id), &condition).await }
    };
    let stale = Version::new("0x8D000000000000");
    assert_eq!(kind(copy("0", "big #", stale.clone(), "to", Condition::Absent).await), Kind::Changed);
    let made = copy("1", "big #", big.clone(), "to é", Condition::Absent).await.unwrap();
    let object = tier.head(&key("to é")).await.unwrap();
    assert_eq!((object.version, object.attrs), (made.clone(), written_by("1")));
    let seen = container.get("p/to%20%C3%A9").await.unwrap();
    assert!(seen.body == all);
    assert_eq!(seen.headers["x-ms-meta-ftype"], "REG");
    let none = tier.head(&key("none")).await.unwrap().version;
    assert_eq!(kind(copy("2", "none", none.clone(), "to é", Condition::Matches(stale)).await), Kind::Changed);
    copy("3", "none", none, "to é", Condition::Matches(made)).await.unwrap();
    assert_eq!(tier.head(&key("to é")).await.unwrap().size, 0);
    assert_eq!(kind(copy("4", "gone", big, "x", Condition::Absent).await), Kind::NotFound);
}
