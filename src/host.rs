//! What this kernel and this container allow. A leaf: reads `/proc`, decides nothing.

use std::fmt;
use std::io;
use std::path::Path;

/// First kernel with FUSE passthrough.
pub const PASSTHROUGH_KERNEL: KernelVersion = KernelVersion { major: 6, minor: 9 };

const CAP_SYS_ADMIN: u32 = 21;

/// Version of a Linux kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    /// 6 of 6.9.
    pub major: u32,
    /// 9 of 6.9.
    pub minor: u32,
}

impl KernelVersion {
    fn parse(release: &str) -> Option<Self> {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit());
        Some(Self { major: numbers.next()?.parse().ok()?, minor: numbers.next()?.parse().ok()? })
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The kernel that runs; none if its release makes no sense.
#[must_use]
pub fn kernel() -> Option<KernelVersion> {
    KernelVersion::parse(&rustix::system::uname().release().to_string_lossy())
}

/// Whether this process has CAP_SYS_ADMIN in effect.
#[must_use]
pub fn has_sys_admin() -> bool {
    std::fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| effective(&status).is_some_and(|set| set >> CAP_SYS_ADMIN & 1 == 1))
}

/// Whether a set-uid program such as fusermount3 could get CAP_SYS_ADMIN here: containers take it from the bounding set, or
/// forbid new privileges.
#[must_use]
pub fn may_gain_sys_admin() -> bool {
    // Where /proc does not say, only trying can.
    std::fs::read_to_string("/proc/self/status").map_or(true, |status| can_gain(&status))
}

fn can_gain(status: &str) -> bool {
    let bounded = capabilities(status, "CapBnd:").is_none_or(|set| set >> CAP_SYS_ADMIN & 1 == 1);
    let forbidden =
        status.lines().filter_map(|line| line.strip_prefix("NoNewPrivs:")).any(|set| set.trim() == "1");
    bounded && !forbidden
}

/// Whether this process is root, or whatever it is, only in a user namespace of a container.
#[must_use]
pub fn in_user_namespace() -> bool {
    std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| maps_some(&map))
}

/// The first user namespace has all ids, each as itself.
fn maps_some(map: &str) -> bool {
    !map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn effective(status: &str) -> Option<u64> {
    capabilities(status, "CapEff:")
}

fn capabilities(status: &str, set: &str) -> Option<u64> {
    let set = status.lines().find_map(|line| line.strip_prefix(set))?;
    u64::from_str_radix(set.trim(), 16).ok()
}

/// What this process uses; what can't be read is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Memory that is its own or shared, and resident.
    pub resident_bytes: Option<u64>,
    /// Open files.
    pub open_files: Option<u64>,
    /// Most open files it may have.
    pub open_files_max: Option<u64>,
}

/// What this process uses now.
#[must_use]
pub fn process() -> Process {
    let resident = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:").map(str::to_owned))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
    };
    Process {
        resident_bytes: std::fs::read_to_string("/proc/self/status").ok().and_then(resident),
        open_files: std::fs::read_dir("/proc/self/fd").ok().map(|open| open.count() as u64),
        open_files_max: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
    }
}

/// Kinds of file systems that tierfs treats in their own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// Layers of a container: a poor stage, and the kernel refuses passthrough onto it.
    Overlay,
    /// Memory: gone at reboot.
    Tmpfs,
    /// NFS.
    Nfs,
    /// SMB.
    Smb,
    /// Lustre.
    Lustre,
    /// FUSE of any kind.
    Fuse,
    /// Anything else, by its magic number.
    Other(u64),
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Overlay => "overlayfs",
            Self::Tmpfs => "tmpfs",
            Self::Nfs => "NFS",
            Self::Smb => "SMB",
            Self::Lustre => "Lustre",
            Self::Fuse => "FUSE",
            Self::Other(0xef53) => "ext4",
            Self::Other(0x5846_5342) => "xfs",
            Self::Other(0x9123_683e) => "btrfs",
            Self::Other(magic) => return write!(f, "file system {magic:#x}"),
        })
    }
}

/// Which file system `path` is on.
///
/// # Errors
/// As statfs(2).
pub fn file_system(path: &Path) -> io::Result<FileSystem> {
    let found = rustix::fs::statfs(path)?;
    #[expect(clippy::cast_sign_loss, reason = "magic numbers are 32 bits, the field is wider and signed")]
    let magic = found.f_type as u64 & 0xffff_ffff;
    Ok(match magic {
        0x794c_7630 => FileSystem::Overlay,
        0x0102_1994 => FileSystem::Tmpfs,
        0x6969 => FileSystem::Nfs,
        0xff53_4d42 | 0xfe53_4d42 | 0x517b => FileSystem::Smb,
        0x0bd0_0bd0 => FileSystem::Lustre,
        0x6573_5546 => FileSystem::Fuse,
        other => FileSystem::Other(other),
    })
}

/// Why passthrough is not possible, and what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// What is missing.
    pub why: String,
    /// What to do about it.
    pub remedy: String,
}

/// What stands between this process and passthrough onto files below `roots`; empty: nothing known.
#[must_use]
pub fn passthrough_obstacles<'a>(roots: impl IntoIterator<Item = &'a Path>) -> Vec<Obstacle> {
    let mut obstacles: Vec<Obstacle> =
        [old_kernel(kernel()), no_privilege(has_sys_admin()), foreign(in_user_namespace())]
            .into_iter()
            .flatten()
            .collect();
    obstacles.extend(roots.into_iter().filter(|root| is_overlay(root)).map(|root| Obstacle {
        why: format!("{} is on overlayfs", root.display()),
        remedy: "put it on a volume or a host path".to_owned(),
    }));
    obstacles
}

fn is_overlay(root: &Path) -> bool {
    file_system(root).is_ok_and(|found| found == FileSystem::Overlay)
}

fn old_kernel(version: Option<KernelVersion>) -> Option<Obstacle> {
    let why = match version {
        Some(version) if version >= PASSTHROUGH_KERNEL => return None,
        Some(version) => format!("Linux {version} has no FUSE passthrough"),
        None => "the kernel does not say its version".to_owned(),
    };
    Some(Obstacle { why, remedy: format!("run Linux {PASSTHROUGH_KERNEL} or newer") })
}

fn no_privilege(has_sys_admin: bool) -> Option<Obstacle> {
    (!has_sys_admin).then(|| Obstacle {
        why: "CAP_SYS_ADMIN is not in effect".to_owned(),
        remedy: "run as root (container: --cap-add SYS_ADMIN)".to_owned(),
    })
}

fn foreign(in_user_namespace: bool) -> Option<Obstacle> {
    in_user_namespace.then(|| Obstacle {
        why: "this is a user namespace, and the kernel wants CAP_SYS_ADMIN outside of it".to_owned(),
        remedy: "run as root outside of user namespaces (container: --cap-add SYS_ADMIN, not rootless)"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read() {
        let version = |major, minor| Some(KernelVersion { major, minor });
        assert_eq!(KernelVersion::parse("6.8.0-1015-azure"), version(6, 8));
        assert_eq!(KernelVersion::parse("6.18.44-fc-v657"), version(6, 18));
        assert_eq!(KernelVersion::parse("weird"), None);
        assert!(version(6, 18) > version(6, 9));
        assert!(kernel().is_some());
    }

    #[test]
    fn capabilities_are_read() {
        assert_eq!(effective("Name:\tx\nCapEff:\t000001ffffffffff\n"), Some(0x1ff_ffff_ffff));
        assert_eq!(effective("Name:\tx\n"), None);
    }

    #[test]
    fn what_a_container_takes_away_is_read() {
        let status =
            |bounding: &str, forbidden: &str| format!("CapBnd:\t{bounding}\nNoNewPrivs:\t{forbidden}\n");
        assert!(can_gain(&status("000001ffffffffff", "0")) && can_gain(""));
        assert!(!can_gain(&status("00000000a80425fb", "0")) && !can_gain(&status("000001ffffffffff", "1")));
        assert!(!maps_some("         0          0 4294967295\n"));
        assert!(maps_some("         0       1000          1\n") && maps_some("0 100000 65536\n"));
        assert!(foreign(true).is_some() && foreign(false).is_none());
    }

    #[test]
    fn this_process_is_known() {
        let own = process();
        assert!(own.resident_bytes > Some(1 << 20) && own.open_files > Some(2), "{own:?}");
    }

    #[test]
    fn obstacles_come_with_a_remedy() {
        assert_eq!(old_kernel(Some(PASSTHROUGH_KERNEL)), None);
        assert!(
            old_kernel(Some(KernelVersion { major: 5, minor: 15 })).is_some_and(|o| o.why.contains("5.15"))
        );
        assert!(no_privilege(false).is_some_and(|o| o.remedy.contains("SYS_ADMIN")));
        assert_eq!(no_privilege(true), None);
    }

    #[test]
    fn proc_is_no_overlay() {
        assert_ne!(file_system(Path::new("/proc")).unwrap(), FileSystem::Overlay);
        assert!(file_system(Path::new("/nonexistent")).is_err());
    }
}
