//! The contract over every tier of this crate, plain and decorated.

mod absence;
mod decorators;

use crate::contract;
use crate::support::tiers;
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;
use tierfs::error::Kind;
use tierfs::tier::{Faults, Layer, Limit, Limits, Meter, Restricted, Retry, RetryPolicy, Tier, TierMeter};

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
    Limit::new(Limits { calls, upload_rate: NonZeroU64::new(1 << 40) })
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
