//! Looking and reading: head, and a stream of bytes that ends in an error rather than mix versions.

use super::write::expect;
use super::{Inner, attributes, blocking, object};
use crate::error::{Kind, Result};
use crate::tier::directory::root::{Root, missing_if_no_directory};
use crate::tier::{ByteStream, Object};
use crate::types::{FileKind, Key, Version};
use bytes::Bytes;
use futures::StreamExt;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;

const CHUNK: u64 = 1 << 20;

impl Inner {
    /// Everything the tier knows of `key`.
    pub(super) fn head(&self, key: &Key) -> Result<Object> {
        let root = self.root()?;
        let fd = root.open(key, OFlags::PATH, Mode::empty()).map_err(missing_if_no_directory)?;
        let stat = rustix::fs::fstat(&fd)?;
        let mut object = object::object(&stat, self.capabilities().owner_and_mode).ok_or(Kind::Corrupt)?;
        match object.kind {
            FileKind::Symlink => {
                object.target = Some(rustix::fs::readlinkat(&fd, "", Vec::new())?.into_bytes())
            }
            FileKind::Regular | FileKind::Directory => attributes::read_into(fd.as_fd(), &mut object.attrs)?,
            _ => {}
        }
        Ok(object)
    }

    /// Opens a regular file, and nothing else: a fifo would hang, a device would act.
    pub(super) fn open_regular(&self, root: &Root, key: &Key, flags: OFlags) -> Result<File> {
        let open = |extra| root.open(key, flags | extra | OFlags::NOCTTY, Mode::empty());
        let fd = match open(OFlags::NONBLOCK) {
            // A lease is in the way, so it is a regular file: now wait for it.
            Err(Errno::AGAIN) => open(OFlags::empty())?,
            Err(Errno::NXIO) => return Err(Kind::Unsupported.into()),
            other => other?,
        };
        match FileKind::from_mode(rustix::fs::fstat(&fd)?.st_mode) {
            Some(FileKind::Regular) => {
                rustix::fs::fcntl_setfl(&fd, flags & OFlags::NONBLOCK)?;
                Ok(fd.into())
            }
            Some(FileKind::Directory) => Err(Kind::IsDirectory.into()),
            _ => Err(Kind::Unsupported.into()),
        }
    }

    /// Opens a file to be read as an object: no directory on the way means no such key.
    pub(super) fn open_source(&self, root: &Root, key: &Key) -> Result<File> {
        self.open_regular(root, key, OFlags::RDONLY).map_err(|error| match error.kind() {
            Kind::NotDirectory => Kind::NotFound.into(),
            _ => error,
        })
    }

    /// The file at `key`, in `version`, and `range` clipped to its size.
    fn open_version(&self, key: &Key, range: &Range<u64>, version: &Version) -> Result<(File, Range<u64>)> {
        let root = self.root()?;
        let file = self.open_source(&root, key)?;
        let size = u64::try_from(expect(&file, version)?.st_size).unwrap_or(0);
        Ok((file, range.start.min(size)..range.end.min(size)))
    }
}

/// Streams `range` of `key`; the version is compared after every chunk, before it is handed out.
pub(super) async fn stream(
    inner: Arc<Inner>,
    key: Key,
    range: Range<u64>,
    version: Version,
) -> Result<ByteStream> {
    let (file, range) = {
        let version = version.clone();
        blocking(move || inner.open_version(&key, &range, &version)).await?
    };
    let (file, version) = (Arc::new(file), Arc::new(version));
    let chunks = futures::stream::try_unfold(range, move |range| {
        let (file, version) = (Arc::clone(&file), Arc::clone(&version));
        async move {
            if range.is_empty() {
                return Ok(None);
            }
            let end = range.end.min(range.start.saturating_add(CHUNK));
            let part = range.start..end;
            let bytes = blocking(move || chunk(&file, part, &version)).await?;
            Ok(Some((bytes, end..range.end)))
        }
    });
    Ok(chunks.boxed())
}

fn chunk(file: &File, range: Range<u64>, version: &Version) -> Result<Bytes> {
    let length = usize::try_from(range.end - range.start)
        .map_err(|error| crate::error::Error::new(Kind::Invalid, "range too large").with_source(error))?;
    let mut bytes = Vec::with_capacity(length);
    let mut at = range.start;
    while bytes.len() < length {
        match rustix::io::pread(file, rustix::buffer::spare_capacity(&mut bytes), at) {
            // Cut meanwhile.
            Ok(0) => return Err(Kind::Changed.into()),
            Ok(read) => at += read as u64,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    bytes.truncate(length);
    expect(file, version)?;
    Ok(bytes.into())
}
