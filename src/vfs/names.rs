//! Locks between native names and their rows, one a tier: a tier that hangs must not stop what happens on the others.

use crate::types::TierId;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::collections::{BTreeMap, BTreeSet};

/// Held shared by whoever compares a tier with the catalog or goes to a file by the key that the catalog has for it, exclusively by a rename between its native moves and their rows.
#[derive(Debug)]
pub(super) struct NativeNames(BTreeMap<TierId, RwLock<()>>);

/// Tiers on which somebody moves things, each held exclusively.
pub(super) type Moving<'a> = Vec<RwLockWriteGuard<'a, ()>>;

impl NativeNames {
    pub(super) fn new(tiers: impl Iterator<Item = TierId>) -> Self {
        Self(tiers.map(|tier| (tier, RwLock::default())).collect())
    }

    /// Until this is dropped no rename moves anything on `tier`. None for a tier that the config has no more: nothing moves there.
    pub(super) fn stand(&self, tier: TierId) -> Option<RwLockReadGuard<'_, ()>> {
        self.0.get(&tier).map(RwLock::read)
    }

    /// The same for several.
    pub(super) fn stand_on(&self, tiers: &BTreeSet<TierId>) -> Vec<RwLockReadGuard<'_, ()>> {
        tiers.iter().filter_map(|tier| self.stand(*tier)).collect()
    }

    /// Until this is dropped nobody compares any of `tiers` with the catalog, or moves anything there.
    pub(super) fn move_on(&self, tiers: &BTreeSet<TierId>) -> Moving<'_> {
        // In the order of their numbers, as everybody else.
        tiers.iter().filter_map(|tier| self.0.get(tier)).map(RwLock::write).collect()
    }
}
