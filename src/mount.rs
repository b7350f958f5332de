//! The composition root: the only place that knows every concrete type. Puts a mount together, serves
//! it, and takes it apart without losing a byte.

mod accept;
mod adopt;
mod daemon;
mod evict;
mod exposed;
mod fsck;
mod lifecycle;
mod memory;
mod offline;
mod parts;
mod pins;
mod placing;
mod plan;
mod queue;
mod rebuild;
mod reload;
mod stages;
mod status;
mod tiers;
mod warm;

pub use adopt::{adopt, rescue};
pub use fsck::{Fsck, Told, Verdict};
pub use lifecycle::run;
pub use offline::Offline;
pub use rebuild::{Rebuild, Rebuilt, Replace};
pub use stages::{ForeignStage, OwnIds, foreign_stages};

use crate::catalog::{Catalog, Location};
use crate::cli::options::MountOptions;
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, TierConfig};
use crate::control::protocol::Drained;
use crate::error::{Error, Result};
use crate::tier::Tier;
use std::path::PathBuf;
use std::sync::Arc;

/// What is to be mounted, where and how.
pub struct MountRequest {
    /// The config, checked.
    pub config: Config,
    /// Its file, absolute.
    pub config_path: PathBuf,
    /// Where, absolute and without links; an existing directory with nothing of ours on it.
    pub mountpoint: PathBuf,
    /// How.
    pub options: MountOptions,
    /// Called before that with what the user should know: weaker promises of a tier, a long recovery.
    pub on_note: Box<dyn FnMut(&str) + Send>,
    /// Called once, when the mount answers; hears the I/O mode and why, in a few words.
    pub on_ready: Box<dyn FnOnce(&str) + Send>,
    /// Called once, when it is unmounted; hears how long what is left may take to get home.
    pub on_end: Box<dyn FnOnce(std::time::Duration) + Send>,
}

impl std::fmt::Debug for MountRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MountRequest").field("mountpoint", &self.mountpoint).finish_non_exhaustive()
    }
}

/// Why a mount did not come about, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// Nothing was mounted and nothing touched. [`crate::error::Kind::Invalid`] if the config or an option is at fault.
    #[error("{0}")]
    Start(#[source] Error),
    /// It was mounted, and broke.
    #[error("{0}")]
    Broken(#[source] Error),
    /// It ended before everything was at home: what is left is on the stage for the next mount.
    #[error("ended with {} dirty files; kept for the next mount", .0.files_left)]
    Undrained(Drained),
}

/// The tier that `config` describes, with deadline and retries but before anything is written there: for `check`.
///
/// # Errors
/// As the tier says.
pub async fn open_tier(config: &TierConfig) -> Result<Arc<dyn Tier>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let catalog = Catalog::open(&Location::Memory, clock.clone())?;
    let built = tiers::open(config, &catalog, &clock, crate::tier::Writing::Allowed)?;
    built.tier.probe().await?;
    Ok(built.tier)
}
