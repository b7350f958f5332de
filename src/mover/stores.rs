//! The stores of `data` as the mover uses them.

use crate::catalog::Replica;
use crate::error::{Kind, Result};
use crate::mover::context::Context;
use crate::mover::jobs::resident;

/// Stages, hot copies and memory.
#[derive(Debug, Default)]
pub struct Stores {}

impl Stores {
    /// Waits for memory.
    pub(crate) async fn reserve(&self, _bytes: u64) {}

    /// Says in the sidecar that the bytes are at home.
    pub(crate) fn mark_committed(&self, _staged: &Replica) {}

    /// Makes the staged file the hot copy of `home`.
    pub(crate) fn adopt(&self, _context: &Context, _staged: &Replica, _home: &Replica) -> Result<bool> {
        Ok(false)
    }

    /// Removes a staged file that no row knows any more.
    pub(crate) fn remove_staged(&self, context: &Context, staged: &Replica) -> Result<()> {
        match resident(context.tier(staged.tier)?.as_ref())?.unlink(&staged.key) {
            Err(error) if error.kind() == Kind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Whether nobody has the file open for writing.
    pub(crate) fn no_writers(&self, _file: &std::fs::File) -> Result<bool> {
        Ok(true)
    }

    /// Looks for staged files without rows.
    pub(crate) fn sweep(&self, _context: &Context) -> Result<u64> {
        Ok(0)
    }

    /// Evicts hot copies above the high water.
    pub(crate) fn keep_below_high_water(&self, _context: &Context) -> Result<()> {
        Ok(())
    }
}
