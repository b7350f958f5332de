//! All that is fetched of one version of one object, for all its readers: what is wanted, what
//! is under way, who waits for it. Each byte is under way at most once.

use crate::data::budget::{Permit, Reservation};
use crate::data::cache::FileId;
use crate::data::fill::{Fill, Offer, Phase};
use crate::data::flight::{self, Body, Failure};
use crate::data::prefetch::{PART, Prefetch};
use crate::data::ranges::RangeSet;
use crate::data::reader::Source;
use crate::data::streams::Streams;
use crate::error::Result;
use bytes::{Bytes, BytesMut};
use parking_lot::{Mutex, RwLock};
use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::task::AbortHandle;

/// Requests ahead under way per object.
const AHEAD_MAX: usize = 4;
/// Rounds of waiting before a read goes around the cache (which then is too small for its readers).
const ROUNDS: usize = 4;
/// How long bytes may wait for a hot copy's disk before the copy is given up: a sick hot tier
/// must not delay reads.
const FILL_PATIENCE: Duration = Duration::from_secs(2);
/// How often it is looked whether a fill's claim must be renewed.
const BEAT_TICK: Duration = Duration::from_secs(5);

/// Why a flight is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Somebody waits for it.
    Wanted,
    /// A stream will want it.
    Ahead,
    /// Only the hot copy wants it.
    Fill,
}

/// One request under way.
#[derive(Debug)]
struct Flight {
    id: u64,
    purpose: Purpose,
    /// What has not come in yet.
    rest: Range<u64>,
    waiters: Vec<Waiter>,
    abort: AbortHandle,
}

#[derive(Debug)]
struct Waiter {
    /// Wakes when everything before this is in.
    target: u64,
    wake: oneshot::Sender<Result<(), Failure>>,
}

#[derive(Debug)]
struct State {
    prefetch: Prefetch,
    reservation: Reservation,
    queue: VecDeque<Range<u64>>,
    flights: Vec<Flight>,
    last_flight: u64,
    readers: usize,
    /// Somebody has read: a fill may go on by itself.
    begun: bool,
    /// Leave to complete the fill without readers.
    completion: Option<OwnedSemaphorePermit>,
}

/// What is fetched of one object.
#[derive(Debug)]
pub(super) struct Feed {
    source: Source,
    id: FileId,
    streams: Arc<Streams>,
    fill: RwLock<Option<Arc<Fill>>>,
    state: Mutex<State>,
}

impl Feed {
    pub fn new(source: Source, streams: Arc<Streams>) -> Arc<Self> {
        let state = State {
            prefetch: Prefetch::default(),
            reservation: streams.budget.reservation(),
            queue: VecDeque::new(),
            flights: Vec::new(),
            last_flight: 0,
            readers: 0,
            begun: false,
            completion: None,
        };
        Arc::new(Self { id: source.id(), source, streams, fill: RwLock::default(), state: Mutex::new(state) })
    }

    pub fn source(&self) -> &Source {
        &self.source
    }

    pub fn streams(&self) -> &Arc<Streams> {
        &self.streams
    }

    pub fn fill(&self) -> Option<Arc<Fill>> {
        self.fill.read().clone()
    }

    fn filling(&self) -> Option<Arc<Fill>> {
        self.fill().filter(|fill| fill.phase() == Phase::Filling)
    }

    // ---- readers

    /// One reader more; its fill is taken unless one is under way.
    pub fn join(self: &Arc<Self>, fill: Option<Fill>) {
        self.state.lock().readers += 1;
        let Some(fill) = fill else { return };
        if self.fill().is_some_and(|fill| fill.phase() != Phase::Dropped) {
            self.streams.runtime.spawn_blocking(move || drop(fill));
            return;
        }
        self.streams.meters.fills_started.add(1);
        let fill = Arc::new(fill);
        self.streams.runtime.spawn(keep_claim(Arc::downgrade(&fill)));
        *self.fill.write() = Some(fill);
    }

    /// One reader less.
    pub fn leave(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.readers -= 1;
        if state.readers > 0 {
            return;
        }
        state.prefetch.stop();
        self.cancel(&mut state, &(0..u64::MAX));
        state.reservation.resize(0);
        if let Some(fill) = self.filling() {
            let leave = Arc::clone(&self.streams.completions).try_acquire_owned().ok();
            state.completion = leave.filter(|_| state.begun);
            if state.completion.is_none() {
                self.drop_fill(&fill);
            }
        }
        self.pump(&mut state);
    }

    // ---- reading

    /// Copies `range` to `buf` if all of it is here.
    pub fn copy_present(&self, range: &Range<u64>, buf: &mut [u8]) -> Result<bool> {
        let gaps = self.streams.cache.copy(self.id, range, buf);
        if gaps.is_empty() {
            return Ok(true);
        }
        let Some(fill) = self.fill() else { return Ok(false) };
        for gap in gaps {
            let to = (gap.start - range.start) as usize..(gap.end - range.start) as usize;
            if !fill.read(&gap, &mut buf[to])? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes note of a read, for read-ahead, and asks for what it needs.
    pub fn note(self: &Arc<Self>, range: &Range<u64>) {
        let mut state = self.state.lock();
        let missing = self.want(&mut state, range);
        let meters = &self.streams.meters;
        if missing.is_empty() { meters.hits.add(1) } else { meters.misses.add(1) }
    }

    /// Waits for `range` and answers it.
    pub async fn read(self: &Arc<Self>, range: &Range<u64>) -> Result<Bytes> {
        for _ in 0..ROUNDS {
            let waits = self.demand(range);
            for wait in waits {
                // A flight that was cut off sends nothing: the next round asks again.
                if let Ok(Err(failure)) = wait.await {
                    return Err(failure.into_error(&self.source));
                }
            }
            if let Some(bytes) = self.present(range).await? {
                return Ok(bytes);
            }
        }
        self.read_around_cache(range).await
    }

    async fn present(self: &Arc<Self>, range: &Range<u64>) -> Result<Option<Bytes>> {
        if let Some(pieces) = self.streams.cache.get(self.id, range) {
            return Ok(Some(join(pieces, range)));
        }
        if self.fill().is_none() {
            return Ok(None);
        }
        let (feed, range) = (Arc::clone(self), range.clone());
        let read = self.streams.runtime.spawn_blocking(move || {
            let mut buf = BytesMut::zeroed((range.end - range.start) as usize);
            Ok(feed.copy_present(&range, &mut buf)?.then(|| buf.freeze()))
        });
        read.await.map_err(flight::interrupted)?
    }

    async fn read_around_cache(&self, range: &Range<u64>) -> Result<Bytes> {
        let mut bytes = BytesMut::with_capacity((range.end - range.start) as usize);
        let mut body = Body::new(&self.source, &self.streams.meters, range.clone());
        while let Some((_, chunk)) = body.next().await? {
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes.freeze())
    }

    /// Asks for what is missing of `range`; answers what to wait for.
    fn demand(self: &Arc<Self>, range: &Range<u64>) -> Vec<oneshot::Receiver<Result<(), Failure>>> {
        let mut state = self.state.lock();
        let missing = self.want(&mut state, range);
        let mut waits = Vec::new();
        for flight in &mut state.flights {
            let target = missing
                .iter()
                .filter(|gap| gap.start < flight.rest.end && flight.rest.start < gap.end)
                .map(|gap| gap.end.min(flight.rest.end))
                .max();
            if let Some(target) = target {
                let (wake, wait) = oneshot::channel();
                flight.waiters.push(Waiter { target, wake });
                waits.push(wait);
            }
        }
        waits
    }

    /// Starts what a read of `range` needs and what should follow it; answers what of it is missing.
    fn want(self: &Arc<Self>, state: &mut State, range: &Range<u64>) -> Vec<Range<u64>> {
        state.begun = true;
        let room = state.reservation.room();
        let plan = state.prefetch.on_read(range.start, range.end - range.start, self.source.size, room);
        state.reservation.resize(state.prefetch.windows());
        for range in &plan.cancel {
            self.cancel(state, range);
        }
        self.streams.cache.demote(self.id, &plan.passed);
        let missing = self.missing(range);
        if !missing.is_empty() {
            for gap in self.unclaimed(state, &plan.wanted) {
                self.start(state, gap, Purpose::Wanted);
            }
        }
        state.queue.extend(plan.ahead);
        self.pump(state);
        missing
    }

    // ---- flights

    /// What of `range` is neither in memory nor in the hot copy.
    fn missing(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let gaps = self.streams.cache.gaps(self.id, range);
        match self.fill() {
            Some(fill) if !gaps.is_empty() => gaps.iter().flat_map(|gap| fill.gaps(gap)).collect(),
            _ => gaps,
        }
    }

    /// What of `range` is missing and not under way.
    fn unclaimed(&self, state: &State, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut coming = RangeSet::default();
        state.flights.iter().for_each(|flight| coming.insert(flight.rest.clone()));
        self.missing(range).iter().flat_map(|gap| coming.gaps(gap)).collect()
    }

    fn start(self: &Arc<Self>, state: &mut State, range: Range<u64>, purpose: Purpose) {
        state.last_flight += 1;
        let id = state.last_flight;
        let task = flight::fly(Arc::clone(self), id, range.clone(), purpose);
        let abort = self.streams.runtime.spawn(task).abort_handle();
        state.flights.push(Flight { id, purpose, rest: range, waiters: Vec::new(), abort });
    }

    /// Starts what may start now: queued read-ahead, then, if nothing else is under way, the fill.
    fn pump(self: &Arc<Self>, state: &mut State) {
        while state.flights.iter().filter(|flight| flight.purpose == Purpose::Ahead).count() < AHEAD_MAX
            && let Some(range) = state.queue.pop_front()
        {
            for gap in self.unclaimed(state, &range) {
                self.start(state, gap, Purpose::Ahead);
            }
        }
        if !state.begun || !state.flights.is_empty() || !state.queue.is_empty() {
            return;
        }
        let gap = self.filling().and_then(|fill| fill.first_gap(PART));
        match gap {
            Some(gap) if state.readers > 0 || state.completion.is_some() => {
                self.start(state, gap, Purpose::Fill);
            }
            _ => state.completion = None,
        }
    }

    /// Cuts what is queued or under way ahead in `range`, except what somebody waits for.
    fn cancel(&self, state: &mut State, range: &Range<u64>) {
        state.queue.retain(|queued| queued.end <= range.start || queued.start >= range.end);
        for flight in state.flights.iter_mut().filter(|flight| flight.purpose == Purpose::Ahead) {
            let rest = &flight.rest;
            if rest.end <= range.start || rest.start >= range.end || rest.end > range.end {
                continue;
            }
            let needed = flight.waiters.iter().map(|waiter| waiter.target).max().unwrap_or(0);
            flight.rest.end = needed.max(range.start).min(rest.end);
        }
        let meters = &self.streams.meters;
        state.flights.retain(|flight| {
            let goes_on = flight.rest.start < flight.rest.end;
            if !goes_on {
                flight.abort.abort();
                meters.cancelled.add(1);
            }
            goes_on
        });
    }

    /// `chunk` came in at `offset`.
    pub async fn accept(
        self: &Arc<Self>,
        flight: u64,
        purpose: Purpose,
        offset: u64,
        chunk: Bytes,
    ) -> ControlFlow<()> {
        let fill = self.filling();
        // What only the hot copy wants must not push out what readers want.
        if purpose != Purpose::Fill || fill.is_none() {
            self.streams.cache.insert(self.id, offset, &chunk);
        }
        let end = offset + chunk.len() as u64;
        match fill {
            Some(fill) if purpose == Purpose::Fill => {
                self.offer(&fill, offset, &chunk).await;
                self.advance(flight, end)
            }
            Some(fill) => {
                let flow = self.advance(flight, end);
                self.offer(&fill, offset, &chunk).await;
                flow
            }
            None => self.advance(flight, end),
        }
    }

    /// Everything before `end` is in: wakes who waited for it.
    fn advance(&self, flight: u64, end: u64) -> ControlFlow<()> {
        let mut state = self.state.lock();
        let Some(flight) = state.flights.iter_mut().find(|other| other.id == flight) else {
            return ControlFlow::Break(());
        };
        flight.rest.start = end.min(flight.rest.end);
        for waiter in flight.waiters.extract_if(.., |waiter| waiter.target <= end) {
            // The reader may have been interrupted.
            let _ = waiter.wake.send(Ok(()));
        }
        if flight.rest.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// A flight has ended; `None`: cut off by a panic or the end of the runtime.
    pub fn land(self: &Arc<Self>, flight: u64, outcome: Option<Result<(), Failure>>) {
        let mut state = self.state.lock();
        let Some(index) = state.flights.iter().position(|other| other.id == flight) else { return };
        let flight = state.flights.swap_remove(index);
        let Some(outcome) = outcome else { return };
        if outcome.is_err()
            && flight.purpose == Purpose::Fill
            && let Some(fill) = self.filling()
        {
            self.drop_fill(&fill);
        }
        for waiter in flight.waiters {
            let _ = waiter.wake.send(outcome.clone());
        }
        self.pump(&mut state);
    }

    // ---- the hot copy

    async fn offer(&self, fill: &Arc<Fill>, offset: u64, chunk: &Bytes) {
        let memory = self.streams.budget.acquire_fill(chunk.len() as u64);
        let memory: Option<Permit> = tokio::time::timeout(FILL_PATIENCE, memory).await.ok();
        if memory.is_none() {
            tracing::warn!(key = %fill.target(), "hot copy given up: its tier takes bytes too slowly");
            return self.drop_fill(fill);
        }
        if fill.offer(offset, chunk, memory) == Offer::StartWriting {
            let (fill, meters) = (Arc::clone(fill), Arc::clone(&self.streams.meters));
            self.streams.runtime.spawn_blocking(move || match fill.write_queued() {
                Ok(()) if fill.phase() == Phase::Complete => meters.fills_completed.add(1),
                Ok(()) => {}
                Err(error) => {
                    meters.fills_dropped.add(1);
                    tracing::warn!(key = %fill.target(), %error, "hot copy given up");
                }
            });
        }
    }

    fn drop_fill(&self, fill: &Arc<Fill>) {
        let (fill, meters) = (Arc::clone(fill), Arc::clone(&self.streams.meters));
        self.streams.runtime.spawn_blocking(move || {
            if fill.abandon() {
                meters.fills_dropped.add(1);
            }
        });
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.streams.forget(self.id);
        if let Some(fill) = self.fill.get_mut().take() {
            // The last owner removes files; that must not block a task.
            self.streams.runtime.spawn_blocking(move || drop(fill));
        }
    }
}

fn join(mut pieces: Vec<Bytes>, range: &Range<u64>) -> Bytes {
    if pieces.len() == 1 {
        return pieces.remove(0);
    }
    let mut bytes = BytesMut::with_capacity((range.end - range.start) as usize);
    pieces.iter().for_each(|piece| bytes.extend_from_slice(piece));
    bytes.freeze()
}

/// Keeps the claim of a fill alive while the tier it reads from is slow.
async fn keep_claim(fill: Weak<Fill>) {
    loop {
        tokio::time::sleep(BEAT_TICK).await;
        let Some(fill) = fill.upgrade().filter(|fill| fill.phase() == Phase::Filling) else { return };
        let beat = tokio::task::spawn_blocking(move || fill.beat_if_due());
        if let Ok(Err(error)) = beat.await {
            tracing::debug!(%error, "the claim of a hot copy could not be renewed");
        }
    }
}
