//! How single values are written and read: percent-encoding and the time formats in use.

use chrono::{DateTime, NaiveDate, Utc};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// All but what is safe in a header, in a query-like list and under a signature (which trims spaces).
const UNSAFE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'/').remove(b':');

/// AMLFS's form, always in UTC.
const MODTIME: &str = "%Y-%m-%d %H:%M:%S +0000";

/// ASCII that [`decode`] turns back into `bytes`.
pub(super) fn encode(bytes: &[u8]) -> String {
    percent_encode(bytes, UNSAFE).to_string()
}

/// What [`encode`] made the text of.
pub(super) fn decode(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

/// `seconds` since the epoch in AMLFS's form, if it has four digits for the year.
pub(super) fn modtime(seconds: i64) -> Option<String> {
    let first = NaiveDate::from_ymd_opt(0, 1, 1)?.and_hms_opt(0, 0, 0)?.and_utc().timestamp();
    let end = NaiveDate::from_ymd_opt(10_000, 1, 1)?.and_hms_opt(0, 0, 0)?.and_utc().timestamp();
    if !(first..end).contains(&seconds) {
        return None;
    }
    DateTime::<Utc>::from_timestamp(seconds, 0).map(|time| time.format(MODTIME).to_string())
}

/// Nanoseconds since the epoch of AMLFS's form, with any offset.
pub(super) fn parse_modtime(text: &str) -> Option<i64> {
    DateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f %z").ok()?.timestamp_nanos_opt()
}

/// Nanoseconds since the epoch of an RFC 3339 time.
pub(super) fn parse_rfc3339(text: &str) -> Option<i64> {
    DateTime::parse_from_rfc3339(text).ok()?.timestamp_nanos_opt()
}

/// Permission bits of `rwxr-xr-x`, with `s`, `S`, `t`, `T` as ls writes them.
pub(super) fn parse_symbolic(text: &str) -> Option<u32> {
    let letters: [u8; 9] = text.as_bytes().try_into().ok()?;
    let mut mode = 0;
    for (at, &letter) in letters.iter().enumerate() {
        let bit = 0o400 >> at;
        let special = 0o4000 >> (at / 3);
        mode |= match (at % 3, letter) {
            (_, b'-') => 0,
            (0, b'r') | (1, b'w') | (2, b'x') => bit,
            (2, b's') if at < 8 => bit | special,
            (2, b'S') if at < 8 => special,
            (2, b't') if at == 8 => bit | special,
            (2, b'T') if at == 8 => special,
            _ => return None,
        };
    }
    Some(mode)
}
