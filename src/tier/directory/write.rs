//! What changes a directory tier, one whole object at a time, and the conditions it checks.

use super::Inner;
use super::attributes;
use super::draft::Draft;
use super::object;
use super::root::{PARENT_MODE, Root};
use crate::error::{Error, Kind, Result};
use crate::tier::Special;
use crate::types::{Attrs, Condition, FileKind, Key, Version};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, renameat, renameat_with};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::AsFd;

const COPY_STEP: usize = 64 << 20;

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

/// rename(2).
pub(super) fn rename(root: &Root, from: &Key, to: &Key) -> Result<(), Errno> {
    rename_with(root, from, to, RenameFlags::empty())
}

/// renameat2(2).
pub(super) fn rename_with(root: &Root, from: &Key, to: &Key, flags: RenameFlags) -> Result<(), Errno> {
    root.renaming(from, to, |from_parent, from, to_parent, to| {
        if flags.is_empty() {
            renameat(from_parent, from, to_parent, to)
        } else {
            renameat_with(from_parent, from, to_parent, to, flags)
        }
    })
}

/// rename(2) that never replaces.
pub(super) fn rename_no_replace(root: &Root, from: &Key, to: &Key) -> Result<(), Errno> {
    match rename_with(root, from, to, RenameFlags::NOREPLACE) {
        // What file systems without that flag say (NFS, SMB, old FUSE).
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => link_or_look(root, from, to),
        other => other,
    }
}

/// The same without the flag: by a hard link for files; for directories, and where there are no
/// links, only by a look before, which another program may outrun.
pub(super) fn link_or_look(root: &Root, from: &Key, to: &Key) -> Result<(), Errno> {
    root.renaming(from, to, |from_parent, from, to_parent, to| {
        match rustix::fs::linkat(from_parent, from, to_parent, to, AtFlags::empty()) {
            Ok(()) => return rustix::fs::unlinkat(from_parent, from, AtFlags::empty()),
            Err(Errno::EXIST) => return Err(Errno::EXIST),
            Err(_) => {}
        }
        match rustix::fs::statat(to_parent, to, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) => renameat(from_parent, from, to_parent, to),
            Err(errno) => Err(errno),
        }
    })
}

/// link(2).
pub(super) fn link(root: &Root, from: &Key, to: &Key) -> Result<(), Errno> {
    root.making(to, |to_parent, to| {
        let from = root.spelled(from)?;
        let (from_parent, from) = root.place(&from)?;
        rustix::fs::linkat(from_parent, from, to_parent, to, AtFlags::empty())
    })
}

/// unlink(2).
pub(super) fn remove(root: &Root, key: &Key) -> Result<(), Errno> {
    root.removing(key, AtFlags::empty())
}

/// Makes a directory, symlink or special file under its own name; never replaces.
pub(super) fn make(root: &Root, key: &Key, special: &Special, mode: u32) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(mode & 0o7777);
    root.making(key, |parent, name| match special {
        Special::Directory => rustix::fs::mkdirat(parent, name, mode),
        Special::Symlink(target) => rustix::fs::symlinkat(target.as_slice(), parent, name),
        Special::Node { kind, rdev } => {
            let kind = rustix::fs::FileType::from_raw_mode(kind.mode_bits());
            rustix::fs::mknodat(parent, name, kind, mode, u64::from(*rdev))
        }
    })
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
        let mut draft = Draft::file(root.share())?;
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
        let draft = Draft::special(root.share(), special);
        draft.map_err(|errno| self.refusal(special, errno))?.place(self, key, attrs, condition)
    }

    /// What it means that `special` could not be made: EPERM is also what a file system says that knows no such thing.
    pub(super) fn refusal(&self, special: &Special, errno: Errno) -> Error {
        let can = self.capabilities();
        let unknown = match special {
            Special::Directory => false,
            Special::Symlink(_) => !can.symlinks,
            Special::Node { .. } => !can.special_files,
        };
        if unknown && errno == Errno::PERM { Kind::Unsupported.into() } else { errno.into() }
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
        root.removing(key, flags)?;
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
        let mut draft = Draft::file(root.share())?;
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
