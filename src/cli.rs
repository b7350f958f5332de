//! The commands.

pub mod demo;
pub mod detach;
pub mod exit;
pub mod failure;
pub mod flush;
pub mod log;
pub mod mount;
pub mod path;
pub mod progress;
pub mod text;
pub mod unmount;
