//! The command line.

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use tierfs::cli::queue;
use tierfs::config;

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
    /// Again and again, with a pause of so long [default: 2s]; with --json an object a line
    #[arg(long, global = true, value_name = "DURATION", value_parser = pause, num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "2s")]
    pub watch: Option<Duration>,
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What else there is to see.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// A line a file: the tiers that hold it, its state, heat and size
    Ls(Ls),
    /// What still has to reach home, a line a step in their order
    Queue(OfMount),
    /// What the stored bytes cost in a month, by tier and directory, and what they would cost all on Lustre
    Cost(Cost),
    /// Rates, tiers and queue, live; q quits. --watch=DURATION sets how often
    Top(Top),
    /// Whether it needs somebody, and why. Exit codes: 0 no, 1 soon, if what is wrong does not pass, 2 now, 3 not mounted
    Health(OfMount),
    /// Write man pages and completions of this program into DIR, for packages
    #[command(hide = true)]
    Generate(Generate),
}

/// What is asked of a whole mount.
#[derive(Debug, ClapArgs)]
pub struct OfMount {
    /// Any path in the mount; without it, the mount around the current directory, or the only one
    pub mountpoint: Option<PathBuf>,
    /// One JSON object; of a queue, an object a line
    #[arg(long)]
    json: bool,
}

/// `tierstat top`.
#[derive(Debug, ClapArgs)]
pub struct Top {
    /// Any path in the mount; without it, the mount around the current directory, or the only one
    pub mountpoint: Option<PathBuf>,
}

/// `tierstat generate`.
#[derive(Debug, ClapArgs)]
pub struct Generate {
    /// Where to
    pub dir: PathBuf,
}

/// `tierstat cost`.
#[derive(Debug, ClapArgs)]
pub struct Cost {
    /// A directory in a mount, which is looked through; without it, the whole mount
    pub path: Option<PathBuf>,
    /// Only by tier, at once, out of what the catalog knows of the whole mount
    #[arg(long)]
    pub tiers: bool,
    /// Directories that are shown, the dearest first
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub most: usize,
    /// One JSON object
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

impl OfMount {
    pub fn form(&self) -> Form {
        form(self.json)
    }

    pub fn queue_form(&self) -> queue::Form {
        if self.json { queue::Form::Json } else { queue::Form::Text }
    }
}

impl Cost {
    pub fn form(&self) -> Form {
        form(self.json)
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

/// `2s`, or `2` as watch(1) takes it; a busy loop would only warm the room.
fn pause(text: &str) -> Result<Duration, String> {
    let pause = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_with_a_unit) => config::duration(text)?,
    };
    if pause < Duration::from_millis(100) { Err("is less than 100ms".to_owned()) } else { Ok(pause) }
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

    #[test]
    fn watching_has_a_pause() {
        let watch = |line: &str| Args::try_parse_from(line.split(' ')).map(|args| args.watch);
        assert_eq!(watch("tierstat /m --watch").unwrap(), Some(Duration::from_secs(2)));
        assert_eq!(watch("tierstat --watch /m").unwrap(), Some(Duration::from_secs(2)));
        assert_eq!(watch("tierstat health --watch=500ms").unwrap(), Some(Duration::from_millis(500)));
        assert_eq!(watch("tierstat queue --watch=5").unwrap(), Some(Duration::from_secs(5)));
        assert!(watch("tierstat --watch=0").is_err() && watch("tierstat --watch=often").is_err());
    }
}
