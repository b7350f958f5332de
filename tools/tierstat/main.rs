//! `tierstat`: where the data is, how full the tiers are, and first what needs a person.

mod args;
mod health;
mod letters;
mod ls;
mod order;
mod summary;
mod walk;

use args::{Args, Command};
use clap::Parser;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use tierfs::cli::queue::{self, ListError};
use tierfs::control::target::TargetError;

/// Why nothing could be shown.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Target(#[from] TargetError),
    #[error("{0}")]
    Said(String),
    #[error("{0}")]
    Output(#[from] io::Error),
}

impl From<ListError> for Failure {
    fn from(error: ListError) -> Self {
        match error {
            ListError::Target(error) => Self::Target(error),
            ListError::Client(error) => Self::Said(error.to_string()),
            ListError::Output(error) => Self::Output(error),
        }
    }
}

impl Failure {
    fn exit(&self) -> u8 {
        match self {
            Self::Target(TargetError::NotMounted { .. } | TargetError::Nothing) => 3,
            Self::Target(TargetError::Several(_)) => 2,
            Self::Target(_) | Self::Said(_) | Self::Output(_) => 1,
        }
    }

    fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mut out = BufWriter::new(io::stdout().lock());
    let shown = show(&args, &mut out).and_then(|code| out.flush().map(|()| code).map_err(Failure::from));
    match shown {
        Ok(code) => ExitCode::from(code),
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.exit())
        }
    }
}

/// Shows it; answers the exit code.
fn show(args: &Args, out: &mut dyn Write) -> Result<u8, Failure> {
    match &args.command {
        None => summary::show(args.mountpoint.as_deref(), args.form(), out)?,
        Some(Command::Ls(ls)) => ls::show(ls, out)?,
        Some(Command::Queue(args)) => queue::show(args.mountpoint.as_deref(), args.form(), out)?,
        Some(Command::Health(args)) => return health::show(args.mountpoint.as_deref(), args.form(), out),
    }
    Ok(0)
}
