//! Taking a stage: one living owner at a time, a dead one's is taken over.

use super::{StageStore, TEMPORARY};
use crate::data::local::{self, FILE_MODE, Local};
use crate::data::owner::{Owner, Standing};
use crate::error::{Error, Kind, Result};
use crate::tier::{Access, Tier};
use crate::types::{FileKind, Key};
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(super) const ROOT: &str = ".tierfs/stage";
const OWNER: &str = "owner";
const LOCK: &str = "lock";

/// What to think of an owner on another machine, where nobody here can tell whether it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elsewhere {
    /// It may live.
    MayLive,
    /// A person said that it is gone for good.
    IsGone,
}

/// Whether the daemon that took a stage can be alive; those that can't first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Life {
    /// It is dead.
    Over,
    /// It is on another machine: nobody here can tell.
    Elsewhere,
    /// It lives.
    Living,
}

/// What shows others that the stage is taken.
#[derive(Debug, Default)]
pub(super) struct Claim {
    /// Held, where the file system has flock, for as long as this process owns the stage.
    _lock: Option<File>,
}

impl StageStore {
    /// Takes the stage of `catalog_id` on `tier` for `owner`; makes it if there is none.
    ///
    /// # Errors
    /// `Busy` if another daemon owns it and may be alive, `Invalid` if the tier is not a directory.
    pub fn claim(tier: Arc<dyn Tier>, catalog_id: &str, owner: &Owner) -> Result<Self> {
        let store = Self::unclaimed(tier, catalog_id, Some(owner))?;
        store.local()?;
        Ok(store)
    }

    /// Takes the stage of a dead mount, to hand on what lies there.
    ///
    /// # Errors
    /// `NotFound` if there is none; else as [`StageStore::claim`].
    pub fn claim_from_dead(
        tier: Arc<dyn Tier>,
        catalog_id: &str,
        owner: &Owner,
        elsewhere: Elsewhere,
    ) -> Result<Self> {
        let store = Self { elsewhere, ..Self::unclaimed(tier, catalog_id, Some(owner))? };
        // What is not there must not be made.
        store.unclaimed.files()?.stat(&store.root)?;
        store.local()?;
        Ok(store)
    }

    /// The stage of a dead mount, to read: nothing on it changes, and nobody takes it meanwhile.
    ///
    /// # Errors
    /// As [`StageStore::claim_from_dead`].
    pub fn hold_dead(
        tier: Arc<dyn Tier>,
        catalog_id: &str,
        owner: &Owner,
        elsewhere: Elsewhere,
    ) -> Result<Self> {
        let store = Self { elsewhere, ..Self::unclaimed(tier, catalog_id, None)? };
        let files = store.unclaimed.files()?;
        files.stat(&store.root)?;
        let lock = match files.open(&store.root.join(LOCK)?, Access::Read) {
            Err(error) if error.kind() == Kind::NotFound => None,
            lock => Some(lock?),
        };
        let is_locked = lock.as_ref().is_some_and(is_locked_by_another);
        store.refuse_living_owner(owner, is_locked)?;
        *store.claim.lock() = Claim { _lock: lock };
        store.is_claimed.store(true, Ordering::Release);
        Ok(store)
    }

    /// [`StageStore::claim`] if the tier is there; else whoever uses the stage first takes it, once the tier is back.
    ///
    /// # Errors
    /// As [`StageStore::claim`].
    pub fn claim_when_there(tier: Arc<dyn Tier>, catalog_id: &str, owner: &Owner) -> Result<Self> {
        let store = Self::unclaimed(tier, catalog_id, Some(owner))?;
        match store.local().map(drop) {
            Err(error) if error.kind() == Kind::Absent => {
                tracing::error!(tier = store.tier().name(), %error, "its stage can't be used until it is back");
            }
            taken => taken?,
        }
        Ok(store)
    }

    /// The stage of `catalog_id`, whoever has it: only to be looked at.
    ///
    /// # Errors
    /// `Invalid` if the tier is not a directory.
    pub fn to_look_at(tier: Arc<dyn Tier>, catalog_id: &str) -> Result<Self> {
        let store = Self::unclaimed(tier, catalog_id, None)?;
        store.is_claimed.store(true, Ordering::Release);
        Ok(store)
    }

    fn unclaimed(tier: Arc<dyn Tier>, catalog_id: &str, owner: Option<&Owner>) -> Result<Self> {
        Ok(Self {
            unclaimed: Local::new(tier)?,
            root: Key::parse(ROOT)?.join(catalog_id)?,
            owner: owner.cloned(),
            elsewhere: Elsewhere::MayLive,
            claim: Mutex::default(),
            is_claimed: AtomicBool::new(false),
            restarted: AtomicBool::new(false),
            temporaries: AtomicU64::new(0),
            partials: Mutex::default(),
            durable: Mutex::default(),
        })
    }

    /// The tier has another root by now: the stage is made and taken anew there.
    ///
    /// # Errors
    /// As [`StageStore::claim`].
    pub fn claim_again(&self) -> Result<()> {
        self.is_claimed.store(false, Ordering::Release);
        self.durable.lock().clear();
        self.local().map(drop)
    }

    /// The tier, once the stage is this process's.
    pub(super) fn local(&self) -> Result<&Local> {
        if !self.is_claimed.load(Ordering::Acquire) {
            let mut claim = self.claim.lock();
            if !self.is_claimed.load(Ordering::Acquire) {
                *claim = self.take()?;
                self.is_claimed.store(true, Ordering::Release);
            }
        }
        Ok(&self.unclaimed)
    }

    fn take(&self) -> Result<Claim> {
        let local = &self.unclaimed;
        let looks = || Error::new(Kind::ReadOnly, "the stage is only looked at");
        let owner = self.owner.as_ref().ok_or_else(looks)?;
        local.make_directory(&self.root.join(TEMPORARY)?)?;
        let lock = open_or_create(local, &self.root.join(LOCK)?)?;
        self.refuse_living_owner(owner, is_locked_by_another(&lock))?;
        self.clear_temporaries()?;
        let json = serde_json::to_vec(owner)
            .map_err(|error| Error::new(Kind::Corrupt, "write the owner file").with_source(error))?;
        local.write_small(&self.root.join(OWNER)?, &self.temporary()?, &json)?;
        self.sync_ancestors()?;
        Ok(Claim { _lock: Some(lock) })
    }

    /// Who took the stage, as far as that can be read, and whether that daemon can be alive as `me` sees it.
    ///
    /// # Errors
    /// As the tier says.
    pub fn owner(&self, me: &Owner) -> Result<(Option<Owner>, Life)> {
        let files = self.unclaimed.files()?;
        let known = self.unclaimed.read_small(&self.root.join(OWNER)?)?;
        let known: Option<Owner> = known.and_then(|json| serde_json::from_slice(&json).ok());
        let standing = known.as_ref().map_or(Ok(Standing::Hidden), |known| me.standing_of(known))?;
        let life = match standing {
            Standing::Alive => Life::Living,
            Standing::OtherMachine => Life::Elsewhere,
            Standing::Gone => Life::Over,
            // Only the lock tells.
            Standing::Hidden => match files.open(&self.root.join(LOCK)?, Access::Read) {
                Ok(lock) if is_locked_by_another(&lock) => Life::Living,
                Err(error) if error.kind() != Kind::NotFound => return Err(error),
                _ => Life::Over,
            },
        };
        Ok((known, life))
    }

    fn refuse_living_owner(&self, owner: &Owner, locked_by_another: bool) -> Result<()> {
        let key = self.root.join(OWNER)?;
        let known = self.unclaimed.read_small(&key)?;
        let known: Option<Owner> = known.and_then(|json| serde_json::from_slice(&json).ok());
        let same_boot = known.as_ref().is_some_and(|known| known.boot_id == owner.boot_id);
        self.restarted.store(!same_boot, Ordering::Release);
        let standing = known.as_ref().map_or(Ok(Standing::Hidden), |known| owner.standing_of(known))?;
        let who = known
            .map_or_else(|| "another process".into(), |known| format!("pid {} on {}", known.pid, known.host));
        let stage = format!("stage {} on tier {}", self.root, self.tier().name());
        match standing {
            Standing::OtherMachine if self.elsewhere == Elsewhere::MayLive => Err(Error::new(
                Kind::Busy,
                format!(
                    "{stage} belongs to {who}, another machine; if that is gone for good, say `tierfs adopt --owner-is-gone`"
                ),
            )),
            Standing::Alive => Err(Error::new(Kind::Busy, format!("{stage} is in use by {who}"))),
            _ if locked_by_another => Err(Error::new(Kind::Busy, format!("{stage} is locked by {who}"))),
            Standing::OtherMachine | Standing::Gone | Standing::Hidden => Ok(()),
        }
    }

    /// Takes away what is left of a stage on which nothing lies any more; answers whether nothing did.
    ///
    /// # Errors
    /// As the tier says.
    pub fn dissolve(self) -> Result<bool> {
        let files = self.unclaimed.files()?;
        let mut directories = vec![self.root.clone()];
        self.unclaimed.for_each(&self.root, |entry| {
            if entry.object.kind == FileKind::Directory {
                directories.push(self.root.join(&entry.name)?);
            }
            Ok(())
        })?;
        for directory in directories.iter().skip(1) {
            match files.rmdir(directory) {
                Err(error) if error.kind() == Kind::NotEmpty => return Ok(false),
                other => other?,
            }
        }
        self.unclaimed.remove(&self.root.join(OWNER)?)?;
        self.unclaimed.remove(&self.root.join(LOCK)?)?;
        match files.rmdir(&self.root) {
            Err(error) if error.kind() == Kind::NotEmpty => Ok(false),
            other => other.map(|()| true),
        }
    }

    fn clear_temporaries(&self) -> Result<()> {
        let directory = self.root.join(TEMPORARY)?;
        let mut names = Vec::new();
        self.unclaimed.for_each(&directory, |entry| {
            names.push(directory.join(&entry.name)?);
            Ok(())
        })?;
        names.iter().try_for_each(|name| self.unclaimed.remove(name))
    }

    fn sync_ancestors(&self) -> Result<()> {
        let mut key = self.root.clone();
        loop {
            self.unclaimed.files()?.sync_directory(&key)?;
            match key.split() {
                Some((parent, _)) => key = parent,
                None => return Ok(()),
            }
        }
    }
}

/// Takes the lock, where the file system has any, unless somebody has it.
fn is_locked_by_another(lock: &File) -> bool {
    flock(lock, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK)
}

fn open_or_create(local: &Local, key: &Key) -> Result<File> {
    match local.files()?.open(key, Access::ReadWrite) {
        Err(error) if error.kind() == Kind::NotFound => match local.create(key, FILE_MODE) {
            Err(error) => {
                local::unless(error, Kind::Exists)?;
                local.files()?.open(key, Access::ReadWrite)
            }
            done => done,
        },
        done => done,
    }
}
