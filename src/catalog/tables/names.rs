//! Directories of which every name that was ever in them is remembered, so that most new names need no
//! look at the tables.
//!
//! A remembered set holds at least the cookies of all names there are: names taken away and
//! transactions undone leave theirs behind, which only costs a look.

use lru::LruCache;
use std::collections::HashSet;
use std::num::NonZeroUsize;

/// Directories remembered.
const DIRECTORIES: NonZeroUsize = NonZeroUsize::new(128).unwrap();
/// Names of one of them; one with more is looked up. Together at most about 16 MiB, if all are that full.
const NAMES_MAX: usize = 8_192;

/// See the module.
#[derive(Debug)]
pub(in crate::catalog) struct Names(LruCache<u64, HashSet<i64>>);

impl Default for Names {
    fn default() -> Self {
        Self(LruCache::new(DIRECTORIES))
    }
}

impl Names {
    /// A directory that was just made: nothing is in it.
    pub(in crate::catalog) fn begin(&mut self, dir: u64) {
        self.0.put(dir, HashSet::new());
    }

    /// A name comes into a directory.
    pub(super) fn add(&mut self, dir: u64, cookie: i64) {
        let Some(names) = self.0.peek_mut(&dir) else { return };
        names.insert(cookie);
        if names.len() > NAMES_MAX {
            self.0.pop(&dir);
        }
    }

    /// Whether no name with this cookie is in the directory for certain.
    pub(super) fn lacks(&mut self, dir: u64, cookie: i64) -> bool {
        self.0.get(&dir).is_some_and(|names| !names.contains(&cookie))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lacks_only_what_never_came() {
        let mut names = Names::default();
        assert!(!names.lacks(7, 1), "an unknown directory may hold anything");
        names.begin(7);
        assert!(names.lacks(7, 1));
        names.add(7, 1);
        assert!(!names.lacks(7, 1) && names.lacks(7, 2));
    }

    #[test]
    fn a_large_directory_is_not_remembered() {
        let mut names = Names::default();
        names.begin(7);
        (0..=NAMES_MAX as i64).for_each(|cookie| names.add(7, cookie));
        assert!(!names.lacks(7, -1));
    }
}
