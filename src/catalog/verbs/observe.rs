//! Merges what a look at a tier found. What is missing from it is `vanish`'s business.
//!
//! A row that changed since the look began is left alone, and so is whatever is dirty: the
//! commit's own condition finds those conflicts.

use super::Catalog;
use super::import::{self, Look, found_row};
use crate::catalog::tables::{ReplicaRow, Tx};
use crate::catalog::{Found, Inode, Observation, Observed, Standing, WriteState};
use crate::error::Result;
use crate::tier::Object;
use crate::types::{FileKind, Ino, Timestamp, name_is_valid};

/// A look, and what came of it so far.
pub(super) struct Merge<'a> {
    pub look: Look,
    pub began: Timestamp,
    pub holds_owner_and_mode: bool,
    pub observation: &'a Observation<'a>,
    pub observed: Observed,
    /// Whether the place has places in it, once that was asked.
    pub has_places: Option<bool>,
}

impl Catalog {
    /// Merges what a look at a tier found. A place that nobody owns any more changes nothing.
    pub fn observe(&self, observation: &Observation<'_>) -> Result<Observed> {
        self.engine.relaxed(|tx| {
            let place = tx.place_row(observation.place.0)?;
            let Some(dir) = place.owner() else { return Ok(Observed::default()) };
            let mut merge = Merge {
                look: Look { place, dir, defaults: observation.defaults, markers: observation.markers },
                began: observation.began,
                holds_owner_and_mode: observation.holds_owner_and_mode,
                observation,
                observed: Observed::default(),
                has_places: None,
            };
            for found in &observation.found {
                merge.found(tx, found)?;
            }
            merge.missing(tx)?;
            Ok(merge.observed)
        })
    }
}

impl Merge<'_> {
    fn found(&mut self, tx: &Tx<'_>, found: &Found<'_>) -> Result<()> {
        let (name, object) = (&found.entry.name[..], &found.entry.object);
        let reserved = self.look.place.parent == 0 && name == b".tierfs";
        if reserved || name_is_valid(name).is_err() {
            return Ok(());
        }
        if object.kind == FileKind::Directory {
            self.found_directory(tx, name, object, found.standing)
        } else {
            self.found_file(tx, name, object, found.standing)
        }
    }

    /// Whether a row may be judged by this look.
    fn is_settled(&self, row: &ReplicaRow) -> bool {
        row.changed_at < self.began.0 && row.write_id.is_none()
    }

    /// Whether a key that nobody answers for is foreign again: a tombstone older than the look.
    fn is_foreign(&self, tx: &Tx<'_>, row: &ReplicaRow) -> Result<bool> {
        Ok(row.ino == 0
            && self.is_settled(row)
            && row.version.is_none()
            && !tx.has_delete(row.place, &row.name)?)
    }

    // ---- directories

    fn found_directory(
        &mut self,
        tx: &Tx<'_>,
        name: &[u8],
        object: &Object,
        standing: Standing,
    ) -> Result<()> {
        self.has_places = None;
        let here = &self.look.place;
        let child = tx.child_place(here.tier, here.id, name)?;
        if let Some(child) = &child {
            if let Some(owner) = child.owner() {
                return self.known_directory(tx, name, object, owner);
            }
            if child.changed_at >= self.began.0 || tx.place_in_use(child.id)? {
                return Ok(());
            }
        }
        if let Some(row) = tx.replica(here.id, name)? {
            if row.ino == 0 && !self.is_foreign(tx, &row)? {
                return Ok(());
            }
            if row.ino != 0 && self.is_left_marker(tx, &row)? {
                return Ok(());
            }
            if row.ino != 0 && !self.give_way(tx, &row)? {
                self.observed.shadowed += 1;
                return Ok(());
            }
        }
        self.foreign_directory(tx, name, object, standing)
    }

    /// Whether the key has the marker of a directory that was renamed since, whose step is to delete it.
    fn is_left_marker(&self, tx: &Tx<'_>, row: &ReplicaRow) -> Result<bool> {
        let is_directory = tx.inode(Ino(row.ino))?.attr.kind == FileKind::Directory;
        Ok(is_directory && tx.dentry(self.look.dir, &row.name)? != Some(Ino(row.ino)))
    }

    fn foreign_directory(
        &mut self,
        tx: &Tx<'_>,
        name: &[u8],
        object: &Object,
        standing: Standing,
    ) -> Result<()> {
        if standing == Standing::Foreign {
            self.observed.shadowed += 1;
            return Ok(());
        }
        match tx.find_named(self.look.dir, name)? {
            Some(there) if there.attr.kind == FileKind::Directory => {
                tx.own_found_directory(&self.look, name, there.attr.ino, object)
            }
            Some(there) if !self.wins(tx, &there, standing)? => {
                self.observed.shadowed += 1;
                Ok(())
            }
            there => {
                if let Some(there) = there {
                    self.unname(tx, name, there)?;
                }
                tx.import(&self.look, name, object, standing).map(drop)
            }
        }
    }

    /// The directory is known here: its marker, or the real directory, may have new attributes.
    fn known_directory(&mut self, tx: &Tx<'_>, name: &[u8], object: &Object, owner: Ino) -> Result<()> {
        if object.version.0.is_empty() {
            return Ok(());
        }
        if self.look.markers {
            match tx.replica(self.look.place.id, name)? {
                Some(row) if !self.is_settled(&row) || tx.has_delete(row.place, name)? => return Ok(()),
                Some(row) if row.ino != 0 && row.ino != owner.0 => return Ok(()),
                Some(row) if row.version.as_deref() == Some(&object.version.0[..]) => return Ok(()),
                _ => {}
            }
        } else if tx.places_of(owner)?.len() != 1 {
            // Directories of one name on several tiers: what the catalog says holds for all.
            return Ok(());
        }
        let mut inode = tx.inode(owner)?;
        if inode.attr.ctime >= self.began || tx.reconcile_step(owner)?.is_some() {
            return Ok(());
        }
        if self.adopt_attrs(&mut inode, object) {
            if self.look.markers {
                inode.attr.mtime = object.attrs.mtime.unwrap_or(inode.attr.mtime);
            }
            tx.update_inode(&inode)?;
            self.observed.contents.push(owner);
        }
        if self.look.markers {
            tx.put_replica(&found_row(&self.look, name, &inode, object))?;
        }
        Ok(())
    }

    /// Takes owner and mode over as far as the tier says them. Answers whether any changed.
    fn adopt_attrs(&self, inode: &mut Inode, object: &Object) -> bool {
        let attr = &mut inode.attr;
        let before = (attr.mode, attr.uid, attr.gid);
        attr.mode = object.attrs.mode.map_or(attr.mode, |mode| mode & 0o7777);
        attr.uid = object.attrs.uid.unwrap_or(attr.uid);
        attr.gid = object.attrs.gid.unwrap_or(attr.gid);
        before != (attr.mode, attr.uid, attr.gid)
    }

    // ---- files

    fn found_file(&mut self, tx: &Tx<'_>, name: &[u8], object: &Object, standing: Standing) -> Result<()> {
        let here = self.look.place.clone();
        let row = tx.replica(here.id, name)?;
        // The rule in a large listing: most is as it was at the last one.
        if row.as_ref().is_some_and(|row| row.ino != 0 && row.holds(object)) {
            return Ok(());
        }
        if self.has_places(tx)?
            && let Some(child) = tx.child_place(here.tier, here.id, name)?
        {
            if self.look.markers || child.changed_at >= self.began.0 {
                // Blob allows a file beside a prefix of the same name; a mount can show only one.
                self.observed.shadowed += u64::from(child.ino != 0);
                return Ok(());
            }
            self.vanish_place(tx, &child)?;
            if tx.find_place(child.id)?.is_some() {
                return Ok(());
            }
            tx.delete_replica(here.id, name)?;
            return self.foreign_file(tx, name, object, standing, None);
        }
        match row {
            Some(row) if row.ino != 0 => self.known_file(tx, row, object, standing),
            Some(row) if !self.is_foreign(tx, &row)? => Ok(()),
            _ => self.foreign_file(tx, name, object, standing, None),
        }
    }

    /// Of many files in a directory, none need be looked for among the places in it where there is no place.
    fn has_places(&mut self, tx: &Tx<'_>) -> Result<bool> {
        match self.has_places {
            Some(known) => Ok(known),
            None => {
                let has = tx.has_child_places(self.look.place.id)?;
                self.has_places = Some(has);
                Ok(has)
            }
        }
    }

    fn known_file(
        &mut self,
        tx: &Tx<'_>,
        row: ReplicaRow,
        object: &Object,
        standing: Standing,
    ) -> Result<()> {
        if !self.is_settled(&row) {
            return Ok(());
        }
        let inode = tx.inode(Ino(row.ino))?;
        if inode.state != WriteState::Clean || row.generation != inode.generation.0 {
            return Ok(());
        }
        if inode.attr.kind != object.kind {
            let name = row.name.clone();
            if self.give_way(tx, &row)? {
                self.foreign_file(tx, &name, object, standing, None)?;
            }
            return Ok(());
        }
        let (ino, name) = (inode.attr.ino, row.name.clone());
        let has_objects_of_its_own = self.look.markers && inode.attr.nlink > 1;
        if has_objects_of_its_own || self.linked_to(tx, object, Some(ino))?.is_some() {
            // Only this name's object changed, so it is no other name of that content any more.
            tx.delete_replica(row.place, &name)?;
            self.lose_name(tx, self.look.dir, &name, inode)?;
            return self.foreign_file(tx, &name, object, standing, Some(ino));
        }
        self.changed_content(tx, inode, row, object)
    }

    /// Somebody else wrote it: a new generation, which all its native names on this tier hold.
    fn changed_content(
        &mut self,
        tx: &Tx<'_>,
        mut inode: Inode,
        row: ReplicaRow,
        object: &Object,
    ) -> Result<()> {
        let (held, native_ino) = (inode.generation, row.native_ino);
        inode.generation = held.next();
        if self.holds_owner_and_mode || object.attrs.mode.is_some() {
            self.adopt_attrs(&mut inode, object);
        }
        inode.attr.size = import::size(object);
        inode.attr.blocks = import::blocks(object);
        inode.attr.mtime = object.attrs.mtime.unwrap_or(object.modified);
        inode.attr.ctime = object.modified;
        if object.target.is_some() || object.kind == FileKind::Symlink {
            inode.target.clone_from(&object.target);
        }
        for (name, value) in &object.attrs.xattrs {
            tx.put_xattr(inode.attr.ino, name, value)?;
        }
        tx.update_inode(&inode)?;
        let new = found_row(&self.look, &row.name, &inode, object);
        let new_is_linked = new.linked;
        tx.put_replica(&ReplicaRow { linked: new.linked || row.linked, ..new })?;
        if row.linked && native_ino != 0 && !self.look.markers {
            self.share_version(tx, native_ino, &inode, object)?;
        }
        if !row.linked && !self.look.markers && new_is_linked {
            self.gather(tx, inode.attr.ino, object)?;
        }
        self.observed.contents.push(inode.attr.ino);
        Ok(())
    }

    /// A file turned out to have other native names. Those that were looked at before this one were taken for another file's.
    fn gather(&mut self, tx: &Tx<'_>, ino: Ino, object: &Object) -> Result<()> {
        let Some(native) = object.native else { return Ok(()) };
        for row in tx.linked_replicas(self.look.place.tier, native.ino)? {
            let Some(dir) = tx.place_row(row.place)?.owner().filter(|_| row.ino != ino.0) else { continue };
            let other = tx.inode(Ino(row.ino))?;
            let is_settled = other.state == WriteState::Clean
                && row.generation == other.generation.0
                && row.write_id.is_none()
                && tx.dentry(dir, &row.name)? == Some(other.attr.ino);
            if !is_settled || (other.attr.nlink > 1 && !tx.has_other_copy(&other, &row)?) {
                continue;
            }
            self.lose_name(tx, dir, &row.name, other)?;
            tx.put_dentry(dir, &row.name, ino)?;
            let mut inode = tx.inode(ino)?;
            inode.attr.nlink += 1;
            tx.update_inode(&inode)?;
            tx.put_replica(&ReplicaRow { ino: ino.0, attr_generation: inode.attr_generation, ..row })?;
            self.share_version(tx, native.ino, &inode, object)?;
        }
        Ok(())
    }

    /// All native names of one file are in one version.
    fn share_version(&self, tx: &Tx<'_>, native_ino: u64, inode: &Inode, object: &Object) -> Result<()> {
        for mut other in tx.linked_replicas(self.look.place.tier, native_ino)? {
            if other.ino == inode.attr.ino.0 {
                other.generation = inode.generation.0;
                other.version = Some(object.version.0.to_vec());
                tx.put_replica(&other)?;
            }
        }
        Ok(())
    }

    /// A file that nobody answers for; `left` had this name until now.
    fn foreign_file(
        &mut self,
        tx: &Tx<'_>,
        name: &[u8],
        object: &Object,
        standing: Standing,
        left: Option<Ino>,
    ) -> Result<()> {
        if standing == Standing::Foreign {
            self.observed.shadowed += 1;
            return Ok(());
        }
        let is_linked = object.native.is_some_and(|native| native.nlink > 1) || object.attrs.link.is_some();
        if !is_linked && tx.import_if_free(&self.look, name, object, standing)? {
            return Ok(());
        }
        let there = tx.find_named(self.look.dir, name)?;
        if let Some(there) = there {
            if !self.wins(tx, &there, standing)? {
                self.observed.shadowed += 1;
                return Ok(());
            }
            self.unname(tx, name, there)?;
        }
        if let Some(native) = object.native.filter(|native| native.nlink > 1) {
            let linked = tx.linked_replicas(self.look.place.tier, native.ino)?;
            if let Some(row) = linked.into_iter().next() {
                return self.one_more_name(tx, name, Ino(row.ino), object);
            }
        }
        if let Some(ino) = self.linked_to(tx, object, left)? {
            return self.one_more_name(tx, name, ino, object);
        }
        tx.import(&self.look, name, object, standing).map(drop)
    }

    /// The file of which `object`, which has bytes of its own, says that it is another name; never `except`.
    fn linked_to(&self, tx: &Tx<'_>, object: &Object, except: Option<Ino>) -> Result<Option<Ino>> {
        let Some(group) = import::group(&self.look, object) else { return Ok(None) };
        for row in tx.linked_replicas(self.look.place.tier, group)? {
            let inode = tx.inode(Ino(row.ino))?;
            let is_settled = inode.state == WriteState::Clean
                && row.generation == inode.generation.0
                && row.version.is_some()
                && row.write_id.is_none();
            let is_alike = (inode.attr.kind, inode.attr.size) == (object.kind, import::size(object))
                && inode.attr.nlink > 0;
            if Some(inode.attr.ino) != except && is_settled && is_alike {
                return Ok(Some(inode.attr.ino));
            }
        }
        Ok(None)
    }

    /// A second name of a file that is known under another.
    fn one_more_name(&self, tx: &Tx<'_>, name: &[u8], ino: Ino, object: &Object) -> Result<()> {
        let mut inode = tx.inode(ino)?;
        tx.put_dentry(self.look.dir, name, ino)?;
        inode.attr.nlink += 1;
        tx.update_inode(&inode)?;
        let row = found_row(&self.look, name, &inode, object);
        tx.put_replica(&row)?;
        if self.look.markers {
            return Ok(());
        }
        self.share_version(tx, row.native_ino, &inode, object)
    }

    // ---- who is shown

    /// Whether an object of this standing takes the name from what is shown: only home does, and
    /// only from a clean file that is not on its way here.
    fn wins(&self, tx: &Tx<'_>, there: &Inode, standing: Standing) -> Result<bool> {
        let settled = standing == Standing::Home
            && there.state == WriteState::Clean
            && there.attr.kind != FileKind::Directory
            && there.attr.ctime < self.began
            && tx.reconcile_step(there.attr.ino)?.is_none();
        if !settled {
            return Ok(false);
        }
        let rows = tx.replicas_of(there.attr.ino)?;
        let mut here = false;
        for row in &rows {
            here |= tx.place_row(row.place)?.tier == self.look.place.tier || row.write_id.is_some();
        }
        Ok(!here && !rows.is_empty())
    }

    /// Takes the name from the file that loses it to home's; its keys on other tiers stay where they are, unowned.
    fn unname(&mut self, tx: &Tx<'_>, name: &[u8], there: Inode) -> Result<()> {
        for place in tx.places_of(self.look.dir)?.iter() {
            if tx.replica(place.id, name)?.is_some_and(|row| row.ino == there.attr.ino.0) {
                tx.delete_replica(place.id, name)?;
            }
        }
        self.lose_name(tx, self.look.dir, name, there)
    }

    /// The key holds something else now: its clean file is gone from there. Answers whether it was
    /// possible to let it go.
    fn give_way(&mut self, tx: &Tx<'_>, row: &ReplicaRow) -> Result<bool> {
        let inode = tx.inode(Ino(row.ino))?;
        if !self.is_settled(row) || inode.state != WriteState::Clean || row.generation == 0 {
            return Ok(false);
        }
        self.vanish_row(tx, row)?;
        Ok(true)
    }
}
