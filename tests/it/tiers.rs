//! The contract over every tier of this crate, plain and decorated.

use crate::contract;
use crate::support::tiers;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_keeps_the_contract() {
    contract::run(|| async { tiers::memory() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directory_keeps_the_contract() {
    contract::run(|| async { tiers::directory() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directory_keeps_the_resident_contract() {
    contract::run_resident(|| async { tiers::directory() }).await;
}
