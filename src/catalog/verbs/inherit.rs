//! Taking over what another catalog left on a stage.

use super::Catalog;
use crate::catalog::PlaceId;
use crate::catalog::tables::{Counter, ReplicaRow};
use crate::error::{Error, Kind, Result};
use crate::types::{Ino, Seq, Version};

impl Catalog {
    /// From now on inodes and steps have numbers above these, which another catalog gave out.
    pub fn number_above(&self, ino: Ino, seq: Seq) -> Result<()> {
        self.engine.durable(|tx| {
            tx.skip_to(Counter::Ino, ino.0)?;
            tx.skip_to(Counter::Seq, seq.0)
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
