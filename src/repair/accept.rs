//! A directory tier whose mark is gone, or another's, is absent: nothing is written there and nothing is lost. When a person says that
//! it was wiped, every key the catalog knows there is looked for; what is not there any more is lost, and named.

use crate::catalog::{Catalog, Losses, PlaceId, Replica, TierRow};
use crate::error::{Error, Kind, Result};
use crate::tier::{DirectoryTier, Resident};
use crate::types::{Key, TierId};
use std::collections::HashMap;

/// Keys judged in one transaction.
const PORTION: usize = 1024;

/// On which file system the tier may be now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// Of the type it always was: on another one something else is mounted, or nothing.
    AsKnown,
    /// Any.
    Any,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Names of files that are gone.
    pub lost: u64,
    /// Keys that were looked for and found.
    pub found: u64,
}

/// Takes what the path of `tier` leads to now for the tier, and gives up what is not there. `tell` hears what each portion of keys
/// cost, after it is written down. A call that is cut off is finished by the next.
///
/// # Errors
/// [`Kind::Invalid`] if the tier is there or on another file system, [`Kind::NotFound`] if nothing is at its path.
pub fn accept(
    catalog: &Catalog,
    tier: &TierRow,
    directory: &DirectoryTier,
    file_system: FileSystem,
    tell: &mut dyn FnMut(&Losses) -> Result<()>,
) -> Result<Accepted> {
    let there = directory.as_found()?;
    may_be_accepted(tier, &there, file_system)?;
    let mut accepted = Accepted::default();
    let mut directories = Directories::default();
    let mut after = (PlaceId(0), Vec::new());
    loop {
        let replicas = catalog.replicas_on(tier.id, &after, PORTION)?;
        let Some(last) = replicas.last() else { break };
        after = (last.place, last.name.clone());
        let mut gone = Vec::new();
        for replica in replicas {
            match directories.has(&there, &replica)? {
                true => accepted.found += 1,
                false => gone.push(replica),
            }
        }
        let losses = catalog.lose(&gone)?;
        accepted.lost += losses.lost.len() as u64;
        tell(&losses)?;
    }
    crate::failpoint::pass("losses_named");
    give_up_directories(catalog, tier.id, &there, tell)?;
    let mark = directory.mark_found()?;
    let id = mark.id.ok_or_else(|| Error::new(Kind::ReadOnly, "the tier can't be marked"))?;
    catalog.set_mark(tier.id, &id, &mark.fs_type)?;
    catalog.sync()?;
    directory.expect_mark(&id)?;
    Ok(accepted)
}

fn may_be_accepted(tier: &TierRow, there: &DirectoryTier, file_system: FileSystem) -> Result<()> {
    let refuse = |text: String| Err(Error::new(Kind::Invalid, text));
    let Some(known) = &tier.mark else {
        return refuse(format!("tier {} has never been used: there is nothing to accept", tier.name));
    };
    let found = there.claim()?;
    if found.id.as_ref() == Some(known) {
        return refuse(format!(
            "tier {} is there and is the one known: there is nothing to accept",
            tier.name
        ));
    }
    match &tier.fs_type {
        Some(fs_type) if *fs_type != found.fs_type && file_system == FileSystem::AsKnown => refuse(format!(
            "{} was {fs_type} and is {} now: probably it is not mounted; mount it, or say --any-file-system if it is right",
            tier.location, found.fs_type
        )),
        _ => Ok(()),
    }
}

/// Which directories are there, so that a wiped one costs one look whatever it held.
#[derive(Default)]
struct Directories(HashMap<PlaceId, bool>);

impl Directories {
    /// More than that are forgotten: they are asked for in their order.
    const REMEMBERED: usize = 4096;

    fn has(&mut self, there: &DirectoryTier, replica: &Replica) -> Result<bool> {
        if self.0.len() >= Self::REMEMBERED {
            self.0.clear();
        }
        let parent = replica.key.split().map_or(Key::ROOT, |(parent, _)| parent);
        // Staged files have a directory of their own between their place and their name.
        let is_known = !replica.staged;
        if is_known && self.0.get(&replica.place) == Some(&false) {
            return Ok(false);
        }
        if is_known && !self.0.contains_key(&replica.place) {
            let is_there = exists(there, &parent)?;
            self.0.insert(replica.place, is_there);
            if !is_there {
                return Ok(false);
            }
        }
        exists(there, &replica.key)
    }
}

/// An absence is an answer, any other error is not.
fn exists(there: &dyn Resident, key: &Key) -> Result<bool> {
    match there.stat(key) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), Kind::NotFound | Kind::NotDirectory) => Ok(false),
        Err(error) => Err(error),
    }
}

fn give_up_directories(
    catalog: &Catalog,
    tier: TierId,
    there: &DirectoryTier,
    tell: &mut dyn FnMut(&Losses) -> Result<()>,
) -> Result<()> {
    let mut after = PlaceId(i64::MAX);
    let mut deep = Vec::new();
    loop {
        let places = catalog.places_on(tier, after, PORTION)?;
        let Some(last) = places.last() else { break };
        after = last.id;
        for place in places {
            if !place.key.is_root() && !exists(there, &place.key)? {
                deep.push((place.key.components().count(), place.id));
            }
        }
    }
    deep.sort_unstable_by_key(|(depth, _)| std::cmp::Reverse(*depth));
    let deep: Vec<PlaceId> = deep.into_iter().map(|(_, id)| id).collect();
    for portion in deep.chunks(PORTION) {
        let observed = catalog.lose_places(portion)?;
        tell(&Losses { observed, ..Losses::default() })?;
    }
    Ok(())
}
