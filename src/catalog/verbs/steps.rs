//! The mover's list.

use super::Catalog;
use crate::catalog::Step;
use crate::catalog::schema::{PRESERVED, RECONCILE, REPLACED};
use crate::catalog::tables::{Order, Why};
use crate::error::Result;
use crate::types::{Ino, Seq, Timestamp};
use rusqlite::params;

impl Catalog {
    /// Runnable and waiting steps in order, from `after`.
    pub fn steps(&self, after: Seq, limit: usize) -> Result<Vec<Step>> {
        self.engine.read(|tx| tx.steps(after, limit))
    }

    /// Place in the order of the step that brings home in line with `ino`, if there is one.
    pub fn step_of(&self, ino: Ino) -> Result<Option<Seq>> {
        self.engine.read(|tx| Ok(tx.reconcile_step(ino)?.map(|step| Seq(step.seq.cast_unsigned()))))
    }

    /// Queues a reconcile step for `ino` at the end, or keeps the one there is (and lets a blocked one try again).
    pub fn queue(&self, ino: Ino, domain: &str) -> Result<Seq> {
        self.engine.write(|tx| {
            tx.inode(ino)?;
            tx.queue_reconcile(ino, domain, Why::Names, Order::Keep)
        })
    }

    /// The step is done. Only if it is still the same (seq unchanged). It stays, to be run once more, if its inode was queued again since the
    /// step was made or last finished, or if it stands for a close and the content is still not clean. A step that became one for a generation
    /// of its own stays too.
    pub fn finish_step(&self, seq: Seq) -> Result<()> {
        self.engine.write(|tx| {
            if tx.exists(
                "SELECT 1 FROM step WHERE seq = ?1 AND kind IN (?2, ?3)",
                params![seq.0.cast_signed(), PRESERVED, REPLACED],
            )? {
                return Ok(());
            }
            let again = tx.execute(
                "UPDATE step SET again = 0, attempts = 0, not_before = 0, error = NULL WHERE seq = ?1 AND again = 1",
                [seq.0.cast_signed()],
            )?;
            if again > 0 {
                tx.wake();
                return Ok(());
            }
            let pending = tx.exists(
                "SELECT 1 FROM step s JOIN inode i ON i.ino = s.ino
                 WHERE s.seq = ?1 AND s.kind = ?2 AND s.content = 1 AND i.state <> 0",
                params![seq.0.cast_signed(), RECONCILE],
            )?;
            if pending { Ok(()) } else { tx.finish_step(seq) }
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

    /// A failed step may be tried again at once, a blocked one too. What its last try said stays until the next says something.
    pub fn retry_step(&self, seq: Seq) -> Result<()> {
        self.engine.write(|tx| {
            tx.execute(
                "UPDATE step SET attempts = 0, not_before = 0, blocked = 0 WHERE seq = ?1",
                [seq.0.cast_signed()],
            )?;
            tx.wake();
            Ok(())
        })
    }
}
