//! Tries again what may succeed later, to a deadline; and leaves a sick tier alone for a while.
//!
//! Only transient kinds are tried again, and of the calls that change something only those whose
//! repetition can't undo what another did: see [`Repeat`]. An absent tier is not waited for: its
//! callers get their answer at once.

mod breaker;

pub use breaker::Breaker;

use crate::error::{Error, Kind, Result};
use crate::tier::ByteStream;
use crate::tier::layer::{Attempt, Call, Layer, Operation, Reopen, Repeat, Turn};
use async_trait::async_trait;
use breaker::Passage;
use bytes::Bytes;
use futures::StreamExt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// How long and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How long a caller waits, all tries together.
    pub deadline: Duration,
    /// The same for calls that take as long as their bytes need.
    pub transfer_deadline: Duration,
    /// Upper limit of the first pause; each next one may be twice as long.
    pub first_pause: Duration,
    /// Upper limit of any pause.
    pub longest_pause: Duration,
    /// Transient failures in a row after which the tier counts as sick, if they also went on for
    /// as long as `deadline`: a short outage is what retries are for.
    pub trip_after: u32,
    /// How often a sick tier is tried.
    pub trial_every: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(60),
            transfer_deadline: Duration::from_secs(600),
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(10),
            trip_after: 20,
            trial_every: Duration::from_secs(5),
        }
    }
}

/// The layer that tries again.
#[derive(Debug)]
pub struct Retry {
    policy: RetryPolicy,
    breaker: Arc<Breaker>,
}

impl Retry {
    /// Follows `policy`.
    #[must_use]
    pub fn new(policy: RetryPolicy) -> Self {
        let breaker = Arc::new(Breaker::new(policy.trip_after, policy.deadline, policy.trial_every));
        Self { policy, breaker }
    }

    /// Tells whether the tier counts as sick, for those who show it.
    #[must_use]
    pub fn breaker(&self) -> Arc<Breaker> {
        Arc::clone(&self.breaker)
    }

    fn deadline(&self, operation: Operation) -> Instant {
        let allowed =
            if operation.moves_bytes() { self.policy.transfer_deadline } else { self.policy.deadline };
        Instant::now() + allowed
    }

    /// Full jitter: anything between nothing and the limit, so that clients which failed together
    /// do not come back together. Never before the moment the tier asked for.
    fn pause(&self, attempt: u32, error: &Error) -> Duration {
        let limit = self.policy.first_pause.saturating_mul(1 << attempt.min(20));
        let pause = limit.min(self.policy.longest_pause).mul_f64(rand::random::<f64>());
        error.retry_after().unwrap_or_default() + pause
    }
}

fn is_worth_another_try(error: &Error) -> bool {
    error.kind().is_transient() && error.kind() != Kind::Absent
}

fn sick() -> Error {
    Error::new(Kind::Unavailable, "the tier failed too often in a row and is left alone for a while")
}

#[async_trait]
impl Layer for Retry {
    async fn around<'a, T: Send>(&self, call: Call<'a>, attempt: Attempt<'a, T>) -> Result<T> {
        let deadline = self.deadline(call.operation);
        let (mut last, mut tries) = (None, 0);
        loop {
            let turn = if last.is_none() { Turn::First } else { Turn::Again };
            let error = match (self.breaker.enter(), last.take()) {
                (Some(passage), _) => match passage.report(once(deadline, attempt(turn)).await) {
                    Err(error) if is_worth_another_try(&error) => error,
                    answered => return answered,
                },
                (None, None) => return Err(sick()),
                // It was asked before it counted as sick: it may have the rest of its time.
                (None, Some(error)) => error,
            };
            let pause = self.pause(tries, &error);
            let too_late = Instant::now() + pause >= deadline;
            if call.repeat == Repeat::Unsafe || too_late {
                return Err(error);
            }
            sleep(pause).await;
            (last, tries) = (Some(error), tries + 1);
        }
    }

    fn stream(self: Arc<Self>, stream: ByteStream, range: Range<u64>, reopen: Reopen) -> ByteStream {
        let patient = Patient { retry: self, stream: Some(stream), left: range, reopen };
        futures::stream::try_unfold(patient, Patient::next).boxed()
    }
}

async fn once<T>(deadline: Instant, attempt: impl Future<Output = Result<T>>) -> Result<T> {
    match timeout_at(deadline, attempt).await {
        Ok(done) => done,
        Err(elapsed) => Err(Error::new(Kind::TimedOut, "no answer of the tier").with_source(elapsed)),
    }
}

/// A stream that goes on where it broke off.
struct Patient {
    retry: Arc<Retry>,
    stream: Option<ByteStream>,
    left: Range<u64>,
    reopen: Reopen,
}

impl Patient {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>> {
        let deadline = self.retry.deadline(Operation::Read);
        let mut tries = 0;
        loop {
            match self.advance(deadline).await {
                Ok(Some(bytes)) => {
                    self.left.start += bytes.len() as u64;
                    return Ok(Some((bytes, self)));
                }
                Ok(None) => return Ok(None),
                Err(error) if is_worth_another_try(&error) => {
                    self.stream = None;
                    let pause = self.retry.pause(tries, &error);
                    if Instant::now() + pause >= deadline {
                        return Err(error);
                    }
                    sleep(pause).await;
                    tries += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The next bytes. A stream that ends early without saying so is the caller's to notice: the
    /// range may reach beyond the end.
    async fn advance(&mut self, deadline: Instant) -> Result<Option<Bytes>> {
        let passage = self.retry.breaker.enter().ok_or_else(sick)?;
        let next = async {
            if self.stream.is_none() {
                self.stream = Some((self.reopen)(self.left.clone()).await?);
            }
            match &mut self.stream {
                Some(stream) => stream.next().await.transpose(),
                None => Ok(None),
            }
        };
        passage.report(once(deadline, next).await)
    }
}

impl Passage<'_> {
    fn report<T>(self, done: Result<T>) -> Result<T> {
        match &done {
            Err(error) if is_worth_another_try(error) => self.failed(),
            _ => self.answered(),
        }
        done
    }
}
