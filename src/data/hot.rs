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

mod evict;
mod space;

pub use evict::Copy;
pub use space::{Admitted, Least, Space};

use crate::clock::Clock;
use crate::data::fill::Fill;
use crate::data::local::{self, FILE_MODE, Local};
use crate::error::{Kind, Result, found};
use crate::tier::Tier;
use crate::types::{AttrChange, Key, TimeChange, Timestamp, Version};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

const ROOT: &str = ".tierfs/hot";
const PART: &[u8] = b".part";
/// How stale a last use may be.
const TOUCH_EVERY: Duration = Duration::from_secs(60 * 60);
/// A claim without a heartbeat for this long is taken over.
pub const CLAIM_EXPIRES: Duration = Duration::from_secs(30);

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
#[expect(clippy::large_enum_variant, reason = "made once per open and taken apart at once")]
pub enum FillStart {
    /// The caller fills it.
    Started(Fill),
    /// Another process or machine fills it right now, or has just done so.
    Elsewhere,
}

/// The hot copies of one directory tier.
#[derive(Clone, Debug)]
pub struct HotStore {
    local: Local,
    clock: Arc<dyn Clock>,
    space: Arc<Space>,
}

impl HotStore {
    /// The hot copies on `tier`.
    ///
    /// # Errors
    /// `Invalid` if the tier is not resident.
    pub fn new(tier: Arc<dyn Tier>, clock: Arc<dyn Clock>) -> Result<Self> {
        Ok(Self { local: Local::new(tier)?, clock, space: Arc::default() })
    }

    /// The room there is for copies.
    #[must_use]
    pub fn space(&self) -> &Arc<Space> {
        &self.space
    }

    /// A number for the copy at `key`, the same in every process: two of a million copies share one once in forty million times.
    #[must_use]
    pub fn copy_id(key: &Key) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        key.as_bytes().hash(&mut hasher);
        hasher.finish().max(1)
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

    /// Begins to fill the copy of `identity` in the room that was `admitted` for it.
    ///
    /// # Errors
    /// As the tier says: `NoSpace`, `Denied`, `Absent`.
    pub fn begin_fill(&self, identity: &Identity, size: u64, admitted: Admitted) -> Result<FillStart> {
        let target = self.path_key(identity)?;
        let claim = suffixed(&target, PART)?;
        if !self.take_claim(&claim)? {
            return Ok(FillStart::Elsewhere);
        }
        if found(self.local.files()?.stat(&target))?.is_some() {
            // Finished between the caller's look-up and our claim.
            self.local.remove(&claim)?;
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
        let part = Part { names, file, size, admitted };
        Ok(FillStart::Started(Fill::new(self.local.clone(), self.clock.clone(), part)))
    }

    /// Makes the staged file at `stage_key` of the same tier the copy of `identity`.
    ///
    /// # Errors
    /// `NotFound` if there is no such file, else as rename(2).
    pub fn adopt_staged(&self, stage_key: &Key, identity: &Identity) -> Result<()> {
        let target = self.path_key(identity)?;
        self.local.rename(stage_key, &target)?;
        // Its mtime is what the program set, maybe long ago; here mtime is the last use.
        let change = AttrChange { mtime: Some(TimeChange::To(self.clock.wall())), ..AttrChange::default() };
        found(self.local.files()?.set_attr(&target, &change))?;
        let copy = found(self.local.files()?.stat(&target))?;
        copy.into_iter().for_each(|copy| self.space.added(copy.size));
        Ok(())
    }

    /// Removes a copy; its readers keep their open file.
    ///
    /// # Errors
    /// As unlink(2); a copy that is not there is fine.
    pub fn remove(&self, key: &Key) -> Result<()> {
        self.local.remove(key)?;
        self.tidy(key)
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
        let Some(object) = found(self.local.files()?.stat(claim))? else { return Ok(false) };
        // Clocks of machines differ: a beat from the near future is a beat.
        let age = self.clock.wall().0.saturating_sub(object.modified.0);
        Ok(age.abs() <= nanos(CLAIM_EXPIRES))
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

/// A copy that is to be filled.
#[derive(Debug)]
pub(super) struct Part {
    /// Its names.
    pub names: FillNames,
    /// Its bytes.
    pub file: File,
    /// How many there will be.
    pub size: u64,
    /// The room it may take.
    pub admitted: Admitted,
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
