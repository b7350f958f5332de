//! What reaches tiers, and what may be removed from them.

use super::import::Look;
use super::{Catalog, is_partial};
use crate::catalog::tables::{ReplicaRow, Tx};
use crate::catalog::{Defaults, Inode, Observed, PlaceId, Replica, Standing, WriteState, Writers};
use crate::error::{Error, Kind, Result};
use crate::tier::{Entry, NativeId};
use crate::types::{Generation, Ino, TierId, Timestamp, Version, name_is_valid};

impl Catalog {
    /// FULL: a commit of `ino` to (place, name) with this write id starts; its outcome must be learned after a crash. A doomed key is taken over
    /// with its version, and its delete is off. `NotFound` if the name is not the inode's (any more), `Busy` if the key holds the only copy of another file.
    pub fn begin_commit(&self, ino: Ino, place: PlaceId, name: &[u8], write_id: &str) -> Result<()> {
        self.engine.durable(|tx| {
            tx.inode(ino)?;
            // A rename may have given the name, and with it the key, to another file since the caller looked.
            if let Some(dir) = tx.place_row(place.0)?.owner()
                && tx.dentry(dir, name)? != Some(ino)
            {
                return Err(Error::new(Kind::NotFound, "the name is not this file's any more"));
            }
            let mut row = match tx.replica(place.0, name)? {
                None => ReplicaRow::new(place.0, name, ino.0),
                Some(row) if row.ino == ino.0 => row,
                Some(row) => {
                    tx.can_be_taken(&row)?;
                    tx.drop_delete(place.0, name)?;
                    ReplicaRow { version: row.version, ..ReplicaRow::new(place.0, name, ino.0) }
                }
            };
            row.write_id = Some(write_id.to_owned());
            tx.put_replica(&row)
        })
    }

    /// The tier took it: (place, name) now holds `generation`/`attr_generation` of `ino` in `version`. If `generation` is still the newest and the state is
    /// `Closed`, the state becomes `Clean`. Answers whether it was the newest. FULL. A key that was given up or taken over meanwhile keeps its
    /// owner; the version is remembered for the delete or the overwrite to come.
    #[allow(clippy::too_many_arguments, reason = "one row of facts, all of them needed")]
    pub fn commit_if(
        &self,
        ino: Ino,
        generation: Generation,
        attr_generation: u64,
        place: PlaceId,
        name: &[u8],
        version: &Version,
        native: Option<NativeId>,
    ) -> Result<bool> {
        self.engine.durable(|tx| {
            tx.place_row(place.0)?;
            let mut row = tx.replica(place.0, name)?.unwrap_or_else(|| ReplicaRow::new(place.0, name, ino.0));
            row.version = Some(version.0.to_vec());
            row.write_id = None;
            if row.ino != ino.0 {
                row.generation = 0;
                row.native_ino = native.map_or(0, |native| native.ino);
                tx.put_replica(&row)?;
                if row.ino == 0 && !tx.has_delete(row.place, &row.name)? {
                    // It was deleted before this came through.
                    tx.queue_delete(row.place, &row.name, "")?;
                }
                return Ok(false);
            }
            let mut inode = tx.inode(ino)?;
            row.generation = generation.0;
            row.attr_generation = attr_generation;
            row.native_ino = native.map_or(0, |native| native.ino);
            row.linked = native.is_some_and(|native| native.nlink > 1);
            tx.put_replica(&row)?;
            tx.share_commit(&row)?;
            let newest = generation == inode.generation;
            if newest {
                tx.is_at_home(&mut inode)?;
            }
            Ok(newest)
        })
    }

    /// A home turned out to have this generation of `ino`: if it is the newest, and `Closed`, it is `Clean`. FULL.
    pub fn found_at_home(&self, ino: Ino, generation: Generation) -> Result<()> {
        self.engine.durable(|tx| {
            let mut inode = tx.inode(ino)?;
            if generation == inode.generation && tx.holds(ino, generation)? {
                tx.is_at_home(&mut inode)
            } else {
                Ok(())
            }
        })
    }

    /// A commit certainly did not happen: clears the write id.
    pub fn abort_commit(&self, place: PlaceId, name: &[u8]) -> Result<()> {
        self.engine.write(|tx| {
            if let Some(mut row) = tx.replica(place.0, name)? {
                row.write_id = None;
                tx.put_replica(&row)?;
            }
            Ok(())
        })
    }

    /// What lies at a key of `ino` was changed by somebody else, and is to be replaced: the next commit goes over this version. `NotFound` if the
    /// key is not the inode's (any more).
    pub fn overwrite(&self, ino: Ino, place: PlaceId, name: &[u8], version: &Version) -> Result<()> {
        self.engine.write(|tx| {
            let mut row = tx.known_replica(place.0, name)?;
            if row.ino != ino.0 {
                return Err(Error::new(Kind::NotFound, "the key is not this file's any more"));
            }
            (row.version, row.generation, row.write_id) = (Some(version.0.to_vec()), 0, None);
            tx.put_replica(&row)
        })
    }

    /// Replicas with a commit of unknown outcome (after a crash).
    pub fn unknown_commits(&self) -> Result<Vec<Replica>> {
        self.engine.read(|tx| tx.committing()?.into_iter().map(|row| tx.to_replica(row)).collect())
    }

    /// Drops a replica row whose bytes may now be removed (FULL before the answer), e.g. a stage file after the commit, or a non-native key
    /// after the native one was written. Refused (`Busy`) if it is the only copy of the newest generation. A key outside stages that still
    /// exists should be doomed instead ([`Catalog::doom`]): a look at the tier before the removal would import it.
    pub fn drop_replica(&self, place: PlaceId, name: &[u8]) -> Result<Replica> {
        self.engine.durable(|tx| {
            let row = tx.known_replica(place.0, name)?;
            tx.is_spare(&row)?;
            tx.drop_delete(place.0, name)?;
            if tx.is_stage(place.0)? {
                tx.delete_replica(place.0, name)?;
            } else {
                tx.bury(place.0, name)?;
            }
            tx.to_replica(row)
        })
    }

    /// Dooms a key of a living inode (a leftover of a rename): owner none, delete step queued. `stray` is the row and `names` are the names
    /// for which it was found to be one, and `lives_on` where the file was away then: `Changed` if any of that is another by now. `Busy` if it is the only copy of the
    /// newest generation.
    pub fn doom(
        &self,
        stray: &Replica,
        names: &[(Ino, Vec<u8>)],
        lives_on: Option<TierId>,
        writers: Writers,
        domain: &str,
    ) -> Result<()> {
        self.engine.durable(|tx| {
            let mut row = tx.known_replica(stray.place.0, &stray.name)?;
            let owner = (row.ino != 0).then_some(Ino(row.ino));
            if owner != stray.ino || row.generation != stray.generation.0 || tx.names(Ino(row.ino))? != names
            {
                return Err(Error::new(Kind::Changed, "the file was renamed meanwhile"));
            }
            if tx.inode(Ino(row.ino))?.whereabouts().away != lives_on {
                return Err(Error::new(Kind::Changed, "the file was sent elsewhere meanwhile"));
            }
            tx.is_spare(&row)?;
            if writers == Writers::None && !row.linked {
                row.native_ino = 0;
            }
            tx.doom_row(&row, domain)
        })
    }

    /// The doomed key is gone from the tier: the row is kept as a tombstone until [`Catalog::purge`], the place is dropped with its last row if nobody owns it.
    /// A key that somebody answers for again stays as it is.
    pub fn deleted(&self, place: PlaceId, name: &[u8]) -> Result<()> {
        self.engine.write(|tx| {
            match tx.replica(place.0, name)? {
                Some(row) if row.ino != 0 => return Ok(()),
                Some(_) => tx.bury(place.0, name)?,
                None => {}
            }
            tx.drop_delete(place.0, name)?;
            tx.prune_place(place.0)
        })
    }

    /// The tier has nothing under the key that `ino` was to overwrite.
    pub fn nothing_there(&self, ino: Ino, place: PlaceId, name: &[u8]) -> Result<()> {
        self.engine.write(|tx| match tx.replica(place.0, name)? {
            Some(row) if row.ino == ino.0 => tx.put_replica(&ReplicaRow { version: None, ..row }),
            _ => Ok(()),
        })
    }

    /// Forgets tombstones older than `before`.
    pub fn purge(&self, before: Timestamp) -> Result<u64> {
        self.engine.write(|tx| {
            let rows = tx.execute(
                "DELETE FROM replica WHERE ino = 0 AND changed_at < ?1 AND version IS NULL AND write_id IS NULL
                 AND NOT EXISTS (SELECT 1 FROM step s WHERE s.place = replica.place AND s.name = replica.name
                 AND s.ino = 0)",
                [before.0],
            )?;
            Ok(rows as u64)
        })
    }

    /// Home changed behind a dirty file: `ino` and its pending generation get the name `aside` in the same directory, and what home has (`found`) is imported
    /// under the old name, or the old name is gone.
    #[allow(clippy::too_many_arguments, reason = "one row of facts, all of them needed")]
    pub fn set_aside(
        &self,
        ino: Ino,
        parent: Ino,
        name: &[u8],
        aside: &[u8],
        place: PlaceId,
        found: Option<&Entry>,
        defaults: Defaults,
    ) -> Result<Observed> {
        name_is_valid(aside)?;
        self.engine.write(|tx| {
            if tx.dentry(parent, name)? != Some(ino) {
                return Err(Error::new(Kind::NotFound, "the file has another name by now"));
            }
            if !tx.insert_dentry(parent, aside, ino)? {
                return Err(Error::new(Kind::Exists, "the name for the set-aside file is taken"));
            }
            tx.delete_dentry(parent, name)?;
            tx.touch_directory(parent, 0, tx.now())?;
            if tx.replica(place.0, name)?.is_some_and(|row| row.ino != 0 && row.ino != ino.0) {
                return Err(Error::new(Kind::Busy, "the key belongs to another file by now"));
            }
            tx.drop_delete(place.0, name)?;
            tx.bury(place.0, name)?;
            if let Some(entry) = found {
                tx.delete_replica(place.0, name)?;
                let markers = entry.object.native.is_none();
                let look = Look { place: tx.place_row(place.0)?, dir: parent, defaults, markers };
                tx.import(&look, name, &entry.object, Standing::Home)?;
            }
            tx.wake();
            Ok(Observed { entries: vec![(parent, name.to_vec(), ino)], ..Observed::default() })
        })
    }
}

impl Tx<'_> {
    /// A home has the newest generation, which was closed.
    fn is_at_home(&self, inode: &mut Inode) -> Result<()> {
        if inode.state != WriteState::Closed {
            return Ok(());
        }
        inode.state = WriteState::Clean;
        if self.staged(inode, |row| is_partial(&row.name))?.is_some() {
            // Its stage file had holes that home has not.
            inode.attr.blocks = inode.attr.size.div_ceil(512);
        }
        self.update_inode(inode)
    }

    /// All native names of one file are in the version that one of them was brought to.
    fn share_commit(&self, row: &ReplicaRow) -> Result<()> {
        if !row.linked || row.native_ino == 0 {
            return Ok(());
        }
        let tier = self.place_row(row.place)?.tier;
        for other in self.linked_replicas(tier, row.native_ino)? {
            if other.ino == row.ino && other.write_id.is_none() {
                let (place, name) = (other.place, other.name);
                self.put_replica(&ReplicaRow { place, name, ..row.clone() })?;
            }
        }
        Ok(())
    }

    /// Whether the bytes at `row` are needed by nobody.
    fn is_spare(&self, row: &ReplicaRow) -> Result<()> {
        let Some(inode) = self.find_inode(Ino(row.ino))? else { return Ok(()) };
        let spare = inode.attr.nlink == 0 || self.has_other_copy(&inode, row)?;
        if spare {
            Ok(())
        } else {
            Err(Error::new(Kind::Busy, "it is the only copy of the newest generation"))
        }
    }

    /// Whether the key may be overwritten by another inode.
    fn can_be_taken(&self, row: &ReplicaRow) -> Result<()> {
        if row.write_id.is_some() {
            return Err(Error::new(Kind::Busy, "another commit to the key is under way"));
        }
        self.is_spare(row).map_err(|e| e.context("the key still holds another file"))
    }
}
