//! PATHs of a command: on its line, in a file, on standard input; grouped by the mounts they are in.

use crate::cli::args::PathsArgs;
use crate::cli::failure::Failure;
use crate::control::protocol::WirePath;
use crate::control::target::Target;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// No list of paths is longer.
const LIST_MAX: u64 = 64 << 20;

/// What to think of a path at which nothing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It is a mistake.
    Refused,
    /// It may have been removed a moment ago: the daemon knows.
    Asked,
}

/// The paths that were asked for, those in a file too.
///
/// # Errors
/// [`Failure`]: a file that can't be read.
pub fn all(args: &PathsArgs) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = args.paths.clone();
    if let Some(file) = &args.from_file {
        let separator = if args.null { 0 } else { b'\n' };
        paths.extend(listed(file, separator)?);
    }
    Ok(paths)
}

/// The paths that were asked for, those in a file too, each with the mount it is in.
///
/// # Errors
/// [`Failure`]: a path that is in no living mount or not there, a file that can't be read.
pub fn by_mount(args: &PathsArgs, missing: Missing) -> Result<Vec<(Target, Vec<WirePath>)>, Failure> {
    let mut groups: Vec<(Target, Vec<WirePath>)> = Vec::new();
    for path in &all(args)? {
        let target = target(path, missing)?;
        let inner = target.inner.clone();
        match groups.iter_mut().find(|(known, _)| known.mount.point == target.mount.point) {
            Some((_, inners)) => inners.push(inner),
            None => groups.push((target, vec![inner])),
        }
    }
    Ok(groups)
}

fn target(path: &Path, missing: Missing) -> Result<Target, Failure> {
    // Asked before any look at the file system: on a dead mount each of them fails alike.
    let target = Target::of(path)?;
    match std::fs::symlink_metadata(&target.path) {
        Ok(_) => Ok(target),
        Err(error) if missing == Missing::Asked && error.kind() == io::ErrorKind::NotFound => Ok(target),
        Err(error) => Err(Failure::failed(format!("{}: {error}", path.display()))),
    }
}

/// The paths in `file`, or on standard input for `-`.
fn listed(file: &OsStr, separator: u8) -> Result<Vec<PathBuf>, Failure> {
    let mut text = Vec::new();
    let read = if file == "-" {
        io::stdin().take(LIST_MAX).read_to_end(&mut text)
    } else {
        File::open(file).and_then(|opened| opened.take(LIST_MAX).read_to_end(&mut text))
    };
    match read {
        Err(error) => Err(Failure::failed(format!("{}: {error}", file.display()))),
        Ok(size) if size as u64 == LIST_MAX => {
            Err(Failure::usage(format!("{}: longer than 64 MiB; name a directory instead", file.display())))
        }
        Ok(_) => Ok(text
            .split(|byte| *byte == separator)
            .filter(|path| !path.is_empty())
            .map(|path| PathBuf::from(OsStr::from_bytes(path)))
            .collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_paths_have_either_separator() {
        let dir = tempfile::TempDir::new().unwrap();
        let file = dir.path().join("list");
        std::fs::write(&file, b"a b\n\n\xff\n").unwrap();
        let paths = listed(file.as_os_str(), b'\n').unwrap();
        assert_eq!(paths, [PathBuf::from("a b"), PathBuf::from(OsStr::from_bytes(b"\xff"))]);
        std::fs::write(&file, b"a\nb\0c\0").unwrap();
        assert_eq!(listed(file.as_os_str(), 0).unwrap(), [PathBuf::from("a\nb"), PathBuf::from("c")]);
    }
}
