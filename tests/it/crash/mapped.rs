//! Writing through shared mappings, in a child each time: a page that can't be had ends that, not the test.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// A shared writable mapping whose descriptor is closed: by passthrough it outlives the daemon, and nobody tells of its writes.
#[derive(Debug)]
pub struct Mapped {
    at: usize,
    pub size: usize,
    pub node: usize,
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `Mapped::new` with this address and size and is used by nobody else.
        unsafe { libc::munmap(self.at as *mut libc::c_void, self.size) };
    }
}

impl Mapped {
    pub fn new(file: &File, size: usize, node: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), size, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { at: at as usize, size, node })
    }

    pub fn write(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        assert!(offset + bytes.len() <= self.size);
        in_a_child(|| {
            let at = self.at as *mut libc::c_void;
            // SAFETY: the mapping is inherited and covers the range.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), at.cast::<u8>().add(offset), bytes.len());
                libc::msync(at, self.size, libc::MS_SYNC)
            }
        })
    }
}

/// Writes through a shared mapping.
pub fn map_and_write(file: &File, size: usize, offset: usize, bytes: &[u8]) -> io::Result<()> {
    Mapped::new(file, size, 0)?.write(offset, bytes)
}

/// Runs `act` in a child: a page that can't be had ends that, not the test.
fn in_a_child(act: impl FnOnce() -> libc::c_int) -> io::Result<()> {
    // SAFETY: the child calls only memcpy, msync and _exit, which need nothing of other threads.
    let child = unsafe { libc::fork() };
    match child {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let done = act();
            // SAFETY: ends the child without running what belongs to the parent.
            unsafe { libc::_exit(done) }
        }
        child => {
            let mut status = 0;
            // SAFETY: waits for the child made above.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            if status == 0 {
                Ok(())
            } else {
                Err(io::Error::other(format!("the mapper ended with {status}")))
            }
        }
    }
}
