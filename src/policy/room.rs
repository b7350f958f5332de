//! Whether a writer waits for bytes to reach home: pure, from sums.
//!
//! Nobody waits for bytes that nobody can commit: those of files that are open or have a name
//! under which nothing is committed, of what a home refuses for good, and of what comes
//! after either in an order. Else a program could wait at one open for the close that it can't come to.

/// Bytes that wait for the same in one order domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Not at home yet.
    pub bytes: u64,
    /// Steps that bring them there, or clean up after that.
    pub steps: u64,
    /// What for.
    pub waits: Waits,
    /// Whether steps of the domain go one after another.
    pub order: Ordering,
}

/// What bytes wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// Their turn, with nothing in front that can't go on.
    ForMover,
    /// Something in front of them in the domain that can't go on.
    Behind,
    /// A program that closes the file or gives it another name, or a person.
    ForOthers,
}

/// Whether steps of a domain hold up those after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordering {
    /// They do.
    Kept,
    /// They don't.
    None,
}

/// Dirty bytes at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// All.
    pub dirty: u64,
    /// Those that go on by themselves.
    pub committable: u64,
    /// Steps that go on by themselves: also of files that are at home, and have not left the stage yet.
    pub steps: u64,
}

impl Sums {
    /// Of parts in any order.
    #[must_use]
    pub fn of(parts: impl IntoIterator<Item = Part>) -> Self {
        parts.into_iter().fold(Self::default(), |sums, part| {
            let (bytes, steps) = match (part.waits, part.order) {
                (Waits::ForMover, _) | (Waits::Behind, Ordering::None) => (part.bytes, part.steps),
                (Waits::Behind, Ordering::Kept) | (Waits::ForOthers, _) => (0, 0),
            };
            Self {
                dirty: sums.dirty.saturating_add(part.bytes),
                committable: sums.committable.saturating_add(bytes),
                steps: sums.steps.saturating_add(steps),
            }
        })
    }
}

/// What becomes of an open for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It goes on.
    Free,
    /// It waits: bytes are on their way that make room.
    Wait,
    /// It goes on, for waiting would be in vain; and somebody is told.
    Over,
}

/// What becomes of an open for writing while `sums` are dirty of at most `limit`.
#[must_use]
pub fn below(limit: Option<u64>, sums: Sums) -> Room {
    match limit {
        Some(limit) if sums.dirty > limit && sums.committable > 0 => Room::Wait,
        Some(limit) if sums.dirty > limit => Room::Over,
        _ => Room::Free,
    }
}

/// What becomes of an open for writing that the stage has no room for, while `sums` are dirty there.
#[must_use]
pub fn on_full_stage(sums: Sums) -> Room {
    if sums.steps > 0 { Room::Wait } else { Room::Over }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(bytes: u64, waits: Waits, order: Ordering) -> Part {
        Part { bytes, steps: 1, waits, order }
    }

    #[test]
    fn without_a_limit_nobody_waits() {
        assert_eq!(below(None, Sums { dirty: u64::MAX, committable: 1, steps: 1 }), Room::Free);
    }

    #[test]
    fn above_the_limit_writers_wait_while_it_helps() {
        let room = |dirty, committable| below(Some(100), Sums { dirty, committable, steps: 1 });
        assert_eq!(room(0, 0), Room::Free);
        assert_eq!(room(100, 100), Room::Free, "the limit itself is allowed");
        assert_eq!(room(101, 1), Room::Wait);
        assert_eq!(room(101, 0), Room::Over);
        assert_eq!(below(Some(0), Sums::default()), Room::Free);
    }

    #[test]
    fn a_full_stage_is_waited_for_only_while_a_step_makes_room() {
        assert_eq!(on_full_stage(Sums { dirty: 5, committable: 5, steps: 1 }), Room::Wait);
        // At home, and about to leave the stage.
        assert_eq!(on_full_stage(Sums { dirty: 0, committable: 0, steps: 1 }), Room::Wait);
        assert_eq!(on_full_stage(Sums { dirty: 5, committable: 0, steps: 0 }), Room::Over);
    }

    #[test]
    fn what_nobody_can_commit_is_dirty_but_not_waited_for() {
        use Ordering::{Kept, None};
        use Waits::{Behind, ForMover, ForOthers};
        let sums = |parts: &[Part]| {
            let sums = Sums::of(parts.iter().copied());
            (sums.dirty, sums.committable, sums.steps)
        };
        assert_eq!(sums(&[part(1, ForMover, Kept)]), (1, 1, 1));
        assert_eq!(sums(&[part(2, ForOthers, None)]), (2, 0, 0));
        // Behind an open file, or one that is refused, nothing goes on where order is kept.
        assert_eq!(sums(&[part(4, Behind, Kept)]), (4, 0, 0));
        assert_eq!(sums(&[part(4, Behind, None)]), (4, 4, 1));
        let all = [part(1, ForMover, Kept), part(2, ForOthers, Kept), part(4, Behind, Kept)];
        assert_eq!(sums(&all), (7, 1, 1));
        assert_eq!(sums(&[part(u64::MAX, ForMover, None); 2]).0, u64::MAX);
    }
}
