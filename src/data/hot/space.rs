//! The room that hot copies have on one tier. The mover says how much there is and what the next copy to leave is worth; opens
//! take of it, and ask for more.

use crate::policy::admission::{self, Admission};
use parking_lot::RwLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Of all room, the part that copies on their way may take beyond what is free: copies of less value leave meanwhile.
const AHEAD_SHARE: i64 = 16;

/// A file that is larger than all others is copied too, if the tier could hold it.
const AHEAD_MIN: i64 = 256 << 20;

/// Tells what a copy is worth now: rates change from one moment to the next, and only values of one moment can be compared.
pub type Least = Arc<dyn Fn() -> f64 + Send + Sync>;

/// Somebody who makes room; must not block.
type Ask = Box<dyn Fn() + Send + Sync>;

/// The room on one tier.
#[derive(Default)]
pub struct Space {
    /// Bytes for copies in all; 0: not known yet, and everybody is admitted.
    all: AtomicU64,
    /// Bytes left of them, when it was last looked; below zero: more are used than should be.
    room: AtomicI64,
    /// Bytes of copies on their way.
    coming: AtomicI64,
    /// Bytes of copies: those found at the last look, and what this mount has added and dropped since.
    copies: AtomicI64,
    /// What the next copy to leave is worth now; none: not known.
    least: RwLock<Option<Least>>,
    /// Somebody was refused since it was last looked.
    refused: AtomicBool,
    ask: OnceLock<Ask>,
}

impl std::fmt::Debug for Space {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Space")
            .field("room", &self.room)
            .field("coming", &self.coming)
            .finish_non_exhaustive()
    }
}

/// Room for one copy; given back when dropped.
#[derive(Debug)]
pub struct Admitted {
    space: Arc<Space>,
    bytes: i64,
}

impl Space {
    /// From now on `ask` is called when room is wanted.
    pub fn ask_with(&self, ask: Ask) {
        // Once: whoever came first goes on.
        let _ = self.ask.set(ask);
    }

    /// `all` bytes are for copies, `room` of them are left, and the next to leave is worth `least`.
    pub fn publish(&self, all: u64, room: i64, least: Option<Least>) {
        *self.least.write() = least;
        self.room.store(room, Ordering::Relaxed);
        self.all.store(all.max(1), Ordering::Relaxed);
        self.refused.store(false, Ordering::Relaxed);
    }

    /// Room for a copy of `bytes` of a file of this value, if it should have one.
    #[must_use]
    pub fn admit(self: &Arc<Self>, bytes: u64, value: f64) -> Option<Admitted> {
        match self.decision(bytes, value) {
            Admission::Room => Some(self.take(bytes)),
            Admission::InPlaceOfOthers => self.in_place_of_others(bytes),
            Admission::Refused => self.refuse(),
        }
    }

    /// What [`Space::admit`] would decide now.
    #[must_use]
    pub fn decision(&self, bytes: u64, value: f64) -> Admission {
        let room = u64::try_from(self.left()).unwrap_or(0);
        if self.all.load(Ordering::Relaxed) == 0 || bytes <= room {
            return Admission::Room;
        }
        admission::decide(bytes, value, room, self.least())
    }

    /// What the next copy to leave is worth, if that is known.
    #[must_use]
    pub fn least(&self) -> Option<f64> {
        // Not called under the lock: it takes locks of its own.
        let least = self.least.read().clone();
        least.map(|least| least())
    }

    /// Room for a copy of `bytes` whatever the file is worth: somebody asked for it.
    #[must_use]
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Option<Admitted> {
        let room = u64::try_from(self.left()).unwrap_or(0);
        if self.all.load(Ordering::Relaxed) == 0 || bytes <= room {
            return Some(self.take(bytes));
        }
        self.in_place_of_others(bytes)
    }

    fn in_place_of_others(self: &Arc<Self>, bytes: u64) -> Option<Admitted> {
        let all = self.all.load(Ordering::Relaxed);
        let ahead = (signed(all) / AHEAD_SHARE).max(AHEAD_MIN).max(signed(bytes));
        if bytes > all || self.left() - signed(bytes) < -ahead {
            return self.refuse();
        }
        let admitted = self.take(bytes);
        self.nudge();
        Some(admitted)
    }

    fn refuse(&self) -> Option<Admitted> {
        if !self.refused.swap(true, Ordering::Relaxed) {
            self.nudge();
        }
        None
    }

    fn nudge(&self) {
        if let Some(ask) = self.ask.get() {
            ask();
        }
    }

    fn take(self: &Arc<Self>, bytes: u64) -> Admitted {
        let bytes = signed(bytes);
        self.coming.fetch_add(bytes, Ordering::Relaxed);
        Admitted { space: Arc::clone(self), bytes }
    }

    /// Bytes left for others than those on their way; below zero: so many must go.
    #[must_use]
    pub fn left(&self) -> i64 {
        self.room.load(Ordering::Relaxed) - self.coming.load(Ordering::Relaxed)
    }

    /// Bytes of all copies, as far as this mount knows.
    #[must_use]
    pub fn copies(&self) -> u64 {
        u64::try_from(self.copies.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// So many bytes of copies were found.
    pub fn found(&self, bytes: u64) {
        self.copies.store(signed(bytes), Ordering::Relaxed);
    }

    /// A copy is there that took no room before, or had other room.
    pub(super) fn added(&self, bytes: u64) {
        self.copies.fetch_add(signed(bytes), Ordering::Relaxed);
    }

    /// A copy is gone.
    pub(super) fn dropped(&self, bytes: u64) {
        self.copies.fetch_sub(signed(bytes), Ordering::Relaxed);
    }

    /// Bytes of copies on their way.
    #[must_use]
    pub fn coming(&self) -> i64 {
        self.coming.load(Ordering::Relaxed)
    }

    /// Whether somebody was refused since it was last published.
    #[must_use]
    pub fn was_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Admitted {
    /// The copy is there: what it took stays taken.
    pub(in crate::data) fn used(self) {
        self.space.room.fetch_sub(self.bytes, Ordering::Relaxed);
        self.space.copies.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.space.coming.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(all: u64, room: i64, least: Option<f64>) -> (Arc<Space>, Arc<AtomicU64>) {
        let (space, asked) = (Arc::new(Space::default()), Arc::new(AtomicU64::new(0)));
        let count = Arc::clone(&asked);
        space.ask_with(Box::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        }));
        space.publish(all, room, least.map(|least| -> Least { Arc::new(move || least) }));
        (space, asked)
    }

    #[test]
    fn room_is_taken_and_given_back() {
        let (space, asked) = space(100, 50, None);
        let first = space.admit(30, 0.0).expect("there is room");
        assert!(space.admit(30, 0.0).is_none() && space.was_refused());
        drop(first);
        let again = space.admit(30, 0.0).expect("it was given back");
        again.used();
        assert_eq!((space.left(), space.coming(), space.copies()), (20, 0, 30));
        assert!(space.admit(21, 9.0).is_none(), "nobody knows what would leave for it");
        assert_eq!(asked.load(Ordering::Relaxed), 1, "asked once for all who were refused");
    }

    #[test]
    fn hotter_files_take_the_place_of_others() {
        let (space, asked) = space(1 << 40, 0, Some(1.0));
        assert!(space.admit(10, 1.5).is_none());
        let hot = space.admit(10, 2.0).expect("clearly hotter");
        assert_eq!((space.left(), asked.load(Ordering::Relaxed)), (-10, 2));
        drop(hot);
        let large = 1u64 << 41;
        assert!(space.admit(large, 1e9).is_none(), "more than all there is");
        let held: Vec<_> = std::iter::from_fn(|| space.admit(1 << 30, 2.0)).take(1000).collect();
        assert!(held.len() < 100, "not more on their way than can be made room for");
    }

    #[test]
    fn before_anything_is_known_everybody_is_admitted() {
        let space = Arc::new(Space::default());
        assert!(space.admit(u64::MAX / 4, 0.0).is_some());
    }
}
