//! What the mover says of itself; cheap enough to ask at any time.

use crate::catalog::Backlog;
use crate::error::Kind;
use crate::types::{Ino, Seq, Timestamp};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sums since the start of the daemon.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) committed_files: AtomicU64,
    pub(crate) committed_bytes: AtomicU64,
    pub(crate) sent_bytes: AtomicU64,
    pub(crate) deleted: AtomicU64,
    pub(crate) moved: AtomicU64,
    pub(crate) conflicts: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) leftovers: AtomicU64,
    pub(crate) last_error: Mutex<Option<Trouble>>,
    /// By domain and step.
    pub(crate) blocked: Mutex<BTreeMap<(String, Seq), Trouble>>,
    pub(crate) queue: Mutex<QueueFacts>,
    /// Steps that jobs are at.
    pub(crate) running: Mutex<HashSet<Seq>>,
    /// Steps that fail and are tried again, by domain and step: since when, and what the last try said.
    pub(crate) failing: Mutex<BTreeMap<(String, Seq), (Timestamp, Trouble)>>,
    /// Conflict copies made, the newest of them.
    pub(crate) conflict_copies: Mutex<Vec<Ino>>,
}

/// Conflict copies remembered one by one.
const MAX_COPIES: usize = 10_000;

impl Counters {
    /// A conflict copy was made.
    pub(crate) fn note_conflict(&self, copy: Ino) {
        let mut copies = self.conflict_copies.lock();
        if copies.len() < MAX_COPIES && !copies.contains(&copy) {
            copies.push(copy);
        }
    }

    pub(crate) fn add(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Ordering::Relaxed);
    }
}

/// What the loop last said of the queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueFacts {
    pub(crate) running: usize,
    pub(crate) oldest: Option<Timestamp>,
}

/// A step that does not get on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The step.
    pub seq: Seq,
    /// Its order domain.
    pub domain: String,
    /// What it is about: a path, or a key on a tier.
    pub about: String,
    /// What the last try said.
    pub error: String,
    /// What kind of failure that is.
    pub kind: Kind,
    /// When.
    pub at: Timestamp,
}

/// The mover at a glance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoverStatus {
    /// Steps still to do, those in flight included.
    pub queued: u64,
    /// Jobs in flight.
    pub in_flight: u64,
    /// Files whose newest generation is not at home yet.
    pub dirty_files: u64,
    /// Their bytes.
    pub dirty_bytes: u64,
    /// Of the files: open for writing, or never closed.
    pub open_files: u64,
    /// When the oldest waiting step was queued.
    pub oldest: Option<Timestamp>,
    /// Files committed at home since the start.
    pub committed_files: u64,
    /// Their bytes.
    pub committed_bytes: u64,
    /// Bytes sent so far, those of uploads under way included.
    pub sent_bytes: u64,
    /// Keys deleted.
    pub deleted: u64,
    /// Keys moved on a tier.
    pub moved: u64,
    /// Conflict copies made.
    pub conflicts: u64,
    /// Failed tries.
    pub retries: u64,
    /// Stage files that no row knows, found at start and left alone.
    pub leftovers: u64,
    /// Conflict copies that still have such a name: nobody has looked at them.
    pub conflict_copies: u64,
    /// Steps that failed and are tried again.
    pub retrying: u64,
    /// Of those the one that fails for the longest time, and since when.
    pub failing: Option<(Timestamp, Trouble)>,
    /// What still has to reach home, by order domain.
    pub backlog: Arc<Vec<Backlog>>,
    /// Refused for good.
    pub blocked: Vec<Trouble>,
    /// The newest failure of any step.
    pub last_error: Option<Trouble>,
    /// Files whose newest bytes are gone.
    pub lost: Vec<super::Lost>,
}
