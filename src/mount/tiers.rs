//! Building the tiers of a mount with their decorators, and what stands on them: stages and hot stores.

use crate::catalog::{Catalog, TierRow};
use crate::clock::Clock;
use crate::config::{BlobConfig, Config, DirectoryConfig, Percent, Storage, TierConfig, TierKind};
use crate::data::{HotStore, Owner, StageStore};
use crate::error::{Error, Kind, Result};
use crate::mover::HotTier;
use crate::tier::blob::{self, BlobOptions};
use crate::tier::{
    Breaker, DirectoryKind, DirectoryOptions, DirectoryTier, Layer, Limit, Limits, Meter, Pace, Paced, Rate,
    Retry, RetryPolicy, Tier, TierMeter, Tiers, Writing,
};
use crate::types::{Key, TierId};
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Calls that one tier gets at a time. Far more than one client needs for the bandwidth of an account,
/// far less than the limits of sockets and memory.
const CALLS: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// One tier of the mount with what watches it.
pub struct Built {
    pub row: TierRow,
    pub kind: TierKind,
    pub tier: Arc<dyn Tier>,
    pub meter: Arc<TierMeter>,
    pub breaker: Option<Arc<Breaker>>,
    pub directory: Option<DirectoryTier>,
    /// What a GiB costs there in a month, in millionths of a dollar.
    pub price_micros: u64,
    /// How fast bytes are sent there.
    pub upload_rate: Option<Rate>,
}

/// Opens every tier of the config, in its order, and takes the directories for this catalog.
///
/// # Errors
/// The first tier that can't be used at all, with what to do.
pub async fn build(
    config: &Config,
    catalog: &Catalog,
    clock: &Arc<dyn Clock>,
    writing: Writing,
) -> Result<Vec<Built>> {
    let mut built = Vec::with_capacity(config.tiers.len());
    for tier in &config.tiers {
        let in_tier = |error: Error| error.context(format!("tier {}", tier.name));
        let one = open(tier, catalog, clock, writing).map_err(in_tier)?;
        let answers = one.tier.probe().await;
        let is_there = answers.is_ok();
        match answers {
            // Known, but not there or not reachable now: hot copies are served, everything else waits
            // or fails in its turn, and it comes back by itself.
            Err(error) if error.kind().is_transient() => tracing::error!(tier = %tier.name, "{error}"),
            other => other.map_err(in_tier)?,
        }
        if is_there && writing == Writing::Allowed {
            must_take_writes(config, &one).map_err(in_tier)?;
        }
        built.push(one);
    }
    // Nothing is written anywhere before each of them was found to be right.
    for one in &built {
        if let Some(directory) = &one.directory {
            claim(&one.row, directory, catalog)
                .map_err(|error| error.context(format!("tier {}", one.row.name)))?;
        }
    }
    Ok(built)
}

/// A tier where files are homed or staged must take them.
pub fn must_take_writes(config: &Config, one: &Built) -> Result<()> {
    let name = &one.row.name;
    let used = config.rules.iter().any(|rule| rule.stages_on(name) || rule.keeps_on(name));
    if !used || one.tier.capabilities().writable {
        return Ok(());
    }
    Err(Error::new(
        Kind::ReadOnly,
        format!("{} is read-only; mount it for writing, or tierfs with -o ro", one.tier.location()),
    ))
}

/// Opens one tier with its decorators; nothing is written there.
///
/// # Errors
/// As the tier says.
pub fn open(
    config: &TierConfig,
    catalog: &Catalog,
    clock: &Arc<dyn Clock>,
    writing: Writing,
) -> Result<Built> {
    match &config.storage {
        Storage::Directory(directory) => open_directory(config, directory, catalog, clock, writing),
        Storage::Blob(blob) => open_blob(config, blob, catalog),
    }
}

fn open_directory(
    config: &TierConfig,
    directory: &DirectoryConfig,
    catalog: &Catalog,
    clock: &Arc<dyn Clock>,
    writing: Writing,
) -> Result<Built> {
    let row = catalog.register_tier(&config.name, &directory.path.to_string_lossy())?;
    let options = DirectoryOptions {
        name: config.name.clone(),
        kind: match config.kind {
            TierKind::Lustre => DirectoryKind::Lustre,
            TierKind::AzureFiles => DirectoryKind::AzureFiles,
            TierKind::Local | TierKind::Blob => DirectoryKind::Local,
        },
        path: directory.path.clone(),
        capacity: config.capacity,
        expected: row.mark.clone(),
        writing,
        deadline: config.deadline,
    };
    let directory = DirectoryTier::open(options, clock.clone())?;
    let meter = Arc::new(TierMeter::default());
    let tier = Meter::new(meter.clone()).over(Arc::new(directory.clone()));
    let tier = paced(config, tier);
    Ok(Built {
        row,
        kind: config.kind,
        tier,
        meter,
        breaker: None,
        directory: Some(directory),
        upload_rate: None,
        price_micros: config.price_micros,
    })
}

/// Marks a directory tier, or finds the mark that the catalog knows.
fn claim(row: &TierRow, directory: &DirectoryTier, catalog: &Catalog) -> Result<()> {
    match directory.claim() {
        Ok(mark) => match mark.id.filter(|id| row.mark.as_ref() != Some(id)) {
            Some(id) => catalog.set_mark(row.id, &id, &mark.fs_type),
            None => Ok(()),
        },
        Err(error) if error.kind() == Kind::Absent => Ok(()),
        Err(error) => Err(error),
    }
}

fn open_blob(config: &TierConfig, blob: &BlobConfig, catalog: &Catalog) -> Result<Built> {
    let client = blob::connect(&BlobOptions {
        name: config.name.clone(),
        location: blob.location.clone(),
        auth: blob.auth,
        client_id: blob.client_id.clone(),
        sas_file: blob.sas_file.clone(),
        key_file: blob.key_file.clone(),
        resource_id: blob.resource_id.clone(),
        access_tier: blob.access_tier,
        capacity: config.capacity,
    })?;
    let row = catalog.register_tier(&config.name, &client.location())?;
    let meter = Arc::new(TierMeter::default());
    let retry = Retry::new(RetryPolicy { deadline: config.deadline, ..RetryPolicy::default() });
    let breaker = retry.breaker();
    let upload_rate = Rate::new(blob.upload_max);
    // A call meets them from the last to the first, so the meter counts every try.
    let tier = Meter::new(meter.clone()).over(client);
    let tier = Limit::new(Limits { calls: CALLS, upload_rate: upload_rate.clone() }).over(tier);
    let tier = paced(config, retry.over(tier));
    Ok(Built {
        row,
        kind: config.kind,
        tier,
        meter,
        breaker: Some(breaker),
        directory: None,
        upload_rate: Some(upload_rate),
        price_micros: config.price_micros,
    })
}

/// `tier` with the pace that its config gives to background work.
fn paced(config: &TierConfig, tier: Arc<dyn Tier>) -> Arc<dyn Tier> {
    let pace = Pace::default();
    pace.set_limits(config.move_max, config.move_calls_max);
    Paced(Arc::new(pace)).over(tier)
}

/// The table of all tiers.
pub fn table(built: &[Built]) -> Arc<Tiers> {
    Arc::new(Tiers::new(built.iter().map(|one| (one.row.id, one.tier.clone())).collect()))
}

/// Stages of every directory tier that may be written, taken for this process: rules may come to stage there.
///
/// # Errors
/// [`Kind::Busy`] if another daemon may be alive that owns one.
pub fn stages(
    built: &[Built],
    catalog: &Catalog,
    clock: &dyn Clock,
    writing: Writing,
) -> Result<HashMap<TierId, Arc<StageStore>>> {
    let owner = Owner::this_process(clock)?;
    let mut stages = HashMap::new();
    for one in built {
        if may_be_written(one, writing) {
            let store = StageStore::claim_when_there(one.tier.clone(), catalog.id(), &owner)
                .map_err(|error| error.context(format!("stage on tier {}", one.row.name)))?;
            stages.insert(one.row.id, Arc::new(store));
        }
    }
    Ok(stages)
}

/// Whether files can be kept there, as far as is known of a directory that is absent now.
fn may_be_written(one: &Built, writing: Writing) -> bool {
    let Some(resident) = one.tier.resident() else { return false };
    let is_absent = || resident.stat(&Key::ROOT).is_err_and(|error| error.kind() == Kind::Absent);
    one.tier.capabilities().writable || writing == Writing::Allowed && is_absent()
}

/// Hot stores of every directory tier that may be written: rules may come to name it.
///
/// # Errors
/// If such a tier has no files.
pub fn hots(
    built: &[Built],
    clock: &Arc<dyn Clock>,
    writing: Writing,
) -> Result<HashMap<TierId, Arc<HotStore>>> {
    let used = built.iter().filter(|one| may_be_written(one, writing));
    used.map(|one| Ok((one.row.id, Arc::new(HotStore::new(one.tier.clone(), clock.clone())?)))).collect()
}

/// The hot stores with their water marks.
pub fn hot_tiers(
    config: &Config,
    built: &[Built],
    hots: &HashMap<TierId, Arc<HotStore>>,
) -> HashMap<TierId, HotTier> {
    let marked = built.iter().filter_map(|one| {
        let store = hots.get(&one.row.id)?.clone();
        let directory = config.tier(&one.row.name)?.directory()?;
        let (high_water, low_water) = marks(directory);
        let counted = config.tier(&one.row.name)?.capacity.is_some();
        Some((one.row.id, HotTier { store, high_water, low_water, counted }))
    });
    marked.collect()
}

/// The same of every directory tier.
pub fn all_marks(config: &Config, built: &[Built]) -> HashMap<TierId, (f64, f64)> {
    let marked = built.iter().filter_map(|one| {
        let directory = config.tier(&one.row.name)?.directory()?;
        Some((one.row.id, marks(directory)))
    });
    marked.collect()
}

/// High and low water as shares of the capacity.
pub fn marks(directory: &DirectoryConfig) -> (f64, f64) {
    let share = |percent: Percent| f64::from(percent.value()) / 100.0;
    (share(directory.high_water), share(directory.low_water))
}

/// Id of the tier with this name.
///
/// # Errors
/// [`Kind::Invalid`]; the config is checked, so this is never seen.
pub fn id_of(built: &[Built], name: &str) -> Result<TierId> {
    let known = built.iter().find(|one| one.row.name == name).map(|one| one.row.id);
    known.ok_or_else(|| Error::new(Kind::Invalid, format!("there is no tier {name}")))
}
