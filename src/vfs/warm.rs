//! What it takes to have the bytes of a file near, for `tierfs warm`.

use super::open::no_copy;
use super::{Caller, Vfs};
use crate::catalog::Replica;
use crate::data::{FillStart, Reader, Source};
use crate::error::{Error, Kind, Result};
use crate::tier::Archive;
use crate::types::{FileKind, Ino};
use std::sync::Arc;

/// What it takes to have the bytes of a file near.
#[derive(Debug)]
pub enum Warming {
    /// Nothing: files of this machine have them.
    Near,
    /// They are read from afar, and its rule wants them nowhere else.
    Far,
    /// Reading to the end makes the hot copy.
    Fetch(Arc<Reader>),
    /// Somebody else makes the hot copy: look again.
    Elsewhere,
    /// Archived, and on its way back for hours.
    Rehydrating,
}

impl Vfs {
    /// Begins what it takes to have the bytes of a file near; whether it is archived shows when it is fetched.
    ///
    /// # Errors
    /// What the catalog or a tier says.
    pub fn warm(&self, caller: &Caller, ino: Ino) -> Result<Warming> {
        let inode = self.catalog().inode(ino)?;
        if inode.attr.kind != FileKind::Regular || inode.attr.size == 0 {
            return Ok(Warming::Near);
        }
        let inode = self.used(caller, &inode)?;
        let newest = self.newest(&inode)?;
        if newest.iter().any(|replica| replica.staged) {
            // What it is to replace may be archived, and then can't be replaced.
            let rehydrating = self.rehydrate(caller, ino)?;
            return Ok(if rehydrating { Warming::Rehydrating } else { Warming::Near });
        }
        let path = self.some_path(ino)?;
        let rule = self.rule(&path, inode.opened_as());
        let is_here = newest.iter().any(|replica| self.resident(replica.tier).is_some());
        if is_here && (rule.hot.is_empty() || self.clean_at_resident_home(&rule, &newest).is_none()) {
            return Ok(Warming::Near);
        }
        let remote = newest.first().ok_or_else(|| no_copy(&path))?;
        if !self.hot_copies(&rule, remote)?.is_empty() {
            return Ok(Warming::Near);
        }
        let Some(hot) = rule.hot.iter().find_map(|tier| self.parts.hots.get(tier)) else {
            let rehydrating = self.rehydrate_copy(caller, remote)?;
            return Ok(if rehydrating { Warming::Rehydrating } else { Warming::Far });
        };
        let identity = self.identity(remote)?;
        let full = || Error::new(Kind::NoSpace, "there is no room for the hot copy");
        let admitted = hot.space().reserve(inode.attr.size).ok_or_else(full)?;
        self.note_copy(ino, &hot.path_key(&identity)?);
        let fill = match hot.begin_fill(&identity, inode.attr.size, admitted)? {
            FillStart::Started(fill) => fill,
            FillStart::Elsewhere => return Ok(Warming::Elsewhere),
        };
        let tier = self.parts.tiers.get(remote.tier)?.clone();
        let source = Source { tier, key: identity.key, version: identity.version, size: inode.attr.size };
        Ok(Warming::Fetch(Reader::open(source, self.parts.streams.clone(), Some(fill))))
    }

    /// Has the tier bring back an archived file; answers whether it is archived.
    ///
    /// # Errors
    /// What the catalog or the tier says.
    pub fn rehydrate(&self, caller: &Caller, ino: Ino) -> Result<bool> {
        let mut rehydrating = false;
        for replica in self.catalog().replicas(ino)? {
            if !replica.staged && replica.version.is_some() && self.resident(replica.tier).is_none() {
                rehydrating |= self.rehydrate_copy(caller, &replica)?;
            }
        }
        Ok(rehydrating)
    }

    fn rehydrate_copy(&self, caller: &Caller, remote: &Replica) -> Result<bool> {
        let tier = self.parts.tiers.get(remote.tier)?;
        match self.wait_for(caller, tier.head(&remote.key))?.archive {
            Archive::No => Ok(false),
            Archive::Rehydrating => Ok(true),
            Archive::Archived => self.wait_for(caller, tier.rehydrate(&remote.key)).map(|()| true),
        }
    }
}
