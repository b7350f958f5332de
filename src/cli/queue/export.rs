//! `tierfs queue export`: the newest bytes of a file that is not home yet, copied out of the mount.

use crate::cli::failure::Failure;
use crate::cli::{say, text};
use crate::control::STATE_XATTR;
use crate::control::protocol::RowState;
use crate::control::target::{Target, TargetError, xattr};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Copies the newest bytes of `path` to `to`: a new file, or a directory in which there is none of its name.
///
/// # Errors
/// [`Failure`]; nothing that was there is changed.
pub fn run(path: &Path, to: &Path) -> Result<(), Failure> {
    let target = Target::of(path)?;
    let state = state(&target)?;
    if state == RowState::Clean {
        return Err(Failure::failed(format!("{}: not in the queue: it is at home", path.display())));
    }
    let to = destination(&target.path, to)?;
    let bytes = copy(&target.path, &to)?;
    say::out(format_args!(
        "{}: {} copied to {}",
        text::printable(&path.to_string_lossy()),
        text::bytes(bytes),
        text::printable(&to.to_string_lossy())
    ));
    if state == RowState::Writing {
        say::note("it is open for writing, or was never closed: these are its bytes of now");
    }
    Ok(())
}

fn state(target: &Target) -> Result<RowState, Failure> {
    let failed = |error: io::Error| Failure::failed(format!("{}: {error}", target.path.display()));
    let metadata = std::fs::symlink_metadata(&target.path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(Failure::usage(format!(
            "{}: not a regular file; export takes one file at a time",
            target.path.display()
        )));
    }
    let word = xattr(&target.path, STATE_XATTR).map_err(failed)?;
    let known = RowState::from_word(&String::from_utf8_lossy(&word));
    // What no word is known for is in no state to be copied by hand without a look at it, so it counts as not at home.
    Ok(known.unwrap_or(RowState::Dirty))
}

/// The file to make, which must not be there and must be outside.
fn destination(from: &Path, to: &Path) -> Result<PathBuf, Failure> {
    let to = match std::fs::metadata(to) {
        Ok(found) if found.is_dir() => to.join(from.file_name().unwrap_or_default()),
        _ => to.to_owned(),
    };
    match std::fs::symlink_metadata(&to) {
        Ok(_) => return Err(exists(&to)),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(Failure::failed(format!("{}: {error}", to.display()))),
    }
    match Target::of(&to) {
        Err(TargetError::NotMounted { .. }) => Ok(to),
        Ok(_) => Err(Failure::usage(format!("{} is in a tierfs mount; name a place outside", to.display()))),
        Err(error) => Err(error.into()),
    }
}

fn exists(to: &Path) -> Failure {
    Failure::failed(format!("{} is there already, and is left as it is; name another", to.display()))
}

fn copy(from: &Path, to: &Path) -> Result<u64, Failure> {
    let read = |error: io::Error| Failure::failed(format!("{}: {error}", from.display()));
    let written = |error: io::Error| Failure::failed(format!("{}: {error}", to.display()));
    let mut source = File::open(from).map_err(read)?;
    let before = source.metadata().map_err(read)?;
    let part = Part::create(to).map_err(written)?;
    let bytes = io::copy(&mut source, &mut &part.file)
        .map_err(|error| Failure::failed(format!("{} to {}: {error}", from.display(), to.display())))?;
    if changed(&before, &source.metadata().map_err(read)?) {
        return Err(Failure::failed(format!(
            "{}: it was written to while it was copied; try again when its writer is done",
            from.display()
        )));
    }
    let described = part.file.set_permissions(std::fs::Permissions::from_mode(before.mode() & 0o777));
    described.and_then(|()| part.file.set_modified(before.modified()?)).map_err(written)?;
    match part.finish(to) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(exists(to)),
        done => done.map(|()| bytes).map_err(written),
    }
}

fn changed(before: &Metadata, after: &Metadata) -> bool {
    let version = |of: &Metadata| (of.ino(), of.size(), of.mtime(), of.mtime_nsec());
    version(before) != version(after)
}

/// A copy that is not whole yet; removed unless it is finished.
struct Part {
    file: File,
    path: Option<PathBuf>,
}

impl Part {
    fn create(to: &Path) -> io::Result<Self> {
        let mut name = OsString::from(".");
        name.push(to.file_name().unwrap_or_default());
        name.push(format!(".{}.part", std::process::id()));
        let path = to.with_file_name(name);
        let file = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self { file, path: Some(path) })
    }

    /// Gives it its name, if that is free.
    fn finish(mut self, to: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        let Some(path) = self.path.take() else { return Ok(()) };
        let named = match renameat_with(CWD, &path, CWD, to, RenameFlags::NOREPLACE) {
            // Not every file system knows this rename; a link replaces nothing either.
            Err(error) if error != rustix::io::Errno::EXIST => {
                std::fs::hard_link(&path, to).and_then(|()| std::fs::remove_file(&path))
            }
            renamed => renamed.map_err(Into::into),
        };
        if named.is_err() {
            self.path = Some(path);
        }
        named
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(path) = &self.path
            && let Err(error) = std::fs::remove_file(path)
        {
            say::note(format_args!("{} is left over: {error}", path.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_replaced_and_nothing_half_stays() {
        let dir = tempfile::TempDir::new().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        std::fs::write(&from, "bytes").unwrap();
        std::fs::set_permissions(&from, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(destination(&from, &to).unwrap(), to);
        assert_eq!(copy(&from, &to).unwrap(), 5);
        assert_eq!(std::fs::read(&to).unwrap(), b"bytes");
        let (one, other) = (std::fs::metadata(&from).unwrap(), std::fs::metadata(&to).unwrap());
        assert_eq!((one.mode(), one.modified().unwrap()), (other.mode(), other.modified().unwrap()));
        std::fs::write(&from, "newer").unwrap();
        assert!(destination(&from, &to).unwrap_err().message.contains("is there already"));
        // Made between the look and the end.
        assert!(copy(&from, &to).unwrap_err().message.contains("is there already"));
        assert_eq!(std::fs::read(&to).unwrap(), b"bytes");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "no part is left");
        let sub = dir.path().join("sub");
        std::fs::create_dir(&sub).unwrap();
        assert_eq!(destination(&from, &sub).unwrap(), sub.join("from"));
    }
}
