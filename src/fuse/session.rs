//! Mounting, and the threads that serve the kernel.

use super::dispatch::Shared;
use super::filesystem::Mount;
use super::notifier::serve;
use crate::types::Invalidation;
use crate::vfs::Vfs;
use fuser::{Config, MountOption, Session, SessionACL};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// How the kernel mounts it.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// Other users may use the mount.
    pub allow_other: bool,
    /// No writes.
    pub read_only: bool,
    /// Name shown in `mount` and `df`.
    pub source: String,
    /// More options as mount(8) writes them, such as `noexec`.
    pub others: Vec<String>,
    /// Threads that take requests.
    pub threads: usize,
}

/// A mounted file system, before it is served.
pub struct Mounted {
    session: Session<Mount>,
    shared: Arc<Shared>,
    mountpoint: PathBuf,
}

impl Mounted {
    /// Mounts `vfs` at `mountpoint` and shakes hands with the kernel.
    ///
    /// # Errors
    /// What mount(2) or fusermount3 says.
    pub fn new(
        vfs: Arc<Vfs>,
        runtime: tokio::runtime::Handle,
        mountpoint: &Path,
        options: &SessionOptions,
        invalidations: Receiver<Invalidation>,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            may_hang: vfs.may_hang(),
            has_limits: vfs.has_limits(),
            vfs,
            runtime,
            backings: Mutex::new(HashMap::new()),
        });
        let session = Session::new(Mount::new(shared.clone()), mountpoint, &config(options))?;
        let notifier = session.notifier();
        std::thread::Builder::new()
            .name("notifier".into())
            .spawn(move || serve(&notifier, &invalidations))?;
        Ok(Self { session, shared, mountpoint: mountpoint.to_owned() })
    }

    /// Serves the kernel until it is unmounted.
    ///
    /// # Errors
    /// If the device fails.
    pub fn serve(self) -> io::Result<()> {
        read_ahead(&self.mountpoint);
        let ended = self.session.run();
        self.shared.release_all();
        ended
    }
}

fn config(options: &SessionOptions) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(options.source.clone()),
        // fuser keeps `Subtype` from mount(2), so that the type would be plain `fuse` when root mounts.
        MountOption::CUSTOM("subtype=tierfs".into()),
        MountOption::DefaultPermissions,
        if options.read_only { MountOption::RO } else { MountOption::RW },
    ];
    config.mount_options.extend(options.others.iter().map(|option| known_option(option)));
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(options.threads);
    config.clone_fd = true;
    config
}

fn known_option(option: &str) -> MountOption {
    match option {
        "dev" => MountOption::Dev,
        "nodev" => MountOption::NoDev,
        "suid" => MountOption::Suid,
        "nosuid" => MountOption::NoSuid,
        "exec" => MountOption::Exec,
        "noexec" => MountOption::NoExec,
        "atime" => MountOption::Atime,
        "noatime" => MountOption::NoAtime,
        "dirsync" => MountOption::DirSync,
        "sync" => MountOption::Sync,
        "async" => MountOption::Async,
        other => MountOption::CUSTOM(other.into()),
    }
}

/// Lets the kernel read further ahead in ordinary mode than its 128 KiB; only root may.
fn read_ahead(mountpoint: &Path) {
    const KIB: &str = "4096";
    // Not stat(2) on our own mount: this very thread may have to answer it.
    let Ok(mounts) = std::fs::read_to_string("/proc/self/mountinfo") else { return };
    let point = mountpoint.to_string_lossy();
    let device = mounts.lines().rev().find_map(|line| {
        let mut fields = line.split(' ').skip(2);
        let device = fields.next()?;
        (fields.nth(1)? == point).then_some(device)
    });
    if let Some(device) = device
        && let Err(error) = std::fs::write(format!("/sys/class/bdi/{device}/read_ahead_kb"), KIB)
    {
        tracing::debug!(%error, "the kernel's read-ahead stays as it is");
    }
}
