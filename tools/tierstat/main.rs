//! `tierstat`: where the data is, how full the tiers are, and first what needs a person.

mod args;
mod cost;
mod health;
mod letters;
mod ls;
mod order;
mod summary;
mod top;
mod walk;
mod watch;

use args::{Args, Command};
use clap::{CommandFactory, Parser};
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use tierfs::cli::generate;
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
    Usage(String),
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
            Self::Target(TargetError::Several(_)) | Self::Usage(_) => 2,
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
    let shown = match (&args.command, args.watch) {
        // It looks again and again by itself.
        (Some(Command::Top(top)), pause) => top::run(top.mountpoint.as_deref(), pause),
        (_, Some(pause)) => watch::run(pause, &mut out, &mut |out| show(&args, out)),
        (_, None) => show(&args, &mut out).and_then(|code| out.flush().map(|()| code).map_err(Failure::from)),
    };
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
        None => summary::show(args.mountpoint.as_deref(), args.form(), args.watch, out)?,
        Some(Command::Ls(ls)) => ls::show(ls, out)?,
        Some(Command::Queue(of)) => queue::show(of.mountpoint.as_deref(), of.queue_form(), out)?,
        Some(Command::Cost(cost)) => cost::show(cost, out)?,
        Some(Command::Health(of)) => return health::show(of.mountpoint.as_deref(), of.form(), out),
        Some(Command::Generate(to)) => generate::write(&Args::command(), &to.dir)
            .map_err(|error| Failure::Said(format!("{}: {error}", to.dir.display())))?,
        Some(Command::Top(_)) => {}
    }
    Ok(0)
}
