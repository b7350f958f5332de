//! The heat of all files of a mount: counted at open, in memory; the mover writes it to the catalog now and then.
//!
//! Knows the formulas of `policy::heat` and a clock; must not know the catalog, tiers or paths. What a crash takes away of it is
//! the heat of the last half minute.
//!
//! Lock order: none; no lock is held while another is taken, and each for a few lines.

use crate::clock::Clock;
use crate::policy::heat::{FILE_HALF_LIFE, File, FileRow, GROUP_MIN, Group, GroupRow, Rows, Seconds};
use crate::types::{Ino, Timestamp};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Files whose heat is known at most: about 50 bytes each.
const FILES_MAX: usize = 2 << 20;

/// Threads that open files at the same time mostly meet in different ones.
const SHARDS: usize = 16;

/// What must be known of a directory to make it a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Around {
    /// Names it is known to have.
    pub names: u64,
    /// The directory it is in; none for the root.
    pub parent: Option<Ino>,
}

/// Heat of all files.
#[derive(Debug)]
pub struct Heat {
    clock: Arc<dyn Clock>,
    files: [Mutex<HashMap<Ino, Known>>; SHARDS],
    groups: Mutex<HashMap<Ino, Member>>,
    /// Files in a shard at most.
    shard_max: usize,
}

/// A file; in single precision, for there may be millions.
#[derive(Clone, Copy, Debug)]
struct Known {
    group: Ino,
    /// Where its hot copy would be, as [`Heat::note_copy`] was told; 0: nowhere.
    copy: u64,
    at: f64,
    opens: f32,
    changed: bool,
}

/// What a directory is for heat.
#[derive(Clone, Copy, Debug)]
enum Member {
    Group {
        group: Group,
        changed: bool,
    },
    /// Too few files: they count with those of this one.
    Of(Ino),
}

impl Heat {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_limit(clock, FILES_MAX)
    }

    fn with_limit(clock: Arc<dyn Clock>, files: usize) -> Self {
        Self { clock, files: Default::default(), groups: Mutex::default(), shard_max: files / SHARDS }
    }

    fn now(&self) -> Seconds {
        self.clock.wall().0 as f64 / 1e9
    }

    fn shard(&self, ino: Ino) -> &Mutex<HashMap<Ino, Known>> {
        &self.files[ino.0 as usize % SHARDS]
    }

    /// A file of directory `dir` is opened for reading; `around` is asked about directories that were never met.
    pub fn opened(&self, ino: Ino, dir: Ino, around: &dyn Fn(Ino) -> Option<Around>) {
        let now = self.now();
        let group = self.group_of(dir, around);
        let is_new = {
            let mut files = self.shard(ino).lock();
            let room = files.len() < self.shard_max;
            let is_new = !files.contains_key(&ino);
            if is_new && !room {
                false
            } else {
                let known =
                    files.entry(ino).or_insert(Known { group, copy: 0, at: now, opens: 0.0, changed: true });
                let mut opens = known.opens();
                opens.add(1.0, now, FILE_HALF_LIFE);
                *known = Known { group, opens: opens.value as f32, at: opens.at, changed: true, ..*known };
                is_new
            }
        };
        if let Some(Member::Group { group, changed }) = self.groups.lock().get_mut(&group) {
            // Those that were listed may be more than those that were opened; `opens` counts the latter.
            group.counted += u64::from(is_new);
            group.files = group.files.max(group.counted);
            group.open(now);
            *changed = true;
        }
    }

    /// Opens a second of a file, now; 0 for one that was never opened.
    #[must_use]
    pub fn rate(&self, ino: Ino) -> f64 {
        let Some(known) = self.shard(ino).lock().get(&ino).copied() else { return 0.0 };
        self.rate_of(&known, self.now())
    }

    fn rate_of(&self, known: &Known, now: Seconds) -> f64 {
        match self.groups.lock().get(&known.group) {
            Some(Member::Group { group, .. }) => group.rate_of(&known.opens(), now),
            _ => 0.0,
        }
    }

    /// Opens of a file, decayed, and the last of them.
    #[must_use]
    pub fn opens(&self, ino: Ino) -> Option<(f64, Timestamp)> {
        let known = self.shard(ino).lock().get(&ino).copied()?;
        let at = Timestamp((known.at * 1e9) as i64);
        Some((known.opens().now(self.now(), FILE_HALF_LIFE), at))
    }

    /// What is known of the group a file counts with, and its rate.
    #[must_use]
    pub fn group(&self, ino: Ino) -> Option<(Ino, f64)> {
        let dir = self.shard(ino).lock().get(&ino)?.group;
        match self.groups.lock().get(&dir) {
            Some(Member::Group { group, .. }) => Some((dir, group.rate(self.now()))),
            _ => None,
        }
    }

    /// The hot copy of a file is, or would be, known as `copy`.
    pub fn note_copy(&self, ino: Ino, copy: u64) {
        if let Some(known) = self.shard(ino).lock().get_mut(&ino) {
            known.copy = copy;
        }
    }

    /// Files by their copies.
    #[must_use]
    pub fn by_copy(&self) -> HashMap<u64, Ino> {
        let mut all = HashMap::new();
        for shard in &self.files {
            all.extend(
                shard
                    .lock()
                    .iter()
                    .filter(|(_, known)| known.copy != 0)
                    .map(|(ino, known)| (known.copy, *ino)),
            );
        }
        all
    }

    /// What changed since it was last asked for.
    #[must_use]
    pub fn take_changed(&self) -> Rows {
        let mut rows = Rows::default();
        for shard in &self.files {
            for (ino, known) in shard.lock().iter_mut().filter(|(_, known)| known.changed) {
                known.changed = false;
                rows.files.push(FileRow { ino: *ino, group: known.group, opens: known.opens() });
            }
        }
        for (dir, member) in self.groups.lock().iter_mut() {
            if let Member::Group { group, changed: changed @ true } = member {
                *changed = false;
                rows.groups.push(GroupRow { dir: *dir, group: *group });
            }
        }
        rows
    }

    /// They could not be written: they are changed again.
    pub fn put_back(&self, rows: &Rows) {
        for row in &rows.files {
            self.shard(row.ino).lock().entry(row.ino).and_modify(|known| known.changed = true);
        }
        let mut groups = self.groups.lock();
        for row in &rows.groups {
            if let Some(Member::Group { changed, .. }) = groups.get_mut(&row.dir) {
                *changed = true;
            }
        }
    }

    /// Adds what an earlier daemon knew.
    pub fn restore(&self, rows: Rows) {
        for row in rows.groups {
            let mut groups = self.groups.lock();
            let earlier = Member::Group { group: row.group, changed: false };
            groups
                .entry(row.dir)
                .and_modify(|member| match member {
                    Member::Group { group, .. } => group.continue_from(&row.group),
                    Member::Of(_) => *member = earlier,
                })
                .or_insert(earlier);
        }
        for row in rows.files {
            let mut files = self.shard(row.ino).lock();
            if files.len() >= self.shard_max {
                continue;
            }
            let known = files.entry(row.ino).or_insert(Known {
                group: row.group,
                copy: 0,
                at: row.opens.at,
                opens: 0.0,
                changed: false,
            });
            let mut opens = row.opens;
            opens.add(f64::from(known.opens), known.at, FILE_HALF_LIFE);
            (known.opens, known.at) = (opens.value as f32, opens.at);
        }
    }

    /// Makes room when there are too many: those least opened lately are forgotten.
    pub fn prune(&self) {
        let now = self.now();
        for shard in &self.files {
            let mut files = shard.lock();
            let mut least = 0.25;
            while files.len() > self.shard_max / 8 * 7 {
                files.retain(|_, known| known.opens().now(now, FILE_HALF_LIFE) > least);
                least *= 2.0;
            }
        }
    }

    fn group_of(&self, dir: Ino, around: &dyn Fn(Ino) -> Option<Around>) -> Ino {
        if let Some(member) = self.groups.lock().get(&dir) {
            return match member {
                Member::Group { .. } => dir,
                Member::Of(other) => *other,
            };
        }
        let own = around(dir).unwrap_or(Around { names: 0, parent: None });
        let above = own.parent.filter(|_| own.names < GROUP_MIN);
        let beyond = above.and_then(around).map_or(0, |around| around.names);
        let mut groups = self.groups.lock();
        let group = |files| Member::Group { group: Group { files, ..Group::default() }, changed: false };
        match above {
            Some(parent) => {
                groups.entry(dir).or_insert(Member::Of(parent));
                // That one may itself be a small one: groups are of one level up, not of all.
                if !matches!(groups.get(&parent), Some(Member::Group { .. })) {
                    groups.insert(parent, group(beyond));
                }
                parent
            }
            None => {
                groups.entry(dir).or_insert(group(own.names));
                dir
            }
        }
    }
}

impl Known {
    fn opens(&self) -> File {
        File { value: f64::from(self.opens), at: self.at }
    }
}
