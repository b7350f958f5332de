//! The lines on the control socket. Version 1.
//!
//! A request is one line, `{"v":1,"id":7,"call":"flush","paths":["a"]}`; the answer is any number
//! of `{"v":1,"id":7,"progress":{..}}` (at least one a second while it lasts: silence means a
//! daemon in trouble), then one `{"v":1,"id":7,"ok":..}` or `{"v":1,"id":7,"error":{..}}`.
//! Unknown fields are ignored, so either side may be newer; an unknown call is an error.

use crate::error::{Error, Kind};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

mod bytes;
mod pins;
mod plan;
mod queue;

pub use pins::{Evicted, PinPage, PinRow, Pinned, STAYS_MAX, Stays, Why};
pub use plan::{ColdPlan, HotPlan, Leaving, OverflowPlan, Plan, Unused};
pub use queue::{QueuePage, QueueQuery, QueueRow, QueueState, QueueWhat, Retried};

/// The version this code speaks.
pub const VERSION: u32 = 1;

/// No request line is longer.
pub const REQUEST_MAX: usize = 1 << 20;

/// No answer line is longer.
pub const ANSWER_MAX: usize = 16 << 20;

/// Most rows of a page of a listing.
pub const PAGE_MAX: u32 = 1000;

/// A path relative to the mount's root: any bytes. In JSON a string, or `{"base64":".."}` if it is not UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WirePath(pub Vec<u8>);

impl WirePath {
    /// As a path.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }
}

impl From<&Path> for WirePath {
    fn from(path: &Path) -> Self {
        Self(path.as_os_str().as_bytes().to_vec())
    }
}

impl std::fmt::Display for WirePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

/// One question.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// Protocol version of the asker.
    pub v: u32,
    /// Comes back in every line of the answer.
    pub id: u64,
    /// What is asked.
    #[serde(flatten)]
    pub call: Call,
}

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
pub enum Call {
    /// Who is there? Answers [`Hello`].
    Hello,
    /// All facts. Answers [`crate::control::status::Status`].
    Status,
    /// Commit what is dirty at or below `paths` (empty: everywhere). Answers [`Drained`].
    Flush {
        /// Relative to the mount's root.
        #[serde(default)]
        paths: Vec<WirePath>,
        /// Give up waiting after this long.
        #[serde(default)]
        timeout_ms: Option<u64>,
    },
    /// What is dirty at or below `paths` (empty: everywhere)? Changes nothing. Answers [`Drained`].
    Pending {
        /// Relative to the mount's root.
        #[serde(default)]
        paths: Vec<WirePath>,
    },
    /// Have what is at or below `paths` (empty: everywhere) near and readable. Answers [`Warmed`].
    Warm {
        /// Relative to the mount's root.
        #[serde(default)]
        paths: Vec<WirePath>,
        /// Stop after this long.
        #[serde(default)]
        timeout_ms: Option<u64>,
    },
    /// Drop the hot copies of what is at or below `paths`. Answers [`Evicted`].
    Evict {
        /// Relative to the mount's root.
        paths: Vec<WirePath>,
        /// Only say what would come of it.
        #[serde(default)]
        check: bool,
    },
    /// Keep `paths`, and what is below, near. Answers [`Pinned`].
    Pin {
        /// Relative to the mount's root.
        paths: Vec<WirePath>,
        /// Until then, in nanoseconds since 1970; none: for ever.
        #[serde(default)]
        until_ns: Option<i64>,
    },
    /// No longer keep them near. Answers [`Pinned`].
    Unpin {
        /// Relative to the mount's root.
        paths: Vec<WirePath>,
    },
    /// What is pinned? Answers [`PinPage`].
    Pins {
        /// `next` of the page before.
        #[serde(default)]
        after: u64,
    },
    /// Commit everything before an unmount. Answers [`Drained`].
    Drain {
        /// Give up waiting after this long.
        #[serde(default)]
        timeout_ms: Option<u64>,
    },
    /// Unmount yourself. Answers `null`.
    Unmount,
    /// Wait until the mount is gone and drained. Answers [`Drained`].
    Ended,
    /// Where are the bytes of this file? Answers [`NativePath`].
    Path {
        /// Relative to the mount's root.
        path: WirePath,
    },
    /// Read the config again and use it. Answers [`Reloaded`].
    Reload,
    /// What is in this directory? Answers [`ListPage`].
    List(ListQuery),
    /// This tier was wiped: take what is at its path now for it. Answers [`TierAccepted`].
    AcceptTier {
        /// Its name in the config.
        name: String,
        /// On which file system it may be.
        #[serde(default)]
        file_system: FileSystem,
    },
    /// Which files were lost with a tier? Answers [`LostPage`].
    Lost {
        /// `id` of the last one known.
        #[serde(default)]
        after: u64,
    },
    /// The list of lost files has been seen up to this `id`. Answers how many were forgotten.
    ForgetLost {
        /// The last one seen.
        up_to: u64,
    },
    /// What still has to reach home? Answers [`QueuePage`].
    Queue(QueueQuery),
    /// What would the mover do now? Changes nothing. Answers [`Plan`].
    Plan,
    /// Try the failed steps of what is at or below this path again now. Answers [`Retried`].
    Retry {
        /// Relative to the mount's root; may be gone.
        path: WirePath,
    },
}

impl Call {
    /// Every `call` this version knows.
    pub const NAMES: [&str; 21] = [
        "hello",
        "status",
        "flush",
        "pending",
        "warm",
        "evict",
        "pin",
        "unpin",
        "pins",
        "drain",
        "unmount",
        "ended",
        "path",
        "reload",
        "list",
        "accept_tier",
        "lost",
        "forget_lost",
        "queue",
        "plan",
        "retry",
    ];
}

/// One line of an answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// Protocol version of the answerer.
    pub v: u32,
    /// Of the request.
    pub id: u64,
    /// What it says.
    #[serde(flatten)]
    pub body: AnswerBody,
}

/// What a line of an answer says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerBody {
    /// Still at it.
    Progress(Progress),
    /// Done.
    Ok(serde_json::Value),
    /// Failed.
    Error(WireError),
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireError {
    /// For programs.
    pub code: ErrorCode,
    /// For people: one line.
    pub message: String,
}

/// Why a call failed, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The request makes no sense.
    Invalid,
    /// This daemon does not know the call.
    UnknownCall,
    /// The path is not there.
    NotFound,
    /// No copy is resident.
    NotResident,
    /// In use.
    Busy,
    /// Not allowed.
    Denied,
    /// Too many connections.
    Limit,
    /// Anything else, also what a newer daemon says.
    #[serde(other)]
    Failed,
}

impl From<&Error> for WireError {
    fn from(error: &Error) -> Self {
        let code = match error.kind() {
            Kind::NotFound => ErrorCode::NotFound,
            Kind::NoAttribute => ErrorCode::NotResident,
            Kind::Busy => ErrorCode::Busy,
            Kind::Denied | Kind::NotPermitted => ErrorCode::Denied,
            Kind::Invalid | Kind::NotDirectory | Kind::NameTooLong => ErrorCode::Invalid,
            _ => ErrorCode::Failed,
        };
        Self { code, message: error.to_string() }
    }
}

/// What a daemon is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Recovering; the mount point answers soon.
    Starting,
    /// Mounted.
    Serving,
    /// Unmounted, and committing what is left.
    Draining,
}

/// Who answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Process id of the daemon.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// Where it is mounted.
    pub mountpoint: WirePath,
    /// What it is doing.
    pub phase: Phase,
}

/// How far a long call is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Files done since the call.
    pub files_done: u64,
    /// Files still to do.
    pub files_left: u64,
    /// Bytes that were moved since the call.
    pub bytes_done: u64,
    /// Bytes still to move.
    pub bytes_left: u64,
    /// What keeps it and is tried again, if anything does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
}

/// How a drain or flush ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drained {
    /// Files committed.
    pub files_done: u64,
    /// Bytes committed.
    pub bytes_done: u64,
    /// Files that are still dirty: kept on the stage.
    pub files_left: u64,
    /// Bytes that are still dirty.
    pub bytes_left: u64,
    /// Of those left: open for writing, or never closed.
    #[serde(default)]
    pub open_left: u64,
    /// Of those left: refused for good, a person is needed.
    #[serde(default)]
    pub blocked_left: u64,
    /// Whether the time was over before the rest could go on.
    #[serde(default)]
    pub timed_out: bool,
    /// Why they are left: the first reason, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Drained {
    /// Whether nothing is left.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.files_left == 0 && self.bytes_left == 0
    }
}

/// How a `warm` ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warmed {
    /// Files whose hot copy was made.
    pub fetched_files: u64,
    /// Their bytes.
    pub fetched_bytes: u64,
    /// Files that were near already.
    #[serde(default)]
    pub near_files: u64,
    /// Files that can be read from afar, and whose rule has no place for a hot copy.
    #[serde(default)]
    pub far_files: u64,
    /// Archived files that are on their way back now.
    #[serde(default)]
    pub rehydrating_files: u64,
    /// Their bytes.
    #[serde(default)]
    pub rehydrating_bytes: u64,
    /// Files that could not be fetched, and directories that could not be looked through.
    #[serde(default)]
    pub failed_files: u64,
    /// Files that were not reached in time, as far as they are known.
    #[serde(default)]
    pub files_left: u64,
    /// Their bytes.
    #[serde(default)]
    pub bytes_left: u64,
    /// Whether the time was over first.
    #[serde(default)]
    pub timed_out: bool,
    /// Why something failed: the first reason, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Warmed {
    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress {
            files_done: self.fetched_files + self.near_files + self.far_files + self.rehydrating_files,
            files_left: self.files_left,
            bytes_done: self.fetched_bytes,
            bytes_left: self.bytes_left,
            waiting_for: None,
        }
    }
}

/// Where the bytes of a file are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NativePath {
    /// Name of the tier.
    pub tier: String,
    /// Absolute path on this machine.
    pub path: WirePath,
}

/// What reading the config again came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// Keys whose new values are used now.
    #[serde(default)]
    pub changed: Vec<String>,
    /// Keys whose new values need a new mount.
    #[serde(default)]
    pub at_mount: Vec<String>,
    /// Whether files have another home now, and move there in the background.
    #[serde(default)]
    pub moves: bool,
    /// What the check of the config warns of.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// On which file system an accepted tier may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileSystem {
    /// Of the type it always was.
    #[default]
    AsKnown,
    /// Any.
    Any,
}

/// What accepting a tier cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierAccepted {
    /// Names of files that are gone.
    pub lost: u64,
    /// Keys that were looked for and found.
    pub found: u64,
    /// The lost files are those after this `id` of the list.
    pub listed_after: u64,
}

/// A part of the list of lost files, oldest loss first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostPage {
    /// The files; none after the end.
    pub files: Vec<LostRow>,
}

/// A file whose newest bytes went with a tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostRow {
    /// Position in the list.
    pub id: u64,
    /// Where it was, relative to the mount's root.
    pub path: WirePath,
    /// The tier that was wiped.
    pub tier: String,
    /// Bytes of the lost content.
    pub size: u64,
    /// Its modification time, nanoseconds since 1970.
    pub mtime_ns: i64,
    /// When the loss was written down, nanoseconds since 1970.
    pub lost_at_ns: i64,
    /// What of it is lost.
    pub bytes: LostBytes,
}

/// What of a file is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LostBytes {
    /// All there was.
    All,
    /// Its newest content; home has an older one.
    Newest,
}

/// Which page of which directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListQuery {
    /// Relative to the mount's root.
    pub path: WirePath,
    /// `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Most rows wanted, at most [`PAGE_MAX`].
    pub limit: u32,
}

/// Rows of a listing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListPage {
    /// In the directory's order.
    pub rows: Vec<Row>,
    /// Where the next page starts; none after the last. Opaque.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// One name, and where its bytes are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Relative to the mount's root.
    pub path: WirePath,
    /// What it is.
    pub kind: RowKind,
    /// Bytes.
    pub size: u64,
    /// Modification time, nanoseconds since 1970.
    pub mtime_ns: i64,
    /// How far its newest bytes are.
    pub state: RowState,
    /// The tiers that hold its newest bytes.
    pub held: Vec<Held>,
    /// Decayed accesses a day; none where nobody counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heat: Option<f64>,
}

/// What a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A fifo, socket or device.
    Special,
}

/// How far the newest bytes of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowState {
    /// A person is needed.
    Blocked,
    /// Open for writing, or never closed.
    Writing,
    /// On its way home now.
    Moving,
    /// Closed; waits for its turn.
    Dirty,
    /// At home.
    Clean,
}

impl RowState {
    /// In one word, as in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Writing => "writing",
            Self::Moving => "moving",
            Self::Dirty => "dirty",
            Self::Clean => "clean",
        }
    }

    /// From its word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Blocked, Self::Writing, Self::Moving, Self::Dirty, Self::Clean]
            .into_iter()
            .find(|state| state.word() == word)
    }
}

/// A tier that holds the newest bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Name of the tier.
    pub tier: String,
    /// What the copy is.
    pub role: Role,
}

/// What a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The durable copy.
    Home,
    /// The only copy so far, on its way home.
    Stage,
    /// An extra copy.
    Hot,
}

#[cfg(test)]
mod tests;
