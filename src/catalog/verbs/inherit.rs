//! Taking over what another catalog left on a stage.

use super::{Catalog, partial_name};
use crate::catalog::tables::{Counter, ReplicaRow};
use crate::catalog::{PlaceId, Replica};
use crate::error::{Error, Kind, Result};
use crate::types::{Generation, Ino, Seq, Version};

impl Catalog {
    /// From now on inodes and steps have numbers above these, which another catalog gave out.
    pub fn number_above(&self, ino: Ino, seq: Seq) -> Result<()> {
        self.engine.durable(|tx| {
            tx.skip_to(Counter::Ino, ino.0)?;
            tx.skip_to(Counter::Seq, seq.0)
        })
    }

    /// What is staged of a file that was just made is only a part of it: the rest is what it is to replace, which counts as its generation
    /// before. Answers the staged row, and that generation if anything lies there.
    pub fn becomes_partial(&self, ino: Ino) -> Result<(Replica, Option<Generation>)> {
        self.engine.write(|tx| {
            let mut inode = tx.inode(ino)?;
            let staged = tx.staged(&inode, |_| true)?;
            let staged = staged.ok_or_else(|| Error::new(Kind::NotFound, "nothing of it is staged"))?;
            let before = inode.generation;
            inode.generation = before.next();
            let mut base = None;
            for row in tx.replicas_of(ino)? {
                if !tx.is_stage(row.place)? && row.version.is_some() {
                    tx.put_replica(&ReplicaRow { generation: before.0, ..row })?;
                    base = Some(before);
                }
            }
            tx.delete_replica(staged.place, &staged.name)?;
            let (name, generation) = (partial_name(ino, inode.generation), inode.generation.0);
            let row = ReplicaRow { name, generation, ..staged };
            tx.put_replica(&row)?;
            tx.update_inode(&inode)?;
            Ok((tx.to_replica(row)?, base))
        })
    }

    /// What lies at a native key of `ino` is to be replaced by its content, if it is still this version. `Exists` if the key is another's.
    pub fn expect_there(&self, ino: Ino, place: PlaceId, name: &[u8], version: &Version) -> Result<()> {
        self.engine.write(|tx| {
            if tx.replica(place.0, name)?.is_some_and(|row| row.ino != 0 && row.ino != ino.0) {
                return Err(Error::new(Kind::Exists, "the key is another file's"));
            }
            tx.drop_delete(place.0, name)?;
            let row = ReplicaRow::new(place.0, name, ino.0);
            tx.put_replica(&ReplicaRow { version: Some(version.0.to_vec()), ..row })
        })
    }
}
