//! `step` rows: what the mover still has to do.

use super::{Counter, Tx};
use crate::catalog::schema::{DELETE, PRESERVED, RECONCILE, REPLACED};
use crate::catalog::{Inode, PlaceId, Step, StepKind, WriteState};
use crate::error::Result;
use crate::types::{Generation, Ino, Seq, Timestamp};
use rusqlite::{Row, params};

/// What happens to the place in the order of a step that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::catalog) enum Order {
    Keep,
    /// Kept, and a run that is under way now knows of it already or can't finish it.
    KeepQuietly,
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

macro_rules! columns {
    () => {
        "seq, kind, ino, place, name, domain, queued_at, attempts, not_before, error, blocked, generation, renewed_at, moved, follows, content"
    };
}

fn read(row: &Row<'_>) -> rusqlite::Result<Step> {
    let ino = Ino(row.get::<_, i64>(2)?.cast_unsigned());
    let generation = Generation(row.get::<_, i64>(11)?.cast_unsigned());
    let what = match row.get::<_, i64>(1)? {
        RECONCILE => StepKind::Reconcile(ino),
        PRESERVED => StepKind::Preserved(ino, generation),
        REPLACED => StepKind::Replaced { ino, generation, place: PlaceId(row.get(3)?), name: row.get(4)? },
        _ => StepKind::Delete { place: PlaceId(row.get(3)?), name: row.get(4)? },
    };
    Ok(Step {
        seq: Seq(row.get::<_, i64>(0)?.cast_unsigned()),
        what,
        domain: row.get(5)?,
        queued_at: Timestamp(row.get(6)?),
        renewed_at: Timestamp(row.get(12)?),
        content: row.get(15)?,
        moved: row.get(13)?,
        follows: row.get(14)?,
        attempts: row.get(7)?,
        not_before: Timestamp(row.get(8)?),
        error: row.get(9)?,
        blocked: row.get(10)?,
    })
}

/// What a new step is.
struct NewStep<'a> {
    kind: i64,
    ino: Ino,
    place: i64,
    name: &'a [u8],
    domain: &'a str,
    content: bool,
    queued_at: Timestamp,
}

/// The reconcile step of an inode, as far as the tables need to know it.
#[derive(Clone, Debug)]
pub(in crate::catalog) struct ReconcileStep {
    pub seq: i64,
    /// It stands for a close.
    pub content: bool,
    pub domain: String,
    pub queued_at: Timestamp,
    pub renewed_at: Timestamp,
    /// A rename queued it.
    pub moved: bool,
}

impl Tx<'_> {
    pub(in crate::catalog) fn steps(&self, after: Seq, limit: usize) -> Result<Vec<Step>> {
        self.all(
            concat!("SELECT ", columns!(), " FROM step WHERE seq > ?1 ORDER BY seq LIMIT ?2"),
            params![i64::try_from(after.0).unwrap_or(i64::MAX), i64::try_from(limit).unwrap_or(i64::MAX)],
            read,
        )
    }

    /// The step for the newest state of the inode.
    pub(in crate::catalog) fn reconcile_step(&self, ino: Ino) -> Result<Option<ReconcileStep>> {
        self.first(
            "SELECT seq, content, domain, queued_at, renewed_at, moved FROM step WHERE ino = ?1 AND ino <> 0 AND generation = 0",
            [ino.0.cast_signed()],
            |row| {
                Ok(ReconcileStep {
                    seq: row.get(0)?,
                    content: row.get(1)?,
                    domain: row.get(2)?,
                    queued_at: Timestamp(row.get(3)?),
                    renewed_at: Timestamp(row.get(4)?),
                    moved: row.get(5)?,
                })
            },
        )
    }

    /// Whether anything was queued behind this step in its domain.
    pub(in crate::catalog) fn is_followed(&self, step: &ReconcileStep) -> Result<bool> {
        self.exists("SELECT 1 FROM step WHERE domain = ?1 AND seq > ?2", params![step.domain, step.seq])
    }

    /// Queues a reconcile step for `ino`, or renews the one there is: a failed or blocked one is
    /// tried again, and one that runs right now is run once more afterwards. Home need not hear of
    /// an inode without names: then nothing is queued, and the answer is 0.
    pub(in crate::catalog) fn queue_reconcile(
        &self,
        ino: Ino,
        domain: &str,
        why: Why,
        order: Order,
    ) -> Result<Seq> {
        if self.exists("SELECT 1 FROM inode WHERE ino = ?1 AND nlink = 0", [ino.0.cast_signed()])? {
            return Ok(Seq(0));
        }
        self.wake();
        let content = why == Why::Content;
        let known = self.reconcile_step(ino)?;
        if let Some(step) = known.as_ref().filter(|_| order != Order::End) {
            self.execute(
                "UPDATE step SET again = max(again, ?3), content = ?2, attempts = 0, not_before = 0, error = NULL,
                 blocked = 0, renewed_at = CASE WHEN ?4 THEN ?5 ELSE renewed_at END WHERE seq = ?1",
                params![step.seq, content || step.content, order == Order::Keep, content, self.now().0],
            )?;
            return Ok(Seq(step.seq.cast_unsigned()));
        }
        if let Some(step) = &known {
            self.finish_step(Seq(step.seq.cast_unsigned()))?;
        }
        let had_content = known.filter(|step| step.content);
        self.insert_step(&NewStep {
            kind: RECONCILE,
            ino,
            place: 0,
            name: b"",
            domain,
            content: content || had_content.is_some(),
            queued_at: had_content.map_or(self.now(), |step| step.queued_at),
        })
    }

    /// Queues the delete of a key, behind everything queued so far.
    pub(in crate::catalog) fn queue_delete(&self, place: i64, name: &[u8], domain: &str) -> Result<Seq> {
        self.wake();
        self.drop_delete(place, name)?;
        let queued_at = self.now();
        self.insert_step(&NewStep {
            kind: DELETE,
            ino: Ino(0),
            place,
            name,
            domain,
            content: false,
            queued_at,
        })
    }

    fn insert_step(&self, step: &NewStep<'_>) -> Result<Seq> {
        let NewStep { kind, ino, place, name, domain, content, queued_at } = *step;
        let seq = self.take(Counter::Seq)?;
        self.execute(
            "INSERT INTO step (seq, kind, ino, place, name, domain, content, again, queued_at, attempts,
             not_before, error, blocked, renewed_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, 0, 0, NULL, 0, ?9)",
            params![seq, kind, ino.0.cast_signed(), place, name, domain, content, queued_at.0, self.now().0],
        )?;
        Ok(Seq(seq.cast_unsigned()))
    }

    /// A closed file is written again. If nothing waits for it, or it is at home already and its step about to end, the next close gives
    /// it its place in the order.
    pub(in crate::catalog) fn take_back_step(&self, inode: &Inode) -> Result<()> {
        if let Some(step) = self.reconcile_step(inode.attr.ino)?.filter(|step| step.content)
            && (inode.state == WriteState::Clean || !self.is_followed(&step)?)
        {
            self.execute("UPDATE step SET content = 0 WHERE seq = ?1", [step.seq])?;
        }
        Ok(())
    }

    /// The step was queued by a rename; steps behind it wait for what `follows` names too.
    pub(in crate::catalog) fn note_move(&self, seq: Seq, follows: Option<&str>) -> Result<()> {
        self.execute(
            "UPDATE step SET moved = 1, follows = ?2 WHERE seq = ?1",
            params![seq.0.cast_signed(), follows],
        )?;
        Ok(())
    }

    /// The step of a closed file goes on for `generation` alone, in its place; the next close makes another.
    pub(in crate::catalog) fn preserve_step(&self, seq: i64, generation: u64) -> Result<()> {
        self.execute(
            "UPDATE step SET kind = ?2, generation = ?3 WHERE seq = ?1",
            params![seq, PRESERVED, generation.cast_signed()],
        )?;
        Ok(())
    }

    /// What is closed of a file that loses its last name goes under this key in its turn, for what comes after it may speak of it.
    pub(in crate::catalog) fn keep_replaced(&self, ino: Ino, place: i64, name: &[u8]) -> Result<()> {
        self.execute(
            "UPDATE step SET kind = ?2, place = ?3, name = ?4 WHERE ino = ?1 AND generation <> 0",
            params![ino.0.cast_signed(), REPLACED, place, name],
        )?;
        Ok(())
    }

    /// Whether generations of a file have turns of their own.
    pub(in crate::catalog) fn has_preserved(&self, ino: Ino) -> Result<bool> {
        self.exists(
            "SELECT 1 FROM step WHERE ino = ?1 AND ino <> 0 AND generation <> 0",
            [ino.0.cast_signed()],
        )
    }

    /// Whether generations of a file without names still have their turn to come.
    pub(in crate::catalog) fn is_kept(&self, ino: Ino) -> Result<bool> {
        self.exists("SELECT 1 FROM step WHERE ino = ?1 AND kind = ?2", params![ino.0.cast_signed(), REPLACED])
    }

    /// Whether another generation is to be committed under the key first.
    pub(in crate::catalog) fn has_replaced(&self, place: i64, name: &[u8]) -> Result<bool> {
        self.exists(
            "SELECT 1 FROM step WHERE place = ?1 AND name = ?2 AND kind = ?3",
            params![place, name, REPLACED],
        )
    }

    /// Place in the order of the step for a preserved generation.
    pub(in crate::catalog) fn preserved_step(&self, ino: Ino, generation: Generation) -> Result<Option<Seq>> {
        self.first(
            "SELECT seq FROM step WHERE ino = ?1 AND generation = ?2 AND generation <> 0",
            params![ino.0.cast_signed(), generation.0.cast_signed()],
            |row| Ok(Seq(row.get::<_, i64>(0)?.cast_unsigned())),
        )
    }

    /// The last step, and its domain, that brings a preserved generation up to this one home.
    pub(in crate::catalog) fn preserved_to(
        &self,
        ino: Ino,
        generation: Generation,
    ) -> Result<Option<(String, Seq)>> {
        self.first(
            "SELECT domain, seq FROM step WHERE ino = ?1 AND kind = ?3 AND generation <= ?2 ORDER BY seq DESC LIMIT 1",
            params![ino.0.cast_signed(), generation.0.cast_signed(), PRESERVED],
            |row| Ok((row.get(0)?, Seq(row.get::<_, i64>(1)?.cast_unsigned()))),
        )
    }

    /// The preserved generation is the newest again: its step is the file's, unless a rename has given the file another place since.
    pub(in crate::catalog) fn restore_step(&self, ino: Ino, generation: Generation) -> Result<()> {
        self.wake();
        let Some(step) = self.reconcile_step(ino)? else {
            self.execute(
                "UPDATE step SET kind = ?3, generation = 0 WHERE ino = ?1 AND generation = ?2",
                params![ino.0.cast_signed(), generation.0.cast_signed(), RECONCILE],
            )?;
            return Ok(());
        };
        if let Some(preserved) = self.preserved_step(ino, generation)? {
            self.finish_step(preserved)?;
        }
        self.execute("UPDATE step SET content = 1 WHERE seq = ?1", [step.seq])?;
        Ok(())
    }

    /// Removes the step, whatever came in between.
    pub(in crate::catalog) fn finish_step(&self, seq: Seq) -> Result<()> {
        self.execute("DELETE FROM step WHERE seq = ?1", [seq.0.cast_signed()])?;
        Ok(())
    }

    pub(in crate::catalog) fn drop_reconcile(&self, ino: Ino) -> Result<()> {
        self.execute(
            "DELETE FROM step WHERE ino = ?1 AND ino <> 0 AND kind <> ?2",
            params![ino.0.cast_signed(), REPLACED],
        )?;
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
