//! Directories of which every name that was ever in them is remembered, so that most new names need no
//! look at the tables.
//!
//! A remembered set holds at least the cookies of all names there are: names taken away and
//! transactions undone leave theirs behind, which only costs a look.

use foldhash::fast::RandomState;
use lru::LruCache;
use std::collections::HashSet;
use std::num::NonZeroUsize;

/// Directories remembered.
const DIRECTORIES: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
/// Names of all of them together: about 8 MiB.
const NAMES_MAX: usize = 1 << 19;

/// The names of one directory.
pub(super) type Cookies = HashSet<i64, RandomState>;

/// See the module.
#[derive(Debug)]
pub(super) struct Names {
    directories: LruCache<u64, Cookies>,
    count: usize,
}

impl Default for Names {
    fn default() -> Self {
        Self { directories: LruCache::new(DIRECTORIES), count: 0 }
    }
}

impl Names {
    /// These are all names of a directory.
    pub(super) fn begin(&mut self, dir: u64, names: Cookies) {
        self.count += names.len();
        if let Some((_, old)) = self.directories.push(dir, names) {
            self.count -= old.len();
        }
        self.shrink();
    }

    /// A name comes into a directory.
    pub(super) fn add(&mut self, dir: u64, cookie: i64) {
        let Some(names) = self.directories.peek_mut(&dir) else { return };
        if names.insert(cookie) {
            self.count += 1;
            self.shrink();
        }
    }

    /// Whether the names of a directory are remembered.
    pub(super) fn has(&self, dir: u64) -> bool {
        self.directories.contains(&dir)
    }

    /// Whether no name with this cookie is in the directory for certain.
    pub(super) fn lacks(&mut self, dir: u64, cookie: i64) -> bool {
        self.directories.get(&dir).is_some_and(|names| !names.contains(&cookie))
    }

    fn shrink(&mut self) {
        while self.count > NAMES_MAX
            && let Some((_, names)) = self.directories.pop_lru()
        {
            self.count -= names.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lacks_only_what_never_came() {
        let mut names = Names::default();
        assert!(!names.lacks(7, 1), "an unknown directory may hold anything");
        names.begin(7, [3].into_iter().collect());
        assert!(names.lacks(7, 1) && !names.lacks(7, 3));
        names.add(7, 1);
        assert!(!names.lacks(7, 1) && names.lacks(7, 2));
    }

    #[test]
    fn the_names_of_all_directories_together_are_bounded() {
        let mut names = Names::default();
        names.begin(7, [1].into_iter().collect());
        names.begin(8, (1..NAMES_MAX as i64).collect());
        names.add(8, -1);
        assert!(!names.has(7) && names.has(8), "the one used longest ago goes first");
        names.add(8, -2);
        assert!(!names.has(8) && names.count == 0);
    }

    #[test]
    fn a_directory_that_begins_again_is_counted_once() {
        let mut names = Names::default();
        names.begin(7, [1, 2].into_iter().collect());
        names.begin(7, [3].into_iter().collect());
        assert_eq!(names.count, 1);
    }
}
