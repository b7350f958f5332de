//! What needs a person, and what will: pure, from the facts.

use super::{OverLimit, Status, TierState, TierStatus, WaitingOpens};
use serde::{Deserialize, Serialize};

/// From here on a tier counts as nearly full, in percent of its capacity.
const NEARLY_FULL_PERCENT: u64 = 95;

/// Bytes that are closed and not at home for so long deserve a look.
const OLD_S: u64 = 3600;

/// What fails and is tried again for so long deserves a look.
const FAILING_S: u64 = 60;

/// How urgent something is. The numbers are the exit codes of `tierstat health`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Level {
    /// Nothing to do.
    Fine = 0,
    /// It goes on by itself if what is wrong passes; if it does not, somebody has to act.
    Soon = 1,
    /// It does not go on before a person acts.
    Person = 2,
}

/// How a mount is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// The most urgent of the reasons.
    pub level: Level,
    /// Most urgent first.
    pub reasons: Vec<Reason>,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// How urgent.
    pub level: Level,
    /// What, and what to do: one line.
    pub text: String,
}

impl Health {
    /// Of reasons in any order.
    #[must_use]
    pub fn of(mut reasons: Vec<Reason>) -> Self {
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.level));
        let level = reasons.first().map_or(Level::Fine, |reason| reason.level);
        Self { level, reasons }
    }
}

impl Status {
    /// How the mount is, worked out anew.
    #[must_use]
    pub fn health(&self) -> Health {
        let person = lost(self)
            .into_iter()
            .chain(self.tiers.iter().filter_map(absent))
            .chain(blocked(self))
            .chain(self.over.iter().map(over))
            .chain(conflicts(self))
            .map(|text| Reason { level: Level::Person, text });
        let soon = self
            .tiers
            .iter()
            .filter_map(sick)
            .chain(self.waiting.iter().map(waiting))
            .chain(failing(self))
            .chain(self.tiers.iter().filter_map(full))
            .chain(old(self))
            .map(|text| Reason { level: Level::Soon, text });
        Health::of(person.chain(soon).collect())
    }

    /// The same with [`Status::attention`] worked out anew, most urgent first.
    #[must_use]
    pub fn with_attention(mut self) -> Self {
        self.attention = self.health().reasons.into_iter().map(|reason| reason.text).collect();
        self
    }
}

fn lost(status: &Status) -> Option<String> {
    let first = status.lost_paths.first().map_or_else(String::new, |path| format!(", {path} first"));
    (status.lost > 0).then(|| {
        format!(
            "{} lost with the tier they were on{first}; `tierfs tier lost` lists them",
            files(status.lost)
        )
    })
}

fn absent(tier: &TierStatus) -> Option<String> {
    (tier.state == TierState::Absent).then(|| {
        format!(
            "tier {} is absent: {}; mount {} again, or if it was wiped `tierfs tier accept {}`",
            tier.name,
            reason(tier),
            tier.location,
            tier.name
        )
    })
}

fn sick(tier: &TierStatus) -> Option<String> {
    (tier.state == TierState::Sick).then(|| format!("tier {} does not answer: {}", tier.name, reason(tier)))
}

fn reason(tier: &TierStatus) -> &str {
    tier.reason.as_deref().unwrap_or("no reason known")
}

fn blocked(status: &Status) -> Option<String> {
    let first = status.blocked.first()?;
    let more = match status.blocked_files.saturating_sub(1) {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let retry = "once that is mended, `tierfs queue retry` goes on at once";
    Some(format!("{} can't reach its home: {}{more}; {retry}", first.path, first.reason))
}

fn conflicts(status: &Status) -> Option<String> {
    (status.conflicts_left > 0).then(|| {
        format!(
            "{} changed at home behind our back; both versions are kept: look for *.conflict-*, and remove or rename them",
            files(status.conflicts_left)
        )
    })
}

fn over(over: &OverLimit) -> String {
    format!(
        "{} MiB below {} are not home, more than its dirty_max of {} MiB, and nothing of it can be committed: opens for writing \
         go on and fill the stage; see `tierfs queue`",
        over.dirty >> 20,
        over.rule,
        over.limit >> 20
    )
}

fn waiting(waiting: &WaitingOpens) -> String {
    let opens = if waiting.opens == 1 { "1 open".to_owned() } else { format!("{} opens", waiting.opens) };
    format!("{opens} for writing wait for {} s: {}", waiting.since_s, waiting.why)
}

fn failing(status: &Status) -> Option<String> {
    let failing = status.failing.as_ref().filter(|failing| failing.since_s >= FAILING_S)?;
    let more = match status.queue.retrying.saturating_sub(1) {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let minutes = failing.since_s / 60;
    Some(format!(
        "{} fails for {minutes} min: {}{more}; it is kept and tried again",
        failing.about, failing.error
    ))
}

fn full(tier: &TierStatus) -> Option<String> {
    let (capacity, free) = (tier.capacity?, tier.free?);
    let used = capacity.saturating_sub(free);
    (capacity > 0 && u128::from(used) * 100 >= u128::from(capacity) * u128::from(NEARLY_FULL_PERCENT))
        .then(|| format!("tier {} is {}% full", tier.name, u128::from(used) * 100 / u128::from(capacity)))
}

fn old(status: &Status) -> Option<String> {
    let age = status.dirty.oldest_age_s.filter(|age| *age >= OLD_S)?;
    let dirty = files(status.dirty.files);
    Some(format!("{dirty} not home yet, the oldest closed {} min ago; see `tierfs queue`", age / 60))
}

fn files(count: u64) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use crate::control::protocol::{Phase, WirePath};

    fn healthy() -> Status {
        serde_json::from_value(serde_json::json!({
            "schema": 1, "mountpoint": "/m", "config": "/c", "pid": 1, "version": "0", "phase": "serving",
            "mode": "ordinary", "mode_reason": "asked", "uptime_s": 1,
            "tiers": [{"name": "scratch", "kind": "local", "location": "/s", "state": "ok", "capacity": 100, "free": 50}],
            "dirty": {"files": 0, "bytes": 0}, "queue": {"length": 0}
        }))
        .unwrap()
    }

    #[test]
    fn a_healthy_mount_needs_nobody() {
        assert_eq!(healthy().with_attention().attention, Vec::<String>::new());
        assert_eq!(healthy().phase, Phase::Serving);
    }

    #[test]
    fn what_is_worst_comes_first() {
        let mut status = healthy();
        status.lost = 2;
        (status.conflicts, status.conflicts_left) = (2, 1);
        status.tiers[0].state = TierState::Absent;
        status.tiers[0].free = Some(4);
        status.blocked_files = 3;
        status.blocked = vec![Blocked { path: WirePath(b"a".to_vec()), reason: "immutable".into() }];
        let said = status.with_attention().attention;
        let starts =
            ["2 files lost", "tier scratch is absent", "a can't", "1 file changed", "tier scratch is 96%"];
        assert_eq!(said.len(), starts.len(), "{said:?}");
        for (line, start) in said.iter().zip(starts) {
            assert!(line.starts_with(start), "{line}");
        }
        assert!(said[2].contains("and 2 more"), "{said:?}");
    }

    #[track_caller]
    fn is(level: Level, change: impl FnOnce(&mut Status)) {
        let mut status = healthy();
        change(&mut status);
        let health = status.health();
        assert_eq!((health.level, health.reasons.is_empty()), (level, level == Level::Fine), "{health:?}");
    }

    #[test]
    fn each_reason_has_its_level() {
        is(Level::Fine, |_| {});
        is(Level::Person, |status| status.lost = 1);
        is(Level::Person, |status| status.tiers[0].state = TierState::Absent);
        is(Level::Soon, |status| status.tiers[0].state = TierState::Sick);
        is(Level::Soon, |status| status.tiers[0].free = Some(5));
        is(Level::Person, |status| status.conflicts_left = 1);
        let over = OverLimit { rule: "a/**".into(), dirty: 3 << 20, limit: 2 << 20 };
        is(Level::Person, |status| status.over = vec![over]);
        let waiting = WaitingOpens { why: "full".into(), opens: 2, since_s: 5 };
        is(Level::Soon, |status| status.waiting = vec![waiting]);
        // Dealt with.
        is(Level::Fine, |status| status.conflicts = 1);
    }

    #[test]
    fn failing_is_said_after_a_minute() {
        let failing = |since_s| {
            move |status: &mut Status| {
                let (about, error) = ("a".to_owned(), "403".to_owned());
                status.failing = Some(Failing { about, error, since_s });
                status.queue.retrying = 3;
            }
        };
        is(Level::Fine, failing(59));
        is(Level::Soon, failing(60));
        let mut status = healthy();
        failing(150)(&mut status);
        let said = status.health().reasons.remove(0).text;
        assert_eq!(said, "a fails for 2 min: 403 (and 2 more); it is kept and tried again");
    }

    #[test]
    fn old_dirt_is_said_after_an_hour() {
        let old = |age| {
            move |status: &mut Status| {
                status.dirty = Dirty { files: 1, oldest_age_s: Some(age), ..Dirty::default() }
            }
        };
        is(Level::Fine, old(3599));
        is(Level::Soon, old(3600));
    }

    #[test]
    fn a_long_list_still_fits_into_an_attribute() {
        let mut status = healthy();
        let blocked = Blocked { path: WirePath(vec![b'x'; 4096]), reason: "immutable".into() };
        status.blocked = vec![blocked; BLOCKED_MAX];
        let json = status.to_xattr();
        assert!(json.len() <= 64 << 10);
        let back: Status = serde_json::from_slice(&json).unwrap();
        assert_eq!(back.blocked.len(), 12);
    }

    #[test]
    fn no_opens_have_no_ratio() {
        assert_eq!(Reads::default().hit_ratio(), None);
        assert_eq!(Reads { hits: 3, misses: 1, ..Reads::default() }.hit_ratio(), Some(0.75));
    }
}
