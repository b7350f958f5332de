//! Rows for what a tier has and the catalog did not know.

use crate::catalog::tables::{PlaceRow, ReplicaRow, Tx};
use crate::catalog::{Away, Defaults, Inode, Reason, Standing, WriteState};
use crate::error::Result;
use crate::tier::Object;
use crate::types::{Attr, FileKind, Generation, Ino, TierId};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The directory a look went to, and what its tier leaves open.
#[derive(Debug)]
pub(super) struct Look {
    pub place: Arc<PlaceRow>,
    /// Who owns the place.
    pub dir: Ino,
    pub defaults: Defaults,
    /// Directories exist there by markers only.
    pub markers: bool,
}

impl Tx<'_> {
    /// A new inode for `object`, named `name`, which must be free.
    pub(super) fn import(
        &self,
        look: &Look,
        name: &[u8],
        object: &Object,
        standing: Standing,
    ) -> Result<Ino> {
        let ino = self.take_ino()?;
        let inode = self.found(ino, look, object, standing);
        self.insert_inode(&inode)?;
        self.put_dentry_of_import(look.dir, name, ino)?;
        for (name, value) in &object.attrs.xattrs {
            self.put_xattr(ino, name, value)?;
        }
        if object.kind == FileKind::Directory {
            self.own_found_directory(look, name, ino, object)?;
            self.count_subdirectories(look.dir, 1)?;
        } else {
            self.put_replica(&found_row(look, name, &inode, object))?;
        }
        Ok(ino)
    }

    /// The same for what is no directory, if the name is free; nothing happens if it is not.
    pub(super) fn import_if_free(
        &self,
        look: &Look,
        name: &[u8],
        object: &Object,
        standing: Standing,
    ) -> Result<bool> {
        let ino = self.take_ino()?;
        if !self.insert_dentry(look.dir, name, ino)? {
            return Ok(false);
        }
        let inode = self.found(ino, look, object, standing);
        self.insert_inode(&inode)?;
        for (name, value) in &object.attrs.xattrs {
            self.put_xattr(ino, name, value)?;
        }
        self.put_replica(&found_row(look, name, &inode, object))?;
        Ok(true)
    }

    /// The inode of what was found; on a tier that its rule sends files to, it is there for the reason that this has.
    fn found(&self, ino: Ino, look: &Look, object: &Object, standing: Standing) -> Inode {
        let mut inode = imported(ino, object, &look.defaults);
        let reason = match standing {
            Standing::Cold => Some(Reason::Cold),
            Standing::Overflow => Some(Reason::Overflow),
            _ => None,
        };
        if let Some(reason) = reason.filter(|_| object.kind == FileKind::Regular) {
            let (tier, since) = (TierId(look.place.tier), self.now());
            inode.away = Some(Away { tier, reason, since });
        }
        inode
    }

    fn put_dentry_of_import(&self, dir: Ino, name: &[u8], ino: Ino) -> Result<()> {
        if self.insert_dentry(dir, name, ino)? {
            return Ok(());
        }
        Err(crate::catalog::tables::corrupt("an import met a name that is taken"))
    }

    /// Directory `ino` owns the prefix `name` of the look's place from now on, and its marker.
    pub(super) fn own_found_directory(
        &self,
        look: &Look,
        name: &[u8],
        ino: Ino,
        object: &Object,
    ) -> Result<()> {
        match self.child_place(look.place.tier, look.place.id, name)? {
            Some(place) => self.set_place_owner(place.id, ino.0)?,
            None => {
                self.insert_place(look.place.tier, look.place.id, name, ino.0)?;
            }
        }
        if look.markers && !object.version.0.is_empty() {
            let inode = self.inode(ino)?;
            self.put_replica(&found_row(look, name, &inode, object))?;
        } else {
            // A tombstone of the key has no say any more.
            self.delete_replica(look.place.id, name)?;
        }
        Ok(())
    }
}

/// The row of a key that holds the newest content of `inode`.
pub(super) fn found_row(look: &Look, name: &[u8], inode: &Inode, object: &Object) -> ReplicaRow {
    let mut row = ReplicaRow::new(look.place.id, name, inode.attr.ino.0);
    row.generation = inode.generation.0;
    row.attr_generation = inode.attr_generation;
    row.version = Some(object.version.0.to_vec());
    row.native_ino = object.native.map_or(0, |native| native.ino);
    row.linked = object.native.is_some_and(|native| native.nlink > 1);
    if let Some(group) = group(look, object) {
        (row.native_ino, row.linked) = (group, true);
    }
    row
}

/// The number that stands for a group of hard-linked names where each is an object of its own. A mark says so, and
/// says which content: equal marks, equal bytes.
pub(super) fn group(look: &Look, object: &Object) -> Option<u64> {
    let mark = object.attrs.link.as_ref().filter(|_| look.markers)?;
    let digest = Sha256::digest(mark.as_bytes());
    let mut number = [0; 8];
    number.copy_from_slice(&digest[..8]);
    // 0 is nobody.
    Some(u64::from_le_bytes(number) | 1)
}

/// What the tier calls its size; a symlink is as long as its target.
pub(super) fn size(object: &Object) -> u64 {
    object.target.as_ref().map_or(object.size, |target| target.len() as u64)
}

/// 512-byte units in use, as the tier says or as its size suggests.
pub(super) fn blocks(object: &Object) -> u64 {
    object.native.map_or(size(object).div_ceil(512), |native| native.blocks)
}

fn imported(ino: Ino, object: &Object, defaults: &Defaults) -> Inode {
    let attrs = &object.attrs;
    let directory = object.kind == FileKind::Directory;
    let mtime = attrs.mtime.unwrap_or(object.modified);
    let default_mode = match object.kind {
        FileKind::Directory => defaults.dir_mode,
        FileKind::Symlink => 0o777,
        _ => defaults.file_mode,
    };
    Inode {
        attr: Attr {
            ino,
            kind: object.kind,
            mode: attrs.mode.unwrap_or(default_mode) & 0o7777,
            uid: attrs.uid.unwrap_or(defaults.uid),
            gid: attrs.gid.unwrap_or(defaults.gid),
            nlink: if directory { 2 } else { 1 },
            size: if directory { 0 } else { size(object) },
            blocks: if directory { 0 } else { blocks(object) },
            atime: mtime,
            mtime,
            ctime: object.modified,
            btime: mtime,
            rdev: object.rdev,
        },
        generation: Generation(1),
        attr_generation: 1,
        state: WriteState::Clean,
        target: object.target.clone(),
        away: None,
    }
}
