//! A daemon that still has the catalog: one that drains is waited for, one that serves is named.

use crate::cli::failure::Failure;
use crate::cli::progress::Bar;
use crate::control::client::{Client, ClientError};
use crate::control::protocol::{Hello, Phase};
use std::path::Path;
use std::time::Duration;

/// How long a daemon that said it is done may take to go.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until nobody answers on `socket`; `say` hears why it takes long.
///
/// # Errors
/// [`Failure`] if a mount is served there, or can't be asked.
pub fn wait(socket: &Path, say: &mut dyn FnMut(String)) -> Result<(), Failure> {
    let mut client = match Client::connect(socket) {
        Ok(client) => client,
        Err(ClientError::Nobody(_)) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let hello = match client.hello() {
        Ok(hello) => hello,
        Err(ClientError::Gone) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    match hello.phase {
        Phase::Draining => drain(client, &hello, say),
        Phase::Starting | Phase::Serving => Err(Failure::failed(format!(
            "this config is mounted already, on {0} (pid {1}): `tierfs unmount {0}` first, or give this mount its own catalog and control socket",
            hello.mountpoint, hello.pid
        ))),
    }
}

fn drain(mut client: Client, hello: &Hello, say: &mut dyn FnMut(String)) -> Result<(), Failure> {
    say(format!(
        "the earlier mount (pid {}) is still committing its data; waiting for it (Ctrl-C leaves it alone)",
        hello.pid
    ));
    let mut bar = Bar::new("waiting");
    let ended = client.ended(&mut |progress| bar.show(progress));
    bar.finish();
    match ended {
        Ok(_) | Err(ClientError::Gone) => {}
        Err(error) => return Err(error.into()),
    }
    if client.gone(hello, PATIENCE) {
        Ok(())
    } else {
        Err(Failure::failed(format!(
            "the earlier daemon (pid {}) is done but does not go: see its log",
            hello.pid
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_not_waited_for() {
        let dir = tempfile::TempDir::new().unwrap();
        let socket = dir.path().join("x.sock");
        assert_eq!(wait(&socket, &mut |_| {}), Ok(()));
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        assert_eq!(wait(&socket, &mut |said| panic!("{said}")), Ok(()));
    }
}
