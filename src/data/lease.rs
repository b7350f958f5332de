//! Who else has a file open, asked of the kernel by a lease that is given back at once.
//!
//! Local knowledge only: other machines of a shared file system are not asked. It counts
//! everything that keeps the file alive for reading or writing here: descriptors of any process,
//! mappings, and the backing files of FUSE passthrough.
//!
//! While the lease is held, for a few microseconds, an open that conflicts with it waits for the
//! release (with `O_NONBLOCK` it fails with `EWOULDBLOCK`).

use crate::error::{Error, Kind, Result};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// fcntl(2)'s `F_SETSIG` in the kernel's generic numbering (x86_64, aarch64), which libc lacks for glibc.
const F_SETSIG: libc::c_int = 10;

/// Whether no writer (descriptor or shared writable mapping) of this file lives on this machine.
///
/// `file` must be open `O_RDONLY`: a writable descriptor would be found as a writer itself.
///
/// # Errors
/// `Unsupported` if this file system has no leases, `Denied` if the file is another user's and we lack
/// CAP_LEASE, `Invalid` if `file` is writable.
pub fn no_writers(file: &File) -> Result<bool> {
    require_read_only(file)?;
    probe(file, libc::F_RDLCK)
}

/// Whether `file` is the only open description of its file on this machine.
///
/// # Errors
/// As [`no_writers`].
pub fn nobody_has_it_open(file: &File) -> Result<bool> {
    require_read_only(file)?;
    probe(file, libc::F_WRLCK)
}

fn probe(file: &File, lease: libc::c_int) -> Result<bool> {
    // Breaking a lease signals its holder with SIGIO, whose default action ends the process.
    // SIGURG is ignored by default; it must be chosen before the lease exists.
    fcntl(file, F_SETSIG, libc::SIGURG)?;
    match fcntl(file, libc::F_SETLEASE, lease) {
        Ok(_) => {}
        Err(error) => return refusal(error),
    }
    fcntl(file, libc::F_SETLEASE, libc::F_UNLCK)?;
    Ok(true)
}

fn refusal(error: io::Error) -> Result<bool> {
    match error.raw_os_error() {
        Some(libc::EAGAIN) => Ok(false),
        // FUSE and some network file systems answer EINVAL for "no leases here".
        Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP | libc::ENOLCK) => {
            Err(Error::new(Kind::Unsupported, "this file system has no leases").with_source(error))
        }
        _ => Err(Error::from(error).context("take a lease")),
    }
}

fn require_read_only(file: &File) -> Result<()> {
    match fcntl(file, libc::F_GETFL, 0)? & libc::O_ACCMODE {
        libc::O_RDONLY => Ok(()),
        _ => Err(Error::new(Kind::Invalid, "a lease needs a descriptor opened read-only")),
    }
}

fn fcntl(file: &File, command: libc::c_int, argument: libc::c_int) -> io::Result<libc::c_int> {
    // SAFETY: the descriptor is open for as long as `file` is borrowed, and the commands used
    // here take and return plain integers.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, argument) } {
        -1 => Err(io::Error::last_os_error()),
        answer => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn file() -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, b"bytes").unwrap();
        (dir, path)
    }

    #[test]
    fn a_writer_is_found_and_gone_when_closed() {
        let (_dir, path) = file();
        let reader = File::open(&path).unwrap();
        assert!(no_writers(&reader).unwrap());
        let writer = File::options().write(true).open(&path).unwrap();
        assert!(!no_writers(&reader).unwrap());
        drop(writer);
        assert!(no_writers(&reader).unwrap());
    }

    #[test]
    fn a_reader_is_found_too() {
        let (_dir, path) = file();
        let own = File::open(&path).unwrap();
        assert!(nobody_has_it_open(&own).unwrap());
        let other = File::open(&path).unwrap();
        assert!(!nobody_has_it_open(&own).unwrap());
        assert!(no_writers(&own).unwrap());
        drop(other);
        assert!(nobody_has_it_open(&own).unwrap());
    }

    #[test]
    fn a_writable_descriptor_is_refused() {
        let (_dir, path) = file();
        let writer = File::options().read(true).write(true).open(&path).unwrap();
        assert_eq!(no_writers(&writer).unwrap_err().kind(), Kind::Invalid);
    }

    #[test]
    fn opens_that_break_the_lease_do_not_kill_the_process() {
        let (_dir, path) = file();
        let reader = File::open(&path).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..2_000).for_each(|_| drop(File::options().write(true).open(&path).unwrap()));
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) {
                no_writers(&reader).unwrap();
            }
        });
        assert!(no_writers(&reader).unwrap());
    }
}
