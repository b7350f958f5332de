//! Finding hot copies and dropping those used least recently. Thin: what to free and what to keep
//! is decided by the caller.

use super::{HotStore, PART, ROOT};
use crate::data::lease;
use crate::error::{Kind, Result};
use crate::types::{FileKind, Key, Timestamp};
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

/// Candidates that one eviction keeps in memory.
const CANDIDATES: usize = 16 << 10;

/// A hot copy, as [`HotStore::scan`] finds it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Copy {
    /// When it was last used, to the hour.
    pub last_use: Timestamp,
    /// Bytes.
    pub size: u64,
    /// Where it is.
    pub key: Key,
}

/// How much it is worth to keep a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Worth {
    /// It leaves before others.
    Least,
    /// As much as its last use says.
    Usual,
    /// It stays.
    Kept,
}

/// What [`HotStore::evict`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evicted {
    /// Copies removed.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl HotStore {
    /// Calls `visit` for every copy, in no order, until it breaks. Leftovers of fills that died are removed on the way.
    ///
    /// # Errors
    /// As the tier says.
    pub fn scan(&self, visit: &mut dyn FnMut(Copy) -> ControlFlow<()>) -> Result<()> {
        let mut directories = Vec::new();
        self.local.for_each(&Key::parse(ROOT)?, |entry| {
            directories.push(Key::parse(ROOT)?.join(&entry.name)?);
            Ok(())
        })?;
        for directory in directories {
            let mut objects = Vec::new();
            self.local.for_each(&directory, |entry| {
                objects.push(directory.join(&entry.name)?);
                Ok(())
            })?;
            for object in objects {
                if self.scan_object(&object, visit)?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Removes the copies of the least worth, of those the least recently used, that nobody has open (as far as this machine
    /// knows), until `target_bytes` are freed or only what is kept is left.
    ///
    /// # Errors
    /// As the tier says.
    pub fn evict(&self, target_bytes: u64, worth: &dyn Fn(&Key) -> Worth) -> Result<Evicted> {
        let mut oldest = BinaryHeap::new();
        self.scan(&mut |copy| {
            let worth = worth(&copy.key);
            if worth != Worth::Kept {
                oldest.push((worth, copy));
                if oldest.len() > CANDIDATES {
                    oldest.pop();
                }
            }
            ControlFlow::Continue(())
        })?;
        let mut evicted = Evicted::default();
        for (_, copy) in oldest.into_sorted_vec() {
            if evicted.bytes >= target_bytes {
                break;
            }
            if self.is_closed(&copy.key)? {
                self.remove(&copy.key)?;
                evicted.files += 1;
                evicted.bytes += copy.size;
            }
        }
        Ok(evicted)
    }

    /// Calls `visit` for what fills that died have left; the next [`HotStore::scan`] removes it.
    ///
    /// # Errors
    /// As the tier says.
    pub fn dead_fills(&self, visit: &mut dyn FnMut(&Key)) -> Result<()> {
        let mut level = vec![Key::parse(ROOT)?];
        // Fan-out, then objects.
        for _ in 0..2 {
            let mut below = Vec::new();
            for directory in &level {
                self.local.for_each(directory, |entry| {
                    below.push(directory.join(&entry.name)?);
                    Ok(())
                })?;
            }
            level = below;
        }
        for object in level {
            self.local.for_each(&object, |entry| {
                if let Some(claim) = claim_of(&object, &entry.name)?
                    && !self.is_alive(&claim)?
                {
                    visit(&object.join(&entry.name)?);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn scan_object(
        &self,
        object: &Key,
        visit: &mut dyn FnMut(Copy) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let mut flow = ControlFlow::Continue(());
        self.local.for_each(object, |entry| {
            let key = object.join(&entry.name)?;
            if let Some(claim) = claim_of(object, &entry.name)? {
                if !self.is_alive(&claim)? {
                    self.local.remove(&key)?;
                }
            } else if flow.is_continue() && entry.object.kind == FileKind::Regular {
                flow = visit(Copy { last_use: entry.object.modified, size: entry.object.size, key });
            }
            Ok(())
        })?;
        Ok(flow)
    }

    fn is_closed(&self, key: &Key) -> Result<bool> {
        let Some(file) = self.local.open(key)? else { return Ok(false) };
        match lease::nobody_has_it_open(&file) {
            // Without leases nobody can tell; an open copy stays readable after its removal.
            Err(error) if matches!(error.kind(), Kind::Unsupported | Kind::Denied) => Ok(true),
            answer => answer,
        }
    }
}

/// The claim that a part belongs to, or is; none for a copy.
fn claim_of(object: &Key, name: &[u8]) -> Result<Option<Key>> {
    let at = name.windows(PART.len()).position(|window| window == PART);
    Ok(at.map(|at| object.join(&name[..at + PART.len()])).transpose()?)
}
