//! Putting vfs and mover together over catalog and tiers.

use super::MountRequest;
use super::placing::Placing;
use super::tiers::{self, Built};
use crate::catalog::{Catalog, Defaults, Location};
use crate::cli::options::{MountOptions, Passthrough};
use crate::clock::{Clock, SystemClock};
use crate::config;
use crate::data::{HotStore, MemoryBudget, StageStore, Streams};
use crate::error::{Error, Kind, Result};
use crate::fullness::Fullness;
use crate::fuse::Notifications;
use crate::heat::Heat;
use crate::host;
use crate::mover::{Committer, Mover, MoverHandle, MoverParts, Recovered, RoomMaker, Stores};
use crate::tier::Writing;
use crate::types::{Invalidation, TierId};
use crate::vfs::{AtHome, Facts, IoMode, Making, PARTIAL_FROM, Parts, Vfs};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};

/// Blocks that all uploads together have on their way.
const BLOCKS_IN_FLIGHT: usize = 32;
/// What statfs shows of a blob tier without `capacity`: 5 PiB, the limit of a storage account.
const BLOB_SIZE: u64 = 5 << 50;

/// Everything a mount consists of, before the kernel knows it.
pub struct Assembled {
    pub catalog: Arc<Catalog>,
    pub clock: Arc<dyn Clock>,
    pub built: Vec<Built>,
    pub streams: Arc<Streams>,
    pub vfs: Arc<Vfs>,
    pub mover: MoverHandle,
    pub mode_reason: String,
    pub facts: Arc<FactsOfRoot>,
    pub stages: HashMap<TierId, Arc<StageStore>>,
    pub hots: HashMap<TierId, Arc<HotStore>>,
}

/// What the root's `user.tierfs.*` say; the daemon behind them comes later.
pub struct FactsOfRoot {
    control: Vec<u8>,
    status: Mutex<Weak<dyn StatusText>>,
}

/// Gives the status as JSON.
pub trait StatusText: Send + Sync {
    /// One JSON object.
    fn status_text(&self) -> Vec<u8>;
}

impl FactsOfRoot {
    /// From now on `daemon` answers.
    pub fn answer_from(&self, daemon: Weak<dyn StatusText>) {
        *self.status.lock() = daemon;
    }
}

impl Facts for FactsOfRoot {
    fn control(&self) -> Vec<u8> {
        self.control.clone()
    }

    fn status(&self) -> Vec<u8> {
        let daemon = self.status.lock().upgrade();
        daemon.map_or_else(Vec::new, |daemon| daemon.status_text())
    }
}

/// Opens catalog and tiers, recovers what an earlier daemon left, and starts the mover.
///
/// # Errors
/// With what to do; nothing was mounted then.
pub async fn assemble(request: &mut MountRequest, notifications: Notifications) -> Result<Assembled> {
    let config = &request.config;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    check_mountpoint(request)?;
    let catalog = Arc::new(open_catalog(&config.mount.catalog, &mut *request.on_note, &clock)?);
    let writing = if request.options.read_only { Writing::Never } else { Writing::Allowed };
    let built = tiers::build(config, &catalog, &clock, writing).await?;
    tell_abandoned(&config.mount.catalog, &built, &mut *request.on_note);
    let tiers = tiers::table(&built);
    let stages = tiers::stages(&built, &catalog, clock.as_ref(), writing)?;
    let hots = tiers::hots(&built, &clock, writing)?;
    let placing = Placing::of(config, &built, &catalog)?;
    let rules = if request.options.read_only {
        placing.at_rest()
    } else {
        if !placing.notes.is_empty() {
            catalog.put_notes(&placing.notes)?;
        }
        placing.rules
    };
    let runtime = tokio::runtime::Handle::current();
    let streams = Streams::new(MemoryBudget::new(config.mount.memory), runtime.clone());
    let (mode, mode_reason) = io_mode(config, request.options.passthrough)?;
    let defaults = defaults(&request.options);
    let invalidate: Arc<dyn Fn(Invalidation) + Send + Sync> = Arc::new(move |what| notifications.send(what));
    let facts = Arc::new(FactsOfRoot {
        control: config.mount.control.as_os_str().as_encoded_bytes().to_vec(),
        status: Mutex::new(Weak::<NoStatus>::new()),
    });
    let room_maker: Arc<OnceLock<RoomMaker>> = Arc::default();
    let heat = Arc::new(Heat::new(clock.clone()));
    let fullness: Arc<Fullness> = Arc::default();
    make_room_for_copies(&hots, &room_maker);
    let committer: Arc<OnceLock<Committer>> = Arc::default();
    let vfs = Arc::new(Vfs::new(Parts {
        catalog: catalog.clone(),
        tiers: tiers.clone(),
        rules: rules.clone(),
        stages: stages.clone(),
        hots: hots.clone(),
        streams: streams.clone(),
        heat: heat.clone(),
        fullness: fullness.clone(),
        clock: clock.clone(),
        runtime: runtime.clone(),
        invalidate: invalidate.clone(),
        defaults,
        mode,
        partial_from: PARTIAL_FROM,
        blob_size: config
            .tiers
            .iter()
            .find(|tier| tier.directory().is_none())
            .and_then(|tier| tier.capacity)
            .unwrap_or(BLOB_SIZE),
        sweepers: config.mount.sweepers.clone(),
        room: room_making(config, &built, room_maker.clone()),
        at_home: waiting(committer.clone()),
        facts: facts.clone(),
    }));
    let (opened, written) = (vfs.clone(), vfs.clone());
    let (renamed, moving) = (vfs.clone(), vfs.clone());
    let (closed, settling) = (vfs.clone(), vfs.clone());
    let (mover, recovered) = Mover::start(MoverParts {
        catalog: catalog.clone(),
        tiers: tiers.iter().map(|(id, tier)| (id, tier.clone())).collect(),
        rules: rules.clone(),
        stores: Stores {
            stages: stages.clone(),
            hot: tiers::hot_tiers(config, &built, &hots),
            budget: Arc::new(streams.budget().clone()),
        },
        heat: heat.clone(),
        fullness,
        marks: tiers::all_marks(config, &built),
        clock: clock.clone(),
        runtime,
        invalidate,
        is_open: Arc::new(move |ino| opened.is_open(ino)),
        while_unwritten: Arc::new(move |ino, act| written.while_unwritten(ino, act)),
        preserve: Arc::new(move |ino| closed.preserve_closed(ino)),
        settle_closed: Arc::new(move || settling.settle_closed()),
        while_names_stand: Arc::new(move |tier, act| renamed.while_names_stand(tier, act)),
        while_names_move: Arc::new(move |tier, act| moving.while_names_move(tier, act)),
        host: host_name(),
        defaults,
        limits: Default::default(),
        blocks_in_flight: BLOCKS_IN_FLIGHT,
    })
    .await?;
    // Set once, here.
    let _ = room_maker.set(mover.room_maker());
    let _ = committer.set(mover.committer());
    tell_recovered(recovered, &mut request.on_note);
    Ok(Assembled { catalog, clock, built, streams, vfs, mover, mode_reason, facts, stages, hots })
}

/// The mover makes room; before it runs nobody waits.
fn room_making(config: &config::Config, built: &[Built], mover: Arc<OnceLock<RoomMaker>>) -> Making {
    let deadlines = built.iter().zip(&config.tiers).map(|(one, tier)| (one.row.id, tier.deadline)).collect();
    let ask = move |domains, stage| {
        if let Some(mover) = mover.get() {
            mover.make_room(domains, stage);
        }
    };
    Making { ask: Arc::new(ask), deadlines }
}

/// The mover makes room for hot copies; before it runs everybody is admitted.
fn make_room_for_copies(hots: &HashMap<TierId, Arc<HotStore>>, mover: &Arc<OnceLock<RoomMaker>>) {
    for hot in hots.values() {
        let mover = mover.clone();
        hot.space().ask_with(Box::new(move || {
            if let Some(mover) = mover.get() {
                mover.make_room_for_copies();
            }
        }));
    }
}

/// Before the mover runs nobody waits for it.
fn waiting(committer: Arc<OnceLock<Committer>>) -> AtHome {
    Arc::new(move |awaited, patience| {
        let committer = committer.get().cloned();
        Box::pin(async move {
            match committer {
                Some(committer) => committer.at_home(awaited, patience).await,
                None => Ok(()),
            }
        })
    })
}

struct NoStatus;

impl StatusText for NoStatus {
    fn status_text(&self) -> Vec<u8> {
        Vec::new()
    }
}

fn check_mountpoint(request: &MountRequest) -> Result<()> {
    request
        .config
        .check_mountpoint(&request.mountpoint)
        .map_err(|problems| Error::new(Kind::Invalid, problems.to_string()))
}

pub(super) fn open_catalog(
    location: &config::Catalog,
    note: &mut dyn FnMut(&str),
    clock: &Arc<dyn Clock>,
) -> Result<Catalog> {
    let location = match location {
        config::Catalog::Memory => Location::Memory,
        config::Catalog::Sqlite(path) => {
            if let Some(parent) = path.parent() {
                make_private_directory(parent)?;
                if let Ok(host::FileSystem::Tmpfs | host::FileSystem::Nfs | host::FileSystem::Smb) =
                    host::file_system(parent)
                {
                    note(&format!(
                        "the catalog {} is not on a local disk: it is lost at reboot or may break; put it on one",
                        path.display()
                    ));
                }
            }
            Location::Sqlite(path.clone())
        }
    };
    Catalog::open(&location, clock.clone())
}

pub(super) fn make_private_directory(path: &Path) -> Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| Error::from(error).context(format!("can't make {} for the catalog", path.display())))
}

/// Passthrough where it can be had, and why not where it can't.
fn io_mode(config: &config::Config, wanted: Passthrough) -> Result<(IoMode, String)> {
    let roots =
        config.tiers.iter().filter_map(|tier| tier.directory()).map(|directory| directory.path.as_path());
    let obstacles = host::passthrough_obstacles(roots);
    match (wanted, obstacles.first()) {
        (Passthrough::Off, _) => Ok((IoMode::Ordinary, "asked for by passthrough=off".to_owned())),
        (_, None) => Ok((IoMode::Passthrough, String::new())),
        (Passthrough::Auto, Some(obstacle)) => {
            Ok((IoMode::Ordinary, format!("{}; {}", obstacle.why, obstacle.remedy)))
        }
        (Passthrough::On, Some(obstacle)) => Err(Error::new(
            Kind::Invalid,
            format!("passthrough=on can't be had: {}; {}", obstacle.why, obstacle.remedy),
        )),
    }
}

pub(super) fn defaults(options: &MountOptions) -> Defaults {
    let umask = options.umask.unwrap_or(0o022);
    Defaults {
        uid: options.uid.unwrap_or_else(|| rustix::process::geteuid().as_raw()),
        gid: options.gid.unwrap_or_else(|| rustix::process::getegid().as_raw()),
        file_mode: 0o666 & !umask,
        dir_mode: 0o777 & !umask,
    }
}

impl Assembled {
    /// What the config calls a tier.
    pub fn name_of(&self, tier: TierId) -> String {
        let built = self.built.iter().find(|built| built.row.id == tier);
        built.map_or_else(String::new, |built| built.row.name.clone())
    }
}

pub(super) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// A catalog that is gone may have left bytes on a stage that no home has.
fn tell_abandoned(catalog: &config::Catalog, built: &[Built], note: &mut dyn FnMut(&str)) {
    let config::Catalog::Sqlite(path) = catalog else { return };
    for id in Catalog::former_ids(path).unwrap_or_default() {
        let count = |one: &Built| super::rebuild::files_on(one, &id).unwrap_or_default();
        let files: u64 = built.iter().filter(|one| one.directory.is_some()).map(count).sum();
        if files > 0 {
            let files = if files == 1 { "1 file is".to_owned() } else { format!("{files} files are") };
            note(&format!(
                "{files} staged by a catalog that is gone ({id}); unmount, and `tierfs rebuild --force CONFIG` takes them over"
            ));
        }
    }
}

fn tell_recovered(recovered: Recovered, note: &mut Box<dyn FnMut(&str) + Send>) {
    tracing::info!(?recovered, "recovered");
    if recovered.dirty > 0 {
        note(&format!("{} files of an earlier mount go on to their home", recovered.dirty));
    }
    if recovered.lost > 0 {
        note(&format!("{} files LOST: their staged bytes are gone; the log names them", recovered.lost));
    }
}
