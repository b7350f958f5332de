//! A new inode with its first name.

use super::Catalog;
use crate::catalog::engine::Basis;
use crate::catalog::tables::{Order, ReplicaRow, State, Tx, Why, YoungFile};
use crate::catalog::{Away, Inode, NewBytes, NewInode, Reason, WriteState};
use crate::error::{Error, Kind, Result};
use crate::tier::NativeId;
use crate::types::{Attr, FileKind, Generation, Ino, TierId, Timestamp, Version, name_is_valid};

/// The content every inode starts with.
const FIRST: Generation = Generation(1);

impl Catalog {
    /// Makes an inode with its first name. `Exists` if the name is taken, unless an import of the very file that
    /// was made natively came in between: that inode is taken. `Native` bytes use the parent's native place on that
    /// tier, and take over doomed or stale rows of the key.
    pub fn create(&self, new: &NewInode<'_>) -> Result<Inode> {
        name_is_valid(new.name)?;
        if let Some(young) = self.engine.quick_change(|state, now| create_young(state, new, now)) {
            return Ok(young);
        }
        let native = matches!(new.bytes, NewBytes::Native { .. });
        self.engine.apply(Basis::told(native), |tx| tx.create(new))
    }
}

/// A native file in a directory that is remembered, with a name that is known to be free: its rows can wait.
fn create_young(state: &mut State, new: &NewInode<'_>, now: Timestamp) -> Option<Inode> {
    let NewBytes::Native { tier, version, native, mtime } = &new.bytes else { return None };
    let remembered = state.has_directory(new.parent) && state.lacks(new.parent, new.name);
    if new.kind != FileKind::Regular || native.nlink != 1 || !remembered || state.young.is_full() {
        return None;
    }
    let place = state.native_place(new.parent, *tier)?;
    let mut inode = fresh(state.take_reserved_ino()?, new);
    describe_native(&mut inode.attr, native, *mtime);
    let replica = native_row(&inode, place.id.0, new.name, version, *native);
    state.add_young(YoungFile::new(new.parent, new.name, inode.clone(), replica, new.now, now));
    Some(inode)
}

fn describe_native(attr: &mut Attr, native: &NativeId, mtime: Timestamp) {
    attr.blocks = native.blocks;
    attr.mtime = mtime;
    attr.ctime = native.changed;
}

/// The file was made natively, as the first content.
fn native_row(inode: &Inode, place: i64, name: &[u8], version: &Version, native: NativeId) -> ReplicaRow {
    ReplicaRow {
        generation: inode.generation.0,
        attr_generation: inode.attr_generation,
        version: Some(version.0.to_vec()),
        native_ino: native.ino,
        linked: native.nlink > 1,
        ..ReplicaRow::new(place, name, inode.attr.ino.0)
    }
}

impl Tx<'_> {
    fn create(&self, new: &NewInode<'_>) -> Result<Inode> {
        self.live_directory(new.parent)?;
        let ino = self.take_ino()?;
        let mut inode = fresh(ino, new);
        if !self.insert_dentry(new.parent, new.name, ino)? {
            return self.adopt(new);
        }
        match &new.bytes {
            NewBytes::Native { tier, version, native, mtime } => {
                describe_native(&mut inode.attr, native, *mtime);
                self.own_native(&inode, new, *tier, version, *native)?;
            }
            NewBytes::Staged { tier } => {
                inode.state = WriteState::Writing;
                self.put_replica(&self.staged_row(*tier, ino, FIRST)?)?;
            }
            NewBytes::Deferred { domain } => {
                self.queue_reconcile(ino, domain, Why::Names, Order::Keep)?;
            }
            NewBytes::CatalogOnly => {}
        }
        self.insert_inode(&inode)?;
        if new.kind == FileKind::Directory {
            self.begin_names(ino);
        }
        self.touch_directory(new.parent, subdirectories(new.kind), new.now)?;
        Ok(inode)
    }

    /// What was made natively answers for its key from now on.
    fn own_native(
        &self,
        inode: &Inode,
        new: &NewInode<'_>,
        tier: TierId,
        version: &Version,
        native: NativeId,
    ) -> Result<()> {
        let place = self.ensure_native(new.parent, tier.0)?;
        if inode.attr.kind == FileKind::Directory {
            return self.own_directory(inode.attr.ino, place, new.name, tier);
        }
        self.own_key(&native_row(inode, place, new.name, version, native), self.now())
    }

    fn own_directory(&self, ino: Ino, parent: i64, name: &[u8], tier: TierId) -> Result<()> {
        if self.replica(parent, name)?.is_some() {
            self.drop_delete(parent, name)?;
            self.delete_replica(parent, name)?;
        }
        let place = match self.child_place(tier.0, parent, name)? {
            Some(old) => {
                self.set_place_owner(old.id, ino.0)?;
                old.id
            }
            None => self.insert_place(tier.0, parent, name, ino.0)?,
        };
        // Just made, so nothing is in it; without a version, the next look lists it all the same.
        self.set_place_listed(place, None)
    }

    /// The name is taken: by an import of what was just made, or by something else.
    fn adopt(&self, new: &NewInode<'_>) -> Result<Inode> {
        let taken = || Error::new(Kind::Exists, "the name is taken");
        let NewBytes::Native { tier, version, native, mtime } = &new.bytes else { return Err(taken()) };
        let there = self.named(new.parent, new.name)?;
        let place = self.native(new.parent, tier.0)?.ok_or_else(taken)?;
        if there.attr.kind != new.kind {
            return Err(taken());
        }
        let ino = there.attr.ino;
        if new.kind == FileKind::Directory {
            let places = self.places_of(ino)?;
            let same =
                |row: &crate::catalog::tables::PlaceRow| (row.parent, &row.name[..]) == (place, new.name);
            if places.len() != 1 || !places.iter().all(same) || self.has_entries(ino)? {
                return Err(taken());
            }
        } else {
            let row =
                self.replica(place, new.name)?.filter(|row| row.ino == ino.0 && row.native_ino == native.ino);
            let mut row = row.ok_or_else(taken)?;
            row.version = Some(version.0.to_vec());
            self.put_replica(&row)?;
        }
        let mut inode = fresh(ino, new);
        inode.attr.nlink = there.attr.nlink;
        inode.attr.size = there.attr.size;
        describe_native(&mut inode.attr, native, *mtime);
        inode.generation = there.generation;
        inode.attr_generation = there.attr_generation;
        self.update_inode(&inode)?;
        self.touch_directory(new.parent, 0, new.now)?;
        Ok(inode)
    }
}

/// By how much a new entry of this kind changes its directory's link count.
pub(super) fn subdirectories(kind: FileKind) -> i32 {
    i32::from(kind == FileKind::Directory)
}

fn fresh(ino: Ino, new: &NewInode<'_>) -> Inode {
    Inode {
        attr: Attr {
            ino,
            kind: new.kind,
            mode: new.mode & 0o7777,
            uid: new.uid,
            gid: new.gid,
            nlink: if new.kind == FileKind::Directory { 2 } else { 1 },
            size: new.target.map_or(0, |target| target.len() as u64),
            blocks: 0,
            atime: new.now,
            mtime: new.now,
            ctime: new.now,
            btime: new.now,
            rdev: new.rdev,
        },
        generation: FIRST,
        attr_generation: 1,
        state: WriteState::Clean,
        target: new.target.map(<[u8]>::to_vec),
        away: new.overflow.map(|tier| Away { tier, reason: Reason::Overflow, since: new.now }),
    }
}
