//! How a daemon in the background tells the command that started it how the start went: lines on
//! a pipe, `note TEXT`, then `ok TEXT` or `fail CODE TEXT`. Newlines in texts travel as `\n`.

use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use rustix::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use rustix::io::FdFlags;
use rustix::pipe::PipeFlags;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};

/// No line is longer.
const LINE_MAX: u64 = 1 << 20;

/// The daemon's end.
#[derive(Debug)]
pub struct Herald {
    pipe: File,
}

/// The command's end, and the number under which the daemon will find its own.
#[derive(Debug)]
pub struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

/// A pipe whose write end a child inherits.
///
/// # Errors
/// As pipe2(2).
pub fn pipe() -> std::io::Result<Pipe> {
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::fcntl_setfd(&write, FdFlags::empty())?;
    Ok(Pipe { read, write })
}

impl Pipe {
    /// The number for `--ready-fd`.
    #[must_use]
    pub fn number(&self) -> RawFd {
        self.write.as_raw_fd()
    }

    /// Lets go of the write end, then reads until the daemon is ready or has failed; `note` hears
    /// what it says meanwhile. `None`: it ended without a word.
    ///
    /// # Errors
    /// The daemon's failure.
    pub fn wait(self, note: &mut dyn FnMut(&str)) -> Option<Result<String, Failure>> {
        drop(self.write);
        let mut lines = BufReader::new(File::from(self.read).take(LINE_MAX));
        let mut line = String::new();
        loop {
            line.clear();
            if !matches!(lines.read_line(&mut line), Ok(1..)) {
                return None;
            }
            match parse(line.trim_end_matches('\n')) {
                Some(Word::Note(text)) => note(&text),
                Some(Word::Ok(text)) => return Some(Ok(text)),
                Some(Word::Fail(failure)) => return Some(Err(failure)),
                None => {}
            }
        }
    }
}

enum Word {
    Note(String),
    Ok(String),
    Fail(Failure),
}

fn parse(line: &str) -> Option<Word> {
    let (word, text) = line.split_once(' ')?;
    match word {
        "note" => Some(Word::Note(decode(text))),
        "ok" => Some(Word::Ok(decode(text))),
        "fail" => {
            let (code, text) = text.split_once(' ')?;
            let exit = if code == "2" { Exit::Usage } else { Exit::Failed };
            Some(Word::Fail(Failure { exit, message: decode(text) }))
        }
        _ => None,
    }
}

impl Herald {
    /// The write end that was inherited under `number`.
    ///
    /// # Errors
    /// If there is no such descriptor, or it is a standard one.
    pub fn inherited(number: RawFd) -> Result<Self, Failure> {
        let wrong = || Failure::usage("--ready-fd is for tierfs itself: it names an inherited pipe");
        if number <= 2 {
            return Err(wrong());
        }
        // SAFETY: only tierfs passes this option, for a pipe it opened for nobody but this process;
        // a wrong number fails at the first use below, before anything else has been opened.
        let pipe = unsafe { OwnedFd::from_raw_fd(number) };
        match rustix::io::fcntl_setfd(&pipe, FdFlags::CLOEXEC) {
            Ok(()) => Ok(Self { pipe: File::from(pipe) }),
            Err(_no_such_descriptor) => {
                std::mem::forget(pipe);
                Err(wrong())
            }
        }
    }

    /// Says something meanwhile.
    pub fn note(&mut self, text: &str) {
        self.say(&format!("note {}", encode(text)));
    }

    /// The mount stands.
    pub fn ok(mut self, text: &str) {
        self.say(&format!("ok {}", encode(text)));
    }

    /// The mount does not come about.
    pub fn fail(mut self, failure: &Failure) {
        self.say(&format!("fail {} {}", failure.exit as u8, encode(&failure.message)));
    }

    fn say(&mut self, line: &str) {
        // Whoever started the daemon may have gone; the daemon's log has the same words.
        if let Err(error) = self.pipe.write_all(format!("{line}\n").as_bytes()) {
            tracing::debug!(%error, "nobody waits for this daemon's start");
        }
    }
}

fn encode(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

fn decode(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => plain.push(if chars.next() == Some('n') { '\n' } else { '\\' }),
            (c, false) => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Herald, Pipe) {
        let pipe = pipe().unwrap();
        let herald = Herald { pipe: File::from(pipe.write.try_clone().unwrap()) };
        (herald, pipe)
    }

    #[test]
    fn notes_come_before_the_end() {
        let (mut herald, pipe) = pair();
        herald.note("recovering");
        herald.ok("pid 5");
        let mut notes = Vec::new();
        assert_eq!(pipe.wait(&mut |note| notes.push(note.to_owned())), Some(Ok("pid 5".into())));
        assert_eq!(notes, ["recovering"]);
    }

    #[test]
    fn a_failure_keeps_its_code_and_lines() {
        let (herald, pipe) = pair();
        let failure = Failure::usage("one\ntwo \\n three");
        herald.fail(&failure);
        assert_eq!(pipe.wait(&mut |_| {}), Some(Err(failure)));
    }

    #[test]
    fn a_daemon_that_dies_says_nothing() {
        let (herald, pipe) = pair();
        drop(herald);
        assert_eq!(pipe.wait(&mut |_| {}), None);
    }

    #[test]
    fn a_made_up_descriptor_is_refused() {
        assert!(Herald::inherited(1).is_err());
        assert!(Herald::inherited(987_654).is_err());
    }
}
