//! Sizes, durations and columns for people. Also used by `tierstat`.

use std::io::IsTerminal;
use std::time::Duration;

/// `1.5 MiB`: three figures at most, binary units.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "three figures for people")]
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    // 999.5 would print as 1000: one unit up it prints as 0.98.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if value < 9.95 { 1 } else { 0 };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// `12,345`.
#[must_use]
pub fn number(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 file`, `2 files`.
#[must_use]
pub fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{} {what}s", number(count)) }
}

/// `2h 5m`, `12 s`: the two largest units.
#[must_use]
pub fn seconds(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{minutes}m {}s", seconds % 60),
        3600..86_400 => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

/// `0.12 s`, `3.4 s`, `2m 5s`.
#[must_use]
pub fn elapsed(time: Duration) -> String {
    if time < Duration::from_millis(995) {
        format!("{:.2} s", time.as_secs_f64())
    } else if time < Duration::from_secs(60) {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        seconds(time.as_secs())
    }
}

/// `812 MB/s`.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "three figures for people")]
pub fn rate(count: u64, time: Duration) -> String {
    let per_second = count as f64 / time.as_secs_f64().max(1e-6) / 1e6;
    if per_second >= 9_950.0 {
        format!("{:.0} GB/s", per_second / 1e3)
    } else if per_second >= 995.0 {
        format!("{:.1} GB/s", per_second / 1e3)
    } else {
        format!("{per_second:.0} MB/s")
    }
}

/// `text` in at most `width` characters, control characters escaped so that no name can drive the terminal.
#[must_use]
pub fn fit(text: &str, width: usize) -> String {
    let clean = printable(text);
    if clean.chars().count() <= width {
        return clean;
    }
    clean.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// `text` with control characters escaped.
#[must_use]
pub fn printable(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.to_owned();
    }
    text.chars()
        .flat_map(|c| {
            let escaped: Box<dyn Iterator<Item = char>> =
                if c.is_control() { Box::new(c.escape_default()) } else { Box::new(std::iter::once(c)) };
            escaped
        })
        .collect()
}

/// `word` as a shell takes it for one.
#[must_use]
pub fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// How wide the terminal is that standard output goes to, if it goes to one.
#[must_use]
pub fn columns_of_stdout() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    // Some terminals don't know.
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Whether standard output takes colours: a terminal, and nobody set `NO_COLOR`.
#[must_use]
pub fn colour_on_stdout() -> bool {
    std::io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// How a piece of text looks on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Headings.
    Bold,
    /// What matters less.
    Dim,
    /// All is well.
    Good,
    /// Worth a look.
    Warn,
    /// Broken.
    Bad,
}

/// Dresses text for a terminal, or leaves it plain.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    colour: bool,
}

impl Style {
    /// As standard output wants it.
    #[must_use]
    pub fn for_stdout() -> Self {
        Self { colour: colour_on_stdout() }
    }

    /// No colours.
    #[must_use]
    pub const fn plain() -> Self {
        Self { colour: false }
    }

    /// `text` in `look`.
    #[must_use]
    pub fn paint(self, look: Look, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match look {
            Look::Bold => "1",
            Look::Dim => "2",
            Look::Good => "32",
            Look::Warn => "33",
            Look::Bad => "1;31",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_figures() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (10 << 20, "10 MiB"),
            (1023 << 10, "1.0 MiB"),
            (1_500_000_000, "1.4 GiB"),
            (u64::MAX, "16 EiB"),
        ];
        for (count, said) in cases {
            assert_eq!(bytes(count), said);
        }
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([1, 2000].map(|n| counted(n, "file")), ["1 file", "2,000 files"]);
    }

    #[test]
    fn times_have_two_units() {
        assert_eq!([5, 65, 3661, 90_000].map(seconds), ["5 s", "1m 5s", "1h 1m", "1d 1h"]);
        assert_eq!(elapsed(Duration::from_millis(120)), "0.12 s");
        assert_eq!(rate(2_000_000_000, Duration::from_secs(1)), "2.0 GB/s");
    }

    #[test]
    fn no_name_drives_the_terminal() {
        assert_eq!(fit("a\x1b[2Jb", 20), "a\\u{1b}[2Jb");
        assert_eq!(fit("abcdef", 4), "abc…");
        assert_eq!(fit("äöü", 3), "äöü");
    }

    #[test]
    fn commands_can_be_pasted() {
        assert_eq!(shell("/mnt/a-1.toml"), "/mnt/a-1.toml");
        assert_eq!(shell("a b"), "'a b'");
        assert_eq!(shell("it's"), "'it'\\''s'");
        assert_eq!(shell(""), "''");
    }

    #[test]
    fn plain_is_plain() {
        assert_eq!(Style::plain().paint(Look::Bad, "x"), "x");
        assert_eq!(Style { colour: true }.paint(Look::Good, "x"), "\x1b[32mx\x1b[0m");
    }
}
