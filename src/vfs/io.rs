//! Bytes of open handles: read, write, fsync, fallocate, seek, copy.

use super::handle::FileHandle;
use super::open_file::{Bytes, OpenFile, Writable};
use super::{Caller, Pending, Vfs};
use crate::catalog::{Inode, Replica};
use crate::data::read::read_full;
use crate::data::{Patched, Reader};
use crate::error::{Error, Kind, Result, found};
use crate::tier::Patience;
use crate::types::{Ino, Key, TierId};
use rustix::fs::{FallocateFlags, SeekFrom};
use std::sync::Arc;

/// How a read is answered.
#[derive(Debug)]
pub enum ReadAnswer {
    /// So many bytes are in the buffer.
    Ready(usize),
    /// They must be fetched: ask this reader, which waits.
    Later(Arc<Reader>),
    /// The same of a file that is partly staged.
    Patched(Arc<Patched>),
}

impl Vfs {
    fn opened(&self, handle: FileHandle) -> Result<Arc<OpenFile>> {
        let handle = self.handles.file(handle)?;
        let open = handle.node.file_soon()?.open.clone();
        let open = open.ok_or_else(|| Error::new(Kind::Os(libc::EBADF), "the handle is closed"))?;
        self.may_touch(&open)?;
        Ok(open)
    }

    /// Whether this thread may make a call on what is open: it may hang.
    pub(super) fn may_touch(&self, open: &OpenFile) -> Result<()> {
        open.tier().map_or(Ok(()), |tier| self.may_ask(tier))
    }

    /// The same for a tier, and for what others hold while they make a call there.
    pub(super) fn may_ask(&self, tier: TierId) -> Result<()> {
        if Patience::current() == Patience::None && self.is_networked(tier) {
            return Err(Kind::WouldBlock.into());
        }
        Ok(())
    }

    /// Reads at `offset` into `buffer`; fewer bytes only at the end of the file.
    ///
    /// # Errors
    /// What the file system or the tier under it says; [`Kind::Stale`] if the version is gone.
    pub fn read(&self, handle: FileHandle, offset: u64, buffer: &mut [u8]) -> Result<ReadAnswer> {
        let open = self.opened(handle)?;
        match &open.bytes {
            Bytes::Streamed(reader) => match reader.try_read(offset, buffer) {
                Some(count) => count.map(ReadAnswer::Ready),
                None => Ok(ReadAnswer::Later(reader.clone())),
            },
            Bytes::Partial { file, tier } => {
                self.parts.tiers.note_use(*tier);
                match file.try_read(offset, buffer) {
                    Some(count) => count.map(ReadAnswer::Ready),
                    None => Ok(ReadAnswer::Patched(file.clone())),
                }
            }
            Bytes::Native { file, tier } | Bytes::Staged { file, tier } | Bytes::Hot { file, tier } => {
                self.parts.tiers.note_use(*tier);
                read_full(file, offset, buffer).map(ReadAnswer::Ready)
            }
        }
    }

    /// The same into a buffer of its own, on a thread that may wait.
    ///
    /// # Errors
    /// As [`Vfs::read`].
    pub fn read_apart(&self, handle: FileHandle, offset: u64, size: usize) -> Result<Vec<u8>> {
        let open = self.opened(handle)?;
        if let Bytes::Partial { file, .. } = &open.bytes {
            return Ok(self.parts.runtime.block_on(file.read(offset, size))?.to_vec());
        }
        let file = open.file().ok_or(Kind::Stale)?;
        let mut buffer = vec![0; size];
        let count = read_full(file, offset, &mut buffer)?;
        buffer.truncate(count);
        Ok(buffer)
    }

    /// The bytes that a handle streams are gone from their key. If they only moved (a rename was made good
    /// at home, or attributes were written), the handle reads on from where they are.
    ///
    /// # Errors
    /// [`Kind::Stale`] if the content changed or is gone.
    pub fn follow(&self, caller: &Caller, handle: FileHandle) -> Result<Arc<Reader>> {
        let node = self.handles.file(handle)?.node.clone();
        let _turn = self.turn(caller, &node)?;
        let open = self.opened(handle)?;
        let inode = self.catalog().inode(node.ino)?;
        let Bytes::Streamed(gone) = &open.bytes else { return Err(Kind::Stale.into()) };
        if inode.generation != open.generation {
            return Err(Kind::Stale.into());
        }
        let (key, version) = (&gone.source().key, &gone.source().version);
        let newest = self.newest(&inode)?;
        let moved = newest.iter().find(|replica| {
            !replica.staged && (&replica.key != key || replica.version.as_ref() != Some(version))
        });
        let moved = match moved {
            Some(moved) => moved.clone(),
            None => self.written_meanwhile(caller, &inode, &newest, key)?.ok_or(Kind::Stale)?,
        };
        let reader =
            self.stream(&self.rule(&self.some_path(node.ino)?, inode.opened_as()), &moved, &inode)?;
        let bytes = Bytes::Streamed(reader.clone());
        let (id, generation, epoch) = (open.id, open.generation, open.epoch);
        let followed = OpenFile { id, bytes, generation, passthrough: false.into(), epoch };
        node.file.lock().open = Some(Arc::new(followed));
        Ok(reader)
    }

    /// What lies under `key` if attributes of this content were just written there, and no row says so yet.
    fn written_meanwhile(
        &self,
        caller: &Caller,
        inode: &Inode,
        newest: &[Replica],
        key: &Key,
    ) -> Result<Option<Replica>> {
        let is_pending = |replica: &&Replica| replica.key == *key && replica.write_id.is_some();
        let Some(pending) = newest.iter().find(is_pending) else { return Ok(None) };
        let tier = self.parts.tiers.get(pending.tier)?;
        let Some(object) = found(self.wait_for(caller, tier.head(key)))? else { return Ok(None) };
        let is_ours = object.attrs.write_id == pending.write_id && object.size == inode.attr.size;
        Ok(is_ours.then(|| Replica { version: Some(object.version), ..pending.clone() }))
    }

    /// Writes `data` at `offset`; answers how much of it there was room for.
    ///
    /// # Errors
    /// [`Kind::NoSpace`] and whatever else the file system under it says, if nothing was written.
    pub fn write(&self, handle: FileHandle, offset: u64, data: &[u8]) -> Result<usize> {
        let open = self.opened(handle)?;
        self.note_use(&open);
        self.note_room(&open, open.writable()?.write(offset, data))
    }

    /// A program uses the tier with these bytes.
    pub(super) fn note_use(&self, open: &OpenFile) {
        match &open.bytes {
            Bytes::Native { tier, .. }
            | Bytes::Staged { tier, .. }
            | Bytes::Partial { tier, .. }
            | Bytes::Hot { tier, .. } => {
                self.parts.tiers.note_use(*tier);
            }
            // The reader tells when it asks its tier.
            Bytes::Streamed(_) => {}
        }
    }

    /// Writes all of `data` at `offset`, or fails.
    ///
    /// # Errors
    /// As [`Vfs::write`], also if a part was written.
    pub fn write_all(&self, handle: FileHandle, offset: u64, data: &[u8]) -> Result<usize> {
        let open = self.opened(handle)?;
        self.note_room(&open, open.writable()?.write_all(offset, data))?;
        Ok(data.len())
    }

    /// Clears set-uid and set-gid of a file that somebody without the right wrote to.
    ///
    /// # Errors
    /// What the catalog says.
    pub fn drop_set_id(&self, caller: &Caller, ino: Ino) -> Result<()> {
        let inode = self.catalog().inode(ino)?;
        let kept = without_set_id(inode.attr.mode);
        if kept != inode.attr.mode {
            let change = crate::types::AttrChange { mode: Some(kept), ..Default::default() };
            self.set_attr(caller, ino, super::SetAttr { change, ..Default::default() })?;
        }
        Ok(())
    }

    /// Makes the bytes of a handle and their rows durable. Answers what the call has to wait for, where its rule says that it does.
    ///
    /// # Errors
    /// What the file system says: never ignored, for the bytes may be lost.
    pub fn fsync(&self, handle: FileHandle) -> Result<Pending> {
        let handle = self.handles.file(handle)?;
        let open = handle.node.file.lock().open.clone();
        let Some(open) = open.filter(|open| open.is_written()) else { return Ok(None) };
        open.writable()?.sync()?;
        crate::failpoint::pass("bytes_synced");
        let content = open.content()?;
        match &open.bytes {
            Bytes::Native { file, tier } => {
                let version = self.resident(*tier).ok_or(Kind::Absent)?.stat_open(file)?.version;
                self.catalog().wrote_native(handle.node.ino, *tier, content, &version)?;
            }
            _ => {
                self.catalog().resize(handle.node.ino, content)?;
                self.sync_staged(handle.node.ino)?;
            }
        }
        self.catalog().sync()?;
        if self.syncs_home(&handle.node, &open)? { self.publish(&handle.node) } else { Ok(None) }
    }

    fn sync_staged(&self, ino: Ino) -> Result<()> {
        for replica in self.catalog().replicas(ino)?.iter().filter(|replica| replica.staged) {
            match self.stage(replica.tier)?.sync(&replica.name) {
                // What was preserved is at home by now.
                Err(error) if error.kind() == Kind::NotFound && self.is_gone(ino, replica)? => {}
                synced => synced?,
            }
        }
        Ok(())
    }

    /// Makes the names of a directory durable. Answers as [`Vfs::fsync`].
    ///
    /// # Errors
    /// As fsync(2).
    pub fn fsync_directory(&self, ino: Ino) -> Result<Pending> {
        for place in self.catalog().places(ino)?.iter() {
            if let Some(resident) = self.resident(place.tier) {
                resident.sync_directory(&place.key)?;
            }
        }
        self.catalog().sync()?;
        self.names_at_home(ino)
    }

    /// Allocates, punches or zeroes a range; `mode` as fallocate(2).
    ///
    /// # Errors
    /// As fallocate(2).
    pub fn fallocate(&self, handle: FileHandle, mode: i32, offset: u64, length: u64) -> Result<()> {
        let flags = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        let open = self.opened(handle)?;
        self.note_room(&open, open.writable()?.allocate(flags, offset, length))
    }

    /// `SEEK_DATA` and `SEEK_HOLE`. A streamed file is all data.
    ///
    /// # Errors
    /// ENXIO past the end, EINVAL for another `whence`.
    pub fn seek(&self, handle: FileHandle, offset: u64, whence: i32) -> Result<u64> {
        let open = self.opened(handle)?;
        let target = match whence {
            libc::SEEK_DATA => SeekFrom::Data(offset),
            libc::SEEK_HOLE => SeekFrom::Hole(offset),
            _ => return Err(Kind::Invalid.into()),
        };
        match (&open.bytes, open.file()) {
            (Bytes::Partial { file, .. }, _) => file.partial().seek(target),
            (_, Some(file)) => Ok(rustix::fs::seek(file, target)?),
            (Bytes::Streamed(reader), _) if offset < reader.size() => {
                Ok(if whence == libc::SEEK_DATA { offset } else { reader.size() })
            }
            _ => Err(Kind::Os(libc::ENXIO).into()),
        }
    }

    /// Copies between two handles without the bytes passing through the caller; answers how many.
    ///
    /// # Errors
    /// [`Kind::Outside`] (EXDEV) where the kernel must copy itself.
    pub fn copy_range(&self, from: (FileHandle, u64), to: (FileHandle, u64), length: u64) -> Result<u64> {
        let (source, target) = (self.opened(from.0)?, self.opened(to.0)?);
        let source = source.file().ok_or(Kind::Outside)?;
        let Writable::Whole(target) = target.writable()? else { return Err(Kind::Outside.into()) };
        let (mut offset_in, mut offset_out) = (from.1, to.1);
        // A reply carries 32 bits; the caller comes back for the rest.
        let length = usize::try_from(length.min(1 << 30)).unwrap_or(1 << 30);
        let copied =
            rustix::fs::copy_file_range(source, Some(&mut offset_in), target, Some(&mut offset_out), length)?;
        Ok(copied as u64)
    }
}

/// The permission bits that stay when a stranger writes: no set-uid, and no set-gid where it means
/// execution (without group execute it once meant mandatory locking).
pub(super) fn without_set_id(mode: u32) -> u32 {
    let mode = mode & !libc::S_ISUID;
    if mode & libc::S_IXGRP != 0 { mode & !libc::S_ISGID } else { mode }
}
