//! Tiers to test with.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tierfs::clock::{Clock, SystemClock};
use tierfs::tier::{DirectoryKind, DirectoryOptions, DirectoryTier, MemoryTier, Tier, Writing};

/// A tier for one test, and what must live as long.
pub struct Subject {
    pub tier: Arc<dyn Tier>,
    _keep: Option<tempfile::TempDir>,
}

impl Subject {
    /// A tier that needs nothing else.
    pub fn new(tier: impl Tier + 'static) -> Self {
        Self { tier: Arc::new(tier), _keep: None }
    }

    /// A tier that somebody made.
    pub fn shared(tier: Arc<dyn Tier>) -> Self {
        Self { tier, _keep: None }
    }

    /// The same with a directory that goes with it.
    pub fn keeping(self, directory: tempfile::TempDir) -> Self {
        Self { _keep: Some(directory), ..self }
    }

    /// The same with a decorator around its tier.
    pub fn map(self, around: impl FnOnce(Arc<dyn Tier>) -> Arc<dyn Tier>) -> Self {
        Self { tier: around(self.tier), _keep: self._keep }
    }
}

pub fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::default())
}

pub fn options(path: &Path) -> DirectoryOptions {
    DirectoryOptions {
        name: "dir".into(),
        kind: DirectoryKind::Local,
        path: path.to_owned(),
        capacity: None,
        expected: None,
        writing: Writing::Allowed,
        deadline: Duration::from_secs(60),
    }
}

/// A directory tier on a fresh temporary directory.
pub fn directory() -> Subject {
    directory_under(&std::env::temp_dir())
}

/// The same where fsync costs nothing, if there is such a place.
pub fn fast_directory() -> Subject {
    directory_under(&memory_dir())
}

/// Where files are kept in memory, if there is such a place.
pub fn memory_dir() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}

fn directory_under(parent: &Path) -> Subject {
    let root = tempfile::tempdir_in(parent).expect("a temporary directory");
    let tier = DirectoryTier::open(options(root.path()), clock()).expect("a tier");
    Subject { tier: Arc::new(tier), _keep: Some(root) }
}

/// An empty memory tier.
pub fn memory() -> Subject {
    Subject::new(MemoryTier::new("memory", clock()))
}
