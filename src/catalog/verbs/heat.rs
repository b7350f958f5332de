//! Heat as the catalog remembers it. An estimate: rows are written without a sync, and gone inodes take theirs along.

use super::Catalog;
use crate::error::Result;
use crate::policy::heat::{Decayed, FileRow, Group, GroupRow, Rows};
use crate::types::Ino;
use rusqlite::{Row, params};

/// Rows in one transaction: a few milliseconds.
const AT_ONCE: usize = 1000;

impl Catalog {
    /// Remembers these, instead of what was known of the same files and groups.
    pub fn save_heat(&self, rows: &Rows) -> Result<()> {
        for files in rows.files.chunks(AT_ONCE) {
            self.engine.write(|tx| {
                for row in files {
                    tx.execute(
                        "INSERT OR REPLACE INTO heat (ino, dir, opens, at)
                         SELECT ino, ?2, ?3, ?4 FROM inode WHERE ino = ?1",
                        params![number(row.ino), number(row.group), row.opens.value, row.opens.at],
                    )?;
                }
                Ok(())
            })?;
        }
        for groups in rows.groups.chunks(AT_ONCE) {
            self.engine.write(|tx| {
                for GroupRow { dir, group } in groups {
                    tx.execute(
                        "INSERT OR REPLACE INTO heat_group
                         (dir, run_opens, run_time, last, silence, opens, at, files, counted)
                         SELECT ino, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 FROM inode WHERE ino = ?1",
                        params![
                            number(*dir),
                            group.run_opens,
                            group.run_time,
                            group.last,
                            group.silence,
                            group.opens.value,
                            group.opens.at,
                            group.files.cast_signed(),
                            group.counted.cast_signed()
                        ],
                    )?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// What is remembered of groups.
    pub fn heat_of_groups(&self) -> Result<Vec<GroupRow>> {
        self.engine.read(|tx| {
            tx.all(
                "SELECT dir, run_opens, run_time, last, silence, opens, at, files, counted FROM heat_group",
                [],
                group,
            )
        })
    }

    /// What is remembered of files after `after`, at most a thousand.
    pub fn heat_of_files(&self, after: Ino) -> Result<Vec<FileRow>> {
        self.engine.read(|tx| {
            tx.all(
                "SELECT ino, dir, opens, at FROM heat WHERE ino > ?1 ORDER BY ino LIMIT ?2",
                params![number(after), AT_ONCE as i64],
                file,
            )
        })
    }

    /// Forgets the heat of what is gone.
    pub fn purge_heat(&self) -> Result<()> {
        self.engine.write(|tx| {
            for table in ["heat WHERE ino", "heat_group WHERE dir"] {
                tx.execute(&format!("DELETE FROM {table} NOT IN (SELECT ino FROM inode)"), [])?;
            }
            Ok(())
        })
    }
}

fn number(ino: Ino) -> i64 {
    ino.0.cast_signed()
}

fn ino(row: &Row<'_>, at: usize) -> rusqlite::Result<Ino> {
    Ok(Ino(row.get::<_, i64>(at)?.cast_unsigned()))
}

fn file(row: &Row<'_>) -> rusqlite::Result<FileRow> {
    let opens = Decayed { value: row.get(2)?, at: row.get(3)? };
    Ok(FileRow { ino: ino(row, 0)?, group: ino(row, 1)?, opens })
}

fn group(row: &Row<'_>) -> rusqlite::Result<GroupRow> {
    let group = Group {
        run_opens: row.get(1)?,
        run_time: row.get(2)?,
        last: row.get(3)?,
        silence: row.get(4)?,
        opens: Decayed { value: row.get(5)?, at: row.get(6)? },
        files: row.get::<_, i64>(7)?.cast_unsigned(),
        counted: row.get::<_, i64>(8)?.cast_unsigned(),
    };
    Ok(GroupRow { dir: ino(row, 0)?, group })
}
