//! Which homes are too full for new files: the mover looks now and then, whoever finds no room says so, and whoever makes a file asks
//! here, at no cost.
//!
//! Knows tiers by their ids only.

use crate::types::TierId;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::time::Duration;

/// After a file found no room on a tier, that is believed for so long, whatever the tier says of itself: it does not know of every
/// quota.
pub const REFUSAL_STANDS: Duration = Duration::from_secs(10);

/// How full a tier is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Below its low water: there is room for what was sent away.
    Low,
    /// Between the marks: all stays as it is.
    Between,
    /// Above its high water.
    Full,
}

/// The tiers that are too full, and until when it does not matter what they say.
#[derive(Debug, Default)]
pub struct Fullness(RwLock<HashMap<TierId, Duration>>);

impl Fullness {
    /// Whether new files should go elsewhere: from when it was full until it is low.
    #[must_use]
    pub fn is_full(&self, tier: TierId) -> bool {
        self.0.read().contains_key(&tier)
    }

    /// The tier is this full at the monotonic time `now`; answers whether that changes where new files go.
    pub fn note(&self, tier: TierId, level: Level, now: Duration) -> bool {
        let mut full = self.0.write();
        match (level, full.get(&tier)) {
            (Level::Full, None) => full.insert(tier, now).is_none(),
            (Level::Low, Some(until)) if *until <= now => full.remove(&tier).is_some(),
            _ => false,
        }
    }

    /// A file found no room on the tier; answers whether that changes where new files go.
    pub fn refused(&self, tier: TierId, now: Duration) -> bool {
        self.0.write().insert(tier, now + REFUSAL_STANDS).is_none()
    }

    /// Nobody asks for these tiers any more.
    pub fn keep(&self, asked_for: &[TierId]) {
        self.0.write().retain(|tier, _| asked_for.contains(tier));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIER: TierId = TierId(1);

    #[test]
    fn a_tier_is_full_until_it_is_low() {
        let (fullness, now) = (Fullness::default(), Duration::ZERO);
        assert!(!fullness.note(TIER, Level::Between, now) && !fullness.is_full(TIER));
        assert!(fullness.note(TIER, Level::Full, now) && fullness.is_full(TIER));
        assert!(!fullness.note(TIER, Level::Full, now));
        assert!(!fullness.note(TIER, Level::Between, now) && fullness.is_full(TIER));
        assert!(fullness.note(TIER, Level::Low, now) && !fullness.is_full(TIER));
    }

    #[test]
    fn a_tier_that_had_no_room_is_not_believed_at_once() {
        let (fullness, now) = (Fullness::default(), Duration::from_secs(100));
        assert!(fullness.refused(TIER, now) && fullness.is_full(TIER));
        assert!(!fullness.note(TIER, Level::Low, now + REFUSAL_STANDS / 2) && fullness.is_full(TIER));
        assert!(!fullness.refused(TIER, now + REFUSAL_STANDS / 2));
        assert!(!fullness.note(TIER, Level::Low, now + REFUSAL_STANDS) && fullness.is_full(TIER));
        assert!(fullness.note(TIER, Level::Low, now + 2 * REFUSAL_STANDS) && !fullness.is_full(TIER));
        fullness.refused(TIER, now);
        fullness.keep(&[TierId(2)]);
        assert!(!fullness.is_full(TIER));
    }
}
