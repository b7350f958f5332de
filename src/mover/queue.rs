//! What to start next. Pure: (steps, now) → jobs to start and when to look again; no clock, no I/O.
//!
//! * A step runs when no earlier one of its order domain holds what it needs: in a strict domain all of it, so that its
//!   steps run one after another in `seq` order; in one without order only the same file and the same keys.
//! * Domains run side by side. All jobs together have a limit.
//! * A step that settles, backs off, is open for writing or is blocked holds up nothing else.
//! * Memory is bounded: a domain holds the first of its steps and remembers that there are
//!   `more`; those stay in the catalog until the domain runs short.

mod domain;

use crate::types::{Ino, Key, Seq, TierId, Timestamp};
use domain::{Domain, Entry, State};
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
    /// When it was queued.
    pub queued_at: Timestamp,
    /// How long it waits for renames, rewrites and deletes.
    pub settle: Duration,
    /// Not before this moment, after a failed try.
    pub not_before: Timestamp,
    /// What later steps of its domain must leave alone until it is done.
    pub holds: Holds,
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
            per_domain: 64,
            per_free_domain: 1024,
            domains: 1024,
            longest_wait: Duration::from_secs(90),
        }
    }
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is left of the step.
    Done,
    /// The step changed since it was read; here is how it is now.
    Later(Item),
    /// The file is open for writing: look again when something was released.
    Parked,
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
        }
    }

    /// Something was queued or released: look for new steps, and at parked ones again.
    pub fn notice(&mut self) {
        self.news = true;
        self.domains.values_mut().flat_map(|domain| &mut domain.entries).for_each(Entry::notice);
    }

    /// After which step the catalog should be scanned now, if at all.
    #[must_use]
    pub fn scan_from(&self) -> Option<Seq> {
        let news = self.news.then_some(self.scanned);
        let room = self.domains.len() < self.limits.domains;
        let overflow = self.overflow.filter(|_| room).map(|seq| Seq(seq.0.saturating_sub(1)));
        let short = self.domains.values().filter(|domain| domain.is_short()).map(|domain| domain.held_to);
        short.chain(news).chain(overflow).min()
    }

    /// Whether a scan under way may end before the last step: everybody has what they need.
    #[must_use]
    pub fn is_satisfied(&self) -> bool {
        !self.news && self.overflow.is_none() && !self.domains.values().any(Domain::is_short)
    }

    /// Takes a step found by a scan that began after `from`; steps come in order.
    pub fn offer(&mut self, item: Item, from: Seq) {
        self.scanned = self.scanned.max(item.seq);
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
            return;
        }
        let gap = domain.more && from > domain.held_to;
        if gap || domain.passed_over || domain.entries.len() >= domain.room {
            domain.passed_over = true;
            return;
        }
        domain.held_to = item.seq;
        domain.entries.push_back(Entry { item, state: State::Waiting, noticed: false });
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
        self.news &= !complete;
        self.domains.retain(|_, domain| domain.more || !domain.entries.is_empty());
    }

    /// The steps to start now, marked as running; the oldest first.
    pub fn start(&mut self, now: Timestamp) -> Vec<Item> {
        let room = self.limits.parallel.saturating_sub(self.running);
        if room == 0 {
            return Vec::new();
        }
        let mut due: Vec<(Seq, &String, usize)> = Vec::new();
        let longest = self.limits.longest_wait;
        for (name, domain) in self.domains.iter().filter(|(_, domain)| domain.has_due(now, longest)) {
            let before = due.len();
            domain.each_due(now, longest, |at, when| {
                if when <= now {
                    due.push((domain.entries[at].item.seq, name, at));
                }
                if due.len() - before < room { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
        }
        due.sort_unstable_by_key(|(seq, ..)| *seq);
        let chosen: Vec<(String, usize)> =
            due.into_iter().take(room).map(|(_, name, at)| (name.clone(), at)).collect();
        self.running += chosen.len();
        let run = |(name, at): (String, usize)| {
            let entry = self.domains.get_mut(&name)?.entries.get_mut(at)?;
            (entry.state, entry.noticed) = (State::Running, false);
            Some(entry.item.clone())
        };
        chosen.into_iter().filter_map(run).collect()
    }

    /// When to start something next, after [`Queue::start`] and if nothing happens before.
    #[must_use]
    pub fn next_wake(&self, now: Timestamp) -> Option<Timestamp> {
        if self.running >= self.limits.parallel {
            return None;
        }
        self.domains.values().filter_map(|domain| domain.next_due(now, self.limits.longest_wait)).min()
    }

    /// A started job ended.
    pub fn finish(&mut self, domain: &str, seq: Seq, verdict: Verdict) {
        let Some(state) = self.domains.get_mut(domain) else { return };
        let Some(at) = state.running(seq) else { return };
        self.running -= 1;
        let entry = &mut state.entries[at];
        entry.state = State::Waiting;
        match verdict {
            Verdict::Done => drop(state.entries.remove(at)),
            Verdict::Later(item) => entry.item = item,
            // The release may have come between the job's look and its end.
            Verdict::Parked if !entry.noticed => entry.state = State::Parked,
            Verdict::Parked => {}
            Verdict::Retry(not_before) => entry.item.not_before = not_before,
            Verdict::Blocked => entry.state = State::Blocked,
        }
        if state.entries.is_empty() && !state.more {
            self.domains.remove(domain);
        }
    }

    /// Steps of `domain` up to `seq` settle no longer, and are tried again at once, even blocked ones.
    pub fn hurry(&mut self, domain: &str, seq: Seq) {
        self.settle_no_more(domain, seq);
        let Some(domain) = self.domains.get_mut(domain) else { return };
        domain.entries.iter_mut().take_while(|entry| entry.item.seq <= seq).for_each(Entry::try_again);
    }

    /// This failed step is tried again at once.
    pub fn retry(&mut self, domain: &str, seq: Seq) {
        let Some(domain) = self.domains.get_mut(domain) else { return };
        if let Some(at) = domain.find(seq) {
            domain.entries[at].try_again();
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
            let blocked = domain.entries.iter().filter(|entry| entry.state == State::Blocked);
            blocked.map(|entry| (name.clone(), entry.item.seq)).collect::<Vec<_>>()
        };
        self.domains.iter().flat_map(of_domain).collect()
    }

    /// What blocked this step is gone: it is tried again.
    pub fn unblock(&mut self, domain: &str, seq: Seq) {
        let Some(domain) = self.domains.get_mut(domain) else { return };
        let Some(at) = domain.find(seq).filter(|at| domain.entries[*at].state == State::Blocked) else {
            return;
        };
        domain.entries[at].try_again();
    }

    /// Whether nothing of `domain` up to `seq` is left; true only after a complete scan.
    #[must_use]
    pub fn is_past(&self, domain: &str, seq: Seq) -> bool {
        match self.domains.get(domain) {
            None => self.overflow.is_none_or(|first| first > seq),
            Some(domain) => {
                domain.first().is_none_or(|first| first > seq) && !(domain.more && domain.held_to < seq)
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
            Some(domain) => domain.find(seq).is_some() || (domain.more && domain.held_to < seq),
        }
    }

    /// Whether this very step is refused for good.
    #[must_use]
    pub fn is_blocked(&self, domain: &str, seq: Seq) -> bool {
        let state = |domain: &Domain| domain.find(seq).map(|at| domain.entries[at].state);
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
        self.domains.values().map(|domain| domain.entries.len()).sum()
    }

    /// Jobs started and not ended.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running
    }

    /// When the oldest step in memory was queued. The first of a domain is its oldest.
    #[must_use]
    pub fn oldest(&self) -> Option<Timestamp> {
        let firsts = self.domains.values().filter_map(|domain| domain.entries.front());
        firsts.map(|entry| entry.item.queued_at).min()
    }
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
