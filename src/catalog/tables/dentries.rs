//! `dentry` rows: names.

use super::inodes::{self, inode_columns};
use super::names::Cookies;
use super::{Tx, corrupt};
use crate::catalog::cookie::cookie;
use crate::catalog::{DirEntry, Inode};
use crate::error::{Error, Kind, Result};
use crate::types::{Ino, Key};
use rusqlite::{Row, params};

/// Names of a directory that are read at once: a fraction of a millisecond.
const LEARNED_MAX: u32 = 2048;
/// Deeper trees are a circle.
const DEEPEST: usize = 100_000;

fn ino(row: &Row<'_>) -> rusqlite::Result<Ino> {
    Ok(Ino(row.get::<_, i64>(0)?.cast_unsigned()))
}

fn entry(row: &Row<'_>) -> rusqlite::Result<DirEntry> {
    Ok(DirEntry {
        inode: inodes::read(row)?,
        cookie: row.get::<_, i64>(inodes::COLUMNS)?.cast_unsigned(),
        name: row.get(inodes::COLUMNS + 1)?,
    })
}

impl Tx<'_> {
    pub(in crate::catalog) fn dentry(&self, parent: Ino, name: &[u8]) -> Result<Option<Ino>> {
        self.first(
            "SELECT ino FROM dentry WHERE parent = ?1 AND hash = ?2 AND name = ?3",
            params![parent.0.cast_signed(), cookie(name), name],
            ino,
        )
    }

    /// What a name names, which must exist.
    pub(in crate::catalog) fn named(&self, parent: Ino, name: &[u8]) -> Result<Inode> {
        self.find_named(parent, name)?
            .ok_or_else(|| Error::new(Kind::NotFound, "no such name in the directory"))
    }

    pub(in crate::catalog) fn find_named(&self, parent: Ino, name: &[u8]) -> Result<Option<Inode>> {
        if self.state.borrow_mut().lacks(parent, name) {
            return Ok(None);
        }
        let sql = concat!(
            "SELECT ",
            inode_columns!(),
            " FROM dentry d JOIN inode i ON i.ino = d.ino
              WHERE d.parent = ?1 AND d.hash = ?2 AND d.name = ?3"
        );
        self.first(sql, params![parent.0.cast_signed(), cookie(name), name], inodes::read)
    }

    /// Whether the name was free and now names `ino`.
    pub(in crate::catalog) fn insert_dentry(&self, parent: Ino, name: &[u8], ino: Ino) -> Result<bool> {
        self.state.borrow_mut().names.add(parent.0, cookie(name));
        self.forget_directory(ino);
        let rows = self.execute(
            "INSERT INTO dentry (parent, hash, name, ino) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
            params![parent.0.cast_signed(), cookie(name), name, ino.0.cast_signed()],
        )?;
        Ok(rows == 1)
    }

    /// The name names `ino`, whatever it named before. Native places are the caller's concern.
    pub(in crate::catalog) fn put_dentry(&self, parent: Ino, name: &[u8], ino: Ino) -> Result<()> {
        self.state.borrow_mut().names.add(parent.0, cookie(name));
        self.forget_directory(ino);
        self.execute(
            "INSERT OR REPLACE INTO dentry (parent, hash, name, ino) VALUES (?1, ?2, ?3, ?4)",
            params![parent.0.cast_signed(), cookie(name), name, ino.0.cast_signed()],
        )?;
        Ok(())
    }

    /// A directory was just made: from now on new names in it are known to be new.
    pub(in crate::catalog) fn begin_names(&self, dir: Ino) {
        self.state.borrow_mut().names.begin(dir.0, Cookies::default());
    }

    /// The same for a directory that has names, unless they are many.
    pub(in crate::catalog) fn learn_names(&self, dir: Ino) -> Result<()> {
        if self.state.borrow().names.has(dir.0) {
            return Ok(());
        }
        let sql = "SELECT hash FROM dentry WHERE parent = ?1 LIMIT ?2";
        let names: Vec<i64> =
            self.all(sql, params![dir.0.cast_signed(), LEARNED_MAX + 1], |row| row.get(0))?;
        if names.len() <= LEARNED_MAX as usize {
            self.state.borrow_mut().names.begin(dir.0, names.into_iter().collect());
        }
        Ok(())
    }

    pub(in crate::catalog) fn delete_dentry(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.execute(
            "DELETE FROM dentry WHERE parent = ?1 AND hash = ?2 AND name = ?3",
            params![parent.0.cast_signed(), cookie(name), name],
        )?;
        Ok(())
    }

    pub(in crate::catalog) fn has_entries(&self, dir: Ino) -> Result<bool> {
        self.exists("SELECT 1 FROM dentry WHERE parent = ?1 LIMIT 1", [dir.0.cast_signed()])
    }

    pub(in crate::catalog) fn names(&self, ino: Ino) -> Result<Vec<(Ino, Vec<u8>)>> {
        self.all("SELECT parent, name FROM dentry WHERE ino = ?1", [ino.0.cast_signed()], |row| {
            Ok((self::ino(row)?, row.get(1)?))
        })
    }

    /// One of the names of `ino`; a directory has only one.
    pub(in crate::catalog) fn first_name(&self, ino: Ino) -> Result<Option<(Ino, Vec<u8>)>> {
        self.first("SELECT parent, name FROM dentry WHERE ino = ?1 LIMIT 1", [ino.0.cast_signed()], |row| {
            Ok((self::ino(row)?, row.get(1)?))
        })
    }

    /// A page in cookie order. Longer than `limit` where cookies collide: a cookie never ends a
    /// page before all names that share it.
    pub(in crate::catalog) fn entries(&self, dir: Ino, after: u64, limit: usize) -> Result<Vec<DirEntry>> {
        let parent = dir.0.cast_signed();
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let limit = i64::try_from(limit.max(1)).unwrap_or(i64::MAX);
        let sql = concat!(
            "SELECT ",
            inode_columns!(),
            ", d.hash, d.name FROM dentry d JOIN inode i ON i.ino = d.ino
              WHERE d.parent = ?1 AND d.hash > ?2 ORDER BY d.hash, d.name LIMIT ?3"
        );
        let mut page = self.all(sql, params![parent, after, limit], entry)?;
        if i64::try_from(page.len()) == Ok(limit)
            && let Some(last) = page.last()
        {
            let sql = concat!(
                "SELECT ",
                inode_columns!(),
                ", d.hash, d.name FROM dentry d JOIN inode i ON i.ino = d.ino
                  WHERE d.parent = ?1 AND d.hash = ?2 AND d.name > ?3 ORDER BY d.name"
            );
            let same = self.all(sql, params![parent, last.cookie.cast_signed(), last.name], entry)?;
            page.extend(same);
        }
        Ok(page)
    }

    /// The path of one of its names; `None` if it, or a directory above, has none.
    pub(in crate::catalog) fn path(&self, mut ino: Ino) -> Result<Option<Key>> {
        let mut names = Vec::new();
        while ino != Ino::ROOT {
            let Some((parent, name)) = self.first_name(ino)? else { return Ok(None) };
            if names.len() == DEEPEST {
                return Err(corrupt("directories of the catalog form a circle"));
            }
            names.push(name);
            ino = parent;
        }
        names.reverse();
        Ok(Some(Key::parse(names.join(&b'/'))?))
    }

    /// Whether `dir` is `below` or one of the directories above it.
    pub(in crate::catalog) fn is_above(&self, dir: Ino, mut below: Ino) -> Result<bool> {
        for _ in 0..DEEPEST {
            if below == dir {
                return Ok(true);
            }
            match self.first_name(below)? {
                Some((parent, _)) => below = parent,
                None => return Ok(false),
            }
        }
        Err(corrupt("directories of the catalog form a circle"))
    }
}
