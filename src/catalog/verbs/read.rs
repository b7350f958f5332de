//! Looks: nothing here changes a row.

use super::{Catalog, is_partial, staged_of};
use crate::catalog::tables::{InodeFilter, Tx};
use crate::catalog::{DirEntry, Inode, PlaceId, Replica, TierCounts, WriteState};
use crate::error::Result;
use crate::types::{FileKind, Ino, Key, TierId};
use rusqlite::params;
use std::collections::BTreeMap;

/// Rows that [`Catalog::counts`] adds up under one hold of the lock: a few milliseconds.
const COUNTED_AT_ONCE: i64 = 4096;

/// Sums, and after how many changes they were true.
#[derive(Debug)]
pub(super) struct Counted {
    changes: u64,
    sums: Vec<(TierId, TierCounts)>,
}

impl Catalog {
    /// The inode. `NotFound` if there is no such row.
    pub fn inode(&self, ino: Ino) -> Result<Inode> {
        if let Some(known) = self.engine.quick(|state| state.inode(ino)) {
            return Ok(known);
        }
        self.engine.read(|tx| {
            let inode = tx.inode(ino)?;
            if inode.attr.kind == FileKind::Directory && inode.attr.nlink > 0 {
                tx.remember_directory(&inode)?;
            }
            Ok(inode)
        })
    }

    /// What `name` in `parent` names, as far as known.
    pub fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Option<Inode>> {
        match self.engine.quick(|state| state.named(parent, name)) {
            Some(known) => Ok(known),
            None => self.engine.read(|tx| tx.find_named(parent, name)),
        }
    }

    /// Entries with cookies above `after`, in cookie order; more than `limit` only where cookies of
    /// two names are equal, so that a page never ends between them.
    pub fn entries(&self, dir: Ino, after: u64, limit: usize) -> Result<Vec<DirEntry>> {
        self.engine.read(|tx| tx.entries(dir, after, limit))
    }

    /// Whether the directory has any entry.
    pub fn is_empty(&self, dir: Ino) -> Result<bool> {
        self.engine.read(|tx| Ok(!tx.has_entries(dir)?))
    }

    /// All names of an inode: (directory, name).
    pub fn names(&self, ino: Ino) -> Result<Vec<(Ino, Vec<u8>)>> {
        let known = self.engine.quick(|state| state.names_of(ino));
        known.map_or_else(|| self.engine.read(|tx| tx.names(ino)), Ok)
    }

    /// How many names a directory is known to have, counted up to `limit`.
    pub fn count_names(&self, dir: Ino, limit: usize) -> Result<u64> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let sql = "SELECT count(*) FROM (SELECT 1 FROM dentry WHERE parent = ?1 LIMIT ?2)";
        let count: Option<i64> =
            self.engine.read(|tx| tx.first(sql, params![dir.0.cast_signed(), limit], |row| row.get(0)))?;
        Ok(count.unwrap_or(0).cast_unsigned())
    }

    /// The path of one of its names, from the mount's root; `None` if it has none.
    pub fn path(&self, ino: Ino) -> Result<Option<Key>> {
        self.engine.read(|tx| tx.path(ino))
    }

    /// Every replica this inode answers for, staged ones included.
    pub fn replicas(&self, ino: Ino) -> Result<Vec<Replica>> {
        self.engine.read(|tx| tx.replicas_of(ino)?.into_iter().map(|row| tx.to_replica(row)).collect())
    }

    /// The replica row of one key, if any (doomed ones too).
    pub fn replica_at(&self, place: PlaceId, name: &[u8]) -> Result<Option<Replica>> {
        self.engine.read(|tx| tx.replica(place.0, name)?.map(|row| tx.to_replica(row)).transpose())
    }

    /// Value of one extended attribute.
    pub fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.engine.read(|tx| {
            tx.first(
                "SELECT value FROM xattr WHERE ino = ?1 AND name = ?2",
                params![ino.0.cast_signed(), name],
                |row| row.get(0),
            )
        })
    }

    /// All extended attributes.
    pub fn xattrs(&self, ino: Ino) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.engine.read(|tx| {
            tx.all(
                "SELECT name, value FROM xattr WHERE ino = ?1 ORDER BY name",
                [ino.0.cast_signed()],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
        })
    }

    /// Inodes whose state is not clean.
    pub fn dirty(&self) -> Result<Vec<Inode>> {
        self.engine.read(|tx| tx.inodes_where(InodeFilter::Dirty))
    }

    /// Sums per tier. Adds rows up in portions, so that nobody waits long for it: under change the
    /// sums are those of no exact moment.
    pub fn counts(&self) -> Result<Vec<(TierId, TierCounts)>> {
        let mut counted = self.counted.lock();
        let changes = self.engine.changes();
        if let Some(known) = counted.as_ref().filter(|known| known.changes == changes) {
            return Ok(known.sums.clone());
        }
        let tiers = self.engine.read(|tx| tx.tiers())?;
        let mut sums: BTreeMap<u32, TierCounts> =
            tiers.iter().map(|tier| (tier.tier, TierCounts::default())).collect();
        let mut after = (0, Vec::new());
        while let Some(last) = self.engine.read(|tx| count_some(tx, &after, &mut sums))? {
            after = last;
        }
        let sums: Vec<_> = sums.into_iter().map(|(tier, counts)| (TierId(tier), counts)).collect();
        *counted = Some(Counted { changes, sums: sums.clone() });
        Ok(sums)
    }
}

/// Adds up a portion of the replicas; answers where to go on.
fn count_some(
    tx: &Tx<'_>,
    after: &(i64, Vec<u8>),
    sums: &mut BTreeMap<u32, TierCounts>,
) -> Result<Option<(i64, Vec<u8>)>> {
    let rows = tx.all(
        "SELECT r.place, r.name, p.tier, i.size, i.state, i.blocks FROM replica r
         JOIN place p ON p.id = r.place
         LEFT JOIN inode i ON i.ino = r.ino AND i.generation = r.generation AND i.kind <> 2 AND i.nlink > 0
         WHERE (r.place, r.name) > (?1, ?2) ORDER BY r.place, r.name LIMIT ?3",
        params![after.0, after.1, COUNTED_AT_ONCE],
        |row| {
            let size: Option<i64> = row.get(3)?;
            let found = size
                .map(|size| Ok::<_, rusqlite::Error>((size, row.get::<_, i64>(4)?, row.get::<_, i64>(5)?)))
                .transpose()?;
            Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?, row.get::<_, u32>(2)?, found))
        },
    )?;
    for (place, name, tier, found) in &rows {
        let (Some((size, state, blocks)), Some(counts)) = (found, sums.get_mut(tier)) else { continue };
        let is_part = tx.is_stage(*place)? && is_partial(name);
        let size = if is_part { staged_of(*size, *blocks) } else { *size };
        let (files, bytes) = if tx.is_stage(*place)? {
            (&mut counts.staged_files, &mut counts.staged_bytes)
        } else {
            (&mut counts.files, &mut counts.bytes)
        };
        *files += 1;
        *bytes += size.cast_unsigned();
        if tx.is_stage(*place)? && *state != WriteState::Clean as i64 {
            counts.dirty_files += 1;
            counts.dirty_bytes += size.cast_unsigned();
            counts.open_files += u64::from(*state != WriteState::Closed as i64);
        }
    }
    let whole = i64::try_from(rows.len()) == Ok(COUNTED_AT_ONCE);
    Ok(rows.into_iter().next_back().filter(|_| whole).map(|(place, name, ..)| (place, name)))
}
