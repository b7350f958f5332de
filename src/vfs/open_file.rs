//! The bytes behind all handles of one inode: a file of this machine, or a stream from a slow tier.

use crate::catalog::Content;
use crate::data::Reader;
use crate::error::{Error, Kind, Result};
use crate::types::{Generation, TierId, Timestamp};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
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
    /// How many renames there had been when it was opened.
    pub renames: u64,
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
        let (Bytes::Native { file, tier } | Bytes::Staged { file, tier }) = &self.bytes else {
            return self.clone();
        };
        let (file, tier) = (file.clone(), *tier);
        let bytes = match place {
            Place::Native => Bytes::Native { file, tier },
            Place::Staged => Bytes::Staged { file, tier },
        };
        let passthrough = AtomicBool::new(self.passes_through());
        Arc::new(Self { id: self.id, bytes, generation, passthrough, renames: self.renames })
    }

    /// Whether the kernel has the file itself.
    pub fn passes_through(&self) -> bool {
        self.passthrough.load(Ordering::Relaxed)
    }

    /// The local file, if there is one.
    pub fn file(&self) -> Option<&Arc<File>> {
        match &self.bytes {
            Bytes::Native { file, .. } | Bytes::Staged { file, .. } | Bytes::Hot { file, .. } => Some(file),
            Bytes::Streamed(_) => None,
        }
    }

    /// The tier whose file it is, if it is a file.
    pub fn tier(&self) -> Option<TierId> {
        match &self.bytes {
            Bytes::Native { tier, .. } | Bytes::Staged { tier, .. } | Bytes::Hot { tier, .. } => Some(*tier),
            Bytes::Streamed(_) => None,
        }
    }

    /// The local file of a handle that may write.
    pub fn writable(&self) -> Result<&Arc<File>> {
        match &self.bytes {
            Bytes::Native { file, .. } | Bytes::Staged { file, .. } => Ok(file),
            Bytes::Hot { .. } | Bytes::Streamed(_) => {
                Err(Error::new(Kind::Os(libc::EBADF), "the file is not open for writing"))
            }
        }
    }

    /// Whether size and times must be asked of the file, because they may change under us.
    pub fn is_written(&self) -> bool {
        matches!(self.bytes, Bytes::Native { .. } | Bytes::Staged { .. })
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
