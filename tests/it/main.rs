//! All integration tests in one binary: one link for everything.

mod cli;
