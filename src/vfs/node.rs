//! Inodes the kernel knows: lookup counts, what is open, and when a tier was last asked.

use super::open_file::OpenFile;
use crate::catalog::{Content, PlaceId};
use crate::error::{Kind, Result};
use crate::tier::Patience;
use crate::types::{Generation, Ino, Key};
use foldhash::fast::RandomState;
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

const SHARDS: usize = 64;

/// An inode in memory. The catalog is the truth; this is what only a running mount knows of it.
#[derive(Debug)]
pub struct Node {
    pub ino: Ino,
    lookups: AtomicU64,
    /// Its last name was taken away; the row goes when nobody holds it any more.
    pub unlinked: AtomicBool,
    /// Held by whoever changes or imports the names of this directory.
    pub namespace: Mutex<DirectoryState>,
    /// Held by whoever opens this file or ends writing to it, which may take as long as a copy.
    pub turn: Mutex<()>,
    /// What is open; held for moments only.
    pub file: Mutex<FileState>,
    /// Open handles. Changed while `file` is held, and read without it: a tier that hangs may hold up who has it.
    pub handles: AtomicU32,
    /// All handles are closed, but a mapping may go on writing. The same.
    pub settling: AtomicBool,
    /// Path of the inode in the path epoch beside it.
    pub path: RwLock<Option<(u64, Arc<Key>)>>,
}

/// When this directory's places were last compared with their tiers (monotonic time).
#[derive(Debug, Default)]
pub struct DirectoryState {
    pub places: HashMap<PlaceId, PlaceState>,
}

/// Freshness of one place.
#[derive(Debug, Default)]
pub struct PlaceState {
    /// The whole place was compared then.
    pub whole: Option<Duration>,
    /// Single names were compared then; bounded by [`PlaceState::NAMES_MAX`].
    pub names: HashMap<Vec<u8>, Duration>,
}

impl PlaceState {
    /// Beyond this many single looks a listing is cheaper anyway.
    const NAMES_MAX: usize = 4096;

    /// Remembers a look at one name.
    pub fn looked_at(&mut self, name: &[u8], now: Duration) {
        if self.names.len() >= Self::NAMES_MAX {
            self.names.clear();
        }
        self.names.insert(name.to_vec(), now);
    }

    /// Whether `name` was compared within `window` before `now`; no window: once is enough.
    pub fn is_fresh(&self, name: &[u8], now: Duration, window: Option<Duration>) -> bool {
        within(self.whole, now, window) || within(self.names.get(name).copied(), now, window)
    }

    /// Whether the whole place was compared within `window`.
    pub fn is_whole(&self, now: Duration, window: Option<Duration>) -> bool {
        within(self.whole, now, window)
    }
}

fn within(then: Option<Duration>, now: Duration, window: Option<Duration>) -> bool {
    match (then, window) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(then), Some(window)) => now < then + window,
    }
}

/// What is open of a file.
#[derive(Debug, Default)]
pub struct FileState {
    /// The bytes all handles share, while there are handles.
    pub open: Option<Arc<OpenFile>>,
    /// Open handles for writing.
    pub writers: u32,
    /// Open handles of running programs.
    pub executing: u32,
    /// Content generation whose pages the kernel may keep.
    pub cached_generation: Option<Generation>,
    /// What the catalog was last told of the content of a file being written.
    pub told: Option<Content>,
    /// When what is written was last brought home, or first seen to be open, by the monotonic clock.
    pub uploaded: Option<Duration>,
    /// The staged generation is new: it must get its close row even if it never changes.
    pub must_close: bool,
}

impl Node {
    fn new(ino: Ino) -> Self {
        Self {
            ino,
            lookups: AtomicU64::new(0),
            unlinked: AtomicBool::new(false),
            namespace: Mutex::default(),
            turn: Mutex::default(),
            file: Mutex::default(),
            handles: AtomicU32::new(0),
            settling: AtomicBool::new(false),
            path: RwLock::new(None),
        }
    }

    /// Whether any handle is open, or may be mapped though it is closed.
    pub fn is_open(&self) -> bool {
        self.handles.load(Ordering::Acquire) > 0 || self.settling.load(Ordering::Acquire)
    }

    /// What is open, for a thread that may not be able to wait for it.
    ///
    /// # Errors
    /// [`Kind::WouldBlock`] if somebody has it, and this thread has no patience.
    pub fn file_soon(&self) -> Result<MutexGuard<'_, FileState>> {
        match Patience::current() {
            Patience::None => self.file.try_lock().ok_or_else(|| Kind::WouldBlock.into()),
            _ => Ok(self.file.lock()),
        }
    }
}

/// All nodes, sharded by inode number.
#[derive(Debug)]
pub struct NodeTable {
    shards: Vec<Mutex<HashMap<Ino, Arc<Node>, RandomState>>>,
}

impl Default for NodeTable {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

impl NodeTable {
    fn shard(&self, ino: Ino) -> &Mutex<HashMap<Ino, Arc<Node>, RandomState>> {
        &self.shards[ino.0 as usize % SHARDS]
    }

    /// The node, made if new; for the time of one operation.
    pub fn get(&self, ino: Ino) -> Arc<Node> {
        self.shard(ino).lock().entry(ino).or_insert_with(|| Arc::new(Node::new(ino))).clone()
    }

    /// The node if it is in memory.
    pub fn find(&self, ino: Ino) -> Option<Arc<Node>> {
        self.shard(ino).lock().get(&ino).cloned()
    }

    /// The kernel learned of the inode once more.
    pub fn remember(&self, ino: Ino) -> Arc<Node> {
        let node = self.get(ino);
        node.lookups.fetch_add(1, Ordering::Relaxed);
        node
    }

    /// The kernel forgot `count` look-ups. Answers the node if that was the last and nothing is open.
    pub fn forget(&self, ino: Ino, count: u64) -> Option<Arc<Node>> {
        let mut shard = self.shard(ino).lock();
        let node = shard.get(&ino)?.clone();
        let before = node.lookups.load(Ordering::Relaxed);
        node.lookups.store(before.saturating_sub(count), Ordering::Relaxed);
        if before > count || ino == Ino::ROOT || node.is_open() {
            return None;
        }
        shard.remove(&ino);
        Some(node)
    }

    /// Drops a node that no look-up holds, after its last handle is closed.
    pub fn drop_if_unknown(&self, node: &Arc<Node>) -> bool {
        let mut shard = self.shard(node.ino).lock();
        let unknown = node.lookups.load(Ordering::Relaxed) == 0 && !node.is_open();
        if unknown {
            shard.remove(&node.ino);
        }
        unknown
    }

    /// Calls `visit` for every node in memory.
    pub fn for_each(&self, visit: impl Fn(&Node)) {
        for shard in &self.shards {
            let nodes: Vec<_> = shard.lock().values().cloned().collect();
            nodes.iter().for_each(|node| visit(node));
        }
    }

    /// How many nodes are in memory.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgets_at_the_last_lookup_only() {
        let table = NodeTable::default();
        table.remember(Ino(5));
        table.remember(Ino(5));
        assert!(table.forget(Ino(5), 1).is_none());
        assert!(table.forget(Ino(5), 1).is_some());
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn an_open_file_is_kept() {
        let table = NodeTable::default();
        let node = table.remember(Ino(5));
        node.handles.store(1, Ordering::Release);
        assert!(table.forget(Ino(5), 1).is_none());
        node.handles.store(0, Ordering::Release);
        assert!(table.drop_if_unknown(&node));
    }

    #[test]
    fn freshness_ends_with_its_window() {
        let second = Duration::from_secs(1);
        let mut state = PlaceState::default();
        assert!(!state.is_fresh(b"a", second, None));
        state.looked_at(b"a", second);
        assert!(state.is_fresh(b"a", second, Some(second)) && !state.is_fresh(b"b", second, Some(second)));
        assert!(!state.is_fresh(b"a", 2 * second, Some(second)) && state.is_fresh(b"a", 9 * second, None));
        state.whole = Some(2 * second);
        assert!(state.is_fresh(b"b", 2 * second, Some(second)));
    }
}
