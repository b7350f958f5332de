//! One byte, one tier: no root may lie inside another, nor the mount in a tier or a tier in the mount.

use super::mount::{Catalog, MountConfig};
use super::tier::{Draft, Storage};
use crate::config::report::Findings;
use crate::types::blob::BlobLocation;
use std::path::Path;

/// How two directories share bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// They are one.
    Same,
    /// The first lies inside the second.
    Inside,
    /// The first holds the second.
    Around,
}

/// Whether two normal absolute paths share bytes, as far as their names tell.
#[must_use]
pub fn overlap(first: &Path, second: &Path) -> Option<Overlap> {
    match (first.starts_with(second), second.starts_with(first)) {
        (true, true) => Some(Overlap::Same),
        (true, false) => Some(Overlap::Inside),
        (false, true) => Some(Overlap::Around),
        (false, false) => None,
    }
}

impl Storage {
    /// The directory, also of a blob tier that one stands for.
    pub(in crate::config) fn root(&self) -> Option<&Path> {
        match self {
            Self::Directory(directory) => Some(&directory.path),
            Self::Blob(blob) => match &blob.location {
                BlobLocation::Directory(path) => Some(path),
                BlobLocation::Azure { .. } => None,
            },
        }
    }

    fn overlap(&self, other: &Self) -> Option<Overlap> {
        if let (Some(first), Some(second)) = (self.root(), other.root()) {
            return overlap(first, second);
        }
        let (Self::Blob(first), Self::Blob(second)) = (self, other) else { return None };
        match (&first.location, &second.location) {
            (
                BlobLocation::Azure { endpoint, container, prefix, .. },
                BlobLocation::Azure {
                    endpoint: other_endpoint,
                    container: other_container,
                    prefix: other_prefix,
                    ..
                },
            ) if (endpoint, container) == (other_endpoint, other_container) => {
                overlap(&Path::new("/").join(prefix.as_path()), &Path::new("/").join(other_prefix.as_path()))
            }
            _ => None,
        }
    }
}

pub(super) fn check(mount: &MountConfig, tiers: &[Draft], findings: &mut Findings) {
    for (at, tier) in tiers.iter().enumerate() {
        let Some(storage) = &tier.storage else { continue };
        for earlier in &tiers[..at] {
            let found = earlier.storage.as_ref().and_then(|other| storage.overlap(other));
            let how = match found {
                Some(Overlap::Same) => "is the same place as",
                Some(Overlap::Inside) => "lies inside",
                Some(Overlap::Around) => "holds",
                None => continue,
            };
            let (line, name, other, other_line) = (tier.line, &tier.name, &earlier.name, earlier.line);
            let what = if storage.root().is_some() { "directory" } else { "prefix" };
            findings.problem(
                line,
                format!("tier {name} {how} tier {other} (line {other_line}), so one file would be in two tiers; give each a {what} of its own"),
            );
        }
        own_files_outside(mount, tier, storage, findings);
    }
}

/// The catalog and the socket would show up in the mount, be moved, and change all the time.
fn own_files_outside(mount: &MountConfig, tier: &Draft, storage: &Storage, findings: &mut Findings) {
    let Some(root) = storage.root() else { return };
    let catalog = match &mount.catalog {
        Catalog::Sqlite(path) => Some(path),
        Catalog::Memory => None,
    };
    for (what, path) in [("catalog", catalog), ("control", Some(&mount.control))] {
        if let Some(path) =
            path.filter(|path| path.starts_with(root) && !path.starts_with(root.join(".tierfs")))
        {
            let (name, path) = (&tier.name, path.display());
            findings.problem(
                tier.line,
                format!("[mount] {what} ({path}) lies inside tier {name}, so it would show up in the mount; put it elsewhere"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_whole() {
        let found = |first: &str, second: &str| overlap(Path::new(first), Path::new(second));
        assert_eq!(found("/a/b", "/a/b"), Some(Overlap::Same));
        assert_eq!(found("/a/b", "/a"), Some(Overlap::Inside));
        assert_eq!(found("/a", "/a/b"), Some(Overlap::Around));
        assert_eq!(found("/a/bc", "/a/b"), None);
    }
}
