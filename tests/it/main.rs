//! All integration tests in one binary: one link for everything.

mod cli;
mod contract;
mod mover;
mod support;
mod tiers;
