//! One order domain in memory: its steps in order, how far each is, and when the next of them is due.

use super::entry::{Entry, Sent, State};
use super::turns::Turns;
use super::{Item, later, settled_at};
use crate::types::{Seq, Timestamp};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

/// Steps of one domain.
#[derive(Debug, Default)]
pub(super) struct Domain {
    entries: BTreeMap<Seq, Entry>,
    /// Whose turn it is of those that have a place in the order.
    turns: Turns,
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
        self.more && self.turns.len() * 4 <= self.room
    }

    /// Whether it holds all that it may.
    pub(super) fn is_full(&self) -> bool {
        self.turns.len() >= self.room
    }

    /// Takes a step behind all others.
    pub(super) fn push(&mut self, item: Item) {
        self.held_to = item.seq;
        self.put(item);
    }

    /// A step that was held gets its place among those in memory; for it, the last may have to wait in the catalog.
    pub(super) fn insert(&mut self, item: Item) {
        if self.entries.contains_key(&item.seq) {
            return;
        }
        self.put(item);
        while self.turns.len() > self.room
            && let Some((last, entry)) = self.entries.last_key_value()
            && entry.is_waiting()
        {
            self.remove(*last);
            self.held_to = self.entries.last_key_value().map_or(Seq(0), |(last, _)| *last);
            self.passed_over = true;
        }
    }

    /// Takes a step, or what has become of it, anew.
    pub(super) fn put(&mut self, item: Item) {
        self.turns.leave(item.seq);
        self.turns.enter(item.seq, &item.holds);
        self.entries.insert(item.seq, Entry::new(item));
    }

    /// Forgets a step.
    pub(super) fn remove(&mut self, seq: Seq) {
        self.turns.leave(seq);
        self.entries.remove(&seq);
    }

    /// Changes a step, if it is there; what it holds must stay.
    pub(super) fn change<T>(&mut self, seq: Seq, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let entry = self.entries.get_mut(&seq)?;
        let before = entry.is_aside();
        let changed = change(entry);
        match (before, entry.is_aside()) {
            (false, true) => self.turns.leave(seq),
            (true, false) => self.turns.enter(seq, &entry.item.holds),
            _ => {}
        }
        Some(changed)
    }

    /// Tries the steps up to `last` again at once, even blocked ones.
    pub(super) fn try_again_to(&mut self, last: Seq) {
        self.change_all(|entry| entry.item.seq <= last, Entry::try_again);
    }

    /// Something was queued or released.
    pub(super) fn notice(&mut self) {
        self.change_all(Entry::can_be_noticed, Entry::notice);
    }

    fn change_all(&mut self, which: impl Fn(&Entry) -> bool, change: impl Fn(&mut Entry)) {
        let all: Vec<Seq> = self.entries().filter(|entry| which(entry)).map(|entry| entry.item.seq).collect();
        for seq in all {
            self.change(seq, &change);
        }
    }

    /// The step.
    pub(super) fn entry(&self, seq: Seq) -> Option<&Entry> {
        self.entries.get(&seq)
    }

    /// All steps, in order.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// How many they are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The first step.
    pub(super) fn first(&self) -> Option<&Entry> {
        self.entries.first_key_value().map(|(_, entry)| entry)
    }

    /// Number of the first step that those after it wait for.
    pub(super) fn first_holding(&self) -> Option<Seq> {
        self.turns.first()
    }

    /// How many have sent bytes ahead, or do.
    pub(super) fn sent(&self) -> usize {
        self.entries().filter(|entry| entry.sent != Sent::No).count()
    }

    /// The steps that no earlier one holds up, in order.
    fn free(&self) -> impl Iterator<Item = &Entry> {
        self.turns.free().filter_map(|seq| self.entries.get(&seq))
    }

    /// Visits the steps that may start now, in order, until the visitor has enough. One whose bytes are being sent has to wait for their end.
    pub(super) fn each_due<'a>(
        &'a self,
        now: Timestamp,
        longest_wait: Duration,
        mut visit: impl FnMut(&'a Item) -> ControlFlow<()>,
    ) {
        let waiting = self.free().filter(|entry| entry.is_waiting()).map(|entry| &entry.item);
        let due = waiting.filter(|item| self.due(item, now, longest_wait) <= now);
        for item in due {
            if visit(item).is_break() {
                return;
            }
        }
    }

    /// Steps whose bytes can be sent now though it is not their turn, in order.
    pub(super) fn early(&self, now: Timestamp, longest_wait: Duration) -> impl Iterator<Item = &Item> {
        let early = self.entries().filter(|entry| entry.may_send()).map(|entry| &entry.item);
        early.filter(move |item| self.due(item, now, longest_wait) <= now && !self.turns.is_free(item.seq))
    }

    /// When to look again, if nothing else happens: what is due by now is held up by steps that run, and their end is an
    /// event.
    pub(super) fn next_due(&self, now: Timestamp, longest_wait: Duration) -> Option<Timestamp> {
        let waiting = self.free().filter(|entry| entry.state == State::Waiting);
        let early = self.entries().filter(|entry| entry.may_send());
        let due = waiting.chain(early).map(|entry| self.due(&entry.item, now, longest_wait));
        due.filter(|when| *when > now).min()
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
        let mut free = self.free().take_while(|entry| entry.item.seq <= seq).peekable();
        free.peek().is_some() && free.all(|entry| entry.state == State::Blocked)
    }
}
