//! The stage of a dead mount: taken over by another mount's catalog, or handed out as plain files.

use super::offline::Offline;
use super::parts;
use super::tiers::Built;
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, Storage};
use crate::data::{Elsewhere, Owner, StageStore};
use crate::error::{Error, Kind, Result};
use crate::repair::rescue::hand_out;
use crate::repair::takeover::{Estate, Heir, Taken, take_over};
use crate::tier::{DirectoryKind, DirectoryOptions, DirectoryTier, Writing};
use crate::types::TierId;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Between a tier's root and the stages of all catalogs there.
pub(super) const STAGES: &str = ".tierfs/stage";

/// A stage directory: `<tier root>/.tierfs/stage/<catalog id>`.
struct StageDirectory {
    root: PathBuf,
    catalog_id: String,
}

impl StageDirectory {
    fn of(path: &Path) -> Result<Self> {
        let no_stage = || {
            let text = format!("{} is no stage: name TIER_ROOT/{STAGES}/CATALOG_ID", path.display());
            Error::new(Kind::Invalid, text)
        };
        let found = path.canonicalize().map_err(|error| Error::from(error).context(path.display()))?;
        let name = found.file_name().and_then(|name| name.to_str()).ok_or_else(no_stage)?;
        let stages = found.parent().ok_or_else(no_stage)?;
        let root =
            stages.ends_with(STAGES).then(|| stages.ancestors().nth(2)).flatten().ok_or_else(no_stage)?;
        Ok(Self { root: root.to_owned(), catalog_id: name.to_owned() })
    }
}

/// Takes the stage at `stage` over into the catalog of `config`, which nobody has mounted; `tell` hears of each file. Answers whether
/// the stage is empty now and gone.
///
/// # Errors
/// [`Kind::Busy`] while a daemon has the catalog, or the stage; [`Kind::Invalid`] if the stage is on none of the config's tiers, or its own.
pub fn adopt(
    config: &Config,
    stage: &Path,
    elsewhere: Elsewhere,
    tell: &mut (dyn FnMut(&Taken) + Send),
) -> Result<bool> {
    let directory = StageDirectory::of(stage)?;
    let offline = Offline::open(config, Writing::Allowed)?;
    let own = offline.catalog.id();
    if directory.catalog_id == own {
        let text =
            "this is the stage of the config's own catalog: what lies there goes on with the next mount";
        return Err(Error::new(Kind::Invalid, text));
    }
    let one = tier_at(config, &offline.built, &directory)?;
    let owner = Owner::this_process(offline.clock.as_ref())?;
    let inside = offline.runtime.enter();
    let from = StageStore::claim_from_dead(one.tier.clone(), &directory.catalog_id, &owner, elsewhere)?;
    let to = StageStore::claim(one.tier.clone(), own, &owner)?;
    drop(inside);
    let estate = Estate { tier: one.row.id, from: &from, to: &to, staged: from.list()? };
    let tiers = offline.built.iter().map(|one| (one.row.id, one.tier.clone())).collect();
    let heir = Heir {
        catalog: &offline.catalog,
        rules: &offline.rules,
        tiers: &tiers,
        defaults: parts::defaults(&Default::default()),
        host: &parts::host_name(),
        clock: offline.clock.as_ref(),
    };
    offline.runtime.block_on(take_over(&heir, &[estate], tell))?;
    from.dissolve()
}

fn tier_at<'a>(config: &Config, built: &'a [Built], stage: &StageDirectory) -> Result<&'a Built> {
    let is_there = |path: &Path| path.canonicalize().is_ok_and(|path| path == stage.root);
    let named = config.tiers.iter().find(|tier| match &tier.storage {
        Storage::Directory(directory) => is_there(&directory.path),
        Storage::Blob(_) => false,
    });
    let found = named.and_then(|named| built.iter().find(|one| one.row.name == named.name));
    found.ok_or_else(|| {
        let text = format!(
            "no tier of the config is at {}: adopt with a config that has it, or `tierfs rescue` its files",
            stage.root.display()
        );
        Error::new(Kind::Invalid, text)
    })
}

/// Copies what lies on the stage at `stage` to `to`, under the names it had; the stage stays as it is.
///
/// # Errors
/// [`Kind::Busy`] while its daemon may live, [`Kind::Exists`] if `to` is not empty.
pub fn rescue(stage: &Path, to: &Path, elsewhere: Elsewhere, tell: &mut dyn FnMut(&Taken)) -> Result<()> {
    let directory = StageDirectory::of(stage)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let tier = DirectoryTier::open(
        DirectoryOptions {
            name: "stage".to_owned(),
            kind: DirectoryKind::Local,
            path: directory.root,
            capacity: None,
            expected: None,
            writing: Writing::Never,
            deadline: Duration::from_secs(60),
        },
        clock.clone(),
    )?;
    let owner = Owner::this_process(clock.as_ref())?;
    let from = StageStore::hold_dead(Arc::new(tier), &directory.catalog_id, &owner, elsewhere)?;
    let estate = Estate { tier: TierId(0), from: &from, to: &from, staged: from.list()? };
    hand_out(&estate, to, tell)
}
