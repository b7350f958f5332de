//! The bytes behind all handles of one inode: a file of this machine, or a stream from a slow tier.

use super::partial::staged_file;
use crate::catalog::Content;
use crate::data::{Partial, Patched, Reader};
use crate::error::{Error, Kind, Result};
use crate::types::{Generation, TierId, Timestamp};
use rustix::fs::FallocateFlags;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Identity of an `OpenFile` in one run of the daemon: the kernel side keeps one backing id for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpenFileId(pub u64);

/// What all handles of one inode read and write.
#[derive(Debug)]
pub struct OpenFile {
    pub id: OpenFileId,
    pub bytes: Bytes,
    /// Generation of the content at open.
    pub generation: Generation,
    /// The kernel reads and writes the file itself.
    pub passthrough: AtomicBool,
    /// When it was opened, as renames and changes of the rules count.
    pub epoch: u64,
}

/// Where the bytes are.
#[derive(Debug)]
pub enum Bytes {
    /// The file at its native key on its resident home, written in place.
    Native { file: Arc<File>, tier: TierId },
    /// A staged generation.
    Staged { file: Arc<File>, tier: TierId },
    /// A hot copy: never written.
    Hot { file: Arc<File>, tier: TierId },
    /// A staged generation that has only some of its bytes.
    Partial { file: Arc<Patched>, tier: TierId },
    /// Streamed from a tier without files.
    Streamed(Arc<Reader>),
}

/// As what a local file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At its native key.
    Native,
    /// On the stage.
    Staged,
}

impl OpenFile {
    /// The same open file where its file is another thing by now: for the kernel it stays what it was.
    pub fn relabelled(self: &Arc<Self>, place: Place, generation: Generation) -> Arc<Self> {
        let bytes = match (&self.bytes, place) {
            (Bytes::Native { file, tier } | Bytes::Staged { file, tier }, Place::Native) => {
                Bytes::Native { file: file.clone(), tier: *tier }
            }
            (Bytes::Native { file, tier } | Bytes::Staged { file, tier }, Place::Staged) => {
                Bytes::Staged { file: file.clone(), tier: *tier }
            }
            (Bytes::Partial { file, tier }, Place::Staged) => {
                Bytes::Partial { file: file.clone(), tier: *tier }
            }
            _ => return self.clone(),
        };
        let passthrough = AtomicBool::new(self.passes_through());
        Arc::new(Self { id: self.id, bytes, generation, passthrough, epoch: self.epoch })
    }

    /// Whether the kernel has the file itself.
    pub fn passes_through(&self) -> bool {
        self.passthrough.load(Ordering::Relaxed)
    }

    /// The local file, if there is one.
    pub fn file(&self) -> Option<&Arc<File>> {
        match &self.bytes {
            Bytes::Native { file, .. } | Bytes::Staged { file, .. } | Bytes::Hot { file, .. } => Some(file),
            Bytes::Partial { .. } | Bytes::Streamed(_) => None,
        }
    }

    /// The tier whose file it is, if it is a file.
    pub fn tier(&self) -> Option<TierId> {
        match &self.bytes {
            Bytes::Native { tier, .. }
            | Bytes::Staged { tier, .. }
            | Bytes::Partial { tier, .. }
            | Bytes::Hot { tier, .. } => Some(*tier),
            Bytes::Streamed(_) => None,
        }
    }

    /// What its content looks like now, if it may change.
    pub fn content(&self) -> Result<Content> {
        content_of(self.changing()?)
    }

    /// The local file whose size and times are those of what is open, if that may change. Of one that is partly staged the bytes
    /// mean nothing.
    pub fn changing(&self) -> Result<&File> {
        staged_file(&self.bytes).filter(|_| self.is_written()).ok_or_else(not_for_writing)
    }

    /// What may be written to.
    pub fn writable(&self) -> Result<Writable<'_>> {
        match &self.bytes {
            Bytes::Native { file, .. } | Bytes::Staged { file, .. } => Ok(Writable::Whole(file)),
            Bytes::Partial { file, .. } => Ok(Writable::Partial(file.partial())),
            Bytes::Hot { .. } | Bytes::Streamed(_) => Err(not_for_writing()),
        }
    }

    /// Whether it is on the stage.
    pub fn is_staged(&self) -> bool {
        matches!(self.bytes, Bytes::Staged { .. } | Bytes::Partial { .. })
    }

    /// Whether size and times must be asked of the file, because they may change under us.
    pub fn is_written(&self) -> bool {
        matches!(self.bytes, Bytes::Native { .. } | Bytes::Staged { .. } | Bytes::Partial { .. })
    }
}

fn not_for_writing() -> Error {
    Error::new(Kind::Os(libc::EBADF), "the file is not open for writing")
}

/// What may be written to.
#[derive(Clone, Copy, Debug)]
pub enum Writable<'a> {
    /// A file that has all of its bytes.
    Whole(&'a Arc<File>),
    /// One that has some of them.
    Partial(&'a Arc<Partial>),
}

impl Writable<'_> {
    /// Writes `data` at `offset`; answers how much of it there was room for.
    pub fn write(self, offset: u64, data: &[u8]) -> Result<usize> {
        let file = match self {
            Self::Whole(file) => file,
            Self::Partial(partial) => return partial.write_at(offset, data),
        };
        let mut written = 0;
        while written < data.len() {
            match file.write_at(&data[written..], offset + written as u64) {
                Ok(0) => break,
                Ok(count) => written += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // What is written is told; the next write meets the trouble again.
                Err(_) if written > 0 => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(written)
    }

    /// Writes all of it, or fails.
    pub fn write_all(self, offset: u64, data: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < data.len() {
            match self.write(offset + done as u64, &data[done..])? {
                0 => return Err(Kind::NoSpace.into()),
                count => done += count,
            }
        }
        Ok(())
    }

    /// Makes it `size` bytes long.
    pub fn set_len(self, size: u64) -> Result<()> {
        match self {
            Self::Whole(file) => Ok(file.set_len(size)?),
            Self::Partial(partial) => partial.set_len(size),
        }
    }

    /// fsync(2).
    pub fn sync(self) -> Result<()> {
        match self {
            Self::Whole(file) => Ok(file.sync_all()?),
            Self::Partial(partial) => partial.sync(),
        }
    }

    /// fallocate(2).
    pub fn allocate(self, mode: FallocateFlags, offset: u64, length: u64) -> Result<()> {
        match self {
            Self::Whole(file) => Ok(rustix::fs::fallocate(file, mode, offset, length)?),
            Self::Partial(partial) => partial.allocate(mode, offset, length),
        }
    }
}

/// What the file system under `file` says of its content now.
///
/// # Errors
/// As fstat(2).
pub fn content_of(file: &File) -> Result<Content> {
    let metadata = file.metadata()?;
    Ok(Content {
        size: metadata.size(),
        blocks: metadata.blocks(),
        mtime: Timestamp::from_parts(metadata.mtime(), metadata.mtime_nsec()),
        ctime: Timestamp::from_parts(metadata.ctime(), metadata.ctime_nsec()),
    })
}
