//! The commands.

pub mod log;
pub mod text;
