//! What a look at a tier did not find any more.

use super::observe::Merge;
use crate::catalog::tables::{PlaceRow, ReplicaRow, Tx};
use crate::catalog::{Inode, Observed, Scope, WriteState};
use crate::error::Result;
use crate::types::{FileKind, Ino};

/// Rows of a place judged at once.
const PORTION: i64 = 1024;

impl Merge<'_> {
    /// Judges the names the look covered and did not find.
    pub(super) fn missing(&mut self, tx: &Tx<'_>) -> Result<()> {
        let here = self.look.place.clone();
        match &self.observation.scope {
            Scope::Found => Ok(()),
            Scope::Name(name) => {
                if self.was_found(name) {
                    return Ok(());
                }
                if let Some(row) = tx.replica(here.id, name)? {
                    self.vanish_row(tx, &row)?;
                }
                match tx.child_place(here.tier, here.id, name)? {
                    Some(child) => self.vanish_place(tx, &child),
                    None => Ok(()),
                }
            }
            Scope::All { version, .. } => {
                self.missing_rows(tx, here.id)?;
                for child in tx.child_places(here.id)? {
                    if !self.was_found(&child.name) && !is_own(&child) {
                        self.vanish_place(tx, &child)?;
                    }
                }
                tx.set_place_listed(here.id, version.as_ref())
            }
        }
    }

    fn was_found(&self, name: &[u8]) -> bool {
        let seen = match &self.observation.scope {
            Scope::All { seen, .. } => seen.contains(name),
            _ => false,
        };
        seen || self.observation.found.iter().any(|found| found.entry.name == name)
    }

    fn missing_rows(&mut self, tx: &Tx<'_>, place: i64) -> Result<()> {
        self.each_row(
            tx,
            place,
            |merge, row| {
                if merge.was_found(&row.name) { Ok(()) } else { merge.vanish_row(tx, row) }
            },
        )
    }

    fn each_row(
        &mut self,
        tx: &Tx<'_>,
        place: i64,
        mut act: impl FnMut(&mut Self, &ReplicaRow) -> Result<()>,
    ) -> Result<()> {
        let mut after = Vec::new();
        loop {
            let rows = tx.replicas_in(place, &after, PORTION)?;
            for row in &rows {
                act(self, row)?;
            }
            match rows.into_iter().next_back() {
                Some(last) => after = last.name,
                None => return Ok(()),
            }
        }
    }

    /// What the row speaks of is not on the tier any more.
    pub(super) fn vanish_row(&mut self, tx: &Tx<'_>, row: &ReplicaRow) -> Result<()> {
        if row.ino == 0 || row.changed_at >= self.began.0 || row.write_id.is_some() {
            return Ok(());
        }
        let inode = tx.inode(Ino(row.ino))?;
        if inode.state != WriteState::Clean || row.version.is_none() || self.is_moving(tx, row)? {
            return Ok(());
        }
        if row.generation == 0 {
            return tx.put_replica(&ReplicaRow { version: None, ..row.clone() });
        }
        let other_copy = tx.has_other_copy(&inode, row)?;
        tx.bury(row.place, &row.name)?;
        if inode.attr.kind == FileKind::Directory {
            return Ok(());
        }
        self.vanish_names(tx, row, inode, other_copy)
    }

    /// Whether a commit under another key may have taken the file away from this one, and is not recorded yet.
    fn is_moving(&self, tx: &Tx<'_>, row: &ReplicaRow) -> Result<bool> {
        Ok(tx.replicas_of(Ino(row.ino))?.iter().any(|other| other.write_id.is_some()))
    }

    /// Takes the names away that went with the row.
    fn vanish_names(&mut self, tx: &Tx<'_>, row: &ReplicaRow, inode: Inode, other_copy: bool) -> Result<()> {
        let dir = tx.place_row(row.place)?.owner();
        if !other_copy {
            for (parent, name) in tx.names(inode.attr.ino)? {
                let inode = tx.inode(inode.attr.ino)?;
                self.lose_name(tx, parent, &name, inode)?;
            }
            return Ok(());
        }
        let Some(dir) = dir.filter(|_| inode.attr.nlink > 1) else { return Ok(()) };
        let named = tx.dentry(dir, &row.name)? == Some(inode.attr.ino);
        if named && !self.is_held(tx, dir, &row.name, &inode)? {
            self.lose_name(tx, dir, &row.name, inode)?;
        }
        Ok(())
    }

    /// Whether another key of this very name holds the newest content.
    fn is_held(&self, tx: &Tx<'_>, dir: Ino, name: &[u8], inode: &Inode) -> Result<bool> {
        for place in tx.places_of(dir)?.iter() {
            let row = tx.replica(place.id, name)?;
            if row.is_some_and(|row| row.ino == inode.attr.ino.0 && row.generation == inode.generation.0) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes a file's name; an inode without names stays for who has it open.
    pub(super) fn lose_name(&mut self, tx: &Tx<'_>, dir: Ino, name: &[u8], inode: Inode) -> Result<()> {
        tx.lose_name(&mut self.observed, dir, name, inode)
    }

    /// A directory is not on the tier any more, nor is anything below it.
    pub(super) fn vanish_place(&mut self, tx: &Tx<'_>, place: &PlaceRow) -> Result<()> {
        if place.changed_at >= self.began.0 {
            return Ok(());
        }
        for child in tx.child_places(place.id)? {
            self.vanish_place(tx, &child)?;
        }
        self.each_row(tx, place.id, |merge, row| merge.vanish_row(tx, row))?;
        if tx.place_in_use(place.id)? {
            return Ok(());
        }
        tx.remove_place(place)?;
        match place.owner() {
            Some(dir) => tx.vanish_directory(&mut self.observed, dir),
            None => Ok(()),
        }
    }
}

/// Whether it is below `.tierfs`, which no listing shows: the stage, and what was moved out of the way.
fn is_own(place: &PlaceRow) -> bool {
    place.name.starts_with(b".tierfs/")
}

impl Tx<'_> {
    /// Removes a file's name; an inode without names stays for who has it open.
    pub(super) fn lose_name(
        &self,
        observed: &mut Observed,
        dir: Ino,
        name: &[u8],
        mut inode: Inode,
    ) -> Result<()> {
        self.delete_dentry(dir, name)?;
        inode.attr.nlink = inode.attr.nlink.saturating_sub(1);
        if inode.attr.nlink == 0 {
            self.drop_reconcile(inode.attr.ino)?;
        }
        self.update_inode(&inode)?;
        observed.entries.push((dir, name.to_vec(), inode.attr.ino));
        Ok(())
    }

    /// A directory that lost a place is gone if it has no other, nothing in it and nothing to come.
    pub(super) fn vanish_directory(&self, observed: &mut Observed, dir: Ino) -> Result<()> {
        if self.has_places(dir)? || self.has_entries(dir)? || self.reconcile_step(dir)?.is_some() {
            return Ok(());
        }
        let Some((parent, name)) = self.first_name(dir)? else { return Ok(()) };
        let mut inode = self.inode(dir)?;
        self.delete_dentry(parent, &name)?;
        for row in self.replicas_of(dir)? {
            self.bury(row.place, &row.name)?;
        }
        inode.attr.nlink = 0;
        self.update_inode(&inode)?;
        self.forget_natives();
        self.count_subdirectories(parent, -1)?;
        observed.entries.push((parent, name, dir));
        Ok(())
    }
}
