//! Decisions: (facts, now) → decision. Pure: no I/O, no clock, no locks.

pub mod aside;
pub mod keep;
pub mod placement;
pub mod room;
