//! Directories on tiers.

use super::Catalog;
use crate::catalog::tables::Tx;
use crate::catalog::{Place, PlaceId};
use crate::error::{Error, Kind, Result, found};
use crate::types::{Ino, TierId};
use std::sync::Arc;

impl Catalog {
    /// The directory's places on all tiers.
    pub fn places(&self, dir: Ino) -> Result<Arc<[Place]>> {
        if let Some(known) = self.engine.quick(|state| state.places_of(dir)) {
            return Ok(known);
        }
        self.engine.read(|tx| tx.places(dir))
    }

    /// One place.
    pub fn place(&self, id: PlaceId) -> Result<Place> {
        self.engine.read(|tx| tx.to_place(id.0))
    }

    /// The native place of directory `dir` on `tier`, made (rows only) together with its ancestors' where
    /// missing. `Busy` if another inode owns a prefix on the way.
    pub fn ensure_place(&self, dir: Ino, tier: TierId) -> Result<Place> {
        if let Some(place) = self.native_place(dir, tier)? {
            return Ok(place);
        }
        self.engine.relaxed(|tx| {
            let id = tx.ensure_native(dir, tier.0)?;
            tx.to_place(id)
        })
    }

    /// The directory of a place was just made, so nothing is in it that nobody knows of.
    pub fn made_place(&self, id: PlaceId) -> Result<()> {
        // Without a version, the next look lists it all the same.
        self.engine.relaxed(|tx| tx.set_place_listed(id.0, None))
    }

    /// As [`Catalog::ensure_place`] but only looks: `None` where a row is missing or owned by another.
    pub fn native_place(&self, dir: Ino, tier: TierId) -> Result<Option<Place>> {
        if let Some(known) = self.engine.quick(|state| state.native_place(dir, tier)) {
            return Ok(Some(known));
        }
        self.engine.read(|tx| {
            // Remembered for the next time.
            tx.places(dir)?;
            tx.native(dir, tier.0)?.map(|id| tx.to_place(id)).transpose()
        })
    }

    /// Whether a place is where it was when it was read: a rename takes a directory elsewhere with its place.
    pub fn stands(&self, place: &Place) -> Result<bool> {
        Ok(found(self.place(place.id))?.is_some_and(|now| now.key == place.key))
    }

    /// Whether the directory that owns `place` was renamed, and what lies there has not followed it yet: it is no native place of it, or on none
    /// of the tiers `wanted` below its name, and a step is to take everything home from there.
    pub fn is_left(&self, place: &Place, wanted: &[TierId]) -> Result<bool> {
        let Some(dir) = place.ino else { return Ok(false) };
        if self.native_place(dir, place.tier)?.is_none_or(|native| native.id != place.id) {
            return Ok(true);
        }
        if wanted.contains(&place.tier) {
            return Ok(false);
        }
        self.engine.read(|tx| tx.has_step_above(dir))
    }

    /// Places directly inside `place`, whoever owns them.
    pub fn places_in(&self, place: PlaceId) -> Result<Vec<Place>> {
        self.engine.read(|tx| tx.child_places(place.0)?.iter().map(|row| tx.to_place(row.id)).collect())
    }

    /// The bytes of `ino` in place `place` moved with their directory, or are now owned elsewhere: changes a place's (parent, name).
    pub fn move_place(&self, place: PlaceId, parent: PlaceId, name: &[u8]) -> Result<()> {
        self.engine.write(|tx| tx.move_place(place.0, parent.0, name))
    }

    /// Drops an empty place row: `NotEmpty` if any key or place in it is still answered for.
    pub fn drop_place(&self, place: PlaceId) -> Result<()> {
        self.engine.write(|tx| {
            let row = tx.place_row(place.0)?;
            if row.parent == 0 || tx.is_stage(row.id)? {
                return Err(Error::new(Kind::Invalid, "the root and the stage of a tier can't be dropped"));
            }
            if tx.place_in_use(row.id)? {
                return Err(Error::new(Kind::NotEmpty, "the place still holds keys"));
            }
            tx.remove_place(&row)
        })
    }
}

impl Tx<'_> {
    /// Whether a directory, or one above it, has a step to come.
    fn has_step_above(&self, mut dir: Ino) -> Result<bool> {
        while dir != Ino::ROOT {
            if self.reconcile_step(dir)?.is_some() {
                return Ok(true);
            }
            let Some((parent, _)) = self.first_name(dir)? else { break };
            dir = parent;
        }
        Ok(false)
    }

    pub(super) fn move_place(&self, place: i64, parent: i64, name: &[u8]) -> Result<()> {
        let row = self.place_row(place)?;
        let mut above = self.place_row(parent)?;
        if above.tier != row.tier || row.parent == 0 {
            return Err(Error::new(
                Kind::Invalid,
                "a place can't leave its tier, and a tier's root can't move",
            ));
        }
        crate::types::name_is_valid(name)?;
        while above.parent != 0 {
            if above.id == place {
                return Err(Error::new(Kind::Invalid, "a place can't move into itself"));
            }
            above = self.place_row(above.parent)?;
        }
        match self.child_place(row.tier, parent, name)? {
            Some(there) if there.id == place => return Ok(()),
            Some(there) if there.ino == 0 && !self.place_in_use(there.id)? => self.remove_place(&there)?,
            Some(_) => return Err(Error::new(Kind::Busy, "another place has that key")),
            None => {}
        }
        self.set_place_key(place, parent, name)
    }

    /// Whether a place holds other places, or keys that are more than tombstones.
    pub(super) fn place_in_use(&self, place: i64) -> Result<bool> {
        Ok(self.exists("SELECT 1 FROM place WHERE parent = ?1 LIMIT 1", [place])?
            || self.exists(
                "SELECT 1 FROM replica r WHERE r.place = ?1 AND (r.ino <> 0 OR r.version IS NOT NULL
                 OR r.write_id IS NOT NULL OR EXISTS (SELECT 1 FROM step s WHERE s.place = r.place
                 AND s.name = r.name AND s.ino = 0)) LIMIT 1",
                [place],
            )?)
    }

    /// Removes a place that is not in use, and the tombstones in it.
    pub(super) fn remove_place(&self, row: &crate::catalog::tables::PlaceRow) -> Result<()> {
        self.execute("DELETE FROM replica WHERE place = ?1", [row.id])?;
        self.delete_place(row.id)?;
        // An older listing of the directory above may still show it.
        if self.replica(row.parent, &row.name)?.is_none() {
            self.bury(row.parent, &row.name)?;
        }
        Ok(())
    }

    /// Removes a place with all places and keys below it, which are gone from the tier.
    pub(super) fn remove_subtree(&self, row: &crate::catalog::tables::PlaceRow) -> Result<()> {
        for child in self.child_places(row.id)? {
            self.remove_subtree(&child)?;
        }
        self.execute("DELETE FROM step WHERE place = ?1 AND ino = 0", [row.id])?;
        self.remove_place(row)
    }

    /// Drops a place nobody owns once nothing is left in it, and those above it likewise.
    pub(super) fn prune_place(&self, place: i64) -> Result<()> {
        let mut at = place;
        while let Some(row) = self.find_place(at)? {
            if row.ino != 0 || row.parent == 0 || self.is_stage(row.id)? || self.place_in_use(row.id)? {
                break;
            }
            self.remove_place(&row)?;
            at = row.parent;
        }
        Ok(())
    }
}
