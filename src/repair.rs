//! Loss and repair: taking a wiped tier for what it is, finding what catalog and tiers disagree on, and making a catalog anew.
//!
//! Nothing here runs in the course of ordinary work: a person asks for it. Knows the catalog, tiers and stages; must not know
//! vfs, FUSE or commands.

pub mod accept;
pub mod fsck;
pub mod rescue;
pub mod takeover;

pub use accept::{Accepted, FileSystem};

use crate::catalog::{Catalog, Observed};
use crate::error::{Kind, Result};

/// Nobody has it mounted, so nobody holds what has just lost its last name.
///
/// # Errors
/// As the catalog says.
pub fn forget_nameless(catalog: &Catalog, observed: &Observed) -> Result<()> {
    for (_, _, ino) in &observed.entries {
        match catalog.drop_orphan(*ino) {
            // It has another name, or is forgotten already.
            Err(error) if matches!(error.kind(), Kind::Busy | Kind::NotFound) => {}
            dropped => drop(dropped?),
        }
    }
    Ok(())
}
