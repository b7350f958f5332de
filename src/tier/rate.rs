//! So many units a second: bytes, or calls.

use parking_lot::{Mutex, RwLock};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Units a second that may be used; may be changed while they are.
#[derive(Clone, Debug, Default)]
pub struct Rate(Arc<RwLock<Option<Arc<Bucket>>>>);

impl Rate {
    /// `None`: any number.
    #[must_use]
    pub fn new(rate: Option<NonZeroU64>) -> Self {
        let new = Self::default();
        new.set(rate);
        new
    }

    /// From now on; what waits already goes when it was told to.
    pub fn set(&self, rate: Option<NonZeroU64>) {
        *self.0.write() = rate.map(|rate| Arc::new(Bucket::new(rate)));
    }

    pub(super) async fn take(&self, units: u64) {
        let bucket = self.0.read().clone();
        if let Some(bucket) = bucket {
            bucket.take(units).await;
        }
    }
}

/// Tokens that come at a steady rate. A taker may go into debt, and the next waits until it is
/// paid: so a block larger than a second's worth still passes.
#[derive(Debug)]
struct Bucket {
    rate: f64,
    /// When the debt is paid; in the past if there is credit.
    paid_at: Mutex<Option<Instant>>,
}

/// Credit that may be saved up.
const BURST: Duration = Duration::from_secs(1);

impl Bucket {
    #[expect(clippy::cast_precision_loss, reason = "nobody counts units a second to the last of 53 bits")]
    fn new(rate: NonZeroU64) -> Self {
        Self { rate: rate.get() as f64, paid_at: Mutex::new(None) }
    }

    async fn take(&self, units: u64) {
        if units > 0 {
            tokio::time::sleep_until(self.book(units, Instant::now())).await;
        }
    }

    /// When these units may go; what comes after them waits for what they cost.
    #[expect(clippy::cast_precision_loss, reason = "as above")]
    fn book(&self, units: u64, now: Instant) -> Instant {
        let cost = Duration::from_secs_f64(units as f64 / self.rate);
        let mut paid_at = self.paid_at.lock();
        let oldest = now.checked_sub(BURST).unwrap_or(now);
        let start = paid_at.unwrap_or(oldest).max(oldest);
        *paid_at = Some(start + cost);
        start.max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_rate_holds_after_the_burst() {
        let bucket = Bucket::new(NonZeroU64::new(1_000).unwrap());
        let began = Instant::now();
        for _ in 0..50 {
            bucket.take(100).await;
        }
        let took = began.elapsed();
        // 5,000 bytes: a second's worth is credit, the last 100 are still owed.
        assert!((3_850..=4_000).contains(&took.as_millis()), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_block_larger_than_the_rate_passes_and_is_paid_for() {
        let bucket = Bucket::new(NonZeroU64::new(10).unwrap());
        let began = Instant::now();
        bucket.take(1_000).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        bucket.take(1).await;
        assert_eq!(began.elapsed().as_secs(), 99);
    }
}
