//! Notes that others keep here over a restart: text under a name.

use super::Catalog;
use crate::error::Result;
use rusqlite::params;

/// Set apart from what the catalog itself keeps in the same table.
fn key(name: &str) -> String {
    format!("note:{name}")
}

impl Catalog {
    /// What was noted under this name last.
    pub fn note(&self, name: &str) -> Result<Option<String>> {
        self.engine
            .read(|tx| tx.first("SELECT value FROM meta WHERE key = ?1", [key(name)], |row| row.get(0)))
    }

    /// Notes all of these at once, so that a power loss can't undo it; `None` forgets one.
    pub fn put_notes(&self, notes: &[(&str, Option<String>)]) -> Result<()> {
        self.engine.durable(|tx| {
            for (name, text) in notes {
                match text {
                    Some(text) => tx.execute(
                        "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)",
                        params![key(name), text],
                    )?,
                    None => tx.execute("DELETE FROM meta WHERE key = ?1", [key(name)])?,
                };
            }
            Ok(())
        })
    }
}
