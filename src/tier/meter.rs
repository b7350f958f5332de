//! Counts what a tier does: calls, errors, bytes and how long calls take. Only atomics, so that
//! whoever shows the numbers delays nobody. Resident calls are not counted.

use crate::error::Result;
use crate::tier::ByteStream;
use crate::tier::layer::{Attempt, Call, Layer, Operation, Reopen};
use async_trait::async_trait;
use futures::StreamExt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::Instant;

/// Buckets of the histogram: bucket `i` counts calls of less than 2^i µs, the last all longer ones.
pub const BUCKETS: usize = 28;

#[derive(Debug, Default)]
struct Counter {
    calls: AtomicU64,
    errors: AtomicU64,
    nanos: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// The numbers of one tier, shared by those who count and those who show.
#[derive(Debug, Default)]
pub struct TierMeter {
    operations: [Counter; Operation::ALL.len()],
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
}

/// What one operation has done so far.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct OperationCounts {
    /// Which one.
    pub operation: Operation,
    /// Calls that ended.
    pub calls: u64,
    /// Those of them that failed.
    pub errors: u64,
    /// Time they took together.
    pub total: Duration,
    /// Calls by time taken: see [`BUCKETS`].
    pub buckets: [u64; BUCKETS],
}

impl TierMeter {
    /// Bytes that came from the tier.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Relaxed)
    }

    /// Bytes of puts and blocks that the tier took.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Relaxed)
    }

    /// The counts of one operation.
    pub fn counts(&self, operation: Operation) -> OperationCounts {
        let counter = &self.operations[operation as usize];
        OperationCounts {
            operation,
            calls: counter.calls.load(Relaxed),
            errors: counter.errors.load(Relaxed),
            total: Duration::from_nanos(counter.nanos.load(Relaxed)),
            buckets: std::array::from_fn(|bucket| counter.buckets[bucket].load(Relaxed)),
        }
    }

    /// The counts of every operation that was called at all.
    pub fn all(&self) -> Vec<OperationCounts> {
        let counts = Operation::ALL.into_iter().map(|operation| self.counts(operation));
        counts.filter(|counts| counts.calls > 0).collect()
    }

    fn count(&self, operation: Operation, took: Duration, failed: bool) {
        let counter = &self.operations[operation as usize];
        counter.calls.fetch_add(1, Relaxed);
        counter.errors.fetch_add(u64::from(failed), Relaxed);
        counter.nanos.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        counter.buckets[bucket(took)].fetch_add(1, Relaxed);
    }
}

fn bucket(took: Duration) -> usize {
    let bits = u128::BITS - took.as_micros().leading_zeros();
    (bits as usize).min(BUCKETS - 1)
}

/// The layer that counts.
#[derive(Debug)]
pub struct Meter(Arc<TierMeter>);

impl Meter {
    /// Counts into `meter`.
    #[must_use]
    pub fn new(meter: Arc<TierMeter>) -> Self {
        Self(meter)
    }
}

#[async_trait]
impl Layer for Meter {
    async fn around<'a, T: Send>(&self, call: Call<'a>, attempt: Attempt<'a, T>) -> Result<T> {
        let began = Instant::now();
        let done = attempt(crate::tier::layer::Turn::First).await;
        self.0.count(call.operation, began.elapsed(), done.is_err());
        if done.is_ok() {
            self.0.bytes_written.fetch_add(call.sends, Relaxed);
        }
        done
    }

    fn stream(self: Arc<Self>, stream: ByteStream, _range: Range<u64>, _reopen: Reopen) -> ByteStream {
        let counted = stream.inspect(move |chunk| match chunk {
            Ok(bytes) => {
                self.0.bytes_read.fetch_add(bytes.len() as u64, Relaxed);
            }
            // The call had been counted as a success when its stream began.
            Err(_) => {
                self.0.operations[Operation::Read as usize].errors.fetch_add(1, Relaxed);
            }
        });
        counted.boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_double() {
        assert_eq!(bucket(Duration::ZERO), 0);
        assert_eq!(bucket(Duration::from_micros(1)), 1);
        assert_eq!(bucket(Duration::from_micros(1023)), 10);
        assert_eq!(bucket(Duration::from_micros(1024)), 11);
        assert_eq!(bucket(Duration::from_secs(1_000_000)), BUCKETS - 1);
    }

    #[test]
    fn operations_are_numbered_as_listed() {
        for (number, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, number);
        }
    }
}
