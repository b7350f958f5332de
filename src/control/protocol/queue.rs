//! What still has to reach home, on the wire.

use super::WirePath;
use serde::{Deserialize, Serialize};

/// Steps after `after`, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueQuery {
    /// `next` of the page before.
    #[serde(default)]
    pub after: u64,
    /// At most so many; see [`super::PAGE_MAX`].
    #[serde(default)]
    pub limit: u32,
}

/// A part of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuePage {
    /// The steps, oldest first.
    pub rows: Vec<QueueRow>,
    /// Where the next page begins; none after the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// One step of the mover.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRow {
    /// Its place in the order.
    pub seq: u64,
    /// Its order domain: steps of one domain keep their order, as far as their rule says.
    pub domain: String,
    /// What is to be done.
    pub what: QueueWhat,
    /// With what, relative to the mount's root.
    pub path: WirePath,
    /// Bytes that are not at home yet.
    #[serde(default)]
    pub bytes: u64,
    /// Seconds since it was queued.
    pub age_s: u64,
    /// How far it is.
    pub state: QueueState,
    /// What the last try said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Seconds until it goes on by itself, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_s: Option<u64>,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueWhat {
    /// New content of a file.
    Write,
    /// Names or attributes.
    Update,
    /// A directory and where it is.
    Directory,
    /// A key at home goes.
    Delete,
    /// What a newer daemon does.
    #[serde(other)]
    Other,
}

impl QueueWhat {
    /// In one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Update => "update",
            Self::Directory => "dir",
            Self::Delete => "delete",
            Self::Other => "other",
        }
    }
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueState {
    /// Refused for good: a person is needed.
    Blocked,
    /// Failed, and tried again later.
    Retrying,
    /// The file is open for writing, or was never closed.
    Open,
    /// Being done now.
    Uploading,
    /// Nothing is committed under its name: it waits for another.
    Held,
    /// Waits for renames, rewrites and deletes that would make it needless.
    Settling,
    /// Waits for its turn.
    Waiting,
    /// What a newer daemon says.
    #[serde(other)]
    Other,
}

impl QueueState {
    /// In one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Retrying => "retrying",
            Self::Open => "open",
            Self::Held => "held",
            Self::Uploading => "uploading",
            Self::Settling => "settling",
            Self::Waiting => "waiting",
            Self::Other => "other",
        }
    }
}

/// What a retry found to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retried {
    /// Steps that are tried again now.
    pub steps: u64,
    /// Steps that had not failed: they go on anyway.
    #[serde(default)]
    pub others: u64,
}
