//! The directory tier: a directory of this machine, on Lustre, an Azure Files share, or local.
//! Every path is resolved beneath the open root, and no symlink is followed. Knows system calls;
//! must not know what files mean to the mount.
//!
//! Without a catalog survive: bytes, names and symlinks everywhere; owners, modes, ns times, hard
//! links, fifos and `user.*` attributes where [`Capabilities`] says so, which is found by trying.
//!
//! Names that the file system can't hold, or would fold into others, are spelled otherwise: see `names`.
//!
//! `/proc` must be mounted: modes and extended attributes are reached through its magic links.
//!
//! A listing carries no extended attributes (they cost two calls a file): [`Tier::head`] and
//! [`Resident::xattrs`] do. `head` alone answers `write_id`, which is kept as a `user.*` attribute.

mod attributes;
mod draft;
mod filesystem;
mod listing;
mod names;
mod native;
mod object;
mod presence;
mod probe;
mod read;
mod root;
mod spelled;
mod spelling;
mod upload;
mod watch;
mod write;

#[cfg(test)]
mod tests;

use crate::clock::Clock;
use crate::error::{Error, Kind, Result};
use crate::tier::{ByteStream, Capabilities, Cursor, Object, Page, Resident, Special, Tier, Upload, Usage};
use crate::types::{Attrs, Condition, Key, Version};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::RwLock;
use presence::Presence;
use root::Root;
use std::ops::{Deref, Range};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use watch::{Call, Watch};

pub use presence::Mark;

const OWN_DIRECTORY: &str = ".tierfs";
const TEMPORARY: &str = ".tierfs/tmp";

/// Which kind of directory; they differ in what is assumed where nothing can be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryKind {
    /// Scratch.
    Lustre,
    /// A mounted Azure Files share.
    AzureFiles,
    /// Any other directory.
    Local,
}

/// Whether we may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writing {
    /// As far as the root lets us.
    Allowed,
    /// Never: every change answers [`Kind::ReadOnly`], and nothing is probed.
    Never,
}

#[derive(Clone, Copy)]
enum MayCreate {
    Yes,
    No,
}

/// What the config says of a directory tier.
#[derive(Clone, Debug)]
pub struct DirectoryOptions {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: DirectoryKind,
    /// Where its root is.
    pub path: PathBuf,
    /// How many bytes may be used here.
    pub capacity: Option<u64>,
    /// The mark that must be found in `.tierfs/id`; `None` before the first claim.
    pub expected: Option<String>,
    /// Whether we may write.
    pub writing: Writing,
    /// How long a caller waits while the tier does not answer.
    pub deadline: Duration,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct DirectoryTier {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: DirectoryOptions,
    presence: Arc<Presence>,
    watch: Arc<Watch>,
    capabilities: RwLock<Probed>,
    listings: listing::Listings,
    /// Bytes that tierfs has stored here, when somebody counts them.
    used: AtomicU64,
}

#[derive(Debug)]
enum Probed {
    /// The root was not there to be tried.
    Not(Capabilities),
    Done(Capabilities),
}

impl DirectoryTier {
    /// Opens the root and finds out what it can do. With an expected mark that is not there the
    /// tier opens as absent, and is looked for again at every probe and once a second.
    ///
    /// # Errors
    /// [`Kind::NotFound`], [`Kind::NotDirectory`], [`Kind::Denied`] of the root itself.
    pub fn open(options: DirectoryOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        let presence = Arc::new(Presence::open(&options, clock.clone())?);
        let asked = Arc::clone(&presence);
        let probe = Box::new(move || asked.ask_server());
        let watch = Arc::new(Watch::new(&options.name, options.deadline, clock, probe));
        let assumed = probe::assumed(None, options.kind);
        let inner = Inner {
            options,
            presence,
            watch,
            capabilities: RwLock::new(Probed::Not(assumed)),
            listings: listing::Listings::default(),
            used: AtomicU64::new(0),
        };
        match inner.root() {
            Ok(root) => inner.try_out(&root)?,
            Err(error) if error.kind() == Kind::Absent => {}
            Err(error) => return Err(error),
        }
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Reads the tier's mark, and makes one where there is none and writing is possible. From now
    /// on exactly this mark must be found.
    ///
    /// # Errors
    /// [`Kind::Absent`] if an expected mark is not there, [`Kind::Corrupt`] for an empty one.
    pub fn claim(&self) -> Result<Mark> {
        let root = self.inner.presence.check(&self.inner.options)?;
        let may_create = if self.inner.is_writable() { MayCreate::Yes } else { MayCreate::No };
        let mark = presence::claim(&root, may_create)?;
        if let Some(id) = &mark.id {
            self.inner.presence.remember(id);
        }
        Ok(mark)
    }

    /// What the path leads to now, whatever mark it has; nothing is written there.
    ///
    /// # Errors
    /// As [`DirectoryTier::open`].
    pub fn as_found(&self) -> Result<Self> {
        let options =
            DirectoryOptions { expected: None, writing: Writing::Never, ..self.inner.options.clone() };
        Self::open(options, self.inner.presence.clock())
    }

    /// Reads the mark of what the path leads to now, and makes one where there is none. The tier is not taken for
    /// that yet: see [`DirectoryTier::expect_mark`].
    ///
    /// # Errors
    /// As mkdir(2) and open(2).
    pub fn mark_found(&self) -> Result<Mark> {
        if self.inner.options.writing == Writing::Never {
            return Err(Kind::ReadOnly.into());
        }
        Presence::mark_found(&self.inner.options)
    }

    /// From now on this mark must be found, instead of the one before.
    ///
    /// # Errors
    /// [`Kind::Absent`] if it is not there.
    pub fn expect_mark(&self, id: &str) -> Result<()> {
        self.inner.presence.remember(id);
        let root = self.inner.presence.check(&self.inner.options)?;
        self.inner.try_out(&root)
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let inner = Arc::clone(&self.inner);
        blocking(move || work(&inner)).await
    }
}

/// Runs system calls where they may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // A bug of ours: the same call would end the same way.
        Err(error) if error.is_panic() => {
            Err(Error::new(Kind::Corrupt, "a call to a directory tier broke off").with_source(error))
        }
        Err(error) => Err(Error::new(Kind::Interrupted, "the daemon is ending").with_source(error)),
    }
}

fn random_name() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// The root, for one call.
struct Entered<'a> {
    root: Arc<Root>,
    _call: Call<'a>,
}

impl Entered<'_> {
    /// For what outlasts the call.
    fn share(&self) -> Arc<Root> {
        Arc::clone(&self.root)
    }
}

impl Deref for Entered<'_> {
    type Target = Root;

    fn deref(&self) -> &Root {
        &self.root
    }
}

impl Inner {
    fn root(&self) -> Result<Entered<'_>> {
        let call = self.watch.begin()?;
        let root = self.presence.root(&self.options)?;
        if matches!(*self.capabilities.read(), Probed::Not(_)) {
            self.try_out(&root)?;
        }
        Ok(Entered { root, _call: call })
    }

    fn writable_root(&self) -> Result<Entered<'_>> {
        if self.options.writing == Writing::Never {
            return Err(Kind::ReadOnly.into());
        }
        self.root()
    }

    fn try_out(&self, root: &Root) -> Result<()> {
        let (found, names) = match self.options.writing {
            Writing::Allowed => {
                draft::tidy(root, self.presence.now());
                probe::try_out(root, self.options.kind)?
            }
            Writing::Never => probe::untried(root, self.options.kind),
        };
        root.spelling().set(names);
        self.watch.set_networked(found.networked);
        *self.capabilities.write() = Probed::Done(found);
        Ok(())
    }

    fn capabilities(&self) -> Capabilities {
        match &*self.capabilities.read() {
            Probed::Not(known) | Probed::Done(known) => known.clone(),
        }
    }

    fn is_writable(&self) -> bool {
        self.capabilities().writable
    }

    /// Other teams' bytes are not ours to count: with a capacity, what is free is the smaller of what
    /// the file system has and what the capacity leaves over the bytes we were told of.
    fn usage(&self) -> Result<Usage> {
        let found = rustix::fs::fstatvfs(&*self.root()?)?;
        // What is reserved for others is neither used nor ours: df(1) counts so too.
        let blocks = found.f_blocks.saturating_sub(found.f_bfree).saturating_add(found.f_bavail);
        let total = blocks.saturating_mul(found.f_frsize);
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        let capacity = self.options.capacity.unwrap_or(u64::MAX);
        let left = match self.options.capacity {
            Some(capacity) => capacity.saturating_sub(self.used.load(Ordering::Relaxed)),
            None => u64::MAX,
        };
        Ok(Usage {
            total: total.min(capacity),
            free: free.min(left),
            files: found.f_files,
            files_free: found.f_favail,
        })
    }
}

#[async_trait]
impl Tier for DirectoryTier {
    fn name(&self) -> &str {
        &self.inner.options.name
    }

    fn location(&self) -> String {
        format!("file://{}", self.inner.options.path.display())
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn probe(&self) -> Result<()> {
        self.run(|inner| inner.presence.check(&inner.options).map(drop)).await
    }

    async fn head(&self, key: &Key) -> Result<Object> {
        let key = key.clone();
        self.run(move |inner| inner.head(&key)).await
    }

    async fn list(&self, dir: &Key, prefix: &[u8], from: Option<Cursor>, limit: usize) -> Result<Page> {
        let (dir, prefix) = (dir.clone(), prefix.to_vec());
        self.run(move |inner| inner.page(&dir, &prefix, from.as_ref(), limit)).await
    }

    async fn read(&self, key: &Key, range: Range<u64>, version: &Version) -> Result<ByteStream> {
        read::stream(Arc::clone(&self.inner), key.clone(), range, version.clone()).await
    }

    async fn put(&self, key: &Key, bytes: Bytes, attrs: &Attrs, condition: &Condition) -> Result<Version> {
        let (key, attrs, condition) = (key.clone(), attrs.clone(), condition.clone());
        self.run(move |inner| inner.put(&key, &bytes, &attrs, &condition)).await
    }

    async fn put_special(
        &self,
        key: &Key,
        special: &Special,
        attrs: &Attrs,
        condition: &Condition,
    ) -> Result<Version> {
        let (key, special) = (key.clone(), special.clone());
        let (attrs, condition) = (attrs.clone(), condition.clone());
        self.run(move |inner| inner.put_special(&key, &special, &attrs, &condition)).await
    }

    async fn upload(&self, key: &Key, _size: u64) -> Result<Box<dyn Upload>> {
        let (inner, key) = (Arc::clone(&self.inner), key.clone());
        let upload = blocking(move || upload::DirectoryUpload::start(inner, key)).await?;
        Ok(Box::new(upload))
    }

    async fn delete(&self, key: &Key, condition: &Condition) -> Result<()> {
        let (key, condition) = (key.clone(), condition.clone());
        self.run(move |inner| inner.delete(&key, &condition)).await
    }

    async fn copy(
        &self,
        from: &Key,
        version: &Version,
        to: &Key,
        attrs: &Attrs,
        condition: &Condition,
    ) -> Result<Version> {
        let (from, version, to) = (from.clone(), version.clone(), to.clone());
        let (attrs, condition) = (attrs.clone(), condition.clone());
        self.run(move |inner| inner.copy(&from, &version, &to, &attrs, &condition)).await
    }

    async fn set_attrs(&self, key: &Key, version: &Version, attrs: &Attrs) -> Result<Version> {
        let (key, version, attrs) = (key.clone(), version.clone(), attrs.clone());
        self.run(move |inner| inner.set_attrs(&key, &version, &attrs)).await
    }

    async fn usage(&self) -> Result<Usage> {
        self.run(Inner::usage).await
    }

    fn resident(&self) -> Option<&dyn Resident> {
        Some(self)
    }
}
