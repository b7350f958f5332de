//! What the decorators do, beyond staying out of the way.

use super::*;
use futures::StreamExt;
use tierfs::error::Result;
use tierfs::tier::{Fault, Gate, Operation, Rate};
use tierfs::types::{Attrs, Condition, Key, Version};
use tokio::time::Instant;

fn key() -> Key {
    Key::parse("dir/file").expect("a key")
}

fn by(id: &str) -> Attrs {
    Attrs { write_id: Some(id.into()), ..Attrs::default() }
}

async fn put(tier: &dyn Tier, text: &'static str, attrs: &Attrs, condition: Condition) -> Result<Version> {
    tier.put(&key(), text.into(), attrs, &condition).await
}

async fn read(tier: &dyn Tier) -> Result<Vec<u8>> {
    let object = tier.head(&key()).await?;
    let mut stream = tier.read(&key(), 0..object.size, &object.version).await?;
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk?);
    }
    Ok(bytes)
}

/// A memory tier that fails as scripted, and the same behind retries.
fn rig() -> (Faults, Arc<dyn Tier>, Arc<dyn Tier>) {
    rig_with(RetryPolicy::default())
}

fn rig_with(policy: RetryPolicy) -> (Faults, Arc<dyn Tier>, Arc<dyn Tier>) {
    let (faults, plain) = (Faults::default(), tiers::memory().tier);
    let tier = Retry::new(policy).over(faults.layer().over(Arc::clone(&plain)));
    (faults, plain, tier)
}

#[tokio::test(start_paused = true)]
async fn transient_failures_are_tried_again() {
    let (faults, _, tier) = rig();
    put(&*tier, "text", &by("w"), Condition::Absent).await.unwrap();
    faults.script(None, 0, 5, Fault::FailBefore(Kind::Unavailable));
    assert_eq!(read(&*tier).await.unwrap(), b"text");
    assert_eq!(faults.struck(), 5);
}

#[tokio::test(start_paused = true)]
async fn what_will_not_get_better_is_not_tried_again() {
    let (faults, _, tier) = rig();
    for kind in [Kind::NotFound, Kind::Denied, Kind::Refused, Kind::Absent, Kind::NoSpace, Kind::Changed] {
        faults.clear();
        let before = faults.struck();
        faults.always(None, Fault::FailBefore(kind));
        assert_eq!(tier.head(&key()).await.unwrap_err().kind(), kind);
        assert_eq!(faults.struck() - before, 1, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_ends_it_and_nothing_becomes_an_absence() {
    let (faults, _, tier) = rig();
    faults.always(None, Fault::FailBefore(Kind::Unavailable));
    let began = Instant::now();
    let error = tier.head(&key()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    let deadline = RetryPolicy::default().deadline;
    assert!(began.elapsed() <= deadline && began.elapsed() > deadline / 2, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_is_timed_out() {
    let (faults, _, tier) = rig();
    faults.always(Operation::Head, Fault::Hang(Gate::default()));
    assert_eq!(tier.head(&key()).await.unwrap_err().kind(), Kind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn the_hint_of_the_tier_is_honoured() {
    let (faults, _, tier) = rig();
    faults.once(Operation::Usage, Fault::Throttle(Duration::from_secs(7)));
    let began = Instant::now();
    tier.usage().await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(7));
}

#[tokio::test(start_paused = true)]
async fn a_write_with_an_id_whose_reply_is_lost_is_recognised() {
    let (faults, plain, tier) = rig();
    faults.once(Operation::Put, Fault::FailAfter(Kind::TimedOut));
    let version = put(&*tier, "text", &by("mine"), Condition::Absent).await.unwrap();
    assert_eq!(plain.head(&key()).await.unwrap().version, version);
    faults.once(Operation::Put, Fault::FailAfter(Kind::TimedOut));
    put(&*tier, "more", &by("mine too"), Condition::Matches(version)).await.unwrap();
    faults.once(Operation::Commit, Fault::FailAfter(Kind::TimedOut));
    let version = plain.head(&key()).await.unwrap().version;
    let upload = tier.upload(&key(), 4).await.unwrap();
    upload.put_block(0, "last".into()).await.unwrap();
    upload.commit(1, &by("third"), &Condition::Matches(version)).await.unwrap();
    assert_eq!((read(&*plain).await.unwrap(), faults.struck()), (b"last".to_vec(), 3));
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_id_whose_reply_is_lost_is_passed_up() {
    let (faults, plain, tier) = rig();
    faults.once(Operation::Put, Fault::FailAfter(Kind::TimedOut));
    let error = put(&*tier, "text", &Attrs::default(), Condition::Absent).await.unwrap_err();
    assert_eq!(error.kind(), Kind::TimedOut);
    faults.once(Operation::Delete, Fault::FailAfter(Kind::TimedOut));
    let error = tier.delete(&key(), &Condition::Always).await.unwrap_err();
    assert_eq!((error.kind(), faults.struck()), (Kind::TimedOut, 2));
    assert_eq!(plain.head(&key()).await.unwrap_err().kind(), Kind::NotFound);
}

/// The reply is lost, another writer comes, we try again: its work stays and we hear of it.
#[tokio::test(start_paused = true)]
async fn another_writer_between_two_tries_is_not_overwritten() {
    let (faults, plain, tier) = rig();
    let gate = Gate::default();
    faults.script(Operation::Put, 0, 1, Fault::FailAfter(Kind::TimedOut));
    faults.script(Operation::Put, 0, 1, Fault::Hang(gate.clone()));
    let ours = tokio::spawn(async move { put(&*tier, "ours", &by("ours"), Condition::Absent).await });
    gate.reached(1).await;
    put(&*plain, "theirs", &by("theirs"), Condition::Always).await.unwrap();
    gate.open();
    assert_eq!(ours.await.unwrap().unwrap_err().kind(), Kind::Exists);
    assert_eq!(read(&*plain).await.unwrap(), b"theirs");
}

#[tokio::test(start_paused = true)]
async fn a_conditional_delete_whose_reply_is_lost_is_done() {
    let (faults, _, tier) = rig();
    let version = put(&*tier, "text", &by("w"), Condition::Absent).await.unwrap();
    faults.once(Operation::Delete, Fault::FailAfter(Kind::Unavailable));
    tier.delete(&key(), &Condition::Matches(version.clone())).await.unwrap();
    let again = tier.delete(&key(), &Condition::Matches(version)).await;
    assert_eq!(again.unwrap_err().kind(), Kind::NotFound, "the first answer is told as it is");
}

#[tokio::test(start_paused = true)]
async fn a_stream_goes_on_where_it_broke_off() {
    let (faults, _, tier) = rig();
    let bytes: Vec<u8> = (0..300_000_u32).map(|i| (i % 251) as u8).collect();
    tier.put(&key(), bytes.clone().into(), &by("w"), &Condition::Absent).await.unwrap();
    for after in [0, 1, 16_384, 100_000, 250_000] {
        faults.once(Operation::Read, Fault::Cut(after, Kind::Unavailable));
    }
    assert!(read(&*tier).await.unwrap() == bytes);
    assert_eq!(faults.struck(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_stream_does_not_go_on_in_another_version() {
    let (faults, plain, tier) = rig();
    let version = tier.put(&key(), vec![1; 100_000].into(), &by("w"), &Condition::Absent).await.unwrap();
    faults.once(Operation::Read, Fault::Cut(50_000, Kind::Unavailable));
    let stream = tier.read(&key(), 0..100_000, &version).await.unwrap();
    plain.put(&key(), vec![2; 100_000].into(), &by("x"), &Condition::Always).await.unwrap();
    let chunks: Vec<_> = stream.collect().await;
    assert_eq!(chunks.last().unwrap().as_ref().unwrap_err().kind(), Kind::Changed);
    assert!(chunks.iter().flatten().flatten().all(|&byte| byte == 1));
}

#[tokio::test(start_paused = true)]
async fn a_sick_tier_is_left_alone_and_found_well_again() {
    let policy = RetryPolicy { trip_after: 5, ..RetryPolicy::default() };
    let (faults, retry) = (Faults::default(), Retry::new(policy));
    let breaker = retry.breaker();
    let tier = retry.over(faults.layer().over(tiers::memory().tier));
    faults.always(None, Fault::FailBefore(Kind::Unavailable));
    while !breaker.is_open() {
        tier.usage().await.unwrap_err();
    }
    let (struck, began) = (faults.struck(), Instant::now());
    for _ in 0..100 {
        assert_eq!(tier.usage().await.unwrap_err().kind(), Kind::Unavailable);
    }
    assert_eq!((faults.struck(), began.elapsed()), (struck, Duration::ZERO), "at once, and nobody asked");
    faults.clear();
    tokio::time::advance(policy.trial_every).await;
    tier.usage().await.unwrap();
    assert!(!breaker.is_open());
}

#[tokio::test]
async fn no_more_calls_at_a_time_than_allowed() {
    let (faults, gate) = (Faults::default(), Gate::default());
    let meter = Arc::new(TierMeter::default());
    faults.always(Operation::Usage, Fault::Hang(gate.clone()));
    let inner = Meter::new(Arc::clone(&meter)).over(faults.layer().over(tiers::memory().tier));
    let tier = limited(3).over(inner);
    let calls: Vec<_> = (0..10)
        .map(|_| {
            let tier = Arc::clone(&tier);
            tokio::spawn(async move { tier.usage().await })
        })
        .collect();
    gate.reached(3).await;
    // All ten have run as far as they can before this task runs again.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(faults.struck(), 3);
    gate.open();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(meter.counts(Operation::Usage).calls, 10);
}

#[tokio::test]
async fn streams_taken_in_turn_do_not_lock_each_other_out() {
    let tier = limited(1).over(tiers::memory().tier);
    let version = tier.put(&key(), vec![1; 100_000].into(), &by("w"), &Condition::Absent).await.unwrap();
    let mut one = tier.read(&key(), 0..100_000, &version).await.unwrap();
    let mut two = tier.read(&key(), 0..100_000, &version).await.unwrap();
    while let (Some(a), Some(b)) = (one.next().await, two.next().await) {
        assert_eq!(a.unwrap(), b.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn uploads_keep_the_rate() {
    let limits = Limits { calls: NonZeroUsize::MIN, upload_rate: Rate::new(NonZeroU64::new(1_000_000)) };
    let tier = Limit::new(limits).over(tiers::memory().tier);
    let began = Instant::now();
    let upload = tier.upload(&key(), 0).await.unwrap();
    for index in 0..100 {
        upload.put_block(index, vec![0; 60_000].into()).await.unwrap();
    }
    upload.commit(100, &by("w"), &Condition::Absent).await.unwrap();
    let seconds = began.elapsed().as_secs_f64();
    assert!((4.8..=5.0).contains(&seconds), "6 MB at 1 MB/s, a second of it on credit: {seconds}");
    read(&*tier).await.unwrap();
    assert!(began.elapsed().as_secs_f64() - seconds < 0.01, "reads don't pay");
}

#[tokio::test(start_paused = true)]
async fn the_meter_counts() {
    let meter = Arc::new(TierMeter::default());
    let faults = Faults::default();
    let tier = Meter::new(Arc::clone(&meter)).over(faults.layer().over(tiers::memory().tier));
    put(&*tier, "12345", &by("w"), Condition::Absent).await.unwrap();
    put(&*tier, "1234567", &by("w"), Condition::Absent).await.unwrap_err();
    faults.once(Operation::Head, Fault::Delay(Duration::from_millis(3)));
    read(&*tier).await.unwrap();
    let (puts, heads) = (meter.counts(Operation::Put), meter.counts(Operation::Head));
    assert_eq!((puts.calls, puts.errors, heads.calls, heads.errors), (2, 1, 1, 0));
    assert_eq!((meter.bytes_written(), meter.bytes_read()), (5, 5));
    assert_eq!((heads.total.as_millis(), heads.buckets[12]), (3, 1), "3 ms is below 2^12 µs");
    assert_eq!(meter.all().len(), 3, "put, head and read");
    faults.once(Operation::Read, Fault::Cut(0, Kind::Unavailable));
    read(&*tier).await.unwrap_err();
    assert_eq!(meter.counts(Operation::Read).errors, 1);
}

#[tokio::test]
async fn the_same_seed_fails_alike() {
    let outcomes = async |seed| {
        let faults = Faults::default();
        faults.seeded(seed, 0.5, Kind::Unavailable);
        let tier = faults.layer().over(tiers::memory().tier);
        let mut outcomes = Vec::new();
        for _ in 0..64 {
            outcomes.push(tier.usage().await.is_ok());
        }
        outcomes
    };
    assert_eq!(outcomes(1).await, outcomes(1).await);
    assert_ne!(outcomes(1).await, outcomes(2).await);
}

/// Every fifth call fails, before or after it was applied: behind retries nothing of that shows.
#[tokio::test(start_paused = true)]
async fn a_failing_tier_behind_retries_is_as_good_as_any() {
    for seed in 0..20 {
        let (faults, plain, tier) = rig();
        faults.seeded(seed, 0.2, Kind::Unavailable);
        let files = (0..20).map(|i| Key::parse(format!("d/{i:02}")).expect("a key"));
        for key in files.clone() {
            let attrs = by(&format!("{key}"));
            let upload = tier.upload(&key, 3).await.unwrap();
            upload.put_block(0, "one".into()).await.unwrap();
            let version = upload.commit(1, &attrs, &Condition::Absent).await.unwrap();
            let attrs = by(&format!("{key} again"));
            tier.put(&key, "two".into(), &attrs, &Condition::Matches(version)).await.unwrap();
        }
        let dir = Key::parse("d").unwrap();
        assert_eq!(tier.list(&dir, b"", None, 100).await.unwrap().entries.len(), 20);
        for key in files {
            let version = tier.head(&key).await.unwrap().version;
            let chunks: Vec<_> = tier.read(&key, 0..3, &version).await.unwrap().collect().await;
            assert_eq!(chunks[0].as_ref().unwrap(), "two");
            tier.delete(&key, &Condition::Matches(version)).await.unwrap();
        }
        assert!(plain.list(&dir, b"", None, 100).await.unwrap().entries.is_empty());
        assert!(faults.struck() > 20);
    }
}
