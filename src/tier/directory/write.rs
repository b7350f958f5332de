//! Whole files into a directory tier: a temporary file in `.tierfs/tmp`, made durable, then
//! renamed, then the directory made durable.

use super::Inner;
use super::object;
use super::root::{PARENT_MODE, Root};
use super::{attributes, random_name};
use crate::error::{Error, Kind, Result};
use crate::tier::Special;
use crate::types::{Attrs, Condition, FileKind, Key, Version};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, renameat, renameat_with};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;

const COPY_STEP: usize = 64 << 20;

/// A file under a temporary name; removed when dropped before it got its own.
#[derive(Debug)]
pub(super) struct Draft {
    root: Arc<Root>,
    key: Key,
    file: Option<File>,
    placed: bool,
}

impl Draft {
    /// A new empty file.
    pub(super) fn file(root: Arc<Root>) -> Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let mode = Mode::from_raw_mode(0o600);
        let (key, fd) = in_temporary(&root, |key| root.open(key, flags, mode))?;
        Ok(Self { root, key, file: Some(fd.into()), placed: false })
    }

    /// A new symlink or special file.
    fn special(root: Arc<Root>, special: &Special) -> Result<Self> {
        let (key, ()) = in_temporary(&root, |key| make(&root, key, special, 0o600))?;
        Ok(Self { root, key, file: None, placed: false })
    }

    /// The open file.
    pub(super) fn open_file(&self) -> Result<&File> {
        self.file.as_ref().ok_or_else(|| Error::from(Kind::Invalid))
    }

    /// Gives it its attributes and its name; durable afterwards. What no attribute says of the mode is 0644.
    pub(super) fn place(
        &mut self,
        inner: &Inner,
        key: &Key,
        attrs: &Attrs,
        condition: &Condition,
    ) -> Result<Version> {
        let holds = inner.capabilities();
        let fd = self.root.open(&self.key, OFlags::PATH, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        let kind = FileKind::from_mode(stat.st_mode).ok_or(Kind::Corrupt)?;
        let mode = attrs.mode.or(Some(0o644));
        attributes::apply(fd.as_fd(), kind, &Attrs { mode, ..attrs.clone() }, &holds)?;
        if let Some(file) = &self.file {
            file.sync_all()?;
        }
        self.rename(key, condition)?;
        // rename changes ctime, so only now.
        Ok(object::version(&rustix::fs::fstat(&fd)?))
    }

    fn rename(&mut self, key: &Key, condition: &Condition) -> Result<()> {
        let (parent, _) = key.split().ok_or(Kind::IsDirectory)?;
        let made = self.root.ensure_directory(&parent, PARENT_MODE)?;
        match condition {
            Condition::Absent => rename_no_replace(&self.root, &self.key, key)?,
            Condition::Always => rename(&self.root, &self.key, key)?,
            // No file system renames on condition: between this look and the rename another
            // program may still come in, hence `conditional` is not among the capabilities.
            Condition::Matches(_) => {
                check(&self.root, key, condition)?;
                rename(&self.root, &self.key, key)?;
            }
        }
        self.placed = true;
        Ok(self.root.sync_upwards(&parent, made)?)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.placed
            && let Err(error) = remove(&self.root, &self.key)
        {
            tracing::debug!(key = %self.key, %error, "a temporary file stays behind");
        }
    }
}

/// Makes something under a fresh name in `.tierfs/tmp`, and that directory if it is missing.
fn in_temporary<T>(root: &Root, make: impl Fn(&Key) -> Result<T, Errno>) -> Result<(Key, T)> {
    let directory = Key::parse(super::TEMPORARY)?;
    let key = directory.join(random_name())?;
    let made = match make(&key) {
        Err(Errno::NOENT) => {
            root.ensure_directory(&directory, 0o755)?;
            make(&key)?
        }
        other => other?,
    };
    Ok((key, made))
}

/// Whether `condition` holds at `key` at this moment.
pub(super) fn check(root: &Root, key: &Key, condition: &Condition) -> Result<()> {
    let found = match root.stat(key) {
        Ok(stat) => Some(object::version(&stat)),
        Err(Errno::NOENT | Errno::NOTDIR) => None,
        Err(errno) => return Err(errno.into()),
    };
    match (condition, found) {
        (Condition::Always, _) | (Condition::Absent, None) => Ok(()),
        (Condition::Absent, Some(_)) => Err(Kind::Exists.into()),
        (Condition::Matches(version), Some(found)) if *version == found => Ok(()),
        (Condition::Matches(_), _) => Err(Kind::Changed.into()),
    }
}

fn rename(root: &Root, from: &Key, to: &Key) -> Result<(), Errno> {
    let ((from_parent, from_name), (to_parent, to_name)) = (root.parent(from)?, root.parent(to)?);
    renameat(from_parent, from_name, to_parent, to_name)
}

/// rename(2) that never replaces. File systems without RENAME_NOREPLACE (NFS, SMB, old FUSE)
/// answer EINVAL: there a hard link does it for files; where those are missing too, only a look before.
pub(super) fn rename_no_replace(root: &Root, from: &Key, to: &Key) -> Result<(), Errno> {
    let ((from_parent, from_name), (to_parent, to_name)) = (root.parent(from)?, root.parent(to)?);
    match renameat_with(&from_parent, from_name, &to_parent, to_name, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        other => return other,
    }
    match rustix::fs::linkat(&from_parent, from_name, &to_parent, to_name, AtFlags::empty()) {
        Ok(()) => return rustix::fs::unlinkat(&from_parent, from_name, AtFlags::empty()),
        Err(Errno::EXIST) => return Err(Errno::EXIST),
        Err(_) => {}
    }
    match rustix::fs::statat(&to_parent, to_name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Err(Errno::EXIST),
        Err(Errno::NOENT) => renameat(from_parent, from_name, to_parent, to_name),
        Err(errno) => Err(errno),
    }
}

/// unlink(2).
pub(super) fn remove(root: &Root, key: &Key) -> Result<(), Errno> {
    let (parent, name) = root.parent(key)?;
    rustix::fs::unlinkat(parent, name, AtFlags::empty())
}

/// Makes a directory, symlink or special file under its own name; never replaces.
pub(super) fn make(root: &Root, key: &Key, special: &Special, mode: u32) -> Result<(), Errno> {
    let (parent, name) = root.parent(key)?;
    let mode = Mode::from_raw_mode(mode & 0o7777);
    match special {
        Special::Directory => rustix::fs::mkdirat(parent, name, mode),
        Special::Symlink(target) => rustix::fs::symlinkat(target.as_slice(), parent, name),
        Special::Node { kind, rdev } => {
            let kind = rustix::fs::FileType::from_raw_mode(kind.mode_bits());
            rustix::fs::mknodat(parent, name, kind, mode, u64::from(*rdev))
        }
    }
}

impl Inner {
    /// Makes `key` a file with `bytes`.
    pub(super) fn put(
        &self,
        key: &Key,
        bytes: &[u8],
        attrs: &Attrs,
        condition: &Condition,
    ) -> Result<Version> {
        let root = self.writable_root()?;
        check(&root, key, condition)?;
        let mut draft = Draft::file(root)?;
        std::io::Write::write_all(&mut draft.open_file()?, bytes)?;
        draft.place(self, key, attrs, condition)
    }

    /// Makes `key` a directory, symlink or special file.
    pub(super) fn put_special(
        &self,
        key: &Key,
        special: &Special,
        attrs: &Attrs,
        condition: &Condition,
    ) -> Result<Version> {
        let root = self.writable_root()?;
        check(&root, key, condition)?;
        if matches!(special, Special::Directory) {
            return self.put_directory(&root, key, attrs, condition);
        }
        Draft::special(root, special)?.place(self, key, attrs, condition)
    }

    /// A directory can't be renamed over another, and needs not: the one there takes the attributes.
    fn put_directory(&self, root: &Root, key: &Key, attrs: &Attrs, condition: &Condition) -> Result<Version> {
        let made = root.ensure_directory(key, attrs.mode.unwrap_or(PARENT_MODE))?;
        if made == 0 && *condition == Condition::Absent {
            return Err(Kind::Exists.into());
        }
        let fd = root.open(key, OFlags::PATH, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        if FileKind::from_mode(stat.st_mode) != Some(FileKind::Directory) {
            return Err(Kind::Exists.into());
        }
        attributes::apply(fd.as_fd(), FileKind::Directory, attrs, &self.capabilities())?;
        root.sync_upwards(key, made)?;
        Ok(object::version(&rustix::fs::fstat(&fd)?))
    }

    /// Removes whatever `key` is, if `condition` holds.
    pub(super) fn delete(&self, key: &Key, condition: &Condition) -> Result<()> {
        let root = self.writable_root()?;
        let stat = root.stat(key).map_err(super::root::missing_if_no_directory)?;
        let expected = match condition {
            Condition::Always => true,
            Condition::Absent => false,
            Condition::Matches(version) => *version == object::version(&stat),
        };
        if !expected {
            return Err(Kind::Changed.into());
        }
        let is_directory = FileKind::from_mode(stat.st_mode) == Some(FileKind::Directory);
        let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        let (parent, name) = root.parent(key)?;
        rustix::fs::unlinkat(&parent, name, flags)?;
        let above = key.split().map_or(Key::ROOT, |(above, _)| above);
        Ok(root.sync_upwards(&above, 0)?)
    }

    /// Copies a file inside the tier: by reflink where there is one.
    pub(super) fn copy(
        &self,
        from: &Key,
        version: &Version,
        to: &Key,
        attrs: &Attrs,
        condition: &Condition,
    ) -> Result<Version> {
        let root = self.writable_root()?;
        let source = self.open_source(&root, from)?;
        expect(&source, version)?;
        check(&root, to, condition)?;
        let mut draft = Draft::file(root)?;
        copy_bytes(&source, draft.open_file()?)?;
        expect(&source, version)?;
        draft.place(self, to, attrs, condition)
    }

    /// Replaces the attributes of `key`.
    pub(super) fn set_attrs(&self, key: &Key, version: &Version, attrs: &Attrs) -> Result<Version> {
        let root = self.writable_root()?;
        let fd = root.open(key, OFlags::PATH, Mode::empty()).map_err(super::root::missing_if_no_directory)?;
        let stat = expect(&fd, version)?;
        let kind = FileKind::from_mode(stat.st_mode).ok_or(Kind::Corrupt)?;
        attributes::apply(fd.as_fd(), kind, attrs, &self.capabilities())?;
        Ok(object::version(&rustix::fs::fstat(&fd)?))
    }
}

/// That an open file is still in `version`.
pub(super) fn expect(fd: impl AsFd, version: &Version) -> Result<rustix::fs::Stat> {
    let stat = rustix::fs::fstat(fd)?;
    if object::version(&stat) == *version { Ok(stat) } else { Err(Kind::Changed.into()) }
}

fn copy_bytes(source: &File, target: &File) -> Result<()> {
    if rustix::fs::ioctl_ficlone(target, source).is_ok() {
        return Ok(());
    }
    loop {
        match rustix::fs::copy_file_range(source, None, target, None, COPY_STEP) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(Errno::INTR) => {}
            // Not for this file system; the two file offsets tell how far it came.
            Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => {
                std::io::copy(&mut &*source, &mut &*target)?;
                return Ok(());
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}
