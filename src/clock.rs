//! Time comes in through the door: everything that waits or compares times takes a [`Clock`].

use crate::types::Timestamp;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Source of wall and monotonic time.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Wall time, for what people and tiers see.
    fn wall(&self) -> Timestamp;
    /// Monotonic time since some fixed moment, for ages and deadlines.
    fn monotonic(&self) -> Duration;
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn wall(&self) -> Timestamp {
        SystemTime::now().into()
    }
    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A clock that stands still until a test moves it.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<Duration>>, Timestamp);

impl ManualClock {
    /// Stands at `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self(Arc::default(), start)
    }

    /// Moves both times on.
    pub fn advance(&self, by: Duration) {
        *self.0.lock() += by;
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> Timestamp {
        Timestamp(self.1.0 + i64::try_from(self.0.lock().as_nanos()).unwrap_or(i64::MAX))
    }
    fn monotonic(&self) -> Duration {
        *self.0.lock()
    }
}
