//! One more name for a file.

use super::Catalog;
use crate::catalog::Inode;
use crate::catalog::engine::Basis;
use crate::catalog::tables::{Order, ReplicaRow, Tx, Why};
use crate::error::{Error, Kind, Result, found};
use crate::tier::Object;
use crate::types::{FileKind, Ino, Key, TierId, Timestamp, name_is_valid};

impl Catalog {
    /// Gives `ino` one more name. `native`: the tier on which the link was already made natively (a replica row is added there);
    /// `domain`: queue a step because home must be told. A native link changes the version of the whole file:
    /// [`Catalog::wrote_native`] tells it.
    pub fn link(
        &self,
        ino: Ino,
        parent: Ino,
        name: &[u8],
        native: Option<TierId>,
        domain: Option<&str>,
        now: Timestamp,
    ) -> Result<Inode> {
        name_is_valid(name)?;
        self.engine.apply(Basis::told(native.is_some()), |tx| {
            tx.live_directory(parent)?;
            let mut inode = tx.inode(ino)?;
            if inode.attr.kind == FileKind::Directory {
                return Err(Error::new(Kind::NotPermitted, "a directory can't have a second name"));
            }
            if inode.attr.nlink == 0 {
                return Err(Error::new(Kind::NotFound, "the file was removed"));
            }
            if !tx.insert_dentry(parent, name, ino)? {
                return Err(Error::new(Kind::Exists, "the name is taken"));
            }
            inode.attr.nlink += 1;
            inode.attr.ctime = now;
            // Where each name is an object of its own, all of them must say that they belong together.
            inode.attr_generation += u64::from(domain.is_some());
            tx.update_inode(&inode)?;
            tx.touch_directory(parent, 0, now)?;
            if let Some(tier) = native {
                tx.link_native(&inode, parent, name, tier)?;
            }
            if let Some(domain) = domain {
                tx.queue_reconcile(ino, domain, Why::Names, Order::Keep)?;
            }
            Ok(inode)
        })
    }

    /// A native file on `tier` that had several names and looked as `before` has just lost one, and with it its version: what its other
    /// names are in now, `stat` says. Unless something else has happened to it: that shows as a change by others.
    pub fn lost_a_link(
        &self,
        tier: TierId,
        before: &Object,
        stat: impl Fn(&Key) -> Result<Object>,
    ) -> Result<()> {
        let Some(native) = before.native.filter(|native| native.nlink > 1) else { return Ok(()) };
        let others = self.engine.read(|tx| {
            let rows = tx.linked_replicas(tier.0, native.ino)?;
            rows.into_iter().map(|row| tx.to_replica(row)).collect::<Result<Vec<_>>>()
        })?;
        for other in others {
            let Some(after) = found(stat(&other.key))? else { continue };
            if after.native.is_some_and(|after| after.ino == native.ino) {
                let is_same = (after.size, after.modified) == (before.size, before.modified);
                return if is_same { self.renew(tier, native.ino, before, &after) } else { Ok(()) };
            }
        }
        Ok(())
    }

    fn renew(&self, tier: TierId, native_ino: u64, before: &Object, after: &Object) -> Result<()> {
        self.engine.write(|tx| {
            for row in tx.linked_replicas(tier.0, native_ino)? {
                if row.version.as_deref() == Some(&before.version.0[..]) {
                    tx.put_replica(&ReplicaRow { version: Some(after.version.0.to_vec()), ..row })?;
                }
            }
            Ok(())
        })
    }
}

impl Tx<'_> {
    fn link_native(&self, inode: &Inode, parent: Ino, name: &[u8], tier: TierId) -> Result<()> {
        let place = self.ensure_native(parent, tier.0)?;
        let mut source = None;
        for mut row in self.replicas_of(inode.attr.ino)? {
            // What lies under a key only until it is replaced is another file.
            let replaced = row.generation == 0;
            if replaced || self.place_row(row.place)?.tier != tier.0 || self.is_stage(row.place)? {
                continue;
            }
            row.linked = true;
            self.put_replica(&row)?;
            if row.generation == inode.generation.0 || source.is_none() {
                source = Some(row);
            }
        }
        let mut row = source.ok_or_else(|| {
            Error::new(
                Kind::Invalid,
                format!("inode {} has no file on tier {} to link", inode.attr.ino, tier.0),
            )
        })?;
        row.place = place;
        row.name = name.to_vec();
        row.write_id = None;
        self.drop_delete(place, name)?;
        self.put_replica(&row)
    }
}
