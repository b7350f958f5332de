//! What happens to keys when their inode stops answering for them: shared by unlink, rmdir and rename.

use super::is_partial;
use crate::catalog::tables::{Order, ReplicaRow, Tx, Why};
use crate::catalog::{Inode, WriteState, Writers};
use crate::error::Result;
use crate::types::{FileKind, Generation, Ino, TierId, Timestamp};

/// How a name goes away.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leave<'a> {
    pub parent: Ino,
    pub name: &'a [u8],
    /// Tiers on which its native file is unlinked already.
    pub gone: &'a [TierId],
    /// Takes over the keys of the name instead of having them deleted, and what to know of who writes there.
    pub heir: Option<(Ino, Writers)>,
    /// Order domain of the deletes.
    pub domain: &'a str,
    pub now: Timestamp,
}

impl Tx<'_> {
    /// Takes one name from a file that is no directory; `inode` is written back. Answers whether
    /// the heir got a key.
    pub(super) fn leave_name(&self, inode: &mut Inode, leave: &Leave<'_>) -> Result<bool> {
        inode.attr.nlink = inode.attr.nlink.saturating_sub(1);
        inode.attr.ctime = leave.now;
        let mut inherited = false;
        for place in self.places_of(leave.parent)?.iter() {
            let Some(row) = self.replica(place.id, leave.name)? else { continue };
            if row.ino != inode.attr.ino.0 {
                continue;
            }
            let native = self.native(leave.parent, place.tier)? == Some(place.id);
            match leave.heir {
                // What a commit under way still puts there is deleted.
                _ if row.write_id.is_none() && leave.gone.contains(&TierId(place.tier)) => {
                    self.bury(place.id, leave.name)?;
                }
                // The only copy of a file with other names makes way when the heir comes: `leave_key` keeps it.
                Some((heir, writers)) if native && self.may_be_overwritten(inode, &row)? => {
                    // What the vfs looked at is the newest content.
                    let looked = row.generation == inode.generation.0;
                    self.inherit(row, heir, if looked { writers } else { Writers::Maybe })?;
                    inherited = true;
                }
                _ => self.leave_key(inode, &row, leave.domain)?,
            }
        }
        if inode.attr.nlink == 0 {
            self.leave_all(inode, leave.domain)?;
        }
        self.update_inode(inode)?;
        Ok(inherited)
    }

    /// The key is now the heir's to overwrite; the version stays as what it must find there.
    fn inherit(&self, row: ReplicaRow, heir: Ino, writers: Writers) -> Result<()> {
        // By another name of it the file can be opened at any time.
        let closed = writers == Writers::None && !row.linked;
        self.put_replica(&ReplicaRow {
            ino: heir.0,
            generation: 0,
            attr_generation: 0,
            linked: false,
            native_ino: if closed { 0 } else { row.native_ino },
            ..row
        })
    }

    fn may_be_overwritten(&self, inode: &Inode, row: &ReplicaRow) -> Result<bool> {
        Ok(inode.attr.nlink == 0 || self.has_other_copy(inode, row)?)
    }

    /// Dooms a key, unless it is the only copy of a file that has other names: the mover moves
    /// that to another name first.
    fn leave_key(&self, inode: &Inode, row: &ReplicaRow, domain: &str) -> Result<()> {
        if !self.may_be_overwritten(inode, row)? {
            self.queue_reconcile(inode.attr.ino, domain, Why::Names, Order::Keep)?;
            return Ok(());
        }
        self.doom_row(row, domain)
    }

    /// Nobody names it any more: every key outside stages is doomed, and home need not hear of it.
    fn leave_all(&self, inode: &Inode, domain: &str) -> Result<()> {
        self.drop_reconcile(inode.attr.ino)?;
        for row in self.replicas_of(inode.attr.ino)? {
            if !self.is_stage(row.place)? {
                self.doom_row(&row, domain)?;
            }
        }
        Ok(())
    }

    /// Nobody answers for the key any more; if anything may lie there, its delete is queued.
    pub(super) fn doom_row(&self, row: &ReplicaRow, domain: &str) -> Result<()> {
        if row.version.is_none() && row.write_id.is_none() {
            return self.bury(row.place, &row.name);
        }
        self.put_replica(&ReplicaRow { ino: 0, generation: 0, linked: false, ..row.clone() })?;
        self.queue_delete(row.place, &row.name, domain)?;
        Ok(())
    }

    /// Whether the newest content of `inode` is somewhere else than at `row` too, or `row` never
    /// had it: nor what a partly staged generation has of an earlier one.
    pub(super) fn has_other_copy(&self, inode: &Inode, row: &ReplicaRow) -> Result<bool> {
        if inode.attr.kind == FileKind::Directory {
            return Ok(true);
        }
        let mut others = self.replicas_of(inode.attr.ino)?;
        others.retain(|other| (other.place, &other.name) != (row.place, &row.name));
        if row.generation != inode.generation.0 {
            return Ok(!self.is_base(row, &others)?);
        }
        for other in others {
            let is_here = match self.is_stage(other.place)? {
                true => !is_partial(&other.name),
                false => other.version.is_some(),
            };
            if other.generation == row.generation && is_here {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the last name of a file is about to go whose newest content is on a stage alone, while a key of it has another.
    pub(super) fn hides_older(&self, inode: &Inode) -> Result<bool> {
        if inode.attr.nlink != 1 || inode.state == WriteState::Clean || inode.attr.kind != FileKind::Regular {
            return Ok(false);
        }
        let (mut newest, mut older) = (false, false);
        for row in self.replicas_of(inode.attr.ino)? {
            if row.version.is_some() && !self.is_stage(row.place)? {
                let is_newest = row.generation == inode.generation.0;
                (newest, older) = (newest || is_newest, older || !is_newest);
            }
        }
        Ok(older && !newest)
    }

    /// Whether a partly staged generation may need the bytes at `row`: none of the `others` outside stages has them, or what became of
    /// them.
    fn is_base(&self, row: &ReplicaRow, others: &[ReplicaRow]) -> Result<bool> {
        if row.generation == 0 || row.version.is_none() || self.is_stage(row.place)? {
            return Ok(false);
        }
        let (mut needed, mut replaced) = (false, false);
        for other in others {
            let staged = self.is_stage(other.place)?;
            needed |= staged && is_partial(&other.name);
            replaced |= !staged && other.version.is_some() && other.generation >= row.generation;
        }
        Ok(needed && !replaced)
    }

    /// Hands the keys of a directory without a name on: real ones in `gone` are removed with their
    /// rows, others belong to nobody until what is doomed in them is deleted; markers are doomed.
    pub(super) fn leave_directory(&self, dir: Ino, gone: &[TierId], domain: &str) -> Result<()> {
        self.drop_reconcile(dir)?;
        for row in self.replicas_of(dir)? {
            let tier = self.place_row(row.place)?.tier;
            if gone.contains(&TierId(tier)) {
                self.bury(row.place, &row.name)?;
            } else {
                self.doom_row(&row, domain)?;
            }
        }
        for place in self.places_of(dir)?.iter() {
            if gone.contains(&TierId(place.tier)) {
                self.remove_subtree(place)?;
            } else {
                self.set_place_owner(place.id, 0)?;
                self.prune_place(place.id)?;
            }
        }
        Ok(())
    }

    /// The row of stage file `name`, holding `generation` of `ino` (nothing yet).
    pub(super) fn staged_row(&self, tier: TierId, ino: Ino, generation: Generation) -> Result<ReplicaRow> {
        self.staged_row_named(tier, ino, generation, &super::stage_name(ino, generation))
    }

    /// The same under another name.
    pub(super) fn staged_row_named(
        &self,
        tier: TierId,
        ino: Ino,
        generation: Generation,
        name: &[u8],
    ) -> Result<ReplicaRow> {
        let mut row = ReplicaRow::new(self.tier(tier.0)?.stage, name, ino.0);
        row.generation = generation.0;
        Ok(row)
    }
}
