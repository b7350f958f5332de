//! `tierfs rebuild`: a new catalog in the place of a damaged one.

use crate::cli::args::RebuildArgs;
use crate::cli::failure::Failure;
use crate::cli::{mount, say, text};
use crate::error::{Error, Kind};
use crate::mount::{Rebuild, Rebuilt, Replace};
use crate::repair::takeover::{Standing, Taken};

/// Rebuilds, and says what became of what.
///
/// # Errors
/// [`Failure`]; the old catalog is in its place then.
pub fn run(args: &RebuildArgs) -> Result<(), Failure> {
    let config = mount::load(&args.config)?;
    let rebuild = Rebuild {
        config: &config,
        replace: if args.force { Replace::Always } else { Replace::IfDamaged },
        from: &args.from,
        wiped: &args.wiped,
    };
    let mut taken = Counted::default();
    let rebuilt = rebuild.run(&mut |file| {
        taken.count(file);
        say::out(format!("taken over: {}", line(file)));
    });
    let rebuilt = rebuilt.map_err(failure)?;
    for said in summary(&rebuilt, &taken) {
        say::out(said);
    }
    Ok(())
}

fn failure(error: Error) -> Failure {
    match error.kind() {
        Kind::Invalid => Failure::usage(error.to_string()),
        _ => error.into(),
    }
}

#[derive(Default)]
struct Counted {
    closed: u64,
    open: u64,
    nameless: u64,
}

impl Counted {
    fn count(&mut self, taken: &Taken) {
        *match taken.standing {
            Standing::Closed => &mut self.closed,
            Standing::Open => &mut self.open,
            Standing::Nameless => &mut self.nameless,
        } += 1;
    }
}

/// What became of one file.
pub(super) fn line(taken: &Taken) -> String {
    let what = match taken.standing {
        Standing::Closed => "",
        Standing::Open => ", never closed",
        Standing::Nameless => ", nobody knows whose",
    };
    let part = match taken.missing {
        0 => String::new(),
        bytes => format!(", partly staged: {} of it are at home alone", text::bytes(bytes)),
    };
    format!("{} ({}{what}{part})", text::printable(&taken.path.to_string()), text::bytes(taken.size))
}

fn summary(rebuilt: &Rebuilt, taken: &Counted) -> Vec<String> {
    let files = |count| text::counted(count, "file");
    let mut lines = vec![match &rebuilt.aside {
        Some(aside) => format!("the catalog is new; the old one is {}", aside.display()),
        None => "the catalog is new".to_owned(),
    }];
    if taken.closed > 0 {
        lines.push(format!(
            "{} go on to their home with the next mount, in the order they were closed",
            files(taken.closed)
        ));
    }
    if taken.open > 0 {
        lines.push(format!(
            "{} never closed: shown, and committed once closed again or named to `tierfs flush`",
            files(taken.open)
        ));
    }
    if taken.nameless > 0 {
        lines.push(format!("{} could not say what they are: look into lost+found", files(taken.nameless)));
    }
    for (tier, id, count) in &rebuilt.others {
        lines.push(format!(
            "left alone: {} staged on tier {tier} by catalog {id}; if that was this one, `tierfs rebuild --force --from {id}`",
            files(*count)
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_taken_is_said() {
        let rebuilt =
            Rebuilt { aside: Some("/c.db.damaged".into()), others: vec![("scratch".into(), "0a".into(), 2)] };
        let said = summary(&rebuilt, &Counted { closed: 1, open: 0, nameless: 3 }).join("\n");
        for part in ["/c.db.damaged", "1 file go", "lost+found", "--from 0a"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(!said.contains("never closed"), "{said}");
    }
}
