//! Words for people. Whoever stopped reading is no reason to stop working, so unlike `println!`
//! nothing here panics on a closed pipe.

use std::fmt::Display;
use std::io::{self, Write};

/// What was asked for: a line on standard output.
pub fn out(line: impl Display) {
    ignore(writeln!(io::stdout(), "{line}"));
}

/// What else there is to know: a line on standard error.
pub fn note(line: impl Display) {
    err(format_args!("note: {line}"));
}

/// A line on standard error.
pub fn err(line: impl Display) {
    ignore(writeln!(io::stderr(), "{line}"));
}

fn ignore(written: io::Result<()>) {
    if let Err(error) = written {
        tracing::trace!(%error, "nobody listens");
    }
}
