//! The command line.

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use tierfs::cli::queue;

/// Where the data of a tierfs mount is, how full its tiers are, and first what needs a person.
#[derive(Debug, Parser)]
#[command(name = "tierstat", version, args_conflicts_with_subcommands = true)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 usage, 3 not mounted; those of health are its answer."
)]
pub struct Args {
    /// Any path in the mount; without it, the mount around the current directory, or the only one
    pub mountpoint: Option<PathBuf>,
    /// All facts as one JSON object
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What else there is to see.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// A line a file: the tiers that hold it, its state, heat and size
    Ls(Ls),
    /// What still has to reach home, a line a step in their order
    Queue(Queue),
    /// Whether it needs somebody, and why. Exit codes: 0 no, 1 soon, if what is wrong does not pass, 2 now, 3 not mounted
    Health(Health),
}

/// `tierstat health`.
#[derive(Debug, ClapArgs)]
pub struct Health {
    /// Any path in the mount; without it, the mount around the current directory, or the only one
    pub mountpoint: Option<PathBuf>,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// `tierstat queue`.
#[derive(Debug, ClapArgs)]
pub struct Queue {
    /// Any path in the mount; without it, the mount around the current directory, or the only one
    pub mountpoint: Option<PathBuf>,
    /// A JSON object a line
    #[arg(long)]
    json: bool,
}

/// `tierstat ls`.
#[derive(Debug, ClapArgs)]
pub struct Ls {
    /// A directory or file in a mount
    #[arg(default_value = ".")]
    pub path: PathBuf,
    /// With everything below it
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Sorted, greatest first (names: a to z); without it in the directory's order, at once
    #[arg(long, value_name = "BY")]
    pub sort: Option<Sort>,
    /// A JSON object a line
    #[arg(long)]
    json: bool,
}

/// What to sort by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// By path.
    Name,
    /// By bytes.
    Size,
    /// By accesses.
    Heat,
    /// What needs a person or is not home yet first.
    State,
    /// Newest first.
    Time,
}

/// How to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    Json,
}

/// How deep to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    One,
    All,
}

impl Args {
    pub fn form(&self) -> Form {
        form(self.json)
    }
}

impl Health {
    pub fn form(&self) -> Form {
        form(self.json)
    }
}

impl Queue {
    pub fn form(&self) -> queue::Form {
        if self.json { queue::Form::Json } else { queue::Form::Text }
    }
}

impl Ls {
    pub fn form(&self) -> Form {
        form(self.json)
    }

    pub fn depth(&self) -> Depth {
        if self.recursive { Depth::All } else { Depth::One }
    }
}

fn form(json: bool) -> Form {
    if json { Form::Json } else { Form::Text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_mount_point_or_a_command() {
        let args = Args::parse_from(["tierstat", "/m", "--json"]);
        assert_eq!(
            (args.mountpoint.is_some(), args.form(), args.command.is_none()),
            (true, Form::Json, true)
        );
        let args = Args::parse_from(["tierstat", "ls", "-R", "--sort", "size"]);
        let Some(Command::Ls(ls)) = args.command else { panic!("{args:?}") };
        assert_eq!((ls.depth(), ls.sort, ls.form()), (Depth::All, Some(Sort::Size), Form::Text));
    }
}
