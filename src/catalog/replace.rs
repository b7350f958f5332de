//! Putting a new catalog in the place of a damaged one.
//!
//! The new one grows beside it, as `<path>.new`, and takes its place in one step; until then a crash leaves the damaged one, and
//! the work is begun again. Its id is known before it names a stage, so that nothing is out of sight at any moment.

use super::engine::open::{beside, lock, sync_parent};
use super::engine::{Location, ids};
use super::verbs::Catalog;
use crate::clock::Clock;
use crate::error::{Error, Kind, Result};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a new catalog consists of until it takes its place.
const LEFTOVERS: [&str; 5] = [".new", ".new-wal", ".new-shm", ".new.id", ".new.lock"];

/// A catalog that is to be replaced. While it lives, no daemon opens it.
#[derive(Debug)]
pub struct Replacement {
    path: PathBuf,
    _lock: File,
}

impl Replacement {
    /// Takes the catalog at `path`, whatever is left of it, and makes a new one beside it. Ids of all before, oldest first, come with it.
    ///
    /// # Errors
    /// `Busy` if a daemon has it.
    pub fn begin(path: &Path, clock: Arc<dyn Clock>) -> Result<(Self, Catalog, Vec<String>)> {
        let lock = lock(path)?;
        for suffix in LEFTOVERS {
            remove(&beside(path, suffix))?;
        }
        let former = ids::known(path)?;
        let catalog = Catalog::open(&Location::Sqlite(beside(path, ".new")), clock)?;
        ids::add(path, catalog.id())?;
        Ok((Self { path: path.to_owned(), _lock: lock }, catalog, former))
    }

    /// Puts the new catalog, which must be closed, in the place of the old one, and that one beside it; answers where, if there was one.
    ///
    /// # Errors
    /// `Busy` if the new one is still open; else as the file system says.
    pub fn finish(self, stamp: &str) -> Result<Option<PathBuf>> {
        let new = beside(&self.path, ".new");
        let closed = lock(&new)?;
        if std::fs::metadata(beside(&new, "-wal")).is_ok_and(|log| log.len() > 0) {
            return Err(Error::new(Kind::Busy, "the new catalog is still open"));
        }
        File::open(&new)?.sync_all()?;
        let aside = self.free_name(stamp);
        let kept = keep(&self.path, &aside)?;
        // A log belongs to its database: beside another one it would be taken for damage.
        for suffix in ["-wal", "-shm"] {
            match std::fs::rename(beside(&self.path, suffix), beside(&aside, suffix)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        std::fs::rename(&new, &self.path)?;
        sync_parent(&self.path)?;
        drop(closed);
        for suffix in [".lock", ".id", "-shm", "-wal"] {
            remove(&beside(&new, suffix))?;
        }
        Ok(kept.then_some(aside))
    }

    /// Leaves the old one as it is, and nothing of the new one, which must be closed; its id stays known.
    pub fn cancel(self) {
        for suffix in LEFTOVERS {
            if let Err(error) = remove(&beside(&self.path, suffix)) {
                tracing::debug!(%error, "a part of a new catalog stays until the next rebuild");
            }
        }
    }

    fn free_name(&self, stamp: &str) -> PathBuf {
        let first = beside(&self.path, &format!(".damaged-{stamp}"));
        let others = (2_u32..).map(|count| beside(&self.path, &format!(".damaged-{stamp}-{count}")));
        std::iter::once(first.clone()).chain(others).find(|name| !name.exists()).unwrap_or(first)
    }
}

/// Gives the file a second name, so that the first can be given away in one step. False if there is no such file.
fn keep(path: &Path, aside: &Path) -> Result<bool> {
    match std::fs::hard_link(path, aside) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(_no_links_here) => {
            std::fs::copy(path, aside)?;
            File::open(aside)?.sync_all()?;
        }
    }
    sync_parent(path)?;
    Ok(true)
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
