//! The demo's voice: numbered steps, short lines, 80 columns.

use crate::cli::say;
use crate::cli::text::{Look, Style};

/// Tells what happens.
pub(super) struct Teller {
    style: Style,
    step: u32,
}

impl Teller {
    pub(super) fn new() -> Self {
        Self { style: Style::for_stdout(), step: 0 }
    }

    /// The first lines.
    pub(super) fn opening(&self, lines: &[String]) {
        say::out(format_args!(
            "{}\n",
            self.style.paint(Look::Bold, "tierfs demo: one tree over three kinds of storage")
        ));
        for line in lines {
            say::out(format_args!("  {line}").to_string().trim_end());
        }
    }

    /// A new step.
    pub(super) fn step(&mut self, title: &str) {
        self.step += 1;
        say::out(format_args!("\n{}", self.style.paint(Look::Bold, &format!("{}. {title}", self.step))));
    }

    /// A line of a step.
    pub(super) fn line(&self, text: &str) {
        say::out(format_args!("   {text}"));
    }

    /// A line of a step that says that something is as it should be.
    pub(super) fn good(&self, text: &str) {
        say::out(format_args!("   {} {text}", self.style.paint(Look::Good, "✓")));
    }

    /// A command that is run.
    pub(super) fn command(&self, command: &str) {
        say::out(format_args!("   {}", self.style.paint(Look::Dim, &format!("$ {command}"))));
    }

    /// What a command said, as it said it.
    pub(super) fn output(&self, text: &str) {
        say::out(text.trim_end_matches('\n'));
    }

    /// An empty line.
    pub(super) fn gap(&self) {
        say::out("");
    }

    /// The last lines.
    pub(super) fn end(&self, text: &str) {
        say::out(format_args!("\n{}", self.style.paint(Look::Bold, text)));
    }
}
