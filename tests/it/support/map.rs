//! Files as memory.

use std::fs::File;
use std::os::fd::AsRawFd;

/// A mapping of a file, unmapped when dropped.
#[derive(Debug)]
pub struct Map(*mut u8, usize);

impl Map {
    /// mmap(2) from the start of `file`.
    pub fn new(file: &File, len: usize, protection: i32, flags: i32) -> Self {
        // SAFETY: a new mapping at an address the kernel chooses; checked below.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, file.as_raw_fd(), 0) };
        assert_ne!(at, libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
        Self(at.cast(), len)
    }

    /// What it shows.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `len` bytes at the address are mapped until drop.
        unsafe { std::slice::from_raw_parts(self.0, self.1) }
    }

    /// The same, to write into.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and made with PROT_WRITE by those who call this.
        unsafe { std::slice::from_raw_parts_mut(self.0, self.1) }
    }

    /// msync(2).
    pub fn sync(&self) {
        // SAFETY: the range is a mapping of ours.
        assert_eq!(unsafe { libc::msync(self.0.cast(), self.1, libc::MS_SYNC) }, 0);
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the range is a mapping of ours, and no slice of it outlives `self`.
        unsafe { libc::munmap(self.0.cast(), self.1) };
    }
}
