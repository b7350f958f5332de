//! `tierfs explain`: which rule placed a file, where its bytes are, how hot it is, and what happens next.

use crate::cli::args::ExplainArgs;
use crate::cli::failure::Failure;
use crate::cli::paths;
use crate::cli::text::{self, Look, Style};
use crate::cli::{queue, say};
use crate::control::EXPLAIN_XATTR;
use crate::control::target::{Target, xattr};
use crate::vfs::{CopyFacts, Explained, HeatFacts};
use std::path::Path;

/// Explains each of the paths.
///
/// # Errors
/// [`Failure`]: the first path that can't be explained.
pub fn run(args: &ExplainArgs) -> Result<(), Failure> {
    for path in paths::all(&args.paths)? {
        let explained = explain(&path)?;
        if args.json {
            let json =
                serde_json::to_string(&explained).map_err(|error| Failure::failed(error.to_string()))?;
            say::out(format_args!("{json}"));
        } else {
            lines(&explained, Style::for_stdout()).iter().for_each(|line| say::out(format_args!("{line}")));
        }
    }
    Ok(())
}

fn explain(path: &Path) -> Result<Explained, Failure> {
    let target = Target::of(path)?;
    let about = |error: &dyn std::fmt::Display| Failure::failed(format!("{}: {error}", path.display()));
    // Asked of the mount itself: that works where the socket is not in sight, in a container say.
    let answer = xattr(&target.path, EXPLAIN_XATTR).map_err(|error| match error.raw_os_error() {
        Some(libc::ENODATA) => {
            about(&"the daemon of this mount is older and can't explain; mount again to update it")
        }
        _ => about(&error),
    })?;
    let mut explained: Explained = serde_json::from_slice(&answer).map_err(|error| about(&error))?;
    if explained.state != "clean"
        && let Ok(mut client) = target.connect()
        && let Ok(Some(said)) = queue::of_path(&mut client, &target.inner)
    {
        explained.next.push(said);
    }
    Ok(explained)
}

fn lines(explained: &Explained, style: Style) -> Vec<String> {
    let rule = &explained.rule;
    let mut lines = vec![style.paint(Look::Bold, &text::printable(&explained.path))];
    let mut say = |what: &str, said: &str| lines.push(format!("  {what:<7} {said}"));
    let mut places = format!("home {}", rule.home);
    if rule.stage != rule.home {
        places.push_str(&format!(", stage {}", rule.stage));
    }
    if !rule.hot.is_empty() {
        places.push_str(&format!(", hot {}", rule.hot.join(", ")));
    }
    say("rule", &format!("{} \"{}\": {places}", rule.number, rule.path));
    say("state", &format!("{}, {}", explained.state, text::bytes(explained.size)));
    for CopyFacts { tier, role, key } in &explained.copies {
        say(role, &format!("{tier}: {}", text::printable(key)));
    }
    say("heat", &explained.heat.as_ref().map_or_else(|| "not opened yet".to_owned(), heat));
    for next in &explained.next {
        say("next", &text::printable(next));
    }
    lines
}

fn heat(heat: &HeatFacts) -> String {
    let HeatFacts { opens, last_open_s, per_day, group, group_per_day } = heat;
    let group = if group.is_empty() { "the root" } else { group };
    format!(
        "{opens:.1} opens, the last {} ago; {per_day:.1} a day, its share of {group_per_day:.0} a day in {}",
        text::seconds(*last_open_s),
        text::printable(group)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::RuleFacts;

    #[test]
    fn all_reasons_are_told_in_lines() {
        let explained = Explained {
            v: 1,
            path: "datasets/a\n.tar".into(),
            size: 3 << 20,
            state: "clean".into(),
            rule: RuleFacts {
                number: 2,
                path: "datasets/**".into(),
                home: "blob".into(),
                stage: "scratch".into(),
                hot: vec!["nvme".into(), "share".into()],
            },
            copies: vec![CopyFacts { tier: "blob".into(), role: "home".into(), key: "datasets/a".into() }],
            heat: Some(HeatFacts {
                opens: 2.0,
                last_open_s: 65,
                per_day: 12.34,
                group: String::new(),
                group_per_day: 99.6,
            }),
            next: vec!["stays".into()],
        };
        let said = lines(&explained, Style::plain());
        assert_eq!(
            said[1..],
            [
                "  rule    2 \"datasets/**\": home blob, stage scratch, hot nvme, share",
                "  state   clean, 3.0 MiB",
                "  home    blob: datasets/a",
                "  heat    2.0 opens, the last 1m 5s ago; 12.3 a day, its share of 100 a day in the root",
                "  next    stays",
            ]
        );
        assert_eq!(said[0].lines().count(), 1);
    }
}
