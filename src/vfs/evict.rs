//! Dropping the hot copies of a file because somebody asks for it.

use super::Vfs;
use crate::catalog::Replica;
use crate::data::hot::Copy;
use crate::error::{Kind, Result};
use crate::types::{FileKind, Ino, Timestamp};

/// What became of the hot copies of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evicting {
    /// There are none.
    Nothing,
    /// They are gone, or would be.
    Dropped {
        /// Their bytes.
        bytes: u64,
    },
    /// They stay.
    Stays(Stay),
}

/// Why hot copies stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// The newest bytes are not at home yet.
    Dirty,
    /// A program has the file open, here or through another mount of this machine.
    Open,
    /// The file is pinned, or a directory above it.
    Pinned,
}

/// Whether to do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evict {
    /// Do.
    Now,
    /// Only say what would come of it.
    Check,
}

impl Vfs {
    /// Drops the hot copies of a clean, closed, not pinned file.
    ///
    /// # Errors
    /// What the catalog or a tier says.
    pub fn evict(&self, ino: Ino, evict: Evict) -> Result<Evicting> {
        let inode = self.catalog().inode(ino)?;
        if inode.attr.kind != FileKind::Regular {
            return Ok(Evicting::Nothing);
        }
        let newest = self.newest(&inode)?;
        if newest.iter().any(|replica| replica.staged) {
            return Ok(Evicting::Stays(Stay::Dirty));
        }
        let mut copies = Vec::new();
        for remote in newest.iter().filter(|replica| self.resident(replica.tier).is_none()) {
            self.find_copies(remote, &mut copies)?;
        }
        if copies.is_empty() {
            return Ok(Evicting::Nothing);
        }
        if self.catalog().pin_of(ino, self.now())?.is_some() {
            return Ok(Evicting::Stays(Stay::Pinned));
        }
        let node = self.nodes.get(ino);
        let dropped = {
            // No open comes in between.
            let _turn = node.turn.lock();
            if node.is_open() { Ok(None) } else { drop_all(&copies, evict) }
        };
        self.nodes.drop_if_unknown(&node);
        Ok(dropped?.map_or(Evicting::Stays(Stay::Open), |bytes| Evicting::Dropped { bytes }))
    }

    /// Copies on every tier: those of tiers that the rule names no longer too.
    fn find_copies<'a>(&'a self, remote: &Replica, copies: &mut Vec<Found<'a>>) -> Result<()> {
        let identity = self.identity(remote)?;
        for (tier, store) in &self.parts.hots {
            let Some(resident) = self.resident(*tier) else { continue };
            let key = store.path_key(&identity)?;
            match resident.stat(&key) {
                Ok(found) => copies.push(Found {
                    store,
                    copy: Copy { last_use: Timestamp::default(), size: found.size, key },
                }),
                Err(error) if matches!(error.kind(), Kind::NotFound | Kind::Absent) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

struct Found<'a> {
    store: &'a crate::data::HotStore,
    copy: Copy,
}

/// Bytes that went, or would; none if somebody has a copy open.
fn drop_all(copies: &[Found<'_>], evict: Evict) -> Result<Option<u64>> {
    let mut bytes = 0;
    for Found { store, copy } in copies {
        if evict == Evict::Now && !store.evict(copy)? {
            return Ok(None);
        }
        bytes += copy.size;
    }
    Ok(Some(bytes))
}
