//! The commands of `tierfs`: what is asked, done through `control` and `mount`, and said in plain
//! words. Knows terminals and exit codes; must not know how anything is stored.

pub mod adopt;
pub mod args;
pub mod bundle;
pub mod check;
pub mod config_command;
pub mod demo;
pub mod detach;
pub mod evict;
pub mod exit;
pub mod explain;
pub mod failure;
pub mod flush;
pub mod fsck;
pub mod generate;
mod helper;
pub mod log;
pub mod mount;
pub mod notify;
pub mod options;
pub mod path;
pub mod paths;
pub mod pin;
pub mod plan;
pub mod progress;
pub mod queue;
pub mod rebuild;
pub mod reload;
pub mod say;
pub mod text;
pub mod tier;
pub mod unmount;
mod utab;
pub mod warm;

pub use exit::Exit;

use args::{Cli, Command, ConfigArgs};
use clap::{CommandFactory, Parser};
use failure::Failure;
use std::io;
use std::process::ExitCode;

/// `tierfs`, with this process's arguments.
#[must_use]
pub fn main() -> ExitCode {
    let called = helper::read(std::env::args_os());
    if called.is_rehearsal {
        return Exit::Done.into();
    }
    match Cli::try_parse_from(called.arguments) {
        Ok(cli) if called.is_helper => end(helper::run(cli.command, run)),
        Ok(cli) => end(run(cli.command)),
        Err(error) => {
            let exit = match (error.use_stderr(), called.is_helper) {
                (true, false) => Exit::Usage,
                // That is a wrong call to mount(8).
                (true, true) => Exit::Failed,
                (false, _) => Exit::Done,
            };
            if let Err(error) = error.print() {
                tracing::debug!(%error, "nobody reads the usage");
            }
            exit.into()
        }
    }
}

fn end(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => Exit::Done.into(),
        Err(failure) => {
            if !failure.message.is_empty() {
                say::err(format_args!("error: {failure}"));
            }
            failure.exit.into()
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Mount(args) => mount::run(args),
        Command::Unmount(args) if args.lazy => unmount::run_lazily(&args.mountpoint),
        Command::Unmount(args) => unmount::run(&args.mountpoint, args.timeout),
        Command::Check(args) => check::run(&args),
        Command::DebugBundle(args) => bundle::run(&args),
        Command::Config(args) => config(args),
        Command::Demo(args) => demo::run(args.dir),
        Command::Flush(args) => flush::run(&args),
        Command::Warm(args) => warm::run(&args),
        Command::Evict(args) => evict::run(&args),
        Command::Pin(args) => pin::pin(&args),
        Command::Unpin(args) => pin::unpin(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Reload(args) => reload::run(&args),
        Command::Path(args) => path::run(&args.file),
        Command::Queue(args) => queue::run(&args),
        Command::Fsck(args) => fsck::run(&args),
        Command::Rebuild(args) => rebuild::run(&args),
        Command::Adopt(args) => adopt::run_adopt(&args),
        Command::Rescue(args) => adopt::run_rescue(&args),
        Command::Tier(args) => tier::run(&args.command),
        Command::Generate(args) => generate::write(&Cli::command(), &args.dir)
            .map_err(|error| Failure::failed(format!("{}: {error}", args.dir.display()))),
    }
}

fn config(args: ConfigArgs) -> Result<(), Failure> {
    let ran = config_command::run(args.command, &mut io::stdout().lock(), &mut io::stderr().lock());
    match ran {
        Ok(Exit::Done) => Ok(()),
        // The problems have been said.
        Ok(exit) => Err(Failure { exit, message: String::new() }),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::failed(format!("standard output: {error}"))),
    }
}
