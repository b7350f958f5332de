//! `tierfs flush`: answers when what is dirty at or below the paths is at home.

use crate::cli::args::FlushArgs;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::progress::{self, Bar};
use crate::control::protocol::{Drained, WirePath};
use crate::control::target::Target;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// No list of paths is longer.
const LIST_MAX: u64 = 64 << 20;

/// Flushes the paths, each in whatever mount it is, within the time-out in all; or only looks.
///
/// # Errors
/// [`Failure`]: the first mount that has something left; it stays dirty and goes on.
pub fn run(args: &FlushArgs) -> Result<(), Failure> {
    let mut paths = args.paths.clone();
    if let Some(file) = &args.from_file {
        let separator = if args.null { 0 } else { b'\n' };
        paths.extend(listed(file, separator)?);
    }
    let started = Instant::now();
    for (target, inner) in by_mount(&paths)? {
        let drained = if args.check {
            target.connect()?.pending(inner)?
        } else {
            flush(&target, inner, args.timeout.map(|timeout| timeout.saturating_sub(started.elapsed())))?
        };
        judge(&drained, args)?;
    }
    Ok(())
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
            Err(Failure::usage(format!("{}: longer than 64 MiB; flush a directory instead", file.display())))
        }
        Ok(_) => Ok(text
            .split(|byte| *byte == separator)
            .filter(|path| !path.is_empty())
            .map(|path| PathBuf::from(OsStr::from_bytes(path)))
            .collect()),
    }
}

fn by_mount(paths: &[PathBuf]) -> Result<Vec<(Target, Vec<WirePath>)>, Failure> {
    let mut groups: Vec<(Target, Vec<WirePath>)> = Vec::new();
    for path in paths {
        let target = target(path)?;
        let inner = target.inner.clone();
        match groups.iter_mut().find(|(known, _)| known.mount.point == target.mount.point) {
            Some((_, inners)) => inners.push(inner),
            None => groups.push((target, vec![inner])),
        }
    }
    Ok(groups)
}

fn target(path: &Path) -> Result<Target, Failure> {
    // Asked before any look at the file system: on a dead mount each of them fails alike.
    let target = Target::of(path)?;
    match std::fs::symlink_metadata(&target.path) {
        Ok(_) => Ok(target),
        Err(error) => Err(Failure::failed(format!("{}: {error}", path.display()))),
    }
}

fn flush(target: &Target, paths: Vec<WirePath>, timeout: Option<Duration>) -> Result<Drained, Failure> {
    let mut client = target.connect()?;
    let mut bar = Bar::new("flushing");
    let drained = client.flush(paths, timeout, &mut |progress| bar.show(progress));
    bar.finish();
    Ok(drained?)
}

fn judge(drained: &Drained, args: &FlushArgs) -> Result<(), Failure> {
    if drained.is_clean() {
        return Ok(());
    }
    let waits_for_people = drained.open_left + drained.blocked_left >= drained.files_left;
    let exit = if args.check || waits_for_people { Exit::Failed } else { Exit::TimedOut };
    Err(Failure { exit, message: progress::not_done(drained) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(paths: Vec<PathBuf>) -> FlushArgs {
        FlushArgs { paths, timeout: None, check: false, from_file: None, null: false }
    }

    #[test]
    fn a_path_elsewhere_is_not_mounted() {
        let dir = tempfile::TempDir::new().unwrap();
        assert_eq!(run(&args(vec![dir.path().to_owned()])).unwrap_err().exit, Exit::NotMounted);
    }

    #[test]
    fn time_and_people_are_told_apart() {
        let left = |files_left, open_left| Drained { files_left, open_left, ..Drained::default() };
        let exit = |drained: &Drained| judge(drained, &args(vec![])).map_err(|failure| failure.exit);
        assert_eq!(exit(&left(0, 0)), Ok(()));
        assert_eq!(exit(&left(2, 1)), Err(Exit::TimedOut));
        assert_eq!(exit(&left(1, 1)), Err(Exit::Failed));
    }

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
