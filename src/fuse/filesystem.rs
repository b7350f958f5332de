//! Every request of the kernel: decode, one vfs call, reply.

use super::convert::{caller, file_attr, file_type, rename_mode, time_change};
use super::dispatch::{Refuse, Shared, refuse};
use crate::error::{Kind, Result};
use crate::types::{AttrChange, Ids, Ino};
use crate::vfs::{self, Close, Entry, More, Opened, ReadAnswer, SetAttr, Wanted};
use fuser::{
    AccessFlags, BackingId, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// Largest read and write of one request.
const MAX_IO: u32 = 1 << 20;
/// Read-ahead and asynchronous writes that the kernel may have under way.
const MAX_BACKGROUND: u16 = 64;
/// Inode numbers are never used again, so there is only one generation of each.
const GENERATION: Generation = Generation(0);
/// Block size of statfs.
const BLOCK: u32 = 4096;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The file system as fuser sees it.
pub struct Mount(Arc<Shared>);

impl Mount {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }
}

fn ino(number: INodeNo) -> Ino {
    Ino(number.0)
}

fn handle(number: FileHandle) -> vfs::FileHandle {
    vfs::FileHandle(number.0)
}

fn entry(_: &Shared, reply: ReplyEntry, entry: Entry) {
    reply.entry(&entry.ttl, &file_attr(&entry.attr), GENERATION);
}

fn done(_: &Shared, reply: ReplyEmpty, (): ()) {
    reply.ok();
}

/// A reply that can register a backing file with the kernel.
trait OpensBacking {
    fn open_backing(&self, file: &std::fs::File) -> io::Result<BackingId>;
}

impl OpensBacking for ReplyOpen {
    fn open_backing(&self, file: &std::fs::File) -> io::Result<BackingId> {
        Self::open_backing(self, file.as_fd())
    }
}

impl OpensBacking for ReplyCreate {
    fn open_backing(&self, file: &std::fs::File) -> io::Result<BackingId> {
        Self::open_backing(self, file.as_fd())
    }
}

impl Shared {
    /// The backing id of what was opened; none: ordinary I/O.
    fn backing(&self, reply: &impl OpensBacking, opened: &Opened) -> Option<Arc<BackingId>> {
        let file = opened.passthrough.as_ref()?;
        let mut backings = self.backings.lock();
        if let Some(known) = backings.get(&opened.id) {
            return Some(known.clone());
        }
        match reply.open_backing(file) {
            Ok(id) => {
                let id = Arc::new(id);
                backings.insert(opened.id, id.clone());
                Some(id)
            }
            Err(error) => {
                drop(backings);
                tracing::debug!(%error, "the kernel can't pass this file through; it is served by the daemon");
                self.vfs.serve_ordinarily(opened.handle);
                None
            }
        }
    }
}

fn open_flags(opened: &Opened, backing: Option<&Arc<BackingId>>) -> FopenFlags {
    let mut flags = FopenFlags::empty();
    // The kernel's own pages are no part of passthrough.
    flags.set(FopenFlags::FOPEN_KEEP_CACHE, opened.keep_cache && backing.is_none());
    flags.set(FopenFlags::FOPEN_NOFLUSH, is_silent(opened.close, backing));
    flags
}

fn is_silent(close: Close, backing: Option<&Arc<BackingId>>) -> bool {
    match close {
        Close::Told => false,
        Close::SilentIfPassthrough => backing.is_some(),
        Close::Silent => true,
    }
}

fn answer_open(shared: &Shared, reply: ReplyOpen, opened: Opened) {
    let number = FileHandle(opened.handle.0);
    let backing = shared.backing(&reply, &opened);
    let flags = open_flags(&opened, backing.as_ref());
    match backing {
        Some(backing) => reply.opened_passthrough(number, flags, &backing),
        None => reply.opened(number, flags),
    }
}

impl fuser::Filesystem for Mount {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // What the kernel does not offer is done without. Never FUSE_OVER_IO_URING: fuser has no
        // transport for it.
        for wanted in [
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_CACHE_SYMLINKS,
            // Else every write of the kernel asks for security.capability first.
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ] {
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_write(MAX_IO);
        let _ = config.set_max_readahead(MAX_IO);
        let _ = config.set_max_background(MAX_BACKGROUND);
        if self.0.vfs.io_mode() == vfs::IoMode::Passthrough
            && (config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_err()
                || config.set_max_stack_depth(1).is_err())
        {
            tracing::warn!("this kernel has no FUSE passthrough; all bytes go through the daemon");
            self.0.vfs.use_ordinary_mode();
        }
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.as_bytes().to_vec();
        self.0.run(request, reply, move |vfs, caller| vfs.lookup(caller, ino(parent), &name), entry);
    }

    fn forget(&self, _: &Request, number: INodeNo, count: u64) {
        self.0.forget(ino(number), count);
    }

    fn getattr(&self, request: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.0.run(
            request,
            reply,
            move |vfs, caller| vfs.getattr(caller, ino(number)),
            |_, reply, (attr, ttl)| reply.attr(&ttl, &file_attr(&attr)),
        );
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = AttrChange {
            mode: mode.map(|mode| mode & 0o7777),
            uid,
            gid,
            atime: atime.map(time_change),
            mtime: mtime.map(time_change),
        };
        let wanted = SetAttr { change, size, handle: fh.map(handle) };
        self.0.act(
            request,
            reply,
            move |vfs, caller| vfs.set_attr(caller, ino(number), wanted.clone()),
            |_, reply, (attr, ttl)| reply.attr(&ttl, &file_attr(&attr)),
        );
    }

    fn readlink(&self, request: &Request, number: INodeNo, reply: ReplyData) {
        self.0.run(
            request,
            reply,
            move |vfs, caller| vfs.read_link(caller, ino(number)),
            |_, reply, target| reply.data(&target),
        );
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let name = name.as_bytes().to_vec();
        self.0.act(
            request,
            reply,
            move |vfs, caller| vfs.mknod(caller, ino(parent), &name, mode, rdev),
            entry,
        );
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let name = name.as_bytes().to_vec();
        self.0.act(request, reply, move |vfs, caller| vfs.mkdir(caller, ino(parent), &name, mode), entry);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.as_bytes().to_vec();
        self.0.act(request, reply, move |vfs, _| vfs.unlink(ino(parent), &name), done);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.as_bytes().to_vec();
        self.0.act(request, reply, move |vfs, caller| vfs.rmdir(caller, ino(parent), &name), done);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let name = name.as_bytes().to_vec();
        let target = target.as_os_str().as_bytes().to_vec();
        self.0.act(
            request,
            reply,
            move |vfs, caller| vfs.symlink(caller, ino(parent), &name, &target),
            entry,
        );
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
        let Some(mode) = rename_mode(flags) else { return reply.refuse(Errno::EINVAL) };
        let (name, new_name) = (name.as_bytes().to_vec(), new_name.as_bytes().to_vec());
        self.0.act(
            request,
            reply,
            move |vfs, caller| vfs.rename(caller, (ino(parent), &name), (ino(new_parent), &new_name), mode),
            done,
        );
    }

    fn link(&self, request: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.as_bytes().to_vec();
        self.0.act(request, reply, move |vfs, _| vfs.link(ino(number), ino(parent), &name), entry);
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let call = move |vfs: &vfs::Vfs, caller: &vfs::Caller| vfs.open(caller, ino(number), flags.0);
        match flags.acc_mode() {
            OpenAccMode::O_RDONLY if flags.0 & libc::O_TRUNC == 0 => {
                self.0.run(request, reply, call, answer_open);
            }
            _ => self.0.act_in_room(request, reply, Wanted::File(ino(number)), call, answer_open),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let name = name.as_bytes().to_vec();
        self.0.act_in_room(
            request,
            reply,
            Wanted::Name(ino(parent), name.clone(), Ids { uid: request.uid(), gid: request.gid() }),
            move |vfs, caller| vfs.create(caller, ino(parent), &name, mode, flags),
            |shared, reply, (entry, opened)| {
                let number = FileHandle(opened.handle.0);
                let attr = file_attr(&entry.attr);
                let backing = shared.backing(&reply, &opened);
                let flags = open_flags(&opened, backing.as_ref());
                match backing {
                    Some(backing) => {
                        reply.created_passthrough(&entry.ttl, &attr, GENERATION, number, flags, &backing);
                    }
                    None => reply.created(&entry.ttl, &attr, GENERATION, number, flags),
                }
            },
        );
    }

    fn read(
        &self,
        request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let size = size as usize;
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            match self.0.at_once(|| self.0.vfs.read(handle(fh), offset, &mut buffer[..size])) {
                Ok(ReadAnswer::Ready(count)) => reply.data(&buffer[..count]),
                Ok(ReadAnswer::Later(reader)) => {
                    let shared = self.0.clone();
                    self.0.runtime.spawn(async move {
                        match shared.stream(handle(fh), reader, offset, size).await {
                            Ok(bytes) => reply.data(&bytes),
                            Err(error) => refuse(reply, &error),
                        }
                    });
                }
                Ok(ReadAnswer::Patched(file)) => {
                    self.0.runtime.spawn(async move {
                        match file.read(offset, size).await {
                            Ok(bytes) => reply.data(&bytes),
                            Err(error) => refuse(reply, &error),
                        }
                    });
                }
                Err(error) if error.kind() == Kind::WouldBlock => {
                    let read =
                        move |vfs: &vfs::Vfs, _: &vfs::Caller| vfs.read_apart(handle(fh), offset, size);
                    self.0.run_apart(request, reply, read, |_, reply, bytes| reply.data(&bytes));
                }
                Err(error) => refuse(reply, &error),
            }
        });
    }

    fn write(
        &self,
        request: &Request,
        number: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let caller = caller(request, vfs::Wait::Allowed);
        let mapped = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let kills = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let write = move |vfs: &vfs::Vfs, caller: &vfs::Caller, data: &[u8]| -> Result<usize> {
            // Nobody would write the rest of a mapping's pages again.
            let written = match mapped {
                true => vfs.write_all(handle(fh), offset, data)?,
                false => vfs.write(handle(fh), offset, data)?,
            };
            if kills {
                vfs.drop_set_id(caller, ino(number))?;
            }
            Ok(written)
        };
        // A request is at most `MAX_IO` long.
        let answer = |_: &Shared, reply: ReplyWrite, written| reply.written(written as u32);
        match self.0.at_once(|| write(&self.0.vfs, &caller, data)) {
            Ok(written) => answer(&self.0, reply, written),
            Err(error) if error.kind() == Kind::WouldBlock => {
                let data = data.to_vec();
                let again = move |vfs: &vfs::Vfs, caller: &vfs::Caller| write(vfs, caller, &data);
                self.0.run_apart(request, reply, again, answer);
            }
            Err(error) => refuse(reply, &error),
        }
    }

    fn flush(&self, request: &Request, _ino: INodeNo, fh: FileHandle, _lock: LockOwner, reply: ReplyEmpty) {
        let pid = request.pid();
        self.0.act(
            request,
            reply,
            move |vfs, caller| vfs.flush(caller, handle(fh)),
            move |shared, reply, pending| shared.at_home(pid, reply, pending),
        );
    }

    fn release(
        &self,
        request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.0.act(
            request,
            reply,
            move |vfs, caller| vfs.release(caller, handle(fh)),
            |shared, reply, released| {
                let backing = released.closed.and_then(|id| shared.backings.lock().remove(&id));
                drop(backing);
                if let Some(ino) = released.settle {
                    shared.settle(ino);
                }
                reply.ok();
            },
        );
    }

    fn fsync(&self, request: &Request, _ino: INodeNo, fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        let pid = request.pid();
        self.0.run_apart(
            request,
            reply,
            move |vfs, _| vfs.fsync(handle(fh)),
            move |shared, reply, pending| shared.at_home(pid, reply, pending),
        );
    }

    fn opendir(&self, request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        self.0.run(
            request,
            reply,
            move |vfs, _| vfs.open_directory(ino(number)),
            |_, reply, handle| reply.opened(FileHandle(handle.0), FopenFlags::empty()),
        );
    }

    fn readdir(&self, request: &Request, _ino: INodeNo, fh: FileHandle, offset: u64, reply: ReplyDirectory) {
        self.0.run(
            request,
            reply,
            move |vfs, caller| vfs.refresh_listing(caller, handle(fh), offset),
            move |shared, mut reply, ()| {
                let listed = shared.vfs.list_names(handle(fh), offset, &mut |name| {
                    let full = reply.add(
                        INodeNo(name.ino.0),
                        name.cookie,
                        file_type(name.kind),
                        OsStr::from_bytes(name.name),
                    );
                    if full { More::Full } else { More::Yes }
                });
                match listed {
                    Ok(()) => reply.ok(),
                    Err(error) => refuse(reply, &error),
                }
            },
        );
    }

    fn readdirplus(
        &self,
        request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        self.0.run(
            request,
            reply,
            move |vfs, caller| vfs.refresh_listing(caller, handle(fh), offset),
            move |shared, mut reply, ()| {
                let mut add = |cookie, name: &[u8], entry: &Entry| {
                    let attr = file_attr(&entry.attr);
                    let full =
                        reply.add(attr.ino, cookie, OsStr::from_bytes(name), &entry.ttl, &attr, GENERATION);
                    if full { More::Full } else { More::Yes }
                };
                let listed = shared.at_once(|| shared.vfs.list_entries(handle(fh), offset, &mut add));
                match listed {
                    Ok(()) => reply.ok(),
                    Err(error) => refuse(reply, &error),
                }
            },
        );
    }

    fn releasedir(&self, _: &Request, _ino: INodeNo, fh: FileHandle, _flags: OpenFlags, reply: ReplyEmpty) {
        self.0.vfs.release_directory(handle(fh));
        reply.ok();
    }

    fn fsyncdir(
        &self,
        request: &Request,
        number: INodeNo,
        _: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        let pid = request.pid();
        self.0.run_apart(
            request,
            reply,
            move |vfs, _| vfs.fsync_directory(ino(number)),
            move |shared, reply, pending| shared.at_home(pid, reply, pending),
        );
    }

    fn statfs(&self, request: &Request, number: INodeNo, reply: ReplyStatfs) {
        self.0.run(
            request,
            reply,
            move |vfs, _| vfs.statfs(ino(number)),
            |_, reply, usage| {
                let (blocks, free) = (usage.total / u64::from(BLOCK), usage.free / u64::from(BLOCK));
                reply.statfs(blocks, free, free, usage.files, usage.files_free, BLOCK, 255, BLOCK);
            },
        );
    }

    fn setxattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let (name, value) = (name.as_bytes().to_vec(), value.to_vec());
        self.0.act(request, reply, move |vfs, _| vfs.set_xattr(ino(number), &name, &value, flags), done);
    }

    fn getxattr(&self, request: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let name = name.as_bytes().to_vec();
        self.0.run(
            request,
            reply,
            move |vfs, caller| vfs.xattr(caller, ino(number), &name),
            move |_, reply, value| answer_xattr(reply, size, &value),
        );
    }

    fn listxattr(&self, request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        self.0.run(
            request,
            reply,
            move |vfs, _| vfs.xattr_names(ino(number)),
            move |_, reply, names| answer_xattr(reply, size, &names),
        );
    }

    fn removexattr(&self, request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.as_bytes().to_vec();
        self.0.act(request, reply, move |vfs, _| vfs.remove_xattr(ino(number), &name), done);
    }

    /// The kernel checks permissions itself (`default_permissions`).
    fn access(&self, _: &Request, _ino: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fallocate(
        &self,
        request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.0.act(request, reply, move |vfs, _| vfs.fallocate(handle(fh), mode, offset, length), done);
    }

    fn lseek(
        &self,
        request: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let Ok(from) = u64::try_from(offset) else { return reply.refuse(Errno::ENXIO) };
        self.0.run(
            request,
            reply,
            move |vfs, _| vfs.seek(handle(fh), from, whence),
            |_, reply, at| reply.offset(i64::try_from(at).unwrap_or(i64::MAX)),
        );
    }

    fn copy_file_range(
        &self,
        request: &Request,
        _ino_in: INodeNo,
        fh_in: FileHandle,
        offset_in: u64,
        _ino_out: INodeNo,
        fh_out: FileHandle,
        offset_out: u64,
        length: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let (from, to) = ((handle(fh_in), offset_in), (handle(fh_out), offset_out));
        self.0.run_apart(
            request,
            reply,
            move |vfs, _| vfs.copy_range(from, to, length),
            |_, reply, copied| reply.written(u32::try_from(copied).unwrap_or(u32::MAX)),
        );
    }
}

fn answer_xattr(reply: ReplyXattr, size: u32, value: &[u8]) {
    if size == 0 {
        // The kernel takes no value over 64 KiB.
        reply.size(value.len() as u32);
    } else if value.len() > size as usize {
        reply.error(Errno::ERANGE);
    } else {
        reply.data(value);
    }
}
