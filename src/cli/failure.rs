//! Why a command failed: an exit code and one line that says what to do.

use crate::cli::exit::Exit;
use crate::control::client::ClientError;
use crate::control::target::TargetError;
use crate::error::Error;
use std::fmt;

/// Why a command failed.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// How the process ends.
    pub exit: Exit,
    /// One line for people; several where a config has several problems.
    pub message: String,
}

impl Failure {
    /// A command that could not do what it should.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, message: message.into() }
    }

    /// A command that was asked for the wrong thing.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into() }
    }

    /// Not mounted.
    pub fn not_mounted(message: impl Into<String>) -> Self {
        Self { exit: Exit::NotMounted, message: message.into() }
    }

    /// Out of time; nothing is lost.
    pub fn timed_out(message: impl Into<String>) -> Self {
        Self { exit: Exit::TimedOut, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<TargetError> for Failure {
    fn from(error: TargetError) -> Self {
        let exit = match error {
            TargetError::NotMounted { .. } | TargetError::Nothing => Exit::NotMounted,
            TargetError::Several(_) => Exit::Usage,
            TargetError::Dead(_) | TargetError::Client { .. } | TargetError::Io { .. } => Exit::Failed,
        };
        Self { exit, message: error.to_string() }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::failed(error.to_string())
    }
}
