//! The running mount as `/metrics` and `/healthz` show it.

use super::daemon::Live;
use super::status;
use crate::control::exposition::{Facts, Sums};
use crate::control::protocol::Phase;
use crate::control::web::Exposed;
use crate::data::Meters;
use crate::mover::MoverStatus;
use async_trait::async_trait;
use std::collections::HashSet;
use std::sync::Arc;

/// A mount to be shown.
pub struct Shown(pub Arc<Live>);

#[async_trait]
impl Exposed for Shown {
    fn phase(&self) -> Phase {
        *self.0.phase.lock()
    }

    async fn facts(&self) -> Facts {
        let live = self.0.clone();
        match tokio::task::spawn_blocking(move || facts(&live)).await {
            Ok(facts) => facts,
            // The runtime ends, and with it whoever asked.
            Err(_ending) => std::future::pending().await,
        }
    }
}

fn facts(live: &Live) -> Facts {
    let assembled = &live.assembled;
    let mover = assembled.mover.status().unwrap_or_default();
    let domains: HashSet<&str> = mover.blocked.iter().map(|trouble| trouble.domain.as_str()).collect();
    Facts {
        status: status::of(live),
        calls: assembled.built.iter().map(|one| one.meter.all()).collect(),
        blocked_domains: domains.len() as u64,
        sums: sums(&mover, assembled.streams.meters()),
    }
}

fn sums(mover: &MoverStatus, meters: &Meters) -> Sums {
    Sums {
        committed_files: mover.committed_files,
        committed_bytes: mover.committed_bytes,
        sent_bytes: mover.sent_bytes,
        deleted: mover.deleted,
        moved: mover.moved,
        retries: mover.retries,
        read_bytes: meters.read_bytes.get(),
        read_waits: meters.misses.get(),
        read_hits: meters.hits.get(),
        fills_started: meters.fills_started.get(),
        fills_completed: meters.fills_completed.get(),
        fills_dropped: meters.fills_dropped.get(),
    }
}
