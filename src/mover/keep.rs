//! Which hot copies the rules keep, and which leave first: the groups of `keep_hot`, ranked.

use crate::data::{HotStore, Identity};
use crate::error::{Result, found};
use crate::mover::context::Context;
use crate::policy::eviction::Worth;
use crate::policy::keep::{Group, rank};
use crate::policy::placement::KeepHot;
use crate::types::{FileKind, Ino, Key, TierId, Timestamp};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Groups of one rule that are looked at.
const MAX_GROUPS: usize = 100_000;

/// Files whose copies are told apart; beyond that they count as any others.
const MAX_FILES: usize = 1_000_000;

/// Names read from a directory at a time.
const PAGE: usize = 1024;

/// What becomes of the copies of a group.
#[derive(Clone, Copy, Debug)]
enum Stays {
    Kept,
    Least,
}

/// What the rules say of hot copies on one tier.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// By a hash of the copy's key: two of a million keys have one and the same once in ten million times, and then a copy stays
    /// that could go, or goes that could stay for longer.
    groups: HashMap<u64, Stays>,
    hasher: RandomState,
}

impl Kept {
    /// Looks at the groups of all rules with hot copies on `tier`.
    pub(crate) fn on(context: &Context, tier: TierId, store: &HotStore) -> Result<Self> {
        let mut kept = Self::default();
        for rule in context.rules().iter().filter(|rule| rule.hot.contains(&tier)) {
            if let Some(keep) = &rule.keep_hot {
                kept.add(context, keep, store)?;
            }
        }
        kept.add_pins(context, store)?;
        Ok(kept)
    }

    /// What a copy that was last used then is worth, if a rule says so; of the groups that leave, the oldest leaves first.
    pub(crate) fn worth(&self, key: &Key, last_use: Timestamp) -> Option<Worth> {
        match self.groups.get(&self.hasher.hash_one(key))? {
            Stays::Kept => Some(Worth::Kept),
            Stays::Least => Some(Worth::Least(last_use.0 as f64)),
        }
    }

    fn add(&mut self, context: &Context, keep: &KeepHot, store: &HotStore) -> Result<()> {
        let ranked = rank(&groups(context, keep)?, keep.last);
        let kept = ranked.kept.into_iter().map(|dir| (dir, Stays::Kept));
        for (dir, stays) in kept.chain(ranked.older.into_iter().map(|dir| (dir, Stays::Least))) {
            let left = MAX_FILES.saturating_sub(self.groups.len());
            if left == 0 {
                break;
            }
            self.add_below(context, store, (dir, stays), left)?;
        }
        Ok(())
    }

    /// What is pinned stays, also in a group that is to leave.
    fn add_pins(&mut self, context: &Context, store: &HotStore) -> Result<()> {
        let (now, mut after) = (context.clock.wall(), Ino(0));
        loop {
            let pins = context.catalog.pins(now, after, PAGE)?;
            for pin in &pins {
                let left = MAX_FILES.saturating_sub(self.groups.len());
                if left == 0 {
                    tracing::warn!("more files are pinned than are looked at");
                    return Ok(());
                }
                self.add_below(context, store, (pin.ino, Stays::Kept), left)?;
            }
            match pins.last() {
                Some(last) if pins.len() >= PAGE => after = last.ino,
                _ => return Ok(()),
            }
        }
    }

    fn add_below(
        &mut self,
        context: &Context,
        store: &HotStore,
        (top, stays): (Ino, Stays),
        limit: usize,
    ) -> Result<()> {
        for ino in context.catalog.files_below(top, limit)? {
            for replica in context.catalog.replicas(ino)? {
                let (Some(version), false) = (replica.version, replica.staged) else { continue };
                let location = context.tier(replica.tier)?.location();
                let copy = store.path_key(&Identity { location, key: replica.key, version })?;
                self.groups.insert(self.hasher.hash_one(&copy), stays);
            }
        }
        Ok(())
    }
}

/// The directories that `keep` groups by, with something at home.
fn groups(context: &Context, keep: &KeepHot) -> Result<Vec<Group>> {
    let mut groups = Vec::new();
    let mut ahead = vec![(Ino::ROOT, Key::ROOT)];
    while let Some((dir, path)) = ahead.pop() {
        let mut after = 0;
        loop {
            let page = found(context.catalog.entries(dir, after, PAGE))?.unwrap_or_default();
            for entry in &page {
                if entry.inode.attr.kind != FileKind::Directory {
                    continue;
                }
                let (child, path) = (entry.inode.attr.ino, path.join(&entry.name)?);
                if keep.is_group(&path) {
                    let newest = context.catalog.newest_at_home(child)?;
                    groups.extend(newest.map(|newest| Group { parent: dir, dir: child, newest }));
                } else if keep.is_above_groups(&path) {
                    ahead.push((child, path));
                }
                if groups.len() >= MAX_GROUPS {
                    tracing::warn!(group = keep.pattern(), "more groups than keep_hot looks at");
                    return Ok(groups);
                }
            }
            match page.last() {
                Some(last) if page.len() >= PAGE => after = last.cookie,
                _ => break,
            }
        }
    }
    Ok(groups)
}
