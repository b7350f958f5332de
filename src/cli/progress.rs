//! Long work: a bar on a terminal, a line now and then elsewhere. On standard error, so that
//! standard output stays what a script wants.

use crate::cli::say;
use crate::cli::text;
use crate::control::protocol::{Drained, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Plain lines come no closer than this.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Shows how far a long call is.
pub struct Bar {
    title: String,
    face: Face,
}

enum Face {
    Terminal(ProgressBar),
    Lines { last: Instant },
}

impl Bar {
    /// Starts; nothing is shown before the first [`Bar::show`].
    #[must_use]
    pub fn new(title: &str) -> Self {
        let face = if std::io::stderr().is_terminal() {
            Face::Terminal(ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()))
        } else {
            Face::Lines { last: Instant::now() }
        };
        Self { title: title.to_owned(), face }
    }

    /// Shows `progress`.
    pub fn show(&mut self, progress: &Progress) {
        match &mut self.face {
            Face::Terminal(bar) => draw(bar, &self.title, progress),
            Face::Lines { last } if last.elapsed() >= LINE_EVERY => {
                *last = Instant::now();
                say::err(format_args!("{}: {}", self.title, left(progress)));
            }
            Face::Lines { .. } => {}
        }
    }

    /// Takes the bar away.
    pub fn finish(self) {
        if let Face::Terminal(bar) = self.face {
            bar.finish_and_clear();
        }
    }
}

fn draw(bar: &ProgressBar, title: &str, progress: &Progress) {
    if bar.length().is_none()
        && let Ok(style) = ProgressStyle::with_template("{prefix} [{bar:24}] {msg}")
    {
        bar.set_style(style.progress_chars("=> "));
        bar.set_prefix(title.to_owned());
    }
    bar.set_length(progress.bytes_done.saturating_add(progress.bytes_left).max(1));
    bar.set_position(progress.bytes_done);
    bar.set_message(left(progress));
}

fn left(progress: &Progress) -> String {
    let mut said =
        format!("{}, {} to go", text::counted(progress.files_left, "file"), text::bytes(progress.bytes_left));
    if let Some(reason) = &progress.waiting_for {
        said.push_str("; tried again: ");
        said.push_str(&text::printable(reason));
    }
    said
}

/// `3 files, 2.0 MiB committed`.
#[must_use]
pub fn done(drained: &Drained) -> String {
    format!("{}, {} committed", text::counted(drained.files_done, "file"), text::bytes(drained.bytes_done))
}

/// What is left and why: `2 files, 1.0 MiB are not home: 1 is still open; ..`.
#[must_use]
pub fn not_done(drained: &Drained) -> String {
    let mut said = format!(
        "{}, {} not home yet",
        text::counted(drained.files_left, "file"),
        text::bytes(drained.bytes_left)
    );
    if drained.open_left > 0 {
        said.push_str(&format!(", {} of them open for writing", text::number(drained.open_left)));
    }
    if drained.blocked_left > 0 {
        said.push_str(&format!(
            ", {} refused by the home tier (see tierstat)",
            text::number(drained.blocked_left)
        ));
    }
    if let Some(reason) = &drained.reason {
        said.push_str(": ");
        said.push_str(&text::printable(reason));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_says_why() {
        let drained = Drained {
            files_left: 2,
            bytes_left: 1 << 20,
            open_left: 1,
            reason: Some("blob: 503".into()),
            ..Drained::default()
        };
        assert_eq!(
            not_done(&drained),
            "2 files, 1.0 MiB not home yet, 1 of them open for writing: blob: 503"
        );
    }

    #[test]
    fn waiting_is_said() {
        let progress = Progress { files_left: 1, waiting_for: Some("a: 503".into()), ..Progress::default() };
        assert_eq!(left(&progress), "1 file, 0 B to go; tried again: a: 503");
    }
}
