//! Hot copies filled by reading.

use super::support::*;
use crate::clock::{Clock, ManualClock, SystemClock};
use crate::data::fill::Phase;
use crate::data::hot::CLAIM_EXPIRES;
use crate::data::{FillStart, HotStore, Identity, MemoryBudget, Reader, Source, Streams};
use crate::tier::{Layer, Pace, Paced};
use crate::types::{Key, Version};
use std::io::Read;
use std::num::NonZeroU64;
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

/// Room for anything.
fn room(hot: &HotStore) -> crate::data::hot::Admitted {
    hot.space().reserve(8 * MIB).unwrap()
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
        let FillStart::Started(fill) = self.hot.begin_fill(&identity(), size, room(&self.hot)).unwrap()
        else {
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

#[tokio::test]
async fn a_reader_does_not_wait_for_the_limits_of_a_fill() {
    let rig = Rig::new(Remote::new());
    let (size, pace) = (32 * MIB, Arc::<Pace>::default());
    // The first piece pays for none before it; the second would have to wait for weeks.
    pace.set_limits(NonZeroU64::new(1), None);
    let FillStart::Started(fill) =
        rig.hot.begin_fill(&identity(), size, rig.hot.space().reserve(size).unwrap()).unwrap()
    else {
        panic!("somebody fills already");
    };
    let source = rig.remote.source(size);
    let source = Source { tier: Paced(pace).over(source.tier), ..source };
    let reader = Reader::open(source, Arc::clone(&rig.streams), Some(fill));
    reader.read(0, 10).await.unwrap();
    while !reader.is_filling_from(8 * MIB) {
        tokio::task::yield_now().await;
    }
    // On one thread, what was spawned before this goes on to where it waits.
    tokio::task::yield_now().await;
    let at = 9 * MIB;
    assert!(reader.read(at, 4096).await.unwrap() == content(at..at + 4096));
    assert!(rig.remote.sent() < size);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_read_before_the_fill_began_is_not_fetched_again() {
    let rig = Rig::new(Remote::new());
    let size = 3 * MIB;
    let early = Reader::open(rig.remote.source(size), Arc::clone(&rig.streams), None);
    early.read(0, 100_000).await.unwrap();
    early.read(2 * MIB + 5, 4096).await.unwrap();
    let late = rig.open(size);
    late.read(0, 10).await.unwrap();
    rig.directory.until(|directory| directory.hot_files().len() == 1).await;
    assert!(rig.copy(size).unwrap() == content(0..size));
    assert_eq!(rig.remote.sent(), size);
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
    let FillStart::Started(claimed) = rig.hot.begin_fill(&identity(), 8 * MIB, room(&rig.hot)).unwrap()
    else {
        panic!()
    };
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_can_not_be_read_is_read_from_home_instead() {
    let rig = Rig::new(Remote::new());
    let reader = rig.open(8 * MIB);
    reader.read(0, 4096).await.unwrap();
    rig.directory.until(|directory| directory.hot_files().len() == 1).await;
    std::fs::File::options().write(true).open(&rig.directory.hot_files()[0]).unwrap().set_len(0).unwrap();
    let mut buf = vec![0; 4096];
    assert!(reader.try_read(4 * MIB, &mut buf).is_none());
    assert!(reader.read(4 * MIB, 4096).await.unwrap() == content(4 * MIB..4 * MIB + 4096));
}

#[tokio::test]
async fn a_claim_is_respected_while_it_beats_and_taken_over_when_stale() {
    let rig = Rig::new(Remote::new());
    let begin = || rig.hot.begin_fill(&identity(), MIB, room(&rig.hot)).unwrap();
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
    rig.hot.remove_dead_fills().unwrap();
    assert_eq!(rig.directory.hot_files().len(), 0, "the part of the dead fill is gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_fill_whose_claim_was_taken_over_harms_nobody() {
    let rig = Rig::new(Remote::held());
    let slow = rig.open(MIB);
    rig.clock.advance(CLAIM_EXPIRES * 2);
    let FillStart::Started(other) = rig.hot.begin_fill(&identity(), MIB, room(&rig.hot)).unwrap() else {
        panic!()
    };
    rig.remote.allow(1_000_000);
    slow.read(0, 4096).await.unwrap();
    rig.directory.until(|_| rig.copy(MIB).is_some()).await;
    assert!(rig.copy(MIB).unwrap() == content(0..MIB));
    drop(other);
    assert!(rig.copy(MIB).unwrap() == content(0..MIB));
}
