//! Pins: what is to stay near, for a time or for ever. One on a directory holds for all below it.

use super::Catalog;
use crate::catalog::Pin;
use crate::error::Result;
use crate::types::{Ino, Timestamp};
use rusqlite::params;

/// `until` of a pin without an end.
const FOR_EVER: i64 = i64::MAX;

/// Every inode at and above ?1.
const ABOVE: &str = "WITH RECURSIVE above(ino) AS (
    SELECT ?1 UNION SELECT d.parent FROM dentry d JOIN above a ON d.ino = a.ino) ";

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Pin> {
    let until: i64 = row.get(1)?;
    Ok(Pin {
        ino: Ino(row.get::<_, i64>(0)?.cast_unsigned()),
        until: (until != FOR_EVER).then_some(Timestamp(until)),
    })
}

impl Catalog {
    /// Pins these, whatever they were pinned for before; a power loss can't undo it.
    pub fn pin(&self, inodes: &[Ino], until: Option<Timestamp>) -> Result<()> {
        let until = until.map_or(FOR_EVER, |until| until.0.min(FOR_EVER - 1));
        self.engine.durable(|tx| {
            for ino in inodes {
                tx.inode(*ino)?;
                let values = params![ino.0.cast_signed(), until];
                tx.execute("INSERT OR REPLACE INTO pin (ino, until) VALUES (?1, ?2)", values)?;
            }
            Ok(())
        })
    }

    /// Takes the pins of these away; answers how many there were.
    pub fn unpin(&self, inodes: &[Ino]) -> Result<u64> {
        self.engine.durable(|tx| {
            let mut gone = 0;
            for ino in inodes {
                gone += tx.execute("DELETE FROM pin WHERE ino = ?1", [ino.0.cast_signed()])? as u64;
            }
            Ok(gone)
        })
    }

    /// Pins that hold at `now`, by inode, after `after`.
    pub fn pins(&self, now: Timestamp, after: Ino, limit: usize) -> Result<Vec<Pin>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let sql = "SELECT ino, until FROM pin WHERE ino > ?2 AND until > ?1 ORDER BY ino LIMIT ?3";
        self.engine.read(|tx| tx.all(sql, params![now.0, after.0.cast_signed(), limit], read))
    }

    /// A pin that holds for `ino` at `now`: its own, or that of a directory above.
    pub fn pin_of(&self, ino: Ino, now: Timestamp) -> Result<Option<Pin>> {
        let sql = format!(
            "{ABOVE} SELECT p.ino, p.until FROM pin p JOIN above a ON a.ino = p.ino WHERE p.until > ?2
             ORDER BY p.until DESC LIMIT 1"
        );
        self.engine.read(|tx| tx.first(&sql, params![ino.0.cast_signed(), now.0], read))
    }

    /// Forgets pins that are over, and those of what is gone.
    pub fn purge_pins(&self, now: Timestamp) -> Result<()> {
        self.engine.write(|tx| {
            tx.execute("DELETE FROM pin WHERE until <= ?1 OR ino NOT IN (SELECT ino FROM inode)", [now.0])?;
            Ok(())
        })
    }
}
