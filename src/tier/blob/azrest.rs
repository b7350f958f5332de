//! The Blob REST API as far as this tier needs it, over object_store's credentials and signing.
//!
//! object_store itself can't send a condition with a commit, list metadata, or survive any name; it also hides error
//! codes. Every request here names a blob as it is stored (see `names`), sends each header before it is signed, has a
//! time-out that fits its size, and is sent once: trying again is the business of a decorator above.

mod blocks;
mod failure;
mod list;
mod operations;
mod properties;
mod sas;
mod transport;

pub(super) use failure::{Failure, Outcome};
pub(super) use list::Listing;
pub(super) use operations::{Listed, Write};
pub(super) use properties::Properties;
pub(super) use transport::Transport;

use super::credentials::Credentials;
use crate::error::Kind;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use object_store::azure::{AzureAuthorizer, AzureCredential};
use object_store::client::{HttpClient, HttpRequestBody, HttpResponse, HttpResponseBody};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::time::Duration;

/// Time for an answer, the bytes apart.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Slowest link that an upload must not time out on, in bytes a second.
const SLOWEST: u64 = 256 * 1024;

/// Longest pause between two parts of a body.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Largest list or token answer: 5,000 blobs with 8 KiB of metadata each.
const LIST_MAX: usize = 64 * 1024 * 1024;

/// Largest error body that is looked at.
const ERROR_MAX: usize = 64 * 1024;

/// Everything but what no server ever takes for something else; `/` separates.
const URL_UNSAFE: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// One container.
#[derive(Debug)]
pub(super) struct Client {
    http: HttpClient,
    /// `https://account.blob.core.windows.net/container`, without a slash at its end.
    container_url: String,
    account: String,
    credentials: Credentials,
}

/// A request before it is signed.
struct Request<'a> {
    method: Method,
    /// Name of the blob, or none for the container.
    blob: Option<&'a str>,
    query: Vec<(&'static str, String)>,
    headers: HeaderMap,
    body: Bytes,
}

impl<'a> Request<'a> {
    fn new(method: Method, blob: Option<&'a str>) -> Self {
        Self { method, blob, query: Vec::new(), headers: HeaderMap::new(), body: Bytes::new() }
    }

    fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    fn header(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Outcome<Self> {
        let name = HeaderName::from_bytes(name.as_ref().as_bytes())
            .map_err(|error| Failure::new(Kind::Refused, "not a metadata name").with_source(error))?;
        let value = HeaderValue::from_str(value.as_ref())
            .map_err(|error| Failure::new(Kind::Refused, format!("value of {name}")).with_source(error))?;
        // The type takes more than signing does, which would panic.
        if let Err(error) = value.to_str() {
            return Err(Failure::new(Kind::Refused, format!("value of {name}")).with_source(error));
        }
        self.headers.insert(name, value);
        Ok(self)
    }

    fn body(mut self, body: Bytes) -> Self {
        self.body = body;
        self
    }

    fn url(&self, container_url: &str) -> String {
        let mut url = container_url.to_owned();
        if let Some(blob) = self.blob {
            url.push('/');
            url.extend(utf8_percent_encode(blob, URL_UNSAFE));
        }
        for (at, (name, value)) in self.query.iter().enumerate() {
            url.push(if at == 0 { '?' } else { '&' });
            url.push_str(name);
            url.push('=');
            url.extend(utf8_percent_encode(value, URL_UNSAFE));
        }
        url
    }
}

impl Client {
    /// A client of the container at `container_url` (without a slash at its end).
    pub(super) fn new(
        http: HttpClient,
        container_url: String,
        account: String,
        credentials: Credentials,
    ) -> Self {
        Self { http, container_url, account, credentials }
    }

    /// Sends `request`; a denied one again if the credentials turn out to have been renewed.
    async fn send(&self, request: &Request<'_>) -> Outcome<HttpResponse> {
        let credential = self.credentials.get().await?;
        let mut response = self.attempt(request, &credential).await?;
        if matches!(response.status().as_u16(), 401 | 403) && self.credentials.renewed(&credential).await {
            response = self.attempt(request, &*self.credentials.get().await?).await?;
        }
        if response.status().is_success() {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        // What is said about a refusal may be cut; that it was refused is certain.
        let body = read_up_to(body, ERROR_MAX).await.unwrap_or_default();
        Err(Failure::answered(parts.status, &parts.headers, &body))
    }

    async fn attempt(&self, request: &Request<'_>, credential: &AzureCredential) -> Outcome<HttpResponse> {
        let mut signed = http::Request::new(HttpRequestBody::from(request.body.clone()));
        *signed.method_mut() = request.method.clone();
        *signed.uri_mut() =
            request.url(&self.container_url).parse().map_err(|error: http::uri::InvalidUri| {
                Failure::new(Kind::NameTooLong, "no url").with_source(error)
            })?;
        *signed.headers_mut() = request.headers.clone();
        if request.method == Method::PUT {
            signed.headers_mut().insert(http::header::CONTENT_LENGTH, request.body.len().into());
        }
        AzureAuthorizer::new(credential, &self.account)
            .try_authorize(&mut signed)
            .map_err(|error| Failure::new(Kind::Denied, "can't sign the request").with_source(error))?;
        let limit = timeout_of(request.body.len());
        match tokio::time::timeout(limit, self.http.execute(signed)).await {
            Ok(answer) => answer.map_err(Failure::unanswered),
            Err(_elapsed) => Err(Failure::timed_out(limit)),
        }
    }
}

/// What a request with `bytes` may take.
fn timeout_of(bytes: usize) -> Duration {
    ANSWER_TIMEOUT + Duration::from_secs(bytes as u64 / SLOWEST)
}

/// The body, which must not be longer than `limit`.
async fn read_up_to(body: HttpResponseBody, limit: usize) -> Outcome<Bytes> {
    let mut parts = body.bytes_stream();
    let mut whole = BytesMut::new();
    loop {
        let next = tokio::time::timeout(IDLE_TIMEOUT, parts.next()).await;
        match next.map_err(|_elapsed| Failure::timed_out(IDLE_TIMEOUT))? {
            None => return Ok(whole.freeze()),
            Some(part) => whole.extend_from_slice(&part.map_err(Failure::unanswered)?),
        }
        if whole.len() > limit {
            return Err(Failure::new(Kind::Corrupt, "the answer is too long"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_once() {
        let request = Request::new(Method::GET, Some("a b/%41#?é")).query("comp", "x&y=é");
        assert_eq!(request.url("http://h/c"), "http://h/c/a%20b/%2541%23%3F%C3%A9?comp=x%26y%3D%C3%A9");
    }

    #[test]
    fn bad_headers_are_refused() {
        for (name, value) in
            [("x-ms-meta-a", "é"), ("x-ms-meta-a", "a\nb"), ("x-ms-meta-a b", "c"), ("", "c")]
        {
            let refused = Request::new(Method::PUT, None).header(name, value).map(|_| ());
            assert_eq!(refused.unwrap_err().kind, Kind::Refused);
        }
    }

    #[test]
    fn time_outs_fit_the_block() {
        assert_eq!(timeout_of(0), ANSWER_TIMEOUT);
        assert_eq!(timeout_of(64 << 20), ANSWER_TIMEOUT + Duration::from_secs(256));
    }
}
