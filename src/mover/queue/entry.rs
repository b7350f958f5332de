//! A step in memory, and how far it is.

use super::{Ahead, Holds, Item, Verdict};
use crate::types::Timestamp;

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    Running,
    Parked,
    /// The same, and what comes after it does not wait.
    Reopened,
    Blocked,
}

/// How far the bytes of a step are that are sent ahead of its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    No,
    Sending,
    Over,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) item: Item,
    pub(super) state: State,
    pub(super) sent: Sent,
    /// Something was released while it ran: what it found may be old.
    pub(super) noticed: bool,
}

impl Entry {
    pub(super) fn new(item: Item) -> Self {
        Self { item, state: State::Waiting, sent: Sent::No, noticed: false }
    }

    pub(super) fn run(&mut self) {
        (self.state, self.noticed) = (State::Running, false);
    }

    /// It ran, and there is still something to do.
    pub(super) fn end(&mut self, verdict: Verdict) {
        self.state = match verdict {
            // The release may have come between the job's look and its end.
            Verdict::Parked | Verdict::Reopened if self.noticed => State::Waiting,
            Verdict::Parked => State::Parked,
            Verdict::Reopened => State::Reopened,
            Verdict::Blocked => State::Blocked,
            Verdict::Retry(_) | Verdict::Later(_) | Verdict::Done => State::Waiting,
        };
        if let Verdict::Retry(not_before) = verdict {
            self.item.not_before = not_before;
        }
    }

    pub(super) fn send(&mut self) {
        self.sent = Sent::Sending;
    }

    /// Whether it matters to it that something was queued or released.
    pub(super) fn can_be_noticed(&self) -> bool {
        matches!(self.state, State::Running | State::Parked | State::Reopened)
    }

    /// Something was queued or released.
    pub(super) fn notice(&mut self) {
        self.noticed = true;
        if matches!(self.state, State::Parked | State::Reopened) {
            self.state = State::Waiting;
        }
    }

    /// At once, if it does not run; even a blocked one.
    pub(super) fn try_again(&mut self) {
        self.item.not_before = Timestamp(i64::MIN);
        if self.state == State::Blocked {
            self.state = State::Waiting;
        }
    }

    /// Whether it could start, were it its turn and time.
    pub(super) fn is_waiting(&self) -> bool {
        self.state == State::Waiting && self.sent != Sent::Sending
    }

    /// Whether its bytes can be sent ahead.
    pub(super) fn may_send(&self) -> bool {
        self.item.ahead == Ahead::Possible && self.state == State::Waiting && self.sent == Sent::No
    }

    /// Whether it has no place in the order of its domain for now.
    pub(super) fn is_aside(&self) -> bool {
        self.state == State::Reopened && self.item.holds == Holds::Domain
    }
}
