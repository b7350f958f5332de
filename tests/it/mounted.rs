//! Tests on a real mount of the real binary.

mod bad_input;
mod full;
mod latest;
mod limits;
mod permissions;
mod poor;
mod posix;
mod promises;
mod renames;
mod sharing;
mod sick;
mod stress;
mod write_back;
