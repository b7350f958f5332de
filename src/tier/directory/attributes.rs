//! Attributes of native files: owner, mode, times and extended attributes, applied to an open
//! descriptor so that no name is resolved twice. What the tier can't hold is left to the catalog.

use crate::error::{Kind, Result};
use crate::tier::Capabilities;
use crate::types::{AttrChange, Attrs, FileKind, TimeChange, Timestamp};
use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid, XattrFlags};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::PathBuf;

const WRITE_ID: &[u8] = b"user.tierfs.write_id";
const LINK: &[u8] = b"user.tierfs.link";
const OWN: &[u8] = b"user.tierfs.";
/// Labels that a machine's own security modules compute: no part of a file's content.
const MACHINE_BOUND: [&[u8]; 4] =
    [b"security.selinux", b"security.ima", b"security.evm", b"security.apparmor"];
/// The kernel's limit for one value and for the list of names (XATTR_SIZE_MAX, XATTR_LIST_MAX).
const LARGEST: usize = 65_536;

/// The magic link of a descriptor: the only way to chmod or to reach the extended attributes of
/// an `O_PATH` descriptor before Linux 6.13. It leads to the very file, symlinks included.
fn magic_link(fd: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

/// Applies `change` to what `fd` (`O_PATH` is enough) is: owner first, for chown clears
/// set-uid bits; times last.
pub(super) fn change(
    fd: BorrowedFd<'_>,
    kind: FileKind,
    change: &AttrChange,
    holds: &Capabilities,
) -> Result<()> {
    if change.uid.is_some() || change.gid.is_some() {
        let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
        tolerate(rustix::fs::chownat(fd, "", uid, gid, AtFlags::EMPTY_PATH), holds)?;
    }
    // Linux has no modes on symlinks.
    if let Some(mode) = change.mode.filter(|_| kind != FileKind::Symlink) {
        tolerate(rustix::fs::chmod(magic_link(fd), Mode::from_raw_mode(mode & 0o7777)), holds)?;
    }
    if change.atime.is_some() || change.mtime.is_some() {
        let times =
            Timestamps { last_access: timespec(change.atime), last_modification: timespec(change.mtime) };
        let done = rustix::fs::utimensat(fd, "", &times, AtFlags::EMPTY_PATH);
        if holds.mtime_grain.is_some() { done? } else { tolerate(done, holds)? }
    }
    Ok(())
}

/// A refusal by a tier that never said it could.
fn tolerate(done: Result<(), Errno>, holds: &Capabilities) -> Result<(), Errno> {
    match done {
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::INVAL) if !holds.owner_and_mode => Ok(()),
        other => other,
    }
}

pub(super) fn timespec(change: Option<TimeChange>) -> Timespec {
    match change {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(TimeChange::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(TimeChange::To(time)) => {
            let (seconds, nanos) = time.parts();
            Timespec { tv_sec: seconds, tv_nsec: nanos }
        }
    }
}

/// Applies all of `attrs`: what it does not say stays, but its extended attributes replace
/// those that are there.
pub(super) fn apply(fd: BorrowedFd<'_>, kind: FileKind, attrs: &Attrs, holds: &Capabilities) -> Result<()> {
    let owner = AttrChange { uid: attrs.uid, gid: attrs.gid, ..AttrChange::default() };
    match change(fd, kind, &owner, holds) {
        // A daemon that is not root can't give files away; the catalog knows whose they are.
        Err(error) if error.kind() == Kind::NotPermitted && !rustix::process::geteuid().is_root() => {}
        other => other?,
    }
    change(fd, kind, &AttrChange { mode: attrs.mode, ..AttrChange::default() }, holds)?;
    if holds.xattrs && matches!(kind, FileKind::Regular | FileKind::Directory) {
        replace_xattrs(fd, attrs)?;
    }
    let mtime = attrs.mtime.map(TimeChange::To);
    change(fd, kind, &AttrChange { mtime, ..AttrChange::default() }, holds)
}

fn replace_xattrs(fd: BorrowedFd<'_>, attrs: &Attrs) -> Result<()> {
    let path = magic_link(fd);
    for name in names(&path)? {
        let stays = attrs.xattrs.iter().any(|(kept, _)| *kept == name);
        if is_visible(&name) && !stays || name.starts_with(OWN) {
            ignore_missing(rustix::fs::removexattr(&path, name.as_slice()))?;
        }
    }
    for (name, value) in attrs.xattrs.iter().filter(|(name, _)| is_visible(name)) {
        rustix::fs::setxattr(&path, name.as_slice(), value, XattrFlags::empty())?;
    }
    for (name, value) in [(WRITE_ID, &attrs.write_id), (LINK, &attrs.link)] {
        if let Some(value) = value {
            rustix::fs::setxattr(&path, name, value.as_bytes(), XattrFlags::empty())?;
        }
    }
    Ok(())
}

fn ignore_missing(done: Result<(), Errno>) -> Result<(), Errno> {
    match done {
        Err(Errno::NODATA) => Ok(()),
        other => other,
    }
}

/// Adds to `attrs` what only extended attributes hold.
pub(super) fn read_into(fd: BorrowedFd<'_>, attrs: &mut Attrs) -> Result<()> {
    let path = magic_link(fd);
    for name in names(&path)? {
        let own = name == WRITE_ID || name == LINK;
        if !own && !is_visible(&name) {
            continue;
        }
        let Some(value) = value(&path, &name)? else { continue };
        match name.as_slice() {
            WRITE_ID => attrs.write_id = String::from_utf8(value).ok(),
            LINK => attrs.link = String::from_utf8(value).ok(),
            _ => attrs.xattrs.push((name, value)),
        }
    }
    Ok(())
}

/// All attributes that programs may see.
pub(super) fn visible(fd: BorrowedFd<'_>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut attrs = Attrs::default();
    read_into(fd, &mut attrs)?;
    Ok(attrs.xattrs)
}

/// Sets or removes one attribute.
pub(super) fn set(fd: BorrowedFd<'_>, kind: FileKind, name: &[u8], value: Option<&[u8]>) -> Result<()> {
    if name.starts_with(OWN) {
        return Err(Kind::NotPermitted.into());
    }
    if !is_visible(name) {
        return Err(Kind::Unsupported.into());
    }
    if name.starts_with(b"user.") && !matches!(kind, FileKind::Regular | FileKind::Directory) {
        return Err(Kind::NotPermitted.into());
    }
    let path = magic_link(fd);
    match value {
        Some(value) => Ok(rustix::fs::setxattr(path, name, value, XattrFlags::empty())?),
        None => Ok(rustix::fs::removexattr(path, name)?),
    }
}

/// ACLs and `trusted.*` belong to the tier's own file system.
fn is_visible(name: &[u8]) -> bool {
    (name.starts_with(b"user.") && !name.starts_with(OWN))
        || (name.starts_with(b"security.") && !MACHINE_BOUND.contains(&name))
}

fn names(path: &PathBuf) -> Result<Vec<Vec<u8>>> {
    let mut buffer = vec![0_u8; 1024];
    loop {
        match rustix::fs::listxattr(path, buffer.as_mut_slice()) {
            Ok(length) => {
                buffer.truncate(length);
                let names = buffer.split(|&byte| byte == 0).filter(|name| !name.is_empty());
                return Ok(names.map(<[u8]>::to_vec).collect());
            }
            Err(Errno::RANGE) if buffer.len() < LARGEST => buffer.resize(LARGEST, 0),
            // A file system without them has none.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(Vec::new()),
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn value(path: &PathBuf, name: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut buffer = vec![0_u8; 1024];
    loop {
        match rustix::fs::getxattr(path, name, buffer.as_mut_slice()) {
            Ok(length) => {
                buffer.truncate(length);
                return Ok(Some(buffer));
            }
            Err(Errno::RANGE) if buffer.len() < LARGEST => buffer.resize(LARGEST, 0),
            // Removed since it was listed.
            Err(Errno::NODATA) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// The modification time that `attrs` asks for, as far as a grain lets it survive.
pub(super) fn rounded(time: Timestamp, grain: std::time::Duration) -> Timestamp {
    let grain = i64::try_from(grain.as_nanos()).unwrap_or(i64::MAX).max(1);
    Timestamp(time.0 - time.0.rem_euclid(grain))
}
