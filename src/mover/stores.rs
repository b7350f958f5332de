//! The stores of `data` as the mover uses them: stages, hot copies, memory.

use crate::catalog::Replica;
use crate::data::{HotStore, Identity, MemoryBudget, Partial, Permit, Sidecar, StageStore, Staged};
use crate::error::{Error, Kind, Result};
use crate::mover::context::Context;
use crate::types::{Key, TierId};
use std::collections::HashMap;
use std::sync::Arc;

/// Stages, hot copies and memory.
#[derive(Debug)]
pub struct Stores {
    /// The stage of this catalog on each stage tier.
    pub stages: HashMap<TierId, Arc<StageStore>>,
    /// The hot copies on each hot tier, and how full it may get.
    pub hot: HashMap<TierId, HotTier>,
    /// Memory for blocks on their way.
    pub budget: Arc<MemoryBudget>,
}

/// A tier with hot copies.
#[derive(Clone, Debug)]
pub struct HotTier {
    /// The copies.
    pub store: Arc<HotStore>,
    /// Share of the capacity above which copies are dropped.
    pub high_water: f64,
    /// Share at which that stops.
    pub low_water: f64,
    /// A capacity is configured: what is ours counts against it, and nobody else's.
    pub counted: bool,
}

impl Stores {
    /// Waits for memory.
    pub(crate) async fn reserve(&self, bytes: u64) -> Permit {
        self.budget.acquire(bytes).await
    }

    fn stage(&self, tier: TierId) -> Result<&Arc<StageStore>> {
        self.stages
            .get(&tier)
            .ok_or_else(|| Error::new(Kind::Absent, format!("tier {} has no stage", tier.0)))
    }

    /// Whether what lies on the stage of `tier` was written before the machine was started anew.
    pub(crate) fn is_of_an_earlier_boot(&self, tier: TierId) -> bool {
        self.stages.get(&tier).is_some_and(|stage| stage.is_of_an_earlier_boot())
    }

    /// A partly staged file, the same for all who use it.
    pub(crate) fn open_partial(&self, staged: &Replica) -> Result<Arc<Partial>> {
        self.stage(staged.tier)?.open_partial(&staged.name)
    }

    /// Whether a power loss left a partly staged file as no version of anything.
    pub(crate) fn is_torn(&self, staged: &Replica) -> Result<bool> {
        Ok(staged.is_partial() && self.stage(staged.tier)?.is_torn(&staged.name)?)
    }

    /// Makes a staged file the hot copy of `home`; false if the tier keeps none, or the file lacks some of its bytes.
    pub(crate) fn adopt(&self, context: &Context, staged: &Replica, home: &Replica) -> Result<bool> {
        let (Some(hot), Some(version)) = (self.hot.get(&staged.tier), home.version.clone()) else {
            return Ok(false);
        };
        if staged.is_partial() {
            return Ok(false);
        }
        let location = context.tier(home.tier)?.location();
        let identity = Identity { location, key: home.key.clone(), version };
        hot.store.adopt_staged(&staged.key, &identity)?;
        crate::failpoint::pass("became_a_hot_copy");
        self.stage(staged.tier)?.remove_sidecar(&staged.name)?;
        Ok(true)
    }

    /// Has a staged file say under which path it is known now.
    pub(crate) fn describe_path(&self, staged: &Replica, path: &Key) -> Result<()> {
        let stage = self.stage(staged.tier)?;
        match stage.read_sidecar(&staged.name) {
            Ok(sidecar) if sidecar.path != *path => {
                stage.write_sidecar(&staged.name, &Sidecar { path: path.clone(), ..sidecar })
            }
            // Without one it could say nothing before either.
            Err(error) if matches!(error.kind(), Kind::NotFound | Kind::Corrupt | Kind::Unsupported) => {
                Ok(())
            }
            other => other.map(drop),
        }
    }

    /// Whether a staged file has left a description of itself.
    pub(crate) fn describes_itself(&self, staged: &Replica) -> Result<bool> {
        match self.stage(staged.tier)?.read_sidecar(&staged.name) {
            Err(error) if error.kind() == Kind::NotFound => Ok(false),
            // One that can't be read is one.
            Err(error) if matches!(error.kind(), Kind::Corrupt | Kind::Unsupported) => Ok(true),
            other => other.map(|_| true),
        }
    }

    /// Removes a staged file that no row knows any more.
    pub(crate) fn remove_staged(&self, staged: &Replica) -> Result<()> {
        self.stage(staged.tier)?.remove(&staged.name)
    }

    /// Looks for staged files without rows; answers how many are left alone. One whose content is known to
    /// be at home (the daemon died between its row and its file) goes.
    pub(crate) fn sweep(&self, context: &Context) -> Result<u64> {
        let mut left = 0;
        for (tier, stage) in &self.stages {
            let listed = match stage.list() {
                Ok(listed) => listed,
                Err(error) => {
                    tracing::warn!(tier = stage.tier().name(), %error, "a stage can't be looked through now");
                    continue;
                }
            };
            for staged in listed {
                let known = context.catalog.staged_at(*tier, &staged.name)?.is_some();
                left += u64::from(!known && !sweep_one(context, stage, &staged)?);
            }
        }
        Ok(left)
    }
}

/// Whether the file could go.
fn sweep_one(context: &Context, stage: &StageStore, staged: &Staged) -> Result<bool> {
    if staged.object.is_none() || is_at_home(context, staged)? {
        // A `.copy` or a sidecar alone describes nothing that anybody wrote.
        stage.remove(&staged.name)?;
        return Ok(true);
    }
    tracing::warn!(
        tier = stage.tier().name(), name = %String::from_utf8_lossy(&staged.name),
        path = staged.sidecar.as_ref().map(|sidecar| sidecar.path.to_string()),
        "a staged file that the catalog does not know is left alone; `tierfs adopt` or `rescue` takes it"
    );
    Ok(false)
}

/// Whether home has this content or a newer one. A catalog that lost its newest rows (power loss) knows older generations only:
/// then the bytes are kept.
fn is_at_home(context: &Context, staged: &Staged) -> Result<bool> {
    let Some(sidecar) = &staged.sidecar else { return Ok(false) };
    context.catalog.has_at_home(sidecar.ino, sidecar.generation)
}
