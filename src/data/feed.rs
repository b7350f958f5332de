//! All that is fetched of one version of one object, for all its readers: what is wanted, what
//! is under way, who waits for it. Each byte is under way at most once.

mod filling;
mod flights;

use crate::data::budget::Reservation;
use crate::data::fill::{Fill, Phase};
use crate::data::flight::{self, Body, Failure};
use crate::data::prefetch::{Plan, Prefetch};
use crate::data::reader::Source;
use crate::data::streams::Streams;
use crate::error::Result;
use crate::tier::{ContentId, Patience};
use bytes::{Bytes, BytesMut};
use parking_lot::{Mutex, RwLock};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::{Notify, OwnedSemaphorePermit, oneshot};
use tokio::task::AbortHandle;

/// Rounds of waiting before a read goes around the cache (which then is too small for its readers).
const ROUNDS: usize = 4;

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
    id: ContentId,
    streams: Arc<Streams>,
    fill: RwLock<Option<Arc<Fill>>>,
    state: Mutex<State>,
    /// Told when a reader waits for what only the hot copy wanted.
    hurry: Notify,
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
        Arc::new(Self {
            id: source.id(),
            source,
            streams,
            fill: RwLock::default(),
            state: Mutex::new(state),
            hurry: Notify::new(),
        })
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
        self.streams.runtime.spawn(filling::keep_claim(Arc::downgrade(&fill)));
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
    pub fn copy_present(&self, range: &Range<u64>, buf: &mut [u8]) -> bool {
        let gaps = self.streams.cache.copy(self.id, range, buf);
        if gaps.is_empty() {
            return true;
        }
        // The hot tier may hang.
        let fill = self.fill().filter(|_| Patience::current() != Patience::None);
        let Some(fill) = fill else { return false };
        gaps.iter().all(|gap| {
            let to = (gap.start - range.start) as usize..(gap.end - range.start) as usize;
            fill.read(gap, &mut buf[to]).unwrap_or_else(|error| self.lose_fill(&fill, &error))
        })
    }

    /// Takes note of a read that was answered, for read-ahead.
    pub fn note_hit(self: &Arc<Self>, range: &Range<u64>) {
        self.streams.meters.hits.add(1);
        let mut state = self.state.lock();
        let plan = self.follow(&mut state, range);
        state.queue.extend(plan.ahead);
        self.pump(&mut state);
    }

    /// Takes note of a read that could not be answered, and asks for what it needs.
    pub fn note_miss(self: &Arc<Self>, range: &Range<u64>) {
        self.streams.meters.misses.add(1);
        self.want(&mut self.state.lock(), range);
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
            feed.copy_present(&range, &mut buf).then(|| buf.freeze())
        });
        read.await.map_err(flight::interrupted)
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
        self.hurry.notify_waiters();
        waits
    }

    /// Moves the read-ahead state on; what it cancels is cancelled.
    fn follow(&self, state: &mut State, range: &Range<u64>) -> Plan {
        state.begun = true;
        let room = state.reservation.room();
        let plan = state.prefetch.on_read(range.start, range.end - range.start, self.source.size, room);
        state.reservation.resize(state.prefetch.windows());
        for range in &plan.cancel {
            self.cancel(state, range);
        }
        self.streams.cache.demote(self.id, &plan.passed);
        plan
    }

    /// Starts what a read of `range` needs and what should follow it; answers what of it is missing.
    fn want(self: &Arc<Self>, state: &mut State, range: &Range<u64>) -> Vec<Range<u64>> {
        if let Some(pace) = self.source.tier.pace() {
            pace.note_use();
        }
        let plan = self.follow(state, range);
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
