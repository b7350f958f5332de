//! The daemon's end of the control socket.
//!
//! Everything is limited: connections, the length of a request, how long a silent one is kept.
//! Only the daemon's own user and root are heard, by mode and by the kernel's word on the peer.

mod connection;
mod socket;

use crate::control::Daemon;
use crate::error::Result;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

use socket::Socket;

/// Most connections at once; more are told so and closed.
const CONNECTIONS_MAX: usize = 32;

/// How long the last answers may take when the server closes.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);

/// A bound socket that nobody answers on yet.
#[derive(Debug)]
pub struct Bound {
    socket: Socket,
    listener: std::os::unix::net::UnixListener,
}

/// Takes `path` for a control socket: mode 0600, its directory made if missing. A socket that
/// nobody answers on is replaced.
///
/// # Errors
/// [`crate::error::Kind::Busy`] if another daemon answers there, [`crate::error::Kind::Exists`] if
/// something that is no socket is in the way, [`crate::error::Kind::NameTooLong`].
pub fn bind(path: &Path) -> Result<Bound> {
    let (socket, listener) = Socket::take(path)?;
    Ok(Bound { socket, listener })
}

impl Bound {
    /// Starts answering on `runtime` for `daemon`.
    ///
    /// # Errors
    /// As the runtime says.
    pub fn serve(self, runtime: &Handle, daemon: Arc<dyn Daemon>) -> Result<Server> {
        self.listener.set_nonblocking(true)?;
        let guard = runtime.enter();
        let listener = UnixListener::from_std(self.listener)?;
        drop(guard);
        let (stop, stopped) = watch::channel(false);
        let task = runtime.spawn(accept(listener, daemon, stopped));
        Ok(Server { _socket: self.socket, stop, task })
    }
}

/// A control socket that answers; dropped, it ends at once and takes its socket away.
#[derive(Debug)]
pub struct Server {
    _socket: Socket,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Server {
    /// Ends: no new connections, answers under way get a moment.
    pub async fn close(mut self) {
        self.stop.send_replace(true);
        if tokio::time::timeout(CLOSE_PATIENCE, &mut self.task).await.is_err() {
            tracing::debug!("a control connection did not end in time");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: UnixListener, daemon: Arc<dyn Daemon>, mut stopped: watch::Receiver<bool>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.wait_for(|stop| *stop) => break,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, _)) => {
                let slot = Arc::clone(&slots).try_acquire_owned().ok();
                let (daemon, stopped) = (Arc::clone(&daemon), stopped.clone());
                connections.spawn(async move {
                    match slot {
                        Some(_slot) => connection::run(stream, daemon, stopped).await,
                        None => connection::turn_away(stream).await,
                    }
                });
            }
            Err(error) => {
                // Out of descriptors: accept would fail again at once.
                tracing::warn!(%error, "control socket can't accept");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
    while connections.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests;
