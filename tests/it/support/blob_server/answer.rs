//! Answers: heads and bodies.

use super::content::Content;
use super::refusal::Refusal;
use super::store::Blob;
use chrono::{DateTime, Utc};
use http::response::Builder;
use http::{Response, StatusCode};
use std::time::SystemTime;

/// An answer before its body is put on the wire.
#[derive(Debug)]
pub struct Answer {
    pub head: http::response::Parts,
    pub body: Content,
    /// Bytes of a blob, which are counted.
    pub is_blob: bool,
}

impl Answer {
    fn of(builder: Builder, body: Content, is_blob: bool) -> Self {
        let builder = builder.header("x-ms-version", "2023-11-03").header("x-ms-request-id", "0");
        let (head, ()) = builder.body(()).expect("a head").into_parts();
        Self { head, body, is_blob }
    }

    pub fn empty(status: u16) -> Self {
        Self::of(Response::builder().status(status).header("content-length", 0), Content::default(), false)
    }

    /// After a write: what the blob is now.
    pub fn written(status: u16, etag: &str, modified: SystemTime) -> Self {
        let builder = Response::builder()
            .status(status)
            .header("content-length", 0)
            .header("etag", format!("\"{etag}\""))
            .header("last-modified", http_date(modified));
        Self::of(builder, Content::default(), false)
    }

    pub fn text(content_type: &str, text: String) -> Self {
        let builder =
            Response::builder().header("content-type", content_type).header("content-length", text.len());
        let mut body = Content::default();
        body.push_bytes(text.into());
        Self::of(builder, body, false)
    }

    /// The same about a blob in this version.
    pub fn with_etag(mut self, etag: &str) -> Self {
        self.head.headers.insert("etag", format!("\"{etag}\"").parse().expect("a header"));
        self
    }

    pub fn refused(refusal: &Refusal, has_body: bool) -> Self {
        let mut builder = Response::builder()
            .status(refusal.status)
            .header("x-ms-error-code", refusal.code)
            .header("content-type", "application/xml");
        if let Some(seconds) = refusal.retry_after {
            builder = builder.header("retry-after", seconds);
        }
        let mut body = Content::default();
        if has_body {
            let xml = format!(
                "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>{code}</Code><Message>{code}\nRequestId:0</Message></Error>",
                code = refusal.code
            );
            builder = builder.header("content-length", xml.len());
            body.push_bytes(xml.into());
        }
        Self::of(builder, body, false)
    }

    /// A blob's properties, and its bytes if they are asked for.
    pub fn blob(blob: &Blob, range: Option<std::ops::Range<u64>>, with_bytes: bool) -> Self {
        let size = blob.content.size();
        let asked = range.clone().unwrap_or(0..size);
        let mut builder = Response::builder()
            .header("etag", format!("\"{}\"", blob.etag))
            .header("last-modified", http_date(blob.modified))
            .header("accept-ranges", "bytes")
            .header("content-type", &blob.content_type)
            .header("content-length", asked.end - asked.start)
            .header("x-ms-blob-type", "BlockBlob")
            .header("x-ms-lease-state", "available")
            .header("x-ms-access-tier", blob.access_tier.as_deref().unwrap_or("Hot"));
        if blob.access_tier.is_none() {
            builder = builder.header("x-ms-access-tier-inferred", "true");
        }
        if blob.rehydrating.is_some() {
            builder = builder.header("x-ms-archive-status", "rehydrate-pending-to-hot");
        }
        if blob.copying {
            builder = builder.header("x-ms-copy-status", "pending");
        }
        for (name, value) in &blob.metadata {
            builder = builder.header(format!("x-ms-meta-{name}"), value);
        }
        if range.is_some() {
            let content_range = format!("bytes {}-{}/{size}", asked.start, asked.end.saturating_sub(1));
            builder = builder.status(StatusCode::PARTIAL_CONTENT).header("content-range", content_range);
        }
        let body = if with_bytes { blob.content.slice(asked) } else { Content::default() };
        Self::of(builder, body, true)
    }
}

pub fn http_date(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).format("%a, %d %b %Y %H:%M:%S GMT").to_string()
}
