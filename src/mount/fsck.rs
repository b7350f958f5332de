//! `fsck` put together: a catalog that nobody has mounted, its tiers, its stages.

use super::offline::{Offline, catalog_path};
use super::{parts, rebuild, tiers};
use crate::catalog::{Catalog, LostFile};
use crate::config::Config;
use crate::data::{HotStore, MemoryBudget, Owner, StageStore};
use crate::error::Result;
use crate::heat::Heat;
use crate::mover::{Mover, MoverParts, Recovered, Stores};
use crate::repair::fsck::{Action, Checked, Finding, Scene, What, check, mend};
use crate::repair::takeover::{Heir, Taken};
use crate::tier::{Tier, Writing};
use crate::types::TierId;
use std::collections::HashMap;
use std::sync::Arc;

/// How far fsck goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fsck {
    /// It looks and changes nothing.
    Look,
    /// It mends what can be mended without losing a byte, and looks again.
    Repair,
}

/// What fsck says on the way.
#[derive(Debug)]
pub enum Told<'a> {
    /// Something is wrong.
    Found(&'a Finding),
    /// A staged file was taken over.
    Taken(&'a Taken),
    /// A file turned out to be gone for good.
    Lost(&'a LostFile),
    /// What was begun by an earlier daemon was finished.
    Recovered(&'a Recovered),
    /// It is still wrong after the repair.
    Left(&'a Finding),
}

/// What it came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The look.
    pub checked: Checked,
    /// The look after the repair.
    pub left: Option<Checked>,
}

type Stages = HashMap<TierId, Arc<StageStore>>;

impl Fsck {
    /// Checks, and repairs if that is asked for.
    ///
    /// # Errors
    /// [`crate::error::Kind::Busy`] while a daemon has the catalog.
    pub fn run(self, config: &Config, tell: &mut (dyn FnMut(Told<'_>) + Send)) -> Result<Verdict> {
        let writing = match self {
            Self::Look => Writing::Never,
            Self::Repair => Writing::Allowed,
        };
        let offline = Offline::open(config, writing)?;
        let bench = Bench::new(config, &offline)?;
        offline.runtime.block_on(bench.run(self, tell))
    }
}

/// All that is needed.
struct Bench<'a> {
    config: &'a Config,
    offline: &'a Offline,
    tiers: HashMap<TierId, Arc<dyn Tier>>,
    hots: HashMap<TierId, Arc<HotStore>>,
    host: String,
}

impl<'a> Bench<'a> {
    fn new(config: &'a Config, offline: &'a Offline) -> Result<Self> {
        let mut hots = HashMap::new();
        for one in offline.built.iter().filter(|one| one.tier.resident().is_some()) {
            if config.rules.iter().any(|rule| rule.hot.contains(&one.row.name)) {
                hots.insert(one.row.id, Arc::new(HotStore::new(one.tier.clone(), offline.clock.clone())?));
            }
        }
        let tiers = offline.built.iter().map(|one| (one.row.id, one.tier.clone())).collect();
        Ok(Self { config, offline, tiers, hots, host: parts::host_name() })
    }

    async fn run(&self, fsck: Fsck, tell: &mut (dyn FnMut(Told<'_>) + Send)) -> Result<Verdict> {
        let seen = self.stages_to_look_at()?;
        let (mut checked, actions) =
            check(&self.scene(&seen), &mut |finding| tell(Told::Found(finding))).await?;
        self.abandoned(&mut checked, &mut |finding| tell(Told::Found(finding)))?;
        if fsck == Fsck::Look {
            return Ok(Verdict { checked, left: None });
        }
        let stages = tiers::stages(
            &self.offline.built,
            &self.offline.catalog,
            self.offline.clock.as_ref(),
            Writing::Allowed,
        )?;
        let stages = self.with_orphans(stages, &actions)?;
        if actions.iter().any(|action| matches!(action, Action::Recover)) {
            let recovered = Mover::recover(self.mover(&stages)).await?;
            tell(Told::Recovered(&recovered));
        }
        let losses =
            mend(&self.scene(&stages), &self.heir(), actions, &mut |taken| tell(Told::Taken(taken))).await?;
        losses.lost.iter().for_each(|lost| tell(Told::Lost(lost)));
        let (mut left, _) = check(&self.scene(&stages), &mut |finding| tell(Told::Left(finding))).await?;
        self.abandoned(&mut left, &mut |finding| tell(Told::Left(finding)))?;
        Ok(Verdict { checked, left: Some(left) })
    }

    fn scene<'b>(&'b self, stages: &'b Stages) -> Scene<'b> {
        Scene {
            catalog: &self.offline.catalog,
            rules: &self.offline.rules,
            tiers: &self.tiers,
            stages,
            hots: &self.hots,
        }
    }

    fn heir(&self) -> Heir<'_> {
        Heir {
            catalog: &self.offline.catalog,
            rules: &self.offline.rules,
            tiers: &self.tiers,
            defaults: parts::defaults(&Default::default()),
            host: &self.host,
            clock: self.offline.clock.as_ref(),
        }
    }

    fn stages_to_look_at(&self) -> Result<Stages> {
        let directories = self.offline.built.iter().filter(|one| one.directory.is_some());
        let stage = |one: &tiers::Built| {
            Ok((one.row.id, Arc::new(StageStore::to_look_at(one.tier.clone(), self.offline.catalog.id())?)))
        };
        directories.map(stage).collect()
    }

    /// Orphans may lie where no rule stages any more.
    fn with_orphans(&self, mut stages: Stages, actions: &[Action]) -> Result<Stages> {
        for action in actions {
            let Action::TakeOver(tier, _) = action else { continue };
            let (false, Some(known)) = (stages.contains_key(tier), self.tiers.get(tier)) else { continue };
            let owner = Owner::this_process(self.offline.clock.as_ref())?;
            let stage = StageStore::claim(known.clone(), self.offline.catalog.id(), &owner)?;
            stages.insert(*tier, Arc::new(stage));
        }
        Ok(stages)
    }

    /// Staged files of catalogs that were here before.
    fn abandoned(&self, checked: &mut Checked, tell: &mut dyn FnMut(&Finding)) -> Result<()> {
        for id in Catalog::former_ids(catalog_path(self.config)?)? {
            for one in self.offline.built.iter().filter(|one| one.directory.is_some()) {
                let files = rebuild::files_on(one, &id).unwrap_or_default();
                if files == 0 {
                    continue;
                }
                checked.found += 1;
                checked.decide += 1;
                tell(&Finding {
                    what: What::Orphan,
                    tier: Some(one.row.name.clone()),
                    path: None,
                    key: None,
                    detail: format!("{files} files staged by catalog {id}, which was here before"),
                    decide: Some("`tierfs rebuild --force` takes them over into a new catalog"),
                });
            }
        }
        Ok(())
    }

    fn mover(&self, stages: &Stages) -> MoverParts {
        MoverParts {
            heat: Arc::new(Heat::new(self.offline.clock.clone())),
            fullness: Arc::default(),
            marks: Default::default(),
            catalog: self.offline.catalog.clone(),
            tiers: self.tiers.clone(),
            rules: self.offline.rules.clone(),
            stores: Stores {
                stages: stages.clone(),
                hot: tiers::hot_tiers(self.config, &self.offline.built, &self.hots),
                budget: Arc::new(MemoryBudget::new(self.config.mount.memory)),
            },
            clock: self.offline.clock.clone(),
            runtime: tokio::runtime::Handle::current(),
            invalidate: Arc::new(|_| {}),
            // Nobody has it mounted.
            is_open: Arc::new(|_| false),
            while_unwritten: Arc::new(|_, act| {
                act();
                true
            }),
            preserve: Arc::new(|_| Ok(false)),
            settle_closed: Arc::new(|| 0),
            while_names_stand: Arc::new(|_, act| act()),
            while_names_move: Arc::new(|_, act| act()),
            host: self.host.clone(),
            defaults: parts::defaults(&Default::default()),
            limits: Default::default(),
            blocks_in_flight: 1,
        }
    }
}
