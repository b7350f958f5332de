//! Pure decisions: facts and a time in, a decision out. No I/O, no clock, no locks.

pub mod admission;
pub mod aside;
pub mod eviction;
pub mod heat;
pub mod idle;
pub mod keep;
pub mod placement;
pub mod room;
