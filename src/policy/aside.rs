//! Names for what is kept beside something else.

use crate::types::Timestamp;

/// Longest name of a file, in bytes.
const NAME_MAX: usize = 255;

/// `name.conflict-<host>-<UTC time>`, cut so that it is a valid name on every tier.
#[must_use]
pub fn conflict_name(name: &[u8], host: &str, now: Timestamp, attempt: u32) -> Vec<u8> {
    let host: String = host
        .chars()
        .map(|char| if char.is_ascii_alphanumeric() || char == '-' { char } else { '_' })
        .take(64)
        .collect();
    let again = if attempt == 0 { String::new() } else { format!("-{}", attempt + 1) };
    let suffix = format!(".conflict-{host}-{}{again}", utc(now));
    let mut keep = name.len().min(NAME_MAX - suffix.len());
    // Never cut inside a UTF-8 character.
    while keep < name.len() && keep > 0 && name[keep] & 0xc0 == 0x80 {
        keep -= 1;
    }
    [&name[..keep], suffix.as_bytes()].concat()
}

/// Whether a name looks like one that [`conflict_name`] makes.
#[must_use]
pub fn is_conflict_name(name: &[u8]) -> bool {
    name.windows(MARK.len()).any(|part| part == MARK)
}

const MARK: &[u8] = b".conflict-";

/// `20260131T134500Z`.
#[must_use]
pub fn utc(time: Timestamp) -> String {
    let (seconds, _) = time.parts();
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// Year, month and day of a day counted from 1970-01-01 (proleptic Gregorian calendar; years begin
/// in March, so that the leap day is the last of its year).
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_parts(seconds, 0)
    }

    #[test]
    fn times_are_utc() {
        for (seconds, text) in [
            (0, "19700101T000000Z"),
            (951_782_400, "20000229T000000Z"),
            (1_769_867_100, "20260131T134500Z"),
            (-1, "19691231T235959Z"),
            (4_107_542_399, "21000228T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(utc(at(seconds)), text);
        }
    }

    #[test]
    fn conflict_names_are_valid_names() {
        let name = conflict_name(b"a.txt", "gpu 1/\u{c3}", at(0), 0);
        assert_eq!(name, b"a.txt.conflict-gpu_1__-19700101T000000Z");
        assert!(is_conflict_name(&name) && !is_conflict_name(b"a.txt.conflict"));
        let long = "\u{e9}".repeat(127);
        for attempt in 0..3 {
            let name = conflict_name(long.as_bytes(), &"h".repeat(300), at(0), attempt);
            assert!(name.len() <= NAME_MAX && String::from_utf8(name).is_ok());
        }
    }
}
