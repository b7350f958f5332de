//! `tierfs warm`: hot copies fetched, archived blobs asked for; many files at a time, each path as far as it goes.

use super::daemon::Live;
use crate::control::ProgressSink;
use crate::control::protocol::Warmed;
use crate::data::FillPhase;
use crate::error::{Error, Kind, Result};
use crate::types::{FileKind, Ino, Key};
use crate::vfs::{FileFacts, Reader, Warming};
use futures::StreamExt;
use futures::stream;
use parking_lot::Mutex;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Files that are fetched at a time if they are small, for each costs a request that is waited for; of large ones as many as their weight
/// allows. The memory they take is the mount's, with its limit.
const AT_ONCE: usize = 64;

/// A file weighs one for each so many bytes, and at most so much.
const WEIGHED_BY: u64 = 1 << 20;
const WEIGHT_MAX: u64 = 4;

/// Names asked of a directory at a time.
const PAGE: usize = 256;

/// Bytes read at a time.
const PART: usize = 4 << 20;

/// How often it is looked whether somebody else's hot copy is there.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// A `warm` under way.
pub struct Warm<'a> {
    live: &'a Live,
    progress: &'a ProgressSink,
    told: Mutex<Warmed>,
    /// [`AT_ONCE`] for all weights together.
    scales: Semaphore,
}

/// What is still to be looked at.
enum Ahead {
    Path(Ino),
    Page { dir: Ino, after: u64 },
}

impl<'a> Warm<'a> {
    pub fn new(live: &'a Live, progress: &'a ProgressSink) -> Self {
        Self { live, progress, told: Mutex::default(), scales: Semaphore::new(AT_ONCE) }
    }

    /// Warms everything at and below `paths`; what was not reached by the deadline is left.
    pub async fn run(self, paths: Vec<Ino>, deadline: Option<Duration>) -> Warmed {
        let ahead: Vec<Ahead> = paths.into_iter().rev().map(Ahead::Path).collect();
        let files = stream::unfold(ahead, |ahead| self.walk(ahead)).flat_map(stream::iter);
        let all = files.for_each_concurrent(AT_ONCE, |(ino, path, size)| self.file(ino, path, size));
        let in_time = match deadline {
            Some(deadline) => tokio::time::timeout(deadline, all).await.is_ok(),
            None => {
                all.await;
                true
            }
        };
        let mut told = self.told.into_inner();
        told.timed_out = !in_time;
        told
    }

    /// The next files, and what is ahead after them.
    async fn walk(&self, mut ahead: Vec<Ahead>) -> Option<(Vec<(Ino, Key, u64)>, Vec<Ahead>)> {
        let mut files = Vec::new();
        let looked = match ahead.pop()? {
            Ahead::Path(ino) => self.live.apart(move |vfs, _| Ok(vec![vfs.facts_of(ino)?])).await,
            Ahead::Page { dir, after } => {
                let page = self.live.apart(move |vfs, caller| vfs.facts_in(caller, dir, after, PAGE)).await;
                page.map(|page| {
                    if let Some((last, _)) = page.last().filter(|_| page.len() == PAGE) {
                        ahead.push(Ahead::Page { dir, after: *last });
                    }
                    page.into_iter().map(|(_, facts)| facts).collect()
                })
            }
        };
        match looked {
            Ok(found) => found.into_iter().for_each(|facts| sort(facts, &mut files, &mut ahead)),
            Err(error) => self.failed(&error),
        }
        self.tell(|told| {
            told.files_left += files.len() as u64;
            told.bytes_left += files.iter().map(|(_, _, size)| size).sum::<u64>();
        });
        Some((files, ahead))
    }

    async fn file(&self, ino: Ino, path: Key, size: u64) {
        let done = self.warm(ino, size).await;
        self.tell(|told| {
            told.files_left -= 1;
            told.bytes_left -= size;
            match &done {
                Ok(Outcome::Fetched) => {
                    told.fetched_files += 1;
                    told.fetched_bytes += size;
                }
                Ok(Outcome::Near) => told.near_files += 1,
                Ok(Outcome::Far) => told.far_files += 1,
                Ok(Outcome::Rehydrating) => {
                    told.rehydrating_files += 1;
                    told.rehydrating_bytes += size;
                }
                Err(_) => {}
            }
        });
        match done {
            Err(error) if error.kind() != Kind::NotFound => self.failed(&error.context(path)),
            // Gone, or removed meanwhile.
            _ => {}
        }
    }

    async fn warm(&self, ino: Ino, size: u64) -> Result<Outcome> {
        let weight = (size / WEIGHED_BY).clamp(1, WEIGHT_MAX);
        // Never closed: no permit is then none to wait for.
        let _weight = self.scales.acquire_many(u32::try_from(weight).unwrap_or(1)).await.ok();
        loop {
            match self.live.apart(move |vfs, caller| vfs.warm(caller, ino)).await? {
                Warming::Near => return Ok(Outcome::Near),
                Warming::Far => return Ok(Outcome::Far),
                Warming::Rehydrating => return Ok(Outcome::Rehydrating),
                Warming::Elsewhere => tokio::time::sleep(LOOK_AGAIN).await,
                Warming::Fetch(reader) => {
                    let fetched = fetch(&reader).await;
                    drop(reader);
                    return match fetched {
                        Err(error) if error.kind() == Kind::Archived => {
                            let archived =
                                self.live.apart(move |vfs, caller| vfs.rehydrate(caller, ino)).await?;
                            if archived { Ok(Outcome::Rehydrating) } else { Err(error) }
                        }
                        other => other.map(|()| Outcome::Fetched),
                    };
                }
            }
        }
    }

    fn failed(&self, error: &Error) {
        self.tell(|told| {
            told.failed_files += 1;
            told.reason.get_or_insert_with(|| error.to_string());
        });
    }

    fn tell(&self, change: impl FnOnce(&mut Warmed)) {
        let mut told = self.told.lock();
        change(&mut told);
        self.progress.send_replace(told.progress());
    }
}

/// What became of one file.
enum Outcome {
    Near,
    Far,
    Fetched,
    Rehydrating,
}

fn sort(facts: FileFacts, files: &mut Vec<(Ino, Key, u64)>, ahead: &mut Vec<Ahead>) {
    match facts.attr.kind {
        FileKind::Directory => ahead.push(Ahead::Page { dir: facts.attr.ino, after: 0 }),
        FileKind::Regular => files.push((facts.attr.ino, facts.path, facts.attr.size)),
        _ => {}
    }
}

/// Reads all of it, and waits until the hot copy is whole.
async fn fetch(reader: &Reader) -> Result<()> {
    let given_up = || Error::new(Kind::NoSpace, "the hot copy was given up; the log says why");
    let fill = reader.fill().ok_or_else(given_up)?;
    let mut at = 0;
    while at < reader.size() && fill.phase() != FillPhase::Dropped {
        at += reader.read(at, PART).await?.len() as u64;
    }
    match fill.ended().await {
        FillPhase::Complete => Ok(()),
        FillPhase::Filling | FillPhase::Dropped => Err(given_up()),
    }
}
