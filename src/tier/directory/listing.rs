//! Pages of a directory. A listing keeps its directory open from page to page: only then does
//! every file system promise that a name which stays is told exactly once. A cursor whose
//! listing was forgotten goes on by the directory's own offset.

use super::Inner;
use super::object;
use super::root::{Root, unless_stale};
use crate::error::{Error, Kind, Result};
use crate::tier::{Cursor, Entry, Page};
use crate::types::{FileKind, Key};
use lru::LruCache;
use parking_lot::Mutex;
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, SeekFrom, statat};
use rustix::io::Errno;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;

/// Listings kept open between pages.
const OPEN_LISTINGS: NonZeroUsize = NonZeroUsize::new(64).unwrap();
/// A record of getdents64 for a short name has 24 or 32 bytes, the longest 280.
const RECORD: usize = 32;

/// Directories of listings under way, by the random part of their cursors.
#[derive(Debug)]
pub(super) struct Listings(Mutex<LruCache<u64, Stream>>);

#[derive(Debug)]
struct Stream {
    fd: OwnedFd,
    dir: Key,
    /// Where the next page starts, as the file system counts.
    offset: u64,
}

impl Default for Listings {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(OPEN_LISTINGS)))
    }
}

impl Listings {
    fn resume(&self, root: &Root, dir: &Key, cursor: &Cursor) -> Result<Stream> {
        let (id, offset) = parse(cursor)?;
        let kept = self.0.lock().pop(&id);
        if let Some(stream) = kept.filter(|stream| stream.dir == *dir && stream.offset == offset) {
            return Ok(stream);
        }
        let stream = start(root, dir)?;
        rustix::fs::seek(&stream.fd, SeekFrom::Start(offset))?;
        Ok(Stream { offset, ..stream })
    }

    fn keep(&self, stream: Stream) -> Cursor {
        let id = rand::random::<u64>();
        let cursor = Cursor(format!("{id:x}:{:x}", stream.offset));
        // What falls out is closed after the lock is released.
        let _fallen = self.0.lock().push(id, stream);
        cursor
    }
}

fn parse(cursor: &Cursor) -> Result<(u64, u64)> {
    let parts = cursor.0.split_once(':').and_then(|(id, offset)| {
        Some((u64::from_str_radix(id, 16).ok()?, u64::from_str_radix(offset, 16).ok()?))
    });
    parts.ok_or_else(|| Error::new(Kind::Invalid, "not a cursor of this tier"))
}

fn start(root: &Root, dir: &Key) -> Result<Stream> {
    let fd = root.open(dir, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    Ok(Stream { fd, dir: dir.clone(), offset: 0 })
}

impl Inner {
    /// One page, of names that start with `prefix`.
    pub(super) fn page(&self, dir: &Key, prefix: &[u8], from: Option<&Cursor>, limit: usize) -> Result<Page> {
        let root = self.root()?;
        let mut stream = match from {
            Some(cursor) => self.listings.resume(&root, dir, cursor)?,
            None => start(&root, dir)?,
        };
        let owner_and_mode = self.capabilities().owner_and_mode;
        let mut page = Page::default();
        let mut buffer = Vec::with_capacity(limit.clamp(32, 8192) * RECORD);
        // Whole buffers only: a position inside one is not a place the directory can go on from.
        while page.entries.is_empty() || page.entries.len() < limit / 2 {
            let names = next_names(&mut stream, &mut buffer)?;
            if names.is_empty() {
                return Ok(page);
            }
            for stored in names.into_iter().filter(|name| is_shown(dir, name)) {
                let Some(name) = root.name(dir, stored.clone()) else {
                    page.hidden += 1;
                    continue;
                };
                if !name.starts_with(prefix) {
                    continue;
                }
                root.is_listed(dir, &stored)?;
                match entry(&stream, &stored, name, owner_and_mode)? {
                    Some(entry) => page.entries.push(entry),
                    None => page.hidden += 1,
                }
            }
        }
        page.next = Some(self.listings.keep(stream));
        Ok(page)
    }
}

/// The names in one buffer of getdents64; none at the end.
fn next_names(stream: &mut Stream, buffer: &mut Vec<u8>) -> Result<Vec<Vec<u8>>> {
    let mut raw = RawDir::new(&stream.fd, buffer.spare_capacity_mut());
    let mut names = Vec::new();
    while let Some(next) = raw.next() {
        let record = next?;
        stream.offset = record.next_entry_cookie();
        names.push(record.file_name().to_bytes().to_vec());
        if raw.is_buffer_empty() {
            break;
        }
    }
    Ok(names)
}

fn is_shown(dir: &Key, name: &[u8]) -> bool {
    let ours = dir.is_root() && name == super::OWN_DIRECTORY.as_bytes();
    !ours && !matches!(name, b"." | b"..")
}

/// `None` for what vanished meanwhile or is of no known kind.
fn entry(stream: &Stream, stored: &[u8], name: Vec<u8>, owner_and_mode: bool) -> Result<Option<Entry>> {
    let stat = match unless_stale(|| statat(&stream.fd, stored, AtFlags::SYMLINK_NOFOLLOW)) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let Some(mut object) = object::object(&stat, owner_and_mode) else { return Ok(None) };
    if object.kind == FileKind::Symlink {
        object.target = unless_stale(|| rustix::fs::readlinkat(&stream.fd, stored, Vec::new()))
            .ok()
            .map(std::ffi::CString::into_bytes);
    }
    Ok(Some(Entry { name, object }))
}
