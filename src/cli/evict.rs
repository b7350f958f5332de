//! `tierfs evict`: drops hot copies, and says which stay and why.

use crate::cli::args::EvictArgs;
use crate::cli::failure::Failure;
use crate::cli::paths::{self, Missing};
use crate::cli::progress::Bar;
use crate::cli::{say, text};
use crate::control::protocol::{Evicted, Why, WirePath};
use crate::control::target::Target;
use crate::vfs::Evict;

/// Drops the hot copies of what is at or below the paths, each in whatever mount it is.
///
/// # Errors
/// [`Failure`]: what could not be looked at. What stays is no failure.
pub fn run(args: &EvictArgs) -> Result<(), Failure> {
    let evict = if args.check { Evict::Check } else { Evict::Now };
    for (target, inner) in paths::by_mount(&args.paths, Missing::Refused)? {
        let evicted = ask(&target, inner, evict)?;
        for line in lines(&evicted, evict) {
            say::out(format_args!("{line}"));
        }
        judge(&evicted)?;
    }
    Ok(())
}

fn ask(target: &Target, paths: Vec<WirePath>, evict: Evict) -> Result<Evicted, Failure> {
    let mut client = target.connect()?;
    let mut bar = Bar::new("evicting");
    let evicted = client.evict(paths, evict, &mut |progress| bar.show(progress));
    bar.finish();
    Ok(evicted?)
}

/// What came of it, for people.
fn lines(evicted: &Evicted, evict: Evict) -> Vec<String> {
    let dropped = match evict {
        Evict::Now => "dropped",
        Evict::Check => "would be dropped",
    };
    let files = text::counted(evicted.files, "file");
    let mut lines = vec![format!("hot copies of {files}, {}, {dropped}", text::bytes(evicted.bytes))];
    for stays in &evicted.stays {
        let why = match stays.why {
            Why::Dirty => "not at home yet",
            Why::Open => "open",
            Why::Pinned => "pinned",
        };
        lines.push(format!("stays: {} ({why})", text::printable(&stays.path.to_string())));
    }
    let more = evicted.stay_files.saturating_sub(evicted.stays.len() as u64);
    if more > 0 {
        lines.push(format!("and {more} more stay"));
    }
    lines
}

fn judge(evicted: &Evicted) -> Result<(), Failure> {
    if evicted.failed == 0 {
        return Ok(());
    }
    let reason = evicted.reason.as_deref().map(text::printable).unwrap_or_default();
    let failed = text::counted(evicted.failed, "path");
    Err(Failure::failed(format!("{failed} could not be looked at: {reason}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::protocol::Stays;

    #[test]
    fn what_stays_is_named_with_its_reason() {
        let stays = Stays { path: WirePath(b"a\nb".to_vec()), why: Why::Pinned };
        let evicted =
            Evicted { files: 2, bytes: 1 << 20, stay_files: 3, stays: vec![stays], ..Evicted::default() };
        let said = lines(&evicted, Evict::Check);
        assert_eq!(said[0], "hot copies of 2 files, 1.0 MiB, would be dropped");
        assert!(
            said[1].starts_with("stays: a") && said[1].ends_with("b (pinned)") && !said[1].contains('\n')
        );
        assert_eq!(said[2], "and 2 more stay");
        assert_eq!(lines(&Evicted::default(), Evict::Now), ["hot copies of 0 files, 0 B, dropped"]);
        assert!(judge(&Evicted { failed: 1, ..Evicted::default() }).is_err());
    }
}
