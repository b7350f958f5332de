//! Writing again to a file that is closed and not yet at home, while something that was closed after it waits for its turn:
//! what was closed keeps its bytes and its place in the order, and the new generation gets bytes of its own.

use super::open_file::{OpenFile, content_of};
use super::write_open::{First, Writing};
use super::{Caller, Vfs, Wait, WriteState};
use crate::catalog::{Inode, Replica, copied_name, stage_name};
use crate::data::StageStore;
use crate::error::{Kind, Result};
use crate::policy::placement::Order;
use crate::tier::Access;
use std::fs::File;
use std::sync::Arc;

/// Files up to this size are copied where the file system can't share blocks. Beyond it an open would take too long, and the stage
/// the bytes twice: the closed generation is given up for the one that follows.
const COPIED_MAX: u64 = 1 << 30;

impl Vfs {
    /// Begins a generation of its own, if the closed one has to stay; `shared` is what programs have open of it.
    pub(super) fn preserve(
        &self,
        caller: &Caller,
        shared: Option<&Arc<OpenFile>>,
        inode: &Inode,
        staged: &Replica,
        truncate: bool,
    ) -> Result<Option<Writing>> {
        let ino = inode.attr.ino;
        let path = self.some_path(ino)?;
        let is_ordered = {
            let ids = inode.attr.ids();
            self.rule(&path, ids).order != Order::None && !self.is_held(&path, ids)
        };
        // A copy of one that is partly staged would need its base, which the commit of the other replaces: it is taken back.
        if staged.is_partial() || !is_ordered || !self.catalog().is_followed(ino)? {
            return Ok(None);
        }
        if caller.wait == Wait::Never {
            return Err(Kind::WouldBlock.into());
        }
        // After a power loss the size of this generation is no row's any more, so nobody could tell that it was cut.
        match self.stage(staged.tier)?.sync(&staged.name) {
            // Whoever opens it says so.
            Err(error) if error.kind() == Kind::NotFound => return Ok(None),
            synced => synced?,
        }
        if shared.is_some() || inode.state != WriteState::Closed {
            // The kernel allows one backing file an inode, and a mapping may know it: that goes on, and a copy of it stays closed.
            return self.preserve_copy(shared, inode, staged, truncate);
        }
        let bytes = if truncate || inode.attr.size == 0 { First::None } else { First::Copied };
        let name = stage_name(ino, inode.generation.next());
        if bytes == First::Copied && !self.copy_closed(inode, staged, &name)? {
            return Ok(None);
        }
        let Some(replica) = self.catalog().begin_apart(ino, staged.tier)? else { return Ok(None) };
        self.make_generation(inode, &path, &replica, bytes, truncate).map(Some)
    }

    fn preserve_copy(
        &self,
        shared: Option<&Arc<OpenFile>>,
        inode: &Inode,
        staged: &Replica,
        truncate: bool,
    ) -> Result<Option<Writing>> {
        let ino = inode.attr.ino;
        if !self.copy_closed(inode, staged, &copied_name(ino, inode.generation))? {
            return Ok(None);
        }
        let seq = self.catalog().step_of(ino)?;
        let Some(copy) = self.catalog().begin_over_copy(ino)? else { return Ok(None) };
        crate::failpoint::pass("generation_copied");
        self.stage(copy.tier)?.finish_copy(&copy.name)?;
        self.describe(copy.tier, &copy.name, inode, &self.some_path(ino)?, seq);
        self.take_back(shared.cloned(), staged, truncate)
    }

    /// The same for a file that was closed by one program and is still open for writing, or not yet released after its close.
    pub(super) fn preserve_open(
        &self,
        caller: &Caller,
        open: &Arc<OpenFile>,
        inode: &Inode,
        truncate: bool,
    ) -> Result<Option<Writing>> {
        if inode.state != WriteState::ClosedOpen {
            return Ok(None);
        }
        let Some(staged) = self.newest(inode)?.into_iter().find(|replica| replica.staged) else {
            return Ok(None);
        };
        self.preserve(caller, Some(open), inode, &staged, truncate)
    }

    /// Copies what `staged` holds to the `.copy` of `name`; false if that would be too much, or is not what was closed any more.
    fn copy_closed(&self, inode: &Inode, staged: &Replica, name: &[u8]) -> Result<bool> {
        let stage = self.stage(staged.tier)?;
        let from = match stage.open(&staged.name, Access::Read) {
            Ok(from) => from,
            // Whoever opens it says so.
            Err(error) if error.kind() == Kind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        if !is_as_closed(inode, &from)? {
            return Ok(false);
        }
        let copied = stage.clone_from_file(name, &from)? || copy_bytes(inode, stage, name, &from)?;
        if copied {
            stage.seal_copy(name, &from)?;
        }
        if copied && !is_as_closed(inode, &from)? {
            stage.drop_copy(name)?;
            return Ok(false);
        }
        Ok(copied)
    }
}

fn copy_bytes(inode: &Inode, stage: &StageStore, name: &[u8], from: &File) -> Result<bool> {
    if inode.attr.size > COPIED_MAX {
        tracing::warn!(
            ino = %inode.attr.ino,
            size = inode.attr.size,
            "a closed file that is not at home yet is written again, and too large to keep both: what it was will not be seen there"
        );
        return Ok(false);
    }
    match stage.copy_from_file(name, from) {
        Ok(()) => Ok(true),
        // No room for both.
        Err(error) if error.kind() == Kind::NoSpace => Ok(false),
        Err(error) => Err(error),
    }
}

/// Nobody has written to it since its close.
fn is_as_closed(inode: &Inode, file: &File) -> Result<bool> {
    let now = content_of(file)?;
    Ok((now.size, now.mtime) == (inode.attr.size, inode.attr.mtime))
}
