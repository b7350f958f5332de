//! `--watch`: the same again and again, until somebody ends it or nobody reads any more.

use crate::Failure;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// Shows with a pause in between. What can't be shown the first time is an error; what fails later is told in its place, for a
/// daemon may come back. Answers the exit code of the last.
pub fn run(
    pause: Duration,
    out: &mut dyn Write,
    show: &mut dyn FnMut(&mut dyn Write) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    let is_terminal = std::io::stdout().is_terminal();
    let mut has_shown = false;
    loop {
        // Written at once, so that a terminal does not flicker.
        let mut page = Vec::new();
        match show(&mut page) {
            Ok(_) => {}
            Err(failure) if !has_shown || failure.is_closed_pipe() => return Err(failure),
            Err(failure) => writeln!(page, "error: {failure}")?,
        }
        if is_terminal {
            // Home, and clear to the end of the screen and what scrolled away.
            out.write_all(b"\x1b[H\x1b[2J\x1b[3J")?;
        }
        out.write_all(&page)?;
        out.flush()?;
        has_shown = true;
        std::thread::sleep(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    /// Takes so many pages.
    struct Reader(u32);

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::BrokenPipe)?;
            Ok(())
        }
    }

    #[test]
    fn later_failures_are_told_and_a_closed_pipe_is_the_end() {
        let mut pages = 0;
        let ended = run(Duration::ZERO, &mut Reader(3), &mut |_| {
            pages += 1;
            if pages == 2 { Err(Failure::Said("gone".into())) } else { Ok(0) }
        });
        assert!(ended.is_err_and(|failure| failure.is_closed_pipe()));
        assert_eq!(pages, 4);
    }

    #[test]
    fn what_can_not_be_shown_at_all_is_an_error() {
        let ended = run(Duration::ZERO, &mut Reader(9), &mut |_| Err(Failure::Said("no".into())));
        assert!(ended.is_err_and(|failure| !failure.is_closed_pipe()));
    }
}
