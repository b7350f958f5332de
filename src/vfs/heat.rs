//! Opens are counted, and decide which files get a hot copy.

use super::{Caller, Vfs};
use crate::catalog::{Inode, Replica};
use crate::data::{FillStart, HotStore, Identity};
use crate::error::{Kind, Result};
use crate::heat::Around;
use crate::policy::heat::{Fetch, value};
use crate::policy::placement::{Promote, Rule};
use crate::types::{Ino, Key};

/// A file that changed a shorter time ago may change again within one tick of its file system's clock.
const SETTLED_NS: i64 = 2_000_000_000;

/// Names of a directory that are counted at most: from here on all directories are large.
const NAMES_MAX: usize = 1 << 20;

impl Vfs {
    /// A file is opened for reading under a name in `dir`.
    pub(super) fn count_open(&self, ino: Ino, dir: Option<Ino>) {
        if let Some(dir) = dir {
            self.parts.heat.opened(ino, dir, &|dir| self.around(dir));
        }
    }

    /// A file that is used does not stay where nobody used it: the mover brings it home. A program that reads everything there is does not
    /// count.
    pub(super) fn used(&self, caller: &Caller, inode: &Inode) -> Result<Inode> {
        if !is_unused(inode) || self.rules().are_at_rest() || self.sweeps(caller) {
            return Ok(inode.clone());
        }
        match self.wanted_at_home(inode.clone()) {
            // Whoever reads it need not wait for a full disk under the catalog.
            Err(error) if error.kind() != Kind::NotFound => {
                tracing::warn!(ino = %inode.attr.ino, %error, "that a file is used could not be written down; it stays where it is");
                Ok(inode.clone())
            }
            used => used,
        }
    }

    /// The same for one that is to be written.
    pub(super) fn wanted_at_home(&self, inode: Inode) -> Result<Inode> {
        if is_unused(&inode) { self.catalog().come_home(inode.attr.ino) } else { Ok(inode) }
    }

    /// What it costs to read a file of this rule from its home.
    pub(super) fn fetch_of(&self, rule: &Rule) -> Fetch {
        if self.resident(rule.home).is_some() { Fetch::SHARE } else { Fetch::BLOB }
    }

    /// Whether this program reads everything there is, which says nothing of what will be needed. Looks at the program: only where
    /// a tier far away is asked anyway.
    pub(super) fn sweeps(&self, caller: &Caller) -> bool {
        let sweepers = &self.parts.sweepers;
        if caller.pid == 0 || sweepers.is_empty() {
            return false;
        }
        let name = std::fs::read(format!("/proc/{}/comm", caller.pid)).unwrap_or_default();
        // Linux keeps 15 bytes of a name.
        let shown = |full: &str| full.as_bytes()[..full.len().min(15)] == *name.trim_ascii_end();
        sweepers.iter().any(|sweeper| shown(sweeper))
    }

    fn around(&self, dir: Ino) -> Option<Around> {
        let names = self.catalog().count_names(dir, NAMES_MAX).ok()?;
        let parent = self.catalog().names(dir).ok()?.first().map(|(parent, _)| *parent);
        Some(Around { names, parent })
    }

    /// Begins a hot copy of a file that is read from `identity` now, if its rule and its heat want one.
    pub(super) fn promote(
        &self,
        rule: &Rule,
        inode: &Inode,
        identity: &Identity,
    ) -> Result<Option<FillStart>> {
        let Some(hot) = rule.hot.first().and_then(|tier| self.parts.hots.get(tier)) else { return Ok(None) };
        let size = inode.attr.size;
        if size == 0 || !rule.sizes.contains(&size) {
            return Ok(None);
        }
        let admitted = match rule.promote {
            Promote::Never => None,
            Promote::OnRead => hot.space().reserve(size),
            Promote::Heat => {
                let rate = self.parts.heat.rate(inode.attr.ino);
                hot.space().admit(size, value(rate, size, self.fetch_of(rule)))
            }
        };
        let Some(admitted) = admitted else { return Ok(None) };
        self.note_copy(inode.attr.ino, &hot.path_key(identity)?);
        hot.begin_fill(identity, size, admitted).map(Some)
    }

    /// Has a hot copy made, in the background, of a file that was just opened where it is at home on a directory tier.
    pub(super) fn promote_beside(&self, caller: &Caller, rule: &Rule, replicas: &[Replica], inode: &Inode) {
        if rule.hot.is_empty() || rule.promote == Promote::Never {
            return;
        }
        let Some(home) = self.clean_at_resident_home(rule, replicas) else { return };
        // What is written in place is told from what it was by its times: they must be able to change.
        let age = self.now().0.saturating_sub(inode.attr.ctime.0);
        if age < SETTLED_NS || self.sweeps(caller) {
            return;
        }
        if let Err(error) = self.copy_beside(rule, home, inode) {
            tracing::warn!(%error, "no hot copy can be made now; the file is read where it is");
        }
    }

    fn copy_beside(&self, rule: &Rule, home: &Replica, inode: &Inode) -> Result<()> {
        let identity = self.identity(home)?;
        let Some(FillStart::Started(fill)) = self.promote(rule, inode, &identity)? else { return Ok(()) };
        let reader = self.read_from_home(home, inode, Some(fill))?;
        // The first byte begins it; with the reader gone, the rest goes on in the background.
        let _ = reader.try_read(0, &mut [0]);
        Ok(())
    }

    /// Whose copy it is, for whoever has to choose which leave.
    pub(super) fn note_copy(&self, ino: Ino, copy: &Key) {
        self.parts.heat.note_copy(ino, HotStore::copy_id(copy));
    }
}

/// Whether it is away because nobody used it.
fn is_unused(inode: &Inode) -> bool {
    inode.whereabouts().away.is_some() && inode.opened_as().away.is_none()
}
