//! `[mount]`

use super::tier;
use super::{absolute_path, some_text};
use crate::config::raw::Section;
use crate::config::report::Findings;
use crate::config::section::{Located, Reader, quoted};
use crate::config::show::{Origin, Shown};
use crate::config::units;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Below this the block cache can't hold what one reader reads ahead.
const MIN_MEMORY: u64 = 64 << 20;

/// `[mount]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountConfig {
    /// The catalog's database.
    pub catalog: Catalog,
    /// The control socket.
    pub control: PathBuf,
    /// Block cache, read-ahead and upload buffers together, in bytes.
    pub memory: u64,
    /// Where metrics and health are served by HTTP; none: nowhere.
    pub metrics: Option<SocketAddr>,
    /// How long unmount waits for dirty data.
    pub drain_timeout: Duration,
    /// Where rules without `stage` or `hot` stage.
    pub stage: Option<String>,
    /// Programs that read without promoting.
    pub sweepers: Vec<String>,
}

/// Where the catalog is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Catalog {
    /// In this SQLite database.
    Sqlite(PathBuf),
    /// In memory: forgotten with the mount.
    Memory,
}

/// What is known of `[mount]` while the rest is checked.
pub(super) struct Draft {
    pub(super) value: MountConfig,
    pub(super) stage: Option<Located<String>>,
    pub(super) shown: Shown,
}

pub(super) fn read(file: &Path, section: Section, tiers: &[tier::Draft], findings: &mut Findings) -> Draft {
    let stem = file.file_stem().map_or_else(|| "tierfs".into(), |stem| stem.to_string_lossy());
    let mut reader = Reader::new(section, findings);
    let default = format!("sqlite:///var/lib/tierfs/{stem}.db");
    let catalog = reader.value_or("catalog", &default, Origin::Default, &catalog).value;
    let default = format!("/run/tierfs/{stem}.sock");
    let control = reader.value_or("control", &default, Origin::Default, &absolute_path).value;
    let metrics = reader.given("metrics", &address).map(|given| given.value);
    let memory = reader.value("memory", &memory).value;
    let drain_timeout = reader.value("drain_timeout", &units::duration).value;
    let stage = reader.given("stage", &some_text).filter(|stage| {
        let wrong = tier::must_be_directory(&stage.value, tiers, "a stage");
        wrong.is_none_or(|wrong| {
            reader.problem(stage.line, format!("stage = \"{}\" {wrong}", stage.value));
            false
        })
    });
    let value = MountConfig {
        catalog,
        control,
        metrics,
        memory,
        drain_timeout,
        stage: stage.as_ref().map(|stage| stage.value.clone()),
        sweepers: read_sweepers(&mut reader),
    };
    Draft { value, stage, shown: reader.finish() }
}

/// Searches, indexers, scanners and backups that are common on Linux.
const SWEEPERS: [&str; 12] = [
    "find",
    "grep",
    "rg",
    "updatedb",
    "tracker-extract",
    "baloo_file",
    "clamscan",
    "clamd",
    "rsync",
    "rclone",
    "restic",
    "borg",
];

fn read_sweepers(reader: &mut Reader<'_>) -> Vec<String> {
    if reader.has("sweepers") {
        return reader.list("sweepers", &some_text).into_iter().map(|given| given.value).collect();
    }
    let shown: Vec<String> = SWEEPERS.iter().map(|name| quoted(name)).collect();
    reader.note("sweepers", format!("[{}]", shown.join(", ")), Origin::Default);
    SWEEPERS.map(str::to_owned).to_vec()
}

fn catalog(text: &str) -> Result<Catalog, String> {
    if text == "memory" {
        return Ok(Catalog::Memory);
    }
    let Some(path) = text.strip_prefix("sqlite://") else {
        return Err(if text.starts_with('/') {
            format!("is a bare path; write \"sqlite://{text}\"")
        } else {
            "is no catalog; write \"sqlite:///path/of/a/file.db\" or \"memory\"".into()
        });
    };
    if path.ends_with('/') {
        return Err("names a directory; write the file, such as \"sqlite:///var/lib/tierfs/train.db\"".into());
    }
    absolute_path(path).map(Catalog::Sqlite).map_err(|wrong| {
        if path.starts_with('/') {
            wrong
        } else {
            format!("is not absolute; write three slashes: \"sqlite:///{path}\"")
        }
    })
}

/// `9123`, `127.0.0.1:9123`, `[::]:9123`: a port alone is this machine's own.
fn address(text: &str) -> Result<SocketAddr, String> {
    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let port = text.strip_prefix("localhost:").or_else(|| text.strip_prefix(':')).unwrap_or(text);
    if let Ok(port) = port.parse() {
        return Ok(SocketAddr::new(LOOPBACK, port));
    }
    text.parse().map_err(|_no_address| {
        "is no address with a port; write \"9123\" or \"127.0.0.1:9123\" for this machine alone, \"0.0.0.0:9123\" for all".into()
    })
}

fn memory(text: &str) -> Result<u64, String> {
    match units::size(text)? {
        bytes if bytes < MIN_MEMORY => Err("is too little to stream with; write at least \"64MiB\"".into()),
        bytes => Ok(bytes),
    }
}
