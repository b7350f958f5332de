//! Streamed reads: what moves, when it is answered, what happens when it breaks.

use super::support::*;
use crate::data::budget::MEMORY_MIN;
use crate::data::{MemoryBudget, Reader, Streams};
use crate::error::Kind;
use crate::types::Version;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

const GIB: u64 = 1 << 30;

fn streams(memory: u64) -> Arc<Streams> {
    Streams::new(MemoryBudget::new(memory), Handle::current())
}

fn open(remote: &Arc<Remote>, size: u64, streams: &Arc<Streams>) -> Arc<Reader> {
    Reader::open(remote.source(size), Arc::clone(streams), None)
}

async fn check(reader: &Reader, offset: u64, len: u64) {
    let got = reader.read(offset, len as usize).await.unwrap();
    let end = offset.saturating_add(len).min(reader.size());
    assert!(got == content(offset.min(end)..end), "{len} bytes at {offset}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_fetches_each_byte_once() {
    let (remote, streams) = (Remote::new(), streams(64 * MIB));
    let size = 64 * MIB + 12345;
    let reader = open(&remote, size, &streams);
    let mut buf = vec![0; 128 << 10];
    let mut at = 0;
    while at < size {
        match reader.try_read(at, &mut buf) {
            Some(read) => {
                let read = read.unwrap() as u64;
                assert!(buf[..read as usize] == content(at..at + read));
                at += read;
            }
            None => {
                check(&reader, at, 128 << 10).await;
                at += 128 << 10;
            }
        }
    }
    assert_eq!(remote.sent(), size);
    assert!(remote.requests.lock().len() < 30, "{:?}", remote.requests.lock());
    assert!(streams.cached_bytes() <= 32 * MIB);
    assert_eq!(streams.meters().read_bytes.get(), size);
}

#[tokio::test]
async fn the_head_of_a_huge_object_moves_little() {
    let (remote, streams) = (Remote::new(), streams(512 * MIB));
    let reader = open(&remote, GIB, &streams);
    check(&reader, 0, 4096).await;
    assert_eq!(*remote.requests.lock(), [0..128 * KIB]);
    drop(reader);
    check(&open(&remote, GIB, &streams), 0, 4096).await;
    assert!(remote.sent() <= 2 * MIB, "{}", remote.sent());
}

#[tokio::test]
async fn random_reads_fetch_at_most_sixteen_times_what_they_read() {
    let (remote, streams) = (Remote::new(), streams(512 * MIB));
    let reader = open(&remote, GIB, &streams);
    let (mut at, mut read) = (1u64, 0);
    for _ in 0..500 {
        at = at.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        check(&reader, (at >> 20) % (GIB / 4096) * 4096, 4096).await;
        read += 4096;
    }
    assert!(remote.sent() <= 16 * read, "{} x", remote.sent() / read);
}

#[tokio::test]
async fn reads_past_the_end_are_short_or_empty() {
    let (remote, streams) = (Remote::new(), streams(MEMORY_MIN));
    let reader = open(&remote, 1000, &streams);
    check(&reader, 900, 4096).await;
    check(&reader, 1000, 10).await;
    check(&reader, u64::MAX, 10).await;
    assert_eq!(reader.try_read(1000, &mut [0; 8]).unwrap().unwrap(), 0);
    assert_eq!(reader.try_read(990, &mut [0; 100]).unwrap().unwrap(), 10);
    let empty = open(&remote, 0, &streams);
    check(&empty, 0, 10).await;
    assert_eq!(remote.sent(), 1000);
}

#[tokio::test]
async fn a_read_is_answered_as_soon_as_its_bytes_are_in() {
    let (remote, streams) = (Remote::held(), streams(MEMORY_MIN));
    let reader = open(&remote, GIB, &streams);
    assert!(reader.try_read(0, &mut [0; 4096]).is_none());
    remote.allow(1);
    check(&reader, 0, 4096).await;
    assert!(remote.sent() < 128 * KIB);
}

#[tokio::test]
async fn concurrent_readers_share_one_request() {
    let (remote, streams) = (Remote::held(), streams(MEMORY_MIN));
    let readers: Vec<_> = (0..4).map(|_| open(&remote, GIB, &streams)).collect();
    let all = futures::future::join_all(readers.iter().map(|reader| check(reader, 0, 128 * KIB)));
    let release = async {
        remote.until(|remote| !remote.requests.lock().is_empty()).await;
        remote.allow(3);
    };
    futures::future::join(all, release).await;
    assert_eq!(*remote.requests.lock(), [0..128 * KIB]);
}

#[tokio::test]
async fn a_seek_cancels_read_ahead() {
    let (remote, streams) = (Remote::held(), streams(512 * MIB));
    let reader = open(&remote, GIB, &streams);
    remote.allow(6);
    check(&reader, 0, 128 * KIB).await;
    check(&reader, 128 * KIB, 128 * KIB).await;
    remote.until(|remote| remote.requests.lock().len() == 3).await;
    let before = streams.meters().cancelled.get();
    assert!(reader.try_read(GIB / 2, &mut [0; 4096]).is_none());
    assert_eq!(streams.meters().cancelled.get(), before + 1);
    remote.allow(1_000_000);
    check(&reader, GIB / 2, 4096).await;
    let wanted = 256 * KIB + 64 * KIB;
    assert!(remote.sent() <= wanted + 48 * KIB, "{}", remote.sent());
}

#[tokio::test]
async fn dropping_the_last_reader_ends_read_ahead() {
    let (remote, streams) = (Remote::held(), streams(512 * MIB));
    let reader = open(&remote, GIB, &streams);
    remote.allow(6);
    check(&reader, 0, 128 * KIB).await;
    check(&reader, 128 * KIB, 128 * KIB).await;
    remote.until(|remote| remote.requests.lock().len() == 3).await;
    drop(reader);
    assert_eq!(streams.meters().cancelled.get(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_streams_stay_within_the_budget() {
    let (remote, streams) = (Remote::new(), streams(MEMORY_MIN));
    let tasks = (0..6u64).map(|n| {
        let (reader, streams) = (open(&remote, GIB, &streams), Arc::clone(&streams));
        tokio::spawn(async move {
            for step in 0..32 {
                check(&reader, n * 128 * MIB + step * 256 * KIB, 256 * KIB).await;
                assert!(streams.cached_bytes() <= MEMORY_MIN / 2);
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn a_read_larger_than_the_cache_is_answered() {
    let (remote, streams) = (Remote::new(), streams(MEMORY_MIN));
    check(&open(&remote, GIB, &streams), 5, MEMORY_MIN).await;
    assert!(streams.cached_bytes() <= MEMORY_MIN / 2);
}

#[tokio::test]
async fn another_version_is_stale_but_what_is_cached_stays() {
    let (remote, streams) = (Remote::new(), streams(MEMORY_MIN));
    let reader = open(&remote, GIB, &streams);
    check(&reader, 0, 4096).await;
    *remote.version.lock() = Version::new("v2");
    check(&reader, 4096, 4096).await;
    let error = reader.read(GIB / 2, 4096).await.unwrap_err();
    assert_eq!((error.kind(), error.errno()), (Kind::Stale, libc::ESTALE));
}

#[tokio::test]
async fn a_broken_stream_goes_on_where_it_broke() {
    let (remote, streams) = (Remote::new(), streams(MEMORY_MIN));
    let reader = open(&remote, GIB, &streams);
    *remote.breaks.lock() = vec![10_000, 0, 100_000];
    check(&reader, 0, 256 * KIB).await;
    assert_eq!(remote.sent(), 256 * KIB);
    let starts: Vec<u64> = remote.requests.lock().iter().map(|range| range.start).collect();
    assert_eq!(starts, [0, 100_000, 100_000, 110_000]);
}

#[tokio::test]
async fn a_stream_that_never_comes_fails_with_its_error() {
    let (remote, streams) = (Remote::new(), streams(MEMORY_MIN));
    *remote.breaks.lock() = vec![0; 1000];
    let reader = open(&remote, GIB, &streams);
    let read = tokio::time::timeout(Duration::from_secs(60), reader.read(0, 4096));
    assert_eq!(read.await.unwrap().unwrap_err().kind(), Kind::Unavailable);
    assert!(remote.requests.lock().len() < 10);
    remote.breaks.lock().clear();
    check(&reader, 0, 4096).await;
}
