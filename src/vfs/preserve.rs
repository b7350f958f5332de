//! Writing again to a file that is closed and not yet at home, while something that was closed after it waits for its turn:
//! what was closed keeps its bytes and its place in the order, and the new generation gets bytes of its own.

use super::open_file::OpenFile;
use super::write_open::{First, Writing};
use super::{Caller, Vfs, Wait};
use crate::catalog::{Inode, Replica, copied_name, stage_name};
use crate::data::StageStore;
use crate::error::{Kind, Result};
use crate::policy::placement::Order;
use crate::tier::Access;
use std::sync::Arc;

/// Files up to this size are copied where the file system can't share blocks. Beyond it an open would take too long, and the stage
/// the bytes twice: the closed generation is given up for the one that follows.
const COPIED_MAX: u64 = 1 << 30;

impl Vfs {
    /// Begins a generation of its own, if the closed one has to stay; `shared` is what readers have open of it.
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
        if self.rule(&path).order == Order::None || !self.catalog().is_followed(ino)? {
            return Ok(None);
        }
        let stage = self.stage(staged.tier)?;
        let name = match shared {
            // The kernel allows one backing file an inode: that goes on, and a copy of it stays closed.
            Some(_) => copied_name(ino, inode.generation),
            None => stage_name(ino, inode.generation.next()),
        };
        let bytes = match shared {
            None if truncate || inode.attr.size == 0 => First::None,
            _ => First::Copied,
        };
        if bytes == First::Copied && !self.copy_closed(caller, stage, staged, &name, inode.attr.size)? {
            return Ok(None);
        }
        let Some(open) = shared else {
            let Some(replica) = self.catalog().begin_apart(ino, staged.tier)? else { return Ok(None) };
            return self.make_generation(inode, &path, &replica, bytes, truncate).map(Some);
        };
        let seq = self.catalog().step_of(ino)?;
        let Some(copy) = self.catalog().begin_over_copy(ino)? else { return Ok(None) };
        crate::failpoint::pass("generation_copied");
        stage.finish_copy(&copy.name)?;
        self.describe(copy.tier, &copy.name, inode, &path, seq);
        self.take_back(Some(open.clone()), staged, truncate)
    }

    /// Copies what `staged` holds to the `.copy` of `name`; false if that would be too much.
    fn copy_closed(
        &self,
        caller: &Caller,
        stage: &StageStore,
        staged: &Replica,
        name: &[u8],
        size: u64,
    ) -> Result<bool> {
        let from = match stage.open(&staged.name, Access::Read) {
            Ok(from) => from,
            // Whoever opens it says so.
            Err(error) if error.kind() == Kind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        if stage.clone_from_file(name, &from)? {
            return Ok(true);
        }
        if size > COPIED_MAX {
            tracing::warn!(
                size,
                "a closed file that is not at home yet is written again, and too large to keep both: what it was will not be seen there"
            );
            return Ok(false);
        }
        if caller.wait == Wait::Never {
            return Err(Kind::WouldBlock.into());
        }
        match stage.copy_from_file(name, &from) {
            Ok(()) => Ok(true),
            // No room for both.
            Err(error) if error.kind() == Kind::NoSpace => Ok(false),
            Err(error) => Err(error),
        }
    }
}
