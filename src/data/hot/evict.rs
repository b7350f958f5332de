//! Finding hot copies and dropping them. Which leave is decided by the caller.

use super::{HotStore, PART, ROOT};
use crate::data::lease;
use crate::error::{Kind, Result};
use crate::types::{FileKind, Key, Timestamp};
use std::ops::ControlFlow;

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

impl HotStore {
    /// Calls `visit` for every copy, in no order, until it breaks. Changes nothing.
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

    /// Removes a copy unless somebody has it open, as far as this machine knows; answers whether it is gone.
    ///
    /// # Errors
    /// As the tier says.
    pub fn evict(&self, copy: &Copy) -> Result<bool> {
        let closed = self.is_closed(&copy.key)?;
        if closed {
            self.remove(&copy.key)?;
            self.space.dropped(copy.size);
        }
        Ok(closed)
    }

    /// Removes what fills that died have left.
    ///
    /// # Errors
    /// As the tier says.
    pub fn remove_dead_fills(&self) -> Result<()> {
        let mut dead = Vec::new();
        self.dead_fills(&mut |key| dead.push(key.clone()))?;
        dead.iter().try_for_each(|key| self.local.remove(key))
    }

    /// Calls `visit` for what fills that died have left.
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
            if claim_of(object, &entry.name)?.is_none()
                && flow.is_continue()
                && entry.object.kind == FileKind::Regular
            {
                flow = visit(Copy { last_use: entry.object.modified, size: entry.object.size, key });
            }
            Ok(())
        })?;
        Ok(flow)
    }

    fn is_closed(&self, key: &Key) -> Result<bool> {
        let Some(file) = self.local.open(key)? else { return Ok(true) };
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
