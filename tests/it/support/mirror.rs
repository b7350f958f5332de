//! A FUSE daemon that mirrors one directory and does nothing else: the floor that FUSE itself sets, and what stands
//! under a poor share.
//!
//! No catalog, no passthrough, no write-back cache; the same kernel options as tierfs in ordinary mode.
//! It serves what benchmarks and the share need, not more.

use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};
use parking_lot::RwLock;
use rustix::fs::{AtFlags, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, openat};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const TTL: Duration = Duration::from_secs(60);

/// Mirrors `source` at `mountpoint` until it is unmounted.
pub fn run(source: &Path, mountpoint: &Path) -> io::Result<()> {
    let root = rustix::fs::open(source, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
    fuser::mount(Mirror::new(root), mountpoint, &config("null"))
}

/// How it is mounted.
pub fn config(name: &str) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName(name.into()), MountOption::DefaultPermissions];
    config.n_threads = Some(std::thread::available_parallelism().map_or(4, |n| n.get().max(4)));
    config.clone_fd = true;
    config
}

struct Node {
    fd: Arc<OwnedFd>,
    lookups: AtomicU64,
}

/// The mirrored directory.
pub struct Mirror {
    nodes: RwLock<HashMap<u64, Node>>,
    handles: RwLock<HashMap<u64, Arc<File>>>,
    next_handle: AtomicU64,
    root_ino: u64,
    ttl: Duration,
    shape: fn(&mut FileAttr),
}

impl Mirror {
    /// Of this directory.
    pub fn new(root: OwnedFd) -> Self {
        let root_ino = rustix::fs::fstat(&root).map_or(0, |stat| stat.st_ino);
        let root = Node { fd: Arc::new(root), lookups: AtomicU64::new(1) };
        Self {
            nodes: RwLock::new(HashMap::from([(INodeNo::ROOT.0, root)])),
            handles: RwLock::default(),
            next_handle: AtomicU64::new(1),
            root_ino,
            ttl: TTL,
            shape: |_| {},
        }
    }

    /// The same with other attributes, and names and attributes that the kernel asks for each time.
    pub fn shaped(self, shape: fn(&mut FileAttr)) -> Self {
        Self { shape, ttl: Duration::ZERO, ..self }
    }

    /// The file or directory itself, as an `O_PATH` descriptor.
    pub fn fd(&self, ino: INodeNo) -> io::Result<Arc<OwnedFd>> {
        let nodes = self.nodes.read();
        nodes.get(&ino.0).map(|node| Arc::clone(&node.fd)).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn file(&self, handle: FileHandle) -> io::Result<Arc<File>> {
        self.handles.read().get(&handle.0).cloned().ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
    }

    fn add_handle(&self, file: Arc<File>) -> FileHandle {
        let handle = self.next_handle.fetch_add(1, Ordering::Relaxed);
        self.handles.write().insert(handle, file);
        FileHandle(handle)
    }

    fn attr(&self, stat: &Stat) -> FileAttr {
        let ino = if stat.st_ino == self.root_ino { INodeNo::ROOT.0 } else { stat.st_ino };
        let time = |seconds: i64, nanos: u64| {
            UNIX_EPOCH + Duration::new(u64::try_from(seconds).unwrap_or(0), u32::try_from(nanos).unwrap_or(0))
        };
        let mut attr = FileAttr {
            ino: INodeNo(ino),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            blocks: u64::try_from(stat.st_blocks).unwrap_or(0),
            atime: time(stat.st_atime, stat.st_atime_nsec),
            mtime: time(stat.st_mtime, stat.st_mtime_nsec),
            ctime: time(stat.st_ctime, stat.st_ctime_nsec),
            crtime: UNIX_EPOCH,
            kind: kind(stat.st_mode),
            perm: (stat.st_mode & 0o7777) as u16,
            nlink: u32::try_from(stat.st_nlink).unwrap_or(1),
            uid: stat.st_uid,
            gid: stat.st_gid,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        };
        (self.shape)(&mut attr);
        attr
    }

    fn remember(&self, stat: &Stat, fd: impl FnOnce() -> Arc<OwnedFd>) -> FileAttr {
        let attr = self.attr(stat);
        if let Some(node) = self.nodes.read().get(&attr.ino.0) {
            node.lookups.fetch_add(1, Ordering::Relaxed);
            return attr;
        }
        let mut nodes = self.nodes.write();
        let node = nodes.entry(attr.ino.0).or_insert_with(|| Node { fd: fd(), lookups: AtomicU64::new(0) });
        node.lookups.fetch_add(1, Ordering::Relaxed);
        attr
    }

    fn look_up(&self, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        let fd = openat(
            &*self.fd(parent)?,
            name,
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let stat = rustix::fs::fstat(&fd)?;
        Ok(self.remember(&stat, || Arc::new(fd)))
    }

    fn reopen(&self, ino: INodeNo, flags: OFlags) -> io::Result<OwnedFd> {
        let path = format!("/proc/self/fd/{}", self.fd(ino)?.as_raw_fd());
        Ok(rustix::fs::open(path, (flags | OFlags::CLOEXEC) - OFlags::NOFOLLOW, Mode::empty())?)
    }

    fn create_file(
        &self,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        flags: i32,
    ) -> io::Result<(FileAttr, FileHandle)> {
        let flags = OFlags::from_bits_truncate(flags as u32) | OFlags::CREATE | OFlags::CLOEXEC;
        let fd = openat(&*self.fd(parent)?, name, flags, Mode::from_raw_mode(mode & 0o7777))?;
        let stat = rustix::fs::fstat(&fd)?;
        let file = Arc::new(File::from(fd));
        // A second descriptor, since the node may outlive the handle and the other way round.
        let node = Arc::new(OwnedFd::from(file.try_clone()?));
        Ok((self.remember(&stat, || node), self.add_handle(file)))
    }

    fn change(
        &self,
        ino: INodeNo,
        handle: Option<FileHandle>,
        size: Option<u64>,
        mode: Option<u32>,
        times: [Option<TimeOrNow>; 2],
    ) -> io::Result<FileAttr> {
        if let Some(size) = size {
            match handle.map(|handle| self.file(handle)).transpose()? {
                Some(file) => file.set_len(size)?,
                None => File::from(self.reopen(ino, OFlags::WRONLY)?).set_len(size)?,
            }
        }
        if let Some(mode) = mode {
            let path = format!("/proc/self/fd/{}", self.fd(ino)?.as_raw_fd());
            rustix::fs::chmod(path, Mode::from_raw_mode(mode & 0o7777))?;
        }
        if times.iter().any(Option::is_some) {
            let [last_access, last_modification] = times.map(timespec);
            let times = Timestamps { last_access, last_modification };
            rustix::fs::utimensat(&*self.fd(ino)?, "", &times, AtFlags::EMPTY_PATH)?;
        }
        Ok(self.attr(&rustix::fs::fstat(&*self.fd(ino)?)?))
    }

    /// What is in a directory.
    pub fn entries(&self, ino: INodeNo) -> io::Result<Vec<(u64, FileType, Vec<u8>)>> {
        let mut stream = rustix::fs::Dir::new(self.reopen(ino, OFlags::RDONLY | OFlags::DIRECTORY)?)?;
        let mut entries = Vec::new();
        while let Some(entry) = stream.read() {
            let entry = entry?;
            let kind = match entry.file_type() {
                rustix::fs::FileType::Directory => FileType::Directory,
                rustix::fs::FileType::Symlink => FileType::Symlink,
                _ => FileType::RegularFile,
            };
            entries.push((entry.ino(), kind, entry.file_name().to_bytes().to_vec()));
        }
        Ok(entries)
    }
}

fn kind(mode: u32) -> FileType {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFLNK => FileType::Symlink,
        _ => FileType::RegularFile,
    }
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => {
            let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
            Timespec {
                tv_sec: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(since.subsec_nanos()),
            }
        }
    }
}

/// Answers an empty reply.
pub fn finish(result: io::Result<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(Errno::from(error)),
    }
}

impl Filesystem for Mirror {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for flag in
            [InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_PARALLEL_DIROPS, InitFlags::FUSE_ATOMIC_O_TRUNC]
        {
            // An older kernel without it is measured without it.
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_write(1 << 20);
        let _ = config.set_max_readahead(4 << 20);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.look_up(parent, name) {
            Ok(attr) => reply.entry(&self.ttl, &attr, Generation(0)),
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn forget(&self, _: &Request, ino: INodeNo, count: u64) {
        let mut nodes = self.nodes.write();
        if ino != INodeNo::ROOT
            && nodes.get(&ino.0).is_some_and(|node| node.lookups.fetch_sub(count, Ordering::Relaxed) <= count)
        {
            nodes.remove(&ino.0);
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.fd(ino).and_then(|fd| Ok(rustix::fs::fstat(&*fd)?)) {
            Ok(stat) => reply.attr(&self.ttl, &self.attr(&stat)),
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
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
        match self.change(ino, handle, size, mode, [atime, mtime]) {
            Ok(attr) => reply.attr(&self.ttl, &attr),
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let made = self
            .fd(parent)
            .and_then(|fd| Ok(rustix::fs::mkdirat(&*fd, name, Mode::from_raw_mode(mode & !umask))?));
        match made.and_then(|()| self.look_up(parent, name)) {
            Ok(attr) => reply.entry(&self.ttl, &attr, Generation(0)),
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn symlink(&self, _: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let made = self.fd(parent).and_then(|fd| Ok(rustix::fs::symlinkat(target, &*fd, name)?));
        match made.and_then(|()| self.look_up(parent, name)) {
            Ok(attr) => reply.entry(&self.ttl, &attr, Generation(0)),
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.fd(ino).and_then(|fd| Ok(rustix::fs::readlinkat(&*fd, "", Vec::new())?)) {
            Ok(target) => reply.data(target.as_bytes()),
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let gone = self.fd(parent).and_then(|fd| Ok(rustix::fs::unlinkat(&*fd, name, AtFlags::empty())?));
        finish(gone, reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let gone = self.fd(parent).and_then(|fd| Ok(rustix::fs::unlinkat(&*fd, name, AtFlags::REMOVEDIR)?));
        finish(gone, reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        let renamed = self.fd(parent).and_then(|from| {
            let to = self.fd(new_parent)?;
            Ok(rustix::fs::renameat_with(&*from, name, &*to, new_name, flags)?)
        });
        finish(renamed, reply);
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        match self.create_file(parent, name, mode & !umask, flags) {
            Ok((attr, handle)) => {
                reply.created(&self.ttl, &attr, Generation(0), handle, FopenFlags::FOPEN_KEEP_CACHE)
            }
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.reopen(ino, OFlags::from_bits_truncate(flags.0 as u32)) {
            Ok(fd) => reply.opened(self.add_handle(Arc::new(File::from(fd))), FopenFlags::FOPEN_KEEP_CACHE),
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        thread_local!(static BUFFER: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) });
        BUFFER.with_borrow_mut(|buffer| {
            buffer.resize(buffer.len().max(size as usize), 0);
            match self.file(handle).and_then(|file| file.read_at(&mut buffer[..size as usize], offset)) {
                Ok(length) => reply.data(&buffer[..length]),
                Err(error) => reply.error(Errno::from(error)),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.file(handle).and_then(|file| file.write_at(data, offset)) {
            Ok(length) => reply.written(length as u32),
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.handles.write().remove(&handle.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        finish(self.file(handle).and_then(|file| file.sync_all()), reply);
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        match self.entries(ino) {
            Ok(entries) => {
                for (at, (ino, kind, name)) in entries.into_iter().enumerate().skip(offset as usize) {
                    if reply.add(INodeNo(ino), at as u64 + 1, kind, OsStr::from_bytes(&name)) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(1 << 30, 1 << 30, 1 << 30, 1 << 30, 1 << 30, 4096, 255, 4096);
    }
}
