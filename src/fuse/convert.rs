//! Between fuser's types and ours.

use crate::error::Error;
use crate::tier::RenameMode;
use crate::types::{Attr, FileKind, TimeChange};
use crate::vfs::{Caller, Wait};
use fuser::{Errno, FileAttr, FileType, INodeNo, RenameFlags, Request, TimeOrNow};

/// What a program is told as the best size of one transfer: a block of the reader's cache.
const BLOCK_SIZE: u32 = 1 << 20;

/// Who asks.
pub fn caller(request: &Request, wait: Wait) -> Caller {
    Caller { uid: request.uid(), gid: request.gid(), pid: request.pid(), wait }
}

pub fn errno(error: &Error) -> Errno {
    Errno::from_i32(error.errno())
}

pub fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

pub fn file_attr(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.ino.0),
        size: attr.size,
        blocks: attr.blocks,
        atime: attr.atime.into(),
        mtime: attr.mtime.into(),
        ctime: attr.ctime.into(),
        crtime: attr.btime.into(),
        kind: file_type(attr.kind),
        perm: (attr.mode & 0o7777) as u16,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: BLOCK_SIZE,
        flags: 0,
    }
}

pub fn time_change(time: TimeOrNow) -> TimeChange {
    match time {
        TimeOrNow::Now => TimeChange::Now,
        TimeOrNow::SpecificTime(time) => TimeChange::To(time.into()),
    }
}

/// `None` for flags we don't know (whiteouts).
pub fn rename_mode(flags: RenameFlags) -> Option<RenameMode> {
    match flags {
        flags if flags.is_empty() => Some(RenameMode::Replace),
        RenameFlags::RENAME_NOREPLACE => Some(RenameMode::NoReplace),
        RenameFlags::RENAME_EXCHANGE => Some(RenameMode::Exchange),
        _ => None,
    }
}
