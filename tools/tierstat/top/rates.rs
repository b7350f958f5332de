//! What happened a second between two looks. Pure.

use tierfs::control::status::{Status, TierStatus};

/// What happened on a tier, a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    pub read: f64,
    pub written: f64,
    pub requests: f64,
    pub errors: f64,
}

/// Of every tier in `now`, since `before`, which is `seconds` older. A daemon that has started anew counts from 0.
pub fn of_tiers(before: &Status, now: &Status, seconds: f64) -> Vec<Rates> {
    let is_same_daemon = before.pid == now.pid && before.uptime_s <= now.uptime_s;
    let known = |name: &str| before.tiers.iter().find(|tier| tier.name == name).filter(|_| is_same_daemon);
    let rates = |tier: &TierStatus| {
        let Some(old) = known(&tier.name).filter(|_| seconds > 0.0) else { return Rates::default() };
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let rate = |new: u64, old: u64| new.saturating_sub(old) as f64 / seconds;
        Rates {
            read: rate(tier.bytes_read, old.bytes_read),
            written: rate(tier.bytes_written, old.bytes_written),
            requests: rate(tier.requests, old.requests),
            errors: rate(tier.errors, old.errors),
        }
    };
    now.tiers.iter().map(rates).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(pid: u32, uptime_s: u64, read: u64, requests: u64) -> Status {
        serde_json::from_value(serde_json::json!({
            "schema": 1, "mountpoint": "/m", "config": "/c", "pid": pid, "version": "0", "phase": "serving",
            "mode": "ordinary", "mode_reason": "asked", "uptime_s": uptime_s,
            "tiers": [{"name": "blob", "kind": "blob", "location": "https://b", "state": "ok",
                       "bytes_read": read, "requests": requests}],
            "dirty": {"files": 0, "bytes": 0}, "queue": {"length": 0}
        }))
        .unwrap()
    }

    #[test]
    fn rates_are_differences() {
        let rates = of_tiers(&status(1, 10, 100, 5), &status(1, 12, 500, 6), 2.0);
        assert_eq!(rates, [Rates { read: 200.0, requests: 0.5, ..Rates::default() }]);
    }

    #[test]
    fn a_new_daemon_has_no_rates_yet() {
        for before in [status(2, 10, 100, 5), status(1, 13, 100, 5)] {
            assert_eq!(of_tiers(&before, &status(1, 12, 500, 6), 2.0), [Rates::default()]);
        }
        assert_eq!(of_tiers(&status(1, 12, 1, 1), &status(1, 12, 500, 6), 0.0), [Rates::default()]);
    }
}
