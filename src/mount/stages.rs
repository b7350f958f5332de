//! Stages of other catalogs on the tiers of a config: whose they are, and whether anybody can still be at work there.

use super::adopt::STAGES;
use crate::catalog::Catalog;
use crate::clock::SystemClock;
use crate::config::{self, Config};
use crate::data::{Life, Owner, StageStore};
use crate::error::Result;
use crate::tier::Tier;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The stage of a catalog that is not the config's own, with files on it.
#[derive(Clone, Debug)]
pub struct ForeignStage {
    /// Where it is.
    pub path: PathBuf,
    /// Files on it.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Who took it, if that can be read.
    pub owner: Option<Owner>,
    /// Whether that daemon can be alive.
    pub life: Life,
    /// Whether the config's catalog was at the same place before: then `rebuild` takes it over.
    pub is_former: bool,
}

/// Ids of the catalogs that were and are at the config's place.
#[derive(Clone, Debug, Default)]
pub struct OwnIds {
    current: Option<String>,
    former: Vec<String>,
}

impl OwnIds {
    /// Of the catalog of `config`, mounted or not.
    ///
    /// # Errors
    /// If they can't be read.
    pub fn of(config: &Config) -> Result<Self> {
        let config::Catalog::Sqlite(path) = &config.mount.catalog else { return Ok(Self::default()) };
        let mut former = Catalog::known_ids(path)?;
        // Without the file the next mount makes another catalog.
        let current = if path.exists() { former.pop() } else { None };
        Ok(Self { current, former })
    }
}

/// Stages on the directory tier at `root` with files that are not `own`, those of dead daemons first.
///
/// # Errors
/// As the tier says.
pub fn foreign_stages(root: &Path, tier: &Arc<dyn Tier>, own: &OwnIds) -> Result<Vec<ForeignStage>> {
    let me = Owner::this_process(&SystemClock::default())?;
    let mut found = Vec::new();
    for id in StageStore::ids(tier.clone())?.into_iter().filter(|id| own.current.as_ref() != Some(id)) {
        let stage = StageStore::to_look_at(tier.clone(), &id)?;
        let (mut files, mut bytes) = (0, 0);
        for object in stage.list()?.into_iter().filter_map(|staged| staged.object) {
            files += 1;
            bytes += object.size;
        }
        if files == 0 {
            continue;
        }
        let (owner, life) = stage.owner(&me)?;
        let is_former = own.former.contains(&id);
        found.push(ForeignStage { path: root.join(STAGES).join(&id), files, bytes, owner, life, is_former });
    }
    found.sort_by_key(|stage| stage.life);
    Ok(found)
}
