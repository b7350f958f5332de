//! Outcomes as a table for people and as JSON for everything else.

use crate::harness::{Bound, Outcome, Verdict};
use std::fmt::Write;

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "ok",
        Verdict::Missed => "MISSED",
        Verdict::Void => "void (noise)",
    }
}

fn sign(bound: Bound) -> &'static str {
    match bound {
        Bound::AtLeast => "≥",
        Bound::AtMost => "≤",
    }
}

/// A table with a line an outcome.
pub fn text(outcomes: &[Outcome]) -> String {
    let width = outcomes.iter().map(|outcome| outcome.what.chars().count()).max().unwrap_or(0).max(4);
    let mut table = format!(
        "{:<6} {:<width$} {:>8} {:>8} {:>7} {:>8}  verdict\n",
        "row", "what", "figure", "spread", "noise", "limit"
    );
    for outcome in outcomes {
        // Writing to a String can't fail.
        let _ = writeln!(
            table,
            "{:<6} {:<width$} {:>8.3} {:>7.1}% {:>7.3} {:>2}{:>6.2}  {}",
            outcome.row,
            outcome.what,
            outcome.figure,
            outcome.spread * 100.0,
            outcome.noise,
            sign(outcome.bound),
            outcome.limit,
            word(outcome.verdict())
        );
    }
    table
}

/// A JSON array with an object an outcome.
pub fn json(outcomes: &[Outcome]) -> String {
    let rows: Vec<_> = outcomes
        .iter()
        .map(|outcome| {
            serde_json::json!({
                "row": outcome.row, "what": outcome.what, "figure": outcome.figure, "spread": outcome.spread,
                "noise": outcome.noise, "limit": outcome.limit, "bound": sign(outcome.bound), "verdict": word(outcome.verdict()),
            })
        })
        .collect();
    format!("{:#}", serde_json::Value::from(rows))
}
