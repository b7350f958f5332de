//! How a command ends.

use std::process::ExitCode;

/// Exit codes, the same for every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Failed.
    Failed = 1,
    /// The command line or the config is wrong.
    Usage = 2,
    /// Nothing is mounted there.
    NotMounted = 3,
    /// Timed out; what was begun goes on.
    TimedOut = 4,
    /// For mount(8) and umount(8): it failed.
    Mount = 32,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
