//! What every job of the mover works with.

use crate::catalog::{Catalog, Defaults, Observed, Replica};
use crate::clock::Clock;
use crate::error::{Error, Kind, Result};
use crate::fullness::Fullness;
use crate::heat::Heat;
use crate::mover::MoverParts;
use crate::mover::cold::InUse;
use crate::mover::evict::{Evictors, evictors};
use crate::mover::jobs::ahead::Sent;
use crate::mover::status::Counters;
use crate::mover::stores::Stores;
use crate::policy::idle::Watch;
use crate::policy::placement::{Rule, Rules, Subject};
use crate::tier::{Patience, Tier};
use crate::types::{Generation, Ino, Invalidation, Key, Seq, TierId, Timestamp, Version, Whereabouts};
use parking_lot::{Mutex, RwLock};
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, watch};

/// Tells the kernel (through whoever serves the mount) what to forget; must not block.
pub type Invalidate = Arc<dyn Fn(Invalidation) + Send + Sync>;

/// Whether any handle of an inode is open.
pub type IsOpen = Arc<dyn Fn(Ino) -> bool + Send + Sync>;

/// Runs the act while no program can open the inode or end writing to it; false, without running it, if one writes to it now.
pub type WhileUnwritten = Arc<dyn Fn(Ino, &mut dyn FnMut()) -> bool + Send + Sync>;

/// Lets a file that is closed, and still open or mapped, be committed as it was closed; false if it is no such file, or has changed.
pub type Preserve = Arc<dyn Fn(Ino) -> Result<bool> + Send + Sync>;

/// Looks at files that are closed and were not yet seen to be closed for good, because a mapping may go on writing; answers how many are left.
pub type SettleClosed = Arc<dyn Fn() -> usize + Send + Sync>;

/// Runs the act while native names on the tier and their rows stand still, or while only the act moves them.
pub type WhileNames = Arc<dyn Fn(TierId, &mut dyn FnMut()) + Send + Sync>;

/// Shared by the loop and its jobs.
pub(crate) struct Context {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) tiers: HashMap<TierId, Arc<dyn Tier>>,
    pub(crate) rules: RwLock<Arc<Rules>>,
    /// Since when, by the monotonic clock.
    pub(crate) rules_since: Mutex<Duration>,
    /// Told when they change, ...
    pub(crate) rules_changed: Notify,
    /// ... and for whoever looks for files that nobody uses.
    pub(crate) idle_rules_changed: Notify,
    /// Since when files are watched, and when that was written down last.
    pub(crate) watch: Mutex<Option<(Watch, Timestamp)>>,
    /// Files that were seen open.
    pub(crate) in_use: Mutex<InUse>,
    /// The opens of earlier mounts are known.
    pub(crate) heat_known: watch::Sender<bool>,
    /// Tells when all files have left the homes of former rules.
    pub(crate) settled_rules: watch::Sender<()>,
    pub(crate) stores: Stores,
    /// Who looks after the hot copies on each tier.
    pub(crate) evictors: Evictors,
    /// How often files are opened.
    pub(crate) heat: Arc<Heat>,
    /// Which homes are too full for new files.
    pub(crate) fullness: Arc<Fullness>,
    /// Other water marks than the stores began with.
    pub(crate) marks: RwLock<HashMap<TierId, (f64, f64)>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) runtime: Handle,
    pub(crate) invalidate: Invalidate,
    pub(crate) is_open: IsOpen,
    while_unwritten: WhileUnwritten,
    pub(crate) preserve: Preserve,
    pub(crate) settle_closed: SettleClosed,
    while_names_stand: WhileNames,
    while_names_move: WhileNames,
    pub(crate) host: String,
    pub(crate) defaults: Defaults,
    /// Blocks in flight, over all uploads.
    pub(crate) blocks: Arc<Semaphore>,
    pub(crate) counters: Counters,
    pub(crate) inodes: Locks<Ino>,
    pub(crate) keys: Locks<(TierId, Key)>,
    /// Files an earlier daemon left open for writing, with the generation it left: a
    /// later generation means that a program has opened the file here since.
    pub(crate) inherited: Mutex<HashMap<Ino, Generation>>,
    /// Committed files whose staged copy somebody can still write to, by a mapping say, and since when that is known.
    pub(crate) mapped: Mutex<HashMap<Ino, Timestamp>>,
    /// What the staged file of a committed generation was when it was sealed.
    pub(crate) sealed: Mutex<HashMap<Ino, (Generation, Version)>>,
    /// Files whose names are held no longer, because somebody waits for them.
    pub(crate) released: Mutex<HashSet<Ino>>,
    /// Files that somebody waits for, so that they are committed as they were closed though they are open.
    pub(crate) wanted: Mutex<HashSet<Ino>>,
    /// Bytes that were sent ahead of the turn of their step.
    pub(crate) sent: Mutex<HashMap<Seq, Sent>>,
    /// Files whose newest bytes are gone from their stage.
    pub(crate) lost: Mutex<Vec<Lost>>,
    /// Moves of directories whose dirty files have been described anew.
    pub(crate) described_moves: AtomicU64,
    /// Blocking tasks that run.
    blocking: watch::Sender<usize>,
}

/// A file whose newest bytes are gone: its staged file vanished behind the daemon's back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The file.
    pub ino: Ino,
    /// One of its paths.
    pub path: Option<Key>,
    /// Where the bytes should be.
    pub tier: TierId,
    /// Under which key.
    pub key: Key,
}

fn within<T>(run: &WhileNames, tier: TierId, act: impl FnOnce() -> Result<T>) -> Result<T> {
    let (mut act, mut result) = (Some(act), None);
    run(tier, &mut || result = act.take().map(|act| act()));
    result.unwrap_or_else(|| Err(Error::new(Kind::Interrupted, "the mount is going")))
}

impl Context {
    pub(crate) fn new(parts: MoverParts) -> Self {
        Self {
            catalog: parts.catalog,
            tiers: parts.tiers,
            rules: RwLock::new(parts.rules),
            evictors: evictors(&parts.stores.hot),
            stores: parts.stores,
            marks: RwLock::new(parts.marks),
            fullness: parts.fullness,
            heat: parts.heat,
            rules_since: Mutex::new(parts.clock.monotonic()),
            rules_changed: Notify::new(),
            idle_rules_changed: Notify::new(),
            watch: Mutex::default(),
            in_use: Mutex::default(),
            heat_known: watch::Sender::new(false),
            settled_rules: watch::Sender::new(()),
            clock: parts.clock,
            runtime: parts.runtime,
            invalidate: parts.invalidate,
            is_open: parts.is_open,
            while_unwritten: parts.while_unwritten,
            preserve: parts.preserve,
            settle_closed: parts.settle_closed,
            while_names_stand: parts.while_names_stand,
            while_names_move: parts.while_names_move,
            host: parts.host,
            defaults: parts.defaults,
            blocks: Arc::new(Semaphore::new(parts.blocks_in_flight.max(1))),
            counters: Counters::default(),
            inodes: Locks::default(),
            keys: Locks::default(),
            inherited: Mutex::default(),
            mapped: Mutex::default(),
            sealed: Mutex::default(),
            released: Mutex::default(),
            wanted: Mutex::default(),
            sent: Mutex::default(),
            lost: Mutex::default(),
            described_moves: AtomicU64::new(0),
            blocking: watch::Sender::new(0),
        }
    }

    /// The tier of a row.
    pub(crate) fn tier(&self, id: TierId) -> Result<Arc<dyn Tier>> {
        self.tiers.get(&id).cloned().ok_or_else(|| {
            Error::new(Kind::Absent, format!("tier number {} is not in the config any more", id.0))
        })
    }

    /// The rules as they are now.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read())
    }

    /// The rule for what somebody owns at `path`, or for the file of these whereabouts.
    pub(crate) fn rule(&self, path: &Key, whereabouts: impl Into<Whereabouts>) -> Arc<Rule> {
        Arc::clone(self.rules.read().rule(Subject::new(path, whereabouts)))
    }

    /// Order domain of a path of this inode, which is no directory.
    pub(crate) fn domain(&self, ino: Ino, path: &Key) -> Result<String> {
        let ids = self.catalog.inode(ino)?.attr.ids();
        Ok(self.rules.read().domain(Subject::new(path, ids)))
    }

    /// Runs `act` while no program can open `ino` or end writing to it; `None` if one writes to it now.
    pub(crate) fn unwritten<T>(&self, ino: Ino, act: impl FnOnce() -> T) -> Option<T> {
        let (mut act, mut result) = (Some(act), None);
        (self.while_unwritten)(ino, &mut || result = act.take().map(|act| act()));
        result
    }

    /// Runs `act` while no rename puts anything under a native key of `tier`.
    pub(crate) fn names_stand<T>(&self, tier: TierId, act: impl FnOnce() -> Result<T>) -> Result<T> {
        within(&self.while_names_stand, tier, act)
    }

    /// Runs `act`, which moves native names of `tier` and then their rows: a look in between would take them for gone.
    pub(crate) fn names_move<T>(&self, tier: TierId, act: impl FnOnce() -> Result<T>) -> Result<T> {
        within(&self.while_names_move, tier, act)
    }

    /// Runs what may wait for a disk (system calls on a tier, synced catalog commits) off the runtime's threads.
    pub(crate) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let context = Arc::clone(self);
        let running = Running::new(&self.blocking);
        let task = move || {
            // A tier that does not answer must not keep the thread that others need: the job comes back later.
            let result = Patience::Brief.during(|| work(&context));
            drop(context);
            drop(running);
            result
        };
        match self.runtime.spawn_blocking(task).await {
            Ok(result) => result,
            Err(error) => {
                Err(Error::new(Kind::Interrupted, "a blocking task of the mover ended early")
                    .with_source(error))
            }
        }
    }

    /// Waits until no blocking task runs: whoever dropped a job can't drop those.
    pub(crate) async fn quiet(&self) {
        // The sender lives in self.
        let _ = self.blocking.subscribe().wait_for(|running| *running == 0).await;
    }

    /// Passes on what an observation changed.
    pub(crate) fn announce(&self, observed: &Observed) {
        for (parent, name, _) in &observed.entries {
            (self.invalidate)(Invalidation::Entry { parent: *parent, name: name.clone() });
        }
        for ino in &observed.contents {
            (self.invalidate)(Invalidation::Inode(*ino));
        }
    }

    /// Remembers, loudly, that the newest bytes of `ino` are gone.
    pub(crate) fn note_lost(&self, ino: Ino, replica: &Replica) {
        let mut lost = self.lost.lock();
        if lost.iter().any(|known| known.ino == ino) || lost.len() >= MAX_LOST {
            return;
        }
        let path = self.catalog.path(ino).unwrap_or_default();
        let shown = path.as_ref().map_or_else(|| format!("inode {ino}"), ToString::to_string);
        tracing::error!(path = %shown, key = %replica.key, "LOST: the staged file is gone; reads fail until the file is written again or deleted");
        lost.push(Lost { ino, path, tier: replica.tier, key: replica.key.clone() });
    }
}

/// Counts a blocking task while it lives.
struct Running(watch::Sender<usize>);

impl Running {
    fn new(count: &watch::Sender<usize>) -> Self {
        count.send_modify(|running| *running += 1);
        Self(count.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}

/// Lost files listed one by one; beyond that they are still refused and logged as blocked steps.
const MAX_LOST: usize = 10_000;

/// Which things are in work. Never waited for: who finds one taken comes back later, so two
/// jobs can't wait for each other.
#[derive(Debug)]
pub(crate) struct Locks<T>(Arc<Mutex<HashSet<T>>>);

impl<T> Default for Locks<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Eq + Hash + Clone> Locks<T> {
    /// Takes `what`, or says that another job has it.
    pub(crate) fn take(&self, what: &T) -> Result<Guard<T>> {
        if self.0.lock().insert(what.clone()) {
            return Ok(Guard(Arc::clone(&self.0), what.clone()));
        }
        Err(Error::new(Kind::Busy, "another job of the mover works on it"))
    }
}

/// Gives back what [`Locks::take`] took.
#[derive(Debug)]
pub(crate) struct Guard<T: Eq + Hash>(Arc<Mutex<HashSet<T>>>, T);

impl<T: Eq + Hash> Drop for Guard<T> {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
    }
}
