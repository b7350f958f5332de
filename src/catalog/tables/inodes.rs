//! `inode` and `xattr` rows.

use super::{Counter, Tx};
use crate::catalog::{Away, Content, Inode, Reason, WriteState};
use crate::error::{Error, Kind, Result};
use crate::types::{Attr, FileKind, Generation, Ino, TierId, Timestamp};
use rusqlite::types::Type;
use rusqlite::{Row, params};

/// The columns of an inode under the alias `i`, in the order [`read`] wants them.
macro_rules! inode_columns {
    () => {
        "i.ino, i.kind, i.mode, i.uid, i.gid, i.nlink, i.size, i.blocks, i.atime, i.mtime, i.ctime, \
         i.btime, i.rdev, i.target, i.generation, i.attr_generation, i.state, i.away_tier, i.away_why, \
         i.away_since"
    };
}
pub(super) use inode_columns;

/// How many columns that is.
pub(super) const COLUMNS: usize = 20;

/// An inode from a row that starts with its columns.
pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Inode> {
    let time = |at| Ok::<_, rusqlite::Error>(Timestamp(row.get(at)?));
    let unsigned = |at| Ok::<_, rusqlite::Error>(row.get::<_, i64>(at)?.cast_unsigned());
    let number: u8 = row.get(1)?;
    let kind = FileKind::from_number(number).ok_or(rusqlite::Error::InvalidColumnType(
        1,
        "inode.kind".to_owned(),
        Type::Integer,
    ))?;
    let state = match row.get::<_, u8>(16)? {
        0 => WriteState::Clean,
        1 => WriteState::Writing,
        2 => WriteState::ClosedOpen,
        3 => WriteState::Closed,
        _ => return Err(rusqlite::Error::InvalidColumnType(16, "inode.state".to_owned(), Type::Integer)),
    };
    Ok(Inode {
        attr: Attr {
            ino: Ino(unsigned(0)?),
            kind,
            mode: row.get(2)?,
            uid: row.get(3)?,
            gid: row.get(4)?,
            nlink: row.get(5)?,
            size: unsigned(6)?,
            blocks: unsigned(7)?,
            atime: time(8)?,
            mtime: time(9)?,
            ctime: time(10)?,
            btime: time(11)?,
            rdev: row.get(12)?,
        },
        target: row.get(13)?,
        generation: Generation(unsigned(14)?),
        attr_generation: unsigned(15)?,
        state,
        away: read_away(row)?,
    })
}

fn read_away(row: &Row<'_>) -> rusqlite::Result<Option<Away>> {
    let why: u8 = row.get(18)?;
    if why == 0 {
        return Ok(None);
    }
    let wrong = || rusqlite::Error::InvalidColumnType(18, "inode.away_why".to_owned(), Type::Integer);
    let reason = Reason::from_number(why).ok_or_else(wrong)?;
    Ok(Some(Away { tier: TierId(row.get(17)?), reason, since: Timestamp(row.get(19)?) }))
}

impl Inode {
    /// The ctime is the catalog's own: that of the file under it changes by much that is not the file's business.
    pub(in crate::catalog) fn take_content(&mut self, content: Content) {
        let attr = &mut self.attr;
        if (attr.size, attr.mtime) != (content.size, content.mtime) {
            attr.ctime = attr.ctime.max(content.ctime);
        }
        attr.size = content.size;
        attr.blocks = content.blocks;
        attr.mtime = content.mtime;
    }

    /// The native file has this content now: another size or mtime is a new generation.
    pub(in crate::catalog) fn write_in_place(&mut self, content: Content) {
        if (self.attr.size, self.attr.mtime) != (content.size, content.mtime) {
            self.generation = self.generation.next();
        }
        self.take_content(content);
    }
}

impl Tx<'_> {
    pub(in crate::catalog) fn find_inode(&self, ino: Ino) -> Result<Option<Inode>> {
        let sql = concat!("SELECT ", inode_columns!(), " FROM inode i WHERE i.ino = ?1");
        self.first(sql, [ino.0.cast_signed()], read)
    }

    pub(in crate::catalog) fn inode(&self, ino: Ino) -> Result<Inode> {
        self.find_inode(ino)?
            .ok_or_else(|| Error::new(Kind::NotFound, format!("the catalog has no inode {ino}")))
    }

    /// A directory that still has a name.
    pub(in crate::catalog) fn live_directory(&self, ino: Ino) -> Result<Inode> {
        let inode = self.inode(ino)?;
        match (inode.attr.kind, inode.attr.nlink) {
            (FileKind::Directory, 0) => Err(Error::new(Kind::NotFound, "the directory was removed")),
            (FileKind::Directory, _) => Ok(inode),
            _ => Err(Error::new(Kind::NotDirectory, format!("inode {ino} is not a directory"))),
        }
    }

    pub(in crate::catalog) fn take_ino(&self) -> Result<Ino> {
        Ok(Ino(self.take(Counter::Ino)?.cast_unsigned()))
    }

    pub(in crate::catalog) fn insert_inode(&self, inode: &Inode) -> Result<()> {
        self.write_inode(
            inode,
            "INSERT INTO inode (ino, kind, mode, uid, gid, nlink, size, blocks, atime, mtime, ctime, btime,
             rdev, target, generation, attr_generation, state, away_tier, away_why, away_since)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)",
        )
    }

    pub(in crate::catalog) fn update_inode(&self, inode: &Inode) -> Result<()> {
        self.write_inode(
            inode,
            "UPDATE inode SET kind = ?2, mode = ?3, uid = ?4, gid = ?5, nlink = ?6, size = ?7, blocks = ?8,
             atime = ?9, mtime = ?10, ctime = ?11, btime = ?12, rdev = ?13, target = ?14, generation = ?15,
             attr_generation = ?16, state = ?17, away_tier = ?18, away_why = ?19, away_since = ?20
             WHERE ino = ?1",
        )
    }

    fn write_inode(&self, inode: &Inode, sql: &str) -> Result<()> {
        let attr = &inode.attr;
        self.forget_directory(attr.ino);
        self.execute(
            sql,
            params![
                attr.ino.0.cast_signed(),
                attr.kind as u8,
                attr.mode,
                attr.uid,
                attr.gid,
                attr.nlink,
                attr.size.cast_signed(),
                attr.blocks.cast_signed(),
                attr.atime.0,
                attr.mtime.0,
                attr.ctime.0,
                attr.btime.0,
                attr.rdev,
                inode.target,
                inode.generation.0.cast_signed(),
                inode.attr_generation.cast_signed(),
                inode.state as u8,
                inode.away.map_or(0, |away| away.tier.0),
                inode.away.map_or(0, |away| away.reason as u8),
                inode.away.map_or(0, |away| away.since.0),
            ],
        )?;
        Ok(())
    }

    /// Removes the inode's row and its attributes.
    pub(in crate::catalog) fn delete_inode(&self, ino: Ino) -> Result<()> {
        self.execute("DELETE FROM inode WHERE ino = ?1", [ino.0.cast_signed()])?;
        self.execute("DELETE FROM xattr WHERE ino = ?1", [ino.0.cast_signed()])?;
        self.forget_directory(ino);
        Ok(())
    }

    /// A directory's entries changed at `now`, and `subdirectories` more or fewer are in it.
    pub(in crate::catalog) fn touch_directory(
        &self,
        dir: Ino,
        subdirectories: i32,
        now: Timestamp,
    ) -> Result<()> {
        self.forget_directory(dir);
        self.stamp_directory(dir, subdirectories, now)
    }

    /// The same where what is remembered of the directory has it already.
    pub(super) fn stamp_directory(&self, dir: Ino, subdirectories: i32, now: Timestamp) -> Result<()> {
        self.execute(
            "UPDATE inode SET mtime = ?2, ctime = ?2, nlink = nlink + ?3 WHERE ino = ?1",
            params![dir.0.cast_signed(), now.0, subdirectories],
        )?;
        Ok(())
    }

    /// Subdirectories that were found or lost do not change their directory's times.
    pub(in crate::catalog) fn count_subdirectories(&self, dir: Ino, more: i32) -> Result<()> {
        self.forget_directory(dir);
        self.execute(
            "UPDATE inode SET nlink = nlink + ?2 WHERE ino = ?1",
            params![dir.0.cast_signed(), more],
        )?;
        Ok(())
    }

    pub(in crate::catalog) fn set_atime(&self, ino: Ino, atime: Timestamp) -> Result<()> {
        self.forget_directory(ino);
        self.execute("UPDATE inode SET atime = ?2 WHERE ino = ?1", params![ino.0.cast_signed(), atime.0])?;
        Ok(())
    }

    pub(in crate::catalog) fn put_xattr(&self, ino: Ino, name: &[u8], value: &[u8]) -> Result<()> {
        self.execute(
            "INSERT OR REPLACE INTO xattr (ino, name, value) VALUES (?1, ?2, ?3)",
            params![ino.0.cast_signed(), name, value],
        )?;
        Ok(())
    }

    /// Inodes that `filter` selects, in order of their numbers.
    pub(in crate::catalog) fn inodes_where(&self, filter: InodeFilter) -> Result<Vec<Inode>> {
        let sql = match filter {
            InodeFilter::Dirty => {
                concat!("SELECT ", inode_columns!(), " FROM inode i WHERE i.state <> 0 ORDER BY i.ino")
            }
            InodeFilter::Orphan => {
                concat!("SELECT ", inode_columns!(), " FROM inode i WHERE i.nlink = 0 ORDER BY i.ino")
            }
        };
        self.all(sql, [], read)
    }
}

/// Which inodes to list.
#[derive(Clone, Copy, Debug)]
pub(in crate::catalog) enum InodeFilter {
    Dirty,
    Orphan,
}
