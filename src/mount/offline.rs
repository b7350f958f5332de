//! Catalog and tiers of a config that nobody has mounted, for repairs.

use super::accept::{self, Accepting};
use super::parts;
use super::placing::Placing;
use super::tiers::{self, Built};
use crate::catalog::Catalog;
use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::control::protocol::{FileSystem, LostPage, TierAccepted};
use crate::error::{Error, Kind, Result};
use crate::policy::placement::Rules;
use crate::repair;
use crate::tier::Writing;
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// Where the catalog of a config is kept.
///
/// # Errors
/// [`Kind::Invalid`] if it is nowhere.
pub(super) fn catalog_path(config: &Config) -> Result<&Path> {
    match &config.mount.catalog {
        crate::config::Catalog::Sqlite(path) => Ok(path),
        crate::config::Catalog::Memory => Err(Error::new(
            Kind::Invalid,
            "a catalog in memory ends with its mount: there is nothing to repair",
        )),
    }
}

/// What tiers run on.
///
/// # Errors
/// As the operating system says.
pub(super) fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// See the module. While it lives, nobody else has the catalog.
pub struct Offline {
    pub(super) catalog: Arc<Catalog>,
    pub(super) rules: Arc<Rules>,
    pub(super) built: Vec<Built>,
    pub(super) clock: Arc<dyn Clock>,
    /// Dropped last: tiers run on it.
    pub(super) runtime: Runtime,
}

impl std::fmt::Debug for Offline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Offline").finish_non_exhaustive()
    }
}

impl Offline {
    /// Opens the catalog and every tier.
    ///
    /// # Errors
    /// [`Kind::Busy`] while a daemon has it, [`Kind::NotFound`] if there is no catalog yet.
    pub fn open(config: &Config, writing: Writing) -> Result<Self> {
        let path = catalog_path(config)?;
        if !path.exists() {
            let text = format!("there is no catalog {} yet: mount it first", path.display());
            return Err(Error::new(Kind::NotFound, text));
        }
        let runtime = runtime()?;
        let inside = runtime.enter();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let catalog = Arc::new(parts::open_catalog(&config.mount.catalog, &mut |_| {}, &clock)?);
        let open = |tier| tiers::open(tier, &catalog, &clock, writing);
        let built = config.tiers.iter().map(open).collect::<Result<Vec<_>>>()?;
        let rules = Placing::of(config, &built, &catalog)?.rules;
        drop(inside);
        Ok(Self { catalog, rules, built, clock, runtime })
    }

    /// Takes what is at the path of a tier now for the tier.
    ///
    /// # Errors
    /// [`Kind::Invalid`] if the tier is there, or is not a directory.
    pub fn accept_tier(&self, name: &str, file_system: FileSystem) -> Result<TierAccepted> {
        let accepting = Accepting::offline(&self.catalog, &self.rules, &self.built, name)?;
        accepting.run(file_system, &mut |losses| repair::forget_nameless(&self.catalog, &losses.observed))
    }

    /// Files that were lost with a tier, after a position in the list.
    ///
    /// # Errors
    /// If the catalog can't be read.
    pub fn lost(&self, after: u64) -> Result<LostPage> {
        accept::lost_page(&self.catalog, after)
    }

    /// Forgets lost files up to a position in the list; answers how many.
    ///
    /// # Errors
    /// If the catalog can't be written.
    pub fn forget_lost(&self, up_to: u64) -> Result<u64> {
        self.catalog.forget_lost(up_to)
    }
}
