//! The operations: one request each.

use super::super::attributes::Metadata;
use super::blocks;
use super::failure::{Failure, Outcome};
use super::list::{self, Listing};
use super::properties::Properties;
use super::{Client, IDLE_TIMEOUT, LIST_MAX, Request, read_up_to, sas};
use crate::error::Kind;
use crate::types::blob::AccessTier;
use crate::types::{Condition, Version};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::{Method, StatusCode};
use object_store::azure::AzureCredential;
use percent_encoding::utf8_percent_encode;
use std::fmt::Write as _;
use std::ops::Range;

/// What every write of content says besides the bytes.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Write<'a> {
    /// All of it: a write replaces metadata.
    pub(in super::super) metadata: &'a Metadata,
    /// What must be under the name.
    pub(in super::super) condition: &'a Condition,
    /// `Content-Type`, where it is known.
    pub(in super::super) content_type: Option<&'a str>,
    /// The account's default if none.
    pub(in super::super) access_tier: Option<AccessTier>,
}

/// A block as a block list names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Listed {
    /// One that was sent for it.
    Sent(String),
    /// One of the blob that is there.
    Kept(String),
}

/// A blob that the service itself reads: its address with the right to read it.
pub(in super::super) struct CopySource {
    url: String,
    authorization: Option<String>,
}

impl Client {
    /// A page of the names that start with `prefix`; what follows the next `/` is folded.
    pub(in super::super) async fn list(
        &self,
        prefix: &str,
        marker: Option<&str>,
        limit: usize,
    ) -> Outcome<Listing> {
        let mut request = Request::new(Method::GET, None)
            .query("restype", "container")
            .query("comp", "list")
            .query("delimiter", "/")
            .query("include", "metadata")
            .query("maxresults", limit.clamp(1, 5000).to_string());
        if !prefix.is_empty() {
            request = request.query("prefix", prefix);
        }
        if let Some(marker) = marker {
            request = request.query("marker", marker);
        }
        let response = self.send(&request).await?;
        let body = read_up_to(response.into_body(), LIST_MAX).await?;
        let listing = list::parse(&body)?;
        if marker.is_some() && listing.next.as_deref() == marker {
            return Err(Failure::new(Kind::Corrupt, "the list does not go on"));
        }
        Ok(listing)
    }

    /// Whether any name starts with `prefix`.
    pub(in super::super) async fn any_under(&self, prefix: &str) -> Outcome<bool> {
        let mut marker = None;
        loop {
            // A page may be empty and still not the last one.
            let page = self.list(prefix, marker.as_deref(), 1).await?;
            if !page.blobs.is_empty() || !page.prefixes.is_empty() || page.unreadable > 0 {
                return Ok(true);
            }
            marker = page.next;
            if marker.is_none() {
                return Ok(false);
            }
        }
    }

    /// Get Blob Properties.
    pub(in super::super) async fn head(&self, blob: &str) -> Outcome<Properties> {
        let response = self.send(&Request::new(Method::HEAD, Some(blob))).await?;
        Properties::whole(response.headers())
    }

    /// Get Blob: `range` of version `etag`, as it arrives. A range that starts at or behind the end is empty.
    pub(in super::super) async fn get(
        &self,
        blob: &str,
        range: Range<u64>,
        etag: &Version,
    ) -> Outcome<BoxStream<'static, Outcome<Bytes>>> {
        if range.is_empty() {
            return Ok(futures::stream::empty().boxed());
        }
        let request = Request::new(Method::GET, Some(blob))
            .header("range", format!("bytes={}-{}", range.start, range.end - 1))?
            .header("if-match", quoted(etag))?;
        let response = match self.send(&request).await {
            Err(failure) if failure.code == "InvalidRange" => return Ok(futures::stream::empty().boxed()),
            answer => answer?,
        };
        check_answer(&response, &range, etag)?;
        let length =
            response.headers().get("content-length").and_then(|text| text.to_str().ok()?.parse().ok());
        Ok(limited(response.into_body().bytes_stream(), length.unwrap_or(u64::MAX), range.end - range.start))
    }

    /// Put Blob: all bytes in one request.
    pub(in super::super) async fn put_blob(
        &self,
        blob: &str,
        bytes: Bytes,
        write: Write<'_>,
    ) -> Outcome<Version> {
        let request =
            Request::new(Method::PUT, Some(blob)).header("x-ms-blob-type", "BlockBlob")?.body(bytes);
        let response = self.send(&with_write(request, write)?).await?;
        version_of(&response)
    }

    /// Put Block: invisible until a block list names it.
    pub(in super::super) async fn put_block(&self, blob: &str, id: &str, bytes: Bytes) -> Outcome<()> {
        let request =
            Request::new(Method::PUT, Some(blob)).query("comp", "block").query("blockid", id).body(bytes);
        self.send(&request).await.map(drop)
    }

    /// Put Block From URL: the same from another blob.
    pub(in super::super) async fn put_block_from(
        &self,
        blob: &str,
        id: &str,
        source: &CopySource,
        range: Range<u64>,
        etag: &Version,
    ) -> Outcome<()> {
        let mut request = Request::new(Method::PUT, Some(blob))
            .query("comp", "block")
            .query("blockid", id)
            .header("x-ms-copy-source", &source.url)?
            .header("x-ms-source-range", format!("bytes={}-{}", range.start, range.end - 1))?
            .header("x-ms-source-if-match", quoted(etag))?;
        if let Some(authorization) = &source.authorization {
            request = request.header("x-ms-copy-source-authorization", authorization)?;
        }
        self.send(&request).await.map(drop).map_err(|mut failure| {
            // The emulator's word for what it can't do; the service never says it without a code.
            if failure.status == 500 && failure.code.is_empty() {
                failure.kind = Kind::Unsupported;
            }
            failure
        })
    }

    /// Get Block List: ids and sizes of the blocks that were sent and are not named by any list yet.
    pub(in super::super) async fn uncommitted_blocks(&self, blob: &str) -> Outcome<Vec<(String, u64)>> {
        let request = Request::new(Method::GET, Some(blob))
            .query("comp", "blocklist")
            .query("blocklisttype", "uncommitted");
        match self.send(&request).await {
            Ok(response) => blocks::uncommitted(&read_up_to(response.into_body(), LIST_MAX).await?),
            Err(failure) if failure.kind == Kind::NotFound => Ok(Vec::new()),
            Err(failure) => Err(failure),
        }
    }

    /// Get Block List: ids and sizes of the blocks that make up the blob, and in which version it is; none if it was not made of blocks.
    pub(in super::super) async fn committed_blocks(
        &self,
        blob: &str,
    ) -> Outcome<(String, Vec<(String, u64)>)> {
        let request = Request::new(Method::GET, Some(blob))
            .query("comp", "blocklist")
            .query("blocklisttype", "committed");
        let response = match self.send(&request).await {
            Err(failure) if failure.kind == Kind::NotFound => return Ok(Default::default()),
            answer => answer?,
        };
        let etag = Properties::of_headers(response.headers()).etag;
        Ok((etag, blocks::committed(&read_up_to(response.into_body(), LIST_MAX).await?)?))
    }

    /// Put Block List: the named blocks become the blob, in one step.
    pub(in super::super) async fn put_block_list(
        &self,
        blob: &str,
        blocks: &[Listed],
        write: Write<'_>,
    ) -> Outcome<Version> {
        let mut body = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>");
        for block in blocks {
            let (word, id) = match block {
                Listed::Sent(id) => ("Uncommitted", id),
                Listed::Kept(id) => ("Committed", id),
            };
            let _ = write!(body, "<{word}>{id}</{word}>");
        }
        body.push_str("</BlockList>");
        let request = Request::new(Method::PUT, Some(blob)).query("comp", "blocklist").body(body.into());
        let response = self.send(&with_write(request, write)?).await?;
        version_of(&response)
    }

    /// Delete Blob; one that has snapshots is refused.
    pub(in super::super) async fn delete(&self, blob: &str, condition: &Condition) -> Outcome<()> {
        let request = with_condition(Request::new(Method::DELETE, Some(blob)), condition)?;
        self.send(&request).await.map(drop)
    }

    /// Set Blob Metadata: replaces all of it.
    pub(in super::super) async fn set_metadata(
        &self,
        blob: &str,
        metadata: &Metadata,
        condition: &Condition,
    ) -> Outcome<Version> {
        let request = Request::new(Method::PUT, Some(blob)).query("comp", "metadata");
        let request = with_metadata(with_condition(request, condition)?, metadata)?;
        version_of(&self.send(&request).await?)
    }

    /// Set Blob Tier: out of the archive, at the price and in the time of standard priority.
    pub(in super::super) async fn rehydrate(&self, blob: &str) -> Outcome<()> {
        let request = Request::new(Method::PUT, Some(blob))
            .query("comp", "tier")
            .header("x-ms-access-tier", "Hot")?
            .header("x-ms-rehydrate-priority", "Standard")?;
        match self.send(&request).await {
            Err(failure) if failure.code == "BlobBeingRehydrated" => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// `blob` as the source of a copy inside the service.
    pub(in super::super) async fn copy_source(&self, blob: &str) -> Outcome<CopySource> {
        let mut url = Request::new(Method::GET, Some(blob)).url(&self.container_url);
        let mut authorization = None;
        if let Some(key) = self.credentials.account_key() {
            url.push('?');
            url.push_str(&sas::read_blob(&key, &self.account, &self.container_url, blob));
        } else {
            match &*self.credentials.get().await? {
                AzureCredential::BearerToken(token) => authorization = Some(format!("Bearer {token}")),
                AzureCredential::SASToken(pairs) => append_query(&mut url, pairs),
                AzureCredential::AccessKey(_) => {
                    return Err(Failure::new(Kind::Unsupported, "no way to authorise a copy source"));
                }
            }
        }
        Ok(CopySource { url, authorization })
    }
}

fn append_query(url: &mut String, pairs: &[(String, String)]) {
    for (at, (name, value)) in pairs.iter().enumerate() {
        url.push(if at == 0 { '?' } else { '&' });
        url.extend(utf8_percent_encode(name, super::URL_UNSAFE));
        url.push('=');
        url.extend(utf8_percent_encode(value, super::URL_UNSAFE));
    }
}

fn quoted(etag: &Version) -> String {
    format!("\"{}\"", String::from_utf8_lossy(&etag.0))
}

fn with_condition<'a>(request: Request<'a>, condition: &Condition) -> Outcome<Request<'a>> {
    match condition {
        Condition::Always => Ok(request),
        Condition::Absent => request.header("if-none-match", "*"),
        // What is known only by the names below it has no blob of its own.
        Condition::Matches(version) if version.0.is_empty() => request.header("if-none-match", "*"),
        Condition::Matches(version) => request.header("if-match", quoted(version)),
    }
}

fn with_metadata<'a>(mut request: Request<'a>, metadata: &Metadata) -> Outcome<Request<'a>> {
    for (key, value) in metadata {
        request = request.header(format!("x-ms-meta-{key}"), value)?;
    }
    Ok(request)
}

fn with_write<'a>(request: Request<'a>, write: Write<'_>) -> Outcome<Request<'a>> {
    let mut request = with_metadata(with_condition(request, write.condition)?, write.metadata)?;
    if let Some(content_type) = write.content_type {
        request = request.header("x-ms-blob-content-type", content_type)?;
    }
    if let Some(access_tier) = write.access_tier {
        request = request.header("x-ms-access-tier", access_tier.service_name())?;
    }
    Ok(request)
}

fn version_of<T>(response: &http::Response<T>) -> Outcome<Version> {
    let etag = Properties::of_headers(response.headers()).etag;
    if etag.is_empty() {
        let mut failure = Failure::new(Kind::Corrupt, "the answer to a write has no ETag");
        failure.outcome_unknown = true;
        return Err(failure);
    }
    Ok(Version::new(etag))
}

/// The bytes that come must be those asked for.
fn check_answer<T>(response: &http::Response<T>, range: &Range<u64>, etag: &Version) -> Outcome<()> {
    let found = Properties::of_headers(response.headers()).etag;
    if found.as_bytes() != &*etag.0 {
        return Err(Failure::new(Kind::Changed, "another version was sent"));
    }
    let range_start = response.headers().get("content-range").and_then(|value| {
        let text = value.to_str().ok()?.strip_prefix("bytes ")?;
        text.split_once('-')?.0.parse::<u64>().ok()
    });
    let start = if response.status() == StatusCode::PARTIAL_CONTENT { range_start } else { Some(0) };
    if start != Some(range.start) {
        return Err(Failure::new(Kind::Corrupt, "another range was sent than asked for"));
    }
    Ok(())
}

/// Passes on at most `wanted` bytes of a body that must have `length`.
fn limited(
    parts: BoxStream<'static, Result<Bytes, object_store::client::HttpError>>,
    length: u64,
    wanted: u64,
) -> BoxStream<'static, Outcome<Bytes>> {
    let state = Some((parts, length, wanted));
    futures::stream::unfold(state, |state| async move {
        let (mut parts, length, wanted) = state?;
        if wanted == 0 || length == 0 {
            return None;
        }
        match tokio::time::timeout(IDLE_TIMEOUT, parts.next()).await {
            Err(_elapsed) => Some((Err(Failure::timed_out(IDLE_TIMEOUT)), None)),
            Ok(None) if length == u64::MAX => None,
            Ok(None) => Some((Err(Failure::new(Kind::Unavailable, "the body ended early")), None)),
            Ok(Some(Err(error))) => Some((Err(Failure::unanswered(error)), None)),
            Ok(Some(Ok(mut part))) => {
                part.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
                let sent = part.len() as u64;
                let length = if length == u64::MAX { length } else { length.saturating_sub(sent) };
                Some((Ok(part), Some((parts, length, wanted - sent))))
            }
        }
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::client::{HttpError, HttpErrorKind};

    fn drain(
        parts: Vec<Result<&'static str, HttpErrorKind>>,
        length: u64,
        wanted: u64,
    ) -> Vec<Result<Bytes, Kind>> {
        let parts = parts.into_iter().map(|part| {
            part.map(Bytes::from).map_err(|kind| HttpError::new(kind, std::io::Error::other("test")))
        });
        let stream = limited(futures::stream::iter(parts.collect::<Vec<_>>()).boxed(), length, wanted);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(stream.map(|part| part.map_err(|failure| failure.kind)).collect())
    }

    #[test]
    fn a_body_is_whole_or_an_error() {
        let ok = |text: &'static str| Ok(Bytes::from(text));
        assert_eq!(drain(vec![Ok("ab"), Ok("c")], 3, 3), [ok("ab"), ok("c")]);
        assert_eq!(drain(vec![Ok("ab")], 3, 3), [ok("ab"), Err(Kind::Unavailable)]);
        assert_eq!(drain(vec![Ok("ab"), Err(HttpErrorKind::Timeout)], 3, 3), [ok("ab"), Err(Kind::TimedOut)]);
        assert_eq!(drain(vec![Ok("abcdef")], 6, 4), [ok("abcd")]);
    }

    #[test]
    fn another_range_or_version_is_noticed() {
        let answer = |status: u16, range: &str, etag: &str| {
            let builder = http::Response::builder().status(status).header("etag", etag);
            let response = builder.header("content-range", range).body(()).unwrap();
            check_answer(&response, &(5..9), &Version::new("a")).map_err(|failure| failure.kind)
        };
        assert_eq!(answer(206, "bytes 5-8/20", "\"a\""), Ok(()));
        assert_eq!(answer(206, "bytes 5-8/20", "\"b\""), Err(Kind::Changed));
        assert_eq!(answer(206, "bytes 6-8/20", "\"a\""), Err(Kind::Corrupt));
        assert_eq!(answer(206, "nonsense", "\"a\""), Err(Kind::Corrupt));
        assert_eq!(answer(200, "", "\"a\""), Err(Kind::Corrupt));
    }
}
