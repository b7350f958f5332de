//! unlink and rmdir.

use super::place::RESERVED;
use super::{Caller, Vfs};
use crate::catalog::{Inode, Place, Unlinked};
use crate::error::{Error, Kind, Result, found};
use crate::policy::placement::{Order, Subject};
use crate::types::{FileKind, Ino, Key, TierId};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Enough names to know that a directory is not empty.
const A_FEW: usize = 16;

impl Vfs {
    /// Takes the name of anything but a directory away.
    ///
    /// # Errors
    /// [`Kind::NotFound`], [`Kind::IsDirectory`].
    pub fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        let path = self.child_path(parent, name)?;
        let inode = self.existing(parent, name)?;
        if inode.attr.kind == FileKind::Directory {
            return Err(Kind::IsDirectory.into());
        }
        let gone = self.unlink_native(&inode, parent, name)?;
        crate::failpoint::pass("native_file_unlinked");
        let ids = inode.attr.ids();
        let domain = self.domain(&path, ids);
        let rule = self.rule(&path, inode.whereabouts());
        let is_ordered = rule.order != Order::None && !self.is_held(&path, ids);
        let unlinked = if gone.is_empty() && is_ordered && self.resident(rule.home).is_none() {
            self.catalog().unlink_in_turn(parent, name, rule.home, rule.settle, &domain, self.now())?
        } else {
            self.catalog().unlink(parent, name, &gone, &domain, self.now())?
        };
        self.lost_its_name(&unlinked);
        self.keep_emptied(parent);
        Ok(())
    }

    /// What `name` names, as the kernel was told before.
    pub(super) fn existing(&self, parent: Ino, name: &[u8]) -> Result<Inode> {
        if parent == Ino::ROOT && name == RESERVED {
            return Err(Kind::NotFound.into());
        }
        Ok(self.catalog().lookup(parent, name)?.ok_or(Kind::NotFound)?)
    }

    /// Unlinks the native files of this name, also where its directory was before a rename; the tiers on which nothing is left
    /// of it.
    fn unlink_native(&self, inode: &Inode, parent: Ino, name: &[u8]) -> Result<Vec<TierId>> {
        let mut gone = Vec::new();
        let places = self.catalog().places(parent)?;
        for replica in self.catalog().replicas(inode.attr.ino)? {
            let Some(resident) = self.resident(replica.tier).filter(|_| !replica.staged) else { continue };
            if replica.name != name || !places.iter().any(|place| place.id == replica.place) {
                continue;
            }
            self.may_ask(replica.tier)?;
            // What has moved away with its directory since is not gone.
            let _still = self.native_names.stand(replica.tier);
            let now = self.catalog().replica_at(replica.place, name)?;
            let Some(replica) = now.filter(|now| now.ino == replica.ino) else { continue };
            if self.is_only_copy(inode, &replica)? {
                continue;
            }
            let before = if inode.attr.nlink > 1 { found(resident.stat(&replica.key))? } else { None };
            match resident.unlink(&replica.key) {
                Err(error) if error.kind() != Kind::NotFound => return Err(error),
                _ => gone.push(replica.tier),
            }
            if let Some(before) = before {
                // Also where only an older content lies that is to be replaced.
                self.catalog().lost_a_link(replica.tier, &before, |key| resident.stat(key))?;
            }
        }
        Ok(gone)
    }

    /// Remembers that an inode's last name is gone, so that its remains go with the last holder.
    pub(super) fn lost_its_name(&self, unlinked: &Unlinked) {
        if unlinked.nlink > 0 {
            self.know_natives(unlinked.ino);
            return;
        }
        let node = self.nodes.get(unlinked.ino);
        node.unlinked.store(true, Ordering::Release);
        if unlinked.hid_older
            && let Err(error) = self.catalog().sync()
        {
            tracing::warn!(ino = %unlinked.ino, %error, "a deleted file's staged bytes are kept until the next start");
            return;
        }
        if self.nodes.drop_if_unknown(&node) {
            self.bury(&node);
        }
    }

    /// Removes an empty directory. The tiers are asked, not what was once seen of them.
    ///
    /// # Errors
    /// [`Kind::NotEmpty`], [`Kind::NotDirectory`].
    pub fn rmdir(&self, caller: &Caller, parent: Ino, name: &[u8]) -> Result<()> {
        let path = self.child_path(parent, name)?;
        let inode = self.existing(parent, name)?;
        if inode.attr.kind != FileKind::Directory {
            return Err(Kind::NotDirectory.into());
        }
        let places = self.check_empty(caller, inode.attr.ino)?;
        let mut gone = Vec::new();
        for place in places.iter() {
            let Some(resident) = self.resident(place.tier) else { continue };
            let _still = self.native_names.stand(place.tier);
            // It may have left the tier since.
            let Some(place) = found(self.catalog().place(place.id))? else { continue };
            match resident.rmdir(&place.key) {
                Err(error) if error.kind() != Kind::NotFound => {
                    self.restore(&inode, &gone);
                    return Err(error);
                }
                _ => gone.push(place.tier),
            }
        }
        crate::failpoint::pass("native_directory_removed");
        let domain = self.rules().directory_domain(Subject::new(&path, inode.attr.ids()));
        let unlinked = self.catalog().rmdir(parent, name, &gone, &domain, self.now())?;
        self.lost_its_name(&unlinked);
        self.keep_emptied(parent);
        Ok(())
    }

    /// A directory that could be removed on some of its tiers only comes back on the others.
    fn restore(&self, inode: &Inode, gone: &[TierId]) {
        for tier in gone {
            if let Err(error) = self.make_directory(inode.attr.ino, *tier) {
                tracing::warn!(ino = %inode.attr.ino, %error, "a directory was not made again on a tier");
            }
        }
    }

    /// Asks every tier that has the directory whether something is in it.
    pub(super) fn check_empty(&self, caller: &Caller, dir: Ino) -> Result<Arc<[Place]>> {
        if !self.catalog().is_empty(dir)? {
            // What is known of may be gone by now.
            self.refresh_directory(caller, &self.nodes.get(dir))?;
            if !self.catalog().is_empty(dir)? {
                return Err(Kind::NotEmpty.into());
            }
        }
        let places = self.catalog().places(dir)?;
        let path = self.directory_path(dir)?;
        for place in places.iter() {
            self.look_for_names(caller, place, &path)?;
        }
        if !self.catalog().is_empty(dir)? {
            return Err(Kind::NotEmpty.into());
        }
        Ok(places)
    }

    /// Asks a tier for some names of a directory, until it says one or has none.
    fn look_for_names(&self, caller: &Caller, place: &Place, path: &Key) -> Result<()> {
        let mut from = None;
        loop {
            let began = self.now();
            let page = match self.resident(place.tier) {
                Some(resident) => resident.read_directory(&place.key, from, A_FEW),
                None => {
                    let tier = self.parts.tiers.get(place.tier)?;
                    self.wait_for(caller, tier.list(&place.key, b"", from, A_FEW))
                }
            };
            let page = match page {
                Err(error) if error.kind() == Kind::NotFound => return Ok(()),
                page => page?,
            };
            // What can't be shown is there all the same.
            if page.hidden > 0 {
                return Err(Error::new(Kind::NotEmpty, "the directory holds names that can't be shown"));
            }
            self.observe_page(place, path, &page, began, &mut Default::default())?;
            from = page.next;
            // Blob may answer an empty page before the last.
            if !page.entries.is_empty() || from.is_none() {
                return Ok(());
            }
        }
    }
}
