//! `tierstat top`: the mount live, on a terminal.

mod rates;
mod source;
mod view;

use crate::Failure;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use source::Source;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tierfs::control::target::Target;
use view::View;

/// How long a key waits at most.
const TICK: Duration = Duration::from_millis(100);

/// Shows until somebody presses q; answers the exit code.
pub fn run(path: Option<&Path>, pause: Option<Duration>) -> Result<u8, Failure> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let said =
            "top needs a terminal; without one `tierstat --watch` prints, with --json an object a line";
        return Err(Failure::Usage(said.to_owned()));
    }
    let target = path.map_or_else(Target::implied, Target::of)?;
    // Said before the screen is taken.
    target.status()?;
    let end = end_signals()?;
    let source = Source::start(target, pause.unwrap_or(Duration::from_secs(1)))?;
    let mut terminal = ratatui::try_init()?;
    let ended = until_quit(&mut terminal, &source, &end);
    ratatui::try_restore()?;
    ended.map(|()| 0).map_err(Failure::from)
}

/// Becomes true when the process is told to end: the terminal must be given back first.
fn end_signals() -> io::Result<Arc<AtomicBool>> {
    let end = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&end))?;
    }
    Ok(end)
}

fn until_quit(terminal: &mut ratatui::DefaultTerminal, source: &Source, end: &AtomicBool) -> io::Result<()> {
    let mut view = View::default();
    while !end.load(Ordering::Relaxed) {
        while let Some(looked) = source.next() {
            view.take(looked);
        }
        terminal.draw(|frame| view.draw(frame))?;
        if event::poll(TICK)? && is_quit(&event::read()?) {
            return Ok(());
        }
    }
    Ok(())
}

fn is_quit(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    let is_control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press
        && (is_control_c || matches!(key.code, KeyCode::Char('q' | 'Q') | KeyCode::Esc))
}
