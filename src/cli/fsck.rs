//! `tierfs fsck`: the catalog against the tiers.

use crate::cli::args::FsckArgs;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::{mount, rebuild, say, text};
use crate::control::protocol::WirePath;
use crate::mount::{Fsck, Told, Verdict};
use crate::mover::Recovered;
use crate::repair::fsck::{Checked, Finding};
use crate::types::Key;
use serde_json::{Value, json};

/// Checks, and says what is wrong.
///
/// # Errors
/// [`Failure`] if something is wrong, or is left after a repair.
pub fn run(args: &FsckArgs) -> Result<(), Failure> {
    let config = mount::load(&args.config)?;
    let fsck = if args.repair { Fsck::Repair } else { Fsck::Look };
    let speak = if args.json { in_json } else { in_words };
    let verdict = fsck.run(&config, &mut |told| {
        if let Some(line) = speak(&told, fsck) {
            say::out(line);
        }
    })?;
    say::out(if args.json { sums(&verdict).to_string() } else { summary(&verdict) });
    match verdict.left.unwrap_or(verdict.checked).found {
        0 => Ok(()),
        _ => Err(Failure { exit: Exit::Failed, message: String::new() }),
    }
}

fn in_words(told: &Told<'_>, fsck: Fsck) -> Option<String> {
    match told {
        // What a person must decide is said once, at the end.
        Told::Found(finding) if fsck == Fsck::Repair && finding.decide.is_some() => None,
        Told::Found(finding) => Some(line(finding, fsck)),
        Told::Left(finding) => Some(format!("left: {}", line(finding, Fsck::Look))),
        Told::Taken(taken) => Some(rebuild::line(taken)),
        Told::Lost(lost) => {
            let path = text::printable(&lost.path.to_string());
            Some(format!("LOST {path} ({}, on tier {})", text::bytes(lost.size), lost.tier))
        }
        Told::Recovered(recovered) => Some(recovery(recovered)),
    }
}

fn line(finding: &Finding, fsck: Fsck) -> String {
    let subject = finding.path.as_ref().map(shown);
    let at = finding.key.as_ref().map(shown);
    let place = match (&finding.tier, at) {
        (Some(tier), Some(key)) if subject.as_ref() == Some(&key) => format!(" on tier {tier}"),
        (Some(tier), Some(key)) => format!(" on tier {tier} at {key}"),
        (Some(tier), None) => format!(" on tier {tier}"),
        (None, _) => String::new(),
    };
    let subject = subject.map_or_else(String::new, |path| format!(" {path}"));
    let mending = match (finding.decide, fsck) {
        (Some(decide), _) => format!("; decide: {decide}"),
        (None, Fsck::Look) => "; --repair mends it".to_owned(),
        (None, Fsck::Repair) => String::new(),
    };
    format!("{}:{subject}{place}: {}{mending}", finding.what.word(), text::printable(&finding.detail))
}

fn shown(key: &Key) -> String {
    text::printable(&key.to_string())
}

fn recovery(recovered: &Recovered) -> String {
    format!(
        "recovered: {} finished, {} learned, {} without a name removed",
        text::counted(recovered.renames, "rename"),
        text::counted(recovered.commits, "commit"),
        text::counted(recovered.orphans, "file")
    )
}

fn summary(verdict: &Verdict) -> String {
    let Checked { keys, found, pending, .. } = verdict.checked;
    let compared = format!("{} compared", text::counted(keys, "copy").replace("copys", "copies"));
    let waiting = match pending {
        0 => String::new(),
        steps => format!("; {} to go on with at the next mount", text::counted(steps, "step")),
    };
    match (found, verdict.left) {
        (0, _) => format!("clean: {compared}{waiting}"),
        (found, None) => format!("{} found: {compared}{waiting}", text::counted(found, "fault")),
        (found, Some(left)) => format!(
            "{} found, {} left: {compared}{waiting}",
            text::counted(found, "fault"),
            text::number(left.found)
        ),
    }
}

fn in_json(told: &Told<'_>, _fsck: Fsck) -> Option<String> {
    let wire = |path: &Key| json!(WirePath(path.as_bytes().to_vec()));
    let about = |finding: &Finding, when: &str| {
        json!({
            "when": when, "what": finding.what.word(), "tier": finding.tier, "path": finding.path.as_ref().map(wire),
            "key": finding.key.as_ref().map(wire), "detail": finding.detail, "decide": finding.decide,
        })
    };
    let value = match told {
        Told::Found(finding) => about(finding, "found"),
        Told::Left(finding) => about(finding, "left"),
        Told::Taken(taken) => {
            json!({ "when": "mended", "taken_over": wire(&taken.path), "size": taken.size })
        }
        Told::Lost(lost) => {
            json!({ "when": "mended", "lost": wire(&lost.path), "tier": lost.tier, "size": lost.size })
        }
        Told::Recovered(recovered) => json!({
            "when": "mended", "renames": recovered.renames, "commits": recovered.commits, "nameless": recovered.orphans,
        }),
    };
    Some(value.to_string())
}

fn sums(verdict: &Verdict) -> Value {
    let Checked { keys, found, decide, pending } = verdict.checked;
    json!({
        "when": "end", "keys": keys, "found": found, "decide": decide, "pending": pending,
        "left": verdict.left.map(|left| left.found),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repair::fsck::What;

    fn finding(decide: Option<&'static str>) -> Finding {
        Finding {
            what: What::Missing,
            tier: Some("scratch".into()),
            path: Key::parse("run/a").ok(),
            key: Key::parse("run/a").ok(),
            detail: "it is not there".into(),
            decide,
        }
    }

    #[test]
    fn a_finding_is_a_line_that_says_what_next() {
        assert_eq!(
            line(&finding(None), Fsck::Look),
            "missing: run/a on tier scratch: it is not there; --repair mends it"
        );
        assert!(line(&finding(Some("delete it")), Fsck::Repair).ends_with("; decide: delete it"));
        assert_eq!(in_words(&Told::Found(&finding(Some("x"))), Fsck::Repair), None);
        let json: Value =
            serde_json::from_str(&in_json(&Told::Left(&finding(None)), Fsck::Repair).unwrap()).unwrap();
        assert_eq!(
            (&json["when"], &json["path"], &json["decide"]),
            (&json!("left"), &json!("run/a"), &Value::Null)
        );
    }

    #[test]
    fn the_last_line_is_the_verdict() {
        assert_eq!(summary(&Verdict::default()), "clean: 0 copies compared");
        let checked = Checked { keys: 1, found: 2, decide: 1, pending: 1 };
        let left = Some(Checked { found: 1, ..checked });
        let said = summary(&Verdict { checked, left });
        assert_eq!(said, "2 faults found, 1 left: 1 copy compared; 1 step to go on with at the next mount");
    }
}
