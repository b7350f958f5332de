//! A share as Azure Files is over SMB: a mirror of a directory that takes what it can't hold with a smile, or refuses it.
//!
//! No user attributes, hard links or special files; one owner and one mode for all; whole seconds; case is kept and
//! folded; Windows' characters, dots and spaces at the end are refused.

use super::mirror::{Mirror, config};
use fuser::{
    BackgroundSession, BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Who owns everything.
const OWNER: u32 = 4711;

/// What it does with a chmod or chown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attributes {
    /// Answers success and keeps what it had.
    Forgotten,
    /// EPERM.
    Refused,
}

/// What the share is like.
#[derive(Clone, Copy, Debug)]
pub struct Manners {
    /// See [`Attributes`].
    pub attributes: Attributes,
    /// The grain of its times.
    pub grain: Grain,
    /// Every so many look-ups and opens one is ESTALE; 0 for none.
    pub stale_every: u64,
}

/// The grain of a share's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    Second,
    /// 100 ns.
    Tick,
}

impl Default for Manners {
    fn default() -> Self {
        Self { attributes: Attributes::Forgotten, grain: Grain::Second, stale_every: 0 }
    }
}

/// A poor share, served by this process; unmounted when dropped.
pub struct PoorShare {
    behind: PathBuf,
    path: PathBuf,
    _session: BackgroundSession,
}

impl PoorShare {
    /// Mounted at `path`, a directory; its files are in another beside it.
    pub fn at(path: &Path, manners: Manners) -> Self {
        let behind = path.with_extension("behind");
        fs::create_dir(&behind).expect("mkdir");
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&behind, flags, Mode::empty()).expect("a directory");
        let shape = match manners.grain {
            Grain::Second => shape::<1_000_000_000>,
            Grain::Tick => shape::<100>,
        };
        let mirror = Mirror::new(root).shaped(shape);
        let share = Poor { mirror, manners, calls: AtomicU64::new(0), listings: Mutex::default() };
        let session = fuser::spawn_mount(share, path, &config("poor")).expect("a mount");
        Self { behind, path: path.to_owned(), _session: session }
    }

    /// What is stored, below `relative`: all but what is tierfs' own, sorted.
    pub fn stored(&self, relative: &str) -> Vec<String> {
        let mut names = super::site::files_below(&self.behind.join(relative));
        names.retain(|name| !name.starts_with(".tierfs/"));
        names
    }

    /// Where the server itself has `stored`.
    pub fn behind(&self, stored: &str) -> PathBuf {
        self.behind.join(stored)
    }
}

impl Drop for PoorShare {
    fn drop(&mut self) {
        super::mount::detach(&self.path);
    }
}

fn shape<const GRAIN: u64>(attr: &mut FileAttr) {
    attr.perm = if attr.kind == FileType::Symlink { attr.perm } else { 0o777 };
    (attr.uid, attr.gid, attr.nlink) = (OWNER, OWNER, attr.nlink.min(1));
    for time in [&mut attr.atime, &mut attr.mtime, &mut attr.ctime] {
        let nanos = u64::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos());
        let nanos = nanos.unwrap_or(0);
        *time = UNIX_EPOCH + Duration::from_nanos(nanos - nanos % GRAIN);
    }
}

/// Inode number, kind and name of what is in a directory.
type Listing = Vec<(u64, FileType, Vec<u8>)>;

struct Poor {
    mirror: Mirror,
    manners: Manners,
    calls: AtomicU64,
    /// Open directories as they were when they were opened.
    listings: Mutex<HashMap<u64, Listing>>,
}

fn fold(name: &OsStr) -> String {
    name.to_string_lossy().to_uppercase()
}

fn is_refused(name: &OsStr) -> bool {
    name.to_str().is_none_or(|name| {
        name.chars().any(|letter| letter < ' ' || "\"*:<>?|\\".contains(letter)) || name.ends_with(['.', ' '])
    })
}

impl Poor {
    /// The name of what is there, whatever its case.
    fn there(&self, parent: INodeNo, name: &OsStr) -> std::io::Result<Option<OsString>> {
        let fd = self.mirror.fd(parent)?;
        if rustix::fs::statat(&*fd, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            return Ok(Some(name.to_owned()));
        }
        let wanted = fold(name);
        let names = self.mirror.entries(parent)?.into_iter().map(|(_, _, name)| OsString::from_vec(name));
        Ok(names.into_iter().find(|found| fold(found) == wanted))
    }

    /// The same for what must be there.
    fn known(&self, parent: INodeNo, name: &OsStr) -> Result<OsString, Errno> {
        if is_refused(name) {
            return Err(Errno::ENOENT);
        }
        self.there(parent, name).map_err(Errno::from)?.ok_or(Errno::ENOENT)
    }

    /// That nothing is there, and something can be.
    fn free(&self, parent: INodeNo, name: &OsStr) -> Result<(), Errno> {
        if is_refused(name) {
            return Err(Errno::EINVAL);
        }
        match self.there(parent, name).map_err(Errno::from)? {
            Some(_) => Err(Errno::EEXIST),
            None => Ok(()),
        }
    }

    fn stale(&self) -> Result<(), Errno> {
        let every = self.manners.stale_every;
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if every > 0 && call.is_multiple_of(every) { Err(Errno::ESTALE) } else { Ok(()) }
    }

    fn target(
        &self,
        from: (INodeNo, &OsStr),
        to: (INodeNo, &OsStr),
        flags: RenameFlags,
    ) -> Result<(OsString, OsString), Errno> {
        let source = self.known(from.0, from.1)?;
        if is_refused(to.1) || !(flags - RenameFlags::RENAME_NOREPLACE).is_empty() {
            return Err(Errno::EINVAL);
        }
        match self.there(to.0, to.1).map_err(Errno::from)? {
            // Only its case changes.
            Some(found) if (from.0, &source) == (to.0, &found) => Ok((source, to.1.to_owned())),
            Some(_) if flags.contains(RenameFlags::RENAME_NOREPLACE) => Err(Errno::EEXIST),
            Some(found) => Ok((source, found)),
            None => Ok((source, to.1.to_owned())),
        }
    }
}

macro_rules! or_answer {
    ($result:expr, $reply:ident) => {
        match $result {
            Ok(value) => value,
            Err(errno) => return $reply.error(errno),
        }
    };
}

impl Filesystem for Poor {
    fn init(&mut self, request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        self.mirror.init(request, config)
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        or_answer!(self.stale(), reply);
        let known = or_answer!(self.known(parent, name), reply);
        self.mirror.lookup(request, parent, &known, reply);
    }

    fn forget(&self, request: &Request, ino: INodeNo, count: u64) {
        self.mirror.forget(request, ino, count);
    }

    fn getattr(&self, request: &Request, ino: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        self.mirror.getattr(request, ino, handle, reply);
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let is_refusing = self.manners.attributes == Attributes::Refused;
        let is_link = self.mirror.fd(ino).and_then(|fd| Ok(rustix::fs::fstat(&*fd)?));
        let is_link = is_link.is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFLNK);
        let changes_owner = uid.is_some() || gid.is_some();
        if (changes_owner || mode.is_some()) && is_refusing || changes_owner && is_link {
            return reply.error(Errno::EPERM);
        }
        let flags = None;
        self.mirror.setattr(
            request, ino, None, None, None, size, atime, mtime, None, handle, None, None, None, flags, reply,
        );
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        or_answer!(self.free(parent, name), reply);
        self.mirror.mkdir(request, parent, name, 0o777, 0, reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        or_answer!(self.free(parent, name), reply);
        self.mirror.symlink(request, parent, name, target, reply);
    }

    fn readlink(&self, request: &Request, ino: INodeNo, reply: ReplyData) {
        self.mirror.readlink(request, ino, reply);
    }

    fn mknod(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::EOPNOTSUPP);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let known = or_answer!(self.known(parent, name), reply);
        self.mirror.unlink(request, parent, &known, reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let known = or_answer!(self.known(parent, name), reply);
        self.mirror.rmdir(request, parent, &known, reply);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = or_answer!(self.target((parent, name), (new_parent, new_name), flags), reply);
        self.mirror.rename(request, parent, &from, new_parent, &to, RenameFlags::empty(), reply);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        if is_refused(name) {
            return reply.error(Errno::EINVAL);
        }
        let there = or_answer!(self.there(parent, name).map_err(Errno::from), reply);
        let name = there.as_deref().unwrap_or(name);
        self.mirror.create(request, parent, name, 0o777, 0, flags, reply);
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        or_answer!(self.stale(), reply);
        self.mirror.open(request, ino, flags, reply);
    }

    fn read(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.mirror.read(request, ino, handle, offset, size, flags, owner, reply);
    }

    fn write(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.mirror.write(request, ino, handle, offset, data, write_flags, flags, owner, reply);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        flags: OpenFlags,
        owner: Option<LockOwner>,
        flush: bool,
        reply: ReplyEmpty,
    ) {
        self.mirror.release(request, ino, handle, flags, owner, flush, reply);
    }

    fn fsync(&self, request: &Request, ino: INodeNo, handle: FileHandle, data: bool, reply: ReplyEmpty) {
        self.mirror.fsync(request, ino, handle, data, reply);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let entries = or_answer!(self.mirror.entries(ino).map_err(Errno::from), reply);
        let handle = self.calls.fetch_add(1, Ordering::Relaxed);
        self.listings.lock().insert(handle, entries);
        reply.opened(FileHandle(handle), fuser::FopenFlags::empty());
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let listings = self.listings.lock();
        let Some(entries) = listings.get(&handle.0) else { return reply.error(Errno::EBADF) };
        for (at, (ino, kind, name)) in entries.iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(*ino), at as u64 + 1, *kind, OsStr::from_bytes(name)) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.listings.lock().remove(&handle.0);
        reply.ok();
    }

    fn statfs(&self, request: &Request, ino: INodeNo, reply: ReplyStatfs) {
        self.mirror.statfs(request, ino, reply);
    }
}
