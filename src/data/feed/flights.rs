//! What is under way for a feed: started, cut, delivered, landed. Each byte at most once.

use super::{Feed, Flight, State};
use crate::data::feed::Purpose;
use crate::data::flight::{self, Failure};
use crate::data::prefetch::PART;
use crate::data::ranges::RangeSet;
use crate::error::Result;
use bytes::Bytes;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// Requests ahead under way per object.
const AHEAD_MAX: usize = 4;

impl Feed {
    /// What of `range` is neither in memory nor in the hot copy.
    pub(super) fn missing(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let gaps = self.streams.cache.gaps(self.id, range);
        match self.fill() {
            Some(fill) if !gaps.is_empty() => gaps.iter().flat_map(|gap| fill.gaps(gap)).collect(),
            _ => gaps,
        }
    }

    /// What of `range` is missing and not under way.
    pub(super) fn unclaimed(&self, state: &State, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut coming = RangeSet::default();
        state.flights.iter().for_each(|flight| coming.insert(flight.rest.clone()));
        self.missing(range).iter().flat_map(|gap| coming.gaps(gap)).collect()
    }

    pub(super) fn start(self: &Arc<Self>, state: &mut State, range: Range<u64>, purpose: Purpose) {
        state.last_flight += 1;
        let id = state.last_flight;
        let task = flight::fly(Arc::clone(self), id, range.clone(), purpose);
        let abort = self.streams.runtime.spawn(task).abort_handle();
        state.flights.push(Flight { id, purpose, rest: range, waiters: Vec::new(), abort });
    }

    /// Starts what may start now: queued read-ahead, then, if nothing else is under way, the fill.
    pub(super) fn pump(self: &Arc<Self>, state: &mut State) {
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
                let gap = gap.start..self.cached_after(&gap);
                self.start(state, gap, Purpose::Fill);
            }
            _ => state.completion = None,
        }
    }

    /// Whether a flight for the hot copy alone is under way that begins at `start` or behind it.
    #[cfg(test)]
    pub fn is_filling_from(&self, start: u64) -> bool {
        let state = self.state.lock();
        state.flights.iter().any(|flight| flight.purpose == Purpose::Fill && flight.rest.start >= start)
    }

    /// Where a fill that starts at the start of `gap` meets bytes that are in memory already.
    fn cached_after(&self, gap: &Range<u64>) -> u64 {
        let missing = self.streams.cache.gaps(self.id, gap);
        missing.first().map_or(gap.end, |first| first.end)
    }

    /// What is in memory at `at`, one block at most.
    pub fn cached_at(&self, at: u64, end: u64) -> Option<Bytes> {
        self.streams.cache.first(self.id, &(at..end))
    }

    /// Cuts what is queued or under way ahead in `range`, except what somebody waits for.
    pub(super) fn cancel(&self, state: &mut State, range: &Range<u64>) {
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
        match purpose {
            // What only the hot copy wants must not push out what readers want.
            Purpose::Fill if fill.is_some() => {}
            // A small answer may be a slice of a large network buffer, which it would keep alive.
            Purpose::Wanted => self.streams.cache.insert(self.id, offset, &Bytes::copy_from_slice(&chunk)),
            Purpose::Ahead | Purpose::Fill => self.streams.cache.insert(self.id, offset, &chunk),
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
}
