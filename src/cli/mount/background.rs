//! Starting the daemon in the background: the same program again, and waiting for its word.

use super::Order;
use super::ready;
use crate::cli::failure::Failure;
use crate::cli::say;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Starts a daemon for `order` and answers when it serves.
pub(super) fn start(order: &Order) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::failed(format!("can't start the daemon: {error}"));
    let log = order.log_file();
    let pipe = ready::pipe().map_err(failed)?;
    let mut daemon = Command::new(std::env::current_exe().map_err(failed)?)
        .args(arguments(order, &log, pipe.number()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        // Only a panic writes there: it belongs into the log.
        .stderr(last_words(&log)?)
        .spawn()
        .map_err(failed)?;
    match pipe.wait(&mut |note| say::note(note)) {
        Some(Ok(how)) => {
            say::out(format_args!("{}: mounted, {how}", order.mountpoint.display()));
            Ok(())
        }
        Some(Err(failure)) => Err(failure),
        None => Err(died(&mut daemon, &log)),
    }
}

fn arguments(order: &Order, log: &Path, ready_fd: i32) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec![
        "mount".into(),
        format!("--ready-fd={ready_fd}").into(),
        "--log".into(),
        log.into(),
        format!("--log-format={}", order.form.word()).into(),
    ];
    for options in &order.raw_options {
        arguments.extend(["-o".into(), options.into()]);
    }
    arguments.extend(["--".into(), order.config.clone().into(), order.mountpoint.clone().into()]);
    arguments
}

fn last_words(log: &Path) -> Result<Stdio, Failure> {
    let opened = log
        .parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| OpenOptions::new().append(true).create(true).open(log));
    match opened {
        Ok(file) => Ok(file.into()),
        Err(error) => {
            Err(Failure::failed(format!("log file {}: {error}; name another with --log FILE", log.display())))
        }
    }
}

fn died(daemon: &mut Child, log: &Path) -> Failure {
    let how = daemon.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
    Failure::failed(format!("the daemon ended before it was ready ({how}); see {}", log.display()))
}
