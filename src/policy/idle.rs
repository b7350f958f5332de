//! How long a file was not used, as far as anybody watched. Only time in which a mount looked on counts: a clock that jumps,
//! and a machine that was off, must not make everything look unused at once.

use crate::types::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Between two looks at the clock so much counts at most: nights and weekends of a machine do, a year that a clock jumped does not.
const GAP_MAX: i64 = 24 * 3600 * 1_000_000_000;

/// Gaps that are remembered one by one.
const GAPS_MAX: usize = 64;

/// Since when files are watched, and what of that does not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    began: i64,
    seen: i64,
    gaps: Vec<(i64, i64)>,
}

impl Watch {
    /// Watching begins now: nothing is known of the time before.
    #[must_use]
    pub fn begun(now: Timestamp) -> Self {
        Self { began: now.0, seen: now.0, gaps: Vec::new() }
    }

    /// Looks at the clock; answers whether it found a gap.
    pub fn tick(&mut self, now: Timestamp) -> bool {
        let counts_to = self.seen.saturating_add(GAP_MAX);
        let is_gap = now.0 > counts_to;
        if is_gap {
            self.gaps.push((counts_to, now.0));
        }
        if self.gaps.len() > GAPS_MAX {
            // What lies between the two oldest does not count either then, which only makes files stay longer.
            let (_, to) = self.gaps.remove(1);
            self.gaps[0].1 = self.gaps[0].1.max(to);
        }
        // A clock that was set back counts from where it is.
        self.began = self.began.min(now.0);
        self.seen = now.0;
        is_gap
    }

    /// When it was looked at last.
    #[must_use]
    pub fn seen(&self) -> Timestamp {
        Timestamp(self.seen)
    }

    /// How long what was last used at `used` has not been used by now, the last tick.
    #[must_use]
    pub fn idle(&self, used: Timestamp) -> Duration {
        let (from, to) = (used.0.max(self.began), self.seen);
        let mut idle = to.saturating_sub(from).max(0);
        for (begin, end) in &self.gaps {
            let within = (*end).min(to).saturating_sub((*begin).max(from));
            idle = idle.saturating_sub(within.max(0));
        }
        Duration::from_nanos(idle.max(0).unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000_000;
    const DAY: i64 = 24 * HOUR;

    fn hours(duration: Duration) -> u64 {
        duration.as_secs() / 3600
    }

    fn at(nanos: i64) -> Timestamp {
        Timestamp(nanos)
    }

    #[test]
    fn nothing_is_idle_for_longer_than_it_was_watched() {
        let mut watch = Watch::begun(at(1000 * DAY));
        watch.tick(at(1000 * DAY + 5 * HOUR));
        assert_eq!(hours(watch.idle(at(0))), 5);
        assert_eq!(hours(watch.idle(at(1000 * DAY + 3 * HOUR))), 2);
        assert_eq!(watch.idle(at(2000 * DAY)), Duration::ZERO, "used in a future that a clock told of");
    }

    #[test]
    fn a_jump_counts_for_a_day_and_for_what_was_used_before_it_only() {
        let mut watch = Watch::begun(at(0));
        assert!(!watch.tick(at(10 * HOUR)));
        assert!(watch.tick(at(10 * HOUR + 400 * DAY)));
        assert_eq!(hours(watch.idle(at(0))), 34);
        assert_eq!(hours(watch.idle(at(10 * HOUR + 400 * DAY - 2 * HOUR))), 0, "inside of the gap");
        watch.tick(at(15 * HOUR + 400 * DAY));
        assert_eq!(hours(watch.idle(at(10 * HOUR + 400 * DAY))), 5);
        assert_eq!(hours(watch.idle(at(0))), 39);
    }

    #[test]
    fn a_clock_that_jumps_there_and_back_makes_nothing_old() {
        let mut watch = Watch::begun(at(0));
        watch.tick(at(400 * DAY));
        watch.tick(at(HOUR));
        assert_eq!(hours(watch.idle(at(0))), 1);
        watch.tick(at(6 * HOUR));
        assert_eq!(hours(watch.idle(at(0))), 6);
    }

    #[test]
    fn nights_count_and_many_gaps_are_merged_to_the_safe_side() {
        let mut watch = Watch::begun(at(0));
        for day in 1..=30 {
            watch.tick(at(day * DAY - 16 * HOUR));
            watch.tick(at(day * DAY));
        }
        assert_eq!(hours(watch.idle(at(0))), 30 * 24);
        let mut far = Watch::begun(at(0));
        for jump in 1..=200 {
            far.tick(at(jump * 10 * DAY));
        }
        assert!(far.gaps.len() <= GAPS_MAX);
        let idle = hours(far.idle(at(0)));
        assert!(idle <= 200 * 24 && idle >= GAPS_MAX as u64 * 24 / 2, "{idle}");
    }
}
