//! What time it is for the service: signatures and tokens are refused when clocks differ by a quarter of an hour.

use super::azrest::Transport;
use crate::error::{Error, Kind, Result};
use crate::types::Timestamp;
use crate::types::blob::BlobLocation;
use chrono::DateTime;
use http::header::DATE;
use object_store::client::HttpRequestBody;

/// The service's time, as any answer of it tells, also a refusal; none of a directory that stands for a container.
///
/// # Errors
/// [`Kind::Unavailable`] if nobody answers, or without the time.
pub async fn service_time(location: &BlobLocation) -> Result<Option<Timestamp>> {
    let BlobLocation::Azure { endpoint, container, .. } = location else { return Ok(None) };
    let failed = |what: &'static str| move |error| Error::new(Kind::Unavailable, what).with_source(error);
    let transport = Transport::new().map_err(failed("HTTP client"))?;
    let request = http::Request::head(format!("{endpoint}/{container}"))
        .body(HttpRequestBody::empty())
        .map_err(|error| Error::new(Kind::Invalid, "url").with_source(error))?;
    let answer =
        transport.client().execute(request).await.map_err(|error| {
            Error::new(Kind::Unavailable, "the service does not answer").with_source(error)
        })?;
    let told = answer.headers().get(DATE).and_then(|date| date.to_str().ok());
    let time = told.and_then(|date| DateTime::parse_from_rfc2822(date).ok());
    let nanos = time.and_then(|time| time.timestamp_nanos_opt());
    nanos
        .map(|nanos| Some(Timestamp(nanos)))
        .ok_or_else(|| Error::new(Kind::Unavailable, "the answer has no date"))
}
