//! Attributes that are not bytes.

use super::Catalog;
use crate::catalog::tables::{Order, Tx, Why};
use crate::catalog::{Inode, WriteState};
use crate::error::{Error, Kind, Result};
use crate::types::{AttrChange, Ino, TimeChange, Timestamp};
use rusqlite::params;

impl Catalog {
    /// Changes attributes (times already resolved by the caller through `now`); bumps `attr_generation`; `domain`: queue a reconcile step
    /// (an existing one keeps its place in the order). A file being written is told with its close: a step of its own would hold the domain until then.
    pub fn set_attr(
        &self,
        ino: Ino,
        change: &AttrChange,
        domain: Option<&str>,
        now: Timestamp,
    ) -> Result<Inode> {
        self.engine.write(|tx| {
            let mut inode = tx.inode(ino)?;
            if change.mtime.is_some() {
                tx.leave_before(&mut inode)?;
            }
            apply(&mut inode, change, now);
            inode.attr_generation += 1;
            tx.update_inode(&inode)?;
            tx.queue_attributes(&inode, domain)?;
            Ok(inode)
        })
    }

    /// Sets or removes (`None`) an extended attribute; `NoAttribute` when there is none to remove.
    pub fn set_xattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: Option<&[u8]>,
        domain: Option<&str>,
        now: Timestamp,
    ) -> Result<()> {
        self.engine.write(|tx| {
            let mut inode = tx.inode(ino)?;
            match value {
                Some(value) => tx.put_xattr(ino, name, value)?,
                None => {
                    let params = params![ino.0.cast_signed(), name];
                    if tx.execute("DELETE FROM xattr WHERE ino = ?1 AND name = ?2", params)? == 0 {
                        return Err(Error::new(Kind::NoAttribute, "no such extended attribute"));
                    }
                }
            }
            inode.attr.ctime = now;
            inode.attr_generation += 1;
            tx.update_inode(&inode)?;
            tx.queue_attributes(&inode, domain)?;
            Ok(())
        })
    }

    /// Remembers attributes that a tier was found to carry; those that are known stay as they are.
    pub fn learn_xattrs(&self, ino: Ino, found: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        self.engine.write(|tx| {
            tx.inode(ino)?;
            for (name, value) in found {
                let sql = "INSERT OR IGNORE INTO xattr (ino, name, value) VALUES (?1, ?2, ?3)";
                tx.execute(sql, params![ino.0.cast_signed(), name, value])?;
            }
            Ok(())
        })
    }

    /// Remembers an access time. It is nobody else's business: no generation, no step.
    pub fn accessed(&self, ino: Ino, atime: Timestamp) -> Result<()> {
        self.engine.relaxed(|tx| tx.set_atime(ino, atime))
    }
}

impl Tx<'_> {
    fn queue_attributes(&self, inode: &Inode, domain: Option<&str>) -> Result<()> {
        if let Some(domain) = domain.filter(|_| inode.state != WriteState::Writing) {
            self.queue_reconcile(inode.attr.ino, domain, Why::Names, Order::Keep)?;
        }
        Ok(())
    }
}

fn apply(inode: &mut Inode, change: &AttrChange, now: Timestamp) {
    let moment = |time: TimeChange| match time {
        TimeChange::Now => now,
        TimeChange::To(time) => time,
    };
    let attr = &mut inode.attr;
    attr.mode = change.mode.map_or(attr.mode, |mode| mode & 0o7777);
    attr.uid = change.uid.unwrap_or(attr.uid);
    attr.gid = change.gid.unwrap_or(attr.gid);
    attr.atime = change.atime.map_or(attr.atime, moment);
    attr.mtime = change.mtime.map_or(attr.mtime, moment);
    attr.ctime = now;
}
