//! A free name whose native key is not: a file that was renamed away or replaced leaves bytes there until the mover comes.
//! Nobody wants them, so what is made under the name need not wait for that.

use super::Vfs;
use crate::catalog::{Place, Replica, Writers};
use crate::error::{Error, Kind, Result};
use crate::tier::Resident;
use crate::types::{Ino, TierId};
use std::collections::BTreeSet;

impl Vfs {
    /// Removes what lies under the native key of `name`, which was found taken. False if the name is not free, or what lies there
    /// is somebody else's.
    ///
    /// # Errors
    /// [`Kind::Busy`] if it is the only copy of another file, which must move away first.
    pub(super) fn clear_leftover(&self, dir: Ino, name: &[u8], tier: TierId) -> Result<bool> {
        let (Some(resident), Some(place)) = (self.resident(tier), self.catalog().native_place(dir, tier)?)
        else {
            return Ok(false);
        };
        if self.catalog().lookup(dir, name)?.is_some() {
            return Ok(false);
        }
        let Some(row) = self.catalog().replica_at(place.id, name)? else {
            return self.is_free_of_directories(&place, name).map(|()| false);
        };
        self.give_up(&row)?;
        // The mover looks and deletes while it holds this shared: it must not meet what is made next.
        let _alone = self.native_names.move_on(&BTreeSet::from([tier]));
        self.clear(resident, &place, name)
    }

    /// A directory that was renamed away may still lie there.
    fn is_free_of_directories(&self, place: &Place, name: &[u8]) -> Result<()> {
        let key = place.key.join(name)?;
        let there = self.catalog().places_in(place.id)?.into_iter().find(|there| there.key == key);
        match there.and_then(|there| there.ino) {
            Some(_) => Err(Error::new(Kind::Busy, "a directory has yet to move away from the key")),
            None => Ok(()),
        }
    }

    /// Nobody answers for the key any more, and no crash can change that.
    fn give_up(&self, row: &Replica) -> Result<()> {
        let busy = |text: &'static str| Error::new(Kind::Busy, text);
        if row.write_id.is_some() {
            return Err(busy("a commit to the key is under way"));
        }
        let Some(ino) = row.ino else { return self.catalog().sync() };
        let lives_on = self.catalog().inode(ino)?.whereabouts().away;
        match self.catalog().doom(row, &self.catalog().names(ino)?, lives_on, Writers::Maybe, "") {
            Err(error) if matches!(error.kind(), Kind::Changed | Kind::NotFound) => {
                Err(busy("the key changes hands").with_source(error))
            }
            other => other,
        }
    }

    fn clear(&self, resident: &dyn Resident, place: &Place, name: &[u8]) -> Result<bool> {
        let Some(row) = self.catalog().replica_at(place.id, name)? else { return Ok(false) };
        let object = match resident.stat(&row.key) {
            // The mover was faster.
            Err(error) if error.kind() == Kind::NotFound => return Ok(true),
            object => object?,
        };
        if row.is_doomed() && row.may_go(&object) {
            resident.unlink(&row.key)?;
            self.catalog().lost_a_link(row.tier, &object, |key| resident.stat(key))?;
            self.catalog().deleted(place.id, name)?;
            return Ok(true);
        }
        if row.is_doomed() {
            // Changed by somebody else: the next look finds it.
            self.catalog().deleted(place.id, name)?;
        }
        Ok(false)
    }
}
