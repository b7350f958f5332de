//! Bytes that went with a tier: what is lost is named, what is not goes on.

use super::Catalog;
use crate::catalog::tables::{ReplicaRow, Tx};
use crate::catalog::{Inode, Losses, LostBytes, LostFile, Observed, Place, PlaceId, Replica};
use crate::error::Result;
use crate::types::{FileKind, Ino, Key, TierId, Timestamp};
use rusqlite::{Row, params};

impl Catalog {
    /// Keys of one tier and whoever answers for them, in an order of their own, after a place and a name.
    pub fn replicas_on(
        &self,
        tier: TierId,
        after: &(PlaceId, Vec<u8>),
        limit: usize,
    ) -> Result<Vec<Replica>> {
        self.engine.read(|tx| {
            let keys: Vec<(i64, Vec<u8>)> = tx.all(
                "SELECT r.place, r.name FROM replica r JOIN place p ON p.id = r.place
                 WHERE p.tier = ?1 AND (r.place, r.name) > (?2, ?3) ORDER BY r.place, r.name LIMIT ?4",
                params![tier.0, after.0.0, after.1, i64::try_from(limit).unwrap_or(i64::MAX)],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            let mut replicas = Vec::with_capacity(keys.len());
            for (place, name) in keys {
                if let Some(row) = tx.replica(place, &name)? {
                    replicas.push(tx.to_replica(row)?);
                }
            }
            Ok(replicas)
        })
    }

    /// Directories of one tier, youngest first, before one of them.
    pub fn places_on(&self, tier: TierId, before: PlaceId, limit: usize) -> Result<Vec<Place>> {
        self.engine.read(|tx| {
            let ids: Vec<i64> = tx.all(
                "SELECT id FROM place WHERE tier = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3",
                params![tier.0, before.0, i64::try_from(limit).unwrap_or(i64::MAX)],
                |row| row.get(0),
            )?;
            ids.into_iter().map(|id| tx.to_place(id)).collect()
        })
    }

    /// These keys are gone for good with the bytes that were there. A file whose newest content was nowhere else loses its names, and is
    /// remembered as lost; a copy at home that holds an older content belongs to nobody from then on, so that the next look shows it again.
    /// A key whose row is another by now is left alone. FULL.
    pub fn lose(&self, gone: &[Replica]) -> Result<Losses> {
        self.engine.durable(|tx| {
            let mut losses = Losses::default();
            for replica in gone {
                tx.lose_key(&mut losses, replica)?;
            }
            Ok(losses)
        })
    }

    /// What was being written of `ino` is gone from its stage: the file is what it was before, as [`Catalog::revert_write`] says, and remembered
    /// as lost under each of its names. None if it was nothing before, or that is nowhere. FULL.
    pub fn lose_newest(&self, ino: Ino, domain: &str) -> Result<Option<Vec<LostFile>>> {
        self.engine.durable(|tx| {
            let inode = tx.inode(ino)?;
            let Some(staged) = tx.revert_write(ino, domain)? else { return Ok(None) };
            let tier = tx.tier_name(staged.tier)?;
            let mut lost = Vec::new();
            for (parent, name) in tx.names(ino)? {
                if let Some(dir) = tx.path(parent)? {
                    lost.push(tx.note_lost(dir.join(&name)?, &tier, LostBytes::Newest, &inode)?);
                }
            }
            Ok(Some(lost))
        })
    }

    /// These directories of a tier are gone, deepest first. One that is nowhere else and holds nothing is gone from the tree.
    pub fn lose_places(&self, gone: &[PlaceId]) -> Result<Observed> {
        self.engine.durable(|tx| {
            let mut observed = Observed::default();
            for place in gone {
                let Some(row) = tx.find_place(place.0)? else { continue };
                if row.parent == 0 || tx.is_stage(row.id)? || tx.place_in_use(row.id)? {
                    continue;
                }
                tx.remove_place(&row)?;
                if let Some(dir) = row.owner() {
                    tx.vanish_directory(&mut observed, dir)?;
                }
            }
            Ok(observed)
        })
    }

    /// Files that were lost, after a position in the list.
    pub fn lost(&self, after: u64, limit: usize) -> Result<Vec<LostFile>> {
        self.engine.read(|tx| {
            let rows = tx.all(
                "SELECT id, path, tier, newest, size, mtime, lost_at FROM lost WHERE id > ?1 ORDER BY id LIMIT ?2",
                params![after.cast_signed(), i64::try_from(limit).unwrap_or(i64::MAX)],
                read,
            )?;
            rows.into_iter().map(|(path, lost)| Ok(LostFile { path: Key::parse(path)?, ..lost })).collect()
        })
    }

    /// How many files were lost.
    pub fn lost_count(&self) -> Result<u64> {
        self.engine.read(|tx| {
            let count = tx.first("SELECT count(*) FROM lost", [], |row| row.get::<_, i64>(0))?;
            Ok(count.unwrap_or(0).cast_unsigned())
        })
    }

    /// Position of the last lost file in the list, 0 if there is none.
    pub fn last_lost(&self) -> Result<u64> {
        self.engine.read(|tx| {
            let last = tx.first("SELECT max(id) FROM lost", [], |row| row.get::<_, Option<i64>>(0))?;
            Ok(last.flatten().unwrap_or(0).cast_unsigned())
        })
    }

    /// A person has seen the list up to this position: it need not be kept.
    pub fn forget_lost(&self, up_to: u64) -> Result<u64> {
        self.engine
            .durable(|tx| Ok(tx.execute("DELETE FROM lost WHERE id <= ?1", [up_to.cast_signed()])? as u64))
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<(Vec<u8>, LostFile)> {
    let newest: bool = row.get(3)?;
    let lost = LostFile {
        id: row.get::<_, i64>(0)?.cast_unsigned(),
        path: Key::ROOT,
        tier: row.get(2)?,
        bytes: if newest { LostBytes::Newest } else { LostBytes::All },
        size: row.get::<_, i64>(4)?.cast_unsigned(),
        mtime: Timestamp(row.get(5)?),
        lost_at: Timestamp(row.get(6)?),
    };
    Ok((row.get(1)?, lost))
}

impl Tx<'_> {
    fn lose_key(&self, losses: &mut Losses, gone: &Replica) -> Result<()> {
        let Some(row) = self.replica(gone.place.0, &gone.name)? else { return Ok(()) };
        let same = (row.ino, row.generation) == (gone.ino.map_or(0, |ino| ino.0), gone.generation.0);
        if !same {
            return Ok(());
        }
        let inode = if row.ino == 0 { None } else { self.find_inode(Ino(row.ino))? };
        let Some(inode) = inode else {
            self.drop_delete(row.place, &row.name)?;
            return self.clear_key(&row);
        };
        let is_needed = inode.attr.nlink > 0 && !self.has_other_copy(&inode, &row)?;
        if !is_needed {
            self.clear_key(&row)?;
            if inode.attr.nlink > 0 && inode.attr.kind != FileKind::Directory {
                losses.spared.push(inode.attr.ino);
            }
            return Ok(());
        }
        self.lose_file(losses, gone.tier, inode)
    }

    /// Nothing lies there: a staged row goes, any other key is remembered as empty.
    fn clear_key(&self, row: &ReplicaRow) -> Result<()> {
        if self.is_stage(row.place)? {
            return self.delete_replica(row.place, &row.name);
        }
        self.bury(row.place, &row.name)
    }

    fn lose_file(&self, losses: &mut Losses, tier: TierId, inode: Inode) -> Result<()> {
        let ino = inode.attr.ino;
        let mut bytes = LostBytes::All;
        for row in self.replicas_of(ino)? {
            if self.place_row(row.place)?.tier == tier.0 {
                self.clear_key(&row)?;
                continue;
            }
            if self.is_stage(row.place)? {
                continue;
            }
            if row.version.is_some() {
                bytes = LostBytes::Newest;
            }
            self.delete_replica(row.place, &row.name)?;
        }
        let tier = self.tier_name(tier)?;
        for (parent, name) in self.names(ino)? {
            if let Some(dir) = self.path(parent)? {
                losses.lost.push(self.note_lost(dir.join(&name)?, &tier, bytes, &inode)?);
            }
            self.lose_name(&mut losses.observed, parent, &name, self.inode(ino)?)?;
        }
        Ok(())
    }

    fn note_lost(&self, path: Key, tier: &str, bytes: LostBytes, inode: &Inode) -> Result<LostFile> {
        let attr = &inode.attr;
        let id = self.first(
            "INSERT INTO lost (path, tier, newest, size, mtime, lost_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             RETURNING id",
            params![
                path.as_bytes(),
                tier,
                bytes == LostBytes::Newest,
                attr.size.cast_signed(),
                attr.mtime.0,
                self.now().0
            ],
            |row| row.get::<_, i64>(0),
        )?;
        Ok(LostFile {
            id: id.unwrap_or_default().cast_unsigned(),
            path,
            tier: tier.to_owned(),
            bytes,
            size: attr.size,
            mtime: attr.mtime,
            lost_at: self.now(),
        })
    }

    fn tier_name(&self, tier: TierId) -> Result<String> {
        let name = self.first("SELECT name FROM tier WHERE id = ?1", [tier.0], |row| row.get(0))?;
        Ok(name.unwrap_or_else(|| tier.0.to_string()))
    }
}
