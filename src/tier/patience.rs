//! How long the thread at hand may wait for a tier that does not answer: said once by whoever owns the thread, instead of in
//! every call.

use std::cell::Cell;

/// What to do where a tier may hang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Not even try a tier behind a network: [`Kind::WouldBlock`](crate::error::Kind::WouldBlock), before anything is done.
    None,
    /// Try, but not if it is known not to answer: then [`Kind::TimedOut`](crate::error::Kind::TimedOut) at once.
    Brief,
    /// Wait for it to answer again, as long as its deadline says.
    Deadline,
}

thread_local! {
    static CURRENT: Cell<Patience> = const { Cell::new(Patience::Deadline) };
}

struct Restore(Patience);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

impl Patience {
    /// That of this thread.
    #[must_use]
    pub fn current() -> Self {
        CURRENT.get()
    }

    /// Runs `act` on this thread with at most this patience.
    pub fn at_most<T>(self, act: impl FnOnce() -> T) -> T {
        if Self::current() == Self::None { act() } else { self.during(act) }
    }

    /// Runs `act` on this thread with this patience.
    pub fn during<T>(self, act: impl FnOnce() -> T) -> T {
        let _restore = Restore(CURRENT.replace(self));
        act()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_with_what_it_was_for() {
        assert_eq!(Patience::current(), Patience::Deadline);
        let inside =
            Patience::None.during(|| (Patience::current(), Patience::Brief.during(Patience::current)));
        assert_eq!(inside, (Patience::None, Patience::Brief));
        assert_eq!(Patience::None.during(|| Patience::Brief.at_most(Patience::current)), Patience::None);
        assert_eq!(Patience::Brief.at_most(Patience::current), Patience::Brief);
        let broken = std::panic::catch_unwind(|| Patience::None.during(|| panic!("on purpose")));
        assert!(broken.is_err());
        assert_eq!(Patience::current(), Patience::Deadline);
    }
}
