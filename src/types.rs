//! The words every module shares: ids, keys, kinds, attributes. Knows std only.

mod attr;
mod awaited;
pub mod blob;
mod key;

pub use attr::{Attr, AttrChange, Attrs, FileKind, Ids, TimeChange, Timestamp, Whereabouts};
pub use awaited::Awaited;
pub use key::{Key, KeyError, name_is_valid};

use std::fmt;

/// FUSE inode number and primary key of the catalog's `inode` table; stable for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Ino(pub u64);

impl Ino {
    /// The mount's root directory (FUSE_ROOT_ID).
    pub const ROOT: Self = Self(1);
}

impl fmt::Display for Ino {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Counts the contents an inode has had; every write-open that may change bytes starts a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Generation(pub u64);

impl Generation {
    /// The generation after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The one before it; of the first, none, which is 0.
    #[must_use]
    pub fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

/// Place in the order in which closes, renames and deletes happened in one mount.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct Seq(pub u64);

/// A tier's row in the catalog; small, stable for the life of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct TierId(pub u32);

/// What a tier says of one copy: an ETag, or inode, size, mtime and ctime of a native file.
///
/// Compared for equality only; nobody but the tier that made it looks inside.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Version(pub Box<[u8]>);

impl Version {
    /// A version from its bytes.
    pub fn new(bytes: impl AsRef<[u8]>) -> Self {
        Self(bytes.as_ref().into())
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({})", self.0.escape_ascii())
    }
}

/// What a write, delete or copy expects to find under its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Anything, or nothing.
    Always,
    /// Nothing (`If-None-Match: *`).
    Absent,
    /// This version (`If-Match`).
    Matches(Version),
}

/// Something the kernel may have cached and must forget. Sent to one notifier thread, never awaited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invalidation {
    /// A name that now means something else or nothing.
    Entry {
        /// In which directory.
        parent: Ino,
        /// Which name.
        name: Vec<u8>,
    },
    /// Attributes and cached bytes of an inode.
    Inode(Ino),
}
