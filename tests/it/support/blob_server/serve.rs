//! Connections: a request in, its faults, its answer out.

use super::answer::Answer;
use super::content::Content;
use super::faults::{Effect, Line};
use super::log::Operation;
use super::refusal::{self, Refusal};
use super::request::Call;
use super::{Shared, blobs, blocks, listing};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

type Body = StreamBody<BoxStream<'static, io::Result<Frame<Bytes>>>>;

pub fn run(
    listener: std::net::TcpListener,
    shared: &Arc<Shared>,
    stopped: tokio::sync::oneshot::Receiver<()>,
) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("blob-server")
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        tokio::select! {
            () = accept(&listener, shared) => {}
            _ = stopped => {}
        }
    });
    runtime.shutdown_background();
}

async fn accept(listener: &tokio::net::TcpListener, shared: &Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        shared.connections.fetch_add(1, Ordering::Relaxed);
        let _ = stream.set_nodelay(true);
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            let answer = hyper::service::service_fn(move |request| {
                let shared = Arc::clone(&shared);
                async move { serve(&shared, request).await }
            });
            // A client that hangs up, or a fault, ends its connection and nothing else.
            let _ = hyper::server::conn::http1::Builder::new()
                .max_buf_size(1 << 20)
                .serve_connection(TokioIo::new(stream), answer)
                .await;
        });
    }
}

/// # Errors
/// A connection that breaks instead of an answer.
async fn serve(shared: &Arc<Shared>, request: Request<Incoming>) -> io::Result<Response<Body>> {
    let (head, body) = request.into_parts();
    let has_body = head.method != Method::HEAD;
    let call = match Call::of(&head) {
        Ok(call) => call,
        Err(refusal) => return Ok(whole(Answer::refused(&refusal, has_body))),
    };
    let number = shared.log.arrived(&call);
    let mut received = 0;
    let answered = answer(shared, &call, body, has_body, &mut received).await;
    shared.log.ended(number, received, answered.as_ref().ok().map(|answer| answer.status()));
    answered
}

async fn answer(
    shared: &Arc<Shared>,
    call: &Call,
    body: Incoming,
    has_body: bool,
    received: &mut u64,
) -> io::Result<Response<Body>> {
    let effects = shared.faults.of(call);
    let line = effects.iter().find_map(|effect| match effect {
        Effect::Bandwidth(line) => Some(Arc::clone(line)),
        _ => None,
    });
    let content = receive(body, line.as_deref()).await?;
    *received = content.size();
    for effect in &effects {
        if let Effect::Latency(pause) = effect {
            tokio::time::sleep(*pause).await;
        }
    }
    let mut cut = None;
    for effect in effects {
        match effect {
            Effect::Refuse { status, code, retry_after } => {
                let refusal = Refusal { retry_after, ..Refusal::new(status, code) };
                return Ok(whole(Answer::refused(&refusal, has_body)));
            }
            Effect::Drop => return Err(broken()),
            Effect::ApplyThenDrop => {
                let _ = act(shared, call, content);
                return Err(broken());
            }
            Effect::CutAfter(bytes) => cut = Some(bytes),
            Effect::Latency(_) | Effect::Bandwidth(_) => {}
        }
    }
    let answer = act(shared, call, content).unwrap_or_else(|refusal| Answer::refused(&refusal, has_body));
    Ok(streamed(shared, answer, line, cut))
}

fn broken() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

/// The body as it comes, without copying.
async fn receive(mut body: Incoming, line: Option<&Line>) -> io::Result<Content> {
    let mut content = Content::default();
    while let Some(frame) = body.frame().await {
        if let Ok(bytes) = frame.map_err(io::Error::other)?.into_data() {
            if let Some(line) = line {
                line.pass(bytes.len()).await;
            }
            content.push_bytes(bytes);
        }
    }
    Ok(content)
}

fn act(shared: &Shared, call: &Call, body: Content) -> Result<Answer, Refusal> {
    if call.operation == Operation::Token {
        return Ok(shared.tokens.issue(call, &body.to_vec()));
    }
    shared.tokens.check(call)?;
    let store = &mut *shared.store.lock();
    match call.operation {
        Operation::CreateContainer if store.make_container(&call.container) => Ok(Answer::empty(201)),
        Operation::CreateContainer => Err(refusal::container_exists()),
        Operation::ContainerProperties => store.container(&call.container).map(|_| Answer::empty(200)),
        Operation::List => listing::list(store, call),
        Operation::PutBlob => blobs::put(store, call, body),
        Operation::PutBlock => blocks::put_block(store, call, body),
        Operation::PutBlockFromUrl => blocks::put_block_from_url(store, call),
        Operation::PutBlockList => blocks::put_block_list(store, call, &body),
        Operation::GetBlockList => blocks::get_block_list(store, call),
        Operation::Get => blobs::get(store, call),
        Operation::Head => blobs::head(store, call),
        Operation::Delete => blobs::delete(store, call),
        Operation::SetMetadata => blobs::set_metadata(store, call),
        Operation::SetTier => blobs::set_tier(store, call),
        Operation::Token | Operation::Other => Err(refusal::unsupported_verb()),
    }
}

fn whole(answer: Answer) -> Response<Body> {
    let pieces = answer.body.pieces().map(|piece| Ok(Frame::data(piece)));
    Response::from_parts(answer.head, StreamBody::new(futures::stream::iter(pieces).boxed()))
}

/// The answer with its body at the speed of `line`, broken off after `cut` bytes.
fn streamed(
    shared: &Arc<Shared>,
    answer: Answer,
    line: Option<Arc<Line>>,
    cut: Option<u64>,
) -> Response<Body> {
    let counted = answer.is_blob.then(|| Arc::clone(shared));
    let left = cut.unwrap_or(u64::MAX);
    let state = (answer.body.pieces(), left);
    let frames = futures::stream::unfold(state, move |(mut pieces, left)| {
        let (line, counted) = (line.clone(), counted.clone());
        async move {
            let mut piece = pieces.next()?;
            if left == 0 {
                return Some((Err(broken()), (pieces, 0)));
            }
            piece.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            if let Some(line) = line {
                line.pass(piece.len()).await;
            }
            if let Some(shared) = counted {
                shared.log.sending(piece.len());
            }
            let left = left - piece.len() as u64;
            Some((Ok(Frame::data(piece)), (pieces, left)))
        }
    });
    Response::from_parts(answer.head, StreamBody::new(frames.boxed()))
}
