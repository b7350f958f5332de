//! One line of `tierfs check`.

use crate::cli::text::{self, Look, Style};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// It works, but.
    Warn,
    /// It does not work.
    Fail,
}

/// What was found about one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) level: Level,
    what: String,
    said: String,
}

impl Finding {
    pub(super) fn ok(what: impl Into<String>, said: impl Into<String>) -> Self {
        Self { level: Level::Ok, what: what.into(), said: said.into() }
    }

    pub(super) fn warn(what: impl Into<String>, said: impl Into<String>) -> Self {
        Self { level: Level::Warn, what: what.into(), said: said.into() }
    }

    pub(super) fn fail(what: impl Into<String>, said: impl Into<String>) -> Self {
        Self { level: Level::Fail, what: what.into(), said: said.into() }
    }

    pub(super) fn line(&self, style: Style) -> String {
        let (word, look) = match self.level {
            Level::Ok => ("ok  ", Look::Good),
            Level::Warn => ("warn", Look::Warn),
            Level::Fail => ("FAIL", Look::Bad),
        };
        format!("{}  {}: {}", style.paint(look, word), self.what, text::printable(&self.said))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line() {
        assert_eq!(Finding::fail("tier a", "x\ny").line(Style::plain()), "FAIL  tier a: x\\ny");
        assert_eq!(Finding::ok("kernel", "Linux 6.9").line(Style::plain()), "ok    kernel: Linux 6.9");
        assert!(Level::Fail > Level::Warn && Level::Warn > Level::Ok);
    }
}
