//! What umount(8) reads before it unmounts: without a line here it takes any FUSE file system away by itself, and calls no
//! helper that would wait for dirty data.

use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Where umount(8) looks.
const DIRECTORY: &str = "/run/mount";

/// Has umount(8) call `umount.tierfs` for what `source` is mounted as on `point`. For root alone; it does no harm if it fails.
pub fn enter(source: &str, point: &Path) {
    if let Err(error) = change(Path::new(DIRECTORY), point, Some(source)) {
        tracing::debug!(%error, "umount(8) will not wait for dirty data");
    }
}

/// Takes that back.
pub fn leave(point: &Path) {
    if let Err(error) = change(Path::new(DIRECTORY), point, None) {
        tracing::debug!(%error, "a line of a mount that is gone stays in utab");
    }
}

/// Replaces the line of `point` under the lock that libmount takes too.
fn change(directory: &Path, point: &Path, source: Option<&str>) -> io::Result<()> {
    let file = directory.join("utab");
    if source.is_none() && !file.exists() {
        return Ok(());
    }
    fs::create_dir_all(directory)?;
    let lock = File::options().create(true).truncate(false).write(true).open(directory.join("utab.lock"))?;
    flock(&lock, FlockOperation::LockExclusive)?;
    let target = format!("TARGET={}", escaped(point.as_os_str().as_bytes()));
    let old = match fs::read_to_string(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    let is_other = |line: &&str| !line.split(' ').any(|word| word == target);
    let mut lines: Vec<String> = old.lines().filter(is_other).map(str::to_owned).collect();
    if let Some(source) = source {
        lines.push(format!("SRC={} {target} ROOT=/ OPTS=uhelper=tierfs", escaped(source.as_bytes())));
    }
    let text: String = lines.into_iter().map(|line| line + "\n").collect();
    let part = directory.join("utab.tierfs");
    fs::write(&part, text)?;
    fs::rename(&part, &file)
}

/// As in `/proc/self/mountinfo`.
fn escaped(text: &[u8]) -> String {
    let mut plain = Vec::with_capacity(text.len());
    for &byte in text {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => plain.extend(format!("\\{byte:03o}").into_bytes()),
            _ => plain.push(byte),
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_has_one_line_among_those_of_others() {
        let dir = tempfile::TempDir::new().unwrap();
        let inner = dir.path().join("mount");
        let seen = || fs::read_to_string(inner.join("utab")).unwrap();
        change(&inner, Path::new("/m"), None).unwrap();
        assert!(!inner.exists());
        change(&inner, Path::new("/m x"), Some("/etc/a b.toml")).unwrap();
        let ours = "SRC=/etc/a\\040b.toml TARGET=/m\\040x ROOT=/ OPTS=uhelper=tierfs\n";
        assert_eq!(seen(), ours);
        let other = "SRC=x TARGET=/m ROOT=/ OPTS=_netdev\n";
        fs::write(inner.join("utab"), format!("{other}{ours}")).unwrap();
        change(&inner, Path::new("/m x"), Some("/etc/a b.toml")).unwrap();
        assert_eq!(seen(), format!("{other}{ours}"));
        change(&inner, Path::new("/m x"), None).unwrap();
        assert_eq!(seen(), other);
    }
}
