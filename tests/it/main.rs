//! All integration tests in one binary: one link for everything.

mod architecture;
mod blob;
mod cases;
mod cli;
mod contract;
mod crash;
mod hits;
mod model;
mod mounted;
mod mover;
mod packaging;
mod promises;
mod repair;
mod rig;
mod support;
mod tiers;
