//! `tierstat health`: one word for a monitor, and the reasons for people.

use crate::Failure;
use crate::args::Form;
use std::io::{self, Write};
use std::path::Path;
use tierfs::cli::text::{self, Look, Style};
use tierfs::control::status::{Health, Level, Reason, Versioned};
use tierfs::control::target::{Target, TargetError};

/// Says how the mount around `path` is; answers the exit code.
pub fn show(path: Option<&Path>, form: Form, out: &mut dyn Write) -> Result<u8, Failure> {
    let health = health(path.map_or_else(Target::implied, Target::of))?;
    match form {
        Form::Json => {
            writeln!(out, "{}", Versioned::new(&health).line()?)?;
        }
        Form::Text => render(&health, Style::for_stdout(), out)?,
    }
    Ok(health.level as u8)
}

/// A daemon that is gone or says nothing needs a person more than any that can tell why.
fn health(target: Result<Target, TargetError>) -> Result<Health, TargetError> {
    match target.and_then(|target| target.status()) {
        Ok(status) => Ok(status.health()),
        Err(error @ (TargetError::Dead(_) | TargetError::Client { .. } | TargetError::Io { .. })) => {
            Ok(Health::of(vec![Reason { level: Level::Person, text: error.to_string() }]))
        }
        Err(error) => Err(error),
    }
}

fn render(health: &Health, style: Style, out: &mut dyn Write) -> io::Result<()> {
    if health.reasons.is_empty() {
        return writeln!(out, "{}", style.paint(Look::Good, "fine"));
    }
    for reason in &health.reasons {
        let (word, look) = match reason.level {
            Level::Fine => ("fine", Look::Good),
            Level::Soon => ("soon", Look::Warn),
            Level::Person => ("now", Look::Bad),
        };
        writeln!(out, "{} {}", style.paint(look, &format!("{word:<4}")), text::printable(&reason.text))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_a_line() {
        let reason = |level, text: &str| Reason { level, text: text.into() };
        let health = Health::of(vec![reason(Level::Soon, "a\nb"), reason(Level::Person, "c")]);
        let mut out = Vec::new();
        render(&health, Style::plain(), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "now  c\nsoon a\\nb\n");
    }

    #[test]
    fn a_dead_daemon_needs_a_person_and_no_mount_is_an_error() {
        let dead = health(Err(TargetError::Dead("/m".into()))).unwrap();
        assert_eq!(dead.level, Level::Person);
        assert!(matches!(health(Err(TargetError::Nothing)), Err(TargetError::Nothing)));
    }
}
