//! Looks for whoever doubts the tables: what no ordinary work asks for.

use super::Catalog;
use crate::catalog::tables::{Order, Why};
use crate::catalog::{Inode, Place, PlaceId, Replica, WriteState};
use crate::error::Result;
use crate::types::{Generation, Ino, Seq};
use rusqlite::params;

impl Catalog {
    /// Keys that a file and a directory of another inode answer for.
    pub fn owned_twice(&self) -> Result<Vec<(Replica, Place)>> {
        self.engine.read(|tx| {
            let keys: Vec<(i64, Vec<u8>, i64)> = tx.all(
                "SELECT r.place, r.name, p.id FROM replica r JOIN place p ON p.parent = r.place AND p.name = r.name
                 WHERE r.ino <> 0 AND p.ino <> 0 AND r.ino <> p.ino AND r.version IS NOT NULL",
                [],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )?;
            let mut twice = Vec::with_capacity(keys.len());
            for (place, name, other) in keys {
                twice.push((tx.to_replica(tx.known_replica(place, &name)?)?, tx.to_place(other)?));
            }
            Ok(twice)
        })
    }

    /// Regular files with names whose newest content is nowhere, after an inode.
    pub fn without_bytes(&self, after: Ino, limit: usize) -> Result<Vec<Inode>> {
        self.engine.read(|tx| {
            let inodes: Vec<i64> = tx.all(
                "SELECT i.ino FROM inode i WHERE i.ino > ?1 AND i.kind = 1 AND i.nlink > 0 AND NOT EXISTS
                 (SELECT 1 FROM replica r WHERE r.ino = i.ino AND r.generation = i.generation
                  AND (r.version IS NOT NULL OR r.place IN (SELECT stage FROM tier)))
                 ORDER BY i.ino LIMIT ?2",
                params![after.0.cast_signed(), i64::try_from(limit).unwrap_or(i64::MAX)],
                |row| row.get(0),
            )?;
            inodes.into_iter().map(|ino| tx.inode(Ino(ino.cast_unsigned()))).collect()
        })
    }

    /// Whether home has this content of an inode or a newer one, and nothing is pending for it.
    pub fn has_at_home(&self, ino: Ino, generation: Generation) -> Result<bool> {
        self.engine.read(|tx| {
            let Some(inode) = tx.find_inode(ino)? else { return Ok(false) };
            if inode.state != WriteState::Clean || generation > inode.generation {
                return Ok(false);
            }
            for row in tx.replicas_of(ino)? {
                if row.generation == inode.generation.0 && row.version.is_some() && !tx.is_stage(row.place)? {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    /// Whether a step will delete this key, and what it says if it waits for a person.
    pub fn delete_of(&self, place: PlaceId, name: &[u8]) -> Result<Option<Option<String>>> {
        self.engine.read(|tx| {
            tx.first(
                "SELECT blocked, error FROM step WHERE place = ?1 AND name = ?2 AND ino = 0",
                params![place.0, name],
                |row| {
                    let blocked: bool = row.get(0)?;
                    let error: Option<String> = row.get(1)?;
                    Ok(blocked.then(|| error.unwrap_or_default()))
                },
            )
        })
    }

    /// A doomed key has no step that deletes it: it gets one.
    pub fn delete_again(&self, place: PlaceId, name: &[u8], domain: &str) -> Result<Option<Seq>> {
        self.engine.write(|tx| match tx.replica(place.0, name)? {
            Some(row) if row.ino == 0 => tx.queue_delete(place.0, name, domain).map(Some),
            _ => Ok(None),
        })
    }

    /// A closed file has no step that commits it: it gets one at the end of the order.
    pub fn commit_again(&self, ino: Ino, domain: &str) -> Result<Seq> {
        self.engine.write(|tx| {
            tx.inode(ino)?;
            tx.queue_reconcile(ino, domain, Why::Content, Order::KeepQuietly)
        })
    }
}
