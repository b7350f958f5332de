//! Counters of the data path; plain atomics, read by whoever shows them.

use std::sync::atomic::{AtomicU64, Ordering};

/// One counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The sum so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the data path of one mount has done.
#[derive(Debug, Default)]
pub struct Meters {
    /// Ranged requests started.
    pub requests: Counter,
    /// Bytes that arrived.
    pub fetched_bytes: Counter,
    /// Bytes handed to readers.
    pub read_bytes: Counter,
    /// Opens served by a hot copy.
    pub hot_opens: Counter,
    /// Opens that stream from home.
    pub home_opens: Counter,
    /// Reads answered without waiting.
    pub hits: Counter,
    /// Reads that had to wait for a tier.
    pub misses: Counter,
    /// Streams that broke in mid-body and were taken up again.
    pub resumed: Counter,
    /// Requests ahead that were cancelled.
    pub cancelled: Counter,
    /// Hot copies begun, finished, given up.
    pub fills_started: Counter,
    /// Hot copies that became whole.
    pub fills_completed: Counter,
    /// Hot copies given up.
    pub fills_dropped: Counter,
}
