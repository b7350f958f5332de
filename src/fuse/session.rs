//! Mounting, and the threads that serve the kernel.

use super::dispatch::Shared;
use super::filesystem::Mount;
use super::notifier::serve;
use crate::types::Invalidation;
use crate::vfs::Vfs;
use fuser::{Config, MountOption, Session, SessionACL};
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::mount::MountFlags;
use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// Type of our mounts in `/proc/self/mountinfo`.
const FS_TYPE: &str = "fuse.tierfs";

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
        let shared = Arc::new(Shared { vfs, runtime, backings: Mutex::new(HashMap::new()) });
        let config = config(options);
        let session = match mount_as_root(mountpoint, options)? {
            Some(device) => Session::from_fd(Mount::new(shared), device, config.acl, config)?,
            None => Session::new(Mount::new(shared), mountpoint, &config)?,
        };
        let notifier = session.notifier();
        std::thread::Builder::new()
            .name("notifier".into())
            .spawn(move || serve(&notifier, &invalidations))?;
        Ok(Self { session, mountpoint: mountpoint.to_owned() })
    }

    /// Serves the kernel until it is unmounted.
    ///
    /// # Errors
    /// If the device fails.
    pub fn serve(self) -> io::Result<()> {
        read_ahead(&self.mountpoint);
        self.session.run()
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

/// Mounts with the type `fuse.tierfs`, by which every tool finds its own mounts; fuser's own mount(2) says
/// `fuse`. `None`: only fusermount3 may mount here, and it sets the type itself.
fn mount_as_root(mountpoint: &Path, options: &SessionOptions) -> io::Result<Option<OwnedFd>> {
    let device = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let root = std::fs::metadata(mountpoint)?;
    let mut data = format!(
        "fd={},rootmode={:o},user_id={},group_id={},default_permissions",
        device.as_raw_fd(),
        root.mode() & libc::S_IFMT,
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let data = CString::new(data)?;
    match rustix::mount::mount(&options.source, mountpoint, FS_TYPE, mount_flags(options), &*data) {
        Ok(()) => Ok(Some(device)),
        Err(rustix::io::Errno::PERM) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// As fusermount3: no device nodes and no set-uid programs unless asked for.
fn mount_flags(options: &SessionOptions) -> MountFlags {
    let mut flags = MountFlags::NODEV | MountFlags::NOSUID;
    flags.set(MountFlags::RDONLY, options.read_only);
    for option in &options.others {
        match option.as_str() {
            "dev" => flags.remove(MountFlags::NODEV),
            "suid" => flags.remove(MountFlags::NOSUID),
            "noexec" => flags.insert(MountFlags::NOEXEC),
            "noatime" => flags.insert(MountFlags::NOATIME),
            _ => {}
        }
    }
    flags
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
