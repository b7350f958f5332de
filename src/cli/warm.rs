//! `tierfs warm`: fetches hot copies and has archived blobs brought back.

use crate::cli::args::WarmArgs;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::paths::{self, Missing};
use crate::cli::progress::Bar;
use crate::cli::{say, text};
use crate::control::protocol::{Warmed, WirePath};
use crate::control::target::Target;
use std::time::{Duration, Instant};

/// Warms the paths, each in whatever mount it is, within the time-out in all; says what came of it.
///
/// # Errors
/// [`Failure`]: the first mount where something failed or was not reached in time.
pub fn run(args: &WarmArgs) -> Result<(), Failure> {
    let started = Instant::now();
    for (target, inner) in paths::by_mount(&args.paths, Missing::Refused)? {
        let left = args.timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
        let warmed = warm(&target, inner, left)?;
        for line in lines(&warmed) {
            say::out(format_args!("{line}"));
        }
        judge(&warmed)?;
    }
    Ok(())
}

fn warm(target: &Target, paths: Vec<WirePath>, timeout: Option<Duration>) -> Result<Warmed, Failure> {
    let mut client = target.connect()?;
    let mut bar = Bar::new("warming");
    let warmed = client.warm(paths, timeout, &mut |progress| bar.show(progress));
    bar.finish();
    Ok(warmed?)
}

/// What came of it, for people.
fn lines(warmed: &Warmed) -> Vec<String> {
    let files = |count| text::counted(count, "file");
    let mut lines = vec![format!(
        "{}, {} fetched; {} near already",
        files(warmed.fetched_files),
        text::bytes(warmed.fetched_bytes),
        files(warmed.near_files)
    )];
    if warmed.far_files > 0 {
        lines.push(format!(
            "{} without a tier for hot copies in the rule: nothing to fetch",
            files(warmed.far_files)
        ));
    }
    if warmed.rehydrating_files > 0 {
        lines.push(format!(
            "{}, {} in the archive: being rehydrated at standard priority, which takes up to 15 hours; until then \
             reads fail with ENODATA and `getfattr -n user.tierfs.state FILE` says rehydrating",
            files(warmed.rehydrating_files),
            text::bytes(warmed.rehydrating_bytes)
        ));
    }
    lines
}

fn judge(warmed: &Warmed) -> Result<(), Failure> {
    let reason = warmed.reason.as_deref().map(text::printable);
    let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    if warmed.failed_files > 0 {
        let failed = text::counted(warmed.failed_files, "path");
        return Err(Failure::failed(format!("{failed} could not be warmed{reason}")));
    }
    if warmed.timed_out {
        let (files, bytes) = (text::counted(warmed.files_left, "file"), text::bytes(warmed.bytes_left));
        let message = format!("out of time with {files}, {bytes} to go, as far as was looked");
        return Err(Failure { exit: Exit::TimedOut, message });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_hours_is_said() {
        let said = lines(&Warmed { rehydrating_files: 2, rehydrating_bytes: 1 << 20, ..Warmed::default() });
        assert_eq!(said[0], "0 files, 0 B fetched; 0 files near already");
        assert!(
            said[1].starts_with("2 files, 1.0 MiB in the archive") && said[1].contains("15 hours"),
            "{said:?}"
        );
        assert_eq!(lines(&Warmed { far_files: 1, ..Warmed::default() }).len(), 2);
    }

    #[test]
    fn failures_come_before_time() {
        let exit = |warmed: Warmed| judge(&warmed).map_err(|failure| failure.exit);
        assert_eq!(exit(Warmed { rehydrating_files: 1, ..Warmed::default() }), Ok(()));
        assert_eq!(exit(Warmed { timed_out: true, files_left: 1, ..Warmed::default() }), Err(Exit::TimedOut));
        let failed =
            Warmed { failed_files: 1, timed_out: true, reason: Some("no".into()), ..Warmed::default() };
        assert_eq!(judge(&failed).unwrap_err().message, "1 path could not be warmed: no");
    }
}
