//! A Blob service of our own, in memory: as strict as Azure where the emulator is lenient, fast enough to measure
//! against, and able to fail in every way a real one does.
//!
//! It speaks what tierfs speaks: containers, Put Blob, Put Block (From URL), Put/Get Block List, Get, Head, Delete, Set
//! Metadata, Set Tier, List; and it hands out tokens as a machine's metadata service does. Account-key signatures are taken as they come.

mod answer;
mod blobs;
mod blocks;
mod content;
mod faults;
mod listing;
mod log;
mod refusal;
mod request;
mod serve;
mod store;
mod tokens;

pub use faults::{Effect, WRITES, When};
pub use log::{Logged, Operation};
pub use tokens::Tokens;

use super::container::ACCOUNT;
use content::Content;
use faults::Faults;
use log::Log;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use store::Store;

/// What a connection needs to answer.
#[derive(Debug, Default)]
struct Shared {
    store: Mutex<Store>,
    faults: Faults,
    log: Log,
    tokens: Tokens,
    connections: AtomicU64,
}

/// The server; it stops when dropped.
#[derive(Debug)]
pub struct BlobServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl BlobServer {
    /// An empty account on a port of its own.
    pub fn start() -> Self {
        let shared = Arc::<Shared>::default();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::spawn(move || serve::run(listener, &for_thread, stopped));
        Self { address, shared, stop: Some(stop), thread: Some(thread) }
    }

    /// Address of the account.
    pub fn service(&self) -> String {
        format!("http://{}/{ACCOUNT}", self.address)
    }

    /// Address of a container, which is made if it is not there.
    pub fn container(&self, name: &str) -> String {
        self.shared.store.lock().make_container(name);
        format!("{}/{name}", self.service())
    }

    /// Address of what hands out tokens, for `IDENTITY_ENDPOINT` and its like.
    pub fn token_endpoint(&self) -> String {
        format!("http://{}{}", self.address, tokens::PATH)
    }

    /// Address of what hands out tokens to principals of a tenant, for `AZURE_AUTHORITY_HOST`.
    pub fn authority(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The tokens it hands out; once asked for, requests without a valid one are refused.
    pub fn tokens(&self) -> &Tokens {
        &self.shared.tokens
    }

    /// Puts a blob of made-up bytes there without sending them; every blob has the same bytes at the same offset.
    pub fn put_synthetic(&self, container: &str, name: &str, size: u64) {
        self.shared.store.lock().put_content(container, name, Content::synthetic(0..size));
    }

    /// The bytes every synthetic blob has at `range`.
    pub fn bytes_at(&self, range: Range<u64>) -> Vec<u8> {
        Content::synthetic(range).to_vec()
    }

    /// The bytes of a blob, archived or not.
    pub fn get(&self, container: &str, name: &str) -> Option<Vec<u8>> {
        self.shared.store.lock().content(container, name).map(|content| content.to_vec())
    }

    /// Metadata of a blob.
    pub fn metadata(&self, container: &str, name: &str) -> Option<Vec<(String, String)>> {
        self.shared.store.lock().metadata(container, name)
    }

    /// The access tier a blob was given, if any.
    pub fn access_tier(&self, container: &str, name: &str) -> Option<String> {
        self.shared.store.lock().access_tier(container, name)
    }

    /// The priority at which a blob is on its way out of the archive, if it is.
    pub fn rehydrating(&self, container: &str, name: &str) -> Option<String> {
        self.shared.store.lock().rehydrating(container, name)
    }

    /// From now on a blob has so many snapshots.
    pub fn set_snapshots(&self, container: &str, name: &str, count: u32) {
        self.shared.store.lock().set_snapshots(container, name, count);
    }

    /// A copy into a blob begins, which refuses writes until it is over.
    pub fn set_copying(&self, container: &str, name: &str, copying: bool) {
        self.shared.store.lock().set_copying(container, name, copying);
    }

    /// Archives a blob at once, or brings it back at once.
    pub fn set_access_tier(&self, container: &str, name: &str, tier: &str) {
        self.shared.store.lock().set_access_tier_now(container, name, tier);
    }

    /// From now on, what `when` matches meets `effect`. Of several that match the first wins.
    pub fn fault(&self, when: When, effect: Effect) {
        self.shared.faults.add(when, effect);
    }

    /// Back to a server that does as it should.
    pub fn clear_faults(&self) {
        self.shared.faults.clear();
    }

    /// Every request answered (or not) so far, in order of arrival.
    pub fn requests(&self) -> Vec<Logged> {
        self.shared.log.all()
    }

    /// How many requests so far were `operation`.
    pub fn count(&self, operation: Operation) -> usize {
        self.shared.log.count(operation)
    }

    /// Bytes of blobs sent to clients so far.
    pub fn body_bytes(&self) -> u64 {
        self.shared.log.sent()
    }

    /// The most requests that were there at one time.
    pub fn most_at_once(&self) -> u64 {
        self.shared.log.most_at_once()
    }

    /// Forgets what passed by.
    pub fn clear_log(&self) {
        self.shared.log.clear();
    }
}

impl Drop for BlobServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed already.
            let _ = thread.join();
        }
    }
}
