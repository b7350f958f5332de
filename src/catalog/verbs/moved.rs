//! What only the mover asks: places that belong to nobody (prefixes that were left, copies that had
//! to make way), and who answers for a staged file.

use super::Catalog;
use crate::catalog::tables::{Order, Why};
use crate::catalog::{Content, Place, PlaceId, Replica, WriteState};
use crate::error::Result;
use crate::types::{Generation, Ino, TierId};

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

    /// The first place on the way to the native one of `dir` on `tier` that belongs to another directory, with the directory
    /// that should own it.
    pub fn place_in_the_way(&self, dir: Ino, tier: TierId) -> Result<Option<(Place, Ino)>> {
        self.engine.read(|tx| {
            let mut down = Vec::new();
            let mut at = dir;
            while at != Ino::ROOT {
                let Some((parent, name)) = tx.first_name(at)? else { return Ok(None) };
                down.push((at, name));
                at = parent;
            }
            let mut place = tx.tier(tier.0)?.root;
            for (owner, name) in down.into_iter().rev() {
                let Some(row) = tx.child_place(tier.0, place, &name)? else { return Ok(None) };
                if row.ino != 0 && row.ino != owner.0 {
                    return Ok(Some((tx.to_place(row.id)?, owner)));
                }
                place = row.id;
            }
            Ok(None)
        })
    }

    /// The prefix `place` belongs to `heir` from now on, whose native place it is. Everything in it must have been imported: keys that have
    /// rows stay with their files. The owner before gets an empty place of its own instead (`.tierfs/moved/<inode>`), which its step in
    /// `domain` gives up once its files have left.
    pub fn hand_over_place(&self, place: PlaceId, heir: Ino, domain: &str) -> Result<()> {
        let aside = self.moved_place(self.place(place)?.tier)?;
        self.engine.write(|tx| {
            let row = tx.place_row(place.0)?;
            let Some(before) = row.owner().filter(|before| *before != heir) else { return Ok(()) };
            tx.set_place_owner(row.id, heir.0)?;
            let name = before.to_string().into_bytes();
            if tx.child_place(row.tier, aside.id.0, &name)?.is_none() {
                tx.insert_place(row.tier, aside.id.0, &name, before.0)?;
            }
            tx.queue_reconcile(before, domain, Why::Names, Order::Keep)?;
            tx.forget_natives();
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

    /// A mapping outlived the last close and changed the staged file after `generation` of it was committed: that is the next generation,
    /// closed already. False if the file is not (any more) a clean one with that generation staged.
    pub fn changed_after_commit(
        &self,
        ino: Ino,
        generation: Generation,
        content: Content,
        domain: &str,
    ) -> Result<bool> {
        self.engine.write(|tx| {
            let mut inode = tx.inode(ino)?;
            if inode.generation != generation || inode.state != WriteState::Clean {
                return Ok(false);
            }
            let Some(mut row) = tx.staged(&inode, |_| true)? else { return Ok(false) };
            inode.generation = generation.next();
            inode.state = WriteState::Closed;
            inode.take_content(content);
            tx.update_inode(&inode)?;
            row.generation = inode.generation.0;
            tx.put_replica(&row)?;
            tx.queue_reconcile(ino, domain, Why::Content, Order::End)?;
            Ok(true)
        })
    }

    /// Files at home whose staged copy is still there: it has to become a hot copy or go.
    pub fn clean_but_staged(&self) -> Result<Vec<Ino>> {
        self.engine.read(|tx| {
            tx.all(
                "SELECT DISTINCT r.ino FROM tier t JOIN replica r ON r.place = t.stage JOIN inode i ON i.ino = r.ino
                 WHERE r.ino <> 0 AND i.state = 0",
                [],
                |row| Ok(Ino(row.get::<_, i64>(0)?.cast_unsigned())),
            )
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
