//! `tierfs flush`: answers when what is dirty at or below the paths is at home.

use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::progress::{self, Bar};
use crate::control::protocol::{Drained, WirePath};
use crate::control::target::Target;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Flushes `paths`, each in whatever mount it is, within `timeout` in all.
///
/// # Errors
/// [`Failure`]: the first mount that could not commit everything; what is left stays dirty and goes on.
pub fn run(paths: &[PathBuf], timeout: Option<Duration>) -> Result<(), Failure> {
    let started = Instant::now();
    for (target, inner) in by_mount(paths)? {
        let left = timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
        flush(&target, inner, left)?;
    }
    Ok(())
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

fn flush(target: &Target, paths: Vec<WirePath>, timeout: Option<Duration>) -> Result<(), Failure> {
    let mut client = target.connect()?;
    let mut bar = Bar::new("flushing");
    let drained = client.flush(paths, timeout, &mut |progress| bar.show(progress));
    bar.finish();
    judge(&drained?)
}

fn judge(drained: &Drained) -> Result<(), Failure> {
    if drained.is_clean() {
        return Ok(());
    }
    let waits_for_people = drained.open_left + drained.blocked_left >= drained.files_left;
    let exit = if waits_for_people { Exit::Failed } else { Exit::TimedOut };
    Err(Failure { exit, message: progress::not_done(drained) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_elsewhere_is_not_mounted() {
        let dir = tempfile::TempDir::new().unwrap();
        assert_eq!(run(&[dir.path().to_owned()], None).unwrap_err().exit, Exit::NotMounted);
    }

    #[test]
    fn time_and_people_are_told_apart() {
        let left = |files_left, open_left| Drained { files_left, open_left, ..Drained::default() };
        assert_eq!(judge(&left(0, 0)), Ok(()));
        assert_eq!(judge(&left(2, 1)).unwrap_err().exit, Exit::TimedOut);
        assert_eq!(judge(&left(1, 1)).unwrap_err().exit, Exit::Failed);
    }
}
