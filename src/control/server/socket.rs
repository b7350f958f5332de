//! The socket's file: taken from nobody who lives, and taken away at the end only if it is still ours.

use crate::error::{Error, Kind, Result};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// `sun_path` with its terminating zero.
const PATH_MAX: usize = 107;

#[derive(Debug)]
pub(super) struct Socket {
    path: PathBuf,
    identity: (u64, u64),
}

impl Socket {
    pub(super) fn take(path: &Path) -> Result<(Self, UnixListener)> {
        // Bound under a private name first: until the rename nobody can connect in a wrong mode, and
        // the rename replaces a dead socket in one step.
        let private = private_name(path)?;
        make_directory(path)?;
        refuse_the_living(path)?;
        discard(&private)?;
        let listener = UnixListener::bind(&private)
            .map_err(|error| Error::from(error).context(format_args!("control socket {}", path.display())))?;
        let taken = fs::set_permissions(&private, fs::Permissions::from_mode(0o600))
            .and_then(|()| fs::rename(&private, path))
            .and_then(|()| fs::symlink_metadata(path));
        match taken {
            Ok(found) => Ok((Self { path: path.to_owned(), identity: (found.dev(), found.ino()) }, listener)),
            Err(error) => {
                discard(&private)?;
                Err(Error::from(error).context(format_args!("control socket {}", path.display())))
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let ours =
            fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.identity);
        if ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(%error, path = %self.path.display(), "control socket stays behind");
        }
    }
}

fn private_name(path: &Path) -> Result<PathBuf> {
    let invalid = |why: &str| Error::new(Kind::Invalid, format!("control socket {}: {why}", path.display()));
    let mut name = path.file_name().ok_or_else(|| invalid("is not a file name"))?.to_owned();
    name.push(format!(".{}", std::process::id()));
    let private = path.with_file_name(name);
    if private.as_os_str().len() > PATH_MAX {
        return Err(Error::new(
            Kind::NameTooLong,
            format!(
                "control socket {}: longer than {} bytes; set a shorter `control` in [mount]",
                path.display(),
                PATH_MAX - 8
            ),
        ));
    }
    Ok(private)
}

fn make_directory(path: &Path) -> Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => {
            fs::DirBuilder::new().recursive(true).mode(0o755).create(parent).map_err(|error| {
                Error::from(error).context(format_args!(
                    "can't make {} for the control socket (another `control` in [mount] goes elsewhere)",
                    parent.display()
                ))
            })
        }
        _ => Ok(()),
    }
}

fn refuse_the_living(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {}
        Ok(_) => {
            return Err(Error::new(
                Kind::Exists,
                format!(
                    "{} is in the way and is no socket; remove it or set another `control` in [mount]",
                    path.display()
                ),
            ));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(Error::new(Kind::Busy, format!("another daemon answers on {}", path.display()))),
        Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => {
            Ok(())
        }
        Err(error) => Err(Error::from(error).context(format_args!("control socket {}", path.display()))),
    }
}

fn discard(private: &Path) -> Result<()> {
    match fs::remove_file(private) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
