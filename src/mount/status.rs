//! The status of a running mount, from memory: no tier is waited for.

use super::daemon::Live;
use super::parts::Assembled;
use super::tiers::Built;
use crate::catalog::{TierCounts, Waiting};
use crate::control::protocol::WirePath;
use crate::control::status::{
    BLOCKED_MAX, Blocked, Dirty, Failing, IoMode, LastError, Moves, OverLimit, Queue, Reads, SCHEMA, Status,
    TierState, TierStatus, WaitingOpens,
};
use crate::data::HotStore;
use crate::error::{Kind, Result};
use crate::mover::MoverStatus;
use crate::policy::placement::Rule;
use crate::policy::room::{self, Room};
use crate::tier::Usage;
use crate::types::{TierId, Timestamp};
use crate::vfs::{self, Cause};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How old a tier's answer may be.
const FRESH: Duration = Duration::from_secs(2);
/// Looking for hot copies takes a walk: it may take this share of the time at most.
const WALK_SHARE: u32 = 20;

/// What tiers last said of themselves, asked by one thread at a time so that a hung one is hung alone.
#[derive(Default)]
pub struct UsageCache(Mutex<HashMap<TierId, Arc<Mutex<Known>>>>);

#[derive(Clone, Debug, Default)]
struct Known {
    asked: Option<Instant>,
    asking: bool,
    usage: Option<Usage>,
    hot_bytes: u64,
    walk_again: Option<Instant>,
    trouble: Option<(Kind, String)>,
}

impl UsageCache {
    /// What tiers said is of yesterday.
    pub fn forget(&self) {
        self.0.lock().clear();
    }

    /// What is known of a tier; if that is old, somebody is sent to ask, and the answer is for the next.
    fn of(&self, live: &Live, one: &Built) -> Known {
        let known = self.0.lock().entry(one.row.id).or_default().clone();
        let mut state = known.lock();
        let stale = state.asked.is_none_or(|asked| asked.elapsed() > FRESH);
        if stale && !state.asking {
            state.asking = true;
            let walks = state.walk_again.is_none_or(|at| at <= Instant::now());
            let (tier, hot) = (one.tier.clone(), live.assembled.hots.get(&one.row.id).cloned());
            let answer = known.clone();
            let asked = std::thread::Builder::new().name("usage".into()).spawn(move || {
                let found = tier.resident().map(|resident| resident.usage());
                let began = Instant::now();
                let walked = hot.filter(|_| walks).and_then(|hot| bytes_of(&hot).ok());
                let mut state = answer.lock();
                if let Some(bytes) = walked {
                    state.hot_bytes = bytes;
                    state.walk_again = Some(Instant::now() + began.elapsed() * WALK_SHARE);
                }
                match found {
                    Some(Ok(usage)) => (state.usage, state.trouble) = (Some(usage), None),
                    Some(Err(error)) => state.trouble = Some((error.kind(), error.to_string())),
                    None => {}
                }
                state.asked = Some(Instant::now());
                state.asking = false;
            });
            // The first answer is worth a moment: a status without numbers helps nobody.
            if let (Ok(thread), true) = (asked, state.asked.is_none()) {
                drop(state);
                wait_briefly(&thread);
                return known.lock().clone();
            }
        }
        let mut answer = state.clone();
        if answer.asking && answer.asked.is_some_and(|asked| asked.elapsed() > 5 * FRESH) {
            answer.trouble = Some((Kind::TimedOut, "it does not answer".to_owned()));
        }
        answer
    }
}

fn bytes_of(hot: &HotStore) -> Result<u64> {
    let mut bytes = 0;
    hot.scan(&mut |copy| {
        bytes += copy.size;
        ControlFlow::Continue(())
    })?;
    Ok(bytes)
}

fn wait_briefly(thread: &std::thread::JoinHandle<()>) {
    let end = Instant::now() + Duration::from_millis(200);
    while !thread.is_finished() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// All facts at this moment.
pub fn of(live: &Live) -> Status {
    let assembled = &live.assembled;
    let mover = assembled.mover.status().unwrap_or_default();
    let counts: HashMap<TierId, TierCounts> =
        assembled.catalog.counts().unwrap_or_default().into_iter().collect();
    let lost = assembled.catalog.lost_count().unwrap_or_default();
    let now = assembled.clock.wall();
    let meters = assembled.streams.meters();
    let status = Status {
        schema: SCHEMA,
        attention: Vec::new(),
        mountpoint: WirePath::from(live.mountpoint.as_path()),
        config: WirePath::from(live.config_path.as_path()),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        phase: *live.phase.lock(),
        mode: match assembled.vfs.io_mode() {
            vfs::IoMode::Passthrough => IoMode::Passthrough,
            vfs::IoMode::Ordinary => IoMode::Ordinary,
        },
        mode_reason: live.mode.clone(),
        uptime_s: live.started.elapsed().as_secs(),
        tiers: {
            let dirty = dirty_by_home(assembled, &mover);
            let known = |one: &Built| (counts.get(&one.row.id), dirty.get(&one.row.id).copied());
            assembled.built.iter().map(|one| tier(live, one, known(one))).collect()
        },
        dirty: Dirty {
            files: mover.dirty_files,
            bytes: mover.dirty_bytes,
            open_files: mover.open_files,
            oldest_age_s: mover
                .backlog
                .iter()
                .filter(|part| !matches!(part.waiting, Waiting::ForClose | Waiting::ForName))
                .filter_map(|part| part.oldest)
                .min()
                .map(|oldest| age_s(oldest, now)),
        },
        queue: queue(&mover),
        blocked: mover
            .blocked
            .iter()
            .map(|trouble| Blocked {
                path: WirePath(trouble.about.clone().into_bytes()),
                reason: trouble.error.clone(),
            })
            .collect(),
        blocked_files: mover.blocked.len() as u64,
        failing: mover.failing.as_ref().map(|(since, trouble)| Failing {
            about: trouble.about.clone(),
            error: trouble.error.clone(),
            since_s: age_s(*since, now),
        }),
        waiting: waiting(assembled),
        over: over(assembled),
        overflowing: {
            let homes = assembled.mover.overflowing().into_iter();
            homes.map(|tier| assembled.name_of(tier)).collect()
        },
        conflicts: mover.conflicts,
        conflicts_left: mover.conflict_copies,
        shadowed: 0,
        hidden: assembled.vfs.hidden_names(),
        lost: lost + mover.lost.len() as u64,
        lost_paths: lost_paths(assembled, &mover),
        last_error: mover.last_error.as_ref().map(|trouble| LastError {
            at_s: (trouble.at.0.max(0) / 1_000_000_000).cast_unsigned(),
            message: format!("{}: {}", trouble.about, trouble.error),
        }),
        reads: Reads {
            hits: meters.hot_opens.get(),
            misses: meters.home_opens.get(),
            cache_bytes: meters.read_bytes.get().saturating_sub(meters.fetched_bytes.get()),
            fetched_bytes: meters.fetched_bytes.get(),
        },
        moves: Moves {
            committed_files: mover.committed_files,
            committed_bytes: mover.committed_bytes,
            hot_copies: meters.fills_completed.get(),
            deleted_keys: mover.deleted,
        },
        metrics: live.metrics.map(|address| address.to_string()),
    };
    status.with_attention()
}

fn lost_paths(assembled: &Assembled, mover: &MoverStatus) -> Vec<WirePath> {
    let listed = assembled.catalog.lost(0, BLOCKED_MAX).unwrap_or_default();
    let vanished = mover.lost.iter().filter_map(|lost| lost.path.clone());
    let paths = listed.into_iter().map(|lost| lost.path).chain(vanished);
    paths.take(BLOCKED_MAX).map(|path| WirePath(path.as_bytes().to_vec())).collect()
}

fn queue(mover: &MoverStatus) -> Queue {
    Queue { length: mover.queued, running: mover.in_flight, retrying: mover.retrying }
}

/// Who waits to open for writing, and for what.
fn waiting(assembled: &Assembled) -> Vec<WaitingOpens> {
    let now = assembled.clock.monotonic();
    let rules = assembled.mover.rules();
    let why = |cause| match cause {
        Cause::Limit(rule) => {
            let rule = rules.numbered(rule).map_or("?", |rule| rule.pattern.as_str());
            format!("more than dirty_max of {rule} is not home yet")
        }
        Cause::Stage(tier) => {
            let tier = assembled.built.iter().find(|one| one.row.id == tier);
            format!("the stage on tier {} is full", tier.map_or("?", |one| one.row.name.as_str()))
        }
    };
    let told = |(cause, waiters): (Cause, vfs::Waiters)| WaitingOpens {
        why: why(cause),
        opens: waiters.opens,
        since_s: now.saturating_sub(waiters.since).as_secs(),
    };
    assembled.vfs.waiters().into_iter().map(told).collect()
}

/// Rules whose limit does not hold, because nothing below them can be committed.
fn over(assembled: &Assembled) -> Vec<OverLimit> {
    let over = |rule: &Rule| {
        let (limit, sums) = (rule.dirty_max?, assembled.vfs.dirty_of(rule.index).ok()?);
        let is_over = room::below(Some(limit), sums) == Room::Over;
        is_over.then(|| OverLimit { rule: rule.pattern.clone(), dirty: sums.dirty, limit })
    };
    assembled.mover.rules().iter().filter_map(over).collect()
}

fn age_s(since: Timestamp, now: Timestamp) -> u64 {
    (now.0.saturating_sub(since.0).max(0) / 1_000_000_000).cast_unsigned()
}

/// Bytes that wait to be committed, by the tier they go to.
fn dirty_by_home(assembled: &Assembled, mover: &MoverStatus) -> HashMap<TierId, u64> {
    let (mut dirty, rules) = (HashMap::new(), assembled.mover.rules());
    for part in mover.backlog.iter() {
        if let Some(rule) = rules.of_domain(&part.domain) {
            *dirty.entry(rule.home).or_default() += part.bytes;
        }
    }
    dirty
}

fn tier(live: &Live, one: &Built, (counts, dirty): (Option<&TierCounts>, Option<u64>)) -> TierStatus {
    let counts = counts.cloned().unwrap_or_default();
    let known = live.usage.of(live, one);
    let (state, reason) = health(one, &known);
    let calls = one.meter.all();
    TierStatus {
        name: one.row.name.clone(),
        kind: one.kind.word().to_owned(),
        location: one.tier.location(),
        state,
        reason,
        capacity: known.usage.map(|usage| usage.total),
        used: known.usage.map(|usage| usage.total.saturating_sub(usage.free)),
        free: known.usage.map(|usage| usage.free),
        files: counts.files,
        bytes: counts.bytes,
        hot_bytes: known.hot_bytes,
        staged_bytes: counts.staged_bytes,
        dirty_bytes: dirty.unwrap_or(0),
        requests: calls.iter().map(|call| call.calls).sum(),
        errors: calls.iter().map(|call| call.errors).sum(),
        bytes_read: one.meter.bytes_read(),
        bytes_written: one.meter.bytes_written(),
        price_micros: one.price_micros,
    }
}

fn health(one: &Built, known: &Known) -> (TierState, Option<String>) {
    if one.breaker.as_ref().is_some_and(|breaker| breaker.is_open()) {
        return (TierState::Sick, Some("its last calls all failed".to_owned()));
    }
    match &known.trouble {
        Some((Kind::Absent, reason)) => (TierState::Absent, Some(reason.clone())),
        Some((_, reason)) => (TierState::Sick, Some(reason.clone())),
        None => (TierState::Ok, None),
    }
}
