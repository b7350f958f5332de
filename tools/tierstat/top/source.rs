//! Looks at the mount from time to time, on a thread of its own: a daemon that hangs must not keep the keys from working.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use tierfs::control::protocol::{QueueQuery, QueueRow};
use tierfs::control::status::Status;
use tierfs::control::target::{Target, TargetError};

/// Steps of the queue that a screen has room for.
const STEPS: u32 = 100;

/// One look at the mount.
pub type Looked = Result<Sample, String>;

/// What was seen.
pub struct Sample {
    /// When.
    pub at: Instant,
    /// All facts.
    pub status: Status,
    /// The first steps of the queue; none where only the mount is in sight, not its socket.
    pub queue: Option<Vec<QueueRow>>,
}

/// The looks, oldest first.
pub struct Source(Receiver<Looked>);

impl Source {
    /// Looks at `target` with `pause` in between, as long as this lives.
    pub fn start(target: Target, pause: Duration) -> io::Result<Self> {
        // A screen that is not drawn asks for nothing more.
        let (send, receive) = sync_channel(1);
        std::thread::Builder::new().name("look".into()).spawn(move || look(&target, pause, &send))?;
        Ok(Self(receive))
    }

    /// The next, if there is one already.
    pub fn next(&self) -> Option<Looked> {
        self.0.try_recv().ok()
    }
}

fn look(target: &Target, pause: Duration, send: &SyncSender<Looked>) {
    while send.send(sample(target).map_err(|error| error.to_string())).is_ok() {
        std::thread::sleep(pause);
    }
}

fn sample(target: &Target) -> Result<Sample, TargetError> {
    let status = target.status()?;
    let query = QueueQuery { after: 0, limit: STEPS };
    let queue = target.connect().ok().and_then(|mut client| client.queue(query).ok()).map(|page| page.rows);
    Ok(Sample { at: Instant::now(), status, queue })
}
