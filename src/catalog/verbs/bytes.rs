//! What opens and closes for writing mean for the tables.

use super::{Catalog, partial_name, stage_name};
use crate::catalog::tables::{Order, ReplicaRow, State, Tx, Why};
use crate::catalog::{Content, Inode, Replica, WriteState};
use crate::error::{Error, Kind, Result};
use crate::types::{FileKind, Generation, Ino, Seq, TierId, Version};

/// What a write in place made of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrote {
    /// Its newest generation.
    pub generation: Generation,
    /// Its names.
    pub nlink: u32,
}

impl Catalog {
    /// What an in-place written native file looks like now: after FLUSH, truncate or link by ourselves. Another size or mtime is a new
    /// generation, which all names of the file on `tier` hold. Answers the generation.
    pub fn wrote_native(&self, ino: Ino, tier: TierId, content: Content, version: &Version) -> Result<Wrote> {
        let young = |state: &mut State, now| state.young.wrote(ino, content, version, now);
        if let Some(generation) = self.engine.quick_change(young) {
            // A second name would have needed its row.
            return Ok(Wrote { generation, nlink: 1 });
        }
        self.engine.relaxed(|tx| {
            let mut inode = tx.inode(ino)?;
            let mut written = Vec::new();
            for row in tx.replicas_of(ino)? {
                let here = tx.place_row(row.place)?.tier == tier.0 && !tx.is_stage(row.place)?;
                if here && row.generation == inode.generation.0 {
                    written.push(row);
                }
            }
            // Else the newest bytes are elsewhere.
            if !written.is_empty() {
                inode.write_in_place(content);
                tx.update_inode(&inode)?;
            }
            for mut row in written {
                row.generation = inode.generation.0;
                row.version = Some(version.0.to_vec());
                tx.put_replica(&row)?;
            }
            Ok(Wrote { generation: inode.generation, nlink: inode.attr.nlink })
        })
    }

    /// A write-open of a file whose home is elsewhere. Starts generation + 1 on `stage`. If the newest generation is already staged on `stage`,
    /// the same stage file is taken back under the new generation (the step keeps its place if anything waits for it); else a new row is made, named by [`stage_name`].
    /// Answers the staged replica; its file may have to be made. While the file is being written already, answers the row there is.
    pub fn begin_write(&self, ino: Ino, stage: TierId) -> Result<Replica> {
        self.begin(ino, stage, stage_name)
    }

    /// [`Catalog::begin_write`] of a file of which no generation is staged, and of which only what is written will be.
    pub fn begin_partial(&self, ino: Ino, stage: TierId) -> Result<Replica> {
        self.begin(ino, stage, partial_name)
    }

    fn begin(
        &self,
        ino: Ino,
        stage: TierId,
        name_of: impl Fn(Ino, Generation) -> Vec<u8>,
    ) -> Result<Replica> {
        self.engine.write(|tx| {
            let mut inode = tx.inode(ino)?;
            if inode.attr.kind != FileKind::Regular {
                return Err(Error::new(Kind::Invalid, format!("inode {ino} is not a regular file")));
            }
            let stage_place = tx.tier(stage.0)?.stage;
            let there = tx.staged(&inode, |row| row.place == stage_place)?;
            if inode.state == WriteState::Writing
                && let Some(row) = there
            {
                return tx.to_replica(row);
            }
            let next = inode.generation.next();
            let mut row = match there {
                Some(row) => row,
                None => tx.staged_row_named(stage, ino, next, &name_of(ino, next))?,
            };
            tx.take_back_step(&inode)?;
            row.generation = next.0;
            tx.put_replica(&row)?;
            inode.generation = next;
            inode.state = WriteState::Writing;
            tx.is_wanted(&mut inode);
            tx.update_inode(&inode)?;
            tx.to_replica(row)
        })
    }

    /// The close row: state `ClosedOpen`, size and times, and a reconcile step at the end of `domain`'s order. The step of a file that was closed and taken back
    /// while others waited for it keeps its place, and so does that of one closed again with nothing queued behind it. A file without names is closed
    /// without a step: sequence 0.
    pub fn close(&self, ino: Ino, content: Content, domain: &str) -> Result<Seq> {
        self.engine.write(|tx| {
            let mut inode = tx.inode(ino)?;
            let again = inode.state == WriteState::ClosedOpen;
            inode.take_content(content);
            inode.state = WriteState::ClosedOpen;
            tx.update_inode(&inode)?;
            let order = match tx.reconcile_step(ino)?.filter(|step| step.content) {
                // What is closed now may speak of what was closed meanwhile.
                Some(step) if again && tx.is_followed(&step)? => Order::End,
                // Until it is clean, no run finishes a content step.
                Some(_) => Order::KeepQuietly,
                None => Order::End,
            };
            tx.queue_reconcile(ino, domain, Why::Content, order)
        })
    }

    /// The last write handle is released: `ClosedOpen` → `Closed`. Wakes the mover.
    pub fn released(&self, ino: Ino) -> Result<()> {
        self.engine.write(|tx| {
            let mut inode = tx.inode(ino)?;
            if inode.state == WriteState::ClosedOpen {
                inode.state = WriteState::Closed;
                tx.update_inode(&inode)?;
                tx.wake();
            }
            Ok(())
        })
    }

    /// A write-open that changed nothing: back to the last generation, which home has or which was preserved; the staged row is dropped and
    /// answered for removal. Only if there is such a generation. A key that a rename made it leave meanwhile has a step in `domain` then: the
    /// close that would have seen to it never comes.
    pub fn revert_write(&self, ino: Ino, domain: &str) -> Result<Option<Replica>> {
        self.engine.write(|tx| tx.revert_write(ino, domain))
    }

    /// Where home has one of these generations of `ino`, or its newest one if it is clean: each has what a partly staged generation that
    /// began from them lacks. The newest first.
    pub fn bases(&self, ino: Ino, generations: &[Generation]) -> Result<Vec<Replica>> {
        self.engine.read(|tx| {
            let Some(inode) = tx.find_inode(ino)? else { return Ok(Vec::new()) };
            let newest = (inode.state == WriteState::Clean).then_some(inode.generation);
            let mut bases = Vec::new();
            for row in tx.replicas_of(ino)? {
                let generation = Generation(row.generation);
                let fits =
                    row.generation != 0 && (generations.contains(&generation) || Some(generation) == newest);
                if fits && row.version.is_some() && !tx.is_stage(row.place)? {
                    bases.push(tx.to_replica(row)?);
                }
            }
            bases.sort_by_key(|base| std::cmp::Reverse(base.generation));
            Ok(bases)
        })
    }

    /// Remembers the size of a file being written (attribute changes by truncate on a staged file).
    pub fn resize(&self, ino: Ino, content: Content) -> Result<()> {
        self.engine.write(|tx| {
            let mut inode = tx.inode(ino)?;
            if (inode.attr.size, inode.attr.mtime) != (content.size, content.mtime) {
                tx.leave_before(&mut inode)?;
            }
            inode.take_content(content);
            tx.update_inode(&inode)
        })
    }
}

impl Tx<'_> {
    /// See [`Catalog::revert_write`].
    pub(super) fn revert_write(&self, ino: Ino, domain: &str) -> Result<Option<Replica>> {
        let mut inode = self.inode(ino)?;
        let before = Generation(inode.generation.0.saturating_sub(1));
        let Some(row) = self.staged(&inode, |_| inode.state == WriteState::Writing)? else {
            return Ok(None);
        };
        let preserved = self.preserved_step(ino, before)?.is_some() && self.preserved(ino, before)?.is_some();
        let is_at_home = self.holds(ino, before)?;
        if before.0 == 0 || !(preserved || is_at_home) {
            return Ok(None);
        }
        self.delete_replica(row.place, &row.name)?;
        inode.generation = before;
        // Its commit may have come through before its step had an end.
        inode.state = if is_at_home { WriteState::Clean } else { WriteState::Closed };
        if preserved {
            self.restore_step(ino, before)?;
        }
        self.update_inode(&inode)?;
        if self.has_left_key(ino)? {
            self.queue_reconcile(ino, domain, Why::Names, Order::Keep)?;
        }
        self.wake();
        self.to_replica(row).map(Some)
    }

    /// What is written is no longer what the file was before, whatever its size and times say after this: it is a generation that
    /// can't be taken back.
    pub(super) fn leave_before(&self, inode: &mut Inode) -> Result<()> {
        let (ino, before) = (inode.attr.ino, inode.generation.before());
        let Some(row) = self.staged(inode, |_| inode.state == WriteState::Writing)? else { return Ok(()) };
        if before.0 == 0 || !(self.preserved(ino, before)?.is_some() || self.holds(ino, before)?) {
            return Ok(());
        }
        inode.generation = inode.generation.next();
        self.put_replica(&ReplicaRow { generation: inode.generation.0, ..row })
    }

    /// A staged row of the newest generation that `fits`.
    pub(super) fn staged(
        &self,
        inode: &Inode,
        fits: impl Fn(&ReplicaRow) -> bool,
    ) -> Result<Option<ReplicaRow>> {
        for row in self.replicas_of(inode.attr.ino)? {
            if row.generation == inode.generation.0 && self.is_stage(row.place)? && fits(&row) {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// Whether a replica outside stages lies under a key that is none of its names.
    fn has_left_key(&self, ino: Ino) -> Result<bool> {
        let names = self.names(ino)?;
        for row in self.replicas_of(ino)? {
            let owner = self.place_row(row.place)?.owner();
            let is_named = names.iter().any(|(dir, name)| owner == Some(*dir) && *name == row.name);
            if !is_named && !self.is_stage(row.place)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a replica outside stages has this generation.
    pub(super) fn holds(&self, ino: Ino, generation: Generation) -> Result<bool> {
        for row in self.replicas_of(ino)? {
            if row.generation == generation.0 && row.version.is_some() && !self.is_stage(row.place)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
