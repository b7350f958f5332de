//! Power loss: what no fsync has made durable may be gone.
//!
//! This binary's own fsync(2) and fdatasync(2) remember the bytes of each file they are called for; those of SQLite and of the
//! standard library come by here too. A power loss gives each file those bytes again, or leaves it as it is: the kernel may
//! have written it back by itself. Names are durable at once, as a journal keeps them.

use parking_lot::Mutex;
use rustix::fs::{fstat, stat};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Device and inode number: on a tmpfs no number is used twice.
type FileId = (u64, u64);
/// The bytes that are durable.
pub type Durable = BTreeMap<FileId, Vec<u8>>;

/// Only where somebody watches.
static DURABLE: Mutex<Option<Durable>> = Mutex::new(None);

/// Watches from now on.
pub fn watch() {
    DURABLE.lock().get_or_insert_default();
}

/// What is durable now.
pub fn durable() -> Durable {
    DURABLE.lock().clone().unwrap_or_default()
}

/// As sync(2), for one file.
pub fn settle(path: &Path) {
    let (bytes, stat) = (std::fs::read(path).expect("bytes"), stat(path).expect("stat"));
    if let Some(durable) = DURABLE.lock().as_mut() {
        durable.insert((stat.st_dev, stat.st_ino), bytes);
    }
}

/// What of `path` is durable; nothing, if it is not there.
pub fn of(path: &Path, durable: &Durable) -> Vec<u8> {
    let id = stat(path).ok().map(|stat| (stat.st_dev, stat.st_ino));
    id.and_then(|id| durable.get(&id)).cloned().unwrap_or_default()
}

/// A copy is as durable as what it was made of.
pub fn inherit(copy: &Path, synced: Vec<u8>) {
    let stat = stat(copy).expect("stat");
    if let Some(durable) = DURABLE.lock().as_mut() {
        durable.insert((stat.st_dev, stat.st_ino), synced);
    }
}

/// What of `path` is left: as it is, as it was synced, or cut between the two.
pub fn left(path: &Path, durable: &Durable, chance: u8) -> Vec<u8> {
    let (bytes, stat) = (std::fs::read(path).expect("bytes"), stat(path).expect("stat"));
    let known = of(path, durable);
    match (u64::from(chance) + stat.st_ino) % 3 {
        0 => bytes,
        1 if bytes.starts_with(&known) => bytes[..known.len() + (bytes.len() - known.len()) / 2].to_vec(),
        _ => known,
    }
}

fn remember(fd: RawFd) {
    let mut watched = DURABLE.lock();
    let Some(durable) = watched.as_mut() else { return };
    // SAFETY: the caller of fsync holds the descriptor open for as long as the call lasts.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let (Ok(stat), Ok(file)) = (fstat(fd), fd.try_clone_to_owned()) else { return };
    let mut bytes = vec![0; usize::try_from(stat.st_size).unwrap_or(0)];
    // A directory has no bytes; what is open for writing alone is opened once more.
    let read = File::from(file).read_exact_at(&mut bytes, 0).is_ok()
        || File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd)))
            .and_then(|file| file.read_exact_at(&mut bytes, 0))
            .is_ok();
    if read {
        durable.insert((stat.st_dev, stat.st_ino), bytes);
    }
}

fn answer(number: libc::c_long, fd: libc::c_int) -> libc::c_int {
    // SAFETY: fsync(2) and fdatasync(2) take any number for a descriptor.
    let answer = unsafe { libc::syscall(number, fd) };
    if answer == 0 {
        remember(fd);
    }
    libc::c_int::try_from(answer).unwrap_or(-1)
}

// SAFETY: both do what the C library's functions of these names do, which they stand before.
#[unsafe(no_mangle)]
extern "C" fn fsync(fd: libc::c_int) -> libc::c_int {
    answer(libc::SYS_fsync, fd)
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: libc::c_int) -> libc::c_int {
    answer(libc::SYS_fdatasync, fd)
}
