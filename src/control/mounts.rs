//! The tierfs mounts of this machine or container, out of `/proc/self/mountinfo`.

use crate::control::protocol::WirePath;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Type that tierfs mounts carry.
pub const FS_TYPE: &str = "fuse.tierfs";

/// One line of mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where it is.
    pub point: PathBuf,
    /// Which directory of the file system is shown there: `/` unless it is a bind mount of a part.
    pub root: PathBuf,
    /// Type of the file system.
    pub fs_type: String,
    /// What is mounted.
    pub source: String,
    /// Its options.
    pub options: String,
    /// Options of the file system itself: those of NFS and SMB.
    pub super_options: String,
    /// Its device, as in `/sys/class/bdi`.
    pub device: String,
}

impl Mount {
    /// Whether it is one of ours.
    #[must_use]
    pub fn is_tierfs(&self) -> bool {
        self.fs_type == FS_TYPE
    }

    /// Whether its daemon is gone.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        is_dead(&self.point)
    }

    /// `path`, which lies in this mount, relative to the root of the file system.
    #[must_use]
    pub fn inner(&self, path: &Path) -> Option<WirePath> {
        let rest = path.strip_prefix(&self.point).ok()?;
        let root = self.root.strip_prefix("/").unwrap_or(&self.root);
        let parts: Vec<&[u8]> =
            root.components().chain(rest.components()).map(|part| part.as_os_str().as_bytes()).collect();
        Some(WirePath(parts.join(&b'/')))
    }
}

/// Whether `path` is a mount point whose daemon is gone (`ENOTCONN`).
#[must_use]
pub fn is_dead(path: &Path) -> bool {
    let is_gone = |error: io::Error| error.raw_os_error() == Some(libc::ENOTCONN);
    match std::fs::symlink_metadata(path) {
        Err(error) => is_gone(error),
        // The kernel may still believe what the daemon last said of its root; of its room it believes nothing.
        Ok(metadata) if metadata.is_dir() => {
            rustix::fs::statfs(path).is_err_and(|error| is_gone(error.into()))
        }
        Ok(_) => false,
    }
}

/// All mounts, oldest first.
///
/// # Errors
/// If `/proc` can't be read.
pub fn all() -> io::Result<Vec<Mount>> {
    Ok(parse(&std::fs::read("/proc/self/mountinfo")?))
}

/// The tierfs mounts.
///
/// # Errors
/// As [`all`].
pub fn tierfs() -> io::Result<Vec<Mount>> {
    Ok(all()?.into_iter().filter(Mount::is_tierfs).collect())
}

/// The mount that `path` (absolute, without links) lies in, and nothing if that is none of ours.
#[must_use]
pub fn containing<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    holding(mounts, path).filter(|mount| mount.is_tierfs())
}

/// The mount of any kind that `path` (absolute, without links) lies in.
#[must_use]
pub fn holding<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    // The last of equally long mount points is the one on top.
    mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.components().count())
}

/// `path` made absolute, links above its last component resolved as far as the file systems
/// there answer; the last component itself is taken as it is.
///
/// # Errors
/// If the current directory is gone.
pub fn absolute(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let Some((parent, name)) = path.parent().zip(path.file_name()) else {
        return path.canonicalize().or(Ok(path));
    };
    if name == ".." {
        return path.canonicalize();
    }
    Ok(parent.canonicalize().unwrap_or_else(|_dead_or_missing| parent.to_owned()).join(name))
}

/// The mounts that `text`, in the form of mountinfo, lists.
#[must_use]
pub fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

/// `36 35 98:0 /root /point opts optional... - type source superopts`
fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = text(fields.nth(2)?);
    let root = path(fields.next()?);
    let point = path(fields.next()?);
    let options = text(fields.next()?);
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let fs_type = text(fields.next()?);
    let source = text(fields.next()?);
    let super_options = fields.next().map(text).unwrap_or_default();
    Some(Mount { point, root, fs_type, source, options, super_options, device })
}

fn path(field: &[u8]) -> PathBuf {
    OsString::from_vec(unescape(field)).into()
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(&unescape(field)).into_owned()
}

/// The kernel writes space, tab, newline and backslash as `\ooo`.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        match (first, tail) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                plain.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                rest = after;
            }
            _ => {
                plain.push(*first);
                rest = tail;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &[u8] = b"22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
        40 22 0:50 / /m rw,nosuid shared:3 - fuse.tierfs train rw,user_id=0\n\
        41 40 0:51 / /m/inner rw - tmpfs tmpfs rw\n\
        42 22 0:50 /data /mnt/with\\040space rw - fuse.tierfs train rw\n\
        garbage\n";

    #[test]
    fn mountinfo_is_read() {
        let mounts = parse(INFO);
        assert_eq!(mounts.len(), 4);
        assert_eq!(mounts[1].point, Path::new("/m"));
        assert_eq!(mounts[1].source, "train");
        assert_eq!((mounts[1].device.as_str(), mounts[1].super_options.as_str()), ("0:50", "rw,user_id=0"));
        assert_eq!(mounts[3].point, Path::new("/mnt/with space"));
        assert_eq!(unescape(br"a\134b\9"), br"a\b\9");
    }

    #[test]
    fn the_innermost_mount_counts() {
        let mounts = parse(INFO);
        let at = |path: &str| containing(&mounts, Path::new(path)).map(|mount| mount.point.clone());
        assert_eq!(at("/m/a/b"), Some("/m".into()));
        assert_eq!(at("/m/inner/x"), None);
        assert_eq!(at("/mx"), None);
        assert_eq!(at("/etc"), None);
    }

    #[test]
    fn paths_of_a_bind_mount_are_the_file_systems_own() {
        let mounts = parse(INFO);
        let inner = |mount: &Mount, path: &str| mount.inner(Path::new(path)).map(|path| path.to_string());
        assert_eq!(inner(&mounts[3], "/mnt/with space/a"), Some("data/a".into()));
        assert_eq!(inner(&mounts[1], "/m"), Some(String::new()));
        assert_eq!(inner(&mounts[1], "/m/a/b"), Some("a/b".into()));
        assert_eq!(inner(&mounts[1], "/etc"), None);
    }
}
