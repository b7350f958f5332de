//! From any path to the mount it is in and the daemon behind it.

use crate::control::client::{Client, ClientError};
use crate::control::mounts::{self, Mount};
use crate::control::protocol::WirePath;
use crate::control::status::Status;
use crate::control::{CONTROL_XATTR, STATUS_XATTR};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// No attribute of ours is longer (the kernel's own limit).
const XATTR_MAX: usize = 64 << 10;

/// Why there is no daemon to ask, in one line for people.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The path is in no mount of ours.
    #[error("{} is not in a tierfs mount; {}", .path.display(), known(.mounts))]
    NotMounted {
        /// What was asked for.
        path: PathBuf,
        /// What is mounted.
        mounts: Vec<PathBuf>,
    },
    /// Nothing is mounted.
    #[error("nothing is mounted here; `tierfs mount CONFIG MOUNTPOINT` mounts")]
    Nothing,
    /// Several are mounted, and none was named.
    #[error("several are mounted, name one: {}", list(.0))]
    Several(Vec<PathBuf>),
    /// The daemon is gone, its mount is still there.
    #[error("{}", dead(.0))]
    Dead(PathBuf),
    /// The daemon can't be asked.
    #[error("{}: {source}", .point.display())]
    Client {
        /// Where it is mounted.
        point: PathBuf,
        /// Why.
        source: ClientError,
    },
    /// The operating system refuses.
    #[error("{}: {source}", .path.display())]
    Io {
        /// What was looked at.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn dead(point: &Path) -> String {
    let point = point.display();
    format!(
        "the daemon of {point} is gone; what was closed is safe: `tierfs mount CONFIG {point}` brings it back, \
         `tierfs unmount {point}` takes the dead mount away"
    )
}

fn known(mounts: &[PathBuf]) -> String {
    if mounts.is_empty() {
        "nothing is mounted here".to_owned()
    } else {
        format!("mounted: {}", list(mounts))
    }
}

fn list(mounts: &[PathBuf]) -> String {
    mounts.iter().map(|point| point.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// A path inside a living mount.
#[derive(Clone, Debug)]
pub struct Target {
    /// The mount.
    pub mount: Mount,
    /// The path, absolute.
    pub path: PathBuf,
    /// The path relative to the root of the file system.
    pub inner: WirePath,
}

impl Target {
    /// The mount that `path` is in.
    ///
    /// # Errors
    /// [`TargetError::NotMounted`], [`TargetError::Dead`].
    pub fn of(path: &Path) -> Result<Self, TargetError> {
        let io = |source| TargetError::Io { path: path.to_owned(), source };
        let mounts = mounts::all().map_err(io)?;
        let path = mounts::absolute(path).map_err(io)?;
        match mounts::containing(&mounts, &path) {
            Some(mount) => Self::living(mount, path),
            None => Err(TargetError::NotMounted { path, mounts: ours(&mounts) }),
        }
    }

    /// The mount to mean when none is named: the one around the current directory, or the only one.
    ///
    /// # Errors
    /// [`TargetError::Nothing`], [`TargetError::Several`], [`TargetError::Dead`].
    pub fn implied() -> Result<Self, TargetError> {
        let here = Path::new(".");
        let mounts = mounts::all().map_err(|source| TargetError::Io { path: here.to_owned(), source })?;
        if let Some(mount) = std::env::current_dir().ok().and_then(|dir| mounts::containing(&mounts, &dir)) {
            return Self::living(mount, mount.point.clone());
        }
        let mut ours: Vec<&Mount> = mounts.iter().filter(|mount| mount.is_tierfs()).collect();
        ours.dedup_by(|a, b| a.point == b.point);
        match ours.as_slice() {
            [] => Err(TargetError::Nothing),
            [only] => Self::living(only, only.point.clone()),
            several => Err(TargetError::Several(several.iter().map(|mount| mount.point.clone()).collect())),
        }
    }

    fn living(mount: &Mount, path: PathBuf) -> Result<Self, TargetError> {
        if mount.is_dead() {
            return Err(TargetError::Dead(mount.point.clone()));
        }
        let inner = mount.inner(&path).unwrap_or_default();
        Ok(Self { mount: mount.clone(), path, inner })
    }

    /// Where its daemon listens.
    ///
    /// # Errors
    /// [`TargetError::Io`] if the mount does not say.
    pub fn socket(&self) -> Result<PathBuf, TargetError> {
        let value = xattr(&self.mount.point, CONTROL_XATTR).map_err(|source| self.io(source))?;
        Ok(OsString::from_vec(value).into())
    }

    /// A connection to its daemon.
    ///
    /// # Errors
    /// [`TargetError::Client`], [`TargetError::Io`].
    pub fn connect(&self) -> Result<Client, TargetError> {
        Client::connect(&self.socket()?).map_err(|source| self.client(source))
    }

    /// All facts: over the socket, or through the mount where there is no socket (in a container) or it is another's.
    ///
    /// # Errors
    /// Of the socket, if the mount does not say either.
    pub fn status(&self) -> Result<Status, TargetError> {
        let failure = match self.connect().and_then(|mut client| client.status().map_err(|e| self.client(e)))
        {
            Ok(status) => return Ok(status),
            Err(failure) => failure,
        };
        let Ok(value) = xattr(&self.mount.point, STATUS_XATTR) else { return Err(failure) };
        // A daemon that is about to serve says nothing yet.
        let value = serde_json::from_slice(&value).map_err(|_not_json| failure)?;
        Status::from_json(value).map_err(|said| self.client(ClientError::Version(said)))
    }

    fn client(&self, source: ClientError) -> TargetError {
        TargetError::Client { point: self.mount.point.clone(), source }
    }

    fn io(&self, source: io::Error) -> TargetError {
        if source.raw_os_error() == Some(libc::ENOTCONN) {
            return TargetError::Dead(self.mount.point.clone());
        }
        TargetError::Io { path: self.mount.point.clone(), source }
    }
}

fn ours(mounts: &[Mount]) -> Vec<PathBuf> {
    mounts.iter().filter(|mount| mount.is_tierfs()).map(|mount| mount.point.clone()).collect()
}

/// An extended attribute of `path`, no link followed.
///
/// # Errors
/// As lgetxattr(2).
pub fn xattr(path: &Path, name: &str) -> io::Result<Vec<u8>> {
    let mut value = vec![0; XATTR_MAX];
    let size = rustix::fs::lgetxattr(path, name, value.as_mut_slice())?;
    value.truncate(size);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_outside_is_said_to_be() {
        let dir = tempfile::TempDir::new().unwrap();
        let error = Target::of(dir.path()).unwrap_err();
        assert!(matches!(error, TargetError::NotMounted { .. }), "{error}");
        assert!(error.to_string().contains("is not in a tierfs mount"), "{error}");
    }

    #[test]
    fn each_problem_names_a_way_out() {
        assert!(TargetError::Several(vec!["/a".into(), "/b".into()]).to_string().contains("/a, /b"));
        assert!(TargetError::Dead("/m".into()).to_string().contains("tierfs unmount /m"));
    }
}
