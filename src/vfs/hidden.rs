//! Names on tiers that can't be shown: counted, so that somebody can be told.

use crate::catalog::PlaceId;
use parking_lot::Mutex;
use std::collections::HashMap;

/// Directories that are remembered; more than that many odd ones are no longer told apart.
const PLACES_MAX: usize = 10_000;

/// How many names the last listing of each place hid.
#[derive(Debug, Default)]
pub(super) struct Hidden(Mutex<HashMap<PlaceId, u64>>);

impl Hidden {
    /// A listing of `place` has hidden so many; answers whether that is news.
    pub(super) fn note(&self, place: PlaceId, count: u64) -> bool {
        let mut known = self.0.lock();
        if count == 0 {
            return known.remove(&place).is_some();
        }
        if known.len() >= PLACES_MAX && !known.contains_key(&place) {
            return false;
        }
        known.insert(place, count) != Some(count)
    }

    /// All of them.
    pub(super) fn total(&self) -> u64 {
        self.0.lock().values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_counts_as_it_was_seen_last() {
        let hidden = Hidden::default();
        assert!(!hidden.note(PlaceId(1), 0) && hidden.note(PlaceId(1), 3) && !hidden.note(PlaceId(1), 3));
        assert!(hidden.note(PlaceId(2), 1));
        assert_eq!(hidden.total(), 4);
        assert!(hidden.note(PlaceId(1), 0));
        assert_eq!(hidden.total(), 1);
        for place in 3..3 + PLACES_MAX as i64 {
            hidden.note(PlaceId(place), 1);
        }
        assert_eq!(hidden.total(), PLACES_MAX as u64, "no growth without end");
    }
}
