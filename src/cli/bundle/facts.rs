//! The facts of a bundle, each a text; what can't be had says why.

use super::redact::is_secret;
use crate::cli::log;
use crate::config::{Config, Problems};
use crate::control::client::Client;
use crate::control::protocol::{PAGE_MAX, QueueQuery};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Command, Stdio};

/// Of a log the last so many bytes.
const LOG_MAX: u64 = 4 << 20;

/// What is read of this machine as it is.
const FILES: [(&str, &str); 7] = [
    ("mountinfo", "/proc/self/mountinfo"),
    ("process-status", "/proc/self/status"),
    ("limits", "/proc/self/limits"),
    ("memory", "/proc/meminfo"),
    ("file-systems", "/proc/filesystems"),
    ("os-release", "/etc/os-release"),
    ("fuse.conf", "/etc/fuse.conf"),
];

/// Hands over everything, a name and a text each.
///
/// # Errors
/// Those of `add`.
pub fn collect(
    file: &Path,
    config: Result<&Config, &Problems>,
    log: Option<&Path>,
    add: &mut dyn FnMut(&str, String) -> io::Result<()>,
) -> io::Result<()> {
    add("version", format!("tierfs {}\n", env!("CARGO_PKG_VERSION")))?;
    add("kernel", kernel())?;
    for (name, path) in FILES {
        add(name, std::fs::read_to_string(path).unwrap_or_else(|error| format!("{path}: {error}\n")))?;
    }
    add("environment", environment())?;
    add(
        "config.toml",
        std::fs::read_to_string(file).unwrap_or_else(|error| format!("{}: {error}\n", file.display())),
    )?;
    match config {
        Err(problems) => add("config-problems", format!("{problems}\n"))?,
        Ok(config) => {
            add("config-in-force.toml", config.show().to_string())?;
            of_mount(config, add)?;
        }
    }
    add("check", check(file))?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    add("log", tail(&log.map_or_else(|| log::default_file(&name), Path::to_owned)))?;
    add("journal", journal(&name))
}

fn kernel() -> String {
    let system = rustix::system::uname();
    let parts = [system.sysname(), system.release(), system.version(), system.machine()];
    parts.map(|part| part.to_string_lossy().into_owned()).join(" ") + "\n"
}

/// Names that decide something here; of secrets nothing but that they are there.
fn environment() -> String {
    let mut text = String::new();
    for (name, value) in std::env::vars() {
        let matters = name.starts_with("AZURE_") || name.starts_with("TIERFS_") || is_secret(&name);
        if matters || ["http_proxy", "https_proxy", "no_proxy"].contains(&name.to_lowercase().as_str()) {
            let value = if is_secret(&name) { "is set" } else { &value };
            // Writing to a String can't fail.
            let _ = writeln!(text, "{name}: {value}");
        }
    }
    text
}

fn of_mount(config: &Config, add: &mut dyn FnMut(&str, String) -> io::Result<()>) -> io::Result<()> {
    let mut client = match Client::connect(&config.mount.control) {
        Ok(client) => client,
        Err(error) => return add("status", format!("{error}\n")),
    };
    let status = match client.status() {
        Ok(status) => serde_json::to_string_pretty(&status)? + "\n",
        Err(error) => format!("{error}\n"),
    };
    add("status", status)?;
    let queue = match client.queue(QueueQuery { after: 0, limit: PAGE_MAX }) {
        Ok(page) => serde_json::to_string_pretty(&page)? + "\n",
        Err(error) => format!("{error}\n"),
    };
    add("queue", queue)
}

/// As a command of its own: it may hang on a tier, and then says so.
fn check(file: &Path) -> String {
    let run = |program| Command::new(program).arg("check").arg(file).stdin(Stdio::null()).output();
    match std::env::current_exe().and_then(run) {
        Ok(output) => {
            let (out, err) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            format!("{out}{err}{}\n", output.status)
        }
        Err(error) => format!("{error}\n"),
    }
}

/// What the unit of this config said last, where there is a journal.
fn journal(name: &str) -> String {
    let unit = format!("tierfs@{name}.service");
    let mut journal = Command::new("journalctl");
    match journal.args(["--no-pager", "--lines=5000", "--unit", &unit]).stdin(Stdio::null()).output() {
        Ok(output) => {
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
        }
        Err(error) => format!("journalctl: {error}\n"),
    }
}

fn tail(path: &Path) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_MAX)))?;
        let mut bytes = Vec::new();
        file.take(LOG_MAX).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().unwrap_or_else(|error| format!("{}: {error}\n", path.display()))
}
