//! Metrics and health by HTTP: `/metrics` for Prometheus, `/healthz` and `/livez` for monitors and
//! orchestrators. Reads only, asks nobody who they are: loopback unless the config says otherwise.

use crate::control::exposition::{self, Facts};
use crate::control::protocol::Phase;
use crate::control::status::Level;
use crate::error::{Error, Kind, Result};
use crate::metrics;
use async_trait::async_trait;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinHandle;

/// Most connections at once; more are closed.
const CONNECTIONS_MAX: usize = 16;

/// A request and its answer take no longer, or the connection is closed.
const PATIENCE: Duration = Duration::from_secs(30);

/// No request has a longer head.
const HEAD_MAX: usize = 16 << 10;

/// Facts are gathered for at most this share of the time, however often they are asked for.
const GATHERING_SHARE: u32 = 20;

/// What a mount shows here.
#[async_trait]
pub trait Exposed: Send + Sync {
    /// What it is doing. Never waits.
    fn phase(&self) -> Phase;

    /// All facts; never waits for a tier.
    async fn facts(&self) -> Facts;
}

/// A bound address that nobody answers on yet.
#[derive(Debug)]
pub struct Bound {
    listener: std::net::TcpListener,
    address: SocketAddr,
}

/// Takes `address`; port 0 is any free one.
///
/// # Errors
/// If it is taken or not of this machine, with what to do.
pub fn bind(address: SocketAddr) -> Result<Bound> {
    let hint = |error: &std::io::Error| match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            "; another mount or program has it: set another `metrics` in [mount]"
        }
        std::io::ErrorKind::AddrNotAvailable => {
            "; it is no address of this machine: correct `metrics` in [mount]"
        }
        _ => "",
    };
    let bound = std::net::TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true).and_then(|()| Ok((listener.local_addr()?, listener)))
    });
    match bound {
        Ok((address, listener)) => Ok(Bound { listener, address }),
        Err(error) => {
            let said = format!("can't serve metrics on {address}: {error}{}", hint(&error));
            Err(Error::new(Kind::Unavailable, said).with_source(error))
        }
    }
}

impl Bound {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts answering on `runtime` for `mount`.
    ///
    /// # Errors
    /// As the runtime says.
    pub fn serve(self, runtime: &Handle, mount: Arc<dyn Exposed>) -> Result<Web> {
        let guard = runtime.enter();
        let listener = TcpListener::from_std(self.listener)?;
        drop(guard);
        let answers = Arc::new(Answers { mount, known: Mutex::new(None) });
        Ok(Web { task: runtime.spawn(accept(listener, answers)) })
    }
}

/// A server that answers; dropped, it ends at once.
#[derive(Debug)]
pub struct Web {
    task: JoinHandle<()>,
}

impl Drop for Web {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, answers: Arc<Answers>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Whoever finds all slots taken sees a closed connection, and asks again at its next interval.
                let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else { continue };
                let answers = Arc::clone(&answers);
                tokio::spawn(async move {
                    if let Err(error) = tokio::time::timeout(PATIENCE, converse(stream, answers)).await {
                        tracing::debug!(%error, "metrics connection took too long");
                    }
                    drop(slot);
                });
            }
            Err(error) => {
                // Out of descriptors: accept would fail again at once.
                tracing::warn!(%error, "metrics can't accept");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// One request, so that nobody keeps a slot.
async fn converse(stream: TcpStream, answers: Arc<Answers>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answers = Arc::clone(&answers);
        async move { Ok::<_, Infallible>(answers.answer(request.method(), request.uri().path()).await) }
    });
    let served = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(HEAD_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "metrics connection ended");
    }
}

struct Answers {
    mount: Arc<dyn Exposed>,
    known: Mutex<Option<Known>>,
}

struct Known {
    facts: Arc<Facts>,
    good_until: Instant,
}

impl Answers {
    async fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut refusal = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n".to_owned());
            refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refusal;
        }
        match path {
            "/metrics" => {
                let mut page = text(StatusCode::OK, exposition::page(&*self.facts().await));
                page.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(metrics::CONTENT_TYPE));
                page
            }
            "/healthz" => health(&*self.facts().await),
            "/livez" => life(self.mount.phase()),
            _ => text(StatusCode::NOT_FOUND, "here are /metrics, /healthz and /livez\n".to_owned()),
        }
    }

    /// Gathered once for all who ask at the same time.
    async fn facts(&self) -> Arc<Facts> {
        let mut known = self.known.lock().await;
        let began = Instant::now();
        if let Some(known) = known.as_ref().filter(|known| began < known.good_until) {
            return Arc::clone(&known.facts);
        }
        let facts = Arc::new(self.mount.facts().await);
        let good_until = began + began.elapsed() * GATHERING_SHARE;
        *known = Some(Known { facts: Arc::clone(&facts), good_until });
        facts
    }
}

/// What `tierstat health` says: 503 if a person is needed now.
fn health(facts: &Facts) -> Response<Full<Bytes>> {
    let health = facts.status.health();
    let mut said = String::new();
    for reason in &health.reasons {
        let word = if reason.level == Level::Person { "now" } else { "soon" };
        // Writing to a String can't fail.
        let _ = writeln!(said, "{word:<4} {}", reason.text.replace(char::is_control, " "));
    }
    if said.is_empty() {
        said.push_str("fine\n");
    }
    let code = if health.level == Level::Person { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    text(code, said)
}

/// Whether the mount is there: what only a new daemon would help.
fn life(phase: Phase) -> Response<Full<Bytes>> {
    match phase {
        Phase::Serving => text(StatusCode::OK, "serving\n".to_owned()),
        Phase::Draining => text(StatusCode::OK, "draining\n".to_owned()),
        Phase::Starting => text(StatusCode::SERVICE_UNAVAILABLE, "starting\n".to_owned()),
    }
}

fn text(code: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = code;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests;
