//! Other FUSE daemons on a directory: the null daemon and mergerfs.

use crate::support::{mount, wait};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running peer; unmounted and ended when dropped.
#[derive(Debug)]
pub struct Peer {
    mountpoint: PathBuf,
    process: Child,
}

impl Peer {
    /// The null daemon: this program again, in that role.
    pub fn null(source: &Path, mountpoint: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program's path"));
        command.arg(crate::NULL_DAEMON).args([source, mountpoint]);
        let peer = Self::start(command, mountpoint);
        mount::set_read_ahead(mountpoint, 4096);
        peer
    }

    /// Debian's mergerfs with one branch.
    pub fn mergerfs(source: &Path, mountpoint: &Path) -> Self {
        let mut command = Command::new("mergerfs");
        command.arg("-f").args([source, mountpoint]);
        Self::start(command, mountpoint)
    }

    fn start(mut command: Command, mountpoint: &Path) -> Self {
        std::fs::create_dir_all(mountpoint).expect("a mount point");
        mount::end_with_us(&mut command);
        let process = command.stdin(Stdio::null()).spawn().expect("the peer's program");
        let pidfd = mount::pidfd(&process);
        assert_eq!(wait::for_mount(mountpoint, pidfd).expect("mountinfo"), wait::Mounted::Yes, "{command:?}");
        Self { mountpoint: mountpoint.to_owned(), process }
    }

    /// Where it is mounted.
    pub fn root(&self) -> &Path {
        &self.mountpoint
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        mount::detach(&self.mountpoint);
        // Fails only if it has ended by the unmount already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
