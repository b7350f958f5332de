//! The commands of `tierfs`.

pub mod args;
pub mod config_command;
pub mod exit;
pub mod options;

pub use exit::Exit;
