//! The facts of a mount: what `tierstat` shows and `user.tierfs.status` holds.
//!
//! `schema` grows when a field changes its meaning or goes; new fields may come at any time.

use crate::control::protocol::{Phase, WirePath};
use serde::{Deserialize, Serialize};

mod health;

pub use health::{Health, Level, Reason};

/// The schema this code writes.
pub const SCHEMA: u32 = 1;

/// A piece of JSON with the schema it is of, as every program here prints it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Versioned<'a, T> {
    schema: u32,
    #[serde(flatten)]
    what: &'a T,
}

impl<'a, T: Serialize> Versioned<'a, T> {
    /// `what`, an object, of [`SCHEMA`].
    pub fn new(what: &'a T) -> Self {
        Self { schema: SCHEMA, what }
    }

    /// As one line.
    ///
    /// # Errors
    /// If it is no object.
    pub fn line(&self) -> std::io::Result<String> {
        Ok(serde_json::to_string(self)?)
    }
}

/// Most entries of [`Status::blocked`].
pub const BLOCKED_MAX: usize = 100;

/// The kernel's own limit for an extended attribute.
const XATTR_MAX: usize = 64 << 10;

/// All facts of one mount at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What [`Status::health`] says, most urgent first; empty is good. Filled by [`Status::with_attention`].
    #[serde(default)]
    pub attention: Vec<String>,
    /// Where it is mounted.
    pub mountpoint: WirePath,
    /// Its config file.
    pub config: WirePath,
    /// Process id of the daemon.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// What it is doing.
    pub phase: Phase,
    /// How bytes of resident files travel.
    pub mode: IoMode,
    /// Why that mode.
    pub mode_reason: String,
    /// Seconds since the mount.
    pub uptime_s: u64,
    /// In the order of the config.
    pub tiers: Vec<TierStatus>,
    /// What is not home yet.
    pub dirty: Dirty,
    /// Steps the mover still has to do.
    pub queue: Queue,
    /// Files that need a person, at most [`BLOCKED_MAX`].
    #[serde(default)]
    pub blocked: Vec<Blocked>,
    /// All of them.
    #[serde(default)]
    pub blocked_files: u64,
    /// The step that fails for the longest time and is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing: Option<Failing>,
    /// Opens for writing that wait for room.
    #[serde(default)]
    pub waiting: Vec<WaitingOpens>,
    /// Rules with more dirty bytes than they allow, of which none can be committed.
    #[serde(default)]
    pub over: Vec<OverLimit>,
    /// Homes that are too full for new files, which go to the `overflow` of their rules.
    #[serde(default)]
    pub overflowing: Vec<String>,
    /// Conflict copies made since the mount.
    #[serde(default)]
    pub conflicts: u64,
    /// Of those: still there under the name they were given, so nobody has dealt with them.
    #[serde(default)]
    pub conflicts_left: u64,
    /// Names that a name of the home tier hides.
    #[serde(default)]
    pub shadowed: u64,
    /// Names on tiers that can't be shown.
    #[serde(default)]
    pub hidden: u64,
    /// Files whose bytes a wiped tier took along.
    #[serde(default)]
    pub lost: u64,
    /// Where the first of them were, at most [`BLOCKED_MAX`].
    #[serde(default)]
    pub lost_paths: Vec<WirePath>,
    /// The last error that was not only a program's own doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
    /// Where reads of files with a non-resident home came from.
    #[serde(default)]
    pub reads: Reads,
    /// What was moved since the mount.
    #[serde(default)]
    pub moves: Moves,
    /// Address of `/metrics` and `/healthz`; none if they are off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
}

impl Status {
    /// From the JSON of a daemon that may be of another version.
    ///
    /// # Errors
    /// What is to be done, if this code does not understand it.
    pub fn from_json(value: serde_json::Value) -> Result<Self, String> {
        match value.get("schema").and_then(serde_json::Value::as_u64) {
            Some(schema) if schema == u64::from(SCHEMA) => {
                serde_json::from_value(value).map_err(|error| format!("its status makes no sense: {error}"))
            }
            Some(schema) if schema > u64::from(SCHEMA) => Err(format!(
                "the daemon is newer than this program (status schema {schema}, known here is {SCHEMA}): update this program"
            )),
            Some(schema) => Err(format!(
                "the daemon is older than this program (status schema {schema}, needed here is {SCHEMA}): unmount and mount again \
                 to run the new one"
            )),
            None => Err("its status names no schema".to_owned()),
        }
    }

    /// As JSON that fits into an extended attribute: with fewer entries of [`Status::blocked`] and [`Status::lost_paths`] if need be.
    #[must_use]
    pub fn to_xattr(&self) -> Vec<u8> {
        let mut fitting = self.clone();
        loop {
            // Strings, numbers and lists always make JSON.
            let json = serde_json::to_vec(&fitting).unwrap_or_default();
            if json.len() <= XATTR_MAX || fitting.blocked.is_empty() && fitting.lost_paths.is_empty() {
                return json;
            }
            fitting.blocked.truncate(fitting.blocked.len() / 2);
            fitting.lost_paths.truncate(fitting.lost_paths.len() / 2);
        }
    }
}

/// How bytes of resident files travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoMode {
    /// The kernel reads and writes the native file itself.
    Passthrough,
    /// Through the daemon.
    Ordinary,
}

/// One tier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TierStatus {
    /// Its name in the config.
    pub name: String,
    /// `lustre`, `azure-files`, `blob` or `local`.
    pub kind: String,
    /// Path or URL, without secrets.
    pub location: String,
    /// Whether it answers.
    pub state: TierState,
    /// Why it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Bytes that may be stored; none where there is no limit.
    #[serde(default)]
    pub capacity: Option<u64>,
    /// Bytes in use; none where nobody knows.
    #[serde(default)]
    pub used: Option<u64>,
    /// Bytes free for us.
    #[serde(default)]
    pub free: Option<u64>,
    /// Files the catalog knows here.
    #[serde(default)]
    pub files: u64,
    /// Bytes of them.
    #[serde(default)]
    pub bytes: u64,
    /// Bytes of hot copies.
    #[serde(default)]
    pub hot_bytes: u64,
    /// Bytes of staged files.
    #[serde(default)]
    pub staged_bytes: u64,
    /// Bytes that wait to be committed to this tier.
    #[serde(default)]
    pub dirty_bytes: u64,
    /// Calls to the tier since the mount.
    #[serde(default)]
    pub requests: u64,
    /// Of them failed, retries included.
    #[serde(default)]
    pub errors: u64,
    /// Bytes read since the mount.
    #[serde(default)]
    pub bytes_read: u64,
    /// Bytes written since the mount.
    #[serde(default)]
    pub bytes_written: u64,
    /// What a GiB costs there in a month, in millionths of a dollar.
    #[serde(default)]
    pub price_micros: u64,
}

/// Whether a tier answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TierState {
    /// It does.
    Ok,
    /// It does not, or not always.
    Sick,
    /// Its root is not the one known.
    Absent,
}

/// What is not home yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dirty {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of the files: open for writing, or never closed.
    #[serde(default)]
    pub open_files: u64,
    /// Seconds since the oldest close that is not committed.
    #[serde(default)]
    pub oldest_age_s: Option<u64>,
}

/// Steps the mover still has to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// All of them.
    pub length: u64,
    /// Being done now.
    #[serde(default)]
    pub running: u64,
    /// Failed and waiting to be tried again.
    #[serde(default)]
    pub retrying: u64,
}

/// A file that needs a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// Relative to the mount's root.
    pub path: WirePath,
    /// What the tier said.
    pub reason: String,
}

/// A step that fails and is tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failing {
    /// What it is about: a path, relative to the mount's root, or a delete.
    pub about: String,
    /// What the last try said.
    pub error: String,
    /// Seconds since its first failure.
    pub since_s: u64,
}

/// Opens for writing that wait for the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingOpens {
    /// What for: `dirty_max` of a rule, or a full stage.
    pub why: String,
    /// How many.
    pub opens: u64,
    /// Seconds since the first of them began to wait.
    pub since_s: u64,
}

/// A rule whose limit of dirty bytes does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverLimit {
    /// The rule's pattern.
    pub rule: String,
    /// Bytes that are not at home.
    pub dirty: u64,
    /// `dirty_max`.
    pub limit: u64,
}

/// The last error worth knowing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastError {
    /// Seconds since 1970.
    pub at_s: u64,
    /// One line.
    pub message: String,
}

/// What was moved since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moves {
    /// Files committed at home.
    pub committed_files: u64,
    /// Their bytes.
    pub committed_bytes: u64,
    /// Hot copies that became whole.
    #[serde(default)]
    pub hot_copies: u64,
    /// Keys deleted on tiers.
    #[serde(default)]
    pub deleted_keys: u64,
}

/// Where reads of files with a non-resident home came from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reads {
    /// Opens served by a hot or staged copy.
    pub hits: u64,
    /// Opens that went to the home tier.
    pub misses: u64,
    /// Bytes out of the block cache.
    #[serde(default)]
    pub cache_bytes: u64,
    /// Bytes fetched from the home tier.
    #[serde(default)]
    pub fetched_bytes: u64,
}

impl Reads {
    /// Share of opens that a hot or staged copy served, 0 to 1; none before the first open.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    pub fn hit_ratio(&self) -> Option<f64> {
        let all = self.hits.saturating_add(self.misses);
        (all > 0).then(|| self.hits as f64 / all as f64)
    }
}
