//! The end of a write that the kernel made by itself: a mapping of a passed-through file outlives its handles, so
//! the file is open for writing until a read lease on it can be had.

use super::node::{FileState, Node};
use super::open_file::content_of;
use super::{Vfs, WriteState};
use crate::catalog::{Content, Inode, Replica};
use crate::data::lease::no_writers;
use crate::error::{Kind, Result};
use crate::tier::Access;
use crate::types::Ino;
use parking_lot::Mutex;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Whether a closed file is closed for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It is, or it is open again.
    Done,
    /// Somebody may still write through a mapping: ask again.
    NotYet,
}

/// What the kernel says of writers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writers {
    None,
    Some,
    /// This file system has no leases.
    Unknown,
}

impl Vfs {
    /// Ends the write of a file whose handles are closed, if no mapping of it can change any more.
    pub fn settle(&self, ino: Ino) -> Settled {
        let Some(node) = self.nodes.find(ino) else { return Settled::Done };
        let Some(turn) = node.turn.try_lock() else { return Settled::NotYet };
        let mut state = node.file.lock();
        if node.handles.load(Ordering::Acquire) == 0 && !node.unlinked.load(Ordering::Acquire) {
            match self.try_settle(&node, &mut state) {
                Ok(Settled::NotYet) => return Settled::NotYet,
                Ok(Settled::Done) => {}
                Err(error) => {
                    tracing::error!(%ino, %error, "the end of a write was not written down; the next start does it");
                }
            }
        }
        node.settling.store(false, Ordering::Release);
        drop(state);
        drop(turn);
        self.forget_closed(&node);
        Settled::Done
    }

    /// Looks at all files that are closed and may be mapped; answers of how many somebody may still write to.
    pub fn settle_closed(&self) -> usize {
        let closed = Mutex::new(Vec::new());
        self.nodes.for_each(|node| {
            if node.settling.load(Ordering::Acquire) && node.handles.load(Ordering::Acquire) == 0 {
                closed.lock().push(node.ino);
            }
        });
        closed.into_inner().into_iter().filter(|ino| self.settle(*ino) == Settled::NotYet).count()
    }

    /// A node that nobody holds goes, and with it what is left of a deleted file.
    pub(super) fn forget_closed(&self, node: &Arc<Node>) {
        if self.nodes.drop_if_unknown(node) {
            self.bury(node);
        }
    }

    fn try_settle(&self, node: &Node, state: &mut FileState) -> Result<Settled> {
        let inode = self.catalog().inode(node.ino)?;
        let Some(staged) = self.newest(&inode)?.into_iter().find(|replica| replica.staged) else {
            return Ok(Settled::Done);
        };
        let file = self.stage(staged.tier)?.open(&staged.name, Access::Read)?;
        let writers = writers(&file)?;
        if writers == Writers::Some {
            self.hold(&inode, &staged, content_of(&file)?)?;
            return Ok(Settled::NotYet);
        }
        self.end(&inode, &staged, state, content_of(&file)?, writers)?;
        Ok(Settled::Done)
    }

    /// Nothing is sealed while it is mapped for writing.
    fn hold(&self, inode: &Inode, staged: &Replica, content: Content) -> Result<()> {
        if matches!(inode.state, WriteState::Clean | WriteState::Closed) {
            self.catalog().begin_write(inode.attr.ino, staged.tier)?;
            self.close_row(inode.attr.ino, content)?;
        }
        Ok(())
    }

    fn end(
        &self,
        inode: &Inode,
        staged: &Replica,
        state: &FileState,
        content: Content,
        writers: Writers,
    ) -> Result<()> {
        let ino = inode.attr.ino;
        let unchanged = content.is_still(state.told.as_ref()) && !state.must_close;
        let differs = (inode.attr.size, inode.attr.mtime) != (content.size, content.mtime);
        match inode.state {
            WriteState::Writing if unchanged && writers == Writers::None => return self.revert(ino),
            WriteState::Writing => self.close_row(ino, content)?,
            WriteState::ClosedOpen if differs => self.close_row(ino, content)?,
            WriteState::ClosedOpen => {}
            WriteState::Clean | WriteState::Closed if differs => {
                self.catalog().begin_write(ino, staged.tier)?;
                self.close_row(ino, content)?;
            }
            WriteState::Closed => return Ok(()),
            WriteState::Clean => {
                // It was committed while it was open; now its staged file can go.
                let path = self.some_path(ino)?;
                self.catalog().queue(ino, &self.domain(&path, self.ids(ino)?))?;
                return Ok(());
            }
        }
        self.catalog().released(ino)
    }

    pub(super) fn close_row(&self, ino: Ino, content: Content) -> Result<()> {
        let path = self.some_path(ino)?;
        let seq = self.catalog().close(ino, content, &self.domain(&path, self.ids(ino)?))?;
        self.describe_closed(ino, &path, seq);
        Ok(())
    }
}

fn writers(file: &File) -> Result<Writers> {
    match no_writers(file) {
        Ok(true) => Ok(Writers::None),
        Ok(false) => Ok(Writers::Some),
        Err(error) if error.kind() == Kind::Unsupported => Ok(Writers::Unknown),
        Err(error) => Err(error),
    }
}
