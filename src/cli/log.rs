//! Where the log goes, in which form, and that it stays bounded.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// Filter of the log, as `tracing-subscriber` reads it: `info`, `tierfs=debug`, ..
pub const FILTER_VARIABLE: &str = "TIERFS_LOG";

/// A log file that reaches this size becomes `<name>.1`, and what was there before goes.
const FILE_MAX: u64 = 64 << 20;

/// Where the log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sink {
    /// Standard error: in the foreground, and for commands.
    Stderr,
    /// A file.
    File(PathBuf),
}

/// In which form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// For people.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

impl Form {
    /// As on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// Starts the log of this process; `level` counts where the variable is not set.
///
/// # Errors
/// If the file can't be opened, with its name.
pub fn start(sink: &Sink, form: Form, level: &str) -> io::Result<()> {
    let wanted = std::env::var(FILTER_VARIABLE).ok().filter(|text| !text.is_empty());
    let text = wanted.as_deref().unwrap_or(level);
    let (filter, problem) = match EnvFilter::try_new(text) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new(level), Some(error)),
    };
    let (writer, colour) = match sink {
        Sink::Stderr => (BoxMakeWriter::new(io::stderr), io::IsTerminal::is_terminal(&io::stderr())),
        Sink::File(path) => (BoxMakeWriter::new(Mutex::new(Bounded::open(path)?)), false),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(colour);
    // A second start in one process (tests) keeps the first.
    let started = match form {
        Form::Text => builder.with_target(false).try_init(),
        Form::Json => builder.json().try_init(),
    };
    if let Err(error) = started {
        tracing::debug!(%error, "the log was started before");
    }
    if let Some(problem) = problem {
        tracing::warn!(%problem, "{FILTER_VARIABLE} is not understood; logging at {level}");
    }
    Ok(())
}

/// Where a daemon in the background logs: `/var/log/tierfs` for root, the user's state directory else.
#[must_use]
pub fn default_file(name: &str) -> PathBuf {
    directory().join(format!("{name}.log"))
}

fn directory() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return "/var/log/tierfs".into();
    }
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    state.or_else(home).unwrap_or_else(std::env::temp_dir).join("tierfs")
}

/// A file that is appended to and turned over when it grows too long.
struct Bounded {
    path: PathBuf,
    file: File,
    size: u64,
    max: u64,
}

impl Bounded {
    fn open(path: &Path) -> io::Result<Self> {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("log file {}: {error}", path.display()));
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(named)?;
        }
        let file = append_to(path).map_err(named)?;
        let size = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, size, max: FILE_MAX })
    }

    fn turn_over(&mut self) -> io::Result<()> {
        let mut old = self.path.clone().into_os_string();
        old.push(".1");
        fs::rename(&self.path, old)?;
        self.file = append_to(&self.path)?;
        self.size = 0;
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o640).open(path)
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A file nobody can rename (/dev/stderr, a foreign directory) is written on as it is.
        if self.size >= self.max && self.turn_over().is_err() {
            self.size = 0;
        }
        let written = self.file.write(bytes)?;
        self.size = self.size.saturating_add(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_turned_over() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("deep/er/x.log");
        let mut log = Bounded::open(&path).unwrap();
        log.max = 10;
        for line in ["first one\n", "second one\n", "third one\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "third one\n");
        assert_eq!(fs::read_to_string(dir.path().join("deep/er/x.log.1")).unwrap(), "second one\n");
    }

    #[test]
    fn a_log_is_appended_to() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("x.log");
        for _ in 0..2 {
            Bounded::open(&path).unwrap().write_all(b"line\n").unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "line\nline\n");
        assert_eq!(Bounded::open(&path).unwrap().size, 10);
    }

    #[test]
    fn a_log_that_cannot_be_says_which() {
        let error = Bounded::open(Path::new("/proc/nothing/x.log")).err().unwrap();
        assert!(error.to_string().contains("/proc/nothing/x.log"), "{error}");
    }
}
