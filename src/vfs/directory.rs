//! opendir, readdir: listings with cookies that outlive changes and remounts.

use super::handle::FileHandle;
use super::{Caller, Entry, Vfs};
use crate::error::{Kind, Result};
use crate::types::{FileKind, Ino};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Cookies of the two names every directory has; the catalog's start at 16.
const SELF_COOKIE: u64 = 1;
const PARENT_COOKIE: u64 = 2;
/// Rows read at a time before it is known how many the kernel takes with one request.
const PAGE: usize = 256;
/// Rows read when it took more than the last time.
const MORE: usize = 32;

/// An open directory.
#[derive(Debug)]
pub struct DirectoryHandle {
    ino: Ino,
    /// How many names fitted into the last answer: the next one will hold about as many.
    fits: AtomicUsize,
}

/// One name of a listing.
#[derive(Debug)]
pub struct Listed<'a> {
    /// Where to go on after it.
    pub cookie: u64,
    /// The name.
    pub name: &'a [u8],
    /// Inode number.
    pub ino: Ino,
    /// What it is.
    pub kind: FileKind,
}

/// Whether a listing goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// There is room for another name.
    Yes,
    /// The name just offered did not fit.
    Full,
}

impl Vfs {
    /// Opens a directory.
    ///
    /// # Errors
    /// `NotDirectory`, `NotFound`.
    pub fn open_directory(&self, ino: Ino) -> Result<FileHandle> {
        self.directory(ino)?;
        Ok(self.handles.add_directory(DirectoryHandle { ino, fits: AtomicUsize::new(PAGE) }))
    }

    /// Closes a directory.
    pub fn release_directory(&self, handle: FileHandle) {
        self.handles.remove_directory(handle);
    }

    /// Before a listing from its start: asks the tiers if the last look is too old.
    ///
    /// # Errors
    /// What a tier says that was never listed before.
    pub fn refresh_listing(&self, caller: &Caller, handle: FileHandle, after: u64) -> Result<()> {
        if after != 0 {
            return Ok(());
        }
        let ino = self.handles.directory(handle)?.ino;
        self.refresh_directory(caller, &self.nodes.get(ino))
    }

    /// Offers the names after cookie `after` to `each` until it is full.
    ///
    /// # Errors
    /// What the catalog says.
    pub fn list_names(
        &self,
        handle: FileHandle,
        after: u64,
        each: &mut dyn FnMut(Listed<'_>) -> More,
    ) -> Result<()> {
        let handle = self.handles.directory(handle)?;
        let ino = handle.ino;
        let mut dots =
            |cookie, name: &[u8], ino| each(Listed { cookie, name, ino, kind: FileKind::Directory });
        if after < SELF_COOKIE && dots(SELF_COOKIE, b".", ino) == More::Full {
            return Ok(());
        }
        if after < PARENT_COOKIE && dots(PARENT_COOKIE, b"..", self.parent_of(ino)?) == More::Full {
            return Ok(());
        }
        self.each_entry(&handle, after, &mut |entry| {
            let (cookie, name) = (entry.cookie, entry.name.as_slice());
            let attr = &entry.inode.attr;
            Ok(each(Listed { cookie, name, ino: attr.ino, kind: attr.kind }))
        })
    }

    /// The same with attributes. The kernel holds one look-up more of every inode that fitted, but
    /// not of the directory itself and its parent.
    ///
    /// # Errors
    /// What the catalog says.
    pub fn list_entries(
        &self,
        handle: FileHandle,
        after: u64,
        each: &mut dyn FnMut(u64, &[u8], &Entry) -> More,
    ) -> Result<()> {
        let handle = self.handles.directory(handle)?;
        let ino = handle.ino;
        let path = self.directory_path(ino)?;
        let ttl = self.ttl_below(&path);
        for (cookie, name, dot) in
            [(SELF_COOKIE, &b"."[..], ino), (PARENT_COOKIE, b"..", self.parent_of(ino)?)]
        {
            if after < cookie {
                let attr = self.catalog().inode(dot)?.attr;
                if each(cookie, name, &Entry { attr, ttl: Duration::ZERO }) == More::Full {
                    return Ok(());
                }
            }
        }
        self.each_entry(&handle, after, &mut |listed| {
            let ttl = ttl.map_or_else(|| path.join(&listed.name).map(|child| self.ttl(&child)), Ok)?;
            let entry = match self.entry_for(listed.inode.clone(), ttl) {
                // Its tier may hang, and a listing can't be begun again half-way: the kernel asks for this one.
                Err(error) if error.kind() == Kind::WouldBlock => {
                    self.nodes.remember(listed.inode.attr.ino);
                    Entry { attr: listed.inode.attr.clone(), ttl: Duration::ZERO }
                }
                entry => entry?,
            };
            let more = each(listed.cookie, &listed.name, &entry);
            if more == More::Full {
                self.forget(entry.attr.ino, 1);
            }
            Ok(more)
        })
    }

    fn each_entry(
        &self,
        handle: &DirectoryHandle,
        mut after: u64,
        each: &mut dyn FnMut(&crate::catalog::DirEntry) -> Result<More>,
    ) -> Result<()> {
        // One more, to be told that it does not fit.
        let mut limit = handle.fits.load(Ordering::Relaxed) + 1;
        let mut fitted = 0;
        loop {
            let page = self.catalog().entries(handle.ino, after, limit)?;
            for entry in &page {
                if each(entry)? == More::Full {
                    handle.fits.store(fitted, Ordering::Relaxed);
                    return Ok(());
                }
                fitted += 1;
                after = entry.cookie;
            }
            if page.len() < limit {
                return Ok(());
            }
            limit = MORE;
        }
    }

    fn parent_of(&self, dir: Ino) -> Result<Ino> {
        Ok(self.catalog().names(dir)?.first().map_or(Ino::ROOT, |(parent, _)| *parent))
    }
}
