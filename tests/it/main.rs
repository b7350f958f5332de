//! All integration tests in one binary: one link for everything.

mod contract;
mod mover;
mod support;
mod tiers;
mod blob;
