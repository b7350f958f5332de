//! tierfs: one namespace over Lustre, Azure Files and Azure Blob.
//!
//! Calls go down (fuse → vfs → catalog, data → tier), results come back up; `mount` is the
//! only module that knows every concrete type. `tests/architecture.rs` checks the directions.

pub mod catalog;
pub mod cli;
pub mod clock;
pub mod config;
pub mod control;
pub mod data;
pub mod error;
pub mod failpoint;
pub mod fullness;
pub mod fuse;
pub mod heat;
pub mod host;
pub mod metrics;
pub mod mount;
pub mod mover;
pub mod policy;
pub mod repair;
pub mod tier;
pub mod types;
pub mod vfs;
