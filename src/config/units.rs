//! Sizes, percentages and durations: always with a unit. An error says what is wrong after the value.

use std::time::Duration;

const SIZE_UNITS: [(&str, u64); 11] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("PiB", 1 << 50),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("PB", 1_000_000_000_000_000),
];

const DURATION_UNITS: [(&str, u64); 6] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 604_800_000)];

/// A whole percentage from 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(u8);

impl Percent {
    /// This share of `whole`.
    #[must_use]
    pub fn of(self, whole: u64) -> u64 {
        let share = u128::from(whole) * u128::from(self.0) / 100;
        // A share of at most 100 % fits where the whole did.
        u64::try_from(share).unwrap_or(whole)
    }

    /// From 1 to 100.
    #[must_use]
    pub fn value(self) -> u8 {
        self.0
    }
}

/// `0.0208`, `$0.145`: millionths of a dollar.
pub(super) fn price(text: &str) -> Result<u64, String> {
    let wrong = || "is no price; write dollars a GiB and month, such as \"0.0208\"".to_owned();
    let number = text.strip_prefix('$').unwrap_or(text);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if number.is_empty() || !is_number(whole) || !is_number(fraction) || whole.len() > 6 {
        return Err(wrong());
    }
    if fraction.len() > 6 {
        return Err("has more than six decimals; write fewer".into());
    }
    format!("{whole}{fraction:0<6}").parse().map_err(|_only_a_point| wrong())
}

/// `512MiB`, `1.5TiB`, `1GB`.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = number_and_unit(text);
    let Some(number) = decimal(number) else {
        return Err("is not a size; write a number and a unit, such as \"512MiB\"".into());
    };
    let known = SIZE_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let Some((_, factor)) = known else {
        let first = unit.chars().next().map(|c| c.to_ascii_uppercase());
        return Err(match first {
            None => format!("has no unit; write \"{text}MiB\", or \"{text}B\" for bytes"),
            Some(letter @ ('K' | 'M' | 'G' | 'T' | 'P')) if unit.len() == 1 => {
                let digits = text.trim_end_matches(char::is_alphabetic).trim_end();
                format!(
                    "has half a unit; write \"{digits}{letter}iB\" (1024) or \"{digits}{letter}B\" (1000)"
                )
            }
            Some(_) => {
                format!("has the unit `{unit}`; units are B, KiB, MiB, GiB, TiB, PiB, kB, MB, GB, TB, PB")
            }
        });
    };
    let bytes = number.bytes(*factor).ok_or("is larger than any store; write at most \"16383PiB\"")?;
    if bytes == 0 { Err("is nothing; write more than 0, such as \"512MiB\"".into()) } else { Ok(bytes) }
}

/// A size, or `unlimited`.
pub(super) fn size_or_unlimited(text: &str) -> Result<Option<u64>, String> {
    if text == "unlimited" { Ok(None) } else { size(text).map(Some) }
}

/// `500`, or `unlimited`.
pub(super) fn count_or_unlimited(text: &str) -> Result<Option<u64>, String> {
    match text.parse() {
        _ if text == "unlimited" => Ok(None),
        Ok(count @ 1_u64..) => Ok(Some(count)),
        _ => {
            Err("is not a number of calls; write a whole number above 0, like \"500\", or \"unlimited\""
                .into())
        }
    }
}

/// `85%`.
pub(super) fn percent(text: &str) -> Result<Percent, String> {
    let number = text.strip_suffix('%').map(str::trim_end);
    match number.unwrap_or(text).parse::<u8>() {
        Ok(_) if number.is_none() => Err(format!("has no unit; write \"{text}%\"")),
        Ok(value @ 1..=100) => Ok(Percent(value)),
        _ => Err("is not a percentage; write a whole number from \"1%\" to \"100%\"".into()),
    }
}

/// `10m`, `1h30m`, `500ms`.
///
/// # Errors
/// What is wrong with it and what to write instead, to be read after the value.
pub fn duration(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    let mut millis: u64 = 0;
    while !rest.is_empty() || millis == 0 {
        let (number, after) = number_and_unit(rest);
        let Some(number) = decimal(number) else {
            return Err("is not a duration; write a number and a unit, such as \"10m\"".into());
        };
        let unit = &after[..after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len())];
        let Some((_, factor)) = DURATION_UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(if unit.is_empty() {
                format!("has no unit; write \"{text}s\" for seconds")
            } else {
                format!("has the unit `{unit}`; units are ms, s, m, h, d, w")
            });
        };
        let part = number.bytes(*factor);
        millis = part
            .and_then(|part| millis.checked_add(part))
            .ok_or("is too long; write \"never\" where that is allowed")?;
        rest = after[unit.len()..].trim_start();
        if millis == 0 && rest.is_empty() {
            break;
        }
    }
    Ok(Duration::from_millis(millis))
}

/// A duration longer than nothing.
pub(super) fn duration_above_zero(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("leaves no time at all; write at least \"1s\"".into()),
        some => Ok(some),
    }
}

/// A duration, or `never`.
pub(super) fn duration_or_never(text: &str) -> Result<Option<Duration>, String> {
    if text == "never" { Ok(None) } else { duration(text).map(Some) }
}

/// A number with up to nine digits after the point, exactly.
#[derive(Clone, Copy)]
struct Decimal {
    whole: u64,
    billionths: u64,
}

impl Decimal {
    /// This many times `factor`, rounded down; `None` beyond 64 bits.
    fn bytes(self, factor: u64) -> Option<u64> {
        let exact = u128::from(self.whole) * 1_000_000_000 + u128::from(self.billionths);
        u64::try_from(exact * u128::from(factor) / 1_000_000_000).ok()
    }
}

fn decimal(text: &str) -> Option<Decimal> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    Some(Decimal { whole: whole.parse().ok()?, billionths: format!("{fraction:0<9}").parse().ok()? })
}

fn number_and_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..at], text[at..].trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("512MiB", 512 << 20),
            ("1.5TiB", 3 << 39),
            ("1GB", 1_000_000_000),
            ("7 b", 7),
            ("2tib", 2 << 40),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for (text, better) in [
            ("512", "\"512MiB\""),
            ("512M", "\"512MiB\" (1024)"),
            ("1.2.3GB", "not a size"),
            ("-1GB", "not a size"),
            ("", "not a size"),
            ("5 parsecs", "units are"),
            ("0B", "more than 0"),
            ("99999999PiB", "at most"),
            ("99999999999999999999B", "not a size"),
        ] {
            let said = size(text).unwrap_err();
            assert!(said.contains(better), "{text}: {said}");
        }
        assert_eq!(size_or_unlimited("unlimited"), Ok(None));
        assert_eq!(size("16383PiB"), Ok(16383 << 50));
    }

    #[test]
    fn durations() {
        for (text, millis) in [
            ("10m", 600_000),
            ("500ms", 500),
            ("2s", 2_000),
            ("30d", 2_592_000_000),
            ("1h30m", 5_400_000),
            ("0s", 0),
            ("1.5s", 1_500),
            ("0h1s", 1_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for (text, better) in [
            ("10", "\"10s\""),
            ("", "not a duration"),
            ("10 minutes", "units are"),
            ("never", "not a duration"),
            ("1h30", "no unit"),
            ("99999999999999999w", "too long"),
        ] {
            let said = duration(text).unwrap_err();
            assert!(said.contains(better), "{text}: {said}");
        }
        assert_eq!(duration_or_never("never"), Ok(None));
        assert!(duration_above_zero("0s").is_err());
    }

    #[test]
    fn percentages() {
        assert_eq!(percent("85%").map(|percent| percent.of(200)), Ok(170));
        assert_eq!(percent("100%").map(|percent| percent.of(u64::MAX)), Ok(u64::MAX));
        assert!(percent("85").unwrap_err().contains("\"85%\""));
        for bad in ["0%", "101%", "-1%", "8.5%", "%", "x"] {
            assert!(percent(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn prices_are_dollars() {
        for (text, micros) in
            [("0.0208", 20_800), ("$0.145", 145_000), ("2", 2_000_000), (".5", 500_000), ("0", 0)]
        {
            assert_eq!(price(text), Ok(micros), "{text}");
        }
        for wrong in ["", "$", "cheap", "1,5", "-1", "1.2.3", "1234567", "0.0000001", "1e3"] {
            assert!(price(wrong).is_err(), "{wrong}");
        }
    }
}
