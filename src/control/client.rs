//! The commands' end of the control socket: blocking, one call at a time.

use crate::control::protocol::{
    ANSWER_MAX, Answer, AnswerBody, Call, Drained, ErrorCode, Evicted, FileSystem, Hello, ListPage,
    ListQuery, LostPage, NativePath, PinPage, Pinned, Plan, Progress, QueuePage, QueueQuery, Reloaded,
    Request, Retried, TierAccepted, VERSION, Warmed, WireError, WirePath,
};
use crate::control::status::Status;
use crate::types::Timestamp;
use crate::vfs::Evict;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A daemon says something at least once a second; silent for this long, it hangs.
const PATIENCE: Duration = Duration::from_secs(15);

/// Why a daemon could not be asked, told by what a person can do about it.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon listens there.
    #[error("no daemon answers on {}", .0.display())]
    Nobody(PathBuf),
    /// The socket is another user's.
    #[error("{} belongs to another user: run this as that user or as root", .0.display())]
    Denied(PathBuf),
    /// It is there, but says nothing.
    #[error("the daemon says nothing for {} s; see its log", PATIENCE.as_secs())]
    Silent,
    /// It went away in the middle of an answer.
    #[error("the daemon went away before it answered")]
    Gone,
    /// What it says makes no sense here.
    #[error("the daemon's answer makes no sense (another version?): {0}")]
    Garbled(String),
    /// It is of a version that is not understood here.
    #[error("{0}")]
    Version(String),
    /// It answered with an error.
    #[error("{}", .0.message)]
    Refused(WireError),
    /// Anything else of the operating system.
    #[error("control socket: {0}")]
    Io(#[source] io::Error),
}

impl ClientError {
    /// What the daemon called it, if it was the daemon's answer.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused(error) => Some(error.code),
            _ => None,
        }
    }
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Silent,
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => {
                Self::Gone
            }
            _ => Self::Io(error),
        }
    }
}

/// A connection to a running mount.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    /// Who listens, whatever its number means by then; none if it is out of sight.
    process: Option<(Pid, OwnedFd)>,
    last_id: u64,
}

impl Client {
    /// Connects to the daemon that listens on `path`.
    ///
    /// # Errors
    /// [`ClientError::Nobody`], [`ClientError::Denied`].
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let stream = UnixStream::connect(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                ClientError::Nobody(path.to_owned())
            }
            io::ErrorKind::PermissionDenied => ClientError::Denied(path.to_owned()),
            _ => ClientError::Io(error),
        })?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let process = process(&stream);
        Ok(Self { stream: BufReader::new(stream), process, last_id: 0 })
    }

    /// Who is there.
    ///
    /// # Errors
    /// As [`Client::flush`].
    pub fn hello(&mut self) -> Result<Hello, ClientError> {
        self.call(Call::Hello, &mut |_| {})
    }

    /// All facts.
    ///
    /// # Errors
    /// As [`Client::flush`].
    pub fn status(&mut self) -> Result<Status, ClientError> {
        let value = self.call(Call::Status, &mut |_| {})?;
        Status::from_json(value).map_err(ClientError::Version)
    }

    /// Commits what is dirty at or below `paths` (empty: everywhere).
    ///
    /// # Errors
    /// [`ClientError`]; running out of `timeout` is none.
    pub fn flush(
        &mut self,
        paths: Vec<WirePath>,
        timeout: Option<Duration>,
        on_progress: &mut dyn FnMut(&Progress),
    ) -> Result<Drained, ClientError> {
        self.call(Call::Flush { paths, timeout_ms: timeout.map(whole_ms) }, on_progress)
    }

    /// What is dirty at or below `paths` (empty: everywhere), as what is left.
    ///
    /// # Errors
    /// As [`Client::flush`].
    pub fn pending(&mut self, paths: Vec<WirePath>) -> Result<Drained, ClientError> {
        self.call(Call::Pending { paths }, &mut |_| {})
    }

    /// Has what is at or below `paths` (empty: everywhere) near and readable.
    ///
    /// # Errors
    /// [`ClientError`]; running out of `timeout` is none.
    pub fn warm(
        &mut self,
        paths: Vec<WirePath>,
        timeout: Option<Duration>,
        on_progress: &mut dyn FnMut(&Progress),
    ) -> Result<Warmed, ClientError> {
        self.call(Call::Warm { paths, timeout_ms: timeout.map(whole_ms) }, on_progress)
    }

    /// Drops hot copies at or below `paths`, or only says what would come of it.
    ///
    /// # Errors
    /// As [`Client::flush`].
    pub fn evict(
        &mut self,
        paths: Vec<WirePath>,
        evict: Evict,
        on_progress: &mut dyn FnMut(&Progress),
    ) -> Result<Evicted, ClientError> {
        self.call(Call::Evict { paths, check: evict == Evict::Check }, on_progress)
    }

    /// Keeps `paths`, and what is below them, near.
    ///
    /// # Errors
    /// As [`Client::flush`].
    pub fn pin(&mut self, paths: Vec<WirePath>, until: Option<Timestamp>) -> Result<Pinned, ClientError> {
        self.call(Call::Pin { paths, until_ns: until.map(|until| until.0) }, &mut |_| {})
    }

    /// No longer keeps them near.
    ///
    /// # Errors
    /// As [`Client::flush`].
    pub fn unpin(&mut self, paths: Vec<WirePath>) -> Result<Pinned, ClientError> {
        self.call(Call::Unpin { paths }, &mut |_| {})
    }

    /// A page of what is pinned.
    ///
    /// # Errors
    /// As [`Client::flush`].
    pub fn pins(&mut self, after: u64) -> Result<PinPage, ClientError> {
        self.call(Call::Pins { after }, &mut |_| {})
    }

    /// Commits everything before an unmount.
    ///
    /// # Errors
    /// As [`Client::flush`].
    pub fn drain(
        &mut self,
        timeout: Option<Duration>,
        on_progress: &mut dyn FnMut(&Progress),
    ) -> Result<Drained, ClientError> {
        self.call(Call::Drain { timeout_ms: timeout.map(whole_ms) }, on_progress)
    }

    /// Has the daemon take the mount away.
    ///
    /// # Errors
    /// As [`Client::flush`].
    pub fn unmount(&mut self) -> Result<(), ClientError> {
        self.call(Call::Unmount, &mut |_| {})
    }

    /// Waits until the mount is gone and drained.
    ///
    /// # Errors
    /// As [`Client::flush`].
    pub fn ended(&mut self, on_progress: &mut dyn FnMut(&Progress)) -> Result<Drained, ClientError> {
        self.call(Call::Ended, on_progress)
    }

    /// Waits for at most `patience` until the daemon that said `hello` has ended, and with it has let go
    /// of its catalog and its tiers. Where its process can't be told (another PID namespace, a socket
    /// that somebody else opened for it), until it has closed the connection. Answers whether it did.
    #[must_use]
    pub fn gone(mut self, hello: &Hello, patience: Duration) -> bool {
        if let Some((pid, process)) = &self.process
            && u32::try_from(pid.as_raw_pid()).is_ok_and(|pid| pid == hello.pid)
        {
            return ended(process, patience);
        }
        if self.stream.get_ref().set_read_timeout(Some(patience)).is_err() {
            return false;
        }
        match self.stream.fill_buf() {
            Ok(rest) => rest.is_empty(),
            // It ended with something of ours unread.
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// Where the bytes of `path` are.
    ///
    /// # Errors
    /// As [`Client::flush`].
    pub fn native_path(&mut self, path: WirePath) -> Result<NativePath, ClientError> {
        self.call(Call::Path { path }, &mut |_| {})
    }

    /// Has the config read again and used.
    ///
    /// # Errors
    /// As [`Client::flush`].
    pub fn reload(&mut self) -> Result<Reloaded, ClientError> {
        self.call(Call::Reload, &mut |_| {})
    }

    /// A page of a directory.
    ///
    /// # Errors
    /// As [`Client::flush`].
    pub fn list(&mut self, query: ListQuery) -> Result<ListPage, ClientError> {
        self.call(Call::List(query), &mut |_| {})
    }

    /// Has a wiped tier taken for what it is.
    ///
    /// # Errors
    /// As [`Client::flush`].
    pub fn accept_tier(&mut self, name: &str, file_system: FileSystem) -> Result<TierAccepted, ClientError> {
        self.call(Call::AcceptTier { name: name.to_owned(), file_system }, &mut |_| {})
    }

    /// Files that were lost with a tier, after a position in the list.
    ///
    /// # Errors
    /// As [`Client::flush`].
    pub fn lost(&mut self, after: u64) -> Result<LostPage, ClientError> {
        self.call(Call::Lost { after }, &mut |_| {})
    }

    /// Has lost files up to a position in the list forgotten; answers how many.
    ///
    /// # Errors
    /// As [`Client::flush`].
    pub fn forget_lost(&mut self, up_to: u64) -> Result<u64, ClientError> {
        self.call(Call::ForgetLost { up_to }, &mut |_| {})
    }

    /// A page of what still has to reach home.
    ///
    /// # Errors
    /// As [`Client::flush`].
    pub fn queue(&mut self, query: QueueQuery) -> Result<QueuePage, ClientError> {
        self.call(Call::Queue(query), &mut |_| {})
    }

    /// What the mover would do now.
    ///
    /// # Errors
    /// As [`Client::flush`].
    pub fn plan(&mut self) -> Result<Plan, ClientError> {
        self.call(Call::Plan, &mut |_| {})
    }

    /// Has the failed steps of what is at or below `path` tried again now.
    ///
    /// # Errors
    /// As [`Client::flush`].
    pub fn retry(&mut self, path: WirePath) -> Result<Retried, ClientError> {
        self.call(Call::Retry { path }, &mut |_| {})
    }

    fn call<T: DeserializeOwned>(
        &mut self,
        call: Call,
        on_progress: &mut dyn FnMut(&Progress),
    ) -> Result<T, ClientError> {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&Request { v: VERSION, id, call })?;
        loop {
            let answer = self.receive()?;
            match answer.body {
                // Id 0 is the daemon's word on the connection as a whole.
                _ if answer.id != id && answer.id != 0 => {}
                AnswerBody::Progress(progress) => on_progress(&progress),
                AnswerBody::Error(error) => return Err(ClientError::Refused(error)),
                AnswerBody::Ok(value) => return serde_json::from_value(value).map_err(garbled),
            }
        }
    }

    fn send(&mut self, request: &Request) -> Result<(), ClientError> {
        let mut line = serde_json::to_vec(request).map_err(garbled)?;
        line.push(b'\n');
        match self.stream.get_mut().write_all(&line) {
            // A daemon that turns us away has said why before it closed: read that first.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            sent => Ok(sent?),
        }
    }

    fn receive(&mut self) -> Result<Answer, ClientError> {
        let mut line = Vec::new();
        (&mut self.stream).take(ANSWER_MAX as u64).read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            return Err(ClientError::Gone);
        }
        serde_json::from_slice(&line).map_err(garbled)
    }
}

fn process(stream: &UnixStream) -> Option<(Pid, OwnedFd)> {
    let peer = rustix::net::sockopt::socket_peercred(stream).ok()?.pid;
    Some((peer, pidfd_open(peer, PidfdFlags::empty()).ok()?))
}

/// A pidfd becomes readable when its process ends.
fn ended(process: &OwnedFd, patience: Duration) -> bool {
    let until = Instant::now() + patience;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(process, PollFlags::IN)], timeout.as_ref()) {
            Err(Errno::INTR) => {}
            answered => return answered.is_ok_and(|ready| ready > 0),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn garbled(error: serde_json::Error) -> ClientError {
    ClientError::Garbled(error.to_string())
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
