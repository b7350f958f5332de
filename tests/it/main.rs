//! All integration tests in one binary: one link for everything.
mod architecture;
mod mounted;
mod rig;
mod support;
