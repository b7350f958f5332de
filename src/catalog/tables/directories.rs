//! What a new file must know of its directory, without a look at the tables.

use super::{Counter, State, Tx, YoungFile};
use crate::catalog::cookie::cookie;
use crate::catalog::{Inode, Place};
use crate::error::Result;
use crate::types::{Ino, TierId};
use lru::LruCache;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Directories remembered; one is about 200 bytes.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// Rows of directories, as the tables will have them when young files are written down.
#[derive(Debug)]
pub(super) struct Directories(LruCache<u64, Directory>);

#[derive(Debug)]
struct Directory {
    inode: Inode,
    /// Its parent and name; the root has none.
    name: Option<(Ino, Vec<u8>)>,
}

impl Default for Directories {
    fn default() -> Self {
        Self(LruCache::new(REMEMBERED))
    }
}

impl State {
    /// What `name` names, if that needs no look at the tables: nothing, or a young file.
    pub(in crate::catalog) fn named(&mut self, parent: Ino, name: &[u8]) -> Option<Option<Inode>> {
        if self.lacks(parent, name) {
            return Some(None);
        }
        self.young.named(parent, name).map(|file| Some(file.inode.clone()))
    }

    /// An inode that needs no look at the tables.
    pub(in crate::catalog) fn inode(&mut self, ino: Ino) -> Option<Inode> {
        let young = self.young.find(ino).map(|file| &file.inode);
        young.or_else(|| self.directories.0.get(&ino.0).map(|dir| &dir.inode)).cloned()
    }

    /// All names of an inode, if that needs no look at the tables.
    pub(in crate::catalog) fn names_of(&mut self, ino: Ino) -> Option<Vec<(Ino, Vec<u8>)>> {
        if let Some(file) = self.young.find(ino) {
            return Some(vec![(file.parent, file.name.clone())]);
        }
        Some(self.directories.0.get(&ino.0)?.name.iter().cloned().collect())
    }

    /// Whether the row of this directory is remembered.
    pub(in crate::catalog) fn has_directory(&self, dir: Ino) -> bool {
        self.directories.0.contains(&dir.0)
    }

    /// Whether the name is in the directory neither in the tables nor among young files.
    pub(in crate::catalog) fn lacks(&mut self, parent: Ino, name: &[u8]) -> bool {
        self.names.lacks(parent.0, cookie(name))
    }

    /// A young file with a name that was free in a directory that is remembered.
    pub(in crate::catalog) fn add_young(&mut self, file: YoungFile) {
        self.names.add(file.parent.0, cookie(&file.name));
        if let Some(dir) = self.directories.0.peek_mut(&file.parent.0) {
            dir.inode.attr.mtime = file.made;
            dir.inode.attr.ctime = file.made;
        }
        self.young.add(file);
    }

    /// A number nobody has had, if there is one left that was taken before.
    pub(in crate::catalog) fn take_reserved_ino(&mut self) -> Option<Ino> {
        let (next, limit) = self.counters.get_mut(&Counter::Ino)?;
        let taken = *next;
        (taken < *limit).then(|| {
            *next += 1;
            Ino(taken.cast_unsigned())
        })
    }

    /// The native place of a directory on a tier, if that is remembered.
    pub(in crate::catalog) fn native_place(&mut self, dir: Ino, tier: TierId) -> Option<Place> {
        let id = match dir {
            Ino::ROOT => self.tiers.as_ref()?.iter().find(|row| row.tier == tier.0)?.root,
            _ => *self.natives.get(&(dir.0, tier.0))?,
        };
        self.places_of(dir)?.iter().find(|place| place.id.0 == id).cloned()
    }

    /// All places of a directory, if they are remembered.
    pub(in crate::catalog) fn places_of(&mut self, dir: Ino) -> Option<Arc<[Place]>> {
        self.owned.get(&dir.0)?.places.clone()
    }
}

impl Tx<'_> {
    /// Keeps the row of a directory at hand, and the names in it.
    pub(in crate::catalog) fn remember_directory(&self, inode: &Inode) -> Result<()> {
        let directory = Directory { inode: inode.clone(), name: self.first_name(inode.attr.ino)? };
        self.state.borrow_mut().directories.0.put(inode.attr.ino.0, directory);
        self.learn_names(inode.attr.ino)
    }

    /// The row or the name of this inode changed.
    pub(in crate::catalog) fn forget_directory(&self, ino: Ino) {
        self.state.borrow_mut().directories.0.pop(&ino.0);
    }
}
