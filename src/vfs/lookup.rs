//! lookup, getattr, forget, access.

use super::node::Node;
use super::open_file::content_of;
use super::place::RESERVED;
use super::{Caller, Entry, Vfs};
use crate::catalog::{Content, Inode, WriteState};
use crate::error::{Kind, Result};
use crate::tier::Access;
use crate::types::{Attr, FileKind, Ino, Key};
use futures::StreamExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Vfs {
    /// What `name` in `parent` names.
    ///
    /// # Errors
    /// [`Kind::NotFound`] only if every tier that may hold it said so.
    pub fn lookup(&self, caller: &Caller, parent: Ino, name: &[u8]) -> Result<Entry> {
        if parent == Ino::ROOT && name == RESERVED {
            return Err(Kind::NotFound.into());
        }
        let dir = self.nodes.get(parent);
        self.refresh_name(caller, &dir, name)?;
        let inode = self.catalog().lookup(parent, name)?.ok_or(Kind::NotFound)?;
        let path = self.path_of(&dir)?.join(name)?;
        self.entry(inode, &path)
    }

    /// What a tier has under `name`, whatever an earlier look said.
    pub(super) fn lookup_anew(&self, caller: &Caller, parent: Ino, name: &[u8]) -> Result<Entry> {
        match self.lookup(caller, parent, name) {
            Err(error) if error.kind() == Kind::NotFound => {
                self.nodes.get(parent).namespace.lock().places.clear();
                self.lookup(caller, parent, name)
            }
            other => other,
        }
    }

    /// Answers a name to the kernel, which holds one more look-up of the inode from now on.
    pub(super) fn entry(&self, inode: Inode, path: &Key) -> Result<Entry> {
        self.entry_for(inode, self.ttl(path))
    }

    /// The same, to be believed for `ttl`.
    pub(super) fn entry_for(&self, inode: Inode, ttl: Duration) -> Result<Entry> {
        let node = self.nodes.remember(inode.attr.ino);
        match self.attr_with(&node, inode) {
            Ok(attr) => Ok(Entry { attr, ttl }),
            Err(error) => {
                // The kernel is not told, so it will not forget.
                self.forget(node.ino, 1);
                Err(error)
            }
        }
    }

    /// Attributes of an inode and how long they may be believed.
    ///
    /// # Errors
    /// [`Kind::NotFound`], or what the tier says.
    pub fn getattr(&self, caller: &Caller, ino: Ino) -> Result<(Attr, Duration)> {
        let node = self.nodes.get(ino);
        if ino == Ino::ROOT {
            // Every path goes through it.
            return Ok((self.catalog().inode(ino)?.attr, self.ttl(&Key::ROOT)));
        }
        let name = self.catalog().names(ino)?.into_iter().next();
        let Some((parent, name)) = name else {
            return Ok((self.attr_with(&node, self.catalog().inode(ino)?)?, Duration::ZERO));
        };
        if !node.is_open() {
            self.refresh_name(caller, &self.nodes.get(parent), &name)?;
        }
        let attr = self.attr_with(&node, self.catalog().inode(ino)?)?;
        Ok((attr, self.ttl(&self.child_path(parent, &name)?)))
    }

    /// The catalog's attributes with size and times of a file that may be changing under us.
    pub(super) fn attr_with(&self, node: &Node, inode: Inode) -> Result<Attr> {
        if inode.attr.kind != FileKind::Regular {
            return Ok(inode.attr);
        }
        let (open, was_written) = {
            let state = node.file_soon()?;
            (state.open.clone(), state.told.is_some())
        };
        let inode = match open {
            // Its writer may have ended since the caller read the row.
            None if was_written => match self.catalog().inode(inode.attr.ino) {
                Err(error) if error.kind() == Kind::NotFound => inode,
                now => now?,
            },
            _ => inode,
        };
        let unclosed = matches!(inode.state, WriteState::Writing | WriteState::ClosedOpen);
        let mut attr = inode.attr;
        let content = match open.as_ref().filter(|open| open.is_written()) {
            Some(open) => {
                self.may_touch(open)?;
                Some(open.content()?)
            }
            // Its writer outlives an earlier daemon: only the stage file knows.
            None if unclosed => self.staged_content(attr.ino)?,
            None => None,
        };
        if let Some(content) = content {
            // As the catalog will have it when it is told.
            if (attr.size, attr.mtime) != (content.size, content.mtime) {
                attr.ctime = attr.ctime.max(content.ctime);
            }
            attr.size = content.size;
            attr.blocks = content.blocks;
            attr.mtime = content.mtime;
        }
        Ok(attr)
    }

    fn staged_content(&self, ino: Ino) -> Result<Option<Content>> {
        let replicas = self.catalog().replicas(ino)?;
        let Some(staged) = replicas.iter().find(|replica| replica.staged) else { return Ok(None) };
        match self.stage(staged.tier)?.open(&staged.name, Access::Read) {
            Ok(file) => content_of(&file).map(Some),
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Target of a symbolic link.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for anything else, or what the tier says.
    pub fn read_link(&self, caller: &Caller, ino: Ino) -> Result<Vec<u8>> {
        let inode = self.catalog().inode(ino)?;
        if inode.attr.kind != FileKind::Symlink {
            return Err(Kind::Invalid.into());
        }
        if let Some(target) = inode.target.clone() {
            return Ok(target);
        }
        // A listing of a blob tier shows that it is a link, but not where to.
        let remote = self.newest(&inode)?.into_iter().next().ok_or(Kind::Corrupt)?;
        let version = self.identity(&remote)?.version;
        let tier = self.parts.tiers.get(remote.tier)?;
        let size = inode.attr.size.min(libc::PATH_MAX as u64);
        self.wait_for(caller, async {
            let mut chunks = tier.read(&remote.key, 0..size, &version).await?;
            let mut target = Vec::new();
            while let Some(chunk) = chunks.next().await {
                target.extend_from_slice(&chunk?);
            }
            Ok(target)
        })
    }

    /// The kernel dropped `count` look-ups of an inode.
    pub fn forget(&self, ino: Ino, count: u64) {
        if let Some(node) = self.nodes.forget(ino, count) {
            self.bury(&node);
        }
    }

    /// Removes the row and the stage files of an inode that has no name, no handle and no look-up.
    pub(super) fn bury(&self, node: &Arc<Node>) {
        if !node.unlinked.load(Ordering::Acquire) {
            return;
        }
        let buried = self.catalog().inode(node.ino).and_then(|inode| {
            if inode.attr.nlink > 0 || inode.attr.kind == FileKind::Directory && self.has_names(node.ino)? {
                return Ok(());
            }
            for replica in self.catalog().drop_orphan(node.ino)? {
                self.remove_staged(&replica)?;
            }
            Ok(())
        });
        if let Err(error) = buried
            && error.kind() != Kind::NotFound
        {
            tracing::warn!(ino = %node.ino, %error, "a deleted file's remains could not be removed; the next start will");
        }
    }

    fn has_names(&self, ino: Ino) -> Result<bool> {
        Ok(!self.catalog().names(ino)?.is_empty())
    }
}
