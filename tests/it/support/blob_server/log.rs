//! What was asked, for tests to read.

use super::request::Call;
use http::StatusCode;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    CreateContainer,
    ContainerProperties,
    List,
    PutBlob,
    PutBlock,
    PutBlockFromUrl,
    PutBlockList,
    GetBlockList,
    Get,
    Head,
    Delete,
    SetMetadata,
    SetTier,
    Token,
    Other,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Logged {
    pub operation: Operation,
    /// The blob's name, decoded; empty for the container.
    pub name: String,
    /// Prefix of a listing, block id of a block.
    pub detail: String,
    /// None if no answer was sent.
    pub status: Option<StatusCode>,
    /// Bytes that came with it.
    pub received: u64,
    /// When its head was there.
    pub began: Instant,
    /// How long its answer took; the body of a long one may still flow.
    pub took: Duration,
}

#[derive(Debug, Default)]
pub struct Log {
    requests: Mutex<Vec<Logged>>,
    sent: AtomicU64,
    now: AtomicU64,
    most: AtomicU64,
}

impl Log {
    /// Notes the arrival of a request; answers its number.
    pub fn arrived(&self, call: &Call) -> usize {
        self.most.fetch_max(self.now.fetch_add(1, Relaxed) + 1, Relaxed);
        let mut requests = self.requests.lock();
        requests.push(Logged {
            operation: call.operation,
            name: call.name.clone(),
            detail: call.query("prefix").or_else(|| call.query("blockid")).unwrap_or_default().to_owned(),
            status: None,
            received: 0,
            began: Instant::now(),
            took: Duration::ZERO,
        });
        requests.len() - 1
    }

    /// Notes how request number `at` ended.
    pub fn ended(&self, at: usize, received: u64, status: Option<StatusCode>) {
        self.now.fetch_sub(1, Relaxed);
        // The log may have been cleared meanwhile.
        if let Some(request) = self.requests.lock().get_mut(at) {
            (request.received, request.status, request.took) = (received, status, request.began.elapsed());
        }
    }

    /// Counts bytes of a body on their way.
    pub fn sending(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Relaxed);
    }

    pub fn all(&self) -> Vec<Logged> {
        self.requests.lock().clone()
    }

    pub fn count(&self, operation: Operation) -> usize {
        self.requests.lock().iter().filter(|request| request.operation == operation).count()
    }

    pub fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    pub fn most_at_once(&self) -> u64 {
        self.most.load(Relaxed)
    }

    pub fn clear(&self) {
        self.requests.lock().clear();
        self.sent.store(0, Relaxed);
        self.most.store(self.now.load(Relaxed), Relaxed);
    }
}
