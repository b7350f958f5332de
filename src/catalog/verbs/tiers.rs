//! Tiers as the catalog remembers them.

use super::Catalog;
use crate::catalog::TierRow;
use crate::catalog::tables::corrupt;
use crate::error::Result;
use crate::types::{Ino, TierId};
use rusqlite::{Row, params};

fn read(row: &Row<'_>) -> rusqlite::Result<TierRow> {
    Ok(TierRow {
        id: TierId(row.get(0)?),
        name: row.get(1)?,
        location: row.get(2)?,
        mark: row.get(3)?,
        fs_type: row.get(4)?,
    })
}

impl Catalog {
    /// The row of tier `name`, made if new, with its root place (owned by `Ino::ROOT`) and stage place. An existing row
    /// keeps its mark and its old location, so that a move is noticed ([`Catalog::set_location`]).
    pub fn register_tier(&self, name: &str, location: &str) -> Result<TierRow> {
        let stage = format!(".tierfs/stage/{}", self.id);
        self.engine.write(|tx| {
            let known = || {
                tx.first("SELECT id, name, location, mark, fs_type FROM tier WHERE name = ?1", [name], read)
            };
            if let Some(row) = known()? {
                return Ok(row);
            }
            let id: u32 = tx
                .first("SELECT coalesce(max(id), 0) + 1 FROM tier", [], |row| row.get(0))?
                .ok_or_else(|| corrupt("no answer for the largest tier"))?;
            let root = tx.insert_place(id, 0, b"", Ino::ROOT.0)?;
            let stage = tx.insert_place(id, root, stage.as_bytes(), 0)?;
            tx.execute(
                "INSERT INTO tier (id, name, location, root, stage) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![id, name, location, root, stage],
            )?;
            tx.forget_tiers();
            known()?.ok_or_else(|| corrupt("a new tier has no row"))
        })
    }

    /// Every tier the catalog remembers, by id.
    pub fn tiers(&self) -> Result<Vec<TierRow>> {
        self.engine
            .read(|tx| tx.all("SELECT id, name, location, mark, fs_type FROM tier ORDER BY id", [], read))
    }

    /// Remembers the tier's `.tierfs/id` and file-system type.
    pub fn set_mark(&self, tier: TierId, mark: &str, fs_type: &str) -> Result<()> {
        self.engine.write(|tx| {
            tx.tier(tier.0)?;
            tx.execute(
                "UPDATE tier SET mark = ?2, fs_type = ?3 WHERE id = ?1",
                params![tier.0, mark, fs_type],
            )?;
            Ok(())
        })
    }

    /// The same tier is somewhere else now.
    pub fn set_location(&self, tier: TierId, location: &str) -> Result<()> {
        self.engine.write(|tx| {
            tx.tier(tier.0)?;
            tx.execute("UPDATE tier SET location = ?2 WHERE id = ?1", params![tier.0, location])?;
            Ok(())
        })
    }
}
