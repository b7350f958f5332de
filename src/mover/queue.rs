//! What to start next. Pure: (steps, now) → jobs to start and when to look again; no clock, no I/O.
//!
//! * Steps of one order domain run one after another, in `seq` order: only the head may run.
//! * Domains run side by side up to a limit.
//! * A head that settles, backs off, is open for writing or is blocked holds its own domain only.
//! * Memory is bounded: a domain holds the first few of its steps and remembers that there are
//!   `more`; those stay in the catalog until the domain runs short.

use crate::types::{Seq, Timestamp};
use std::collections::{BTreeMap, VecDeque};
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
}

/// How much may be held and run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Jobs at once.
    pub parallel: usize,
    /// Steps of one domain in memory.
    pub per_domain: usize,
    /// Domains in memory.
    pub domains: usize,
    /// No failed step waits longer than this, whatever the wall clock did meanwhile.
    pub longest_wait: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { parallel: 8, per_domain: 64, domains: 1024, longest_wait: Duration::from_secs(90) }
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    Waiting,
    Running,
    Parked,
    Blocked,
}

#[derive(Debug)]
struct Domain {
    waiting: VecDeque<Item>,
    head: Head,
    /// Highest step taken into memory so far.
    held_to: Seq,
    /// The catalog has steps above `held_to` that were passed over.
    more: bool,
    /// Passed over in the scan under way.
    passed_over: bool,
    /// Steps up to here don't settle.
    hurried_to: Seq,
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
        for domain in self.domains.values_mut().filter(|domain| domain.head == Head::Parked) {
            domain.head = Head::Waiting;
        }
    }

    /// After which step the catalog should be scanned now, if at all.
    #[must_use]
    pub fn scan_from(&self) -> Option<Seq> {
        let news = self.news.then_some(self.scanned);
        let room = self.domains.len() < self.limits.domains;
        let overflow = self.overflow.filter(|_| room).map(|seq| Seq(seq.0.saturating_sub(1)));
        let short = self.domains.values().filter(|domain| self.is_short(domain)).map(|domain| domain.held_to);
        short.chain(news).chain(overflow).min()
    }

    /// Whether a scan under way may end before the last step: everybody has what they need.
    #[must_use]
    pub fn is_satisfied(&self) -> bool {
        !self.news && self.overflow.is_none() && !self.domains.values().any(|domain| self.is_short(domain))
    }

    fn is_short(&self, domain: &Domain) -> bool {
        domain.more && domain.waiting.len() * 4 <= self.limits.per_domain
    }

    /// Takes a step found by a scan that began after `from`; steps come in order.
    pub fn offer(&mut self, item: Item, from: Seq) {
        self.scanned = self.scanned.max(item.seq);
        if !self.domains.contains_key(&item.domain) && self.domains.len() >= self.limits.domains {
            self.overflow_in_scan.get_or_insert(item.seq);
            return;
        }
        let per_domain = self.limits.per_domain;
        let domain = self.domains.entry(item.domain.clone()).or_insert_with(|| Domain {
            waiting: VecDeque::new(),
            head: Head::Waiting,
            held_to: Seq(0),
            more: false,
            passed_over: false,
            hurried_to: Seq(0),
        });
        if item.seq <= domain.held_to {
            return;
        }
        let gap = domain.more && from > domain.held_to;
        if gap || domain.passed_over || domain.waiting.len() >= per_domain {
            domain.passed_over = true;
            return;
        }
        domain.held_to = item.seq;
        domain.waiting.push_back(item);
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
        self.domains.retain(|_, domain| domain.more || !domain.waiting.is_empty());
    }

    /// The steps to start now, marked as running.
    pub fn start(&mut self, now: Timestamp) -> Vec<Item> {
        let room = self.limits.parallel.saturating_sub(self.running);
        let longest = self.limits.longest_wait;
        let mut due: Vec<(Seq, &mut Domain)> = self
            .domains
            .values_mut()
            .filter(|domain| domain.head == Head::Waiting)
            .filter_map(|domain| {
                let at = domain.due(now, longest)?;
                (at <= now).then(|| (domain.waiting[0].seq, domain))
            })
            .collect();
        due.sort_by_key(|(seq, _)| *seq);
        let started: Vec<Item> = due
            .into_iter()
            .take(room)
            .map(|(_, domain)| {
                domain.head = Head::Running;
                domain.waiting[0].clone()
            })
            .collect();
        self.running += started.len();
        started
    }

    /// When the next head is due, if anything waits for time and could start.
    #[must_use]
    pub fn next_wake(&self, now: Timestamp) -> Option<Timestamp> {
        if self.running >= self.limits.parallel {
            return None;
        }
        self.domains
            .values()
            .filter(|domain| domain.head == Head::Waiting)
            .filter_map(|domain| domain.due(now, self.limits.longest_wait))
            .min()
    }

    /// A started job ended.
    pub fn finish(&mut self, domain: &str, seq: Seq, verdict: Verdict) {
        let Some(state) = self.domains.get_mut(domain).filter(|state| state.head == Head::Running) else {
            return;
        };
        if state.waiting.front().is_none_or(|item| item.seq != seq) {
            return;
        }
        self.running -= 1;
        state.head = Head::Waiting;
        match verdict {
            Verdict::Done => {
                state.waiting.pop_front();
            }
            Verdict::Later(item) => state.waiting[0] = item,
            Verdict::Parked => state.head = Head::Parked,
            Verdict::Retry(not_before) => state.waiting[0].not_before = not_before,
            Verdict::Blocked => state.head = Head::Blocked,
        }
        if state.waiting.is_empty() && !state.more {
            self.domains.remove(domain);
        }
    }

    /// Steps of `domain` up to `seq` settle no longer; its head is tried again at once, even a blocked one.
    pub fn hurry(&mut self, domain: &str, seq: Seq) {
        self.settle_no_more(domain, seq);
        let Some(domain) = self.domains.get_mut(domain) else { return };
        if let Some(head) = domain.waiting.front_mut().filter(|item| item.seq <= seq) {
            head.not_before = Timestamp(i64::MIN);
            if domain.head == Head::Blocked {
                domain.head = Head::Waiting;
            }
        }
    }

    /// Steps of `domain` up to `seq` settle no longer.
    pub fn settle_no_more(&mut self, domain: &str, seq: Seq) {
        if let Some(domain) = self.domains.get_mut(domain) {
            domain.hurried_to = domain.hurried_to.max(seq);
        }
    }

    /// Whether nothing of `domain` up to `seq` is left; true only after a complete scan.
    #[must_use]
    pub fn is_past(&self, domain: &str, seq: Seq) -> bool {
        match self.domains.get(domain) {
            None => self.overflow.is_none_or(|first| first > seq),
            Some(domain) => {
                domain.waiting.front().is_none_or(|item| item.seq > seq)
                    && !(domain.more && domain.held_to < seq)
            }
        }
    }

    /// Whether the head of `domain` is refused for good.
    #[must_use]
    pub fn is_blocked(&self, domain: &str) -> bool {
        self.domains.get(domain).is_some_and(|domain| domain.head == Head::Blocked)
    }

    /// Whether the head of `domain` waits for a file that is open for writing.
    #[must_use]
    pub fn is_parked(&self, domain: &str) -> bool {
        self.domains.get(domain).is_some_and(|domain| domain.head == Head::Parked)
    }

    /// Domains with steps in memory.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.domains.keys().map(String::as_str)
    }

    /// Whether there is nothing to do, now or later.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.domains.is_empty() && self.overflow.is_none() && !self.news
    }

    /// Steps in memory, those running included; more may be in the catalog.
    #[must_use]
    pub fn len(&self) -> usize {
        self.domains.values().map(|domain| domain.waiting.len()).sum()
    }

    /// Jobs started and not ended.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running
    }

    /// When the oldest step in memory was queued. Heads are the oldest of their domains.
    #[must_use]
    pub fn oldest(&self) -> Option<Timestamp> {
        self.domains.values().filter_map(|domain| domain.waiting.front()).map(|item| item.queued_at).min()
    }

    /// Domains whose head is blocked.
    #[must_use]
    pub fn blocked(&self) -> usize {
        self.domains.values().filter(|domain| domain.head == Head::Blocked).count()
    }
}

impl Domain {
    /// When the head may start. A wall clock that jumped back must not make it wait for longer
    /// than it was ever meant to.
    fn due(&self, now: Timestamp, longest_wait: Duration) -> Option<Timestamp> {
        let item = self.waiting.front()?;
        let settled = if item.seq <= self.hurried_to || item.queued_at > now {
            now
        } else {
            later(item.queued_at, item.settle)
        };
        let retry = if item.not_before > later(now, longest_wait) { now } else { item.not_before };
        Some(settled.max(retry))
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
