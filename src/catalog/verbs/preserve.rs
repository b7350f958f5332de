//! Closed generations that newer ones follow before their turn to be committed: their bytes stay in a stage file of
//! their own, and their step keeps its place, so that what was closed after them is never visible before them.

use super::{Catalog, stage_name};
use crate::catalog::tables::{ReplicaRow, Tx};
use crate::catalog::{Inode, Replica, WriteState};
use crate::error::Result;
use crate::types::{Generation, Ino, TierId};

/// End of the name of a stage file that holds a copy of what another stage file held when it was closed.
const COPIED: &[u8] = b".closed";

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
            let Some((inode, _, seq)) = followed else { return Ok(None) };
            let row = tx.staged_row(stage, ino, inode.generation.next())?;
            tx.put_replica(&row)?;
            tx.preserve_step(seq, inode.generation.0)?;
            tx.write_on(inode)?;
            tx.to_replica(row).map(Some)
        })
    }

    /// The same where programs have the stage file open: it goes on as the next generation, and what it held when it was closed has
    /// been copied for the row that is answered.
    pub fn begin_over_copy(&self, ino: Ino) -> Result<Option<Replica>> {
        self.engine.write(|tx| {
            let Some((inode, staged, seq)) = tx.followed(ino)? else { return Ok(None) };
            let generation = inode.generation;
            let copy = ReplicaRow { name: copied_name(ino, generation), ..staged.clone() };
            tx.put_replica(&copy)?;
            tx.put_replica(&ReplicaRow { generation: generation.next().0, ..staged })?;
            tx.preserve_step(seq, generation.0)?;
            tx.write_on(inode)?;
            tx.to_replica(copy).map(Some)
        })
    }

    /// The preserved generation is at home, or nobody needs it any more: its step and its row go (FULL before the answer); answers the row, whose
    /// file may be removed. None if the generation is the newest again.
    pub fn preserved_done(&self, ino: Ino, generation: Generation) -> Result<Option<Replica>> {
        self.engine.durable(|tx| {
            let Some(seq) = tx.preserved_step(ino, generation)? else { return Ok(None) };
            tx.finish_step(seq)?;
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

impl Tx<'_> {
    /// The inode, its staged row and the number of its step, if it is closed and followed.
    fn followed(&self, ino: Ino) -> Result<Option<(Inode, ReplicaRow, i64)>> {
        let is_closed = |inode: &Inode| matches!(inode.state, WriteState::Closed | WriteState::ClosedOpen);
        let Some(inode) = self.find_inode(ino)?.filter(is_closed) else { return Ok(None) };
        let Some(step) = self.reconcile_step(ino)?.filter(|step| step.content) else { return Ok(None) };
        if !self.is_followed(&step)? {
            return Ok(None);
        }
        Ok(self.staged(&inode, |_| true)?.map(|row| (inode, row, step.seq)))
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
