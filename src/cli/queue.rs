//! `tierfs queue`: what still has to reach home, and what a person can do about it. The list is also `tierstat`'s.

mod export;

use crate::cli::args::{QueueArgs, QueueCommand, QueueListArgs, QueueRetryArgs};
use crate::cli::failure::Failure;
use crate::cli::say;
use crate::cli::text::{self, Look, Style};
use crate::control::client::{Client, ClientError};
use crate::control::protocol::{PAGE_MAX, QueueQuery, QueueRow, QueueState, Retried, WirePath};
use crate::control::status::Versioned;
use crate::control::target::{Target, TargetError};
use std::io::{self, Write};
use std::path::Path;

/// Does it.
///
/// # Errors
/// [`Failure`].
pub fn run(args: &QueueArgs) -> Result<(), Failure> {
    match &args.command {
        None => list(&args.list),
        Some(QueueCommand::Retry(args)) => retry(args),
        Some(QueueCommand::Export(args)) => export::run(&args.path, &args.to),
    }
}

/// Why the list could not be shown.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// There is no daemon to ask.
    #[error("{0}")]
    Target(#[from] TargetError),
    /// The daemon can't tell.
    #[error("{0}")]
    Client(#[from] ClientError),
    /// It can't be written.
    #[error("standard output: {0}")]
    Output(#[from] io::Error),
}

/// How to show the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Columns for people.
    Text,
    /// A JSON object a line.
    Json,
}

fn list(args: &QueueListArgs) -> Result<(), Failure> {
    let form = if args.json { Form::Json } else { Form::Text };
    match show(args.mountpoint.as_deref(), form, &mut io::stdout().lock()) {
        Err(ListError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(ListError::Target(error)) => Err(error.into()),
        Err(ListError::Client(error)) => Err(error.into()),
        other => other.map_err(|error| Failure::failed(error.to_string())),
    }
}

/// Writes a line for each step that is still to do in the mount around `path`, in their order: a page at a time, so that a long
/// queue needs no memory.
///
/// # Errors
/// [`ListError`].
pub fn show(path: Option<&Path>, form: Form, out: &mut dyn Write) -> Result<(), ListError> {
    let target = path.map_or_else(Target::implied, Target::of)?;
    let mut client = target.connect()?;
    let style = Style::for_stdout();
    let mut shown = 0_u64;
    each(&mut client, &mut |row| {
        match form {
            Form::Json => writeln!(out, "{}", Versioned::new(row).line()?)?,
            Form::Text => {
                if shown == 0 {
                    writeln!(out, "{}", style.paint(Look::Bold, &heading()))?;
                }
                writeln!(out, "{}", line(row, style))?;
            }
        }
        shown += 1;
        Ok(())
    })?;
    if shown == 0 && form == Form::Text {
        writeln!(out, "nothing: all is home")?;
    }
    Ok(out.flush()?)
}

fn each(
    client: &mut Client,
    visit: &mut dyn FnMut(&QueueRow) -> Result<(), ListError>,
) -> Result<(), ListError> {
    let mut query = QueueQuery { after: 0, limit: PAGE_MAX };
    loop {
        let page = client.queue(query)?;
        page.rows.iter().try_for_each(&mut *visit)?;
        match page.next {
            Some(next) if next > query.after => query.after = next,
            _ => return Ok(()),
        }
    }
}

/// How far the step of one file is, in words; none if it has none.
///
/// # Errors
/// [`ListError`].
pub fn of_path(client: &mut Client, path: &WirePath) -> Result<Option<String>, ListError> {
    let mut said = None;
    each(client, &mut |row| {
        if row.path == *path {
            let remark =
                remark(row).map_or_else(String::new, |remark| format!(": {}", text::printable(&remark)));
            said.get_or_insert(format!(
                "queued for {}, {}{remark}",
                text::seconds(row.age_s),
                row.state.word()
            ));
        }
        Ok(())
    })?;
    Ok(said)
}

fn heading() -> String {
    format!("{:<10} {:<7} {:<9} {:>8} {:>8}  PATH", "DOMAIN", "WHAT", "STATE", "AGE", "BYTES")
}

fn line(row: &QueueRow, style: Style) -> String {
    let state = style.paint(look(row.state), &format!("{:<9}", row.state.word()));
    let bytes = if row.bytes == 0 { "-".to_owned() } else { text::bytes(row.bytes) };
    let (domain, age) = (text::fit(&row.domain, 10), text::seconds(row.age_s));
    let path = text::printable(&row.path.to_string());
    let head = format!("{domain:<10} {:<7} {state} {age:>8} {bytes:>8}  {path}", row.what.word());
    match remark(row) {
        Some(remark) => format!("{head}: {remark}"),
        None => head,
    }
}

/// Why it is where it is, and what comes next.
fn remark(row: &QueueRow) -> Option<String> {
    let said = row.error.as_deref().map(text::printable);
    let soon = |next: u64| if next == 0 { "now".to_owned() } else { format!("in {}", text::seconds(next)) };
    match row.state {
        QueueState::Blocked => Some(format!("{}; needs a person", said.as_deref().unwrap_or("refused"))),
        QueueState::Retrying => {
            let next =
                row.next_s.map_or_else(|| "again later".to_owned(), |next| format!("again {}", soon(next)));
            Some(said.map_or(next.clone(), |said| format!("{said}; {next}")))
        }
        QueueState::Held => {
            let until =
                row.next_s.map_or_else(String::new, |next| format!(", at most for {}", text::seconds(next)));
            Some(format!("until it has another name or is flushed{until}"))
        }
        QueueState::Settling => row.next_s.map(|next| format!("begins {}", soon(next))),
        _ => said.map(|said| format!("last try: {said}")),
    }
}

fn look(state: QueueState) -> Look {
    match state {
        QueueState::Blocked => Look::Bad,
        QueueState::Retrying | QueueState::Open | QueueState::Held => Look::Warn,
        QueueState::Uploading => Look::Good,
        QueueState::Settling | QueueState::Waiting | QueueState::Other => Look::Dim,
    }
}

fn retry(args: &QueueRetryArgs) -> Result<(), Failure> {
    for path in &args.paths {
        // Not looked at: its delete may be what failed.
        let target = Target::of(path)?;
        let retried = target.connect()?.retry(target.inner.clone())?;
        say::out(format_args!("{}: {}", text::printable(&path.to_string_lossy()), told(retried)));
    }
    Ok(())
}

fn told(retried: Retried) -> String {
    match retried {
        Retried { steps: 0, others } => {
            let (steps, have) = (text::counted(others, "step"), if others == 1 { "has" } else { "have" });
            format!("nothing of it has failed; {steps} {have} yet to be done, see `tierfs queue`")
        }
        Retried { steps, .. } => format!("{} tried again now", text::counted(steps, "step")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::protocol::QueueWhat;

    fn row(state: QueueState) -> QueueRow {
        QueueRow {
            seq: 7,
            domain: "rule0".into(),
            what: QueueWhat::Write,
            path: WirePath(b"run/a".to_vec()),
            bytes: 1 << 20,
            age_s: 65,
            state,
            error: None,
            next_s: None,
        }
    }

    #[test]
    fn a_step_is_one_line_of_columns() {
        assert_eq!(heading(), "DOMAIN     WHAT    STATE          AGE    BYTES  PATH");
        let said = line(&row(QueueState::Waiting), Style::plain());
        assert_eq!(said, "rule0      write   waiting      1m 5s  1.0 MiB  run/a");
        let odd = QueueRow {
            path: WirePath(b"a\nb".to_vec()),
            error: Some("x\ny".into()),
            ..row(QueueState::Blocked)
        };
        assert_eq!(line(&odd, Style::plain()).lines().count(), 1);
    }

    #[test]
    fn what_fails_says_why_and_what_comes_next() {
        let said = |state, error: Option<&str>, next_s| {
            remark(&QueueRow { error: error.map(Into::into), next_s, ..row(state) })
        };
        assert_eq!(said(QueueState::Retrying, Some("403"), Some(12)).unwrap(), "403; again in 12 s");
        assert_eq!(said(QueueState::Retrying, Some("403"), Some(0)).unwrap(), "403; again now");
        assert_eq!(said(QueueState::Blocked, Some("too long"), None).unwrap(), "too long; needs a person");
        assert_eq!(said(QueueState::Settling, None, Some(2)).unwrap(), "begins in 2 s");
        let held = said(QueueState::Held, None, Some(60)).unwrap();
        assert_eq!(held, "until it has another name or is flushed, at most for 1m 0s");
        assert_eq!(said(QueueState::Waiting, None, None), None);
    }

    #[test]
    fn a_retry_says_what_it_found() {
        assert_eq!(told(Retried { steps: 2, others: 1 }), "2 steps tried again now");
        assert!(told(Retried { steps: 0, others: 1 }).starts_with("nothing of it has failed; 1 step has"));
    }
}
