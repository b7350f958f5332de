//! A circuit breaker: after enough failures in a row, over long enough a time, a tier counts as
//! sick, and only one call an interval tries whether it is well again.

use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Shared by all calls of one tier.
#[derive(Debug)]
pub struct Breaker {
    trip_after: u32,
    trip_for: Duration,
    trial_every: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    /// When the first of them was noted.
    since: Option<Instant>,
    /// While sick: when the next trial may go.
    next_trial: Option<Instant>,
}

/// A call that was let through and must say how it ended. Dropped unsaid (its caller gave up), it
/// says nothing.
pub(super) struct Passage<'a>(&'a Breaker);

impl Breaker {
    pub(super) fn new(trip_after: u32, trip_for: Duration, trial_every: Duration) -> Self {
        Self { trip_after: trip_after.max(1), trip_for, trial_every, state: Mutex::default() }
    }

    /// Whether the tier counts as sick.
    pub fn is_open(&self) -> bool {
        self.state.lock().next_trial.is_some()
    }

    /// Lets a call through, unless the tier is sick and it is not time for a trial.
    pub(super) fn enter(&self) -> Option<Passage<'_>> {
        let mut state = self.state.lock();
        if let Some(next) = state.next_trial {
            let now = Instant::now();
            if now < next {
                return None;
            }
            state.next_trial = Some(now + self.trial_every);
        }
        Some(Passage(self))
    }
}

impl Passage<'_> {
    /// The tier answered, whatever it said.
    pub(super) fn answered(self) {
        *self.0.state.lock() = State::default();
    }

    /// It could not answer.
    pub(super) fn failed(self) {
        let mut state = self.0.state.lock();
        let now = Instant::now();
        let since = *state.since.get_or_insert(now);
        state.failures = state.failures.saturating_add(1);
        if state.failures >= self.0.trip_after && now - since >= self.0.trip_for {
            state.next_trial = Some(now + self.0.trial_every);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn breaker() -> Breaker {
        Breaker::new(3, MINUTE, Duration::from_secs(5))
    }

    fn fail(breaker: &Breaker, times: u32) {
        (0..times).for_each(|_| breaker.enter().expect("let through").failed());
    }

    #[tokio::test(start_paused = true)]
    async fn opens_after_failures_in_a_row_and_tries_once_an_interval() {
        let breaker = breaker();
        fail(&breaker, 2);
        tokio::time::advance(MINUTE).await;
        breaker.enter().expect("let through").answered();
        fail(&breaker, 2);
        tokio::time::advance(MINUTE).await;
        assert!(!breaker.is_open(), "an answer in between starts the count again");
        fail(&breaker, 1);
        assert!(breaker.is_open() && breaker.enter().is_none());
        tokio::time::advance(Duration::from_secs(5)).await;
        let trial = breaker.enter().expect("one trial");
        assert!(breaker.enter().is_none(), "only one");
        trial.answered();
        assert!(!breaker.is_open() && breaker.enter().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_outage_does_not_open_it() {
        let breaker = breaker();
        fail(&breaker, 100);
        assert!(!breaker.is_open());
        tokio::time::advance(MINUTE).await;
        fail(&breaker, 1);
        assert!(breaker.is_open());
    }
}
