//! Keeps within limits what is asked of a tier at one time, and how fast bytes are sent to it.

use crate::error::{Kind, Result};
use crate::tier::ByteStream;
use crate::tier::layer::{Attempt, Call, Layer, Reopen, Turn};
use async_trait::async_trait;
use futures::StreamExt;
use parking_lot::{Mutex, RwLock};
use std::num::{NonZeroU64, NonZeroUsize};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// Bytes a second that may be sent; may be changed while they are.
#[derive(Clone, Debug, Default)]
pub struct UploadRate(Arc<RwLock<Option<Arc<Bucket>>>>);

impl UploadRate {
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

    async fn take(&self, bytes: u64) {
        let bucket = self.0.read().clone();
        if let Some(bucket) = bucket {
            bucket.take(bytes).await;
        }
    }
}

/// What is allowed.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Calls at one time; streams count while they wait for bytes.
    pub calls: NonZeroUsize,
    /// How fast bytes are sent.
    pub upload_rate: UploadRate,
}

/// The layer that limits.
#[derive(Debug)]
pub struct Limit {
    calls: Semaphore,
    rate: UploadRate,
}

impl Limit {
    /// Keeps `limits`.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let calls = Semaphore::new(limits.calls.get().min(Semaphore::MAX_PERMITS));
        Self { calls, rate: limits.upload_rate }
    }

    async fn permit(&self) -> Result<SemaphorePermit<'_>> {
        match self.calls.acquire().await {
            Ok(permit) => Ok(permit),
            Err(closed) => Err(crate::error::Error::from(Kind::Interrupted).with_source(closed)),
        }
    }
}

#[async_trait]
impl Layer for Limit {
    async fn around<'a, T: Send>(&self, call: Call<'a>, attempt: Attempt<'a, T>) -> Result<T> {
        // The rate first: who waits for it must not keep others from short calls.
        self.rate.take(call.sends).await;
        let _permit = self.permit().await?;
        attempt(Turn::First).await
    }

    /// A permit for each wait, not for the whole stream: readers that hold several streams and
    /// take them in turn would wait for each other for ever.
    fn stream(self: Arc<Self>, stream: ByteStream, _range: Range<u64>, _reopen: Reopen) -> ByteStream {
        let limited = futures::stream::unfold((self, stream), |(limit, mut stream)| async move {
            let chunk = match limit.permit().await {
                Ok(_permit) => stream.next().await?,
                Err(error) => Err(error),
            };
            Some((chunk, (limit, stream)))
        });
        limited.boxed()
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
    #[expect(clippy::cast_precision_loss, reason = "nobody counts bytes a second to the last of 53 bits")]
    fn new(rate: NonZeroU64) -> Self {
        Self { rate: rate.get() as f64, paid_at: Mutex::new(None) }
    }

    async fn take(&self, bytes: u64) {
        if bytes > 0 {
            tokio::time::sleep_until(self.book(bytes, Instant::now())).await;
        }
    }

    /// When these bytes may go; what comes after them waits for what they cost.
    #[expect(clippy::cast_precision_loss, reason = "as above")]
    fn book(&self, bytes: u64, now: Instant) -> Instant {
        let cost = Duration::from_secs_f64(bytes as f64 / self.rate);
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
