//! Group commit: one slow act serves everybody who asked before it began.

use crate::error::Result;
use parking_lot::{Condvar, Mutex};

#[derive(Debug, Default)]
struct Rounds {
    started: u64,
    finished: u64,
    running: bool,
}

/// Shares rounds of a slow act between its callers.
#[derive(Debug, Default)]
pub(super) struct Group {
    rounds: Mutex<Rounds>,
    done: Condvar,
}

impl Group {
    /// Returns after a round of `act` that began after this call succeeded. A round that fails
    /// fails for who ran it; the others try again themselves.
    pub(super) fn run(&self, act: impl Fn() -> Result<()>) -> Result<()> {
        let mut rounds = self.rounds.lock();
        let wanted = rounds.started + 1;
        while rounds.finished < wanted {
            if rounds.running {
                self.done.wait(&mut rounds);
                continue;
            }
            rounds.running = true;
            rounds.started += 1;
            let mine = rounds.started;
            let outcome = parking_lot::MutexGuard::unlocked(&mut rounds, &act);
            rounds.running = false;
            if outcome.is_ok() {
                rounds.finished = mine;
            }
            self.done.notify_all();
            outcome?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn many_callers_share_rounds() {
        let (group, acts, start) = (Group::default(), AtomicUsize::new(0), Barrier::new(16));
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    start.wait();
                    group.run(|| {
                        acts.fetch_add(1, Ordering::SeqCst);
                        std::thread::yield_now();
                        Ok(())
                    })
                });
            }
        });
        assert!((1..=16).contains(&acts.load(Ordering::SeqCst)));
    }

    #[test]
    fn a_failed_round_is_told_and_the_next_one_runs() {
        let group = Group::default();
        assert_eq!(group.run(|| Err(Kind::NoSpace.into())).unwrap_err().kind(), Kind::NoSpace);
        assert!(group.run(|| Ok(())).is_ok());
    }
}
