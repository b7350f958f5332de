//! What to fetch for a read, and what ahead of it: (reads so far, read) → plan. Pure: no I/O, no locks.
//!
//! A file may be read by several streams at once (the workers of a data loader), so up to
//! eight positions are followed. A read that continues a cursor is sequential: the window
//! ahead of it doubles as it is used up. A read that continues none is a seek: it gets exactly
//! its 64 KiB-aligned range, and what was under way for the cursor used last is cancelled. A
//! cursor that goes on after such a cancel was another stream, not a seek: it is left alone later.

use crate::data::ranges::RangeSet;
use std::ops::Range;

/// Grain of every range that is asked for.
pub const ALIGN: u64 = 64 << 10;
/// Least size of the first request of a file read from its start.
pub const FIRST: u64 = 128 << 10;
/// Greatest size of one request ahead.
pub const PART: u64 = 8 << 20;
/// Greatest window.
pub const WINDOW_MAX: u64 = 64 << 20;
/// A read this far back still continues a stream.
pub const BACKWARD: u64 = 1 << 20;
/// Twice the kernel's own read-ahead window (`read_ahead_kb` of the mount): while one window is used the next
/// is under way, its requests come in any order, so what was skipped by less may be on its way.
const REORDERED: u64 = 8 << 20;
/// Requests of the kernel under way together in [`REORDERED`], which are 1 MiB at most each.
const TOGETHER: u64 = 8;
/// A read this far forward still continues a stream that has a window.
pub const FORWARD: u64 = 16 << 20;
/// Streams followed per file.
const CURSORS: usize = 8;
/// A stream that was left alone by seeks is cancelled after this many reads elsewhere.
const IDLE_READS: u64 = 64;

/// What to do for one read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What the read needs, aligned outwards.
    pub wanted: Range<u64>,
    /// What to fetch ahead, in order; none of it was planned before, or it was cancelled since.
    pub ahead: Vec<Range<u64>>,
    /// What was planned ahead and is not wanted any more.
    pub cancel: Vec<Range<u64>>,
    /// A stream that had left everything before the start of this range behind now has everything before
    /// its end behind.
    pub passed: Range<u64>,
}

#[derive(Clone, Debug)]
struct Cursor {
    /// Where it began: nothing before was asked for ahead.
    first: u64,
    /// Everything before this was read, or was skipped for good.
    low: u64,
    /// What was read behind `low`.
    read: RangeSet,
    /// End of what was read.
    next: u64,
    /// End of what was asked for.
    asked: u64,
    /// How far to be ahead; 0 while it is not known to be a stream.
    window: u64,
    /// Where `next` was when `window` last changed.
    grown: u64,
    /// How far a read may jump while there is no window.
    near: u64,
    /// Tick of the last read.
    used: u64,
    suspended: bool,
    /// Went on after a seek elsewhere.
    steady: bool,
}

/// The streams of one file.
#[derive(Debug, Default)]
pub struct Prefetch {
    cursors: Vec<Cursor>,
    tick: u64,
}

impl Prefetch {
    /// Takes note of a read of `len` bytes (not 0) at `offset` (below `size`). `room`: by how much the
    /// windows together may grow.
    pub fn on_read(&mut self, offset: u64, len: u64, size: u64, room: u64) -> Plan {
        self.tick += 1;
        let end = offset.saturating_add(len).min(size);
        let mut plan = Plan { wanted: align(offset..end, size), ..Plan::default() };
        match self.find(offset) {
            Some(index) => {
                let tick = self.tick;
                let cursor = &mut self.cursors[index];
                cursor.used = tick;
                let held = if cursor.suspended { 0 } else { cursor.window };
                let limit = room.saturating_add(held);
                cursor.go_on(offset, end, &mut plan);
                cursor.window = cursor.window.min(limit);
                cursor.look_ahead(size, &mut plan);
            }
            None => self.seek(offset, end, size, &mut plan),
        }
        self.rest(&mut plan);
        plan
    }

    /// Cache space that the windows need together.
    #[must_use]
    pub fn windows(&self) -> u64 {
        self.cursors.iter().filter(|cursor| !cursor.suspended).map(|cursor| cursor.window).sum()
    }

    /// Forgets every plan; answers what was planned ahead.
    pub fn stop(&mut self) -> Vec<Range<u64>> {
        self.cursors.drain(..).map(|cursor| cursor.next..cursor.asked).collect()
    }

    /// The nearest cursor that a read at `offset` continues.
    fn find(&self, offset: u64) -> Option<usize> {
        (0..self.cursors.len())
            .filter(|&index| self.cursors[index].continued_by(offset))
            .min_by_key(|&index| self.cursors[index].next.abs_diff(offset))
    }

    fn seek(&mut self, offset: u64, end: u64, size: u64, plan: &mut Plan) {
        if offset == 0 {
            plan.wanted.end = plan.wanted.end.max(FIRST.min(size));
        }
        if let Some(last) = self.cursors.iter_mut().max_by_key(|cursor| cursor.used)
            && !last.steady
        {
            last.suspend(plan);
        }
        if self.cursors.len() == CURSORS
            && let Some(index) =
                (0..CURSORS).min_by_key(|&index| (self.cursors[index].window > 0, self.cursors[index].used))
        {
            self.cursors.swap_remove(index).suspend(plan);
        }
        let mut cursor = Cursor {
            first: offset,
            low: offset.saturating_sub(near(end - offset)),
            read: RangeSet::default(),
            next: end,
            asked: plan.wanted.end,
            window: 0,
            grown: end,
            near: near(end - offset),
            used: self.tick,
            suspended: false,
            steady: false,
        };
        cursor.take_in(offset, end);
        self.cursors.push(cursor);
    }

    /// Cancels what is planned for streams that nobody reads any more.
    fn rest(&mut self, plan: &mut Plan) {
        let tick = self.tick;
        for cursor in self.cursors.iter_mut().filter(|cursor| tick - cursor.used > IDLE_READS) {
            cursor.suspend(plan);
        }
    }
}

impl Cursor {
    /// Tolerance grows with the window: a few chance hits of random reads must not make a wide net.
    fn continued_by(&self, offset: u64) -> bool {
        let forward = FORWARD.min(2 * self.window).max(self.near);
        let backward = BACKWARD.min(self.window).max(self.near);
        (self.next.saturating_sub(backward)..=self.next.saturating_add(forward)).contains(&offset)
    }

    fn go_on(&mut self, offset: u64, end: u64, plan: &mut Plan) {
        let (before, next) = (self.low, self.next);
        self.next = next.max(end);
        self.take_in(offset, end);
        if end > next {
            self.advance(offset, end, plan);
        }
        self.give_up(plan);
        plan.passed = passed(before)..passed(self.low);
    }

    /// Notes what was read, by whole grains: so the set stays small whatever is skipped.
    fn take_in(&mut self, offset: u64, end: u64) {
        self.read.insert(offset / ALIGN * ALIGN..end.next_multiple_of(ALIGN));
        self.low = self.read.run_at(self.low).unwrap_or(self.low);
        self.read.remove_before(self.low);
    }

    fn advance(&mut self, offset: u64, end: u64, plan: &Plan) {
        if self.suspended {
            self.suspended = false;
            self.steady = true;
        }
        if self.window == 0 {
            self.window = ((end - offset) * 4).next_power_of_two().clamp(FIRST, BACKWARD);
            self.grown = end;
        } else if end - self.grown >= self.window / 2 {
            self.window = (self.window * 2).min(WINDOW_MAX);
            self.grown = end;
        }
        self.near = near(end - offset);
        self.asked = self.asked.max(plan.wanted.end);
    }

    /// What was skipped by more than the kernel reorders was jumped over: it is not wanted ahead.
    fn give_up(&mut self, plan: &mut Plan) {
        let floor = self.next.saturating_sub(REORDERED);
        if self.low >= floor {
            return;
        }
        for gap in self.read.gaps(&(self.low..floor)) {
            if gap.end - gap.start > self.near {
                self.window /= 2;
                self.grown = self.next;
            }
            push(&mut plan.cancel, gap.start.max(self.first)..gap.end.min(self.asked));
        }
        self.low = self.read.run_at(floor).unwrap_or(floor);
        self.read.remove_before(self.low);
    }

    fn look_ahead(&mut self, size: u64, plan: &mut Plan) {
        let step = (self.window / 2).clamp(ALIGN, PART);
        let reach = self.next.saturating_add(self.window);
        let target = if reach >= size { size } else { reach / step * step };
        while self.window > 0 && self.asked < target {
            let end = ((self.asked / PART + 1) * PART).min(target);
            plan.ahead.push(self.asked..end);
            self.asked = end;
        }
    }

    fn suspend(&mut self, plan: &mut Plan) {
        if !self.suspended {
            self.suspended = true;
            push(&mut plan.cancel, self.next..self.asked);
            self.asked = self.next;
            self.window /= 2;
        }
    }
}

fn near(len: u64) -> u64 {
    (TOGETHER * len).clamp(ALIGN, REORDERED)
}

fn passed(at: u64) -> u64 {
    at.saturating_sub(BACKWARD)
}

fn push(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    if !range.is_empty() {
        ranges.push(range);
    }
}

fn align(range: Range<u64>, size: u64) -> Range<u64> {
    range.start / ALIGN * ALIGN..range.end.next_multiple_of(ALIGN).min(size)
}

#[cfg(test)]
mod tests;
