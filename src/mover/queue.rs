//! What to start next. Pure: (steps, now) → jobs to start and when to look again; no clock, no I/O.
//!
//! * A step runs when no earlier one of its order domain holds what it needs: in a strict domain all of it, so that its
//!   steps run one after another in `seq` order; in one without order only the same file and the same keys.
//! * Domains run side by side, but a directory that came from others waits for what was queued there before. All jobs
//!   together have a limit.
//! * A file under a name that is held, or that is written again, has no place in the order: it gets one when that ends.
//! * What a step is going to show may be sent ahead of its turn.
//! * A step that settles, backs off, is open for writing or is blocked holds up nothing else.
//! * Memory is bounded: a domain holds the first of its steps and remembers that there are
//!   `more`; those stay in the catalog until the domain runs short.

mod domain;
mod entry;
mod turns;

use crate::policy::placement::RuleSet;
use crate::types::{Ino, Key, Seq, TierId, Timestamp};
use domain::Domain;
use entry::{Entry, Sent, State};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

/// A step as the queue sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Place in the order.
    pub seq: Seq,
    /// Order domain.
    pub domain: String,
    /// When it was first queued.
    pub queued_at: Timestamp,
    /// When it was last queued anew.
    pub renewed_at: Timestamp,
    /// How long it waits for renames, rewrites and deletes after that.
    pub settle: Duration,
    /// Its name is held to then, and the step is to stay out of the order.
    pub held_to: Option<Timestamp>,
    /// Not before this moment, after a failed try.
    pub not_before: Timestamp,
    /// What later steps of its domain must leave alone until it is done.
    pub holds: Holds,
    /// Rules in whose domains all earlier steps go first.
    pub follows: Option<RuleSet>,
    /// What it does about held names.
    pub names: Names,
    /// Whether it has bytes that can be sent before its turn.
    pub ahead: Ahead,
}

/// What a step means for names that are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Nothing.
    Stay,
    /// It moved a directory: files below it may have other names.
    Moved,
}

/// Whether bytes of a step can be sent before its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// It has none worth that.
    No,
    /// They can.
    Possible,
}

/// What a step keeps from later ones of its domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holds {
    /// All: nothing runs beside it.
    Domain,
    /// These alone.
    Things(Vec<Thing>),
}

/// Something that two steps must not work on at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Thing {
    /// A file or directory.
    Inode(Ino),
    /// A key, with all that is above and below it.
    Key(TierId, Key),
}

/// How much may be held and run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Jobs at once.
    pub parallel: usize,
    /// Steps whose bytes are sent ahead of their turn, or were.
    pub ahead: usize,
    /// Steps of one domain in memory, if they run one after another.
    pub per_domain: usize,
    /// The same if they don't.
    pub per_free_domain: usize,
    /// Domains in memory.
    pub domains: usize,
    /// No failed step waits longer than this, whatever the wall clock did meanwhile.
    pub longest_wait: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            parallel: 64,
            ahead: 64,
            per_domain: 64,
            per_free_domain: 1024,
            domains: 1024,
            longest_wait: Duration::from_secs(90),
        }
    }
}

/// So many times the settle time of its rule a step waits at most, counted from the first close.
const SETTLES_AT_MOST: u32 = 10;

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is left of the step.
    Done,
    /// The step changed since it was read; here is how it is now.
    Later(Item),
    /// The file was closed, and is still open: look again when something was released.
    Parked,
    /// The file is written again, and its next close gives it its place: the same, and nothing waits for it.
    Reopened,
    /// Failed for now.
    Retry(Timestamp),
    /// Refused for good; a person must help.
    Blocked,
}

/// The queue.
#[derive(Debug)]
pub struct Queue {
    domains: BTreeMap<String, Domain>,
    limits: Limits,
    running: usize,
    /// Highest step ever seen.
    scanned: Seq,
    /// New steps may be above `scanned`.
    news: bool,
    /// First step of a domain for which there was no room.
    overflow: Option<Seq>,
    overflow_in_scan: Option<Seq>,
    held: Held,
}

/// Steps whose names are held: none is in memory.
#[derive(Debug, Default)]
struct Held {
    /// The first of them.
    first: Option<Seq>,
    /// When the first of them is held no longer.
    until: Option<Timestamp>,
    /// They are to be looked at again, from this step on.
    again: Option<Seq>,
    /// The same after the scan under way.
    then: Option<Seq>,
}

impl Held {
    fn note(&mut self, seq: Seq, until: Timestamp) {
        self.first = Some(self.first.map_or(seq, |first| first.min(seq)));
        self.until = Some(self.until.map_or(until, |earliest| earliest.min(until)));
    }

    fn look_again(&mut self) {
        self.again = self.again.into_iter().chain(self.take()).min();
    }

    fn look_again_then(&mut self) {
        self.then = self.then.into_iter().chain(self.take()).min();
    }

    fn take(&mut self) -> Option<Seq> {
        self.until = None;
        self.first.take()
    }

    fn end_scan(&mut self, from: Seq) {
        self.again = self.again.filter(|first| from >= *first).into_iter().chain(self.then.take()).min();
    }
}

impl Queue {
    /// An empty queue that wants a first scan.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            domains: BTreeMap::new(),
            limits,
            running: 0,
            scanned: Seq(0),
            news: true,
            overflow: None,
            overflow_in_scan: None,
            held: Held::default(),
        }
    }

    /// Something was queued or released: look for new steps, and at parked ones again.
    pub fn notice(&mut self) {
        self.news = true;
        self.domains.values_mut().for_each(Domain::notice);
    }

    /// Names may not be held any longer: all steps with held ones are to be looked at again.
    pub fn look_at_held(&mut self) {
        self.held.look_again();
    }

    /// The same if the time of one has come.
    pub fn look_at_held_by(&mut self, now: Timestamp) {
        if self.held.until.is_some_and(|until| until <= now) {
            self.held.look_again();
        }
    }

    /// After which step the catalog should be scanned now, if at all.
    #[must_use]
    pub fn scan_from(&self) -> Option<Seq> {
        let news = self.news.then_some(self.scanned);
        let room = self.domains.len() < self.limits.domains;
        let overflow = self.overflow.filter(|_| room).map(|seq| Seq(seq.0.saturating_sub(1)));
        let short = self.domains.values().filter(|domain| domain.is_short()).map(|domain| domain.held_to);
        let held = self.held.again.map(|seq| Seq(seq.0.saturating_sub(1)));
        short.chain(news).chain(overflow).chain(held).min()
    }

    /// Whether a scan under way may end before the last step: everybody has what they need.
    #[must_use]
    pub fn is_satisfied(&self) -> bool {
        !self.news
            && self.overflow.is_none()
            && self.held.again.is_none()
            && !self.domains.values().any(Domain::is_short)
    }

    /// Takes a step found by a scan that began after `from`; steps come in order.
    pub fn offer(&mut self, item: Item, from: Seq) {
        let is_new = item.seq > self.scanned;
        self.scanned = self.scanned.max(item.seq);
        if let Some(until) = item.held_to {
            self.held.note(item.seq, until);
            return;
        }
        if is_new && item.names == Names::Moved {
            self.held.look_again_then();
        }
        if !self.domains.contains_key(&item.domain) && self.domains.len() >= self.limits.domains {
            self.overflow_in_scan.get_or_insert(item.seq);
            return;
        }
        let domain = self.domains.entry(item.domain.clone()).or_default();
        domain.room = match item.holds {
            Holds::Domain => self.limits.per_domain,
            Holds::Things(_) => self.limits.per_free_domain,
        };
        if item.seq <= domain.held_to {
            if self.held.again.is_some() {
                domain.insert(item);
            }
            return;
        }
        let gap = domain.more && from > domain.held_to;
        if gap || domain.passed_over || domain.is_full() {
            domain.passed_over = true;
            return;
        }
        domain.push(item);
    }

    /// Ends a scan that began after `from`; `complete` if it saw the last step.
    pub fn end_scan(&mut self, from: Seq, complete: bool) {
        for domain in self.domains.values_mut() {
            let answered = complete && from <= domain.held_to;
            domain.more = domain.passed_over || (domain.more && !answered);
            domain.passed_over = false;
        }
        self.overflow = match (self.overflow, self.overflow_in_scan.take()) {
            (Some(known), _) if !complete || from >= known => Some(known),
            (_, found) => found,
        };
        if complete {
            self.held.end_scan(from);
        }
        self.news &= !complete;
        self.domains.retain(|_, domain| domain.more || domain.len() > 0);
    }

    /// The steps to start now, marked as running; the oldest first.
    pub fn start(&mut self, now: Timestamp) -> Vec<Item> {
        let room = self.limits.parallel.saturating_sub(self.running);
        if room == 0 {
            return Vec::new();
        }
        let mut due: Vec<(Seq, &str)> = Vec::new();
        for (name, domain) in &self.domains {
            let before = due.len();
            domain.each_due(now, self.limits.longest_wait, |item| {
                if self.may_follow(name, item) {
                    due.push((item.seq, name));
                }
                if due.len() - before < room { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
        }
        let chosen = oldest(due, room);
        self.running += chosen.len();
        chosen.into_iter().filter_map(|(seq, name)| self.take(&name, seq, Entry::run)).collect()
    }

    /// The steps to send the bytes of now, though it is not their turn; the oldest first.
    pub fn start_ahead(&mut self, now: Timestamp) -> Vec<Item> {
        let sent: usize = self.domains.values().map(Domain::sent).sum();
        let room = self.limits.ahead.saturating_sub(sent);
        if room == 0 {
            return Vec::new();
        }
        let mut early: Vec<(Seq, &str)> = Vec::new();
        for (name, domain) in self.domains.iter().filter(|(_, domain)| domain.len() > 1) {
            let found = domain.early(now, self.limits.longest_wait).take(room);
            early.extend(found.map(|item| (item.seq, name.as_str())));
        }
        let chosen = oldest(early, room);
        chosen.into_iter().filter_map(|(seq, name)| self.take(&name, seq, Entry::send)).collect()
    }

    fn take(&mut self, domain: &str, seq: Seq, mark: fn(&mut Entry)) -> Option<Item> {
        let domain = self.domains.get_mut(domain)?;
        domain.change(seq, |entry| {
            mark(entry);
            entry.item.clone()
        })
    }

    /// Whether all is done that this step of `domain` has to follow in other domains.
    fn may_follow(&self, domain: &str, item: &Item) -> bool {
        let Some(rules) = &item.follows else { return true };
        let is_past = |other: &Domain| {
            other.first_holding().is_none_or(|first| first > item.seq)
                && !(other.more && other.held_to < item.seq)
        };
        let mut others = self.domains.iter().filter(|(name, _)| name.as_str() != domain && rules.makes(name));
        self.overflow.is_none_or(|first| first > item.seq) && others.all(|(_, other)| is_past(other))
    }

    /// When to start something next, after [`Queue::start`] and if nothing happens before.
    #[must_use]
    pub fn next_wake(&self, now: Timestamp) -> Option<Timestamp> {
        if self.running >= self.limits.parallel {
            return None;
        }
        let due = self.domains.values().filter_map(|domain| domain.next_due(now, self.limits.longest_wait));
        due.chain(self.held.until.filter(|until| *until > now)).min()
    }

    /// A started job ended.
    pub fn finish(&mut self, domain: &str, seq: Seq, verdict: Verdict) {
        let Some(state) = self.domains.get_mut(domain) else { return };
        if state.entry(seq).is_none_or(|entry| entry.state != State::Running) {
            return;
        }
        self.running -= 1;
        match verdict {
            Verdict::Done => state.remove(seq),
            Verdict::Later(Item { held_to: Some(until), .. }) => {
                state.remove(seq);
                self.held.note(seq, until);
            }
            Verdict::Later(item) => state.put(item),
            other => drop(state.change(seq, |entry| entry.end(other))),
        }
        if state.len() == 0 && !state.more {
            self.domains.remove(domain);
        }
    }

    /// Bytes of a step were sent ahead of its turn, or could not be.
    pub fn finish_ahead(&mut self, domain: &str, seq: Seq) {
        if let Some(domain) = self.domains.get_mut(domain) {
            domain.change(seq, |entry| entry.sent = Sent::Over);
        }
    }

    /// Steps of `domain` up to `seq` settle no longer, and are tried again at once, even blocked ones.
    pub fn hurry(&mut self, domain: &str, seq: Seq) {
        self.settle_no_more(domain, seq);
        let Some(domain) = self.domains.get_mut(domain) else { return };
        domain.try_again_to(seq);
    }

    /// This failed step is tried again at once.
    pub fn retry(&mut self, domain: &str, seq: Seq) {
        if let Some(domain) = self.domains.get_mut(domain) {
            domain.change(seq, Entry::try_again);
        }
    }

    /// Steps of `domain` up to `seq` settle no longer.
    pub fn settle_no_more(&mut self, domain: &str, seq: Seq) {
        if let Some(domain) = self.domains.get_mut(domain) {
            domain.hurried_to = domain.hurried_to.max(seq);
        }
    }

    /// The steps that are refused for good.
    #[must_use]
    pub fn blocked(&self) -> Vec<(String, Seq)> {
        let of_domain = |(name, domain): (&String, &Domain)| {
            let blocked = domain.entries().filter(|entry| entry.state == State::Blocked);
            blocked.map(|entry| (name.clone(), entry.item.seq)).collect::<Vec<_>>()
        };
        self.domains.iter().flat_map(of_domain).collect()
    }

    /// What blocked this step is gone: it is tried again.
    pub fn unblock(&mut self, domain: &str, seq: Seq) {
        if self.is_blocked(domain, seq) {
            self.retry(domain, seq);
        }
    }

    /// Whether nothing of `domain` up to `seq` is left; true only after a complete scan.
    #[must_use]
    pub fn is_past(&self, domain: &str, seq: Seq) -> bool {
        match self.domains.get(domain) {
            None => self.overflow.is_none_or(|first| first > seq),
            Some(domain) => {
                domain.first().is_none_or(|first| first.item.seq > seq)
                    && !(domain.more && domain.held_to < seq)
            }
        }
    }

    /// Whether nothing of `domain` up to `seq` can go on before a person acts.
    #[must_use]
    pub fn is_stuck(&self, domain: &str, seq: Seq) -> bool {
        self.domains.get(domain).is_some_and(|domain| domain.is_stuck(seq))
    }

    /// Whether this very step is still to be done, as far as memory tells: one that was not read yet counts.
    #[must_use]
    pub fn is_left(&self, domain: &str, seq: Seq) -> bool {
        match self.domains.get(domain) {
            None => self.overflow.is_some_and(|first| first <= seq),
            Some(domain) => domain.entry(seq).is_some() || (domain.more && domain.held_to < seq),
        }
    }

    /// Whether this very step is refused for good.
    #[must_use]
    pub fn is_blocked(&self, domain: &str, seq: Seq) -> bool {
        let state = |domain: &Domain| domain.entry(seq).map(|entry| entry.state);
        self.domains.get(domain).and_then(state) == Some(State::Blocked)
    }

    /// Whether there is nothing to do, now or later.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.domains.is_empty() && self.overflow.is_none() && !self.news
    }

    /// Steps in memory, those running included; more may be in the catalog.
    #[must_use]
    pub fn len(&self) -> usize {
        self.domains.values().map(Domain::len).sum()
    }

    /// Jobs started and not ended.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running
    }

    /// When the oldest step in memory was queued. The first of a domain is its oldest.
    #[must_use]
    pub fn oldest(&self) -> Option<Timestamp> {
        let firsts = self.domains.values().filter_map(Domain::first);
        firsts.map(|entry| entry.item.queued_at).min()
    }
}

/// The first `room` of them.
fn oldest(mut steps: Vec<(Seq, &str)>, room: usize) -> Vec<(Seq, String)> {
    steps.sort_unstable_by_key(|(seq, _)| *seq);
    steps.into_iter().take(room).map(|(seq, name)| (seq, name.to_owned())).collect()
}

/// Until when a step waits for renames, rewrites and deletes.
#[must_use]
pub fn settled_at(item: &Item) -> Timestamp {
    let at_last = later(item.queued_at, item.settle.saturating_mul(SETTLES_AT_MOST));
    later(item.renewed_at, item.settle).min(at_last)
}

/// `time` + `by`, without overflow.
#[must_use]
pub fn later(time: Timestamp, by: Duration) -> Timestamp {
    Timestamp(time.0.saturating_add(i64::try_from(by.as_nanos()).unwrap_or(i64::MAX)))
}

/// How long to wait after the `attempts`-th failure in a row: 1 s doubling to 60 s, with ± 25 % of
/// jitter; `dice` is uniform in 0..1.
#[must_use]
pub fn backoff(attempts: u32, dice: f64) -> Duration {
    let seconds = f64::from(1u32 << attempts.saturating_sub(1).min(6)).min(60.0);
    Duration::from_secs_f64(seconds * (0.75 + dice.clamp(0.0, 1.0) * 0.5))
}

#[cfg(test)]
mod tests;
