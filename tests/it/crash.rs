//! Daemons that die: what was acknowledged is there afterwards, here, on the tiers and in the catalog.

mod cases;
mod cold;
mod inherited;
mod mapped;
mod overflow;
mod points;
mod programs;
mod rig;
mod torture;
mod tree;
mod worker;

pub use worker::Dice;
