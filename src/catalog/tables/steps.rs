//! `step` rows: what the mover still has to do.

use super::{Counter, Tx};
use crate::catalog::schema::{DELETE, RECONCILE};
use crate::catalog::{PlaceId, Step, StepKind};
use crate::error::Result;
use crate::types::{Ino, Seq, Timestamp};
use rusqlite::{Row, params};

/// What happens to the place in the order of a step that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::catalog) enum Order {
    Keep,
    /// Behind everything queued so far.
    End,
}

/// Why a reconcile step is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::catalog) enum Why {
    /// Attributes or names.
    Names,
    /// A closed generation: its place in the order is the close.
    Content,
}

fn read(row: &Row<'_>) -> rusqlite::Result<Step> {
    let kind: i64 = row.get(1)?;
    let what = match kind {
        RECONCILE => StepKind::Reconcile(Ino(row.get::<_, i64>(2)?.cast_unsigned())),
        _ => StepKind::Delete { place: PlaceId(row.get(3)?), name: row.get(4)? },
    };
    Ok(Step {
        seq: Seq(row.get::<_, i64>(0)?.cast_unsigned()),
        what,
        domain: row.get(5)?,
        queued_at: Timestamp(row.get(6)?),
        attempts: row.get(7)?,
        not_before: Timestamp(row.get(8)?),
        error: row.get(9)?,
        blocked: row.get(10)?,
    })
}

impl Tx<'_> {
    pub(in crate::catalog) fn steps(&self, after: Seq, limit: usize) -> Result<Vec<Step>> {
        self.all(
            "SELECT seq, kind, ino, place, name, domain, queued_at, attempts, not_before, error, blocked
             FROM step WHERE seq > ?1 ORDER BY seq LIMIT ?2",
            params![i64::try_from(after.0).unwrap_or(i64::MAX), i64::try_from(limit).unwrap_or(i64::MAX)],
            read,
        )
    }

    /// Sequence number and content flag of the inode's reconcile step.
    pub(in crate::catalog) fn reconcile_step(&self, ino: Ino) -> Result<Option<(i64, bool)>> {
        self.first(
            "SELECT seq, content FROM step WHERE ino = ?1 AND ino <> 0",
            [ino.0.cast_signed()],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
    }

    /// Queues a reconcile step for `ino`, or renews the one there is: a failed or blocked one is
    /// tried again, and one that runs right now is run once more afterwards.
    pub(in crate::catalog) fn queue_reconcile(
        &self,
        ino: Ino,
        domain: &str,
        why: Why,
        order: Order,
    ) -> Result<Seq> {
        self.wake();
        let content = why == Why::Content;
        let had_content = match self.reconcile_step(ino)? {
            Some((seq, had)) if order == Order::Keep => {
                self.execute(
                    "UPDATE step SET again = 1, content = ?2, attempts = 0, not_before = 0, error = NULL,
                     blocked = 0 WHERE seq = ?1",
                    params![seq, content || had],
                )?;
                return Ok(Seq(seq.cast_unsigned()));
            }
            Some((seq, had)) => {
                self.finish_step(Seq(seq.cast_unsigned()))?;
                had
            }
            None => false,
        };
        self.insert_step(RECONCILE, ino, (0, b""), domain, content || had_content)
    }

    /// Queues the delete of a key, behind everything queued so far.
    pub(in crate::catalog) fn queue_delete(&self, place: i64, name: &[u8], domain: &str) -> Result<Seq> {
        self.wake();
        self.drop_delete(place, name)?;
        self.insert_step(DELETE, Ino(0), (place, name), domain, false)
    }

    fn insert_step(
        &self,
        kind: i64,
        ino: Ino,
        (place, name): (i64, &[u8]),
        domain: &str,
        content: bool,
    ) -> Result<Seq> {
        let seq = self.take(Counter::Seq)?;
        self.execute(
            "INSERT INTO step (seq, kind, ino, place, name, domain, content, again, queued_at, attempts,
             not_before, error, blocked) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, 0, 0, NULL, 0)",
            params![seq, kind, ino.0.cast_signed(), place, name, domain, content, self.now().0],
        )?;
        Ok(Seq(seq.cast_unsigned()))
    }

    /// Removes the step, whatever came in between.
    pub(in crate::catalog) fn finish_step(&self, seq: Seq) -> Result<()> {
        self.execute("DELETE FROM step WHERE seq = ?1", [seq.0.cast_signed()])?;
        Ok(())
    }

    pub(in crate::catalog) fn drop_reconcile(&self, ino: Ino) -> Result<()> {
        self.execute("DELETE FROM step WHERE ino = ?1 AND ino <> 0", [ino.0.cast_signed()])?;
        Ok(())
    }

    pub(in crate::catalog) fn has_delete(&self, place: i64, name: &[u8]) -> Result<bool> {
        self.exists("SELECT 1 FROM step WHERE place = ?1 AND name = ?2 AND ino = 0", params![place, name])
    }

    pub(in crate::catalog) fn drop_delete(&self, place: i64, name: &[u8]) -> Result<()> {
        self.execute("DELETE FROM step WHERE place = ?1 AND name = ?2 AND ino = 0", params![place, name])?;
        Ok(())
    }
}
