//! The mover's list.

use super::Catalog;
use crate::catalog::Step;
use crate::catalog::tables::{Order, Why};
use crate::error::Result;
use crate::types::{Ino, Seq, Timestamp};
use rusqlite::params;

impl Catalog {
    /// Runnable and waiting steps in order, from `after`.
    pub fn steps(&self, after: Seq, limit: usize) -> Result<Vec<Step>> {
        self.engine.read(|tx| tx.steps(after, limit))
    }

    /// Queues a reconcile step for `ino` at the end, or keeps the one there is (and lets a blocked one try again).
    pub fn queue(&self, ino: Ino, domain: &str) -> Result<Seq> {
        self.engine.write(|tx| {
            tx.inode(ino)?;
            tx.queue_reconcile(ino, domain, Why::Names, Order::Keep)
        })
    }

    /// The step is done. Only if it is still the same (seq unchanged), and nothing was queued for its inode since it was made or last
    /// finished: then it stays, to be run once more.
    pub fn finish_step(&self, seq: Seq) -> Result<()> {
        self.engine.write(|tx| {
            let again = tx.execute(
                "UPDATE step SET again = 0, attempts = 0, not_before = 0, error = NULL WHERE seq = ?1 AND again = 1",
                [seq.0.cast_signed()],
            )?;
            if again == 0 {
                return tx.finish_step(seq);
            }
            tx.wake();
            Ok(())
        })
    }

    /// The step failed: remembered with its error, tried again after `not_before`, or blocked.
    pub fn fail_step(&self, seq: Seq, error: &str, not_before: Timestamp, blocked: bool) -> Result<()> {
        self.engine.write(|tx| {
            tx.execute(
                "UPDATE step SET attempts = attempts + 1, error = ?2, not_before = ?3, blocked = ?4 WHERE seq = ?1",
                params![seq.0.cast_signed(), error, not_before.0, blocked],
            )?;
            Ok(())
        })
    }
}
