//! `tierfs pin` and `unpin`: what is to stay near, and for how long.

use crate::cli::args::{PathsArgs, PinArgs, UnpinArgs};
use crate::cli::failure::Failure;
use crate::cli::paths::{self, Missing};
use crate::cli::{say, text};
use crate::control::protocol::PinRow;
use crate::control::target::Target;
use crate::policy::aside::utc;
use crate::types::Timestamp;
use std::time::{Duration, SystemTime};

/// Pins the paths, or lists what is pinned.
///
/// # Errors
/// [`Failure`].
pub fn pin(args: &PinArgs) -> Result<(), Failure> {
    if args.list {
        return list(args);
    }
    let until = args.until.map(|until| until.from(SystemTime::now()));
    let paths = PathsArgs { paths: args.paths.clone(), from_file: args.from_file.clone(), null: args.null };
    for (target, inner) in paths::by_mount(&paths, Missing::Refused)? {
        let pinned = target.connect()?.pin(inner, until)?;
        say::out(format_args!("{} pinned", text::counted(pinned.pins, "path")));
    }
    Ok(())
}

/// Takes pins away.
///
/// # Errors
/// [`Failure`].
pub fn unpin(args: &UnpinArgs) -> Result<(), Failure> {
    for (target, inner) in paths::by_mount(&args.paths, Missing::Refused)? {
        let unpinned = target.connect()?.unpin(inner)?;
        say::out(format_args!("{} taken away", text::counted(unpinned.pins, "pin")));
        for (path, by) in &unpinned.still {
            let (path, by) = (text::printable(&path.to_string()), text::printable(&by.to_string()));
            let by = if by.is_empty() { "the whole mount".to_owned() } else { by };
            say::out(format_args!("{path} stays pinned with {by}"));
        }
    }
    Ok(())
}

fn list(args: &PinArgs) -> Result<(), Failure> {
    let target = match args.paths.first() {
        Some(path) => Target::of(path)?,
        None => Target::implied()?,
    };
    let mut client = target.connect()?;
    let (mut after, mut shown) = (0, 0_u64);
    loop {
        let page = client.pins(after)?;
        for row in &page.rows {
            say::out(format_args!("{}", if args.json { json(row)? } else { line(row) }));
            shown += 1;
        }
        match page.next {
            Some(next) if next > after => after = next,
            _ => break,
        }
    }
    if shown == 0 && !args.json {
        say::out(format_args!("nothing is pinned"));
    }
    Ok(())
}

fn json(row: &PinRow) -> Result<String, Failure> {
    serde_json::to_string(row).map_err(|error| Failure::failed(error.to_string()))
}

fn line(row: &PinRow) -> String {
    let path = text::printable(&row.path.to_string());
    let path = if path.is_empty() { ".".to_owned() } else { path };
    let until = row.until_ns.map_or_else(|| "for ever".to_owned(), |until| utc(Timestamp(until)));
    format!("{until:<17} {path}")
}

/// The end of a pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// So long from now.
    In(Duration),
    /// At this moment.
    At(Timestamp),
}

impl Until {
    /// `7d`, `2026-12-31` or `2026-12-31T18:00:00Z`.
    ///
    /// # Errors
    /// What to write instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        match (moment(text), crate::config::duration(text)) {
            (Some(at), _) => Ok(Self::At(at)),
            (None, Ok(time)) => Ok(Self::In(time)),
            (None, Err(_)) => {
                Err("is no time; write \"7d\", \"2026-12-31\" or \"2026-12-31T18:00:00Z\" (UTC)".to_owned())
            }
        }
    }

    fn from(self, now: SystemTime) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::In(time) => {
                let time = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
                Timestamp(Timestamp::from(now).0.saturating_add(time))
            }
        }
    }
}

/// A date, or a date and a time, in UTC.
fn moment(text: &str) -> Option<Timestamp> {
    let (date, time) = match text.strip_suffix('Z').and_then(|text| text.split_once('T')) {
        Some((date, time)) => (date, time),
        None => (text, "00:00:00"),
    };
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of = |month| match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let right = (1970..=2261).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_of(month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !right {
        return None;
    }
    let leaps = |year: i64| year / 4 - year / 100 + year / 400;
    let years = (year - 1970) * 365 + leaps(year - 1) - leaps(1969);
    let days = years + (1..month).map(days_of).sum::<i64>() + day - 1;
    Some(Timestamp::from_parts(days * 86_400 + hour * 3600 + minute * 60 + second, 0))
}

fn numbers(text: &str, between: char) -> Option<[i64; 3]> {
    let parts: Vec<&str> = text.split(between).collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !parts.iter().all(is_number) {
        return None;
    }
    let numbers: Option<Vec<i64>> = parts.iter().map(|part| part.parse().ok()).collect();
    numbers?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_durations_or_dates() {
        assert_eq!(Until::parse("7d"), Ok(Until::In(Duration::from_secs(7 * 86_400))));
        let at = |text| match Until::parse(text) {
            Ok(Until::At(at)) => utc(at),
            other => panic!("{other:?}"),
        };
        assert_eq!(at("2026-12-31"), "20261231T000000Z");
        assert_eq!(at("2028-02-29T18:05:09Z"), "20280229T180509Z");
        for wrong in ["2026-02-29", "2026-13-01", "2026-1-", "2026-12-31T24:00:00Z", "+026-12-31", "soon", ""]
        {
            assert!(Until::parse(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_moment_reads_back(second in 0_i64..9_000_000_000) {
            let shown = utc(Timestamp::from_parts(second, 0));
            let text = format!("{}-{}-{}T{}:{}:{}", &shown[..4], &shown[4..6], &shown[6..8], &shown[9..11], &shown[11..13], &shown[13..]);
            prop_assert_eq!(moment(&text), Some(Timestamp::from_parts(second, 0)));
        }
    }
}
