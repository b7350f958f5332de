//! A new catalog in the place of a damaged one: the tree comes from the tiers by looking, as always; what was staged and not yet at home is
//! taken over from the stages of the catalogs that were there before.

use super::offline::{catalog_path, runtime};
use super::parts;
use super::placing::Placing;
use super::tiers::{self, Built};
use crate::catalog::{Catalog, Location, Replacement};
use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::data::{Owner, StageStore};
use crate::error::{Error, Kind, Result};
use crate::policy::aside::utc;
use crate::repair::takeover::{Estate, Heir, Taken, take_over};
use crate::tier::Writing;
use crate::types::TierId;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Which catalogs are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// Damaged ones.
    IfDamaged,
    /// Sound ones too: what only they know is lost.
    Always,
}

/// What is to be rebuilt, and how.
#[derive(Debug)]
pub struct Rebuild<'a> {
    /// The config.
    pub config: &'a Config,
    /// Which catalogs are replaced.
    pub replace: Replace,
    /// Further catalogs, by their id, whose stages are taken over.
    pub from: &'a [String],
    /// Directory tiers that have no mark because they were wiped.
    pub wiped: &'a [String],
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Rebuilt {
    /// Where the old catalog is now, if there was one.
    pub aside: Option<PathBuf>,
    /// Stages of other catalogs, which were left alone: tier, id, staged files.
    pub others: Vec<(String, String, u64)>,
}

impl Rebuild<'_> {
    /// Does it; `tell` hears of each staged file that was taken over.
    ///
    /// # Errors
    /// [`Kind::Invalid`] if the catalog is sound, [`Kind::Busy`] while a daemon has it; whatever a tier says that must be asked. Nothing
    /// has changed then, or the next call goes on where this one ended.
    pub fn run(&self, tell: &mut (dyn FnMut(&Taken) + Send)) -> Result<Rebuilt> {
        let path = catalog_path(self.config)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let runtime = runtime()?;
        if self.replace == Replace::IfDamaged {
            must_be_damaged(path, &clock)?;
        }
        if let Some(parent) = path.parent() {
            parts::make_private_directory(parent)?;
        }
        let (replacement, catalog, mut former) = Replacement::begin(path, clock.clone())?;
        former.extend(self.from.iter().filter(|id| !former.contains(id)).cloned().collect::<Vec<_>>());
        let filled = runtime.block_on(self.fill(&catalog, &former, &clock, tell));
        drop(catalog);
        let (mut rebuilt, kept) = match filled {
            Ok(filled) => filled,
            Err(error) => {
                replacement.cancel();
                return Err(error);
            }
        };
        rebuilt.aside = replacement.finish(&utc(clock.wall()))?;
        for id in former.iter().filter(|id| !kept.contains(id)) {
            Catalog::forget_id(path, id)?;
        }
        Ok(rebuilt)
    }

    /// Answers also of which catalogs something is left on a stage.
    async fn fill(
        &self,
        catalog: &Catalog,
        former: &[String],
        clock: &Arc<dyn Clock>,
        tell: &mut (dyn FnMut(&Taken) + Send),
    ) -> Result<(Rebuilt, Vec<String>)> {
        self.must_be_marked(catalog, clock)?;
        let built = tiers::build(self.config, catalog, clock, Writing::Allowed).await?;
        let stages = Stages::find(&built, catalog, former, clock.as_ref())?;
        let rules = Placing::of(self.config, &built, catalog)?.rules;
        let tiers: HashMap<TierId, _> = built.iter().map(|one| (one.row.id, one.tier.clone())).collect();
        let host = parts::host_name();
        let heir = Heir {
            catalog,
            rules: &rules,
            tiers: &tiers,
            defaults: parts::defaults(&Default::default()),
            host: &host,
            clock: clock.as_ref(),
        };
        take_over(&heir, &stages.estates()?, tell).await?;
        let others = stages.others;
        let mut kept = Vec::new();
        for (id, _, from, _) in stages.left {
            if !from.dissolve()? {
                kept.push(id);
            }
        }
        Ok((Rebuilt { aside: None, others }, kept))
    }

    /// A mark that is not there was forgotten with the catalog: nothing else tells a tier that is not mounted.
    fn must_be_marked(&self, catalog: &Catalog, clock: &Arc<dyn Clock>) -> Result<()> {
        for tier in &self.config.tiers {
            let Some(directory) = tiers::open(tier, catalog, clock, Writing::Never)?.directory else {
                continue;
            };
            let is_marked = directory.as_found()?.claim()?.id.is_some();
            if !is_marked && !self.wiped.contains(&tier.name) {
                return Err(Error::new(
                    Kind::Absent,
                    format!(
                        "tier {0} has no .tierfs/id: probably it is not mounted; mount it, or say --wiped {0} if it is right",
                        tier.name
                    ),
                ));
            }
        }
        Ok(())
    }
}

fn must_be_damaged(path: &Path, clock: &Arc<dyn Clock>) -> Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let wrong = match Catalog::open(&Location::Sqlite(path.to_owned()), clock.clone()) {
        Ok(catalog) => catalog.check()?,
        Err(error) if error.kind() == Kind::Corrupt => return Ok(()),
        Err(error) => return Err(error),
    };
    if wrong.is_empty() {
        let text = format!(
            "catalog {} is sound, so there is nothing to rebuild; `tierfs fsck` compares it with the tiers, --force makes a new one all the same",
            path.display()
        );
        return Err(Error::new(Kind::Invalid, text));
    }
    Ok(())
}

/// What earlier catalogs left on the tiers.
struct Stages {
    /// Whose each is, on which tier, and the new catalog's stage there.
    left: Vec<(String, TierId, StageStore, Arc<StageStore>)>,
    others: Vec<(String, String, u64)>,
}

impl Stages {
    fn find(built: &[Built], catalog: &Catalog, former: &[String], clock: &dyn Clock) -> Result<Self> {
        let owner = Owner::this_process(clock)?;
        let mut stages = Self { left: Vec::new(), others: Vec::new() };
        for one in built.iter().filter(|one| one.directory.is_some()) {
            let mut to = None;
            for id in StageStore::ids(one.tier.clone())? {
                if id == catalog.id() {
                    continue;
                }
                if !former.contains(&id) {
                    let files = files_on(one, &id)?;
                    stages.others.extend((files > 0).then(|| (one.row.name.clone(), id, files)));
                    continue;
                }
                let heir = match &to {
                    Some(known) => Arc::clone(known),
                    None => Arc::new(StageStore::claim(one.tier.clone(), catalog.id(), &owner)?),
                };
                to = Some(heir.clone());
                let from = StageStore::claim(one.tier.clone(), &id, &owner)?;
                stages.left.push((id, one.row.id, from, heir));
            }
        }
        Ok(stages)
    }

    fn estates(&self) -> Result<Vec<Estate<'_>>> {
        self.left
            .iter()
            .map(|(_, tier, from, to)| Ok(Estate { tier: *tier, from, to, staged: from.list()? }))
            .collect()
    }
}

/// How many staged files the catalog with this id has on a tier.
///
/// # Errors
/// As the tier says.
pub(super) fn files_on(one: &Built, id: &str) -> Result<u64> {
    let staged = StageStore::to_look_at(one.tier.clone(), id)?.list()?;
    Ok(staged.iter().filter(|staged| staged.object.is_some()).count() as u64)
}
