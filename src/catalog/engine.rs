//! The SQL engine under the verbs: a thin driver.

use std::path::PathBuf;

/// Where a catalog lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// Nowhere: forgotten at unmount (tests, read-only mounts).
    Memory,
}
