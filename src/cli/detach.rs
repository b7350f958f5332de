//! Taking a mount away from the kernel: umount2 as root, fusermount3 else.

use crate::error::{Error, Kind};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// How.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Only if nobody uses it.
    Plain,
    /// At once for new users, for the others when they are done: for mounts whose daemon is gone.
    Lazy,
}

/// Why a mount stays.
#[derive(Debug, thiserror::Error)]
pub enum DetachError {
    /// Somebody has files open or stands in it.
    #[error("{0} is in use; `fuser -vm {0}` shows by whom")]
    Busy(String),
    /// This user may not.
    #[error("{point} can't be unmounted by this user{hint}")]
    Denied {
        /// Where.
        point: String,
        /// What would help.
        hint: &'static str,
    },
    /// Anything else.
    #[error("unmount of {point}: {source}")]
    Other {
        /// Where.
        point: String,
        /// Why.
        source: io::Error,
    },
}

impl From<DetachError> for Error {
    fn from(error: DetachError) -> Self {
        let kind = match &error {
            DetachError::Busy(_) => Kind::Busy,
            DetachError::Denied { .. } => Kind::NotPermitted,
            DetachError::Other { .. } => Kind::Os(libc::EIO),
        };
        Self::new(kind, error.to_string())
    }
}

/// Unmounts `point`.
///
/// # Errors
/// [`DetachError`].
pub fn detach(point: &Path, manner: Manner) -> Result<(), DetachError> {
    let flags = match manner {
        Manner::Plain => UnmountFlags::NOFOLLOW,
        Manner::Lazy => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
    };
    match rustix::mount::unmount(point, flags) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(DetachError::Busy(point.display().to_string())),
        Err(Errno::PERM | Errno::ACCESS) => by_helper(point, manner),
        Err(errno) => Err(other(point, errno.into())),
    }
}

fn by_helper(point: &Path, manner: Manner) -> Result<(), DetachError> {
    let denied = |hint| DetachError::Denied { point: point.display().to_string(), hint };
    let lazy: &[&str] = match manner {
        Manner::Plain => &[],
        Manner::Lazy => &["-z"],
    };
    let ran = Command::new("fusermount3")
        .arg("-u")
        .args(lazy)
        .arg("--")
        .arg(point)
        .stdin(Stdio::null())
        .env("LC_ALL", "C")
        .output();
    match ran {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(refused(point, &String::from_utf8_lossy(&output.stderr))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(denied(": fusermount3 is missing (apt install fuse3)"))
        }
        Err(error) => Err(other(point, error)),
    }
}

/// fusermount3 has no exit codes: its one line is all there is.
fn refused(point: &Path, said: &str) -> DetachError {
    let shown = point.display().to_string();
    if said.contains("busy") {
        DetachError::Busy(shown)
    } else if said.contains("permitted") || said.contains("not found in") {
        DetachError::Denied { point: shown, hint: ": it is another user's" }
    } else {
        other(point, io::Error::other(said.trim().to_owned()))
    }
}

fn other(point: &Path, source: io::Error) -> DetachError {
    DetachError::Other { point: point.display().to_string(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fusermount_says_is_understood() {
        let said = |text: &str| refused(Path::new("/m"), text);
        assert!(matches!(
            said("fusermount3: failed to unmount /m: Device or resource busy\n"),
            DetachError::Busy(_)
        ));
        assert!(matches!(
            said("fusermount3: failed to unmount /m: Operation not permitted\n"),
            DetachError::Denied { .. }
        ));
        assert!(matches!(
            said("fusermount3: entry for /m not found in /etc/mtab\n"),
            DetachError::Denied { .. }
        ));
        assert!(said("strange\n").to_string().ends_with("strange"));
    }

    #[test]
    fn what_is_no_mount_point_is_an_error() {
        let dir = tempfile::TempDir::new().unwrap();
        assert!(detach(dir.path(), Manner::Plain).is_err());
    }
}
