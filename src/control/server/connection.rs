//! One connection: requests one after another, each answered whole before the next is read.

use crate::control::Daemon;
use crate::control::protocol::{
    ANSWER_MAX, Answer, AnswerBody, Call, ErrorCode, ListQuery, PAGE_MAX, Progress, QueueQuery, REQUEST_MAX,
    Request, VERSION, WireError, WirePath,
};
use crate::error::Error;
use crate::types::Timestamp;
use crate::vfs::Evict;
use serde::Serialize;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;

/// A connection without a whole request for this long is closed.
const IDLE: Duration = Duration::from_secs(60);

/// A reader that takes nothing for this long is gone.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);

/// Progress is said at most this often, and at least once a second.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Paths in one request.
const PATHS_MAX: usize = 100_000;

pub(super) async fn run(stream: UnixStream, daemon: Arc<dyn Daemon>, stopped: watch::Receiver<bool>) {
    if let Err(error) = converse(stream, &*daemon, stopped).await {
        tracing::debug!(%error, "control connection ended");
    }
}

pub(super) async fn turn_away(stream: UnixStream) {
    let (_, mut write) = stream.into_split();
    let body = failure(ErrorCode::Limit, "too many control connections; try again");
    if let Err(error) = send(&mut write, 0, body).await {
        tracing::debug!(%error, "control connection turned away");
    }
}

async fn converse(
    stream: UnixStream,
    daemon: &dyn Daemon,
    mut stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let allowed = may_ask(&stream)?;
    let (read, mut write) = stream.into_split();
    if !allowed {
        return send(
            &mut write,
            0,
            failure(ErrorCode::Denied, "only root and the owner of the mount may ask"),
        )
        .await;
    }
    let mut read = BufReader::new(read);
    loop {
        let line = tokio::select! {
            line = tokio::time::timeout(IDLE, next_line(&mut read)) => match line {
                Ok(line) => line?,
                Err(_elapsed) => return Ok(()),
            },
            _ = stopped.wait_for(|stop| *stop) => return Ok(()),
        };
        match line {
            Line::End => return Ok(()),
            Line::TooLong => {
                let body = failure(ErrorCode::Invalid, "the request is longer than 1 MiB");
                return send(&mut write, 0, body).await;
            }
            Line::Whole(bytes) => match parse(&bytes) {
                Ok(request) => answer(&mut write, daemon, request).await?,
                Err((id, body)) => send(&mut write, id, body).await?,
            },
        }
    }
}

fn may_ask(stream: &UnixStream) -> io::Result<bool> {
    let peer = stream.peer_cred()?.uid();
    Ok(peer == 0 || peer == rustix::process::geteuid().as_raw())
}

enum Line {
    Whole(Vec<u8>),
    TooLong,
    End,
}

async fn next_line(read: &mut BufReader<OwnedReadHalf>) -> io::Result<Line> {
    let mut line = Vec::new();
    let taken = read.take(REQUEST_MAX as u64 + 1).read_until(b'\n', &mut line).await?;
    Ok(match taken {
        0 => Line::End,
        taken if taken > REQUEST_MAX => Line::TooLong,
        _ => Line::Whole(line),
    })
}

/// The envelope alone, to answer what can't be understood under its own id.
#[derive(serde::Deserialize)]
struct Envelope {
    #[serde(default)]
    id: u64,
    #[serde(default)]
    v: u32,
    #[serde(default)]
    call: String,
}

fn parse(line: &[u8]) -> Result<Request, (u64, AnswerBody)> {
    let invalid = |error: &serde_json::Error| failure(ErrorCode::Invalid, &format!("not a request: {error}"));
    let envelope: Envelope = serde_json::from_slice(line).map_err(|error| (0, invalid(&error)))?;
    if envelope.v != VERSION {
        let said = format!("this daemon speaks control protocol {VERSION}, not {}", envelope.v);
        return Err((envelope.id, failure(ErrorCode::Invalid, &said)));
    }
    if !Call::NAMES.contains(&envelope.call.as_str()) {
        let said = format!("this daemon does not know the call {:?}", envelope.call);
        return Err((envelope.id, failure(ErrorCode::UnknownCall, &said)));
    }
    let request: Request = serde_json::from_slice(line).map_err(|error| (envelope.id, invalid(&error)))?;
    check(&request.call).map_err(|said| (envelope.id, failure(ErrorCode::Invalid, said)))?;
    Ok(request)
}

fn check(call: &Call) -> Result<(), &'static str> {
    let paths = match call {
        Call::Flush { paths, .. }
        | Call::Pending { paths }
        | Call::Warm { paths, .. }
        | Call::Evict { paths, .. }
        | Call::Pin { paths, .. }
        | Call::Unpin { paths } => paths.as_slice(),
        Call::Path { path } | Call::List(ListQuery { path, .. }) | Call::Retry { path } => {
            std::slice::from_ref(path)
        }
        _ => &[],
    };
    if paths.len() > PATHS_MAX {
        return Err("too many paths in one request");
    }
    if paths.iter().any(|path| !stays_inside(path)) {
        return Err("paths are relative to the mount's root, without `.`, `..` and empty parts");
    }
    Ok(())
}

fn stays_inside(path: &WirePath) -> bool {
    path.0.is_empty()
        || path
            .0
            .split(|byte| *byte == b'/')
            .all(|part| !matches!(part, b"" | b"." | b"..") && !part.contains(&0))
}

async fn answer(write: &mut OwnedWriteHalf, daemon: &dyn Daemon, request: Request) -> io::Result<()> {
    let (sink, progress) = watch::channel(Progress::default());
    let work = work(daemon, request.call, &sink);
    tokio::pin!(work);
    let mut progress = progress;
    loop {
        let body = tokio::select! {
            biased;
            body = &mut work => body,
            () = pause(&mut progress) => {
                let now = progress.borrow_and_update().clone();
                send(write, request.id, AnswerBody::Progress(now)).await?;
                continue;
            }
        };
        return send(write, request.id, body).await;
    }
}

async fn pause(progress: &mut watch::Receiver<Progress>) {
    tokio::time::sleep(PROGRESS_EVERY).await;
    // An error means a dropped sender; then the work is about to answer.
    if let Ok(Err(_closed)) = tokio::time::timeout(HEARTBEAT, progress.changed()).await {
        std::future::pending::<()>().await;
    }
}

async fn work(daemon: &dyn Daemon, call: Call, sink: &watch::Sender<Progress>) -> AnswerBody {
    match call {
        Call::Hello => value(&daemon.hello()),
        Call::Status => value(&daemon.status().await),
        Call::Flush { paths, timeout_ms } => {
            outcome(daemon.flush(&plain(paths), timeout_ms.map(Duration::from_millis), sink).await)
        }
        Call::Pending { paths } => outcome(daemon.pending(&plain(paths)).await),
        Call::Warm { paths, timeout_ms } => {
            outcome(daemon.warm(&plain(paths), timeout_ms.map(Duration::from_millis), sink).await)
        }
        Call::Evict { paths, check } => {
            let evict = if check { Evict::Check } else { Evict::Now };
            outcome(daemon.evict(&plain(paths), evict, sink).await)
        }
        Call::Pin { paths, until_ns } => outcome(daemon.pin(&plain(paths), until_ns.map(Timestamp)).await),
        Call::Unpin { paths } => outcome(daemon.unpin(&plain(paths)).await),
        Call::Pins { after } => outcome(daemon.pins(after).await),
        Call::Drain { timeout_ms } => {
            outcome(daemon.drain(timeout_ms.map(Duration::from_millis), sink).await)
        }
        Call::Unmount => outcome(daemon.unmount().await),
        Call::Ended => value(&daemon.ended(sink).await),
        Call::Path { path } => outcome(daemon.native_path(&path.0).await),
        Call::Reload => outcome(daemon.reload().await),
        Call::List(query) => {
            let query = ListQuery { limit: query.limit.clamp(1, PAGE_MAX), ..query };
            outcome(daemon.list(&query).await)
        }
        Call::AcceptTier { name, file_system } => outcome(daemon.accept_tier(&name, file_system).await),
        Call::Lost { after } => outcome(daemon.lost(after).await),
        Call::ForgetLost { up_to } => outcome(daemon.forget_lost(up_to).await),
        Call::Queue(query) => {
            let query = QueueQuery { limit: query.limit.clamp(1, PAGE_MAX), ..query };
            outcome(daemon.queue(&query).await)
        }
        Call::Plan => outcome(daemon.plan().await),
        Call::Retry { path } => outcome(daemon.retry(&path.0).await),
    }
}

fn plain(paths: Vec<WirePath>) -> Vec<Vec<u8>> {
    paths.into_iter().map(|path| path.0).collect()
}

fn outcome<T: Serialize>(result: Result<T, Error>) -> AnswerBody {
    match result {
        Ok(done) => value(&done),
        Err(error) => AnswerBody::Error(WireError::from(&error)),
    }
}

fn value<T: Serialize>(value: &T) -> AnswerBody {
    match serde_json::to_value(value) {
        Ok(value) => AnswerBody::Ok(value),
        Err(error) => failure(ErrorCode::Failed, &format!("the answer can't be written: {error}")),
    }
}

fn failure(code: ErrorCode, message: &str) -> AnswerBody {
    AnswerBody::Error(WireError { code, message: message.to_owned() })
}

async fn send(write: &mut OwnedWriteHalf, id: u64, body: AnswerBody) -> io::Result<()> {
    let mut line = serde_json::to_vec(&Answer { v: VERSION, id, body })?;
    if line.len() >= ANSWER_MAX {
        let body = failure(ErrorCode::Failed, "the answer is too long; ask for smaller pages");
        line = serde_json::to_vec(&Answer { v: VERSION, id, body })?;
    }
    line.push(b'\n');
    tokio::time::timeout(WRITE_PATIENCE, write.write_all(&line)).await.map_err(io::Error::other)?
}
