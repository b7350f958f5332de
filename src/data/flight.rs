//! One ranged request from start to end: taken up again where it broke, cut off when not needed.

use crate::data::feed::{Feed, Purpose};
use crate::data::meters::Meters;
use crate::data::reader::Source;
use crate::error::{Error, Kind, Result};
use crate::tier::ByteStream;
use bytes::Bytes;
use futures::StreamExt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// How often a stream that broke in mid-body is taken up again without a byte of progress…
const RESUMES_IDLE: u32 = 4;
/// …and altogether, so that a tier that sends one byte a time ends too.
const RESUMES_MAX: u32 = 32;
const BACK_OFF: Duration = Duration::from_millis(20);

/// Why a flight failed; many may wait for one.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    kind: Kind,
    text: Arc<str>,
}

impl Failure {
    pub fn into_error(self, source: &Source) -> Error {
        Error::new(self.kind, format!("read {} on {}: {}", source.key, source.tier.name(), self.text))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { kind: error.kind(), text: error.to_string().into() }
    }
}

pub(super) fn interrupted(error: tokio::task::JoinError) -> Error {
    Error::new(Kind::Interrupted, "the read was cut off").with_source(error)
}

/// Reports the end of a flight however it ends.
struct Landing {
    feed: Arc<Feed>,
    id: u64,
    outcome: Option<Result<(), Failure>>,
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.feed.land(self.id, self.outcome.take());
    }
}

/// Fetches `range` for `feed`.
pub(super) async fn fly(feed: Arc<Feed>, id: u64, range: Range<u64>, purpose: Purpose) {
    let mut landing = Landing { feed: Arc::clone(&feed), id, outcome: None };
    let done = deliver(&feed, id, range, purpose).await;
    landing.outcome = Some(done.map_err(Failure::from));
}

async fn deliver(feed: &Arc<Feed>, id: u64, range: Range<u64>, purpose: Purpose) -> Result<()> {
    let mut at = range.start;
    // Only a fill asks for bytes that may be in memory: those read before it began.
    while purpose == Purpose::Fill
        && let Some(chunk) = feed.cached_at(at, range.end)
    {
        let offset = at;
        at += chunk.len() as u64;
        if feed.accept(id, purpose, offset, chunk).await.is_break() {
            return Ok(());
        }
    }
    let _pieces = match purpose {
        Purpose::Fill => feed.begin_pieces(id, range.end - at).await,
        Purpose::Wanted | Purpose::Ahead => Vec::new(),
    };
    let mut body = Body::new(feed.source(), &feed.streams().meters, at..range.end);
    while let Some((offset, chunk)) = body.next().await? {
        if feed.accept(id, purpose, offset, chunk).await.is_break() {
            break;
        }
    }
    Ok(())
}

/// The bytes of a range of a source, taken up again where the stream breaks.
pub(super) struct Body<'a> {
    source: &'a Source,
    meters: &'a Meters,
    rest: Range<u64>,
    stream: Option<ByteStream>,
    idle: u32,
    total: u32,
}

impl<'a> Body<'a> {
    pub fn new(source: &'a Source, meters: &'a Meters, range: Range<u64>) -> Self {
        Self { source, meters, rest: range, stream: None, idle: 0, total: 0 }
    }

    /// The next bytes and where they belong; `None` at the end of the range.
    pub async fn next(&mut self) -> Result<Option<(u64, Bytes)>> {
        while !self.rest.is_empty() {
            let broke = match self.stream().await?.next().await {
                Some(Ok(chunk)) if chunk.is_empty() => continue,
                Some(Ok(chunk)) => return Ok(Some(self.take(chunk))),
                Some(Err(error)) => error,
                None => Error::new(Kind::Unavailable, "the stream ended before its range"),
            };
            self.recover(broke).await?;
        }
        Ok(None)
    }

    async fn stream(&mut self) -> Result<&mut ByteStream> {
        let stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                self.meters.requests.add(1);
                let Source { tier, key, version, .. } = self.source;
                tier.read(key, self.rest.clone(), version).await.map_err(stale_if_gone)?
            }
        };
        Ok(self.stream.insert(stream))
    }

    /// Bytes beyond the range, which no honest tier sends, are dropped.
    fn take(&mut self, mut chunk: Bytes) -> (u64, Bytes) {
        chunk.truncate(usize::try_from(self.rest.end - self.rest.start).unwrap_or(usize::MAX));
        let offset = self.rest.start;
        self.rest.start += chunk.len() as u64;
        self.idle = 0;
        self.meters.fetched_bytes.add(chunk.len() as u64);
        (offset, chunk)
    }

    async fn recover(&mut self, broke: Error) -> Result<()> {
        self.stream = None;
        self.total += 1;
        if !may_resume(&broke) || self.idle == RESUMES_IDLE || self.total > RESUMES_MAX {
            return Err(stale_if_gone(broke));
        }
        self.meters.resumed.add(1);
        tracing::debug!(key = %self.source.key, at = self.rest.start, error = %broke, "stream broke, taken up again");
        if self.idle > 0 {
            tokio::time::sleep(BACK_OFF * (1 << self.idle)).await;
        }
        self.idle += 1;
        Ok(())
    }
}

fn may_resume(error: &Error) -> bool {
    error.kind().is_transient() || matches!(error.kind(), Kind::Os(_))
}

/// An open file keeps the version it was opened with; when that is gone, the handle is stale.
fn stale_if_gone(error: Error) -> Error {
    match error.kind() {
        Kind::Changed | Kind::NotFound => {
            Error::new(Kind::Stale, "this version is gone from its tier").with_source(error)
        }
        _ => error,
    }
}
