//! A whole tierfs without a kernel: scratch and share are directories in memory, Blob a memory tier. It can be killed and
//! started again. The mover works only while it is told to.

use super::calls::Calls;
use super::power;
use crate::support::tiers::{memory_dir, options};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tierfs::catalog::{Catalog, Defaults, Location, Reason};
use tierfs::clock::{Clock, ManualClock};
use tierfs::data::{HotStore, MemoryBudget, Owner, StageStore, Streams};
use tierfs::fullness::Fullness;
use tierfs::heat::Heat;
use tierfs::mover::{FlushReport, FlushScope, HotTier, Mover, MoverHandle, MoverParts, MoverStatus, Stores};
use tierfs::policy::placement::{Cold, Conflict, Order, Overflow, Promote, Rule, Rules};
use tierfs::tier::{DirectoryTier, Layer, MemoryTier, Special, Tier, Tiers};
use tierfs::types::{Attrs, Condition, FileKind, Ino, Key, Seq, TierId, Timestamp};
use tierfs::vfs::{Facts, IoMode, Parts, Vfs};
use tokio::runtime::Runtime;

const WINDOW: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_secs(1);
/// Within which a flush must end, with all its back-offs.
const PATIENCE: Duration = Duration::from_secs(300);

struct NoFacts;

impl Facts for NoFacts {
    fn control(&self) -> Vec<u8> {
        Vec::new()
    }
    fn status(&self) -> Vec<u8> {
        Vec::new()
    }
}

/// As any real clock, it never tells the same moment twice.
#[derive(Debug)]
struct Running(ManualClock);

impl Clock for Running {
    fn wall(&self) -> Timestamp {
        self.0.advance(Duration::from_nanos(1));
        self.0.wall()
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }
}

pub struct World {
    pub clock: ManualClock,
    pub calls: Calls,
    pub away: Away,
    fullness: Arc<Fullness>,
    blobs: MemoryTier,
    root: tempfile::TempDir,
    /// Catalogs there have been.
    catalogs: u32,
    /// How often the machine was started.
    boots: u32,
    /// From this size on a file is staged in part.
    partial_from: u64,
    live: Option<Live>,
}

/// What dies with the daemon.
struct Live {
    vfs: Arc<Vfs>,
    catalog: Arc<Catalog>,
    mover: MoverHandle,
    /// Only what programs wait for.
    reading: Runtime,
    /// Only the mover: it stands still while programs work.
    moving: Runtime,
}

/// Which files of the share are on Blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Away {
    Nobody,
    /// Those that nobody has used for [`UNUSED`].
    Unused,
    /// Those that were new while the share was full.
    New,
}

/// What counts as long.
const UNUSED: Duration = Duration::from_secs(3600);

/// Ids of scratch, share and Blob.
#[derive(Clone, Copy)]
struct Ids(TierId, TierId, TierId);

fn rules(Ids(scratch, share, blob): Ids, away: Away) -> Rules {
    let cold = Cold { tier: blob, idle: UNUSED, revalidate: Some(WINDOW) };
    let overflow = Overflow { tier: blob, stage: scratch, revalidate: Some(WINDOW) };
    let rule = |index, pattern: &str, home, stage, hot: &[TierId]| Rule {
        owners: Default::default(),
        sizes: 0..=u64::MAX,
        index,
        pattern: pattern.into(),
        home,
        cold: (away == Away::Unused && home == share).then_some(cold),
        overflow: (away == Away::New && home == share).then_some(overflow),
        stage,
        hot: hot.to_vec(),
        promote: Promote::OnRead,
        revalidate: Some(WINDOW),
        settle: Duration::from_secs(2),
        order: Order::default(),
        order_by: None,
        hold: Vec::new(),
        write: tierfs::policy::placement::Write::Back,
        fsync: tierfs::policy::placement::Fsync::Stage,
        open_upload: None,
        hold_max: Duration::MAX,
        conflict: Conflict::default(),
        dirty_max: None,
        keep_hot: None,
    };
    let rules = vec![
        rule(0, "k/**", blob, scratch, &[scratch]),
        rule(1, "h/**", share, share, &[]),
        rule(2, "**", scratch, scratch, &[]),
    ];
    Rules::new(rules).expect("good rules")
}

/// Works by itself: programs wait for it.
fn reading() -> Runtime {
    let builder = &mut tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().expect("a runtime")
}

/// Works only while it is waited for, and sleeps no longer than it must.
fn moving() -> Runtime {
    let builder = &mut tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().expect("a runtime")
}

const DEFAULTS: Defaults = Defaults { uid: 0, gid: 0, file_mode: 0o644, dir_mode: 0o755 };

impl World {
    pub fn new(away: Away, partial_from: u64) -> Self {
        power::watch();
        // Ahead of the file system's clock, as if the machine's were: files never seem to come from later.
        let now = Timestamp::from(std::time::SystemTime::now());
        let clock = ManualClock::new(Timestamp(now.0 + 3_600_000_000_000));
        let blobs = MemoryTier::new("blob", Arc::new(clock.clone()));
        let root = tempfile::tempdir_in(memory_dir()).expect("a temporary directory");
        for tier in ["scratch", "share"] {
            std::fs::create_dir(root.path().join(tier)).expect("mkdir");
        }
        let mut world = Self {
            clock,
            calls: Calls::default(),
            away,
            fullness: Arc::default(),
            blobs,
            root,
            catalogs: 1,
            boots: 1,
            partial_from,
            live: None,
        };
        world.start();
        world
    }

    pub fn vfs(&self) -> &Vfs {
        &self.live().vfs
    }

    pub fn catalog(&self) -> &Catalog {
        &self.live().catalog
    }

    pub fn runtime(&self) -> &Runtime {
        &self.live().reading
    }

    fn live(&self) -> &Live {
        self.live.as_ref().expect("a daemon")
    }

    fn start(&mut self) {
        let (reading, moving) = (reading(), moving());
        let clock: Arc<dyn Clock> = Arc::new(Running(self.clock.clone()));
        let location = Location::Sqlite(self.catalog_path());
        let catalog = Arc::new(Catalog::open(&location, clock.clone()).expect("a catalog"));
        let id = |name: &str| catalog.register_tier(name, name).expect("a tier").id;
        let ids = Ids(id("scratch"), id("share"), id("blob"));
        let (scratch, share) = (self.directory("scratch"), self.directory("share"));
        let blob = self.calls.clone().over(Arc::new(self.blobs.clone()));
        let tiers = Tiers::new(vec![(ids.0, scratch.clone()), (ids.1, share.clone()), (ids.2, blob)]);
        let tiers = Arc::new(tiers);
        let mut owner = Owner::this_process(clock.as_ref()).expect("an owner");
        owner.boot_id = format!("boot {}", self.boots);
        let stage = |tier: &Arc<dyn Tier>| {
            Arc::new(StageStore::claim(tier.clone(), catalog.id(), &owner).expect("the stage"))
        };
        let stages = HashMap::from([(ids.0, stage(&scratch)), (ids.1, stage(&share))]);
        let hot = Arc::new(HotStore::new(scratch.clone(), clock.clone()).expect("a hot store"));
        let streams = Streams::new(MemoryBudget::new(16 << 20), reading.handle().clone());
        let rules = Arc::new(rules(ids, self.away));
        let heat = Arc::new(Heat::new(clock.clone()));
        let vfs = Arc::new(Vfs::new(Parts {
            catalog: catalog.clone(),
            tiers: tiers.clone(),
            rules: rules.clone(),
            stages: stages.clone(),
            hots: HashMap::from([(ids.0, hot.clone())]),
            streams: streams.clone(),
            heat: heat.clone(),
            fullness: self.fullness.clone(),
            clock: clock.clone(),
            runtime: reading.handle().clone(),
            invalidate: Arc::new(|_| ()),
            defaults: DEFAULTS,
            mode: IoMode::Ordinary,
            sweepers: self.onlookers(),
            room: Default::default(),
            at_home: Arc::new(|_, _| Box::pin(async { Ok(()) })),
            partial_from: self.partial_from,
            blob_size: 1 << 40,
            facts: Arc::new(NoFacts),
        }));
        let (opened, written) = (vfs.clone(), vfs.clone());
        let (renamed, alone) = (vfs.clone(), vfs.clone());
        let parts = MoverParts {
            catalog: catalog.clone(),
            tiers: tiers.iter().map(|(id, tier)| (id, tier.clone())).collect(),
            rules,
            stores: Stores {
                stages,
                hot: HashMap::from([(
                    ids.0,
                    HotTier { store: hot, high_water: 0.99, low_water: 0.98, counted: false },
                )]),
                budget: Arc::new(streams.budget().clone()),
            },
            heat,
            fullness: self.fullness.clone(),
            marks: HashMap::new(),
            clock,
            runtime: moving.handle().clone(),
            invalidate: Arc::new(|_| ()),
            is_open: Arc::new(move |ino| opened.is_open(ino)),
            while_unwritten: Arc::new(move |ino, act| written.while_unwritten(ino, act)),
            preserve: Arc::new(|_| Ok(false)),
            settle_closed: Arc::new(|| 0),
            while_names_stand: Arc::new(move |tier, act| renamed.while_names_stand(tier, act)),
            while_names_move: Arc::new(move |tier, act| alone.while_names_move(tier, act)),
            host: "vm1".into(),
            defaults: DEFAULTS,
            limits: Default::default(),
            blocks_in_flight: 4,
        };
        let (mover, _) = moving.block_on(Mover::start(parts)).expect("a mover");
        self.live = Some(Live { vfs, catalog, mover, reading, moving });
    }

    /// Whoever only looks at everything, to compare it, uses nothing.
    fn onlookers(&self) -> Vec<String> {
        match self.away {
            Away::Nobody | Away::New => Vec::new(),
            Away::Unused => {
                let own = std::fs::read_to_string("/proc/self/comm").expect("a name");
                vec![own.trim_end().to_owned()]
            }
        }
    }

    fn directory(&self, name: &str) -> Arc<dyn Tier> {
        let clock = Arc::new(self.clock.clone());
        let tier = DirectoryTier::open(options(&self.root.path().join(name)), clock).expect("a tier");
        tier.claim().expect("a mark");
        Arc::new(tier)
    }

    fn catalog_path(&self) -> PathBuf {
        self.root.path().join(format!("catalog-{}", self.catalogs))
    }

    /// The daemon is killed, and starts again with the rows that were in its catalog's files.
    pub fn crash(&mut self) {
        let before = self.catalog_path();
        let (rows, synced) = self.bury(|| {
            let rows = files_of(&before);
            let durable = power::durable();
            let synced = rows.iter().map(|(suffix, _)| power::of(&beside(&before, suffix), &durable));
            let synced: Vec<_> = synced.collect();
            (rows, synced)
        });
        self.catalogs += 1;
        for ((suffix, bytes), synced) in rows.into_iter().zip(synced) {
            let path = beside(&self.catalog_path(), suffix);
            std::fs::write(&path, bytes).expect("a copy");
            power::inherit(&path, synced);
        }
        self.start();
        // What it made good is older than what it looks at then.
        self.clock.advance(Duration::from_millis(1));
    }

    /// All that was written so far is durable.
    pub fn write_back(&self) {
        self.vfs().fsync_directory(tierfs::types::Ino::ROOT).expect("an fsync");
        walk(self.root.path(), &mut |path, is_dir| {
            if !is_dir {
                power::settle(path);
            }
        });
    }

    /// The machine loses its power, and starts again with what was durable, or by `chance` had been written back. Native files that `is_kept`
    /// stay as they are.
    pub fn lose_power(&mut self, chance: u8, is_kept: &dyn Fn(&str, &[u8]) -> bool) {
        let before = self.catalog_path();
        let (durable, rows) = self.bury(|| {
            let durable = power::durable();
            // A batch may be committed meanwhile: what is read first is never newer than what is read then.
            let rows = ["", "-wal"]
                .map(|suffix| beside(&before, suffix))
                .map(|path| path.exists().then(|| power::left(&path, &durable, chance)));
            (durable, rows)
        });
        self.boots += 1;
        self.catalogs += 1;
        for (suffix, bytes) in ["", "-wal"].into_iter().zip(rows) {
            if let Some(bytes) = bytes {
                let path = beside(&self.catalog_path(), suffix);
                std::fs::write(&path, bytes).expect("a copy");
                power::settle(&path);
            }
        }
        for tier in ["scratch", "share"] {
            walk(&self.root.path().join(tier), &mut |path, is_dir| {
                if is_dir || path.is_symlink() {
                    return;
                }
                let bytes = std::fs::read(path).expect("bytes");
                let left = power::left(path, &durable, chance);
                let name = path.strip_prefix(self.root.path().join(tier)).expect("below").to_string_lossy();
                if bytes != left && !is_kept(&name, &bytes) {
                    std::fs::write(path, left).expect("what is left");
                }
                power::settle(path);
            });
        }
        self.start();
    }

    /// The daemon ends and its catalog is gone.
    pub fn lose_catalog(&mut self) {
        self.bury(|| ());
        self.catalogs += 1;
        self.start();
    }

    /// Ends the daemon; `look` sees what its catalog has.
    fn bury<T>(&mut self, look: impl FnOnce() -> T) -> T {
        let Live { vfs, catalog, mover, reading, moving } = self.live.take().expect("a daemon");
        // Whatever waits in the mover is dropped where it is. A system call and the row after it are waited for: what is done on a tier
        // after a look at the catalog could not come before what that had still to write.
        drop((mover, moving));
        let seen = look();
        drop((vfs, catalog, reading));
        self.calls.let_go();
        seen
    }

    // ---- the mover

    /// Everything goes home; no report if a call is held first, or something stays open.
    pub fn flush(&self) -> Option<FlushReport> {
        let Live { mover, moving, .. } = self.live();
        moving.block_on(async {
            tokio::select! {
                biased;
                () = self.calls.held() => None,
                report = mover.flush(FlushScope::All, 100 * PATIENCE) => Some(report.expect("an answer")),
                () = self.time(PATIENCE) => None,
            }
        })
    }

    /// Nobody uses anything for long, and what may go does, unless a call is held first.
    pub fn cool(&self) {
        self.clock.advance(2 * UNUSED);
        let Live { mover, moving, .. } = self.live();
        moving.block_on(async {
            tokio::select! {
                biased;
                () = self.calls.held() => {}
                sent = mover.send_unused() => drop(sent.expect("a walk")),
                () = self.time(PATIENCE) => {}
            }
        });
    }

    /// The share is full from now on.
    pub fn fill(&self) {
        let share = self.catalog().register_tier("share", "share").expect("a tier").id;
        self.fullness.refused(share, Duration::MAX / 2);
    }

    /// The share has room again, and what was elsewhere comes home, unless a call is held first.
    pub fn make_room(&self) {
        self.fullness.keep(&[]);
        let Live { mover, moving, .. } = self.live();
        moving.block_on(async {
            mover.look_at_homes().await.expect("a look");
            tokio::select! {
                biased;
                () = self.calls.held() => {}
                () = self.time(5 * TICK) => {}
            }
        });
    }

    /// Whether no file is on its way to where nobody uses it, or back.
    pub fn is_calm(&self) -> bool {
        let count = |reason| self.catalog().count_away(reason).expect("a count");
        count(Reason::Going) + count(Reason::Returning) == 0
    }

    /// The files that are, and their copies.
    pub fn on_the_way(&self) -> Vec<String> {
        let catalog = self.catalog();
        let all = [Reason::Going, Reason::Returning]
            .map(|reason| catalog.away(reason, Ino(0), 100).expect("a list"));
        let tell = |ino: Ino| {
            let (inode, replicas) =
                (catalog.inode(ino).expect("a row"), catalog.replicas(ino).expect("copies"));
            let copies: Vec<_> = replicas
                .iter()
                .map(|r| (r.tier, r.key.to_string(), r.generation, &r.version, r.staged))
                .collect();
            format!(
                "{:?} {:?} {:?} {:?} {copies:?}",
                catalog.path(ino),
                inode.state,
                inode.generation,
                inode.away
            )
        };
        all.into_iter().flatten().map(tell).collect()
    }

    /// Some seconds pass, in which the mover may work.
    pub fn wait(&self) {
        self.live().moving.block_on(self.time(5 * TICK));
    }

    /// The mover comes some way, wherever that is: it stops between any two of its calls.
    pub fn nudge(&self, steps: u8) {
        self.clock.advance(5 * TICK);
        self.live().mover.wake();
        self.live().moving.block_on(async {
            for _ in 0..u32::from(steps) * 16 {
                std::thread::yield_now();
                tokio::task::yield_now().await;
            }
        });
    }

    async fn time(&self, long: Duration) {
        let end = self.clock.monotonic() + long;
        while self.clock.monotonic() < end {
            tokio::time::sleep(TICK).await;
            self.clock.advance(TICK);
            self.live().mover.wake();
        }
    }

    /// Whoever looks now asks the tiers.
    pub fn pass_window(&self) {
        self.clock.advance(WINDOW + TICK);
    }

    pub fn mover_status(&self) -> MoverStatus {
        self.live().mover.status().expect("a status")
    }

    pub fn is_quiet(&self) -> bool {
        self.catalog().steps(Seq(0), 1).expect("steps").is_empty()
    }

    // ---- what an outsider sees and does

    pub fn native(&self, path: &str) -> PathBuf {
        let tier = if path == "h" || path.starts_with("h/") { "share" } else { "scratch" };
        self.root.path().join(tier).join(path)
    }

    /// Somebody else writes a file on a directory tier, and syncs it.
    pub fn native_put(&self, path: &str, bytes: &[u8]) {
        std::fs::write(self.native(path), bytes).expect("a write");
        power::settle(&self.native(path));
    }

    pub fn blob_put(&self, path: &str, bytes: &[u8], mode: u32) {
        let (key, attrs) = (key(path), Attrs { mode: Some(mode), ..Attrs::default() });
        let bytes = bytes::Bytes::copy_from_slice(bytes);
        self.runtime().block_on(self.blobs.put(&key, bytes, &attrs, &Condition::Always)).expect("a put");
    }

    pub fn blob_marker(&self, path: &str) {
        let (key, attrs) = (key(path), Attrs::default());
        let put = self.blobs.put_special(&key, &Special::Directory, &attrs, &Condition::Always);
        self.runtime().block_on(put).expect("a marker");
    }

    pub fn blob_delete(&self, path: &str) {
        self.runtime().block_on(self.blobs.delete(&key(path), &Condition::Always)).expect("a delete");
    }

    /// Everything on Blob: bytes of files, nothing of directories.
    pub fn blob_layout(&self) -> BTreeMap<String, Option<String>> {
        let (mut found, mut dirs) = (BTreeMap::new(), vec![Key::ROOT]);
        while let Some(dir) = dirs.pop() {
            let page = self.runtime().block_on(self.blobs.list(&dir, b"", None, 10_000)).expect("a page");
            for entry in page.entries {
                let key = dir.join(&entry.name).expect("a key");
                if entry.object.kind == FileKind::Directory {
                    found.insert(key.to_string(), None);
                    dirs.push(key);
                } else {
                    let bytes = self.runtime().block_on(read(&self.blobs, &key, &entry.object));
                    found.insert(key.to_string(), Some(super::tree::text(&bytes)));
                }
            }
        }
        found
    }

    /// Everything on a directory tier but what tierfs keeps there for itself.
    pub fn directory_layout(&self, tier: &str) -> BTreeMap<String, Option<String>> {
        let root = self.root.path().join(tier);
        let mut found = BTreeMap::new();
        walk(&root, &mut |path, is_dir| {
            let name = path.strip_prefix(&root).expect("below").to_str().expect("text").to_owned();
            if name.starts_with(".tierfs") {
                return;
            }
            let bytes = (!is_dir).then(|| super::tree::text(&std::fs::read(path).expect("a file")));
            found.insert(name, bytes);
        });
        found
    }

    /// Files that are left on the stages.
    pub fn staged(&self) -> Vec<PathBuf> {
        let mut left = Vec::new();
        for tier in ["scratch", "share"] {
            walk(&self.root.path().join(tier).join(".tierfs/stage"), &mut |path, is_dir| {
                let ours = ["owner", "lock"].iter().any(|name| path.ends_with(name));
                if !is_dir && !ours {
                    left.push(path.to_owned());
                }
            });
        }
        left
    }

    /// Somebody needs the space of all hot copies.
    pub fn drop_hot(&self) {
        walk(&self.root.path().join("scratch/.tierfs/hot"), &mut |path, is_dir| {
            if !is_dir {
                std::fs::remove_file(path).expect("a removal");
            }
        });
    }
}

pub fn key(path: &str) -> Key {
    Key::parse(path).expect("a key")
}

async fn read(tier: &MemoryTier, key: &Key, object: &tierfs::tier::Object) -> Vec<u8> {
    use futures::TryStreamExt;
    let stream = tier.read(key, 0..object.size, &object.version).await.expect("a stream");
    let parts: Vec<bytes::Bytes> = stream.try_collect().await.expect("bytes");
    parts.concat()
}

/// Visits everything below a directory, if there is one.
fn walk(root: &Path, visit: &mut dyn FnMut(&Path, bool)) {
    let Ok(entries) = std::fs::read_dir(root) else { return };
    for entry in entries {
        let path = entry.expect("an entry").path();
        let is_dir = path.is_dir();
        if is_dir {
            walk(&path, visit);
        }
        visit(&path, is_dir);
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// A catalog's files as they are now. Its batch may be committed meanwhile.
fn files_of(catalog: &Path) -> Vec<(&'static str, Vec<u8>)> {
    let log = || std::fs::read(beside(catalog, "-wal")).unwrap_or_default();
    loop {
        let before = log();
        let table = std::fs::read(catalog).expect("a catalog");
        if log() == before {
            return vec![("", table), ("-wal", before)];
        }
    }
}
