//! Waiting for things that other processes do: by event where the kernel has one, else by asking again until a deadline.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long anything in a test may take before it counts as hanging.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Asks `condition` again until it holds.
///
/// For what has no event to wait for: what an emulator or another mount shows.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain: {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// How waiting for a mount ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Mounted {
    /// It is there.
    Yes,
    /// The process that should mount it ended first.
    ProcessEnded,
    /// Neither within [`PATIENCE`].
    InVain,
}

/// Waits until something is mounted at `mountpoint` or the process behind `pidfd` ends.
pub fn for_mount(mountpoint: &Path, pidfd: impl AsFd) -> std::io::Result<Mounted> {
    let mut mountinfo = File::open("/proc/self/mountinfo")?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        // No change is missed in between: poll reports any since the file was opened or polled last.
        if is_listed(&mut mountinfo, mountpoint)? {
            return Ok(Mounted::Yes);
        }
        let Some(left) = deadline.checked_duration_since(Instant::now()) else { return Ok(Mounted::InVain) };
        let timeout = Timespec { tv_sec: left.as_secs() as i64 + 1, tv_nsec: 0 };
        let mut fds = [PollFd::new(&mountinfo, PollFlags::PRI), PollFd::new(&pidfd, PollFlags::IN)];
        poll(&mut fds, Some(&timeout))?;
        if fds[1].revents().contains(PollFlags::IN) {
            return Ok(Mounted::ProcessEnded);
        }
    }
}

/// Whether something is mounted at `mountpoint` now.
pub fn is_mounted(mountpoint: &Path) -> bool {
    File::open("/proc/self/mountinfo")
        .and_then(|mut mountinfo| is_listed(&mut mountinfo, mountpoint))
        .unwrap_or(false)
}

fn is_listed(mountinfo: &mut File, mountpoint: &Path) -> std::io::Result<bool> {
    let mut text = String::new();
    mountinfo.rewind()?;
    mountinfo.read_to_string(&mut text)?;
    Ok(text.lines().filter_map(|line| line.split(' ').nth(4)).any(|path| Path::new(path) == mountpoint))
}
