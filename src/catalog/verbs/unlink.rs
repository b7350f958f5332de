//! Names taken away, and inodes without any.

use super::Catalog;
use super::give_up::Leave;
use crate::catalog::engine::Basis;
use crate::catalog::tables::{InodeFilter, Tx};
use crate::catalog::{Inode, Replica, Unlinked};
use crate::error::{Error, Kind, Result};
use crate::types::{FileKind, Ino, TierId, Timestamp};
use std::time::Duration;

impl Catalog {
    /// Takes a name away (not a directory's). `gone`: tiers on which its native file was already unlinked (tombstones stay);
    /// every other replica at that name's keys is doomed and a delete step queued in `domain`. At the last name all other non-staged replicas
    /// are doomed too, the reconcile step is dropped, staged rows stay until [`Catalog::drop_orphan`]. The only copy of a file that keeps
    /// another name is not doomed: a reconcile step moves it there.
    pub fn unlink(
        &self,
        parent: Ino,
        name: &[u8],
        gone: &[TierId],
        domain: &str,
        now: Timestamp,
    ) -> Result<Unlinked> {
        self.engine.apply(Basis::told(!gone.is_empty()), |tx| {
            let mut inode = tx.unlinkable(parent, name)?;
            let leave = Leave { parent, name, gone, heir: None, domain, now };
            tx.take_name(&mut inode, &leave)
        })
    }

    /// The same for a file whose home, `home`, is not files of this machine. If it is closed, has settled and is not at home, and something
    /// that was closed after it waits, it is shown there in its turn before it is deleted.
    pub fn unlink_in_turn(
        &self,
        parent: Ino,
        name: &[u8],
        home: TierId,
        settle: Duration,
        domain: &str,
        now: Timestamp,
    ) -> Result<Unlinked> {
        self.engine.write(|tx| {
            let mut inode = tx.unlinkable(parent, name)?;
            let kept = tx.keep_deleted(&inode, parent, name, home, settle)?;
            let leave = Leave { parent, name, gone: &[], heir: None, domain, now };
            let unlinked = tx.take_name(&mut inode, &leave)?;
            if let Some(place) = kept {
                tx.delete_later(place, name, domain)?;
            }
            Ok(unlinked)
        })
    }

    /// Removes an empty directory; its places on tiers in `gone` are dropped, others are given up (owner none) and
    /// its marker replicas doomed. `NotEmpty`.
    pub fn rmdir(
        &self,
        parent: Ino,
        name: &[u8],
        gone: &[TierId],
        domain: &str,
        now: Timestamp,
    ) -> Result<Unlinked> {
        self.engine.apply(Basis::told(!gone.is_empty()), |tx| {
            let mut inode = tx.named(parent, name)?;
            tx.is_removable(&inode)?;
            tx.delete_dentry(parent, name)?;
            tx.leave_directory(inode.attr.ino, gone, domain)?;
            inode.attr.nlink = 0;
            inode.attr.ctime = now;
            tx.update_inode(&inode)?;
            tx.forget_natives();
            tx.touch_directory(parent, -1, now)?;
            Ok(Unlinked { ino: inode.attr.ino, nlink: 0, hid_older: false })
        })
    }

    /// Forgets an inode without names, its xattrs and staged rows; answers the staged keys whose files may be removed. `Busy` if it has a name.
    /// As long as what it was has its turn at home to come, nothing is forgotten.
    pub fn drop_orphan(&self, ino: Ino) -> Result<Vec<Replica>> {
        let staged = self.engine.relaxed(|tx| {
            let inode = tx.inode(ino)?;
            if inode.attr.nlink > 0 || tx.first_name(ino)?.is_some() {
                return Err(Error::new(Kind::Busy, format!("inode {ino} still has a name")));
            }
            let mut staged = Vec::new();
            if tx.is_kept(ino)? {
                return Ok(staged);
            }
            for row in tx.replicas_of(ino)? {
                if tx.is_stage(row.place)? {
                    tx.delete_replica(row.place, &row.name)?;
                    staged.push(tx.to_replica(row)?);
                } else {
                    tx.doom_row(&row, "")?;
                }
            }
            tx.drop_reconcile(ino)?;
            tx.delete_inode(ino)?;
            Ok(staged)
        })?;
        if !staged.is_empty() {
            // Their files go next, and no row may be left that speaks of them.
            self.engine.flush_batch()?;
        }
        Ok(staged)
    }

    /// Inodes without names (after a crash) that nobody waits for.
    pub fn orphans(&self) -> Result<Vec<Ino>> {
        self.engine.read(|tx| {
            let mut orphans = Vec::new();
            for inode in tx.inodes_where(InodeFilter::Orphan)? {
                if !tx.is_kept(inode.attr.ino)? {
                    orphans.push(inode.attr.ino);
                }
            }
            Ok(orphans)
        })
    }
}

impl Tx<'_> {
    /// What is no directory.
    fn unlinkable(&self, parent: Ino, name: &[u8]) -> Result<Inode> {
        let inode = self.named(parent, name)?;
        if inode.attr.kind == FileKind::Directory {
            return Err(Error::new(Kind::IsDirectory, "the name is a directory's"));
        }
        Ok(inode)
    }

    fn take_name(&self, inode: &mut Inode, leave: &Leave<'_>) -> Result<Unlinked> {
        let hid_older = self.hides_older(inode)?;
        self.delete_dentry(leave.parent, leave.name)?;
        self.leave_name(inode, leave)?;
        self.touch_directory(leave.parent, 0, leave.now)?;
        Ok(Unlinked { ino: inode.attr.ino, nlink: inode.attr.nlink, hid_older })
    }

    /// An empty directory.
    pub(super) fn is_removable(&self, inode: &Inode) -> Result<()> {
        if inode.attr.kind != FileKind::Directory {
            return Err(Error::new(Kind::NotDirectory, "the name is not a directory's"));
        }
        if self.has_entries(inode.attr.ino)? {
            return Err(Error::new(Kind::NotEmpty, "the directory has entries"));
        }
        Ok(())
    }
}
