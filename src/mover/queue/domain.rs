//! One order domain in memory: its steps in order, and which of them no earlier one holds up.

use super::{Ahead, Holds, Item, Thing, later, settled_at};
use crate::types::{Ino, Key, Seq, TierId, Timestamp};
use std::collections::{HashSet, VecDeque};
use std::ops::ControlFlow;
use std::time::Duration;

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    Running,
    Parked,
    /// The same, and what comes after it does not wait.
    Reopened,
    Blocked,
}

/// How far the bytes of a step are that are sent ahead of its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    No,
    Sending,
    Over,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) item: Item,
    pub(super) state: State,
    pub(super) sent: Sent,
    /// Something was released while it ran: what it found may be old.
    pub(super) noticed: bool,
}

impl Entry {
    pub(super) fn new(item: Item) -> Self {
        Self { item, state: State::Waiting, sent: Sent::No, noticed: false }
    }

    pub(super) fn run(&mut self) {
        (self.state, self.noticed) = (State::Running, false);
    }

    pub(super) fn send(&mut self) {
        self.sent = Sent::Sending;
    }

    /// Something was queued or released.
    pub(super) fn notice(&mut self) {
        self.noticed = true;
        if matches!(self.state, State::Parked | State::Reopened) {
            self.state = State::Waiting;
        }
    }

    /// Whether its bytes can be sent ahead.
    fn may_send(&self) -> bool {
        self.item.ahead == Ahead::Possible && self.state == State::Waiting && self.sent == Sent::No
    }

    /// Whether it has no place in the order of its domain for now.
    fn is_aside(&self) -> bool {
        self.state == State::Reopened && self.item.holds == Holds::Domain
    }

    /// At once, if it does not run; even a blocked one.
    pub(super) fn try_again(&mut self) {
        self.item.not_before = Timestamp(i64::MIN);
        if self.state == State::Blocked {
            self.state = State::Waiting;
        }
    }
}

/// Steps of one domain.
#[derive(Debug, Default)]
pub(super) struct Domain {
    /// In order of their numbers.
    pub(super) entries: VecDeque<Entry>,
    /// How many it may hold: more where they needn't run one after another.
    pub(super) room: usize,
    /// Highest step taken into memory so far.
    pub(super) held_to: Seq,
    /// The catalog has steps above `held_to` that were passed over.
    pub(super) more: bool,
    /// Passed over in the scan under way.
    pub(super) passed_over: bool,
    /// Steps up to here don't settle.
    pub(super) hurried_to: Seq,
}

impl Domain {
    /// Whether the catalog must be asked for more before it runs dry.
    pub(super) fn is_short(&self) -> bool {
        self.more && self.in_order() * 4 <= self.room
    }

    /// Whether it holds all that it may.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= self.room && self.in_order() >= self.room
    }

    fn in_order(&self) -> usize {
        self.entries.iter().filter(|entry| !entry.is_aside()).count()
    }

    /// A step that was held gets its place among those in memory; for it, the last may have to wait in the catalog.
    pub(super) fn insert(&mut self, item: Item) {
        let Err(at) = self.entries.binary_search_by_key(&item.seq, |entry| entry.item.seq) else { return };
        self.entries.insert(at, Entry::new(item));
        let is_idle = |entry: &Entry| entry.state == State::Waiting && entry.sent != Sent::Sending;
        while self.in_order() > self.room && self.entries.back().is_some_and(is_idle) {
            self.entries.pop_back();
            self.held_to = self.entries.back().map_or(Seq(0), |last| last.item.seq);
            self.passed_over = true;
        }
    }

    /// Number of its first step.
    pub(super) fn first(&self) -> Option<Seq> {
        self.entries.front().map(|entry| entry.item.seq)
    }

    /// Number of the first step that those after it wait for.
    pub(super) fn first_holding(&self) -> Option<Seq> {
        self.entries.iter().find(|entry| !entry.is_aside()).map(|entry| entry.item.seq)
    }

    /// How many have sent bytes ahead, or do.
    pub(super) fn sent(&self) -> usize {
        self.entries.iter().filter(|entry| entry.sent != Sent::No).count()
    }

    /// The step.
    pub(super) fn entry(&mut self, seq: Seq) -> Option<&mut Entry> {
        let at = self.find(seq)?;
        self.entries.get_mut(at)
    }

    /// The step, if it runs.
    pub(super) fn running(&mut self, seq: Seq) -> Option<usize> {
        let at = self.find(seq)?;
        (self.entries[at].state == State::Running).then_some(at)
    }

    pub(super) fn find(&self, seq: Seq) -> Option<usize> {
        self.entries.binary_search_by_key(&seq, |entry| entry.item.seq).ok()
    }

    /// Visits in order the steps that no earlier one holds up, until the visitor has enough.
    pub(super) fn each_free(&self, mut visit: impl FnMut(usize, &Entry) -> ControlFlow<()>) {
        let mut held = Held::default();
        let mut is_first = true;
        for (at, entry) in self.entries.iter().enumerate().filter(|(_, entry)| !entry.is_aside()) {
            let is_free = match &entry.item.holds {
                Holds::Domain => is_first,
                Holds::Things(things) => held.allow(things),
            };
            if is_free && visit(at, entry).is_break() {
                return;
            }
            match &entry.item.holds {
                Holds::Domain => return,
                Holds::Things(things) => held.add(things),
            }
            is_first = false;
        }
    }

    /// When each free step that waits may start. One whose bytes are being sent has to wait for their end.
    pub(super) fn each_due(
        &self,
        now: Timestamp,
        longest_wait: Duration,
        mut visit: impl FnMut(usize, Timestamp) -> ControlFlow<()>,
    ) {
        self.each_free(|at, entry| match entry.state {
            State::Waiting if entry.sent != Sent::Sending => {
                visit(at, self.due(&entry.item, now, longest_wait))
            }
            _ => ControlFlow::Continue(()),
        });
    }

    /// Steps whose bytes can be sent now though it is not their turn, in order.
    pub(super) fn early(&self, now: Timestamp, longest_wait: Duration) -> impl Iterator<Item = usize> {
        let mut free = HashSet::new();
        self.each_free(|at, _| {
            free.insert(at);
            ControlFlow::Continue(())
        });
        self.entries.iter().enumerate().filter_map(move |(at, entry)| {
            let is_ready = entry.may_send() && self.due(&entry.item, now, longest_wait) <= now;
            (is_ready && !free.contains(&at)).then_some(at)
        })
    }

    /// Whether looking for steps to start is worth it.
    pub(super) fn has_due(&self, now: Timestamp, longest_wait: Duration) -> bool {
        self.waiting(now, longest_wait).any(|when| when <= now)
    }

    /// When to look again, if nothing else happens: what is due by now is held up by steps that run, and their end is an
    /// event. May be too early, never too late.
    pub(super) fn next_due(&self, now: Timestamp, longest_wait: Duration) -> Option<Timestamp> {
        let early = self.entries.iter().filter(|entry| entry.may_send());
        let early = early.map(|entry| self.due(&entry.item, now, longest_wait));
        self.waiting(now, longest_wait).chain(early).filter(|when| *when > now).min()
    }

    /// When each waiting step is due; of those that wait for all before them only the first counts.
    fn waiting(&self, now: Timestamp, longest_wait: Duration) -> impl Iterator<Item = Timestamp> {
        let in_order = self.entries.iter().filter(|entry| !entry.is_aside()).enumerate();
        let reachable = in_order.scan(false, |is_held, (at, entry)| {
            let alone = entry.item.holds == Holds::Domain;
            let is_reached = !*is_held && (at == 0 || !alone);
            *is_held |= alone;
            is_reached.then_some(entry)
        });
        reachable
            .filter(|entry| entry.state == State::Waiting)
            .map(move |entry| self.due(&entry.item, now, longest_wait))
    }

    /// When a step may start. A wall clock that jumped back must not make it wait for longer
    /// than it was ever meant to.
    fn due(&self, item: &Item, now: Timestamp, longest_wait: Duration) -> Timestamp {
        let settled =
            if item.seq <= self.hurried_to || item.renewed_at > now { now } else { settled_at(item) };
        let retry = if item.not_before > later(now, longest_wait) { now } else { item.not_before };
        settled.max(retry)
    }

    /// Whether nothing up to `seq` can go on before a person acts.
    pub(super) fn is_stuck(&self, seq: Seq) -> bool {
        let mut stuck = None;
        self.each_free(|_, entry| {
            if entry.item.seq > seq {
                return ControlFlow::Break(());
            }
            let is_blocked = entry.state == State::Blocked;
            stuck = Some(is_blocked);
            if is_blocked { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        stuck.unwrap_or(false)
    }
}

/// What the steps looked at so far hold.
#[derive(Default)]
struct Held<'a> {
    inodes: HashSet<Ino>,
    keys: HashSet<(TierId, &'a [u8])>,
    /// Every directory above a key that is held.
    above: HashSet<(TierId, &'a [u8])>,
}

impl<'a> Held<'a> {
    /// Whether none of `things` is held: neither itself nor, of a key, anything above or below it.
    fn allow(&self, things: &[Thing]) -> bool {
        things.iter().all(|thing| match thing {
            Thing::Inode(ino) => !self.inodes.contains(ino),
            Thing::Key(tier, key) => {
                let itself = (*tier, key.as_bytes());
                !self.keys.contains(&itself)
                    && !self.above.contains(&itself)
                    && !above(key).any(|parent| self.keys.contains(&(*tier, parent)))
            }
        })
    }

    fn add(&mut self, things: &'a [Thing]) {
        for thing in things {
            match thing {
                Thing::Inode(ino) => drop(self.inodes.insert(*ino)),
                Thing::Key(tier, key) => {
                    self.keys.insert((*tier, key.as_bytes()));
                    self.above.extend(above(key).map(|parent| (*tier, parent)));
                }
            }
        }
    }
}

/// Every directory above `key`, the root last.
fn above(key: &Key) -> impl Iterator<Item = &[u8]> {
    let mut rest = key.as_bytes();
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        rest = rest.iter().rposition(|byte| *byte == b'/').map_or(&[][..], |at| &rest[..at]);
        Some(rest)
    })
}
