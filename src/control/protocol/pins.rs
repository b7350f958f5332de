//! Hot copies that a person wants gone or kept, on the wire.

use super::WirePath;
use serde::{Deserialize, Serialize};

/// Most files that stay are named one by one.
pub const STAYS_MAX: usize = 1000;

/// What an `evict` came to, or would come to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evicted {
    /// Files whose hot copies are gone.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files whose hot copies stay.
    #[serde(default)]
    pub stay_files: u64,
    /// The first of them.
    #[serde(default)]
    pub stays: Vec<Stays>,
    /// Files and directories that could not be looked at.
    #[serde(default)]
    pub failed: u64,
    /// Why: the first reason, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A file whose hot copies stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stays {
    /// Relative to the mount's root.
    pub path: WirePath,
    /// Why.
    pub why: Why,
}

/// Why a hot copy stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The newest bytes are not at home yet.
    Dirty,
    /// It is open.
    Open,
    /// It is pinned.
    Pinned,
}

/// What pinning or unpinning came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    /// Pins that were made or taken away.
    pub pins: u64,
    /// Of what was unpinned, what a directory above keeps pinned: its path, and the directory's.
    #[serde(default)]
    pub still: Vec<(WirePath, WirePath)>,
}

/// A part of the list of pins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinPage {
    /// The pins.
    pub rows: Vec<PinRow>,
    /// Where the next page begins; none after the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// One pin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinRow {
    /// Relative to the mount's root.
    pub path: WirePath,
    /// When it ends, nanoseconds since 1970; none: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ns: Option<i64>,
}
