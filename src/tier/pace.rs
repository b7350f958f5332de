//! How background work shares a tier with programs: at most so many bytes and calls a second, and while programs use the tier
//! one piece at a time, with a pause after each that is as long as the piece took.
//!
//! What programs do by passthrough nobody sees but its opens; where that is not enough, the limits are.

use super::rate::Rate;
use crate::error::Result;
use crate::tier::layer::{Attempt, Call, Layer};
use async_trait::async_trait;
use parking_lot::Mutex;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// So long after its last act a program counts as one that uses the tier.
const IN_USE: Duration = Duration::from_millis(100);

/// The shortest and the longest time from one piece to the next while programs use the tier. With the longest, work that is slow by
/// itself goes on all the same.
const APART: std::ops::RangeInclusive<Duration> = Duration::from_millis(2)..=Duration::from_secs(1);

/// The pace of background work on one tier.
#[derive(Debug, Default)]
pub struct Pace {
    /// Acts of programs so far.
    acts: AtomicU64,
    bytes: Rate,
    calls: Rate,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Acts that were counted at the last look, and until when they say that the tier is in use.
    acts: u64,
    used_until: Option<Instant>,
    /// What the last piece took.
    took: Duration,
    /// When the next may begin.
    next_at: Option<Instant>,
}

/// A piece of background work that is under way.
#[derive(Debug)]
pub struct Piece {
    pace: Arc<Pace>,
    began: Instant,
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.pace.state.lock().took = self.began.elapsed();
    }
}

impl Pace {
    /// Bytes and calls a second, from now on; `None`: any number.
    pub fn set_limits(&self, bytes: Option<NonZeroU64>, calls: Option<NonZeroU64>) {
        self.bytes.set(bytes);
        self.calls.set(calls);
    }

    /// A program uses the tier. Costs one atomic addition.
    pub fn note_use(&self) {
        self.acts.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until a piece of background work may begin that moves so many bytes with one call.
    pub async fn begin(self: &Arc<Self>, bytes: u64) -> Piece {
        self.calls.take(1).await;
        self.bytes.take(bytes).await;
        if let Some(moment) = self.book(Instant::now()) {
            tokio::time::sleep_until(moment).await;
        }
        Piece { pace: Arc::clone(self), began: Instant::now() }
    }

    /// When the next piece may begin, if programs use the tier.
    fn book(&self, now: Instant) -> Option<Instant> {
        let acts = self.acts.load(Ordering::Relaxed);
        let mut state = self.state.lock();
        if acts != state.acts {
            state.acts = acts;
            state.used_until = Some(now + IN_USE);
        }
        if state.used_until.is_none_or(|until| until <= now) {
            return None;
        }
        let apart = (state.took * 2).clamp(*APART.start(), *APART.end());
        let begins = state.next_at.unwrap_or(now).max(now);
        state.next_at = Some(begins + apart);
        Some(begins)
    }
}

/// The layer that gives a tier its pace; what is called is not its business.
#[derive(Debug)]
pub struct Paced(pub Arc<Pace>);

#[async_trait]
impl Layer for Paced {
    async fn around<'a, T: Send>(&self, _call: Call<'a>, attempt: Attempt<'a, T>) -> Result<T> {
        attempt(super::Turn::First).await
    }

    fn pace(&self) -> Option<&Arc<Pace>> {
        Some(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time for ten pieces that take `took` each.
    async fn ten(pace: &Arc<Pace>, took: Duration, used: bool) -> Duration {
        let began = Instant::now();
        for _ in 0..10 {
            if used {
                pace.note_use();
            }
            let piece = pace.begin(1 << 20).await;
            tokio::time::sleep(took).await;
            drop(piece);
        }
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_waits_where_no_program_is_and_no_limit() {
        let took = Duration::from_millis(10);
        assert_eq!(ten(&Arc::default(), took, false).await, took * 10);
    }

    #[tokio::test(start_paused = true)]
    async fn half_the_time_is_left_to_programs() {
        let (pace, took) = (Arc::default(), Duration::from_millis(10));
        let all = ten(&pace, took, true).await;
        assert!((took * 18..=took * 21).contains(&all), "{all:?}");
        tokio::time::sleep(IN_USE * 2).await;
        assert_eq!(ten(&pace, took, false).await, took * 10, "it is alone again");
    }

    #[tokio::test(start_paused = true)]
    async fn several_workers_share_one_piece_at_a_time() {
        let pace = Arc::<Pace>::default();
        ten(&pace, Duration::from_millis(50), true).await;
        let began = Instant::now();
        pace.note_use();
        futures::future::join_all((0..5).map(|_| pace.begin(0))).await;
        assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn slow_work_goes_on_beside_busy_programs() {
        let all = ten(&Arc::default(), Duration::from_secs(5), true).await;
        assert!(all <= Duration::from_secs(60), "{all:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn limits_hold() {
        let pace = Arc::<Pace>::default();
        pace.set_limits(NonZeroU64::new(1 << 20), None);
        let all = ten(&pace, Duration::ZERO, false).await;
        assert!((8..=10).contains(&all.as_secs()), "{all:?}");
        pace.set_limits(None, NonZeroU64::new(2));
        let all = ten(&pace, Duration::ZERO, false).await;
        assert!((3..=5).contains(&all.as_secs()), "{all:?}");
    }
}
