//! What must hold before a mount is tried: one clear line for each thing that does not. Touches
//! nothing but a dead earlier mount of ours on the very mount point.

use crate::cli::detach::{Manner, detach};
use crate::cli::failure::Failure;
use crate::control::mounts::{self, Mount};
use crate::control::target::Target;
use crate::host;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Dead mounts that may lie on each other.
const STACKED_MAX: usize = 16;

/// A directory that must not overlap with the mount point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// What it is: `tier scratch`.
    pub what: String,
    /// Where it is.
    pub path: PathBuf,
}

/// Whether a mount point with entries will do (`-o nonempty`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entries {
    /// It will.
    Allowed,
    /// It will not.
    Refused,
}

/// Whether FUSE can be used at all.
///
/// # Errors
/// [`Failure`] that says what is missing.
pub fn fuse() -> Result<(), Failure> {
    device(Path::new("/dev/fuse"), OpenOptions::new().read(true).write(true).open("/dev/fuse"))?;
    if !host::has_sys_admin() && !host::may_gain_sys_admin() {
        return Err(Failure::failed(
            "mounting needs CAP_SYS_ADMIN, which nobody can get here: start the container with --cap-add SYS_ADMIN, or mount for \
             one job alone in a user namespace: unshare --map-root-user --mount sh -c 'tierfs mount … && JOB'",
        ));
    }
    if !host::has_sys_admin() && !on_path("fusermount3") {
        return Err(Failure::failed(
            "mounting needs CAP_SYS_ADMIN or fusermount3: run as root (container: --cap-add SYS_ADMIN), or install \
             fusermount3 (apt install fuse3)",
        ));
    }
    Ok(())
}

fn device(path: &Path, opened: io::Result<File>) -> Result<(), Failure> {
    let shown = path.display();
    match opened {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(Failure::failed(format!(
            "{shown} can't be opened by this user: run as root, or allow it (container: --device /dev/fuse --cap-add SYS_ADMIN)"
        ))),
        Err(error) => Err(Failure::failed(format!(
            "no FUSE here ({shown}: {error}): load the module (modprobe fuse), or start the container with \
             --device /dev/fuse --cap-add SYS_ADMIN"
        ))),
    }
}

fn on_path(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

/// Makes sure that `point` can be mounted on and answers its real path; `say` hears what had to be done.
///
/// # Errors
/// [`Failure`] that says what to do.
pub fn mount_point(point: &Path, entries: Entries, say: &mut dyn FnMut(String)) -> Result<PathBuf, Failure> {
    let absolute =
        mounts::absolute(point).map_err(|error| Failure::usage(format!("{}: {error}", point.display())))?;
    let absolute = clear_dead(absolute, say)?;
    let shown = absolute.display();
    let found = fs::metadata(&absolute).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::failed(format!("mount point {shown} does not exist: mkdir -p {shown}"))
        }
        _ => Failure::failed(format!("mount point {shown}: {error}")),
    })?;
    if !found.is_dir() {
        return Err(Failure::failed(format!(
            "mount point {shown} is not a directory: name an empty directory"
        )));
    }
    let real =
        absolute.canonicalize().map_err(|error| Failure::failed(format!("mount point {shown}: {error}")))?;
    refuse_mounted(&real)?;
    if entries == Entries::Refused {
        refuse_entries(&real)?;
    }
    Ok(real)
}

fn clear_dead(mut point: PathBuf, say: &mut dyn FnMut(String)) -> Result<PathBuf, Failure> {
    // The mount point may be named by a link; what is dead then is what the link leads to.
    if let Ok(target) = fs::read_link(&point) {
        point = mounts::absolute(&point.parent().unwrap_or(Path::new("/")).join(target))
            .map_err(|error| Failure::failed(format!("{}: {error}", point.display())))?;
    }
    for _ in 0..STACKED_MAX {
        if !mounts::is_dead(&point) {
            break;
        }
        match mounted_at(&point)? {
            Some(mount) if mount.is_tierfs() => {
                detach(&point, Manner::Lazy).map_err(|error| Failure::failed(error.to_string()))?;
                say(format!("{}: took away the dead mount of a daemon that is gone", point.display()));
            }
            _ => {
                return Err(Failure::failed(format!(
                    "a dead FUSE mount of another program is on {0}: take it away first (umount -l {0})",
                    point.display()
                )));
            }
        }
    }
    Ok(point)
}

fn refuse_mounted(point: &Path) -> Result<(), Failure> {
    match mounted_at(point)? {
        Some(mount) if mount.is_tierfs() => Err(Failure::failed(format!(
            "{0} is already mounted{1}: `tierfs unmount {0}` first",
            point.display(),
            daemon_of(point)
        ))),
        _ => Ok(()),
    }
}

fn daemon_of(point: &Path) -> String {
    let hello =
        Target::of(point).and_then(|target| target.connect()).ok().and_then(|mut client| client.hello().ok());
    hello.map(|hello| format!(" (pid {})", hello.pid)).unwrap_or_default()
}

fn mounted_at(point: &Path) -> Result<Option<Mount>, Failure> {
    let mounts = mounts::all().map_err(|error| Failure::failed(format!("/proc/self/mountinfo: {error}")))?;
    Ok(mounts.into_iter().rfind(|mount| mount.point == point))
}

fn refuse_entries(point: &Path) -> Result<(), Failure> {
    let shown = point.display();
    let mut entries =
        fs::read_dir(point).map_err(|error| Failure::failed(format!("mount point {shown}: {error}")))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(Failure::failed(format!(
            "mount point {shown} is not empty: use another, or -o nonempty to hide what is there"
        ))),
    }
}

/// Makes sure that no root lies in the mount point and the mount point in no root.
///
/// # Errors
/// [`Failure`] that names both.
pub fn apart(point: &Path, roots: &[Root]) -> Result<(), Failure> {
    for root in roots {
        let path = real(&root.path);
        let relation = if path == point {
            "is the mount point"
        } else if path.starts_with(point) {
            "lies inside the mount point"
        } else if point.starts_with(&path) {
            "holds the mount point"
        } else {
            continue;
        };
        return Err(Failure::usage(format!(
            "{} ({}) {relation} {}: mount somewhere else",
            root.what,
            root.path.display(),
            point.display()
        )));
    }
    Ok(())
}

/// The real path as far as it exists.
fn real(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (above.canonicalize(), path.strip_prefix(above)) {
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exit::Exit;
    use tempfile::TempDir;

    fn refusal(point: &Path) -> Failure {
        mount_point(point, Entries::Refused, &mut |_| {}).unwrap_err()
    }

    #[test]
    fn an_empty_directory_will_do() {
        let dir = TempDir::new().unwrap();
        let link = dir.path().join("link");
        let real = dir.path().join("real");
        fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        let found = mount_point(&link, Entries::Refused, &mut |_| {}).unwrap();
        assert_eq!(found, real.canonicalize().unwrap());
    }

    #[test]
    fn each_wrong_mount_point_is_named_with_a_way_out() {
        let dir = TempDir::new().unwrap();
        let missing = refusal(&dir.path().join("missing"));
        assert_eq!(missing.exit, Exit::Failed);
        assert!(missing.message.contains("mkdir -p"), "{missing}");
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(refusal(&file).message.contains("not a directory"));
        let full = refusal(dir.path());
        assert_eq!(full.exit, Exit::Failed);
        assert!(full.message.contains("-o nonempty"), "{full}");
        assert!(mount_point(dir.path(), Entries::Allowed, &mut |_| {}).is_ok());
    }

    #[test]
    fn tiers_and_mount_stay_apart() {
        let dir = TempDir::new().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let point = base.join("m");
        fs::create_dir(&point).unwrap();
        let check = |path: PathBuf| apart(&point, &[Root { what: "tier scratch".into(), path }]);
        assert_eq!(check(base.join("elsewhere")), Ok(()));
        assert_eq!(check(base.join("mother")), Ok(()), "a prefix of the name is no parent");
        for (path, relation) in [
            (base.join("m/inner/not-yet"), "lies inside"),
            (base.clone(), "holds the mount point"),
            (point.clone(), "is the mount point"),
        ] {
            let failure = check(path).unwrap_err();
            assert!(failure.message.contains(relation) && failure.exit == Exit::Usage, "{failure}");
        }
    }

    #[test]
    fn a_machine_without_fuse_is_told_what_to_do() {
        let said =
            |kind: io::ErrorKind| device(Path::new("/dev/fuse"), Err(kind.into())).unwrap_err().message;
        assert!(said(io::ErrorKind::NotFound).contains("modprobe fuse"));
        assert!(said(io::ErrorKind::NotFound).contains("--device /dev/fuse"));
        assert!(said(io::ErrorKind::PermissionDenied).contains("as root"));
    }
}
