//! What all readers of a mount share: cache, memory, runtime, counters, and which objects are open.

use crate::data::budget::MemoryBudget;
use crate::data::cache::BlockCache;
use crate::data::feed::Feed;
use crate::data::meters::Meters;
use crate::tier::ContentId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// Hot copies that go on filling after the last close of their file.
const COMPLETIONS: usize = 8;

/// What all readers of a mount share.
#[derive(Debug)]
pub struct Streams {
    pub(super) cache: BlockCache,
    pub(super) budget: MemoryBudget,
    pub(super) runtime: Handle,
    pub(super) meters: Arc<Meters>,
    pub(super) completions: Arc<Semaphore>,
    feeds: Mutex<HashMap<ContentId, Weak<Feed>>>,
}

impl Streams {
    /// With the mount's memory; requests run on `runtime`, which needs its timer.
    #[must_use]
    pub fn new(budget: MemoryBudget, runtime: Handle) -> Arc<Self> {
        Arc::new(Self {
            cache: BlockCache::new(budget.cache_bytes()),
            budget,
            runtime,
            meters: Arc::default(),
            completions: Arc::new(Semaphore::new(COMPLETIONS)),
            feeds: Mutex::default(),
        })
    }

    /// The counters.
    #[must_use]
    pub fn meters(&self) -> &Arc<Meters> {
        &self.meters
    }

    /// The mount's memory, for uploads to share.
    #[must_use]
    pub fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    /// What the block cache holds now.
    #[must_use]
    pub fn cached_bytes(&self) -> u64 {
        self.cache.bytes()
    }

    /// The feed of an object, made if no reader has it.
    pub(super) fn feed(&self, id: ContentId, make: impl FnOnce() -> Arc<Feed>) -> Arc<Feed> {
        let mut feeds = self.feeds.lock();
        if let Some(feed) = feeds.get(&id).and_then(Weak::upgrade) {
            return feed;
        }
        let feed = make();
        feeds.insert(id, Arc::downgrade(&feed));
        feed
    }

    /// A feed is gone.
    pub(super) fn forget(&self, id: ContentId) {
        let mut feeds = self.feeds.lock();
        // A new feed of the same object may have taken the place already.
        if feeds.get(&id).is_some_and(|feed| feed.strong_count() == 0) {
            feeds.remove(&id);
        }
    }
}
