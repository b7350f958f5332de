//! Which groups of files keep their hot copies: the newest of each parent. Pure.

use crate::types::{Ino, Timestamp};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A directory of files that belong together, such as a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The directory it is in: groups are counted per parent.
    pub parent: Ino,
    /// The directory itself.
    pub dir: Ino,
    /// When something of it was last committed.
    pub newest: Timestamp,
}

/// Groups by what becomes of their hot copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranked {
    /// They stay.
    pub kept: Vec<Ino>,
    /// They leave before all others, oldest first.
    pub older: Vec<Ino>,
}

/// Ranks groups: of each parent the `last` newest are kept.
#[must_use]
pub fn rank(groups: &[Group], last: usize) -> Ranked {
    let mut parents: BTreeMap<Ino, Vec<&Group>> = BTreeMap::new();
    for group in groups {
        parents.entry(group.parent).or_default().push(group);
    }
    let (mut kept, mut older): (Vec<Ino>, Vec<&Group>) = (Vec::new(), Vec::new());
    for mut siblings in parents.into_values() {
        // Of two as old as each other the directory that was made later is the newer.
        siblings.sort_by_key(|group| Reverse((group.newest, group.dir)));
        let rest = siblings.split_off(siblings.len().min(last));
        kept.extend(siblings.into_iter().map(|group| group.dir));
        older.extend(rest);
    }
    older.sort_by_key(|group| (group.newest, group.dir));
    Ranked { kept, older: older.into_iter().map(|group| group.dir).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(parent: u64, dir: u64, newest: i64) -> Group {
        Group { parent: Ino(parent), dir: Ino(dir), newest: Timestamp(newest) }
    }

    fn ranked(groups: &[Group], last: usize) -> (Vec<u64>, Vec<u64>) {
        let Ranked { kept, older } = rank(groups, last);
        let plain = |inodes: Vec<Ino>| inodes.into_iter().map(|ino| ino.0).collect();
        (plain(kept), plain(older))
    }

    #[test]
    fn the_last_commit_counts_and_not_the_name() {
        let groups = [group(1, 10, 500), group(1, 11, 100), group(1, 12, 200), group(1, 13, 300)];
        assert_eq!(ranked(&groups, 2), (vec![10, 13], vec![11, 12]));
    }

    #[test]
    fn each_parent_keeps_its_own() {
        let groups = [group(1, 10, 1), group(2, 20, 9), group(2, 21, 8), group(1, 11, 2), group(2, 22, 7)];
        assert_eq!(ranked(&groups, 1), (vec![11, 20], vec![10, 22, 21]));
    }

    #[test]
    fn few_are_all_kept_and_ties_have_an_order() {
        assert_eq!(ranked(&[], 3), (vec![], vec![]));
        assert_eq!(ranked(&[group(1, 10, 1)], 3), (vec![10], vec![]));
        assert_eq!(ranked(&[group(1, 10, 1), group(1, 11, 1)], 1), (vec![11], vec![10]));
        assert_eq!(ranked(&[group(1, 10, 1)], 0), (vec![], vec![10]));
    }
}
