//! What needs a person: pure, from the facts.

use super::{Status, TierState, TierStatus};

/// From here on a tier counts as nearly full, in percent of its capacity.
const NEARLY_FULL_PERCENT: u64 = 95;

/// A close that waits longer than this while nothing moves deserves a look.
const OLD_S: u64 = 3600;

impl Status {
    /// The same with [`Status::attention`] worked out anew, most urgent first.
    #[must_use]
    pub fn with_attention(mut self) -> Self {
        self.attention = lost(&self)
            .into_iter()
            .chain(self.tiers.iter().filter_map(unwell))
            .chain(blocked(&self))
            .chain(conflicts(&self))
            .chain(self.tiers.iter().filter_map(full))
            .chain(stuck(&self))
            .collect();
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

fn unwell(tier: &TierStatus) -> Option<String> {
    let reason = tier.reason.as_deref().unwrap_or("no reason known");
    match tier.state {
        TierState::Ok => None,
        TierState::Sick => Some(format!("tier {} does not answer: {reason}", tier.name)),
        TierState::Absent => Some(format!(
            "tier {} is absent: {reason}; mount {} again, or if it was wiped `tierfs tier accept {}`",
            tier.name, tier.location, tier.name
        )),
    }
}

fn blocked(status: &Status) -> Option<String> {
    let first = status.blocked.first()?;
    let more = match status.blocked_files.saturating_sub(1) {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some(format!("{} can't reach its home: {}{more}", first.path, first.reason))
}

fn conflicts(status: &Status) -> Option<String> {
    (status.conflicts > 0).then(|| {
        format!(
            "{} changed at home behind our back; both versions are kept, look for *.conflict-*",
            files(status.conflicts)
        )
    })
}

fn full(tier: &TierStatus) -> Option<String> {
    let (capacity, free) = (tier.capacity?, tier.free?);
    let used = capacity.saturating_sub(free);
    (capacity > 0 && u128::from(used) * 100 >= u128::from(capacity) * u128::from(NEARLY_FULL_PERCENT))
        .then(|| format!("tier {} is {}% full", tier.name, u128::from(used) * 100 / u128::from(capacity)))
}

fn stuck(status: &Status) -> Option<String> {
    let age = status.dirty.oldest_age_s.filter(|age| *age > OLD_S)?;
    (status.queue.running == 0)
        .then(|| format!("{} wait since {} min and nothing moves", files(status.dirty.files), age / 60))
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
        status.conflicts = 1;
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

    #[test]
    fn old_dirt_is_said_only_when_nothing_moves() {
        let mut status = healthy();
        status.dirty = Dirty { files: 1, bytes: 1, open_files: 0, oldest_age_s: Some(7200) };
        assert_eq!(status.clone().with_attention().attention.len(), 1);
        status.queue.running = 1;
        assert!(status.with_attention().attention.is_empty());
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
