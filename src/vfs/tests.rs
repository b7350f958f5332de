//! The vfs without a kernel and without a mover: a catalog in memory, directories as scratch and share, a
//! memory tier as Blob whose calls can be made to fail, and a clock that tests move.

mod listing;
mod names;
mod outside;
mod partial;
mod writing;

use super::*;
use crate::catalog::{Inode, Location, Replica, WriteState};
use crate::clock::ManualClock;
use crate::data::{MemoryBudget, Owner};
use crate::policy::placement::{Conflict, Order, Promote, Rule};
use crate::tier::{
    DirectoryKind, DirectoryOptions, DirectoryTier, Faults, Layer, MemoryTier, RenameMode, Restricted, Tier,
    Writing,
};
use crate::types::{Attrs, Condition, Key, Timestamp};
use parking_lot::Mutex;
use std::path::PathBuf;

const ME: Caller = Caller { uid: 0, gid: 0, pid: 0, wait: Wait::Allowed };
const SCRATCH_WINDOW: Duration = Duration::from_secs(1);
const BLOB_WINDOW: Duration = Duration::from_secs(60);

struct NoFacts;

impl Facts for NoFacts {
    fn control(&self) -> Vec<u8> {
        Vec::new()
    }
    fn status(&self) -> Vec<u8> {
        Vec::new()
    }
}

struct Bed {
    vfs: Vfs,
    clock: ManualClock,
    catalog: Arc<Catalog>,
    scratch: TierId,
    blob: TierId,
    blobs: MemoryTier,
    faults: Faults,
    told: Arc<Mutex<Vec<Invalidation>>>,
    root: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
}

/// `b/**` lives on Blob, `k/**` too with hot copies on scratch, `h/**` on the share, `p/**` on a poor one, the rest on
/// scratch.
fn rules(scratch: TierId, share: TierId, poor: TierId, blob: TierId) -> Rules {
    let rule = |index, pattern: &str, home, stage, hot: &[TierId], window| Rule {
        owners: Default::default(),
        sizes: 0..=u64::MAX,
        index,
        pattern: pattern.into(),
        home,
        cold: None,
        overflow: None,
        stage,
        hot: hot.to_vec(),
        promote: Promote::Never,
        revalidate: Some(window),
        settle: Duration::ZERO,
        order: Order::default(),
        order_by: None,
        hold: Vec::new(),
        write: crate::policy::placement::Write::Back,
        fsync: crate::policy::placement::Fsync::Stage,
        open_upload: None,
        hold_max: Duration::MAX,
        conflict: Conflict::default(),

        dirty_max: None,
        keep_hot: None,
    };
    Rules::new(vec![
        rule(0, "b/**", blob, scratch, &[], BLOB_WINDOW),
        rule(1, "k/**", blob, scratch, &[scratch], BLOB_WINDOW),
        rule(2, "h/**", share, share, &[], SCRATCH_WINDOW),
        rule(3, "p/**", poor, scratch, &[], SCRATCH_WINDOW),
        rule(4, "**", scratch, scratch, &[], SCRATCH_WINDOW),
    ])
    .unwrap()
}

fn directory(root: &std::path::Path, name: &str, clock: &Arc<dyn Clock>) -> Arc<dyn Tier> {
    let path = root.join(name);
    std::fs::create_dir(&path).unwrap();
    let options = DirectoryOptions {
        name: name.into(),
        kind: DirectoryKind::Local,
        path,
        capacity: None,
        expected: None,
        writing: Writing::Allowed,
        deadline: Duration::from_secs(60),
    };
    let tier = DirectoryTier::open(options, clock.clone()).unwrap();
    tier.claim().unwrap();
    Arc::new(tier)
}

impl Bed {
    fn new() -> Self {
        Self::with_mode(IoMode::Ordinary)
    }

    fn with_mode(mode: IoMode) -> Self {
        // Ahead of the file system's clock, as if the machine's were: files never seem to come from later.
        let now = Timestamp::from(std::time::SystemTime::now());
        let manual = ManualClock::new(Timestamp(now.0 + 3_600_000_000_000));
        let clock: Arc<dyn Clock> = Arc::new(manual.clone());
        let root = tempfile::tempdir().unwrap();
        let catalog = Arc::new(Catalog::open(&Location::Memory, clock.clone()).unwrap());
        let id = |name| catalog.register_tier(name, name).unwrap().id;
        let (scratch, share, blob, poor) = (id("scratch"), id("share"), id("blob"), id("poor"));
        let scratch_tier = directory(root.path(), "scratch", &clock);
        let share_tier = directory(root.path(), "share", &clock);
        let poor_tier: Arc<dyn Tier> = Arc::new(Restricted::new(directory(root.path(), "poor", &clock)));
        let blobs = MemoryTier::new("blob", clock.clone());
        let faults = Faults::default();
        let blob_tier = faults.layer().over(Arc::new(blobs.clone()));
        let owner = Owner::this_process(clock.as_ref()).unwrap();
        let stage =
            |tier: &Arc<dyn Tier>| Arc::new(StageStore::claim(tier.clone(), catalog.id(), &owner).unwrap());
        let stages = HashMap::from([(scratch, stage(&scratch_tier)), (share, stage(&share_tier))]);
        let hot = HotStore::new(scratch_tier.clone(), clock.clone()).unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let told: Arc<Mutex<Vec<Invalidation>>> = Arc::default();
        let sink = told.clone();
        let vfs = Vfs::new(Parts {
            catalog: catalog.clone(),
            tiers: Arc::new(Tiers::new(vec![
                (scratch, scratch_tier),
                (share, share_tier),
                (blob, blob_tier),
                (poor, poor_tier),
            ])),
            rules: Arc::new(rules(scratch, share, poor, blob)),
            stages,
            hots: HashMap::from([(scratch, Arc::new(hot))]),
            streams: Streams::new(MemoryBudget::new(16 << 20), runtime.handle().clone()),
            fullness: Default::default(),
            heat: Arc::new(Heat::new(clock.clone())),
            clock,
            runtime: runtime.handle().clone(),
            invalidate: Arc::new(move |what| sink.lock().push(what)),
            defaults: Defaults { uid: 0, gid: 0, file_mode: 0o644, dir_mode: 0o755 },
            mode,
            sweepers: Vec::new(),
            room: Default::default(),
            at_home: Arc::new(|_, _| Box::pin(async { Ok(()) })),
            partial_from: PARTIAL_FROM,
            blob_size: 1 << 40,
            facts: Arc::new(NoFacts),
        });
        let bed = Self { vfs, clock: manual, catalog, scratch, blob, blobs, faults, told, root, runtime };
        for dir in ["b", "k", "h", "p"] {
            bed.mkdir(dir);
        }
        for dir in ["b", "k"] {
            bed.make_marker(dir);
        }
        bed.pass(SCRATCH_WINDOW);
        bed
    }

    fn pass(&self, time: Duration) {
        self.clock.advance(time + Duration::from_millis(1));
    }

    // ---- what programs do

    fn ino(&self, path: &str) -> Ino {
        self.find(path).unwrap()
    }

    fn find(&self, path: &str) -> Result<Ino> {
        self.vfs.resolve(&ME, &Key::parse(path).unwrap())
    }

    fn kind_of(&self, path: &str) -> Kind {
        self.find(path).unwrap_err().kind()
    }

    fn end<'a>(&self, path: &'a str) -> (Ino, &'a [u8]) {
        match path.rsplit_once('/') {
            Some((parent, name)) => (self.ino(parent), name.as_bytes()),
            None => (Ino::ROOT, path.as_bytes()),
        }
    }

    fn mkdir(&self, path: &str) -> Ino {
        let (parent, name) = self.end(path);
        self.vfs.mkdir(&ME, parent, name, 0o755).unwrap().attr.ino
    }

    fn create(&self, path: &str) -> (Ino, FileHandle) {
        let (parent, name) = self.end(path);
        let (entry, opened) = self.vfs.create(&ME, parent, name, 0o644, libc::O_RDWR | libc::O_EXCL).unwrap();
        (entry.attr.ino, opened.handle)
    }

    fn open(&self, path: &str, flags: i32) -> FileHandle {
        self.vfs.open(&ME, self.ino(path), flags).unwrap().handle
    }

    fn close(&self, handle: FileHandle) {
        self.vfs.flush(&ME, handle).unwrap();
        if let Some(ino) = self.vfs.release(&ME, handle).unwrap().settle {
            assert_eq!(self.vfs.settle(ino), Settled::Done);
        }
    }

    /// A new file with these bytes.
    fn put(&self, path: &str, bytes: &str) -> Ino {
        let (ino, handle) = self.create(path);
        self.vfs.write(handle, 0, bytes.as_bytes()).unwrap();
        self.close(handle);
        ino
    }

    fn text(&self, handle: FileHandle) -> Result<String> {
        let mut buffer = vec![0; 1 << 16];
        let count = match self.vfs.read(handle, 0, &mut buffer)? {
            ReadAnswer::Ready(count) => count,
            ReadAnswer::Patched(file) => {
                let bytes = self.runtime.block_on(file.read(0, buffer.len()))?;
                return Ok(String::from_utf8(bytes.to_vec()).unwrap());
            }
            ReadAnswer::Later(reader) => {
                let bytes = self.runtime.block_on(reader.read(0, buffer.len()))?;
                return Ok(String::from_utf8(bytes.to_vec()).unwrap());
            }
        };
        buffer.truncate(count);
        Ok(String::from_utf8(buffer).unwrap())
    }

    fn cat(&self, path: &str) -> String {
        let handle = self.open(path, libc::O_RDONLY);
        let text = self.text(handle).unwrap();
        self.close(handle);
        text
    }

    fn rename(&self, from: &str, to: &str, mode: RenameMode) -> Result<()> {
        // The kernel looks both up first.
        self.find(from)?;
        drop(self.find(to));
        self.vfs.rename(&ME, self.end(from), self.end(to), mode)
    }

    fn mv(&self, from: &str, to: &str) {
        self.rename(from, to, RenameMode::Replace).unwrap();
    }

    fn rm(&self, path: &str) {
        let (parent, name) = self.end(path);
        self.vfs.unlink(parent, name).unwrap();
    }

    fn names(&self, path: &str) -> Vec<String> {
        let handle =
            self.vfs.open_directory(if path.is_empty() { Ino::ROOT } else { self.ino(path) }).unwrap();
        let names = self.names_after(handle, 0, usize::MAX).into_iter().map(|(_, name)| name).collect();
        self.vfs.release_directory(handle);
        names
    }

    /// One request of a listing: at most `room` names after a cookie.
    fn names_after(&self, handle: FileHandle, after: u64, room: usize) -> Vec<(u64, String)> {
        self.vfs.refresh_listing(&ME, handle, after).unwrap();
        let mut names = Vec::new();
        let mut each = |listed: Listed<'_>| {
            if names.len() == room {
                return More::Full;
            }
            names.push((listed.cookie, String::from_utf8(listed.name.to_vec()).unwrap()));
            More::Yes
        };
        self.vfs.list_names(handle, after, &mut each).unwrap();
        names
    }

    // ---- what the catalog says

    fn inode(&self, ino: Ino) -> Inode {
        self.catalog.inode(ino).unwrap()
    }

    fn replicas(&self, ino: Ino) -> Vec<Replica> {
        self.catalog.replicas(ino).unwrap()
    }

    fn staged(&self, ino: Ino) -> Option<Replica> {
        self.replicas(ino).into_iter().find(|replica| replica.staged)
    }

    fn queued(&self) -> usize {
        self.catalog.steps(crate::types::Seq(0), 100).unwrap().len()
    }

    // ---- what happens on the tiers

    /// What the mover does with a new directory.
    fn make_marker(&self, path: &str) {
        let (parent, name) = self.end(path);
        let inode = self.catalog.lookup(parent, name).unwrap().unwrap();
        let ino = inode.attr.ino;
        let place = self.catalog.ensure_place(parent, self.blob).unwrap();
        let key = place.key.join(name).unwrap();
        let attrs = Attrs::default();
        let put = self.blobs.put_special(&key, &crate::tier::Special::Directory, &attrs, &Condition::Always);
        let version = self.runtime.block_on(put).unwrap();
        self.catalog.ensure_place(ino, self.blob).unwrap();
        self.catalog
            .commit_if(ino, inode.generation, inode.attr_generation, place.id, name, &version, None)
            .unwrap();
        self.finish(ino);
    }

    /// The step of the inode is done.
    fn finish(&self, ino: Ino) {
        for step in self.catalog.steps(crate::types::Seq(0), 100).unwrap() {
            if step.what == crate::catalog::StepKind::Reconcile(ino) {
                self.catalog.finish_step(step.seq).unwrap();
            }
        }
    }

    fn native(&self, tier: &str, path: &str) -> PathBuf {
        self.root.path().join(tier).join(path)
    }

    fn blob_put(&self, key: &str, bytes: &str) {
        let (key, bytes) = (Key::parse(key).unwrap(), bytes::Bytes::copy_from_slice(bytes.as_bytes()));
        self.runtime.block_on(self.blobs.put(&key, bytes, &Attrs::default(), &Condition::Always)).unwrap();
    }

    fn blob_delete(&self, key: &str) {
        self.runtime.block_on(self.blobs.delete(&Key::parse(key).unwrap(), &Condition::Always)).unwrap();
    }

    /// What the mover does with a closed file: its bytes become the blob, and the stage file goes.
    fn commit(&self, path: &str) {
        let staged = self.upload(path);
        if !self.vfs.is_open(self.ino(path)) {
            self.catalog.drop_replica(staged.place, &staged.name).unwrap();
            self.vfs.remove_staged(&staged).unwrap();
        }
    }

    /// The same, but the stage file becomes the hot copy.
    fn commit_as_hot_copy(&self, path: &str, staged: &Replica) {
        self.upload(path);
        let home =
            self.replicas(self.ino(path)).into_iter().find(|replica| replica.tier == self.blob).unwrap();
        let key = self.vfs.parts.hots[&self.scratch].path_key(&self.vfs.identity(&home).unwrap()).unwrap();
        let resident = self.vfs.resident(self.scratch).unwrap();
        resident.ensure_directory(&key.split().unwrap().0).unwrap();
        self.catalog.drop_replica(staged.place, &staged.name).unwrap();
        resident.rename(&staged.key, &key, RenameMode::Replace).unwrap();
    }

    fn upload(&self, path: &str) -> Replica {
        let (parent, name) = self.end(path);
        let inode = self.catalog.lookup(parent, name).unwrap().unwrap();
        let ino = inode.attr.ino;
        let staged = self.staged(ino).unwrap();
        let place = self.catalog.ensure_place(parent, self.blob).unwrap();
        self.catalog.begin_commit(ino, place.id, name, "w").unwrap();
        let file = self.native("scratch", std::str::from_utf8(staged.key.as_bytes()).unwrap());
        let bytes = bytes::Bytes::from(std::fs::read(file).unwrap());
        let key = place.key.join(name).unwrap();
        let attrs = Attrs::default();
        let put = self.blobs.put(&key, bytes, &attrs, &Condition::Always);
        let version = self.runtime.block_on(put).unwrap();
        let (generation, attributes) = (inode.generation, inode.attr_generation);
        self.catalog.commit_if(ino, generation, attributes, place.id, name, &version, None).unwrap();
        self.finish(ino);
        staged
    }
}
