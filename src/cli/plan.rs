//! `tierfs plan`: what the mover would do now. Changes nothing.

use crate::cli::args::PlanArgs;
use crate::cli::failure::Failure;
use crate::cli::{say, text};
use crate::control::protocol::{ColdPlan, HotPlan, Leaving, OverflowPlan, Plan, Unused};
use crate::control::target::Target;

/// Shows the plan of the mount around the path, or of the only one.
///
/// # Errors
/// [`Failure`].
pub fn run(args: &PlanArgs) -> Result<(), Failure> {
    let target = args.mountpoint.as_deref().map_or_else(Target::implied, Target::of)?;
    let plan = target.connect()?.plan()?;
    if args.json {
        let json = serde_json::to_string(&plan).map_err(|error| Failure::failed(error.to_string()))?;
        say::out(format_args!("{json}"));
    } else {
        lines(&plan).iter().for_each(|line| say::out(format_args!("{line}")));
    }
    Ok(())
}

fn lines(plan: &Plan) -> Vec<String> {
    let mut lines = vec![match plan.steps {
        0 => "home: nothing to do, all is there".to_owned(),
        steps => format!(
            "home: {} to do, {} to send; see `tierfs queue`",
            text::counted(steps, "step"),
            text::bytes(plan.bytes)
        ),
    }];
    for hot in &plan.hot {
        lines.push(about(hot));
        for Leaving { path, key, bytes, per_day } in &hot.leaving {
            let path = path.as_ref().map_or_else(|| format!("of another mount: {key}"), ToString::to_string);
            let (bytes, path) = (text::bytes(*bytes), text::printable(&path));
            lines.push(format!("  {bytes:>8}  {per_day:>8.1} a day  {path}"));
        }
    }
    lines.extend(unused(&plan.cold));
    lines.extend(overflowing(&plan.overflow));
    lines
}

fn overflowing(overflow: &OverflowPlan) -> Vec<String> {
    let full = overflow.full.iter();
    let mut lines: Vec<String> = full
        .map(|tier| format!("overflow: {tier} is too full for new files, which go elsewhere until it is below its low water"))
        .collect();
    if overflow.files > 0 {
        let (files, bytes) = (text::counted(overflow.files, "file"), text::bytes(overflow.bytes));
        lines.push(format!(
            "overflow: {files}, {bytes}, for which there was no room at home: they go there when there is"
        ));
    }
    lines
}

fn unused(cold: &ColdPlan) -> Vec<String> {
    let mut lines = Vec::new();
    if cold.returning > 0 {
        lines.push(format!(
            "home: {} on the way back from another tier",
            text::counted(cold.returning, "file")
        ));
    }
    if cold.files > 0 {
        let (files, bytes) = (text::counted(cold.files, "file"), text::bytes(cold.bytes));
        lines.push(format!("cold: {files} that nobody uses, {bytes}, go now, these first"));
    }
    for Unused { path, bytes, tier, idle_s } in &cold.first {
        let (bytes, days) = (text::bytes(*bytes), *idle_s as f64 / 86_400.0);
        lines.push(format!(
            "  {bytes:>8}  {days:>8.1} days  to {tier}  {}",
            text::printable(&path.to_string())
        ));
    }
    lines
}

fn about(hot: &HotPlan) -> String {
    let HotPlan { tier, capacity, left, copies, too_much, leaving } = hot;
    let room = match u64::try_from(*left) {
        Ok(left) => format!("room for {}", text::bytes(left)),
        Err(_) => format!("{} too much", text::bytes(left.unsigned_abs())),
    };
    let (copies, capacity) = (text::bytes(*copies), text::bytes(*capacity));
    let next = match (too_much, leaving.len()) {
        (_, 0) => "nothing can leave".to_owned(),
        (0, _) => "nothing leaves now; next would be".to_owned(),
        (bytes, _) => format!("{} leave now, these first", text::bytes(*bytes)),
    };
    format!("{tier}: {copies} of hot copies, {room} below the high water of {capacity}; {next}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::protocol::WirePath;

    #[test]
    fn a_plan_says_what_leaves_next() {
        let leaving = |path: Option<&str>| Leaving {
            path: path.map(|path| WirePath(path.as_bytes().to_vec())),
            key: WirePath(b".tierfs/hot/aa/b/c".to_vec()),
            bytes: 1 << 20,
            per_day: 2.0,
        };
        let hot = HotPlan {
            tier: "nvme".into(),
            capacity: 10 << 30,
            left: 1 << 30,
            copies: 4 << 30,
            too_much: 0,
            leaving: vec![leaving(Some("data/a")), leaving(None)],
        };
        let said = lines(&Plan { hot: vec![hot.clone()], ..Plan::default() });
        assert_eq!(
            said,
            [
                "home: nothing to do, all is there",
                "nvme: 4.0 GiB of hot copies, room for 1.0 GiB below the high water of 10 GiB; nothing leaves now; next would be",
                "   1.0 MiB       2.0 a day  data/a",
                "   1.0 MiB       2.0 a day  of another mount: .tierfs/hot/aa/b/c",
            ]
        );
        let full = HotPlan { left: -(1 << 20), too_much: 1 << 30, ..hot };
        let said = lines(&Plan { steps: 2, bytes: 5, hot: vec![full], ..Plan::default() });
        assert!(said[0].starts_with("home: 2 steps to do, 5 B to send"));
        let unused =
            Unused { path: WirePath(b"m".to_vec()), bytes: 1 << 20, tier: "blob".into(), idle_s: 3 * 86_400 };
        let cold = ColdPlan { files: 2, bytes: 5 << 20, returning: 1, first: vec![unused] };
        assert_eq!(
            lines(&Plan { cold, ..Plan::default() })[1..],
            [
                "home: 1 file on the way back from another tier",
                "cold: 2 files that nobody uses, 5.0 MiB, go now, these first",
                "   1.0 MiB       3.0 days  to blob  m",
            ]
        );
        let overflow = OverflowPlan { full: vec!["share".into()], files: 3, bytes: 5 << 20 };
        assert_eq!(
            lines(&Plan { overflow, ..Plan::default() })[1..],
            [
                "overflow: share is too full for new files, which go elsewhere until it is below its low water",
                "overflow: 3 files, 5.0 MiB, for which there was no room at home: they go there when there is",
            ]
        );
        assert!(said[1].contains("1.0 MiB too much") && said[1].contains("1.0 GiB leave now"), "{}", said[1]);
    }
}
