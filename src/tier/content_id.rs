//! A number for one version of one object, the same in every mount and after every restart.

use crate::types::{Key, Version};
use sha2::{Digest, Sha256};

/// One version of one object of one tier (a cut SHA-256, so never another's).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContentId(pub [u8; 16]);

impl ContentId {
    /// What is under `key` of the tier at `location` as long as its version is `version`.
    #[must_use]
    pub fn of(location: &str, key: &Key, version: &Version) -> Self {
        let mut hash = Sha256::new();
        for part in [location.as_bytes(), key.as_bytes(), &version.0] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let mut id = [0; 16];
        id.copy_from_slice(&hash.finalize()[..16]);
        Self(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_counts_and_none_runs_into_the_next() {
        let id = |location: &str, key: &str, version: &str| {
            ContentId::of(location, &Key::parse(key.as_bytes()).unwrap(), &Version::new(version))
        };
        let first = id("tier", "a/b", "1");
        assert_eq!(first, id("tier", "a/b", "1"));
        for other in [id("tie", "ra/b", "1"), id("tier", "a/b1", ""), id("tier", "a/b", "2")] {
            assert_ne!(first, other);
        }
    }
}
