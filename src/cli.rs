//! The commands of `tierfs`: what is asked, done through `control` and `mount`, and said in plain
//! words. Knows terminals and exit codes; must not know how anything is stored.

pub mod adopt;
pub mod args;
pub mod check;
pub mod config_command;
pub mod demo;
pub mod detach;
pub mod exit;
pub mod explain;
mod failure;
pub mod flush;
pub mod fsck;
pub mod generate;
pub mod log;
pub mod mount;
pub mod options;
pub mod path;
pub mod paths;
pub mod plan;
pub mod progress;
pub mod queue;
pub mod rebuild;
pub mod say;
pub mod text;
pub mod tier;
pub mod unmount;
pub mod warm;

pub use exit::Exit;

use args::{Cli, Command, ConfigArgs};
use clap::{CommandFactory, Parser};
use failure::Failure;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// `tierfs`, with this process's arguments.
#[must_use]
pub fn main() -> ExitCode {
    match Cli::try_parse_from(arguments(std::env::args_os())) {
        Ok(cli) => end(run(cli.command)),
        Err(error) => {
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
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
        Command::Unmount(args) => unmount::run(&args.mountpoint, args.timeout),
        Command::Check(args) => check::run(&args),
        Command::Config(args) => config(args),
        Command::Demo(args) => demo::run(args.dir),
        Command::Flush(args) => flush::run(&args),
        Command::Warm(args) => warm::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Plan(args) => plan::run(&args),
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

/// `mount.tierfs` and `umount.tierfs`, as mount(8) and umount(8) call them, are `tierfs mount` and
/// `tierfs unmount`; what those pass on of their own is left out.
fn arguments(given: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut given = given.into_iter();
    let program = given.next().unwrap_or_default();
    let name = Path::new(&program).file_name().and_then(OsStr::to_str).unwrap_or_default();
    let command = match name {
        "mount.tierfs" | "mount.fuse.tierfs" => "mount",
        "umount.tierfs" | "umount.fuse.tierfs" => "unmount",
        _ => return std::iter::once(program).chain(given).collect(),
    };
    let mut kept: Vec<OsString> = vec!["tierfs".into(), command.into()];
    while let Some(argument) = given.next() {
        match argument.to_str() {
            Some("-t" | "-N") => drop(given.next()),
            Some("-s" | "-n" | "-v" | "-r") => {}
            Some("-f" | "-l") if command == "unmount" => {}
            _ => kept.push(argument),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(line: &str) -> String {
        let arguments = arguments(line.split(' ').map(OsString::from));
        arguments.iter().map(|argument| argument.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn helpers_of_mount_are_commands() {
        assert_eq!(seen("/sbin/mount.tierfs c.toml /m -v -o rw,uid=5"), "tierfs mount c.toml /m -o rw,uid=5");
        assert_eq!(seen("umount.tierfs /m -t fuse.tierfs -n"), "tierfs unmount /m");
        assert_eq!(seen("./tierfs flush -0"), "./tierfs flush -0");
    }
}
