//! Keeps within limits what is asked of a tier at one time, and how fast bytes are sent to it.

use crate::error::{Kind, Result};
use crate::tier::ByteStream;
use crate::tier::Rate;
use crate::tier::layer::{Attempt, Call, Layer, Reopen, Turn};
use async_trait::async_trait;
use futures::StreamExt;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::{Semaphore, SemaphorePermit};

/// What is allowed.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Calls at one time; streams count while they wait for bytes.
    pub calls: NonZeroUsize,
    /// How fast bytes are sent.
    pub upload_rate: Rate,
}

/// The layer that limits.
#[derive(Debug)]
pub struct Limit {
    calls: Semaphore,
    rate: Rate,
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
