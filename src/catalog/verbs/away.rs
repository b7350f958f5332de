//! Files that are sent away from home, and come back.

use super::Catalog;
use crate::catalog::tables::Tx;
use crate::catalog::{Away, Inode, Reason, WriteState};
use crate::error::Result;
use crate::types::{FileKind, Generation, Ino, TierId, Timestamp};
use rusqlite::params;
use std::sync::Arc;
use tokio::sync::Notify;

impl Catalog {
    /// The file is to live on `tier`, if it is a clean one with one name, at home, with this generation, and nothing is to be done
    /// for it. Answers whether it is.
    pub fn send_away(&self, ino: Ino, generation: Generation, tier: TierId) -> Result<bool> {
        self.engine.write(|tx| {
            let Some(mut inode) = tx.find_inode(ino)? else { return Ok(false) };
            let is_at_rest = inode.attr.kind == FileKind::Regular
                && inode.attr.nlink == 1
                && inode.state == WriteState::Clean
                && inode.generation == generation
                && inode.away.is_none()
                && tx.reconcile_step(ino)?.is_none();
            if is_at_rest {
                inode.away = Some(Away { tier, reason: Reason::Going, since: tx.now() });
                tx.update_inode(&inode)?;
            }
            Ok(is_at_rest)
        })
    }

    /// What was sent away is there.
    pub fn is_away(&self, ino: Ino) -> Result<()> {
        self.engine.write(|tx| {
            let Some(mut inode) = tx.find_inode(ino)? else { return Ok(()) };
            if let Some(away) = inode.away.as_mut().filter(|away| away.reason == Reason::Going) {
                away.reason = Reason::Cold;
                tx.update_inode(&inode)?;
            }
            Ok(())
        })
    }

    /// A file that was sent away is wanted at home again; wakes whoever brings it. Answers the file as it is now.
    pub fn come_home(&self, ino: Ino) -> Result<Inode> {
        let inode = self.engine.write(|tx| {
            let mut inode = tx.inode(ino)?;
            if tx.returns(&mut inode, &[Reason::Going, Reason::Cold, Reason::Overflow]) {
                tx.update_inode(&inode)?;
            }
            Ok(inode)
        })?;
        self.returning.notify_one();
        Ok(inode)
    }

    /// Home has no room for a file that is there, or on its way: it is to live on `tier` until there is some. Answers the file as it is
    /// now.
    pub fn overflows(&self, ino: Ino, tier: TierId) -> Result<Inode> {
        self.engine.write(|tx| {
            let mut inode = tx.inode(ino)?;
            if inode.whereabouts().away.is_none() {
                inode.away = Some(Away { tier, reason: Reason::Overflow, since: tx.now() });
                tx.update_inode(&inode)?;
            }
            Ok(inode)
        })
    }

    /// The file is at home: nothing is left of what `away` said, unless it was sent away anew.
    pub fn is_home(&self, ino: Ino, away: Away) -> Result<()> {
        self.engine.write(|tx| {
            let Some(mut inode) = tx.find_inode(ino)? else { return Ok(()) };
            if inode.away == Some(away) {
                inode.away = None;
                tx.update_inode(&inode)?;
            }
            Ok(())
        })
    }

    /// Files with a name that are away for this reason, in the order of their numbers, after `after`.
    pub fn away(&self, reason: Reason, after: Ino, limit: usize) -> Result<Vec<Ino>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.engine.read(|tx| {
            tx.all(
                "SELECT ino FROM inode WHERE away_why = ?1 AND away_why <> 0 AND nlink > 0 AND ino > ?2 ORDER BY ino LIMIT ?3",
                params![reason as u8, after.0.cast_signed(), limit],
                |row| Ok(Ino(row.get::<_, i64>(0)?.cast_unsigned())),
            )
        })
    }

    /// How many of them there are.
    pub fn count_away(&self, reason: Reason) -> Result<u64> {
        self.engine.read(|tx| {
            let count = tx.first(
                "SELECT count(*) FROM inode WHERE away_why = ?1 AND away_why <> 0 AND nlink > 0",
                [reason as u8],
                |row| row.get::<_, i64>(0),
            )?;
            Ok(count.unwrap_or_default().unsigned_abs())
        })
    }

    /// The same, and how many bytes they have.
    pub fn sum_away(&self, reason: Reason) -> Result<(u64, u64)> {
        self.engine.read(|tx| {
            let sums = tx.first(
                "SELECT count(*), coalesce(sum(size), 0) FROM inode WHERE away_why = ?1 AND away_why <> 0 AND nlink > 0",
                [reason as u8],
                |row| Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get::<_, i64>(1)?.unsigned_abs())),
            )?;
            Ok(sums.unwrap_or_default())
        })
    }

    /// When the newest of its copies on the tiers was found, made or changed, as far as this catalog knows.
    pub fn placed_at(&self, ino: Ino) -> Result<Option<Timestamp>> {
        self.engine.read(|tx| {
            tx.first(
                "SELECT max(changed_at) FROM replica WHERE ino = ?1 AND ino <> 0",
                [ino.0.cast_signed()],
                |row| Ok(row.get::<_, Option<i64>>(0)?.map(Timestamp)),
            )
            .map(Option::flatten)
        })
    }

    /// Told whenever a file is wanted at home.
    pub fn returning(&self) -> Arc<Notify> {
        Arc::clone(&self.returning)
    }
}

impl Tx<'_> {
    /// A file that nobody used, and that is used or written now, does not stay away; answers whether it was to. The row is the
    /// caller's to write.
    pub(super) fn is_wanted(&self, inode: &mut Inode) -> bool {
        self.returns(inode, &[Reason::Going, Reason::Cold])
    }

    /// The same of one that is away for one of these reasons.
    fn returns(&self, inode: &mut Inode, reasons: &[Reason]) -> bool {
        let since = self.now();
        match inode.away.as_mut().filter(|away| reasons.contains(&away.reason)) {
            Some(away) => {
                *away = Away { reason: Reason::Returning, since, ..*away };
                true
            }
            None => false,
        }
    }
}
