//! All integration tests in one binary: one link for everything.
mod architecture;
mod rig;
mod support;
