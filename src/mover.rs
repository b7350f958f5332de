//! The mover: slow work later. It brings every file's home in line with the catalog: uploads,
//! keys that are not native yet, deletes, attributes, clean-up of stages, recovery after a crash.
//!
//! One loop (`engine`) over a closed event enum asks a pure queue (`queue`) what to start, and runs jobs
//! (`jobs`) that are idempotent: each looks at the catalog, does what is missing, and looks
//! again. Whatever destroys or replaces bytes on a tier has its row committed before. A job
//! can be dropped at any await: what it left half done, the next try or `recover` finishes.
//!
//! Knows policy, the catalog, tiers and the stores of `data`; must not know vfs, FUSE or commands.

mod awaited;
mod cold;
mod context;
mod engine;
mod evict;
mod flush;
mod handle;
mod homecoming;
mod jobs;
mod keep;
mod listing;
mod overflow;
pub mod queue;
mod recover;
mod rehome;
mod room;
mod status;
mod stores;

pub use awaited::Committer;
pub use cold::{ColdPlan, Leaver};
pub use context::{Invalidate, IsOpen, Lost, Preserve, SettleClosed, WhileNames, WhileUnwritten};
pub use evict::{HotPlan, Leaving};
pub use flush::{FlushReport, FlushScope, Named, Progress};
pub use handle::MoverHandle;
pub use listing::{Queued, Stand, What};
pub use overflow::OverflowPlan;
pub use recover::Recovered;
pub use rehome::FORMER;
pub use room::RoomMaker;
pub use status::{MoverStatus, Trouble};
pub use stores::{HotTier, Stores};

use crate::catalog::{Catalog, Defaults};
use crate::clock::Clock;
use crate::error::Result;
use crate::fullness::Fullness;
use crate::heat::Heat;
use crate::policy::placement::Rules;
use crate::tier::Tier;
use crate::types::TierId;
use context::Context;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Everything a mover needs.
pub struct MoverParts {
    /// The catalog.
    pub catalog: Arc<Catalog>,
    /// All tiers of the mount.
    pub tiers: HashMap<TierId, Arc<dyn Tier>>,
    /// The rules at start; see [`MoverHandle::set_rules`].
    pub rules: Arc<Rules>,
    /// Stages, hot stores and the memory budget.
    pub stores: Stores,
    /// How often files are opened.
    pub heat: Arc<Heat>,
    /// Told which homes are too full for new files.
    pub fullness: Arc<Fullness>,
    /// High and low water of the directory tiers, as shares of what may be used there.
    pub marks: HashMap<TierId, (f64, f64)>,
    /// Source of time.
    pub clock: Arc<dyn Clock>,
    /// Where jobs run.
    pub runtime: Handle,
    /// Told what the kernel must forget; must not block.
    pub invalidate: Invalidate,
    /// Whether a program has the file open: then its staged bytes keep their place.
    pub is_open: IsOpen,
    /// Runs something local while no program opens the file or ends writing to it.
    pub while_unwritten: WhileUnwritten,
    /// Lets a file that is closed, and still open or mapped, be committed as it was closed; false if it is no such file.
    pub preserve: Preserve,
    /// Looks at files that are closed and were not yet seen to be closed for good; answers how many are left.
    pub settle_closed: SettleClosed,
    /// Runs something local while no rename is under way on the tier.
    pub while_names_stand: WhileNames,
    /// Runs something local that moves native names on the tier and their rows while nobody compares the two.
    pub while_names_move: WhileNames,
    /// This machine, for the names of conflict copies.
    pub host: String,
    /// Owner and modes for what carries none.
    pub defaults: Defaults,
    /// Limits of the queue.
    pub limits: queue::Limits,
    /// Blocks in flight over all uploads.
    pub blocks_in_flight: usize,
}

impl std::fmt::Debug for MoverParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MoverParts")
            .field("host", &self.host)
            .field("tiers", &self.tiers)
            .finish_non_exhaustive()
    }
}

/// The mover; started by [`Mover::start`].
#[derive(Debug)]
pub struct Mover;

impl Mover {
    /// Recovers from an earlier daemon's death, then starts the loop. Call it before the mount serves.
    ///
    /// # Errors
    /// Only what the catalog says; a tier that does not answer is tried again later.
    pub async fn start(parts: MoverParts) -> Result<(MoverHandle, Recovered)> {
        let limits = parts.limits;
        let context = Arc::new(Context::new(parts));
        let recovered = recover::recover(&context).await?;
        Ok((engine::start(context, limits), recovered))
    }

    /// Only recovers, for a repair that nobody mounts for.
    ///
    /// # Errors
    /// As [`Mover::start`].
    pub async fn recover(parts: MoverParts) -> Result<Recovered> {
        recover::recover(&Arc::new(Context::new(parts))).await
    }
}
