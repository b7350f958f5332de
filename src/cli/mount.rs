//! `tierfs mount`.

pub mod predecessor;
pub mod preflight;
pub mod ready;
