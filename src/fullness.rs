//! Which homes are too full for new files: the mover looks now and then, and whoever makes a file asks here, at no cost.
//!
//! Knows tiers by their ids only.

use crate::types::TierId;
use parking_lot::RwLock;
use std::collections::HashSet;

/// How full a tier is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Below its low water: there is room for what was sent away.
    Low,
    /// Between the marks: all stays as it is.
    Between,
    /// Above its high water, or it had no room for a file.
    Full,
}

/// The tiers that are too full.
#[derive(Debug, Default)]
pub struct Fullness(RwLock<HashSet<TierId>>);

impl Fullness {
    /// Whether new files should go elsewhere: from when it was full until it is low.
    #[must_use]
    pub fn is_full(&self, tier: TierId) -> bool {
        self.0.read().contains(&tier)
    }

    /// The tier is this full now; answers whether that changes where new files go.
    pub fn note(&self, tier: TierId, level: Level) -> bool {
        match level {
            Level::Low => self.0.write().remove(&tier),
            Level::Between => false,
            Level::Full => self.0.write().insert(tier),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_full_until_it_is_low() {
        let (tier, fullness) = (TierId(1), Fullness::default());
        assert!(!fullness.note(tier, Level::Between) && !fullness.is_full(tier));
        assert!(fullness.note(tier, Level::Full) && fullness.is_full(tier));
        assert!(!fullness.note(tier, Level::Between) && fullness.is_full(tier));
        assert!(fullness.note(tier, Level::Low) && !fullness.is_full(tier));
    }
}
