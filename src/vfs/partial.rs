//! Files of which only what is written is staged: the rest stays at home, and is read from there.
//!
//! Such a file is always served through the daemon: the kernel would read holes.

use super::open_file::{Bytes, OpenFile};
use super::stage::{STAGE_MODE, set_mtime};
use super::{Caller, Vfs, Wait};
use crate::catalog::{Inode, Replica, is_partial, partial_name};
use crate::data::{Base, Candidate, Candidates, Partial, Patched, StageStore};
use crate::error::{Error, Kind, Result};
use crate::policy::placement::Rule;
use crate::tier::Archive;
use crate::types::{Ino, TierId};
use std::fs::File;
use std::sync::Arc;

/// From this size on a file that is opened for writing is not copied to the stage first. Below, the copy takes no longer than a
/// second, and whatever comes then is at native speed.
pub const PARTIAL_FROM: u64 = 64 << 20;

impl Vfs {
    /// The place to read the rest from, if the next generation of a clean file is to be partly staged: it is large, and no tier of this
    /// machine has it.
    pub(super) fn stays_remote<'a>(
        &self,
        shared: Option<&OpenFile>,
        inode: &Inode,
        newest: &'a [Replica],
        rule: &Rule,
    ) -> Result<Option<&'a Replica>> {
        let is_local = shared.is_some_and(|open| open.file().is_some())
            || newest.iter().any(|replica| replica.staged || self.resident(replica.tier).is_some());
        if is_local || inode.attr.size < self.parts.partial_from {
            return Ok(None);
        }
        let Some(remote) = newest.iter().find(|replica| self.resident(replica.tier).is_none()) else {
            return Ok(None);
        };
        let conditional = self.parts.tiers.get(remote.tier)?.capabilities().conditional;
        let hot = !self.hot_copies(rule, remote)?.is_empty();
        Ok(Some(remote).filter(|_| conditional && !hot))
    }

    /// Makes the map and the `.copy` of the next generation of `inode`, which has nothing of its own yet.
    pub(super) fn make_partial(
        &self,
        caller: &Caller,
        inode: &Inode,
        remote: &Replica,
        stage: &StageStore,
    ) -> Result<()> {
        // It waits for the stage's disk, and for home.
        if caller.wait == Wait::Never {
            return Err(Kind::WouldBlock.into());
        }
        let identity = self.identity(remote)?;
        let object = self.wait_for(caller, self.parts.tiers.get(remote.tier)?.head(&remote.key))?;
        if object.archive != Archive::No {
            return Err(Error::new(Kind::Archived, format!("{}: it is archived", remote.key)));
        }
        if object.version != identity.version || object.size != inode.attr.size {
            return Err(Error::new(Kind::Stale, format!("{} was changed at its home", remote.key)));
        }
        let base = Base {
            location: identity.location,
            key: identity.key,
            version: identity.version,
            size: inode.attr.size,
            generation: inode.generation,
        };
        let name = partial_name(inode.attr.ino, inode.generation.next());
        let made = stage.make_partial(&name, &base).and_then(|file| set_mtime(&file, inode.attr.mtime));
        if made.is_err() {
            stage.remove(&name)?;
        }
        made
    }

    /// What is open of a staged file: the file itself, or what it takes to read it.
    pub(super) fn staged_bytes(&self, ino: Ino, tier: TierId, name: &[u8]) -> Result<Bytes> {
        let stage = self.stage(tier)?;
        if !is_partial(name) {
            let file = stage.open(name, crate::tier::Access::ReadWrite)?;
            return Ok(Bytes::Staged { file: Arc::new(file), tier });
        }
        let partial = stage.open_partial(name)?;
        let file = Patched::new(partial, self.parts.streams.clone(), self.candidates(ino));
        Ok(Bytes::Partial { file: Arc::new(file), tier })
    }

    /// An empty file in place of one whose bytes are gone.
    pub(super) fn make_staged_anew(&self, ino: Ino, tier: TierId, name: &[u8]) -> Result<Bytes> {
        let stage = self.stage(tier)?;
        if !is_partial(name) {
            let file = Arc::new(stage.create(name, STAGE_MODE)?);
            return Ok(Bytes::Staged { file, tier });
        }
        let nothing = Base {
            location: String::new(),
            key: crate::types::Key::ROOT,
            version: crate::types::Version::new(""),
            size: 0,
            generation: crate::types::Generation(0),
        };
        stage.make_partial(name, &nothing)?;
        stage.finish_copy(name)?;
        self.staged_bytes(ino, tier, name)
    }

    /// Where the base of a partly staged file may be by now: a rename takes it to another key, a commit makes it another version.
    fn candidates(&self, ino: Ino) -> Candidates {
        let (catalog, tiers) = (self.parts.catalog.clone(), self.parts.tiers.clone());
        Arc::new(move |partial: &Partial| {
            let mut candidates = Vec::new();
            for replica in catalog.bases(ino, partial.map().bases())? {
                let (Some(tier), Some(version)) = (tiers.find(replica.tier), replica.version) else {
                    continue;
                };
                candidates.push(Candidate { tier: tier.clone(), key: replica.key, version });
            }
            let base = partial.base();
            let first = tiers.iter().find(|(_, tier)| tier.location() == base.location);
            candidates.extend(first.map(|(_, tier)| Candidate {
                tier: tier.clone(),
                key: base.key.clone(),
                version: base.version.clone(),
            }));
            Ok(candidates)
        })
    }
}

/// The stage file of something staged, whole or in part, for its size and times.
pub(super) fn staged_file(bytes: &Bytes) -> Option<&File> {
    match bytes {
        Bytes::Native { file, .. } | Bytes::Staged { file, .. } | Bytes::Hot { file, .. } => Some(file),
        Bytes::Partial { file, .. } => Some(file.partial().file()),
        Bytes::Streamed(_) => None,
    }
}
