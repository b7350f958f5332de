//! Tests on a real mount of the real binary.

mod bad_input;
mod commits;
mod epochs;
mod explain;
mod flush;
mod full;
mod health;
mod keep_hot;
mod latest;
mod limits;
mod metrics;
mod near;
mod owners;
mod permissions;
mod pins;
mod poor;
mod posix;
mod promises;
mod queue;
mod reload;
mod renames;
mod room;
mod sharing;
mod sick;
mod stress;
mod write_back;
