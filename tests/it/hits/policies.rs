//! Hit ratios of a trace with so many places for copies.

use super::traces::Trace;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tierfs::clock::ManualClock;
use tierfs::heat::{Around, Heat};
use tierfs::policy::admission::{Admission, decide};
use tierfs::policy::eviction::{Candidates, Worth};
use tierfs::policy::heat::{Fetch, value};
use tierfs::types::{Ino, Timestamp};

/// Bytes of a file.
const SIZE: u64 = 1 << 20;

/// Opens between looks at what the copies are worth.
const LOOK_EVERY: usize = 30;

fn ino((dir, file): (u32, u32)) -> Ino {
    Ino(u64::from(dir) * 1_000_000 + u64::from(file) + 100)
}

/// What a mount with `promote = "heat"` does, and its mover every half minute.
pub fn tierfs(trace: &Trace, slots: usize) -> f64 {
    let clock = ManualClock::new(Timestamp(1_700_000_000_000_000_000));
    let heat = Heat::new(Arc::new(clock.clone()));
    let around = |_| Some(Around { names: u64::from(trace.largest_set), parent: None });
    let worth = |file: Ino| value(heat.rate(file), SIZE, Fetch::BLOB);
    let (mut hot, mut hits) = (HashSet::new(), 0);
    let mut candidates = Candidates::new(slots);
    for (at, open) in trace.opens.iter().enumerate() {
        clock.advance(Duration::from_secs(1));
        let file = ino(*open);
        heat.opened(file, Ino(1 + u64::from(open.0)), &around);
        if at % LOOK_EVERY == 0 {
            candidates = Candidates::new(slots);
            hot.iter().for_each(|file| candidates.offer(Worth::Usual(worth(*file)), *file));
            candidates.rank(|file| Worth::Usual(worth(*file)));
        }
        let least = candidates.least().map(|(_, file)| worth(*file));
        if hot.contains(&file) {
            hits += 1;
            continue;
        }
        let room = (slots - hot.len()) as u64 * SIZE;
        match decide(SIZE, worth(file), room, least) {
            Admission::Refused => {}
            Admission::Room => {
                hot.insert(file);
            }
            Admission::InPlaceOfOthers => {
                if let Some(other) = candidates.pop() {
                    hot.remove(&other);
                    hot.insert(file);
                }
            }
        }
    }
    hits as f64 / trace.opens.len() as f64
}

/// The copy used least recently leaves for every file that is read.
pub fn lru(trace: &Trace, slots: usize) -> f64 {
    let (mut used, mut order, mut hits) = (HashMap::new(), BTreeSet::new(), 0);
    for (now, file) in trace.opens.iter().enumerate() {
        if let Some(before) = used.insert(*file, now) {
            hits += 1;
            order.remove(&(before, *file));
        } else if used.len() > slots
            && let Some((_, oldest)) = order.pop_first()
        {
            used.remove(&oldest);
        }
        order.insert((now, *file));
    }
    hits as f64 / trace.opens.len() as f64
}

/// The copy whose next use is farthest leaves, or the file is not copied (Belady 1966, with bypass): nobody can do better.
pub fn belady(trace: &Trace, slots: usize) -> f64 {
    let mut next = vec![usize::MAX; trace.opens.len()];
    let mut seen = HashMap::new();
    for (at, file) in trace.opens.iter().enumerate().rev() {
        next[at] = seen.insert(*file, at).unwrap_or(usize::MAX);
    }
    let (mut hot, mut order, mut hits) = (HashSet::new(), BTreeSet::new(), 0);
    for (at, file) in trace.opens.iter().enumerate() {
        if hot.contains(file) {
            hits += 1;
            order.remove(&(at, *file));
        }
        hot.insert(*file);
        order.insert((next[at], *file));
        if hot.len() > slots
            && let Some((_, farthest)) = order.pop_last()
        {
            hot.remove(&farthest);
        }
    }
    hits as f64 / trace.opens.len() as f64
}
