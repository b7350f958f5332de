//! A mount without FUSE: a catalog, a memory tier as Blob, a directory as scratch, and a mover.
//! What a vfs would do is done here by catalog verbs and plain file calls.

use async_trait::async_trait;
use futures::StreamExt;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tierfs::catalog::{
    Catalog, Content, Defaults, Inode, Location, MoveEffect, NativeMove, NewBytes, NewInode, RenamePlan,
    Replica, WriteState, Writers,
};
use tierfs::clock::Clock;
use tierfs::data::{HotStore, MemoryBudget, Owner, StageStore};
use tierfs::error::{Kind, Result};
use tierfs::heat::Heat;
use tierfs::mover::{
    FlushReport, FlushScope, HotTier, Mover, MoverHandle, MoverParts, Recovered, Stores, queue::Limits,
};
use tierfs::policy::placement::{Conflict, Order, Promote, Rule, Rules, Subject};
use tierfs::tier::{
    Attempt, Call, DirectoryTier, Faults, Layer, MemoryTier, Object, Operation, RenameMode, Special, Tier,
    Turn,
};
use tierfs::types::{Attrs, Condition, FileKind, Ids, Ino, Invalidation, Key, TierId, Timestamp};

/// Follows tokio's (paused) time, and never stands still: two looks differ.
#[derive(Debug)]
pub struct TestClock(tokio::time::Instant, AtomicI64);

impl Clock for TestClock {
    fn wall(&self) -> Timestamp {
        let elapsed = i64::try_from(self.0.elapsed().as_nanos()).unwrap();
        Timestamp(1_700_000_000_000_000_000 + elapsed + self.1.fetch_add(1_000, Ordering::SeqCst))
    }
    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Writes down every change that the tier applied.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Arc<Mutex<Vec<(Operation, String)>>>);

#[async_trait]
impl Layer for Recorder {
    async fn around<'a, T: Send>(&self, call: Call<'a>, attempt: Attempt<'a, T>) -> Result<T> {
        let result = attempt(Turn::First).await;
        let visible = matches!(
            call.operation,
            Operation::Put
                | Operation::PutSpecial
                | Operation::Commit
                | Operation::Copy
                | Operation::Delete
                | Operation::SetAttrs
        );
        if visible && result.is_ok() {
            self.0.lock().push((call.operation, call.key.to_string()));
        }
        result
    }
}

pub struct World {
    pub clock: Arc<dyn Clock>,
    pub catalog: Arc<Catalog>,
    pub blob: Arc<dyn Tier>,
    pub blob_id: TierId,
    pub faults: Faults,
    recorder: Recorder,
    home: Arc<dyn Tier>,
    pub scratch: Arc<dyn Tier>,
    pub scratch_id: TierId,
    pub root: PathBuf,
    pub told: Arc<Mutex<Vec<Invalidation>>>,
    pub mover: Option<MoverHandle>,
    /// What a rename knows of who writes to what it replaces.
    pub writers: Writers,
    _keep: tempfile::TempDir,
}

pub const HOUR: Duration = Duration::from_secs(3600);

/// `native/**` and `native2/**` live on scratch, `kept/**` on Blob with hot copies on scratch, `loose/**` on Blob without
/// order, `barrier/**` with barriers, `runs/**` with an order for each run and names that are held, the rest on Blob.
fn rules(scratch: TierId, blob: TierId) -> Rules {
    let rule = |index, pattern: &str, home, hot: &[TierId]| Rule {
        owners: Default::default(),
        sizes: 0..=u64::MAX,
        index,
        pattern: pattern.into(),
        home,
        cold: None,
        overflow: None,
        stage: scratch,
        hot: hot.to_vec(),
        promote: Promote::Never,
        revalidate: None,
        settle: Duration::from_secs(2),
        order: match pattern {
            "loose/**" => Order::None,
            "barrier/**" => Order::Barrier,
            _ => Order::Strict,
        },
        order_by: (pattern == "runs/**").then(|| "runs/*".into()),
        hold: if pattern == "runs/**" { vec!["**/*.tmp".into(), "**/tmp-*/**".into()] } else { Vec::new() },
        write: tierfs::policy::placement::Write::Back,
        fsync: tierfs::policy::placement::Fsync::Stage,
        open_upload: None,
        hold_max: HOUR,
        conflict: Conflict::KeepBoth,
        dirty_max: None,
        keep_hot: None,
    };
    Rules::new(vec![
        rule(0, "native/**", scratch, &[]),
        rule(1, "native2/**", scratch, &[]),
        rule(2, "kept/**", blob, &[scratch]),
        rule(3, "other/**", blob, &[]),
        rule(4, "loose/**", blob, &[]),
        rule(5, "barrier/**", blob, &[]),
        rule(6, "runs/**", blob, &[]),
        rule(7, "**", blob, &[]),
    ])
    .expect("good rules")
}

impl World {
    pub async fn new() -> Self {
        let world = Self::asleep();
        world.started().await
    }

    /// The same with no mover running yet.
    pub fn asleep() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(TestClock(tokio::time::Instant::now(), AtomicI64::new(0)));
        let keep = tempfile::tempdir().expect("a temporary directory");
        let options = crate::support::tiers::options(keep.path());
        let directory = DirectoryTier::open(options, Arc::clone(&clock)).expect("a directory tier");
        directory.claim().expect("a mark");
        let scratch: Arc<dyn Tier> = Arc::new(directory);
        let blob: Arc<dyn Tier> = Arc::new(MemoryTier::new("blob", Arc::clone(&clock)));
        let (recorder, faults) = (Recorder::default(), Faults::default());
        let home = faults.layer().over(recorder.clone().over(Arc::clone(&blob)));
        let catalog = Catalog::open(&Location::Memory, Arc::clone(&clock)).expect("a catalog");
        let scratch_id = catalog.register_tier("scratch", "file:///scratch").expect("a tier").id;
        let blob_id = catalog.register_tier("blob", "az://blob").expect("a tier").id;
        Self {
            clock,
            catalog: Arc::new(catalog),
            blob,
            blob_id,
            faults,
            recorder,
            home,
            scratch,
            scratch_id,
            root: keep.path().to_owned(),
            told: Arc::default(),
            mover: None,
            writers: Writers::Maybe,
            _keep: keep,
        }
    }

    pub async fn started(mut self) -> Self {
        self.start().await;
        self
    }

    /// Starts a mover, as a daemon does at mount.
    pub async fn start(&mut self) -> Recovered {
        let told = Arc::clone(&self.told);
        let parts = MoverParts {
            catalog: Arc::clone(&self.catalog),
            tiers: HashMap::from([
                (self.scratch_id, Arc::clone(&self.scratch)),
                (self.blob_id, Arc::clone(&self.home)),
            ]),
            rules: Arc::new(rules(self.scratch_id, self.blob_id)),
            stores: self.stores(),
            heat: Arc::new(Heat::new(Arc::clone(&self.clock))),
            fullness: Default::default(),
            marks: HashMap::new(),
            clock: Arc::clone(&self.clock),
            runtime: tokio::runtime::Handle::current(),
            invalidate: Arc::new(move |invalidation| told.lock().push(invalidation)),
            is_open: Arc::new(|_| false),
            while_unwritten: Arc::new(|_, act| {
                act();
                true
            }),
            preserve: Arc::new(|_| Ok(false)),
            settle_closed: Arc::new(|| 0),
            while_names_stand: Arc::new(|_, act| act()),
            while_names_move: Arc::new(|_, act| act()),
            host: "vm1".into(),
            defaults: Defaults { uid: 0, gid: 0, file_mode: 0o644, dir_mode: 0o755 },
            limits: Limits::default(),
            blocks_in_flight: 4,
        };
        let (mover, recovered) = Mover::start(parts).await.expect("a mover");
        self.mover = Some(mover);
        recovered
    }

    fn stores(&self) -> Stores {
        let owner = Owner::this_process(self.clock.as_ref()).expect("an owner");
        // The last act of a mover that died may end, and let go of its stage, a moment after it.
        let stage = loop {
            match StageStore::claim(Arc::clone(&self.scratch), self.catalog.id(), &owner) {
                Err(error) if error.kind() == Kind::Busy => std::thread::yield_now(),
                claimed => break claimed.expect("the stage"),
            }
        };
        let store = HotStore::new(Arc::clone(&self.scratch), Arc::clone(&self.clock)).expect("a hot store");
        let hot = HotTier { store: Arc::new(store), high_water: 0.99, low_water: 0.98, counted: false };
        Stores {
            stages: HashMap::from([(self.scratch_id, Arc::new(stage))]),
            hot: HashMap::from([(self.scratch_id, hot)]),
            budget: Arc::new(MemoryBudget::new(16 << 20)),
        }
    }

    /// The daemon dies: what it did not write down is forgotten.
    pub async fn die(&mut self) {
        self.mover.take().expect("a running mover").stop().await;
    }

    pub fn mover(&self) -> &MoverHandle {
        self.mover.as_ref().expect("a running mover")
    }

    pub async fn flush(&self) -> FlushReport {
        let report = self.mover().flush(FlushScope::All, 50 * HOUR).await.expect("an answer");
        assert!(report.complete, "{report:?}, {:?}", self.mover().status());
        report
    }

    // ---- what a vfs does

    fn now(&self) -> Timestamp {
        self.clock.wall()
    }

    /// The directory of a path, made where missing, and the last name.
    pub fn parent(&self, path: &str) -> (Ino, Vec<u8>) {
        let (dirs, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut at = Ino::ROOT;
        let mut so_far = String::new();
        for dir in dirs.split('/').filter(|dir| !dir.is_empty()) {
            so_far = if so_far.is_empty() { dir.into() } else { format!("{so_far}/{dir}") };
            at = match self.catalog.lookup(at, dir.as_bytes()).unwrap() {
                Some(inode) => inode.attr.ino,
                None => self.mkdir(&so_far),
            };
        }
        (at, name.as_bytes().to_vec())
    }

    pub fn lookup(&self, path: &str) -> Option<Inode> {
        let mut at = Ino::ROOT;
        let mut found = None;
        for name in path.split('/') {
            found = self.catalog.lookup(at, name.as_bytes()).unwrap();
            at = found.as_ref()?.attr.ino;
        }
        found
    }

    pub fn ino(&self, path: &str) -> Ino {
        self.lookup(path).unwrap_or_else(|| panic!("{path} is not there")).attr.ino
    }

    fn make(&self, path: &str, kind: FileKind, target: Option<&[u8]>, bytes: NewBytes) -> Ino {
        let (parent, name) = self.parent(path);
        let new = NewInode {
            parent,
            name: &name,
            kind,
            mode: if kind == FileKind::Directory { 0o750 } else { 0o640 },
            uid: 7,
            gid: 8,
            rdev: 0,
            target,
            bytes,
            overflow: None,
            now: self.now(),
        };
        self.catalog.create(&new).expect("a new inode").attr.ino
    }

    pub fn domain(&self, path: &str) -> String {
        rules(self.scratch_id, self.blob_id).domain(Subject::new(&Key::parse(path).unwrap(), Ids::default()))
    }

    pub fn mkdir(&self, path: &str) -> Ino {
        self.make(path, FileKind::Directory, None, NewBytes::Deferred { domain: self.domain(path) })
    }

    /// A file that is written in place where its rule wants it.
    pub fn native(&self, path: &str, bytes: &[u8]) -> Ino {
        let at = self.root.join(path);
        self.parent(path);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::fs::write(&at, bytes).unwrap();
        let object = self.stat(path);
        let native = object.native.unwrap();
        let (tier, version, mtime) = (self.scratch_id, object.version.clone(), object.modified);
        let ino = self.make(path, FileKind::Regular, None, NewBytes::Native { tier, version, native, mtime });
        self.wrote(ino, path);
        ino
    }

    fn stat(&self, path: &str) -> Object {
        self.scratch.resident().unwrap().stat(&Key::parse(path).unwrap()).unwrap()
    }

    /// A write in place is closed.
    pub fn wrote(&self, ino: Ino, path: &str) {
        let object = self.stat(path);
        let (size, mtime, ctime) = (object.size, object.modified, self.now());
        let content = Content { size, blocks: size.div_ceil(512), mtime, ctime };
        self.catalog.wrote_native(ino, self.scratch_id, content, &object.version).unwrap();
    }

    /// Writes to a native file in place, as whoever has it open does.
    pub fn append_natively(&self, path: &str, bytes: &[u8]) {
        let mut file = std::fs::File::options().append(true).open(self.root.join(path)).unwrap();
        std::io::Write::write_all(&mut file, bytes).unwrap();
    }

    pub fn symlink(&self, path: &str, target: &str) -> Ino {
        let bytes = NewBytes::Deferred { domain: self.domain(path) };
        self.make(path, FileKind::Symlink, Some(target.as_bytes()), bytes)
    }

    pub fn fifo(&self, path: &str) -> Ino {
        self.make(path, FileKind::Fifo, None, NewBytes::Deferred { domain: self.domain(path) })
    }

    /// Opens a new file for writing and writes `bytes`.
    pub fn open_new(&self, path: &str, bytes: &[u8]) -> Ino {
        let ino = self.make(path, FileKind::Regular, None, NewBytes::Staged { tier: self.scratch_id });
        self.write_staged(ino, bytes);
        ino
    }

    /// Opens a known file for writing anew.
    pub fn open_again(&self, ino: Ino, bytes: &[u8]) {
        self.catalog.begin_write(ino, self.scratch_id).expect("a staged row");
        self.write_staged(ino, bytes);
    }

    pub fn staged(&self, ino: Ino) -> Option<Replica> {
        self.catalog.replicas(ino).unwrap().into_iter().find(|replica| replica.staged)
    }

    pub fn staged_path(&self, ino: Ino) -> PathBuf {
        self.root.join(self.staged(ino).expect("a staged file").key.as_path())
    }

    fn write_staged(&self, ino: Ino, bytes: &[u8]) {
        let path = self.staged_path(ino);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    pub fn close(&self, path: &str) {
        let ino = self.ino(path);
        let staged = std::fs::metadata(self.staged_path(ino)).unwrap();
        let (size, mtime) = (staged.len(), Timestamp::from_parts(staged.mtime(), staged.mtime_nsec()));
        let content = Content { size, blocks: size.div_ceil(512), mtime, ctime: self.now() };
        self.catalog.close(ino, content, &self.domain(path)).unwrap();
    }

    pub fn release(&self, path: &str) {
        self.catalog.released(self.ino(path)).unwrap();
    }

    /// Writes a file whole, new or not.
    pub fn write(&self, path: &str, bytes: &[u8]) -> Ino {
        let ino = match self.lookup(path) {
            Some(inode) => {
                self.open_again(inode.attr.ino, bytes);
                inode.attr.ino
            }
            None => self.open_new(path, bytes),
        };
        self.close(path);
        self.release(path);
        ino
    }

    pub fn rename(&self, from: &str, to: &str, mode: RenameMode) {
        self.rename_with(from, to, mode, vec![]);
    }

    /// A directory on the directory tier, which is moved there in the same call.
    pub fn rename_natively(&self, from: &str, to: &str) {
        let (key, new_key) = (Key::parse(from).unwrap(), Key::parse(to).unwrap());
        let native_ino = self.stat(from).native.unwrap().ino;
        self.rename_with(
            from,
            to,
            RenameMode::NoReplace,
            vec![NativeMove {
                tier: self.scratch_id,
                from: key,
                to: new_key,
                exchange: false,
                native_ino,
                effect: MoveEffect::PlaceToName,
            }],
        );
    }

    fn rename_with(&self, from: &str, to: &str, mode: RenameMode, moves: Vec<NativeMove>) {
        let ((parent, name), (new_parent, new_name)) = (self.parent(from), self.parent(to));
        let domain = Some(self.domain(to));
        let (writers, now) = (self.writers, self.now());
        let moves_directory = self.lookup(from).is_some_and(|inode| inode.attr.kind == FileKind::Directory);
        let domains = rules(self.scratch_id, self.blob_id);
        let (source, target) = (Key::parse(from).unwrap(), Key::parse(to).unwrap());
        let follows = moves_directory
            .then(|| domains.domains_below(&source, Subject::new(&target, Ids::default())))
            .flatten();
        let domain = if moves_directory {
            Some(domains.directory_domain(Subject::new(&target, Ids::default())))
        } else {
            domain
        };
        let preserve = Some(self.blob_id);
        let plan = RenamePlan {
            parent,
            name,
            new_parent,
            new_name,
            mode,
            moves,
            domain,
            follows,
            preserve,
            writers,
            now,
        };
        let intent = self.catalog.begin_rename(&plan).unwrap();
        for step in &plan.moves {
            let at = |key: &Key| self.root.join(key.as_path());
            std::fs::rename(at(&step.from), at(&step.to)).unwrap();
        }
        let renamed = self.catalog.finish_rename(intent, &plan).unwrap();
        if let Some(lost) = renamed.replaced.filter(|lost| lost.nlink == 0) {
            self.forget(lost.ino);
        }
    }

    pub fn link(&self, path: &str, new: &str) {
        let ((parent, name), domain) = (self.parent(new), self.domain(new));
        self.catalog.link(self.ino(path), parent, &name, None, Some(&domain), self.now()).unwrap();
    }

    pub fn unlink(&self, path: &str) {
        let (parent, name) = self.parent(path);
        let lost = self.catalog.unlink(parent, &name, &[], &self.domain(path), self.now()).unwrap();
        if lost.nlink == 0 {
            self.forget(lost.ino);
        }
    }

    fn forget(&self, ino: Ino) {
        for staged in self.catalog.drop_orphan(ino).unwrap() {
            std::fs::remove_file(self.root.join(staged.key.as_path())).unwrap();
        }
    }

    // ---- what an outsider sees

    /// Somebody else writes straight to Blob.
    pub async fn outside_put(&self, key: &str, bytes: &[u8]) {
        let attrs = Attrs::default();
        let bytes = bytes::Bytes::copy_from_slice(bytes);
        self.blob.put(&Key::parse(key).unwrap(), bytes, &attrs, &Condition::Always).await.unwrap();
    }

    pub async fn outside_marker(&self, key: &str) {
        let (key, attrs) = (Key::parse(key).unwrap(), Attrs::default());
        self.blob.put_special(&key, &Special::Directory, &attrs, &Condition::Always).await.unwrap();
    }

    /// All blobs, markers of directories with a trailing slash and symlinks with an arrow.
    pub async fn blobs(&self) -> BTreeMap<String, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut dirs = vec![Key::ROOT, Key::parse(".tierfs/moved").unwrap()];
        while let Some(dir) = dirs.pop() {
            let page = self.blob.list(&dir, b"", None, 100_000).await.unwrap();
            assert!(page.next.is_none());
            for entry in page.entries {
                let key = dir.join(&entry.name).unwrap();
                let object = entry.object;
                if object.kind == FileKind::Directory {
                    if !object.version.0.is_empty() {
                        found.insert(format!("{key}/"), vec![]);
                    }
                    dirs.push(key);
                    continue;
                }
                let mut bytes = Vec::new();
                let mut stream = self.blob.read(&key, 0..object.size, &object.version).await.unwrap();
                while let Some(part) = stream.next().await {
                    bytes.extend_from_slice(&part.unwrap());
                }
                found.insert(key.to_string(), bytes);
            }
        }
        found
    }

    /// The files among them.
    pub async fn files(&self) -> BTreeMap<String, Vec<u8>> {
        self.blobs().await.into_iter().filter(|(key, _)| !key.ends_with('/')).collect()
    }

    /// What became visible at home, in order.
    pub fn log(&self) -> Vec<(Operation, String)> {
        self.recorder.0.lock().clone()
    }

    /// Files left on the stage.
    pub fn stage_files(&self) -> Vec<PathBuf> {
        let mut left = Vec::new();
        let mut dirs = vec![self.root.join(".tierfs/stage")];
        while let Some(dir) = dirs.pop() {
            let Ok(entries) = std::fs::read_dir(dir) else { continue };
            for entry in entries.map(|entry| entry.unwrap()) {
                let path = entry.path();
                let ours = !["owner", "lock"].iter().any(|name| path.ends_with(name));
                if path.is_dir() {
                    dirs.push(path);
                } else if ours {
                    left.push(path);
                }
            }
        }
        left
    }

    /// The file is at home and only there.
    pub fn assert_clean(&self, path: &str) {
        let inode = self.lookup(path).unwrap_or_else(|| panic!("{path} is not there"));
        let replicas = self.catalog.replicas(inode.attr.ino).unwrap();
        assert_eq!(inode.state, WriteState::Clean, "{path}: {replicas:?}");
        for replica in &replicas {
            assert_eq!((replica.generation, &replica.write_id), (inode.generation, &None), "{path}");
            assert!(replica.version.is_some() && !replica.staged, "{path}: {replica:?}");
        }
        assert_eq!(replicas.len(), inode.attr.nlink as usize, "{path}: {replicas:?}");
    }
}

/// A map of keys and contents.
pub fn tree<const N: usize>(files: [(&str, &[u8]); N]) -> BTreeMap<String, Vec<u8>> {
    files.into_iter().map(|(key, bytes)| (key.to_owned(), bytes.to_vec())).collect()
}
