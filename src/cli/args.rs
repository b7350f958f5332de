//! What may be written on the command line. Help texts live here, behaviour does not.

use super::log::Form;
use super::options::MountOptions;
use super::pin::Until;
use crate::config::{self, Example};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed, 2 usage or config, 3 not mounted, 4 timed out.";

/// One namespace over Lustre, Azure Files and Azure Blob.
#[derive(Debug, Parser)]
#[command(name = "tierfs", version, after_help = EXIT_CODES, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Mount what CONFIG describes; without arguments, list the mounts of this machine
    #[command(after_help = format!("{}\n\n{EXIT_CODES}", super::options::HELP))]
    Mount(MountArgs),
    /// Wait until dirty data is at home, then unmount
    #[command(visible_alias = "umount")]
    Unmount(UnmountArgs),
    /// Check CONFIG, reach every tier, and say what this kernel and container allow
    Check(CheckArgs),
    /// Collect what somebody who helps needs to know in one tar, without secrets
    DebugBundle(BundleArgs),
    /// Show a config's values and their sources, an example, or all keys
    Config(ConfigArgs),
    /// See it work: three tiers in local directories, a real mount, a crash and a recovery
    Demo(DemoArgs),
    /// Wait until everything below PATHs is at home
    Flush(FlushArgs),
    /// Fetch hot copies of what is below PATHs, and have archived blobs brought back
    Warm(WarmArgs),
    /// Say which rule placed a file, where its bytes are, how hot it is, and what happens next
    Explain(ExplainArgs),
    /// Say what the mover would do now: what goes home, which hot copies leave; changes nothing
    Plan(PlanArgs),
    /// Drop the hot copies of what is below PATHs, where they are clean, closed and not pinned
    Evict(EvictArgs),
    /// Keep PATHs near: their hot copies are fetched, and stay
    Pin(PinArgs),
    /// Let hot copies of PATHs leave again
    Unpin(UnpinArgs),
    /// Check the config of a mount again, and use what may change while it is mounted; so does SIGHUP
    Reload(ReloadArgs),
    /// Print where the resident copy of FILE is on its tier
    Path(PathArgs),
    /// List what still has to reach home; try it again, or copy it out
    Queue(QueueArgs),
    /// Compare the catalog with the tiers; exit 1 if something is wrong
    Fsck(FsckArgs),
    /// Make a new catalog from the tiers in the place of a damaged one, which is kept
    Rebuild(RebuildArgs),
    /// Take over what a mount that died with its machine or its catalog has left on a stage
    Adopt(AdoptArgs),
    /// Copy what lies on such a stage to a directory, under the names it had; needs no config
    Rescue(RescueArgs),
    /// Say that a directory tier was wiped, or list what was lost with one
    Tier(TierArgs),
    /// Write man pages and completions of this program into DIR, for packages
    #[command(hide = true)]
    Generate(GenerateArgs),
}

/// `tierfs generate`
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// Where to
    pub dir: PathBuf,
}

/// `tierfs mount`
#[derive(Debug, Args)]
pub struct MountArgs {
    /// The config file
    #[arg(requires = "mountpoint")]
    pub config: Option<PathBuf>,
    /// An empty directory
    pub mountpoint: Option<PathBuf>,
    /// Mount options, separated by commas; may be given several times
    #[arg(short = 'o', value_name = "OPTIONS", requires = "mountpoint")]
    pub options: Vec<String>,
    /// Stay in the foreground and log to stderr
    #[arg(long, requires = "mountpoint")]
    pub foreground: bool,
    /// Log to FILE [default: stderr in the foreground, else /var/log/tierfs/NAME.log as root and
    /// ~/.local/state/tierfs/NAME.log as user, NAME being the config's]
    #[arg(long, value_name = "FILE", requires = "mountpoint")]
    pub log: Option<PathBuf>,
    /// Form of the log; TIERFS_LOG sets what is logged (info, debug, tierfs::mover=trace, ..)
    #[arg(long, value_name = "FORM", value_enum, default_value_t, requires = "mountpoint")]
    pub log_format: Form,
    /// Where the daemon tells the command that started it how its start went
    #[arg(long, value_name = "FD", hide = true, requires = "mountpoint")]
    pub ready_fd: Option<i32>,
}

/// What `tierfs mount` is asked for.
#[derive(Debug, PartialEq, Eq)]
pub enum MountRequest {
    /// List the mounts.
    List,
    /// Mount.
    Mount {
        /// The config file.
        config: PathBuf,
        /// Where.
        mountpoint: PathBuf,
        /// How.
        options: MountOptions,
        /// In the background, or here.
        ground: Ground,
    },
}

/// Where the daemon runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// It detaches once the mount is there.
    Background,
    /// It stays with the terminal.
    Foreground,
}

impl MountArgs {
    /// Reads the options.
    ///
    /// # Errors
    /// All that is wrong with them, a line each.
    pub fn request(self) -> Result<MountRequest, String> {
        let (Some(config), Some(mountpoint)) = (self.config, self.mountpoint) else {
            return Ok(MountRequest::List);
        };
        let ground = if self.foreground { Ground::Foreground } else { Ground::Background };
        let options = MountOptions::parse(&self.options)?;
        Ok(MountRequest::Mount { config, mountpoint, options, ground })
    }
}

/// `tierfs unmount`
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct UnmountArgs {
    /// Where it is mounted
    pub mountpoint: PathBuf,
    /// Wait at most this long, then exit 4 and keep everything for the next mount [default: drain_timeout of the config]
    #[arg(long, value_name = "DURATION", value_parser = config::duration)]
    pub timeout: Option<Duration>,
    /// Take it away at once, in use or not; what is open stays open, and the daemon commits the rest in the background
    #[arg(long, conflicts_with = "timeout")]
    pub lazy: bool,
}

/// `tierfs check`
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct CheckArgs {
    /// The config file
    pub config: PathBuf,
    /// Where it is to be mounted
    pub mountpoint: Option<PathBuf>,
}

/// `tierfs debug-bundle`
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct BundleArgs {
    /// The config file, mounted or not
    pub config: PathBuf,
    /// Where to write it; must not be there [default: tierfs-debug-TIME.tar here]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The daemon's log, where `mount --log` named one
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
}

/// `tierfs config`
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// What to print.
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// `tierfs config …`
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print all values in force and where each came from, as TOML
    Show {
        /// The config file
        config: PathBuf,
    },
    /// Print an example config to start from
    Example {
        /// Training with checkpoints, serving models, or preparing data
        example: ExampleName,
    },
    /// Print the table of all keys, as Markdown
    Keys,
}

/// Names of the examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExampleName {
    /// Multi-node training with checkpoints, datasets and models
    Train,
    /// An inference fleet: models on a share, read mostly
    Serve,
    /// Data preparation: from Blob to Blob over a local disk
    Prep,
}

impl From<ExampleName> for Example {
    fn from(name: ExampleName) -> Self {
        match name {
            ExampleName::Train => Self::Train,
            ExampleName::Serve => Self::Serve,
            ExampleName::Prep => Self::Prep,
        }
    }
}

/// `tierfs demo`
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Where to put it; must be empty or missing [default: a new temporary directory]
    pub dir: Option<PathBuf>,
}

/// `tierfs flush`
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct FlushArgs {
    /// Which.
    #[command(flatten)]
    pub paths: PathsArgs,
    /// Wait at most this long, then exit 4; the upload goes on
    #[arg(long, value_name = "DURATION", value_parser = config::duration)]
    pub timeout: Option<Duration>,
    /// Don't wait: exit 0 if everything is at home, else say what is pending and exit 1
    #[arg(long, conflicts_with = "timeout")]
    pub check: bool,
}

/// `tierfs warm`
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct WarmArgs {
    /// Which.
    #[command(flatten)]
    pub paths: PathsArgs,
    /// Stop after this long, then exit 4; hot copies that are whole by then stay
    #[arg(long, value_name = "DURATION", value_parser = config::duration)]
    pub timeout: Option<Duration>,
}

/// `tierfs evict`
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct EvictArgs {
    /// Which.
    #[command(flatten)]
    pub paths: PathsArgs,
    /// Only say what would be dropped, and what would stay and why
    #[arg(long)]
    pub check: bool,
}

/// `tierfs pin`
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct PinArgs {
    /// Files, or directories with all below them; with --list a path in the mount [default: the only one]
    #[arg(value_name = "PATH", required_unless_present_any = ["from_file", "list"])]
    pub paths: Vec<PathBuf>,
    /// Read more PATHs from FILE, one a line; - is stdin
    #[arg(long, value_name = "FILE")]
    pub from_file: Option<OsString>,
    /// PATHs in FILE end with NUL instead of a newline
    #[arg(short = '0', long = "null", requires = "from_file")]
    pub null: bool,
    /// Until then: 7d, 2026-12-31 or 2026-12-31T18:00:00Z (UTC) [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = Until::parse)]
    pub until: Option<Until>,
    /// List what is pinned
    #[arg(long, conflicts_with_all = ["until", "from_file"])]
    pub list: bool,
    /// A JSON object a line
    #[arg(long, requires = "list")]
    pub json: bool,
}

/// `tierfs unpin`
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct UnpinArgs {
    /// Which.
    #[command(flatten)]
    pub paths: PathsArgs,
}

/// Which PATHs a command is for.
#[derive(Debug, Args)]
pub struct PathsArgs {
    /// Files or directories in a mount
    #[arg(value_name = "PATH", required_unless_present = "from_file")]
    pub paths: Vec<PathBuf>,
    /// Read more PATHs from FILE, one a line; - is stdin
    #[arg(long, value_name = "FILE")]
    pub from_file: Option<OsString>,
    /// PATHs in FILE end with NUL instead of a newline
    #[arg(short = '0', long = "null", requires = "from_file")]
    pub null: bool,
}

/// `tierfs explain`
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct ExplainArgs {
    /// Files or directories in a mount
    #[command(flatten)]
    pub paths: PathsArgs,
    /// A JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// `tierfs plan`
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct PlanArgs {
    /// A path in the mount [default: the only one]
    pub mountpoint: Option<PathBuf>,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

/// `tierfs reload`
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct ReloadArgs {
    /// A path in the mount [default: the only one]
    pub mountpoint: Option<PathBuf>,
}

/// `tierfs path`
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct PathArgs {
    /// A file in a mount
    pub file: PathBuf,
}

/// `tierfs queue`
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES, args_conflicts_with_subcommands = true)]
pub struct QueueArgs {
    /// What to do; without it, list.
    #[command(subcommand)]
    pub command: Option<QueueCommand>,
    /// What to list.
    #[command(flatten)]
    pub list: QueueListArgs,
}

/// `tierfs queue` without more
#[derive(Debug, Args)]
pub struct QueueListArgs {
    /// A path in the mount [default: the only one]
    pub mountpoint: Option<PathBuf>,
    /// A JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// `tierfs queue …`
#[derive(Debug, Subcommand)]
pub enum QueueCommand {
    /// Try what failed at or below PATHs again at once, what is blocked too
    #[command(after_help = EXIT_CODES)]
    Retry(QueueRetryArgs),
    /// Copy the newest bytes of a file that is not home yet out of the mount; never overwrites
    #[command(after_help = EXIT_CODES)]
    Export(QueueExportArgs),
}

/// `tierfs queue retry`
#[derive(Debug, Args)]
pub struct QueueRetryArgs {
    /// Files or directories in a mount; also those that were deleted and are not gone from their home
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
}

/// `tierfs queue export`
#[derive(Debug, Args)]
pub struct QueueExportArgs {
    /// A file in a mount
    pub path: PathBuf,
    /// A new file outside, or a directory
    #[arg(value_name = "DEST")]
    pub to: PathBuf,
}

/// `tierfs fsck`
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct FsckArgs {
    /// The config file; it must not be mounted
    pub config: PathBuf,
    /// Mend what can be mended without losing a byte, and say what a person must decide; exit 1 if something is left
    #[arg(long)]
    pub repair: bool,
    /// A JSON object a line: each finding, then the sums
    #[arg(long)]
    pub json: bool,
}

/// `tierfs rebuild`
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct RebuildArgs {
    /// The config file
    pub config: PathBuf,
    /// Also if the catalog is sound: what only it knows, such as pending deletes, is forgotten
    #[arg(long)]
    pub force: bool,
    /// Take over the stages of this catalog too; without it those of all that were at this path before
    #[arg(long, value_name = "CATALOG_ID")]
    pub from: Vec<String>,
    /// This directory tier has no mark because it was wiped
    #[arg(long, value_name = "TIER")]
    pub wiped: Vec<String>,
}

/// `tierfs adopt`
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct AdoptArgs {
    /// The stage: TIER_ROOT/.tierfs/stage/CATALOG_ID
    pub stage: PathBuf,
    /// The config that takes it over; it must not be mounted
    #[arg(long, value_name = "CONFIG")]
    pub config: PathBuf,
    /// The machine that had it is gone for good
    #[arg(long)]
    pub owner_is_gone: bool,
}

/// `tierfs rescue`
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct RescueArgs {
    /// The stage: TIER_ROOT/.tierfs/stage/CATALOG_ID
    pub stage: PathBuf,
    /// Where the files go; must be empty or missing
    pub to: PathBuf,
    /// The machine that had it is gone for good
    #[arg(long)]
    pub owner_is_gone: bool,
}

/// `tierfs tier`
#[derive(Debug, Args)]
pub struct TierArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: TierCommand,
}

/// `tierfs tier …`
#[derive(Debug, Subcommand)]
pub enum TierCommand {
    /// Take what is at the path of tier NAME now for the tier: it was wiped. An empty one costs its hot copies; files that were
    /// homed there, or not yet at their home, are lost, and each is named
    #[command(after_help = EXIT_CODES)]
    Accept(TierAcceptArgs),
    /// List the files that were lost with a tier
    #[command(after_help = EXIT_CODES)]
    Lost(TierLostArgs),
}

/// `tierfs tier accept`
#[derive(Debug, Args)]
pub struct TierAcceptArgs {
    /// The tier's name in the config
    pub name: String,
    /// Which mount.
    #[command(flatten)]
    pub mount: MountOrConfig,
    /// Also if it is on a file system of another type than it was
    #[arg(long)]
    pub any_file_system: bool,
}

/// `tierfs tier lost`
#[derive(Debug, Args)]
pub struct TierLostArgs {
    /// Which mount.
    #[command(flatten)]
    pub mount: MountOrConfig,
    /// Forget them once they are listed: `tierstat` no longer shows them
    #[arg(long)]
    pub forget: bool,
    /// A JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// A mount, or the config of one that is not mounted.
#[derive(Debug, Args)]
pub struct MountOrConfig {
    /// A path in the mount [default: the only one]
    pub mountpoint: Option<PathBuf>,
    /// The config file, mounted or not
    #[arg(long, value_name = "CONFIG", conflicts_with = "mountpoint")]
    pub config: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        Cli::try_parse_from(line.split(' ')).map(|cli| cli.command)
    }

    #[test]
    fn the_definitions_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn mount_lists_or_mounts() {
        let Command::Mount(list) = parse("tierfs mount").unwrap() else { panic!() };
        assert_eq!(list.request(), Ok(MountRequest::List));
        let Command::Mount(args) =
            parse("tierfs mount c.toml /m -o ro,uid=5 --foreground -o allow_other").unwrap()
        else {
            panic!()
        };
        let Ok(MountRequest::Mount { config, mountpoint, options, ground }) = args.request() else {
            panic!()
        };
        assert_eq!((config, mountpoint, ground), ("c.toml".into(), "/m".into(), Ground::Foreground));
        assert!(options.read_only && options.allow_other && options.uid == Some(5));
        assert!(parse("tierfs mount c.toml").is_err() && parse("tierfs mount -o ro").is_err());
    }

    #[test]
    fn umount_is_unmount() {
        let Command::Unmount(args) = parse("tierfs umount /m --timeout 90s").unwrap() else { panic!() };
        assert_eq!((args.mountpoint, args.timeout), ("/m".into(), Some(Duration::from_secs(90))));
        let said = parse("tierfs unmount /m --timeout 90").unwrap_err().to_string();
        assert!(said.contains("write \"90s\" for seconds"), "{said}");
    }

    #[test]
    fn flush_takes_paths_from_both_sides() {
        assert!(parse("tierfs flush").is_err() && parse("tierfs flush a -0").is_err());
        let Command::Flush(args) = parse("tierfs flush a b --from-file - -0").unwrap() else { panic!() };
        let PathsArgs { paths, from_file, null } = args.paths;
        assert_eq!((paths.len(), from_file, null), (2, Some("-".into()), true));
        assert!(parse("tierfs flush a --check --timeout 1s").is_err());
    }

    #[test]
    fn warm_takes_what_flush_takes() {
        assert!(parse("tierfs warm").is_err());
        let Command::Warm(args) = parse("tierfs warm a --timeout 5s --from-file f -0").unwrap() else {
            panic!()
        };
        assert_eq!(
            (args.paths.paths.len(), args.paths.null, args.timeout),
            (1, true, Some(Duration::from_secs(5)))
        );
    }

    #[test]
    fn queue_lists_unless_told_more() {
        let Command::Queue(args) = parse("tierfs queue /m --json").unwrap() else { panic!() };
        assert!(args.command.is_none() && args.list.json && args.list.mountpoint == Some("/m".into()));
        let Command::Queue(args) = parse("tierfs queue retry a b").unwrap() else { panic!() };
        assert!(matches!(args.command, Some(QueueCommand::Retry(args)) if args.paths.len() == 2));
        assert!(parse("tierfs queue export a b").is_ok() && parse("tierfs queue export a").is_err());
        assert!(parse("tierfs queue retry").is_err() && parse("tierfs queue --json retry a").is_err());
    }

    #[test]
    fn a_tier_is_accepted_on_a_mount_or_by_its_config() {
        let Command::Tier(args) = parse("tierfs tier accept scratch /m").unwrap() else { panic!() };
        let TierCommand::Accept(args) = args.command else { panic!() };
        assert_eq!((&args.name[..], args.mount.mountpoint), ("scratch", Some("/m".into())));
        assert!(parse("tierfs tier accept").is_err() && parse("tierfs tier").is_err());
        assert!(parse("tierfs tier accept scratch /m --config c.toml").is_err());
        assert!(parse("tierfs tier lost --config c.toml --forget --json").is_ok());
    }

    #[test]
    fn wrong_usage_ends_with_code_2() {
        for line in ["tierfs", "tierfs frob", "tierfs config example lunch", "tierfs path"] {
            assert_eq!(parse(line).unwrap_err().exit_code(), super::super::Exit::Usage as i32, "{line}");
        }
    }
}
