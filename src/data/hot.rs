//! Hot copies on one directory tier: clean, whole, and nobody's.
//!
//! # Disk format
//! `.tierfs/hot/<hh>/<object>/<version>` is a copy; beside it `<version>.part` is the claim of
//! whoever fills one now (empty, made with O_EXCL; its mtime is the heartbeat), and
//! `<version>.part-<random>` are the bytes that arrived so far, renamed to `<version>` when whole.
//! `<object>` is the lower-case hex SHA-256 of the home tier's location, a NUL and the key there;
//! `<hh>` its first two digits; `<version>` the lower-case hex SHA-256 of the version's bytes.
//!
//! The bytes have a name of their own, not the claim's, because a claim can be taken over from a
//! process that was only slow: what it renames in the end is its own file or nothing, never
//! somebody's half.
//!
//! Any mount of any machine finds, fills and removes copies; a copy that vanished is a miss.
//! Last use is the mtime, moved at most once an hour.

use crate::clock::Clock;
use crate::data::fill::Fill;
use crate::data::lease;
use crate::data::local::{self, FILE_MODE, Local};
use crate::error::{Kind, Result};
use crate::tier::Tier;
use crate::types::{AttrChange, FileKind, Key, TimeChange, Timestamp, Version};
use sha2::{Digest, Sha256};
use std::collections::BinaryHeap;
use std::fmt::Write;
use std::fs::File;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

const ROOT: &str = ".tierfs/hot";
const PART: &[u8] = b".part";
/// How stale a last use may be.
const TOUCH_EVERY: Duration = Duration::from_secs(60 * 60);
/// A claim without a heartbeat for this long is taken over.
pub const CLAIM_EXPIRES: Duration = Duration::from_secs(30);
/// Candidates that one eviction keeps in memory.
const CANDIDATES: usize = 16 << 10;

/// What a hot copy is a copy of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// [`Tier::location`] of the home tier.
    pub location: String,
    /// Key at home.
    pub key: Key,
    /// Version at home.
    pub version: Version,
}

/// What [`HotStore::begin_fill`] found.
#[derive(Debug)]
pub enum FillStart {
    /// The caller fills it.
    Started(Fill),
    /// Another process or machine fills it right now.
    Elsewhere,
}

/// A hot copy, as [`HotStore::scan`] finds it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Copy {
    /// When it was last used, to the hour.
    pub last_use: Timestamp,
    /// Bytes.
    pub size: u64,
    /// Where it is.
    pub key: Key,
}

/// What [`HotStore::evict`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evicted {
    /// Copies removed.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The hot copies of one directory tier.
#[derive(Clone, Debug)]
pub struct HotStore {
    local: Local,
    clock: Arc<dyn Clock>,
}

impl HotStore {
    /// The hot copies on `tier`.
    ///
    /// # Errors
    /// `Invalid` if the tier is not resident.
    pub fn new(tier: Arc<dyn Tier>, clock: Arc<dyn Clock>) -> Result<Self> {
        Ok(Self { local: Local::new(tier)?, clock })
    }

    /// The tier they are on.
    #[must_use]
    pub fn tier(&self) -> &Arc<dyn Tier> {
        self.local.tier()
    }

    /// Where the copy of `identity` is, if there is one.
    ///
    /// # Errors
    /// Never in practice: the key is made of hex digits.
    pub fn path_key(&self, identity: &Identity) -> Result<Key> {
        Ok(object_directory(identity)?.join(hex(&[&identity.version.0]))?)
    }

    /// Opens the copy of `identity` for reading. One of another size is no copy and is removed.
    ///
    /// # Errors
    /// As the tier says; a copy that is not there is `None`.
    pub fn find(&self, identity: &Identity, size: u64) -> Result<Option<File>> {
        let key = self.path_key(identity)?;
        let Some(file) = self.local.open(&key)? else { return Ok(None) };
        let object = self.local.files()?.stat_open(&file)?;
        if object.size != size {
            self.local.remove(&key)?;
            return Ok(None);
        }
        self.touch(&file, object.modified)?;
        Ok(Some(file))
    }

    /// Begins to fill the copy of `identity`.
    ///
    /// # Errors
    /// As the tier says: `NoSpace`, `Denied`, `Absent`.
    pub fn begin_fill(&self, identity: &Identity, size: u64) -> Result<FillStart> {
        let target = self.path_key(identity)?;
        let claim = suffixed(&target, PART)?;
        if !self.take_claim(&claim)? {
            return Ok(FillStart::Elsewhere);
        }
        let random = format!("-{:016x}", rand::random::<u64>());
        let part = suffixed(&claim, random.as_bytes())?;
        let file = match self.local.create(&part, FILE_MODE) {
            Ok(file) => file,
            Err(error) => {
                self.local.remove(&claim)?;
                return Err(error);
            }
        };
        let names = FillNames { claim, part, target };
        Ok(FillStart::Started(Fill::new(self.local.clone(), self.clock.clone(), names, file, size)))
    }

    /// Makes the staged file at `stage_key` of the same tier the copy of `identity`.
    ///
    /// # Errors
    /// `NotFound` if there is no such file, else as rename(2).
    pub fn adopt_staged(&self, stage_key: &Key, identity: &Identity) -> Result<()> {
        let target = self.path_key(identity)?;
        self.local.rename(stage_key, &target)
    }

    /// Removes a copy; its readers keep their open file.
    ///
    /// # Errors
    /// As unlink(2); a copy that is not there is fine.
    pub fn remove(&self, key: &Key) -> Result<()> {
        self.local.remove(key)?;
        self.tidy(key)
    }

    /// Calls `visit` for every copy, in no order, until it breaks. Leftovers of fills that died are removed on the way.
    ///
    /// # Errors
    /// As the tier says.
    pub fn scan(&self, visit: &mut dyn FnMut(Copy) -> ControlFlow<()>) -> Result<()> {
        let mut directories = Vec::new();
        self.local.for_each(&Key::parse(ROOT)?, |entry| {
            directories.push(Key::parse(ROOT)?.join(&entry.name)?);
            Ok(())
        })?;
        for directory in directories {
            let mut objects = Vec::new();
            self.local.for_each(&directory, |entry| {
                objects.push(directory.join(&entry.name)?);
                Ok(())
            })?;
            for object in objects {
                if self.scan_object(&object, visit)?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Removes the least recently used copies that nobody has open (as far as this machine knows) and
    /// `keep` does not want, until `target_bytes` are freed or nothing is left.
    ///
    /// # Errors
    /// As the tier says.
    pub fn evict(&self, target_bytes: u64, keep: &dyn Fn(&Key) -> bool) -> Result<Evicted> {
        let mut oldest = BinaryHeap::new();
        self.scan(&mut |copy| {
            if !keep(&copy.key) {
                oldest.push(copy);
                if oldest.len() > CANDIDATES {
                    oldest.pop();
                }
            }
            ControlFlow::Continue(())
        })?;
        let mut evicted = Evicted::default();
        for copy in oldest.into_sorted_vec() {
            if evicted.bytes >= target_bytes {
                break;
            }
            if self.is_closed(&copy.key)? {
                self.remove(&copy.key)?;
                evicted.files += 1;
                evicted.bytes += copy.size;
            }
        }
        Ok(evicted)
    }

    fn touch(&self, file: &File, modified: Timestamp) -> Result<()> {
        let now = self.clock.wall();
        if now.0.saturating_sub(modified.0) < nanos(TOUCH_EVERY) {
            return Ok(());
        }
        let change = AttrChange { mtime: Some(TimeChange::To(now)), ..AttrChange::default() };
        // Another owner's copy can be read but not touched: it will look older than it is.
        match self.local.files()?.set_attr_open(file, &change) {
            Err(error) if matches!(error.kind(), Kind::NotPermitted | Kind::Denied | Kind::ReadOnly) => {
                Ok(())
            }
            done => done,
        }
    }

    /// Whether the claim is ours now.
    fn take_claim(&self, claim: &Key) -> Result<bool> {
        for _ in 0..2 {
            match self.local.create(claim, FILE_MODE) {
                Ok(file) => return self.first_beat(&file).map(|()| true),
                Err(error) => local::unless(error, Kind::Exists)?,
            }
            if self.is_alive(claim)? {
                return Ok(false);
            }
            self.local.remove(claim)?;
        }
        Ok(false)
    }

    /// A server's clock may be far from ours; beats are always ours.
    fn first_beat(&self, claim: &File) -> Result<()> {
        let now = TimeChange::To(self.clock.wall());
        let change = AttrChange { mtime: Some(now), ..AttrChange::default() };
        self.local.files()?.set_attr_open(claim, &change)
    }

    fn is_alive(&self, claim: &Key) -> Result<bool> {
        let Some(object) = local::found(self.local.files()?.stat(claim))? else { return Ok(false) };
        // Clocks of machines differ: a beat from the near future is a beat.
        let age = self.clock.wall().0.saturating_sub(object.modified.0);
        Ok(age.abs() <= nanos(CLAIM_EXPIRES))
    }

    fn scan_object(
        &self,
        object: &Key,
        visit: &mut dyn FnMut(Copy) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let mut flow = ControlFlow::Continue(());
        self.local.for_each(object, |entry| {
            let key = object.join(&entry.name)?;
            if let Some(at) = entry.name.windows(PART.len()).position(|window| window == PART) {
                let claim = object.join(&entry.name[..at + PART.len()])?;
                if !self.is_alive(&claim)? {
                    self.local.remove(&key)?;
                }
            } else if flow.is_continue() && entry.object.kind == FileKind::Regular {
                flow = visit(Copy { last_use: entry.object.modified, size: entry.object.size, key });
            }
            Ok(())
        })?;
        Ok(flow)
    }

    fn is_closed(&self, key: &Key) -> Result<bool> {
        let Some(file) = self.local.open(key)? else { return Ok(false) };
        match lease::nobody_has_it_open(&file) {
            // Without leases nobody can tell; an open copy stays readable after its removal.
            Err(error) if matches!(error.kind(), Kind::Unsupported | Kind::Denied) => Ok(true),
            answer => answer,
        }
    }

    /// Removes the directory of an object that has no copy left.
    fn tidy(&self, key: &Key) -> Result<()> {
        let Some((directory, _)) = key.split() else { return Ok(()) };
        match self.local.files()?.rmdir(&directory) {
            Err(error) if matches!(error.kind(), Kind::NotEmpty | Kind::NotFound | Kind::Exists) => Ok(()),
            done => done,
        }
    }
}

/// The names of one fill.
#[derive(Debug)]
pub(super) struct FillNames {
    /// Its claim.
    pub claim: Key,
    /// Its bytes.
    pub part: Key,
    /// What they become.
    pub target: Key,
}

fn object_directory(identity: &Identity) -> Result<Key> {
    let object = hex(&[identity.location.as_bytes(), &[0], identity.key.as_bytes()]);
    Ok(Key::parse(ROOT)?.join(&object[..2])?.join(object)?)
}

fn suffixed(key: &Key, suffix: &[u8]) -> Result<Key> {
    Ok(Key::parse([key.as_bytes(), suffix].concat())?)
}

fn hex(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
