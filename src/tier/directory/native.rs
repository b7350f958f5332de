//! The directory tier as files of this machine: each call is a few system calls on the
//! caller's thread.

use super::root::unless_stale;
use super::write::{link, make, remove, rename_no_replace, rename_with};
use super::{DirectoryTier, attributes, object};
use crate::error::{Kind, Result};
use crate::tier::{Access, Cursor, Object, Page, RenameMode, Resident, Special, Usage};
use crate::types::{AttrChange, FileKind, Key};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

impl DirectoryTier {
    fn describe(&self, stat: &Stat) -> Result<Object> {
        let owner_and_mode = self.inner.capabilities().owner_and_mode;
        object::object(stat, owner_and_mode).ok_or_else(|| Kind::Corrupt.into())
    }

    /// An `O_PATH` descriptor of `key` itself, symlink or not, and what it is.
    fn node(&self, root: &super::Root, key: &Key) -> Result<(OwnedFd, FileKind)> {
        let fd = root.open(key, OFlags::PATH, Mode::empty())?;
        let kind = kind(&fd)?;
        Ok((fd, kind))
    }
}

fn kind(fd: impl AsFd) -> Result<FileKind> {
    FileKind::from_mode(rustix::fs::fstat(fd)?.st_mode).ok_or_else(|| Kind::Corrupt.into())
}

impl Resident for DirectoryTier {
    fn create(&self, key: &Key, mode: u32) -> Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOCTTY;
        let root = self.inner.writable_root()?;
        Ok(root.open(key, flags, Mode::from_raw_mode(mode & 0o7777))?.into())
    }

    fn open(&self, key: &Key, access: Access) -> Result<File> {
        match access {
            Access::Read => self.inner.open_regular(&*self.inner.root()?, key, OFlags::RDONLY),
            Access::ReadWrite => self.inner.open_regular(&*self.inner.writable_root()?, key, OFlags::RDWR),
        }
    }

    fn stat(&self, key: &Key) -> Result<Object> {
        let root = self.inner.root()?;
        let spelled = root.spelled(key)?;
        let (parent, name) = root.place(&spelled)?;
        let stat = unless_stale(|| rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW))?;
        let mut object = self.describe(&stat)?;
        if object.kind == FileKind::Symlink {
            object.target =
                Some(unless_stale(|| rustix::fs::readlinkat(&parent, name, Vec::new()))?.into_bytes());
        }
        Ok(object)
    }

    fn stat_open(&self, file: &File) -> Result<Object> {
        let _call = self.inner.watch.begin()?;
        self.describe(&rustix::fs::fstat(file)?)
    }

    fn report_writes(&self, file: &File) -> Result<()> {
        let _call = self.inner.watch.begin()?;
        let copy = file.try_clone()?.into_raw_fd();
        // SAFETY: the descriptor was made in the line above and is nobody else's.
        if unsafe { libc::close(copy) } == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().into()) }
    }

    fn mkdir(&self, key: &Key, mode: u32) -> Result<()> {
        Ok(make(&*self.inner.writable_root()?, key, &Special::Directory, mode)?)
    }

    fn ensure_directory(&self, key: &Key) -> Result<()> {
        let root = self.inner.writable_root()?;
        root.ensure_directory(key, super::root::PARENT_MODE)?;
        // What was there already may be anything.
        Ok(root.directory(key).map(drop)?)
    }

    fn make(&self, key: &Key, special: &Special, mode: u32) -> Result<()> {
        let root = self.inner.writable_root()?;
        make(&root, key, special, mode).map_err(|errno| self.inner.refusal(special, errno))
    }

    fn link(&self, from: &Key, to: &Key) -> Result<()> {
        let root = self.inner.writable_root()?;
        match link(&root, from, to) {
            Err(Errno::PERM) if !self.inner.capabilities().hard_links => Err(Kind::Unsupported.into()),
            other => Ok(other?),
        }
    }

    fn rename(&self, from: &Key, to: &Key, mode: RenameMode) -> Result<()> {
        let root = self.inner.writable_root()?;
        let flags = match mode {
            RenameMode::NoReplace => return Ok(rename_no_replace(&root, from, to)?),
            RenameMode::Replace => RenameFlags::empty(),
            RenameMode::Exchange => RenameFlags::EXCHANGE,
        };
        match rename_with(&root, from, to, flags) {
            // What a file system without RENAME_EXCHANGE says; a directory can't be swapped with what it holds either.
            Err(Errno::INVAL) if !flags.is_empty() && !from.is_under(to) && !to.is_under(from) => {
                Err(Kind::Unsupported.into())
            }
            other => Ok(other?),
        }
    }

    fn unlink(&self, key: &Key) -> Result<()> {
        Ok(remove(&*self.inner.writable_root()?, key)?)
    }

    fn rmdir(&self, key: &Key) -> Result<()> {
        Ok(self.inner.writable_root()?.removing(key, AtFlags::REMOVEDIR)?)
    }

    fn set_attr(&self, key: &Key, change: &AttrChange) -> Result<()> {
        let root = self.inner.writable_root()?;
        let (fd, kind) = self.node(&root, key)?;
        attributes::change(fd.as_fd(), kind, change, &self.inner.capabilities())
    }

    fn set_attr_open(&self, file: &File, change: &AttrChange) -> Result<()> {
        let _root = self.inner.writable_root()?;
        attributes::change(file.as_fd(), FileKind::Regular, change, &self.inner.capabilities())
    }

    fn set_xattr(&self, key: &Key, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        let root = self.inner.writable_root()?;
        let (fd, kind) = self.node(&root, key)?;
        attributes::set(fd.as_fd(), kind, name, value)
    }

    fn xattrs(&self, key: &Key) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let (fd, _) = self.node(&*self.inner.root()?, key)?;
        attributes::visible(fd.as_fd())
    }

    fn sync_directory(&self, key: &Key) -> Result<()> {
        Ok(self.inner.root()?.sync_upwards(key, 0)?)
    }

    fn read_directory(&self, dir: &Key, from: Option<Cursor>, limit: usize) -> Result<Page> {
        self.inner.page(dir, b"", from.as_ref(), limit)
    }

    fn device(&self) -> u64 {
        self.inner.presence.device()
    }

    fn native_path(&self, key: &Key) -> Result<PathBuf> {
        let path = &self.inner.options.path;
        if key.is_root() {
            return Ok(path.clone());
        }
        if self.inner.presence.spelling().names().is_none() {
            return Ok(path.join(key.as_path()));
        }
        Ok(path.join(self.inner.root()?.spelled(key)?.as_path()))
    }

    fn usage(&self) -> Result<Usage> {
        self.inner.usage()
    }

    fn note_used(&self, bytes: u64) {
        self.inner.used.store(bytes, Ordering::Relaxed);
    }
}
