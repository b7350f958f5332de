//! `tierfs flush`: answers when what is dirty at or below the paths is at home.

use crate::cli::args::FlushArgs;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::paths::{self, Missing};
use crate::cli::progress::{self, Bar};
use crate::control::protocol::{Drained, WirePath};
use crate::control::target::Target;
use std::time::{Duration, Instant};

/// Flushes the paths, each in whatever mount it is, within the time-out in all; or only looks.
///
/// # Errors
/// [`Failure`]: the first mount that has something left; it stays dirty and goes on.
pub fn run(args: &FlushArgs) -> Result<(), Failure> {
    let started = Instant::now();
    for (target, inner) in paths::by_mount(&args.paths, Missing::Asked)? {
        let drained = if args.check {
            target.connect()?.pending(inner)?
        } else {
            flush(&target, inner, args.timeout.map(|timeout| timeout.saturating_sub(started.elapsed())))?
        };
        judge(&drained, args)?;
    }
    Ok(())
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
    let in_vain = args.check || waits_for_people || !drained.timed_out;
    let exit = if in_vain { Exit::Failed } else { Exit::TimedOut };
    Err(Failure { exit, message: progress::not_done(drained) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::PathsArgs;
    use std::path::PathBuf;

    fn args(paths: Vec<PathBuf>) -> FlushArgs {
        FlushArgs { paths: PathsArgs { paths, from_file: None, null: false }, timeout: None, check: false }
    }

    #[test]
    fn a_path_elsewhere_is_not_mounted() {
        let dir = tempfile::TempDir::new().unwrap();
        assert_eq!(run(&args(vec![dir.path().to_owned()])).unwrap_err().exit, Exit::NotMounted);
    }

    #[test]
    fn time_and_people_are_told_apart() {
        let left =
            |files_left, open_left| Drained { files_left, open_left, timed_out: true, ..Drained::default() };
        let exit = |drained: &Drained| judge(drained, &args(vec![])).map_err(|failure| failure.exit);
        assert_eq!(exit(&left(0, 0)), Ok(()));
        assert_eq!(exit(&left(2, 1)), Err(Exit::TimedOut));
        assert_eq!(exit(&left(1, 1)), Err(Exit::Failed));
        // What waits behind a refusal waits for a person too.
        assert_eq!(exit(&Drained { timed_out: false, ..left(2, 1) }), Err(Exit::Failed));
    }
}
