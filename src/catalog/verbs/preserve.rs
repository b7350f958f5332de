//! Closed generations that newer ones follow before their turn to be committed: their bytes stay in a stage file of
//! their own, and their step keeps its place, so that what was closed after them is never visible before them.

use super::{Catalog, PARTIAL, is_partial, stage_name};
use crate::catalog::schema::{PRESERVED, RECONCILE};
use crate::catalog::tables::{Order, ReconcileStep, ReplicaRow, Tx, Why};
use crate::catalog::{Content, Inode, PlaceId, RenamePlan, Replica, Step, StepKind, WriteState};
use crate::error::{Kind, Result};
use crate::types::{Generation, Ino, Seq, TierId, Timestamp};
use rusqlite::params;
use std::time::Duration;

/// End of the name of a stage file that holds a copy of what another stage file held when it was closed.
const COPIED: &[u8] = b".closed";

/// A closed file: its inode, its staged row, its step.
type Closed = (Inode, ReplicaRow, ReconcileStep);

impl Catalog {
    /// Whether the newest generation of `ino` is closed (though it may still be open) and staged, and something was queued behind it in its order
    /// domain: who writes the file again must leave it those bytes.
    pub fn is_followed(&self, ino: Ino) -> Result<bool> {
        self.engine.read(|tx| Ok(tx.followed(ino)?.is_some()))
    }

    /// Starts the next generation of such a file, which is not open, in a new stage file on `stage`, which has to be made; answers its row. None if it
    /// is no such file (any more).
    pub fn begin_apart(&self, ino: Ino, stage: TierId) -> Result<Option<Replica>> {
        self.engine.write(|tx| {
            let followed = tx.followed(ino)?.filter(|(inode, ..)| inode.state == WriteState::Closed);
            let Some((inode, _, step)) = followed else { return Ok(None) };
            let row = tx.staged_row(stage, ino, inode.generation.next())?;
            tx.put_replica(&row)?;
            tx.keep_turn(&inode, &step)?;
            tx.write_on(inode)?;
            tx.to_replica(row).map(Some)
        })
    }

    /// The same where programs have the stage file open: it goes on as the next generation, and what it held when it was closed has
    /// been copied for the row that is answered.
    pub fn begin_over_copy(&self, ino: Ino) -> Result<Option<Replica>> {
        self.engine.write(|tx| match tx.followed(ino)? {
            Some(closed) => tx.go_on_over_copy(closed).map(Some),
            None => Ok(None),
        })
    }

    /// The same for a file that is open, whether or not others wait for it: `content` is what was copied. None if it was closed with
    /// something else, or is not closed.
    pub fn snapshot(&self, ino: Ino, content: Content) -> Result<Option<Replica>> {
        self.engine.write(|tx| match tx.closed(ino)? {
            Some(closed) if closed.0.state == WriteState::ClosedOpen && is_of(&closed.0, content) => {
                tx.go_on_over_copy(closed).map(Some)
            }
            _ => Ok(None),
        })
    }

    /// The same of a closed file that somebody went on writing to without an open of it here, by a mapping that outlived its handle or its
    /// daemon: what was closed is no more, and `content`, what was copied, takes its place in the order.
    pub fn snapshot_changed(&self, ino: Ino, content: Content) -> Result<Option<Replica>> {
        self.engine.write(|tx| match tx.closed(ino)? {
            Some((mut inode, row, step)) if inode.state == WriteState::ClosedOpen => {
                inode.take_content(content);
                tx.go_on_over_copy((inode, row, step)).map(Some)
            }
            _ => Ok(None),
        })
    }

    /// The step that brings `generation` of `ino` home, with its domain; none if a home has it, or a later one, or nobody needs it any more.
    pub fn step_for(&self, ino: Ino, generation: Generation) -> Result<Option<(String, Seq)>> {
        self.engine.read(|tx| {
            let Some(inode) = tx.find_inode(ino)?.filter(|inode| inode.attr.nlink > 0) else {
                return Ok(None);
            };
            if let Some(found) = tx.preserved_to(ino, generation)? {
                return Ok(Some(found));
            }
            let is_closed = inode.generation <= generation
                && matches!(inode.state, WriteState::Closed | WriteState::ClosedOpen);
            let step = tx.reconcile_step(ino)?.filter(|step| step.content && is_closed);
            Ok(step.map(|step| (step.domain, Seq(step.seq.cast_unsigned()))))
        })
    }

    /// The generation that was begun when the one before was preserved never changed, and that one is at home: it is the newest again, and
    /// the staged file holds it. False, and nothing is done, if home has it not.
    pub fn end_unchanged(&self, ino: Ino, domain: &str) -> Result<bool> {
        self.engine.write(|tx| {
            let mut inode = tx.inode(ino)?;
            let before = inode.generation.before();
            let staged = tx.staged(&inode, |_| inode.state == WriteState::Writing)?;
            let Some(row) = staged.filter(|_| before.0 > 0) else { return Ok(false) };
            if tx.preserved(ino, before)?.is_some() || !tx.holds(ino, before)? {
                return Ok(false);
            }
            tx.put_replica(&ReplicaRow { generation: before.0, ..row })?;
            inode.generation = before;
            inode.state = WriteState::Clean;
            tx.update_inode(&inode)?;
            tx.queue_reconcile(ino, domain, Why::Names, Order::Keep)?;
            Ok(true)
        })
    }

    /// FULL: a commit of a generation whose file lost the name starts. False, and nothing is written down, if the key is nobody's any more, or
    /// has something of whoever has the name now.
    pub fn begin_replaced(&self, place: PlaceId, name: &[u8], write_id: &str) -> Result<bool> {
        self.engine.durable(|tx| {
            let Some(mut row) = tx.free_for_replaced(place.0, name)? else { return Ok(false) };
            row.write_id = Some(write_id.to_owned());
            tx.put_replica(&row)?;
            Ok(true)
        })
    }

    /// Whether anything that is still there was closed after this step in its domain: else nobody can miss what it would show.
    pub fn is_awaited(&self, seq: Seq) -> Result<bool> {
        self.engine.read(|tx| {
            tx.exists(
                "SELECT 1 FROM step s JOIN step t ON t.domain = s.domain AND t.seq > s.seq AND t.kind IN (?2, ?3)
                 WHERE s.seq = ?1",
                params![seq.0.cast_signed(), RECONCILE, PRESERVED],
            )
        })
    }

    /// Whether a generation of a file that lost its name is to be committed under the key before what has the name now.
    pub fn has_replaced(&self, place: PlaceId, name: &[u8]) -> Result<bool> {
        self.engine.read(|tx| tx.has_replaced(place.0, name))
    }

    /// The generation of `step` is at home, or nobody needs it any more: step and staged row go (FULL before the answer); answers the row, whose
    /// file may be removed. None, and nothing is done, if the step is another by now: its generation is the newest again, or its file lost the name.
    pub fn preserved_done(&self, step: &Step) -> Result<Option<Replica>> {
        self.engine.durable(|tx| {
            let now = tx.steps(Seq(step.seq.0.saturating_sub(1)), 1)?;
            let is_same = now.first().is_some_and(|now| (now.seq, &now.what) == (step.seq, &step.what));
            let (StepKind::Preserved(ino, generation) | StepKind::Replaced { ino, generation, .. }) =
                step.what
            else {
                return Ok(None);
            };
            if !is_same {
                return Ok(None);
            }
            tx.finish_step(step.seq)?;
            let Some(row) = tx.preserved(ino, generation)? else { return Ok(None) };
            tx.delete_replica(row.place, &row.name)?;
            tx.to_replica(row).map(Some)
        })
    }
}

/// Key below the stage place of the copy of a closed generation.
#[must_use]
pub fn copied_name(ino: Ino, generation: Generation) -> Vec<u8> {
    [&stage_name(ino, generation), COPIED].concat()
}

/// The same of a generation that is partly staged.
#[must_use]
pub fn copied_partial_name(ino: Ino, generation: Generation) -> Vec<u8> {
    [&copied_name(ino, generation), PARTIAL].concat()
}

fn is_of(inode: &Inode, content: Content) -> bool {
    (inode.attr.size, inode.attr.mtime) == (content.size, content.mtime)
}

impl Tx<'_> {
    /// The inode, its staged row and its step, if it is closed.
    fn closed(&self, ino: Ino) -> Result<Option<Closed>> {
        let is_closed = |inode: &Inode| matches!(inode.state, WriteState::Closed | WriteState::ClosedOpen);
        let Some(inode) = self.find_inode(ino)?.filter(is_closed) else { return Ok(None) };
        let Some(step) = self.reconcile_step(ino)?.filter(|step| step.content) else { return Ok(None) };
        Ok(self.staged(&inode, |_| true)?.map(|row| (inode, row, step)))
    }

    /// The same, if it is followed too.
    fn followed(&self, ino: Ino) -> Result<Option<Closed>> {
        match self.closed(ino)? {
            Some(closed) if self.is_followed(&closed.2)? => Ok(Some(closed)),
            _ => Ok(None),
        }
    }

    /// The step goes on for the closed generation alone. What a rename made of the file's keys is seen to later, for the file.
    fn keep_turn(&self, inode: &Inode, step: &ReconcileStep) -> Result<()> {
        self.preserve_step(step.seq, inode.generation.0)?;
        if step.moved {
            self.queue_reconcile(inode.attr.ino, &step.domain, Why::Names, Order::End)?;
        }
        Ok(())
    }

    /// The staged file goes on as the next generation, and the answered row is for a copy of what it holds.
    fn go_on_over_copy(&self, (inode, staged, step): Closed) -> Result<Replica> {
        let (ino, generation) = (inode.attr.ino, inode.generation);
        let name = match is_partial(&staged.name) {
            true => copied_partial_name(ino, generation),
            false => copied_name(ino, generation),
        };
        let copy = ReplicaRow { name, ..staged.clone() };
        self.put_replica(&copy)?;
        self.put_replica(&ReplicaRow { generation: generation.next().0, ..staged })?;
        self.keep_turn(&inode, &step)?;
        self.write_on(inode)?;
        self.wake();
        self.to_replica(copy)
    }

    /// The file that loses its last name by the rename keeps its turn at home, if the plan says that it may be needed.
    pub(super) fn preserve_replaced(&self, plan: &RenamePlan, there: &Inode) -> Result<()> {
        let (Some(tier), 1) = (plan.preserve, there.attr.nlink) else { return Ok(()) };
        self.keep_turns(there.attr.ino, plan.new_parent, &plan.new_name, tier).map(drop)
    }

    /// All closed generations of a file that others wait for are shown in their turn under the key that the name has now; answers in which place that is, if
    /// there are any.
    fn keep_turns(&self, ino: Ino, parent: Ino, name: &[u8], home: TierId) -> Result<Option<i64>> {
        let newest = self.followed(ino)?;
        if newest.is_none() && !self.has_preserved(ino)? {
            return Ok(None);
        }
        let Some(place) = self.place_for(parent, home)? else { return Ok(None) };
        if let Some((inode, _, step)) = newest {
            self.preserve_step(step.seq, inode.generation.0)?;
        }
        self.keep_replaced(ino, place, name)?;
        Ok(Some(place))
    }

    /// The row of a key for what had it before: nothing that came later is there, and whoever has it now, or its delete, goes over it.
    fn free_for_replaced(&self, place: i64, name: &[u8]) -> Result<Option<ReplicaRow>> {
        let place = self.place_row(place)?;
        let row = self.replica(place.id, name)?;
        if let Some(doomed) = row.as_ref().filter(|row| row.ino == 0) {
            let is_free = doomed.write_id.is_none() && self.has_delete(place.id, name)?;
            return Ok(row.filter(|_| is_free));
        }
        let Some(dir) = place.owner() else { return Ok(None) };
        let Some(heir) = self.dentry(dir, name)? else { return Ok(None) };
        let row = row.unwrap_or_else(|| ReplicaRow::new(place.id, name, heir.0));
        let is_native = self.native(dir, place.tier)? == Some(place.id);
        let is_free = is_native && row.ino == heir.0 && row.generation == 0 && row.write_id.is_none();
        Ok(is_free.then_some(row))
    }

    /// The native place of a directory, made if there is none; none while another directory has it.
    fn place_for(&self, dir: Ino, tier: TierId) -> Result<Option<i64>> {
        match self.ensure_native(dir, tier.0) {
            Err(error) if error.kind() == Kind::Busy => Ok(None),
            other => other.map(Some),
        }
    }

    /// A file that is deleted keeps its turn, if it may be needed; answers in which place it is to be deleted then.
    pub(super) fn keep_deleted(
        &self,
        inode: &Inode,
        parent: Ino,
        name: &[u8],
        home: TierId,
        settle: Duration,
    ) -> Result<Option<i64>> {
        let ino = inode.attr.ino;
        let step = self.reconcile_step(ino)?.filter(|step| step.content);
        let closed_at = step.map_or(Timestamp(0), |step| step.renewed_at);
        let settled_at = closed_at.0.saturating_add(i64::try_from(settle.as_nanos()).unwrap_or(i64::MAX));
        if inode.attr.nlink > 1 || settled_at > self.now().0 {
            return Ok(None);
        }
        self.keep_turns(ino, parent, name, home)
    }

    /// The key is deleted behind everything queued so far, though nothing lies there yet.
    pub(super) fn delete_later(&self, place: i64, name: &[u8], domain: &str) -> Result<()> {
        if self.replica(place, name)?.is_none_or(|row| row.ino == 0) && !self.has_delete(place, name)? {
            self.bury(place, name)?;
            self.queue_delete(place, name, domain)?;
        }
        Ok(())
    }

    /// The next generation is open for writing.
    fn write_on(&self, mut inode: Inode) -> Result<()> {
        inode.generation = inode.generation.next();
        inode.state = WriteState::Writing;
        self.update_inode(&inode)
    }

    /// The staged row of a generation that is not the newest.
    pub(super) fn preserved(&self, ino: Ino, generation: Generation) -> Result<Option<ReplicaRow>> {
        for row in self.replicas_of(ino)? {
            if row.generation == generation.0 && self.is_stage(row.place)? {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }
}
