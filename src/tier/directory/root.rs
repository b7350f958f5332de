//! The root of a directory tier, opened once: every path is resolved beneath it, and no symlink
//! or `..` is ever followed. Must not know what the files mean.

use super::spelling::Spelling;
use crate::error::{Kind, Result};
use crate::types::Key;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Stat, openat, openat2, statat};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// openat2 answers EAGAIN when a rename elsewhere raced with its walk.
const RACES: u32 = 64;
/// A server may have forgotten a handle that the kernel still has; a new look gets another.
const STALE_TRIES: u32 = 4;
/// A path the kernel takes in one call (PATH_MAX with its NUL, and some room).
const LONGEST_PATH: usize = 4000;
/// Of directories made only to hold what was asked for.
pub(super) const PARENT_MODE: u32 = 0o755;

/// How paths are kept beneath the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resolver {
    /// openat2(2) does it in one call (Linux 5.6).
    Kernel,
    /// Component by component, each without following: where openat2 is missing, or a
    /// container's seccomp filter refuses it.
    Walk,
}

/// The open root of a tier, and what it was when it was opened.
#[derive(Debug)]
pub(super) struct Root {
    fd: OwnedFd,
    resolver: Resolver,
    identity: (u64, u64),
    spelling: Arc<Spelling>,
}

/// The directory a name is looked up in.
pub(super) enum Parent<'a> {
    /// The root itself.
    Root(&'a Root),
    /// A directory below it.
    Below(OwnedFd),
}

impl AsFd for Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Root(root) => root.fd.as_fd(),
            Self::Below(fd) => fd.as_fd(),
        }
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What tells whether a path still leads to the same directory: `st_dev` and `st_ino`.
pub(super) fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

impl Root {
    /// Opens the directory at `path` (whose own symlinks are the administrator's business).
    pub(super) fn pin(path: &Path) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = unless_stale(|| rustix::fs::open(path, flags, Mode::empty()))?;
        let identity = identity(&rustix::fs::fstat(&fd)?);
        let resolver = match resolve_in_kernel(fd.as_fd(), b".", flags, Mode::empty()) {
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => Resolver::Walk,
            _ => Resolver::Kernel,
        };
        Ok(Self { fd, resolver, identity, spelling: Arc::default() })
    }

    /// With keys spelled like this.
    pub(super) fn spelled_by(mut self, spelling: &Arc<Spelling>) -> Self {
        spelling.forget_all();
        self.spelling = Arc::clone(spelling);
        self
    }

    /// How keys are spelled here.
    pub(super) fn spelling(&self) -> &Spelling {
        &self.spelling
    }

    /// `st_dev` and `st_ino` of the root.
    pub(super) fn identity(&self) -> (u64, u64) {
        self.identity
    }

    #[cfg(test)]
    pub(super) fn walking(mut self) -> Self {
        self.resolver = Resolver::Walk;
        self
    }

    /// Opens what is under `key`, without following a symlink anywhere on the way or at the end.
    pub(super) fn open(&self, key: &Key, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        if !flags.contains(OFlags::CREATE) {
            return self.open_spelled(&*self.spelled(key)?, flags, mode);
        }
        let _making = self.spelling.making();
        let spelled = self.spelled(key)?;
        let fd = self.open_spelled(&spelled, flags, mode)?;
        self.is_there(&spelled);
        Ok(fd)
    }

    /// The same for a key as it is spelled.
    pub(super) fn open_spelled(&self, key: &Key, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        unless_stale(|| self.open_once(key, flags, mode))
    }

    fn open_once(&self, key: &Key, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if key.is_root() {
            return openat(&self.fd, ".", flags, mode);
        }
        if self.resolver == Resolver::Kernel && key.as_bytes().len() < LONGEST_PATH {
            return resolve_in_kernel(self.fd.as_fd(), key.as_bytes(), flags, mode);
        }
        self.walk(key, flags, mode)
    }

    /// The directory that holds the last component of a key as it is spelled, and that component (`.` for the root).
    pub(super) fn place<'k>(&self, spelled: &'k Key) -> Result<(Parent<'_>, &'k [u8]), Errno> {
        match spelled.split() {
            None => Ok((Parent::Root(self), b".")),
            Some((parent, name)) if parent.is_root() => Ok((Parent::Root(self), name)),
            Some((parent, name)) => {
                let flags = OFlags::PATH | OFlags::DIRECTORY;
                Ok((Parent::Below(self.open_spelled(&parent, flags, Mode::empty())?), name))
            }
        }
    }

    /// An `O_PATH` descriptor of the directory `key`, for the `*at` calls.
    pub(super) fn directory(&self, key: &Key) -> Result<OwnedFd, Errno> {
        self.open(key, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())
    }

    /// lstat(2) of `key`.
    pub(super) fn stat(&self, key: &Key) -> Result<Stat, Errno> {
        let spelled = self.spelled(key)?;
        unless_stale(|| {
            let (parent, name) = self.place(&spelled)?;
            statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
        })
    }

    /// Makes the directory `key` with everything missing above it; answers how many levels are new.
    pub(super) fn ensure_directory(&self, key: &Key, mode: u32) -> Result<usize, Errno> {
        match self.make_directory(key, mode) {
            Ok(()) => Ok(1),
            Err(Errno::EXIST) => Ok(0),
            Err(Errno::NOENT) => {
                let Some((parent, _)) = key.split() else { return Err(Errno::NOENT) };
                let made = self.ensure_directory(&parent, PARENT_MODE)?;
                match self.make_directory(key, mode) {
                    Ok(()) => Ok(made + 1),
                    Err(Errno::EXIST) => Ok(made),
                    Err(errno) => Err(errno),
                }
            }
            Err(errno) => Err(errno),
        }
    }

    /// fsync(2) of directory `key` and of `levels` directories above it.
    pub(super) fn sync_upwards(&self, key: &Key, levels: usize) -> Result<(), Errno> {
        let mut at = key.clone();
        for _ in 0..=levels {
            let fd = self.open(&at, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
            rustix::fs::fsync(fd)?;
            let Some((parent, _)) = at.split() else { break };
            at = parent;
        }
        Ok(())
    }

    fn make_directory(&self, key: &Key, mode: u32) -> Result<(), Errno> {
        self.making(key, |parent, name| rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(mode)))
    }

    fn walk(&self, key: &Key, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut at: Option<OwnedFd> = None;
        let mut components = key.components().peekable();
        while let Some(name) = components.next() {
            let from = at.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
            if components.peek().is_none() {
                return openat(from, name, flags, mode);
            }
            at = Some(openat(from, name, step, Mode::empty())?);
        }
        Err(Errno::INVAL)
    }
}

/// Looks again where the server says ESTALE: nothing was done then.
pub(super) fn unless_stale<T>(look: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    for _ in 1..STALE_TRIES {
        match look() {
            Err(Errno::STALE) => {}
            other => return other,
        }
    }
    look()
}

fn resolve_in_kernel(root: BorrowedFd<'_>, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let mut tries = 0;
    loop {
        match openat2(root, path, flags, mode, resolve) {
            // With O_NONBLOCK it is a lease in the way, and the caller must hear of it.
            Err(Errno::AGAIN) if tries < RACES && !flags.contains(OFlags::NONBLOCK) => tries += 1,
            other => return other,
        }
    }
}

/// Turns the errno of a parent that is no directory into what a caller asking for a key means:
/// there is no such key.
pub(super) fn missing_if_no_directory(errno: Errno) -> crate::error::Error {
    match errno {
        Errno::NOTDIR => Kind::NotFound.into(),
        other => other.into(),
    }
}
