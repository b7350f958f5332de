//! Hot copies filled by reading.

use super::support::*;
use crate::clock::{Clock, ManualClock, SystemClock};
use crate::data::fill::Phase;
use crate::data::hot::CLAIM_EXPIRES;
use crate::data::{FillStart, HotStore, Identity, MemoryBudget, Reader, Streams};
use crate::types::{Key, Version};
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

struct Rig {
    remote: Arc<Remote>,
    directory: Arc<Directory>,
    hot: HotStore,
    clock: ManualClock,
    streams: Arc<Streams>,
}

fn identity() -> Identity {
    Identity {
        location: "fake://remote".into(),
        key: Key::parse("data/object").unwrap(),
        version: Version::new("v1"),
    }
}

impl Rig {
    fn new(remote: Arc<Remote>) -> Self {
        let directory = Directory::new();
        let clock = ManualClock::new(SystemClock::default().wall());
        let hot = HotStore::new(Arc::clone(&directory) as _, Arc::new(clock.clone())).unwrap();
        let streams = Streams::new(MemoryBudget::new(16 * MIB), Handle::current());
        Self { remote, directory, hot, clock, streams }
    }

    fn open(&self, size: u64) -> Arc<Reader> {
        let FillStart::Started(fill) = self.hot.begin_fill(&identity(), size).unwrap() else {
            panic!("somebody fills already");
        };
        Reader::open(self.remote.source(size), Arc::clone(&self.streams), Some(fill))
    }

    fn copy(&self, size: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.hot.find(&identity(), size).unwrap()?.read_to_end(&mut bytes).unwrap();
        Some(bytes)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_fills_the_copy_and_fetches_nothing_twice() {
    let rig = Rig::new(Remote::new());
    let size = 40 * MIB + 1;
    let reader = rig.open(size);
    for at in (0..size).step_by(256 << 10) {
        let got = reader.read(at, 256 << 10).await.unwrap();
        assert!(got == content(at..(at + 256 * KIB).min(size)));
    }
    rig.directory.until(|directory| directory.hot_files().len() == 1).await;
    assert!(rig.copy(size).unwrap() == content(0..size));
    assert_eq!(rig.remote.sent(), size);
    for at in [0, 20 * MIB, size - 1] {
        let got = reader.read(at, 4096).await.unwrap();
        assert!(got == content(at..(at + 4096).min(size)), "served by the copy");
    }
    assert_eq!(rig.remote.sent(), size);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rest_is_filled_after_the_last_close() {
    let rig = Rig::new(Remote::new());
    let size = 20 * MIB;
    let reader = rig.open(size);
    assert!(reader.read(9 * MIB, 4096).await.unwrap() == content(9 * MIB..9 * MIB + 4096));
    drop(reader);
    rig.directory.until(|directory| directory.hot_files().len() == 1).await;
    assert!(rig.copy(size).unwrap() == content(0..size));
    assert_eq!(rig.remote.sent(), size);
    assert_eq!(rig.streams.meters().fills_completed.get(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_nobody_reads_is_not_filled() {
    let rig = Rig::new(Remote::new());
    drop(rig.open(MIB));
    rig.directory.until(|directory| directory.hot_files().is_empty()).await;
    assert_eq!(rig.remote.sent(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_ends_the_fill_and_reading_goes_on() {
    let rig = Rig::new(Remote::new());
    let FillStart::Started(claimed) = rig.hot.begin_fill(&identity(), 8 * MIB).unwrap() else { panic!() };
    drop(claimed);
    assert_eq!(rig.directory.hot_files().len(), 0, "given back unused");
    *rig.directory.full.lock() = true;
    let reader = rig.open(8 * MIB);
    for at in (0..8 * MIB).step_by(128 << 10) {
        assert!(reader.read(at, 128 << 10).await.unwrap() == content(at..at + 128 * KIB));
    }
    rig.directory.until(|directory| directory.hot_files().is_empty()).await;
    assert_eq!(reader.fill().unwrap().phase(), Phase::Dropped);
    assert!(rig.copy(8 * MIB).is_none());
}

#[tokio::test]
async fn a_claim_is_respected_while_it_beats_and_taken_over_when_stale() {
    let rig = Rig::new(Remote::new());
    let begin = || rig.hot.begin_fill(&identity(), MIB).unwrap();
    let FillStart::Started(first) = begin() else { panic!() };
    assert!(matches!(begin(), FillStart::Elsewhere));
    for _ in 0..10 {
        rig.clock.advance(CLAIM_EXPIRES / 2);
        first.beat_if_due().unwrap();
        assert!(matches!(begin(), FillStart::Elsewhere));
    }
    // A crash: nothing is removed, nothing beats any more.
    std::mem::forget(first);
    rig.clock.advance(CLAIM_EXPIRES + Duration::from_secs(1));
    let FillStart::Started(second) = begin() else { panic!("a stale claim is taken over") };
    assert!(matches!(begin(), FillStart::Elsewhere));
    drop(second);
    rig.clock.advance(CLAIM_EXPIRES + Duration::from_secs(1));
    rig.hot.scan(&mut |_| panic!("there is no copy")).unwrap();
    assert_eq!(rig.directory.hot_files().len(), 0, "the part of the dead fill is gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_fill_whose_claim_was_taken_over_harms_nobody() {
    let rig = Rig::new(Remote::held());
    let slow = rig.open(MIB);
    rig.clock.advance(CLAIM_EXPIRES * 2);
    let FillStart::Started(other) = rig.hot.begin_fill(&identity(), MIB).unwrap() else { panic!() };
    rig.remote.allow(1_000_000);
    slow.read(0, 4096).await.unwrap();
    rig.directory.until(|_| rig.copy(MIB).is_some()).await;
    assert!(rig.copy(MIB).unwrap() == content(0..MIB));
    drop(other);
    assert!(rig.copy(MIB).unwrap() == content(0..MIB));
}
