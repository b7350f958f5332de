//! Open handles: what a file descriptor of a program stands for.

use super::directory::DirectoryHandle;
use super::node::Node;
use crate::error::{Error, Kind, Result};
use foldhash::fast::RandomState;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of a handle in the kernel's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileHandle(pub u64);

/// An open file description.
#[derive(Debug)]
pub struct Handle {
    pub node: Arc<Node>,
    /// May change bytes.
    pub writes: bool,
    /// A program runs from it.
    pub executes: bool,
}

/// All handles of files and directories.
#[derive(Debug, Default)]
pub struct Handles {
    next: AtomicU64,
    files: RwLock<HashMap<u64, Arc<Handle>, RandomState>>,
    directories: RwLock<HashMap<u64, Arc<DirectoryHandle>, RandomState>>,
}

fn bad_handle() -> Error {
    Error::new(Kind::Os(libc::EBADF), "no such open handle")
}

impl Handles {
    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub fn add_file(&self, handle: Handle) -> FileHandle {
        let number = self.number();
        self.files.write().insert(number, Arc::new(handle));
        FileHandle(number)
    }

    pub fn file(&self, handle: FileHandle) -> Result<Arc<Handle>> {
        self.files.read().get(&handle.0).cloned().ok_or_else(bad_handle)
    }

    pub fn remove_file(&self, handle: FileHandle) -> Result<Arc<Handle>> {
        self.files.write().remove(&handle.0).ok_or_else(bad_handle)
    }

    pub fn add_directory(&self, handle: DirectoryHandle) -> FileHandle {
        let number = self.number();
        self.directories.write().insert(number, Arc::new(handle));
        FileHandle(number)
    }

    pub fn directory(&self, handle: FileHandle) -> Result<Arc<DirectoryHandle>> {
        self.directories.read().get(&handle.0).cloned().ok_or_else(bad_handle)
    }

    pub fn remove_directory(&self, handle: FileHandle) {
        self.directories.write().remove(&handle.0);
    }

    /// Every open file.
    pub fn all_files(&self) -> Vec<FileHandle> {
        self.files.read().keys().copied().map(FileHandle).collect()
    }

    /// Open files now.
    pub fn open_files(&self) -> usize {
        self.files.read().len()
    }
}
