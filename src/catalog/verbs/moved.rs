//! What only the mover asks: places that belong to nobody (prefixes that were left, copies that had
//! to make way), and who answers for a staged file.

use super::Catalog;
use crate::catalog::{Place, PlaceId, Replica};
use crate::error::Result;
use crate::types::TierId;

/// Where copies wait that lay under another file's native key.
const MOVED: &[u8] = b".tierfs/moved";

impl Catalog {
    /// Nobody owns the place any more: keys in it that are still doomed wait for their deletes, and it goes with the last.
    pub fn give_up_place(&self, place: PlaceId) -> Result<()> {
        self.engine.write(|tx| {
            if tx.find_place(place.0)?.is_some() {
                tx.set_place_owner(place.0, 0)?;
                tx.prune_place(place.0)?;
            }
            Ok(())
        })
    }

    /// The place of copies that had to make way for another file (`.tierfs/moved` on `tier`); made where missing, owned by nobody.
    pub fn moved_place(&self, tier: TierId) -> Result<Place> {
        self.engine.write(|tx| {
            let root = tx.tier(tier.0)?.root;
            let id = match tx.child_place(tier.0, root, MOVED)? {
                Some(place) => place.id,
                None => tx.insert_place(tier.0, root, MOVED, 0)?,
            };
            tx.to_place(id)
        })
    }

    /// The row of stage file `name` on `tier`.
    pub fn staged_at(&self, tier: TierId, name: &[u8]) -> Result<Option<Replica>> {
        self.engine.read(|tx| {
            let stage = tx.tier(tier.0)?.stage;
            tx.replica(stage, name)?.map(|row| tx.to_replica(row)).transpose()
        })
    }
}
