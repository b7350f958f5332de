//! The contract over every tier of this crate, plain and decorated.

mod absence;
mod decorators;

use crate::contract;
use crate::support::poor::{Attributes, Grain, Manners, PoorShare};
use crate::support::tiers;
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tierfs::error::Kind;
use tierfs::tier::{
    DirectoryTier, Faults, Layer, Limit, Limits, Meter, Rate, Restricted, Retry, RetryPolicy, Tier, TierMeter,
};

type Decorate = fn(Arc<dyn Tier>) -> Arc<dyn Tier>;

/// Runs the contract over a directory (with its resident part) and over memory, each decorated.
async fn decorated(around: Decorate) {
    contract::run(|| async { tiers::memory().map(around) }).await;
    contract::run(|| async { tiers::fast_directory().map(around) }).await;
    contract::run_resident(|| async { tiers::fast_directory().map(around) }).await;
}

fn retrying() -> Retry {
    let millisecond = Duration::from_millis(1);
    Retry::new(RetryPolicy { first_pause: millisecond, longest_pause: millisecond, ..RetryPolicy::default() })
}

fn limited(calls: usize) -> Limit {
    let calls = NonZeroUsize::new(calls).expect("some");
    Limit::new(Limits { calls, upload_rate: Rate::new(NonZeroU64::new(1 << 40)) })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_keeps_the_contract() {
    contract::run(|| async { tiers::memory() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directory_keeps_the_contract() {
    contract::run(|| async { tiers::fast_directory() }).await;
    contract::run_resident(|| async { tiers::fast_directory() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directory_on_disk_keeps_the_contract() {
    contract::run_small(|| async { tiers::directory() }).await;
    contract::run_resident(|| async { tiers::directory() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_keeps_the_contract() {
    decorated(|tier| retrying().over(tier)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limit_keeps_the_contract() {
    decorated(|tier| limited(2).over(tier)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn meter_keeps_the_contract() {
    decorated(|tier| Meter::new(Arc::new(TierMeter::default())).over(tier)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_without_faults_keeps_the_contract() {
    decorated(|tier| Faults::default().layer().over(tier)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restricted_keeps_the_contract() {
    decorated(|tier| Arc::new(Restricted::new(tier))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_stack_keeps_the_contract() {
    decorated(|tier| {
        let inner = Meter::new(Arc::default()).over(Arc::new(Restricted::new(tier)));
        limited(4).over(retrying().over(inner))
    })
    .await;
}

/// A directory tier on a share of each kind, every subject in a directory of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directory_on_a_poor_share_keeps_the_contract() {
    let fine = Manners { attributes: Attributes::Refused, grain: Grain::Tick, ..Manners::default() };
    for manners in [Manners::default(), fine, Manners { stale_every: 7, ..fine }] {
        let place = tempfile::tempdir_in(tiers::memory_dir()).expect("a temporary directory");
        let path = place.path().join("share");
        std::fs::create_dir(&path).expect("mkdir");
        let share = PoorShare::at(&path, manners);
        let made = AtomicU32::new(0);
        let subject = || async {
            let name = made.fetch_add(1, Ordering::Relaxed).to_string();
            std::fs::create_dir(share.behind(&name)).expect("mkdir");
            let root = path.join(name);
            let tier = DirectoryTier::open(tiers::options(&root), tiers::clock()).expect("a tier");
            let can = tier.capabilities();
            assert!(!(can.owner_and_mode || can.hard_links || can.xattrs || can.special_files));
            assert!(!(can.case_sensitive || can.any_name) && can.writable && can.symlinks);
            assert_eq!(
                can.mtime_grain.is_some_and(|grain| grain.subsec_nanos() == 100),
                manners.grain == Grain::Tick
            );
            tiers::Subject::new(tier)
        };
        contract::run_small(subject).await;
        contract::run_resident(subject).await;
    }
}
