//! The daemon itself: its log, its session, and how its end becomes an exit code.

use super::Order;
use super::ready::Herald;
use crate::cli::args::Ground;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::log;
use crate::cli::notify::Notify;
use crate::cli::say;
use crate::config::Config;
use crate::error::Kind;
use crate::mount::{self, MountError, MountRequest};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// What a service manager is asked for while a start takes time: a long recovery is no failure.
const START_PATIENCE: Duration = Duration::from_secs(15 * 60);

/// What an end may take besides its drain.
const END_PATIENCE: Duration = Duration::from_secs(60);

/// What is logged where `TIERFS_LOG` says nothing.
const LEVEL: &str = "info";

/// Mounts and serves until the end, with the terminal.
pub(super) fn in_foreground(order: Order, config: Config) -> Result<(), Failure> {
    start_log(&order, Ground::Foreground)?;
    let point = order.mountpoint.display().to_string();
    let manager = Arc::new(Notify::of_process());
    let (noting, ending) = (manager.clone(), manager.clone());
    mount::run(MountRequest {
        config,
        config_path: order.config,
        mountpoint: order.mountpoint,
        options: order.options,
        on_note: Box::new(move |note| {
            say::note(note);
            noting.note(note, START_PATIENCE);
        }),
        on_ready: Box::new(move |how| {
            say::err(format_args!("{point}: mounted, {how}"));
            manager.ready(how);
        }),
        on_end: Box::new(move |patience| ending.stopping(patience + END_PATIENCE)),
    })
    .map_err(|error| failure(&error))
}

/// Mounts and serves until the end, in a session of its own; `herald` hears how the start went.
pub(super) fn in_background(order: Order, herald: Herald) -> Result<(), Failure> {
    let herald = Arc::new(Mutex::new(Some(herald)));
    let ended = serve(order, Arc::clone(&herald));
    if let (Err(failure), Some(herald)) = (&ended, herald.lock().take()) {
        herald.fail(failure);
        // It has been said where somebody listens; here is only the log.
        return Err(Failure { exit: failure.exit, message: String::new() });
    }
    ended
}

fn serve(order: Order, herald: Arc<Mutex<Option<Herald>>>) -> Result<(), Failure> {
    // Fails only for the leader of a session already, and then there is nothing to do.
    let _session = rustix::process::setsid();
    start_log(&order, Ground::Background)?;
    let (config, _said_before) =
        Config::load(&order.config).map_err(|problems| Failure::usage(problems.to_string()))?;
    // All paths are absolute; whatever directory it was started in can be unmounted now.
    std::env::set_current_dir("/").map_err(|error| Failure::failed(format!("/: {error}")))?;
    let noted = Arc::clone(&herald);
    let ended = mount::run(MountRequest {
        config,
        config_path: order.config,
        mountpoint: order.mountpoint,
        options: order.options,
        on_note: Box::new(move |note| {
            if let Some(herald) = noted.lock().as_mut() {
                herald.note(note);
            }
        }),
        on_ready: Box::new(move |how| {
            if let Some(herald) = herald.lock().take() {
                herald.ok(how);
            }
        }),
        on_end: Box::new(|_| {}),
    });
    ended.map_err(|error| {
        tracing::error!(%error, "the mount ended");
        failure(&error)
    })
}

fn start_log(order: &Order, ground: Ground) -> Result<(), Failure> {
    log::start(&order.sink(ground), order.form, LEVEL)
        .map_err(|error| Failure::failed(format!("{error}; name another with --log FILE")))
}

fn failure(error: &MountError) -> Failure {
    let exit = match error {
        MountError::Start(error) if error.kind() == Kind::Invalid => Exit::Usage,
        MountError::Start(_) | MountError::Broken(_) => Exit::Failed,
        MountError::Undrained(_) => Exit::TimedOut,
    };
    Failure { exit, message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::protocol::Drained;
    use crate::error::Error;

    #[test]
    fn each_end_has_its_exit_code() {
        let exit = |error: MountError| failure(&error).exit;
        assert_eq!(exit(MountError::Start(Error::new(Kind::Invalid, "x"))), Exit::Usage);
        assert_eq!(exit(MountError::Start(Error::new(Kind::Busy, "x"))), Exit::Failed);
        assert_eq!(exit(MountError::Broken(Error::new(Kind::Invalid, "x"))), Exit::Failed);
        assert_eq!(exit(MountError::Undrained(Drained::default())), Exit::TimedOut);
    }
}
