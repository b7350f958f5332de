//! New content on its way: a temporary file under `.tierfs/upload/`, then one step into place.

use super::super::upload::block_size;
use super::{Root, outside};
use crate::error::{Error, Kind, Result};
use crate::tier::Upload;
use crate::types::{Attrs, Condition, Key, Version};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use rustix::fs::{AtFlags, Mode, OFlags};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A temporary file; gone when dropped, unless it is in its place by then.
#[derive(Debug)]
pub(super) struct Staged {
    pub(super) file: File,
    folder: OwnedFd,
    name: String,
}

impl Staged {
    pub(super) fn new(root: &Root) -> Result<Self> {
        let key = Key::parse(".tierfs/upload")?;
        root.make_directories(&key)?;
        let folder = root.open_at(&key, OFlags::PATH | OFlags::DIRECTORY)?;
        let name = format!("{:032x}", rand::random::<u128>());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file =
            rustix::fs::openat(&folder, name.as_str(), flags, Mode::from_raw_mode(0o644)).map_err(outside)?;
        Ok(Self { file: file.into(), folder, name })
    }

    /// Puts it in the place of `key`, durably.
    pub(super) fn publish(&self, root: &Root, key: &Key, condition: &Condition) -> Result<Version> {
        let Some((parent, name)) = key.split() else { return Err(Kind::IsDirectory.into()) };
        self.file.sync_all()?;
        root.make_directories(&parent)?;
        root.check(key, condition)?;
        let parent = root.open_at(&parent, OFlags::RDONLY | OFlags::DIRECTORY)?;
        if *condition == Condition::Absent {
            // A link, unlike a rename, never replaces what came in the meantime.
            rustix::fs::linkat(&self.folder, self.name.as_str(), &parent, name, AtFlags::empty())?;
            rustix::fs::unlinkat(&self.folder, self.name.as_str(), AtFlags::empty())?;
        } else {
            rustix::fs::renameat(&self.folder, self.name.as_str(), &parent, name)?;
        }
        rustix::fs::fsync(&parent)?;
        let stat = rustix::fs::fstat(&self.file)?;
        let object = super::object_of(&stat).ok_or_else(|| Error::from(Kind::Corrupt))?;
        Ok(object.version)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Renamed or linked away by now, if it was published.
        let _ = rustix::fs::unlinkat(&self.folder, self.name.as_str(), AtFlags::empty());
    }
}

/// See [`Upload`].
pub(super) struct FolderUpload {
    root: Arc<Root>,
    key: Key,
    block_size: u64,
    staged: Arc<Staged>,
    lengths: Mutex<BTreeMap<u64, u64>>,
}

impl FolderUpload {
    pub(super) fn start(root: Arc<Root>, key: Key, size: u64) -> Result<Self> {
        let staged = Arc::new(Staged::new(&root)?);
        Ok(Self { root, key, block_size: block_size(size), staged, lengths: Mutex::default() })
    }

    /// All blocks are there, and only the last is short: so each is where it belongs.
    fn check(&self, blocks: u64) -> Result<u64> {
        let lengths = self.lengths.lock();
        let mut size = 0;
        for index in 0..blocks {
            let length = lengths.get(&index).copied().unwrap_or(0);
            if length > self.block_size || (index + 1 < blocks && length != self.block_size) {
                return Err(Error::new(
                    Kind::Invalid,
                    format!("block {index} of {} is missing or short", self.key),
                ));
            }
            size += length;
        }
        Ok(size)
    }
}

#[async_trait]
impl Upload for FolderUpload {
    fn block_size(&self) -> u64 {
        self.block_size
    }

    async fn put_block(&self, index: u64, bytes: Bytes) -> Result<()> {
        let at = index.checked_mul(self.block_size).ok_or_else(|| Error::from(Kind::Invalid))?;
        let (staged, length) = (Arc::clone(&self.staged), bytes.len() as u64);
        let written = tokio::task::spawn_blocking(move || staged.file.write_all_at(&bytes, at)).await;
        written.map_err(|error| Error::new(Kind::Interrupted, "stopped").with_source(error))??;
        self.lengths.lock().insert(index, length);
        Ok(())
    }

    async fn commit(&self, blocks: u64, _attrs: &Attrs, condition: &Condition) -> Result<Version> {
        let size = self.check(blocks)?;
        let (staged, root) = (Arc::clone(&self.staged), Arc::clone(&self.root));
        let (key, condition) = (self.key.clone(), condition.clone());
        let done = tokio::task::spawn_blocking(move || {
            staged.file.set_len(size)?;
            staged.publish(&root, &key, &condition)
        });
        done.await.map_err(|error| Error::new(Kind::Interrupted, "stopped").with_source(error))?
    }
}
