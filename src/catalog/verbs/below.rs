//! Looks at all that is below a directory.

use super::Catalog;
use crate::error::Result;
use crate::types::{FileKind, Ino, Timestamp};
use rusqlite::params;

/// Every inode at and below ?1; a directory has one name, so this ends.
const BELOW: &str = "WITH RECURSIVE below(ino) AS (
    SELECT ?1 UNION SELECT d.ino FROM dentry d JOIN below b ON d.parent = b.ino) ";

impl Catalog {
    /// When a file below `dir` was last written to its home, or found there changed; `None` if nothing below is at home.
    pub fn newest_at_home(&self, dir: Ino) -> Result<Option<Timestamp>> {
        let sql = format!(
            "{BELOW} SELECT max(r.changed_at) FROM below b JOIN inode i ON i.ino = b.ino JOIN replica r ON r.ino = b.ino
             WHERE i.kind = ?2 AND r.version IS NOT NULL AND r.place NOT IN (SELECT stage FROM tier)"
        );
        self.engine.read(|tx| {
            let newest: Option<Option<i64>> =
                tx.first(&sql, params![dir.0.cast_signed(), FileKind::Regular as i64], |row| row.get(0))?;
            Ok(newest.flatten().map(Timestamp))
        })
    }

    /// Regular files below `dir`, at most `limit`.
    pub fn files_below(&self, dir: Ino, limit: usize) -> Result<Vec<Ino>> {
        let sql = format!(
            "{BELOW} SELECT b.ino FROM below b JOIN inode i ON i.ino = b.ino WHERE i.kind = ?2 LIMIT ?3"
        );
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.engine.read(|tx| {
            let values = params![dir.0.cast_signed(), FileKind::Regular as i64, limit];
            tx.all(&sql, values, |row| Ok(Ino(row.get::<_, i64>(0)?.cast_unsigned())))
        })
    }
}
