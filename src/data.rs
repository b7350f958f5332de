//! An open file as bytes: streamed reads of remote objects through a block cache with
//! read-ahead, hot copies and their fill, staged files. Never names or directories.
//!
//! Knows `tier` and the leaves; must not know the catalog's tables, rules, inodes or FUSE.
//!
//! Lock order: a feed's state → a fill's state → a shard of the block cache. None is held
//! across an `.await` or a system call on a tier.

pub mod budget;
pub mod cache;
mod copy;
mod feed;
pub mod fill;
mod flight;
pub mod hot;
pub mod lease;
mod local;
pub mod meters;
pub mod owner;
pub mod partial;
pub mod prefetch;
pub mod ranges;
pub(crate) mod read;
pub mod reader;
pub mod sidecar;
pub mod stage;
pub mod streams;

pub use budget::{MemoryBudget, Permit};
pub use fill::{Fill, Phase as FillPhase};
pub use hot::{FillStart, HotStore, Identity, Space};
pub use meters::Meters;
pub use owner::Owner;
pub use partial::{Base, Candidate, Candidates, Map, Mapped, Partial, Patched};
pub use reader::{Reader, Source};
pub use sidecar::{Sidecar, SidecarState};
pub use stage::{Elsewhere, Life, StageStore, Staged};
pub use streams::Streams;

#[cfg(test)]
mod tests;
