//! Conditions hold or nothing changes.

use super::*;
use tierfs::tier::Special;

cases![
    absent,
    matches,
    matches_what_is_gone,
    deletes_take_conditions,
    copies_take_conditions,
    specials_take_conditions
];

async fn absent(tier: Arc<dyn Tier>) {
    let first = tier.put(&key("f"), "1".into(), &no_attrs(), &Condition::Absent).await.unwrap();
    assert_kind(tier.put(&key("f"), "2".into(), &no_attrs(), &Condition::Absent).await, &[Kind::Exists]);
    assert_eq!(read(&*tier, "f").await, b"1");
    assert_eq!(head(&*tier, "f").await.version, first);
}

async fn matches(tier: Arc<dyn Tier>) {
    let old = put(&*tier, "f", "1").await;
    let new = tier.put(&key("f"), "2".into(), &no_attrs(), &Condition::Matches(old.clone())).await.unwrap();
    let stale = tier.put(&key("f"), "3".into(), &no_attrs(), &Condition::Matches(old)).await;
    assert_kind(stale, &[Kind::Changed]);
    assert_eq!(read(&*tier, "f").await, b"2");
    assert_eq!(head(&*tier, "f").await.version, new);
}

async fn matches_what_is_gone(tier: Arc<dyn Tier>) {
    let old = put(&*tier, "f", "1").await;
    tier.delete(&key("f"), &Condition::Always).await.unwrap();
    let stale = tier.put(&key("f"), "3".into(), &no_attrs(), &Condition::Matches(old.clone())).await;
    assert_kind(stale, &[Kind::Changed]);
    assert_kind(tier.delete(&key("f"), &Condition::Matches(old)).await, &[Kind::NotFound]);
    assert_kind(tier.head(&key("f")).await, &[Kind::NotFound]);
}

async fn deletes_take_conditions(tier: Arc<dyn Tier>) {
    let old = put(&*tier, "f", "1").await;
    let new = put(&*tier, "f", "2").await;
    assert_kind(tier.delete(&key("f"), &Condition::Matches(old)).await, &[Kind::Changed]);
    assert_eq!(read(&*tier, "f").await, b"2");
    tier.delete(&key("f"), &Condition::Matches(new)).await.unwrap();
    assert_kind(tier.head(&key("f")).await, &[Kind::NotFound]);
}

async fn copies_take_conditions(tier: Arc<dyn Tier>) {
    let from = put(&*tier, "from", "source").await;
    let old = put(&*tier, "to", "1").await;
    let new = put(&*tier, "to", "2").await;
    let copy = |condition| {
        let (tier, from) = (Arc::clone(&tier), from.clone());
        async move { tier.copy(&key("from"), &from, &key("to"), &no_attrs(), &condition).await }
    };
    assert_kind(copy(Condition::Matches(old)).await, &[Kind::Changed, Kind::Unsupported]);
    assert_eq!(read(&*tier, "to").await, b"2");
    match copy(Condition::Matches(new)).await {
        Ok(_) => assert_eq!(read(&*tier, "to").await, b"source"),
        Err(error) => assert_eq!(error.kind(), Kind::Unsupported),
    }
}

async fn specials_take_conditions(tier: Arc<dyn Tier>) {
    put(&*tier, "f", "1").await;
    for special in [Special::Directory, Special::Symlink(b"to".to_vec())] {
        let made = tier.put_special(&key("f"), &special, &no_attrs(), &Condition::Absent).await;
        assert_kind(made, &[Kind::Exists, Kind::Unsupported]);
    }
    assert_eq!(read(&*tier, "f").await, b"1");
}
