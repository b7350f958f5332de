//! Loss and repair: taking a wiped tier for what it is, finding what catalog and tiers disagree on, and making a catalog anew.
//!
//! Nothing here runs in the course of ordinary work: a person asks for it. Knows the catalog, tiers and stages; must not know
//! vfs, FUSE or commands.

pub mod accept;
pub mod fsck;
pub mod takeover;

pub use accept::{Accepted, FileSystem};
