//! A hot copy being filled with bytes that are streamed to a reader anyway.
//!
//! Bytes are queued and written by one blocking task at a time; until they are written, reads of
//! them are served from the queue, so nothing is fetched twice. When all are there: fsync,
//! rename, fsync of the directory. Any error ends the fill and removes what it left; reading
//! goes on without it. Dropped unfinished, it leaves nothing (a crash leaves a claim that expires).

use crate::clock::Clock;
use crate::data::budget::Permit;
use crate::data::hot::{Admitted, FillNames, Part};
use crate::data::local::Local;
use crate::data::ranges::RangeSet;
use crate::error::Result;
use crate::tier::Tier;
use crate::types::{AttrChange, Key, TimeChange};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How often the claim is renewed, well within its expiry.
pub const BEAT_EVERY: Duration = Duration::from_secs(10);

/// A hot copy being filled.
#[derive(Debug)]
pub struct Fill {
    local: Local,
    clock: Arc<dyn Clock>,
    names: FillNames,
    file: File,
    size: u64,
    state: Mutex<State>,
    /// The phase of the state, for those who wait for its end.
    told: watch::Sender<Phase>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// Until the copy is there or given up.
    admitted: Option<Admitted>,
    /// Written or queued.
    held: RangeSet,
    written: RangeSet,
    queue: BTreeMap<u64, Queued>,
    /// A task is writing.
    writing: bool,
    last_beat: Duration,
}

#[derive(Debug)]
struct Queued {
    bytes: Bytes,
    _memory: Option<Permit>,
}

/// How far a [`Fill`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Bytes are missing.
    Filling,
    /// The copy is there.
    Complete,
    /// It failed or was given up.
    Dropped,
}

/// What became of bytes offered to a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// Queued; the caller must see to it that [`Fill::write_queued`] runs.
    StartWriting,
    /// Queued, and somebody writes already; or not needed.
    Taken,
}

impl Fill {
    pub(super) fn new(local: Local, clock: Arc<dyn Clock>, part: Part) -> Self {
        let Part { names, file, size, admitted } = part;
        let state = State {
            phase: Phase::Filling,
            admitted: Some(admitted),
            held: RangeSet::default(),
            written: RangeSet::default(),
            queue: BTreeMap::new(),
            writing: false,
            last_beat: clock.monotonic(),
        };
        let told = watch::Sender::new(Phase::Filling);
        Self { local, clock, names, file, size, state: Mutex::new(state), told }
    }

    /// How far it is.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.state.lock().phase
    }

    /// Where the copy is made.
    pub(super) fn tier(&self) -> &Arc<dyn Tier> {
        self.local.tier()
    }

    /// Waits until it is complete or dropped.
    pub async fn ended(&self) -> Phase {
        let mut told = self.told.subscribe();
        // The sender lives in self.
        told.wait_for(|phase| *phase != Phase::Filling).await.map_or(Phase::Dropped, |phase| *phase)
    }

    /// Where the copy will be, or is.
    #[must_use]
    pub fn target(&self) -> &Key {
        &self.names.target
    }

    /// What of `range` is neither written nor queued; all of it once the fill is dropped.
    #[must_use]
    pub fn gaps(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        self.state.lock().held.gaps(range)
    }

    /// The first piece that is missing, at most `len` bytes.
    pub(super) fn first_gap(&self, len: u64) -> Option<Range<u64>> {
        let state = self.state.lock();
        let gap = match state.phase {
            Phase::Filling => state.held.first_gap(&(0..self.size))?,
            Phase::Complete | Phase::Dropped => return None,
        };
        Some(gap.start..gap.end.min(gap.start + len))
    }

    /// Takes bytes that arrived.
    pub(super) fn offer(&self, offset: u64, bytes: &Bytes, memory: Option<Permit>) -> Offer {
        let mut state = self.state.lock();
        let range = offset..offset + bytes.len() as u64;
        if state.phase != Phase::Filling {
            return Offer::Taken;
        }
        let mut memory = memory;
        for gap in state.held.gaps(&range) {
            let piece = bytes.slice((gap.start - offset) as usize..(gap.end - offset) as usize);
            state.held.insert(gap.clone());
            state.queue.insert(gap.start, Queued { bytes: piece, _memory: memory.take() });
        }
        let start = !state.writing && !state.queue.is_empty();
        state.writing |= start;
        if start { Offer::StartWriting } else { Offer::Taken }
    }

    /// Writes what is queued until nothing is; finishes the copy when it is whole. Blocks.
    ///
    /// # Errors
    /// What ended the fill; it is dropped then.
    pub(super) fn write_queued(&self) -> Result<()> {
        let done = self.write_all_queued();
        if done.is_err() {
            self.abandon();
        }
        done
    }

    fn write_all_queued(&self) -> Result<()> {
        while let Some((offset, bytes)) = self.next_queued() {
            self.file.write_all_at(&bytes, offset)?;
            let mut state = self.state.lock();
            state.written.insert(offset..offset + bytes.len() as u64);
            state.queue.remove(&offset);
            drop(state);
            self.beat_if_due()?;
        }
        self.finish_if_whole()
    }

    /// The first queued piece; it stays readable in the queue until it is written.
    fn next_queued(&self) -> Option<(u64, Bytes)> {
        let mut state = self.state.lock();
        let next = match state.phase {
            Phase::Filling => state.queue.first_key_value().map(|(at, queued)| (*at, queued.bytes.clone())),
            Phase::Complete | Phase::Dropped => None,
        };
        // Under the same lock as the last look at the queue: what is queued later starts a new writer.
        state.writing = next.is_some();
        next
    }

    fn finish_if_whole(&self) -> Result<()> {
        {
            let state = self.state.lock();
            if state.phase != Phase::Filling || !state.written.contains(&(0..self.size)) {
                return Ok(());
            }
        }
        self.file.sync_all()?;
        crate::failpoint::pass("hot_copy_filled");
        self.local.rename(&self.names.part, &self.names.target)?;
        crate::failpoint::pass("hot_copy_named");
        if let Some((directory, _)) = self.names.target.split() {
            self.local.files()?.sync_directory(&directory)?;
        }
        let admitted = {
            let mut state = self.state.lock();
            state.phase = Phase::Complete;
            state.admitted.take()
        };
        admitted.into_iter().for_each(Admitted::used);
        self.told.send_replace(Phase::Complete);
        self.local.remove(&self.names.claim)
    }

    /// Reads `range` into `buf` if all of it is here.
    ///
    /// # Errors
    /// As pread(2).
    pub(super) fn read(&self, range: &Range<u64>, buf: &mut [u8]) -> Result<bool> {
        let mut at = range.start;
        while at < range.end {
            let to = &mut buf[(at - range.start) as usize..(range.end - range.start) as usize];
            let read = match self.locate(at) {
                Some(Place::Queue(bytes)) => {
                    let len = bytes.len().min(to.len());
                    to[..len].copy_from_slice(&bytes[..len]);
                    len
                }
                Some(Place::File(end)) => {
                    let len = to.len().min((end - at) as usize);
                    self.file.read_exact_at(&mut to[..len], at)?;
                    len
                }
                None => return Ok(false),
            };
            at += read as u64;
        }
        Ok(true)
    }

    fn locate(&self, at: u64) -> Option<Place> {
        let state = self.state.lock();
        if state.phase == Phase::Dropped {
            return None;
        }
        if let Some(end) = state.written.run_at(at) {
            return Some(Place::File(end));
        }
        let (start, queued) = state.queue.range(..=at).next_back()?;
        let skip = (at - start) as usize;
        (skip < queued.bytes.len()).then(|| Place::Queue(queued.bytes.slice(skip..)))
    }

    /// Renews the claim if it is time. Blocks.
    ///
    /// # Errors
    /// As the tier says; `NotFound` if the claim was taken over, which is no harm (see `hot`).
    pub fn beat_if_due(&self) -> Result<()> {
        {
            let mut state = self.state.lock();
            let now = self.clock.monotonic();
            if state.phase != Phase::Filling || now.saturating_sub(state.last_beat) < BEAT_EVERY {
                return Ok(());
            }
            state.last_beat = now;
        }
        let change = AttrChange { mtime: Some(TimeChange::To(self.clock.wall())), ..AttrChange::default() };
        self.local.files()?.set_attr(&self.names.claim, &change)
    }

    /// Gives up and removes what is there of it; answers whether there was anything to give up. Blocks.
    pub fn abandon(&self) -> bool {
        {
            let mut state = self.state.lock();
            if state.phase != Phase::Filling {
                return false;
            }
            state.phase = Phase::Dropped;
            state.admitted = None;
            state.queue.clear();
            state.held = RangeSet::default();
            state.written = RangeSet::default();
        }
        self.told.send_replace(Phase::Dropped);
        for key in [&self.names.part, &self.names.claim] {
            if let Err(error) = self.local.remove(key) {
                tracing::debug!(%key, %error, "a leftover of a fill stays until its claim expires");
            }
        }
        true
    }
}

enum Place {
    Queue(Bytes),
    /// In the file, up to here.
    File(u64),
}

impl Drop for Fill {
    fn drop(&mut self) {
        self.abandon();
    }
}
