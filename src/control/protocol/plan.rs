//! What the mover would do now, on the wire.

use super::WirePath;
use serde::{Deserialize, Serialize};

/// What the mover would do now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Steps that bring homes in line: see `queue` for each.
    pub steps: u64,
    /// Bytes that go home with them.
    pub bytes: u64,
    /// Hot copies, by tier.
    #[serde(default)]
    pub hot: Vec<HotPlan>,
    /// Files that nobody uses, and those that come back.
    #[serde(default)]
    pub cold: ColdPlan,
    /// Files that are elsewhere because their homes were too full.
    #[serde(default)]
    pub overflow: OverflowPlan,
}

/// Files that are elsewhere because their homes were too full.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OverflowPlan {
    /// Homes that are too full for new files now.
    pub full: Vec<String>,
    /// How many files wait for room at home.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Files that would go to cold tiers now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ColdPlan {
    /// How many go now.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many are on their way home, because they were used, or home has room for them again.
    pub returning: u64,
    /// The first of those that go.
    #[serde(default)]
    pub first: Vec<Unused>,
}

/// A file that nobody has used for long.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Unused {
    /// Its path.
    pub path: WirePath,
    /// Its bytes.
    pub bytes: u64,
    /// Where it goes.
    pub tier: String,
    /// For how many seconds nobody has used it.
    pub idle_s: u64,
}

/// What would become of hot copies on one tier.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HotPlan {
    /// The tier.
    pub tier: String,
    /// Bytes that may be used there.
    pub capacity: u64,
    /// Of them, left for copies; below zero: above the high water.
    pub left: i64,
    /// Bytes of copies.
    pub copies: u64,
    /// Bytes of copies that are dropped now.
    pub too_much: u64,
    /// The copies that would leave next.
    #[serde(default)]
    pub leaving: Vec<Leaving>,
}

/// A copy that is among the next to leave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Leaving {
    /// Its file; none if that was not opened through this mount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<WirePath>,
    /// Where it is on the tier.
    pub key: WirePath,
    /// Its bytes.
    pub bytes: u64,
    /// Opens a day of its file.
    pub per_day: f64,
}
