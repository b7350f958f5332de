//! A fast Blob server with a container of made-up content: what reads are measured against.
//!
//! It answers HEAD, ranged GET and LIST from memory, signed or not, and counts. Writes are refused.

use bytes::Bytes;
use http_body_util::StreamBody;
use hyper::body::{Frame, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

type Frames = Box<dyn Iterator<Item = Result<Frame<Bytes>, Infallible>> + Send>;
type Body = StreamBody<futures::stream::Iter<Frames>>;

const ETAG: &str = "\"0x8D000000000001\"";
const LAST_MODIFIED: &str = "Thu, 01 Jan 2026 00:00:00 GMT";
/// Content repeats after this many bytes: not a power of two, so that a wrong offset shows.
const PATTERN: usize = (8 << 20) - 4096 + 1;
const PIECE: usize = 256 << 10;

/// What the container holds and how the server behaves.
#[derive(Clone, Debug, Default)]
pub struct Content {
    /// Blob name → size.
    pub blobs: BTreeMap<String, u64>,
    /// Waited before each answer.
    pub latency: Duration,
}

#[derive(Debug)]
struct State {
    content: Content,
    pattern: Bytes,
    requests: AtomicU64,
    body_bytes: AtomicU64,
}

/// The server; it stops when dropped.
#[derive(Debug)]
pub struct BlobServer {
    address: SocketAddr,
    state: Arc<State>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl BlobServer {
    /// Serves `content` on a port of its own.
    pub fn start(content: Content) -> Self {
        let pattern = super::noise(7, PATTERN).into();
        let state =
            Arc::new(State { content, pattern, requests: AtomicU64::new(0), body_bytes: AtomicU64::new(0) });
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let for_thread = Arc::clone(&state);
        let thread = std::thread::spawn(move || serve(listener, &for_thread, stopped));
        Self { address, state, stop: Some(stop), thread: Some(thread) }
    }

    /// Address of the container, to put into a config.
    pub fn url(&self) -> String {
        format!("http://{}/{}/bench", self.address, super::container::ACCOUNT)
    }

    /// Requests answered so far.
    pub fn requests(&self) -> u64 {
        self.state.requests.load(Ordering::Relaxed)
    }

    /// Content bytes answered so far.
    pub fn body_bytes(&self) -> u64 {
        self.state.body_bytes.load(Ordering::Relaxed)
    }

    /// The bytes every blob has at `range`.
    pub fn bytes_at(&self, range: Range<u64>) -> Vec<u8> {
        pieces(&self.state.pattern, range).flatten().collect()
    }
}

impl Drop for BlobServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed already.
            let _ = thread.join();
        }
    }
}

fn serve(listener: std::net::TcpListener, state: &Arc<State>, stopped: tokio::sync::oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("blob-server")
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        tokio::select! {
            () = accept(&listener, state) => {}
            _ = stopped => {}
        }
    });
    runtime.shutdown_background();
}

async fn accept(listener: &tokio::net::TcpListener, state: &Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        let state = Arc::clone(state);
        tokio::spawn(async move {
            let answer = hyper::service::service_fn(move |request| {
                let state = Arc::clone(&state);
                async move {
                    tokio::time::sleep(state.content.latency).await;
                    Ok::<_, Infallible>(answer(&state, &request))
                }
            });
            // A client that hangs up ends its connection, nothing else.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), answer)
                .await;
        });
    }
}

fn answer(state: &Arc<State>, request: &Request<Incoming>) -> Response<Body> {
    state.requests.fetch_add(1, Ordering::Relaxed);
    let query: BTreeMap<String, String> =
        url::form_urlencoded::parse(request.uri().query().unwrap_or("").as_bytes()).into_owned().collect();
    let mut segments = request.uri().path().trim_start_matches('/').splitn(3, '/');
    let name = segments.nth(2).filter(|name| !name.is_empty());
    match (request.method(), name) {
        (&Method::GET, None) if query.get("comp").is_some_and(|comp| comp == "list") => {
            let xml = list(
                &state.content,
                query.get("prefix").map_or("", |prefix| prefix),
                query.contains_key("delimiter"),
            );
            let head = Response::builder().header("content-type", "application/xml");
            head.body(whole(xml.into())).expect("a response")
        }
        (&Method::GET | &Method::HEAD, None) => {
            let head = Response::builder().header("etag", ETAG).header("last-modified", LAST_MODIFIED);
            head.body(whole(Bytes::new())).expect("a response")
        }
        (&Method::GET | &Method::HEAD, Some(name)) => match state.content.blobs.get(name) {
            Some(size) => blob(state, request, *size),
            None => error(StatusCode::NOT_FOUND, "BlobNotFound"),
        },
        _ => error(StatusCode::FORBIDDEN, "AuthorizationPermissionMismatch"),
    }
}

fn blob(state: &Arc<State>, request: &Request<Incoming>, size: u64) -> Response<Body> {
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    if header("if-match").is_some_and(|etag| etag != "*" && etag.trim_matches('"') != ETAG.trim_matches('"'))
    {
        return error(StatusCode::PRECONDITION_FAILED, "ConditionNotMet");
    }
    let asked = header("x-ms-range").or_else(|| header("range")).and_then(|range| parse_range(range, size));
    let range = asked.clone().unwrap_or(0..size);
    let mut head = Response::builder()
        .header("etag", ETAG)
        .header("last-modified", LAST_MODIFIED)
        .header("accept-ranges", "bytes")
        .header("content-type", "application/octet-stream")
        .header("content-length", range.end - range.start)
        .header("x-ms-blob-type", "BlockBlob")
        .header("x-ms-version", "2023-11-03");
    if asked.is_some() {
        let content_range = format!("bytes {}-{}/{size}", range.start, range.end.saturating_sub(1));
        head = head.status(StatusCode::PARTIAL_CONTENT).header("content-range", content_range);
    }
    if request.method() == Method::HEAD {
        return head.body(whole(Bytes::new())).expect("a response");
    }
    let counted = Arc::clone(state);
    let frames = pieces(&state.pattern, range).map(move |piece| {
        counted.body_bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
        Ok(Frame::data(piece))
    });
    head.body(streamed(frames)).expect("a response")
}

/// `bytes=A-B` or `bytes=A-`, cut to `size`.
fn parse_range(text: &str, size: u64) -> Option<Range<u64>> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let end = last.parse::<u64>().map_or(size, |last| size.min(last + 1));
    Some(first.parse::<u64>().ok()?.min(end)..end)
}

fn pieces(pattern: &Bytes, range: Range<u64>) -> impl Iterator<Item = Bytes> + Send + use<> {
    let pattern = pattern.clone();
    let mut at = range.start;
    std::iter::from_fn(move || {
        let start = usize::try_from(at % PATTERN as u64).expect("less than the pattern");
        let left = usize::try_from(range.end - at).unwrap_or(usize::MAX);
        let length = left.min(PIECE).min(PATTERN - start);
        at += length as u64;
        (length > 0).then(|| pattern.slice(start..start + length))
    })
}

fn list(content: &Content, prefix: &str, by_level: bool) -> String {
    let mut xml = "<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults><Blobs>".to_owned();
    let mut last_folder = String::new();
    for (name, size) in
        content.blobs.range(prefix.to_owned()..).take_while(|(name, _)| name.starts_with(prefix))
    {
        match name[prefix.len()..].split_once('/').filter(|_| by_level) {
            Some((folder, _)) if folder == last_folder => {}
            Some((folder, _)) => {
                write!(xml, "<BlobPrefix><Name>{prefix}{folder}/</Name></BlobPrefix>").expect("writing to a String");
                folder.clone_into(&mut last_folder);
            }
            None => write!(
                xml,
                "<Blob><Name>{name}</Name><Properties><Creation-Time>{LAST_MODIFIED}</Creation-Time>\
                 <Last-Modified>{LAST_MODIFIED}</Last-Modified><Etag>{}</Etag><Content-Length>{size}</Content-Length>\
                 <Content-Type>application/octet-stream</Content-Type><BlobType>BlockBlob</BlobType>\
                 <AccessTier>Hot</AccessTier></Properties></Blob>",
                ETAG.trim_matches('"')
            )
            .expect("writing to a String"),
        }
    }
    xml + "</Blobs><NextMarker/></EnumerationResults>"
}

fn streamed(frames: impl Iterator<Item = Result<Frame<Bytes>, Infallible>> + Send + 'static) -> Body {
    let frames: Frames = Box::new(frames);
    StreamBody::new(futures::stream::iter(frames))
}

fn whole(bytes: Bytes) -> Body {
    streamed((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))).into_iter())
}

fn error(status: StatusCode, code: &str) -> Response<Body> {
    let head = Response::builder()
        .status(status)
        .header("x-ms-error-code", code)
        .header("content-type", "application/xml");
    head.body(whole(format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code></Error>").into()))
        .expect("a response")
}
