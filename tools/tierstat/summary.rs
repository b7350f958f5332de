//! `tierstat`: the mount on one screen of 80 columns, or fewer where the terminal has fewer.

use crate::Failure;
use crate::args::Form;
use crate::cost::{Bill, Prices, dollars};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tierfs::cli::text::{self, Look, Style};
use tierfs::control::protocol::Phase;
use tierfs::control::status::{IoMode, Status, TierState, TierStatus};
use tierfs::control::target::Target;

/// Columns of a screen; more make no line easier to read.
const WIDTH: usize = 80;

/// Narrower is no screen.
const WIDTH_MIN: usize = 30;

/// Once, or as one of many pages.
pub fn show(
    path: Option<&Path>,
    form: Form,
    watch: Option<Duration>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let target = path.map_or_else(Target::implied, Target::of)?;
    let status = target.status()?;
    match form {
        Form::Json if watch.is_some() => {
            let json = serde_json::to_string(&status).map_err(io::Error::from)?;
            writeln!(out, "{json}")?;
        }
        Form::Json => {
            let json = serde_json::to_string_pretty(&status).map_err(io::Error::from)?;
            writeln!(out, "{json}")?;
        }
        Form::Text => {
            let width = text::columns_of_stdout().unwrap_or(WIDTH).clamp(WIDTH_MIN, WIDTH);
            render(&status, now_s(), Screen { width, style: Style::for_stdout() }, out)?;
        }
    }
    Ok(())
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Where it is shown.
#[derive(Clone, Copy)]
struct Screen {
    width: usize,
    style: Style,
}

fn render(status: &Status, now_s: u64, screen: Screen, out: &mut dyn Write) -> io::Result<()> {
    let Screen { width, style } = screen;
    for said in &status.attention {
        for (at, line) in wrapped(said, width - 2).iter().enumerate() {
            let mark = if at == 0 { "!" } else { " " };
            writeln!(out, "{}", style.paint(Look::Bad, &format!("{mark} {line}")))?;
        }
    }
    if !status.attention.is_empty() {
        writeln!(out)?;
    }
    head(status, screen, out)?;
    if width < WIDTH {
        stacked(status, screen, out)?
    } else {
        tiers(status, style, out)?
    }
    writeln!(out)?;
    for (name, said) in facts(status, now_s) {
        for (at, line) in wrapped(&said, width - 11).iter().enumerate() {
            writeln!(out, "{:<9}  {line}", if at == 0 { text::fit(&name, 9) } else { String::new() })?;
        }
    }
    Ok(())
}

fn head(status: &Status, Screen { width, style }: Screen, out: &mut dyn Write) -> io::Result<()> {
    let phase = match status.phase {
        Phase::Starting => "starting, ",
        Phase::Serving => "",
        Phase::Draining => "draining, ",
    };
    let mode = match status.mode {
        IoMode::Passthrough => "passthrough",
        IoMode::Ordinary => "ordinary I/O",
    };
    let point = text::printable(&status.mountpoint.to_string());
    let since = format!("{phase}up {}, pid {}", text::seconds(status.uptime_s), status.pid);
    // A long path has a line of its own.
    let gap = if point.chars().count() + 2 + since.chars().count() > width { "\n" } else { "  " };
    writeln!(out, "{}{gap}{since}", style.paint(Look::Bold, &point))?;
    // A reason may name the mode itself.
    let named = status.mode_reason.starts_with(mode.split(' ').next().unwrap_or(mode));
    let said = if named { status.mode_reason.clone() } else { format!("{mode}: {}", status.mode_reason) };
    for line in wrapped(&said, width) {
        writeln!(out, "{}", style.paint(Look::Dim, &line))?;
    }
    writeln!(out)
}

fn tiers(status: &Status, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let heading =
        columns(["TIER", "KIND", "STATE", "CAPACITY", "USED", "FILES", "HOT", "DIRTY"].map(str::to_owned));
    writeln!(out, "{}", style.paint(Look::Bold, heading.trim_end()))?;
    for tier in &status.tiers {
        let line = tier_line(tier);
        match tier.state {
            TierState::Ok => writeln!(out, "{}", line.trim_end())?,
            TierState::Sick | TierState::Absent => {
                writeln!(out, "{}", style.paint(Look::Bad, line.trim_end()))?
            }
        }
    }
    Ok(())
}

/// For narrow screens: a few short lines a tier.
fn stacked(status: &Status, Screen { width, style }: Screen, out: &mut dyn Write) -> io::Result<()> {
    for tier in &status.tiers {
        let (state, look) = match tier.state {
            TierState::Ok => ("ok", Look::Bold),
            TierState::Sick => ("SICK", Look::Bad),
            TierState::Absent => ("ABSENT", Look::Bad),
        };
        let head = format!("{} {state}", text::fit(&tier.name, width - 7));
        writeln!(out, "{}", style.paint(look, &head))?;
        let room = tier.capacity.zip(tier.used);
        let room = room.map(|(all, used)| format!("{} of {}, ", text::bytes(used), text::bytes(all)));
        let files = text::counted(tier.files, "file");
        let (hot, dirty) = (amount(tier.hot_bytes), amount(tier.dirty_bytes));
        let said = format!("{}{files}, hot {hot}, dirty {dirty}", room.unwrap_or_default());
        for line in wrapped(&said, width - 2) {
            writeln!(out, "  {line}")?;
        }
    }
    Ok(())
}

fn tier_line(tier: &TierStatus) -> String {
    let state = match tier.state {
        TierState::Ok => "ok",
        TierState::Sick => "SICK",
        TierState::Absent => "ABSENT",
    };
    columns([
        text::fit(&tier.name, 12),
        text::fit(&tier.kind, 11),
        state.to_owned(),
        tier.capacity.map_or_else(dash, text::bytes),
        tier.used.map_or_else(dash, text::bytes),
        text::number(tier.files),
        amount(tier.hot_bytes),
        amount(tier.dirty_bytes),
    ])
}

fn columns(cells: [String; 8]) -> String {
    let [name, kind, state, capacity, used, files, hot, dirty] = cells;
    format!("{name:<12} {kind:<11} {state:<6} {capacity:>8} {used:>8} {files:>9} {hot:>8} {dirty:>8}")
}

fn dash() -> String {
    "-".to_owned()
}

fn amount(bytes: u64) -> String {
    if bytes == 0 { dash() } else { text::bytes(bytes) }
}

fn facts(status: &Status, now_s: u64) -> Vec<(String, String)> {
    let mut facts = vec![("dirty".to_owned(), dirty(status)), ("queue".to_owned(), queue(status))];
    facts.extend(overflow(status).map(|said| ("overflow".to_owned(), said)));
    facts.extend(reads(status).map(|said| ("reads".to_owned(), said)));
    facts.extend(moves(status).map(|said| ("moves".to_owned(), said)));
    facts.extend(cost(status).map(|said| ("cost".to_owned(), said)));
    facts.extend(
        status.tiers.iter().filter(|tier| tier.requests > 0).map(|tier| (tier.name.clone(), traffic(tier))),
    );
    facts.extend(oddities(status).map(|said| ("names".to_owned(), said)));
    facts.extend(status.last_error.as_ref().map(|error| {
        let ago = text::seconds(now_s.saturating_sub(error.at_s));
        ("error".to_owned(), format!("{ago} ago: {}", text::printable(&error.message)))
    }));
    facts
}

fn dirty(status: &Status) -> String {
    let dirty = &status.dirty;
    if dirty.files == 0 {
        return "nothing: all is home".to_owned();
    }
    let open = match dirty.open_files {
        0 => String::new(),
        open => format!(", {open} of them open"),
    };
    let age = dirty.oldest_age_s.map(|age| format!(", oldest closed {} ago", text::seconds(age)));
    let files = text::counted(dirty.files, "file");
    format!("{files}, {}{open}{}", text::bytes(dirty.bytes), age.unwrap_or_default())
}

fn overflow(status: &Status) -> Option<String> {
    let homes = text::printable(&status.overflowing.join(", "));
    (!homes.is_empty()).then(|| format!("{homes} over high water: new files go elsewhere, see `tierfs plan`"))
}

fn queue(status: &Status) -> String {
    let queue = &status.queue;
    if queue.length == 0 {
        return "empty".to_owned();
    }
    format!(
        "{}, {} running, {} to be tried again",
        text::counted(queue.length, "step"),
        text::number(queue.running),
        text::number(queue.retrying)
    )
}

fn reads(status: &Status) -> Option<String> {
    let reads = &status.reads;
    let ratio = reads.hit_ratio()?;
    Some(format!(
        "{:.0}% of {} from a near copy; {} fetched, {} from memory",
        ratio * 100.0,
        text::counted(reads.hits.saturating_add(reads.misses), "open"),
        text::bytes(reads.fetched_bytes),
        text::bytes(reads.cache_bytes)
    ))
}

fn moves(status: &Status) -> Option<String> {
    let moves = status.moves;
    (moves.committed_files + moves.hot_copies + moves.deleted_keys > 0).then(|| {
        format!(
            "{} committed, {}; {} made, {} deleted",
            text::counted(moves.committed_files, "file"),
            text::bytes(moves.committed_bytes),
            copies(moves.hot_copies),
            text::counted(moves.deleted_keys, "key")
        )
    })
}

fn copies(count: u64) -> String {
    if count == 1 { "1 hot copy".to_owned() } else { format!("{} hot copies", text::number(count)) }
}

fn cost(status: &Status) -> Option<String> {
    let bill = Bill::of_status(status, &Prices::of(status));
    (bill.usd_per_month >= 0.01).then(|| {
        let (now, lustre) = (dollars(bill.usd_per_month), dollars(bill.all_on_lustre_usd_per_month));
        format!("{now} $ a month for what is stored; all on Lustre {lustre} $; see `tierstat cost`")
    })
}

fn traffic(tier: &TierStatus) -> String {
    format!(
        "{}, {}; {} read, {} written",
        text::counted(tier.requests, "request"),
        text::counted(tier.errors, "error"),
        text::bytes(tier.bytes_read),
        text::bytes(tier.bytes_written)
    )
}

fn oddities(status: &Status) -> Option<String> {
    (status.shadowed + status.hidden > 0).then(|| {
        format!(
            "{} hidden behind one on the home tier, {} that can't be shown",
            text::number(status.shadowed),
            text::number(status.hidden)
        )
    })
}

/// `text` in lines of at most `width` characters, broken at spaces where there are any.
pub fn wrapped(said: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let plain = text::printable(said);
    for word in plain.split(' ').flat_map(|word| pieces(word, width)) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// A word that is wider than any line, such as a path, in pieces.
fn pieces(word: &str, width: usize) -> Vec<String> {
    let letters: Vec<char> = word.chars().collect();
    if letters.is_empty() {
        vec![String::new()]
    } else {
        letters.chunks(width).map(String::from_iter).collect()
    }
}

#[cfg(test)]
mod tests;
