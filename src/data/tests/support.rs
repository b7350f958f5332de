//! Fake tiers: a remote one that counts, holds back and breaks streams, and a directory.

use crate::error::{Error, Kind, Result};
use crate::tier::*;
use crate::types::{AttrChange, Attrs, Condition, FileKind, Key, TimeChange, Timestamp, Version};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use parking_lot::Mutex;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;
use tokio::sync::{Notify, Semaphore};

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;
const CHUNK: u64 = 48 << 10;

/// The bytes every fake object holds: random, with a period that no block or part divides.
pub fn content(range: Range<u64>) -> Vec<u8> {
    static PATTERN: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut state = 1u64;
        let word = |_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as u8
        };
        (0..MIB + 257).map(word).collect()
    });
    let period = PATTERN.len() as u64;
    let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
    let mut at = range.start;
    while at < range.end {
        let from = (at % period) as usize;
        let len = (range.end - at).min(period - from as u64) as usize;
        bytes.extend_from_slice(&PATTERN[from..from + len]);
        at += len as u64;
    }
    bytes
}

/// A remote tier whose objects all hold [`content`].
#[derive(Debug)]
pub struct Remote {
    pub version: Mutex<Version>,
    pub requests: Mutex<Vec<Range<u64>>>,
    pub sent: Arc<AtomicU64>,
    /// Chunks that may be sent.
    pub gate: Arc<Semaphore>,
    /// A request or a chunk went out.
    pub moved: Arc<Notify>,
    /// Each request takes one and breaks after so many bytes.
    pub breaks: Mutex<Vec<u64>>,
}

impl Remote {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            version: Mutex::new(Version::new("v1")),
            requests: Mutex::default(),
            sent: Arc::default(),
            gate: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            moved: Arc::default(),
            breaks: Mutex::default(),
        })
    }

    /// The same, but it sends nothing before chunks are allowed.
    pub fn held() -> Arc<Self> {
        let remote = Self::new();
        remote.gate.forget_permits(Semaphore::MAX_PERMITS);
        remote
    }

    pub fn allow(&self, chunks: u64) {
        self.gate.add_permits(chunks as usize);
    }

    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }

    pub fn source(self: &Arc<Self>, size: u64) -> crate::data::Source {
        crate::data::Source {
            tier: Arc::clone(self) as _,
            key: Key::parse("data/object").unwrap(),
            version: Version::new("v1"),
            size,
        }
    }

    /// Waits until `condition` holds; looks after every request and chunk.
    pub async fn until(&self, mut condition: impl FnMut(&Self) -> bool) {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if condition(self) {
                return;
            }
            moved.await;
        }
    }
}

#[async_trait]
impl Tier for Remote {
    fn name(&self) -> &str {
        "remote"
    }
    fn location(&self) -> String {
        "fake://remote".into()
    }
    async fn read(&self, _: &Key, range: Range<u64>, version: &Version) -> Result<ByteStream> {
        self.requests.lock().push(range.clone());
        self.moved.notify_waiters();
        if *version != *self.version.lock() {
            return Err(Kind::Changed.into());
        }
        let breaks = self.breaks.lock().pop();
        let end = breaks.map_or(range.end, |after| range.end.min(range.start + after));
        let (gate, sent, moved) = (Arc::clone(&self.gate), Arc::clone(&self.sent), Arc::clone(&self.moved));
        let body = futures::stream::unfold(range.start, move |at| {
            let (gate, sent, moved) = (Arc::clone(&gate), Arc::clone(&sent), Arc::clone(&moved));
            async move {
                if at >= end {
                    return None;
                }
                gate.acquire().await.ok()?.forget();
                let until = (at + CHUNK).min(end);
                sent.fetch_add(until - at, Ordering::SeqCst);
                moved.notify_waiters();
                Some((Ok(Bytes::from(content(at..until))), until))
            }
        });
        let broken = breaks.map(|_| Err(Error::new(Kind::Unavailable, "reset")));
        Ok(body.chain(futures::stream::iter(broken)).boxed())
    }
    fn capabilities(&self) -> Capabilities {
        unreachable!("data asks for no capabilities")
    }
    async fn probe(&self) -> Result<()> {
        Err(Kind::Unsupported.into())
    }
    async fn head(&self, _: &Key) -> Result<Object> {
        Err(Kind::Unsupported.into())
    }
    async fn list(&self, _: &Key, _: &[u8], _: Option<Cursor>, _: usize) -> Result<Page> {
        Err(Kind::Unsupported.into())
    }
    async fn put(&self, _: &Key, _: Bytes, _: &Attrs, _: &Condition) -> Result<Version> {
        Err(Kind::Unsupported.into())
    }
    async fn put_special(&self, _: &Key, _: &Special, _: &Attrs, _: &Condition) -> Result<Version> {
        Err(Kind::Unsupported.into())
    }
    async fn upload(&self, _: &Key, _: u64) -> Result<Box<dyn Upload>> {
        Err(Kind::Unsupported.into())
    }
    async fn delete(&self, _: &Key, _: &Condition) -> Result<()> {
        Err(Kind::Unsupported.into())
    }
    async fn copy(&self, _: &Key, _: &Version, _: &Key, _: &Attrs, _: &Condition) -> Result<Version> {
        Err(Kind::Unsupported.into())
    }
    async fn set_attrs(&self, _: &Key, _: &Version, _: &Attrs) -> Result<Version> {
        Err(Kind::Unsupported.into())
    }
    async fn usage(&self) -> Result<Usage> {
        Err(Kind::Unsupported.into())
    }
    fn resident(&self) -> Option<&dyn Resident> {
        None
    }
}

/// A directory as a tier: only what `data` uses.
#[derive(Debug)]
pub struct Directory {
    root: tempfile::TempDir,
    /// New files are full from the start.
    pub full: Mutex<bool>,
    /// Some call below changed something.
    pub changed: Notify,
}

impl Directory {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { root: tempfile::tempdir().unwrap(), full: Mutex::default(), changed: Notify::new() })
    }

    pub fn path(&self, key: &Key) -> PathBuf {
        self.root.path().join(key.as_path())
    }

    /// All files below `.tierfs/hot`.
    pub fn hot_files(&self) -> Vec<PathBuf> {
        fn walk(dir: &std::path::Path, found: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(dir).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() { walk(&path, found) } else { found.push(path) }
            }
        }
        let mut found = Vec::new();
        walk(&self.root.path().join(".tierfs/hot"), &mut found);
        found
    }

    /// Waits until `condition` holds; looks after every change.
    pub async fn until(&self, mut condition: impl FnMut(&Self) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if condition(self) {
                return;
            }
            changed.await;
        }
    }

    fn after<T>(&self, result: std::io::Result<T>) -> Result<T> {
        self.changed.notify_waiters();
        Ok(result?)
    }
}

fn object(meta: &fs::Metadata) -> Object {
    Object {
        kind: FileKind::from_mode(meta.mode()).unwrap(),
        size: if meta.is_file() { meta.len() } else { 0 },
        version: Version::new(format!("{}-{}-{}", meta.ino(), meta.len(), meta.mtime_nsec())),
        modified: Timestamp::from_parts(meta.mtime(), meta.mtime_nsec()),
        attrs: Attrs::default(),
        target: None,
        rdev: 0,
        native: None,
        archive: Archive::No,
    }
}

impl Resident for Directory {
    fn create(&self, key: &Key, mode: u32) -> Result<File> {
        let mut options = File::options();
        options.read(true).write(true).create_new(true).mode(mode);
        let file = self.after(options.open(self.path(key)))?;
        if *self.full.lock() {
            return Ok(File::options().read(true).write(true).open("/dev/full")?);
        }
        Ok(file)
    }
    fn open(&self, key: &Key, access: Access) -> Result<File> {
        Ok(File::options().read(true).write(access == Access::ReadWrite).open(self.path(key))?)
    }
    fn stat(&self, key: &Key) -> Result<Object> {
        Ok(object(&fs::symlink_metadata(self.path(key))?))
    }
    fn stat_open(&self, file: &File) -> Result<Object> {
        Ok(object(&file.metadata()?))
    }
    fn report_writes(&self, _: &File) -> Result<()> {
        Ok(())
    }
    fn mkdir(&self, key: &Key, mode: u32) -> Result<()> {
        Ok(fs::DirBuilder::new().mode(mode).create(self.path(key))?)
    }
    fn ensure_directory(&self, key: &Key) -> Result<()> {
        Ok(fs::create_dir_all(self.path(key))?)
    }
    fn rename(&self, from: &Key, to: &Key, _: RenameMode) -> Result<()> {
        self.after(fs::rename(self.path(from), self.path(to)))
    }
    fn unlink(&self, key: &Key) -> Result<()> {
        self.after(fs::remove_file(self.path(key)))
    }
    fn rmdir(&self, key: &Key) -> Result<()> {
        self.after(fs::remove_dir(self.path(key)))
    }
    fn set_attr(&self, key: &Key, change: &AttrChange) -> Result<()> {
        self.set_attr_open(&File::open(self.path(key))?, change)
    }
    fn set_attr_open(&self, file: &File, change: &AttrChange) -> Result<()> {
        match change.mtime {
            Some(TimeChange::To(time)) => self.after(file.set_modified(SystemTime::from(time))),
            _ => Err(Kind::Unsupported.into()),
        }
    }
    fn sync_directory(&self, key: &Key) -> Result<()> {
        Ok(File::open(self.path(key))?.sync_all()?)
    }
    fn read_directory(&self, dir: &Key, from: Option<Cursor>, limit: usize) -> Result<Page> {
        let skip: usize = from.map_or(0, |cursor| cursor.0.parse().unwrap());
        let mut names: Vec<_> = fs::read_dir(self.path(dir))?
            .map(|entry| entry.unwrap().file_name().into_encoded_bytes())
            .collect();
        names.sort();
        let entries: Vec<Entry> = names
            .iter()
            .skip(skip)
            .take(limit)
            .map(|name| Entry { name: name.clone(), object: self.stat(&dir.join(name).unwrap()).unwrap() })
            .collect();
        let next = (skip + limit < names.len()).then(|| Cursor((skip + limit).to_string()));
        Ok(Page { entries, next, hidden: 0 })
    }
    fn make(&self, _: &Key, _: &Special, _: u32) -> Result<()> {
        Err(Kind::Unsupported.into())
    }
    fn link(&self, _: &Key, _: &Key) -> Result<()> {
        Err(Kind::Unsupported.into())
    }
    fn set_xattr(&self, _: &Key, _: &[u8], _: Option<&[u8]>) -> Result<()> {
        Err(Kind::Unsupported.into())
    }
    fn xattrs(&self, _: &Key) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        Err(Kind::Unsupported.into())
    }
    fn device(&self) -> u64 {
        0
    }
    fn native_path(&self, _: &Key) -> Result<std::path::PathBuf> {
        Err(Kind::Unsupported.into())
    }
    fn note_used(&self, _: u64) {}
    fn usage(&self) -> Result<Usage> {
        Err(Kind::Unsupported.into())
    }
}

#[async_trait]
impl Tier for Directory {
    fn name(&self) -> &str {
        "directory"
    }
    fn location(&self) -> String {
        "fake://directory".into()
    }
    fn capabilities(&self) -> Capabilities {
        unreachable!("data asks for no capabilities")
    }
    async fn probe(&self) -> Result<()> {
        Err(Kind::Unsupported.into())
    }
    async fn head(&self, _: &Key) -> Result<Object> {
        Err(Kind::Unsupported.into())
    }
    async fn list(&self, _: &Key, _: &[u8], _: Option<Cursor>, _: usize) -> Result<Page> {
        Err(Kind::Unsupported.into())
    }
    async fn read(&self, _: &Key, _: Range<u64>, _: &Version) -> Result<ByteStream> {
        Err(Kind::Unsupported.into())
    }
    async fn put(&self, _: &Key, _: Bytes, _: &Attrs, _: &Condition) -> Result<Version> {
        Err(Kind::Unsupported.into())
    }
    async fn put_special(&self, _: &Key, _: &Special, _: &Attrs, _: &Condition) -> Result<Version> {
        Err(Kind::Unsupported.into())
    }
    async fn upload(&self, _: &Key, _: u64) -> Result<Box<dyn Upload>> {
        Err(Kind::Unsupported.into())
    }
    async fn delete(&self, _: &Key, _: &Condition) -> Result<()> {
        Err(Kind::Unsupported.into())
    }
    async fn copy(&self, _: &Key, _: &Version, _: &Key, _: &Attrs, _: &Condition) -> Result<Version> {
        Err(Kind::Unsupported.into())
    }
    async fn set_attrs(&self, _: &Key, _: &Version, _: &Attrs) -> Result<Version> {
        Err(Kind::Unsupported.into())
    }
    async fn usage(&self) -> Result<Usage> {
        Err(Kind::Unsupported.into())
    }
    fn resident(&self) -> Option<&dyn Resident> {
        Some(self)
    }
}
