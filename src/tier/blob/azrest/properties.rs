//! What the service says of one blob, from headers or from a list.

use super::super::attributes::Metadata;
use super::failure::{Failure, Outcome};
use crate::error::Kind;
use crate::tier::Archive;
use crate::types::Timestamp;
use chrono::DateTime;
use http::HeaderMap;

/// Longest file that there can be (`off_t`).
const SIZE_MAX: u64 = i64::MAX.unsigned_abs();

/// Properties and metadata of a blob.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(in super::super) struct Properties {
    /// Bytes.
    pub(in super::super) size: u64,
    /// The ETag in one form everywhere: without quotes.
    pub(in super::super) etag: String,
    /// `Last-Modified`.
    pub(in super::super) modified: Timestamp,
    /// `Content-Type`.
    pub(in super::super) content_type: Option<String>,
    /// Whether it can be read.
    pub(in super::super) archive: Archive,
    /// A block blob, not an append or page blob.
    pub(in super::super) is_block_blob: bool,
    /// A real directory of an account with a hierarchical namespace.
    pub(in super::super) is_directory: bool,
    /// Names in lower case.
    pub(in super::super) metadata: Metadata,
}

impl Properties {
    /// From the headers of an answer that must say what the blob is.
    ///
    /// # Errors
    /// [`Kind::Corrupt`] if they don't say how long it is, and in which version.
    pub(super) fn whole(headers: &HeaderMap) -> Outcome<Self> {
        let found = Self::of_headers(headers);
        let length = headers.get("content-length").and_then(|value| value.to_str().ok());
        if found.etag.is_empty() || length.and_then(size).is_none() {
            return Err(Failure::new(
                Kind::Corrupt,
                "the answer does not say length and version of the blob",
            ));
        }
        Ok(found)
    }

    /// From the headers of an answer about one blob.
    pub(super) fn of_headers(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let metadata = headers.iter().filter_map(|(name, value)| {
            let key = name.as_str().strip_prefix("x-ms-meta-")?;
            Some((key.to_ascii_lowercase(), value.to_str().ok()?.trim().to_owned()))
        });
        Self {
            size: text("content-length").and_then(size).unwrap_or(0),
            etag: text("etag").map(etag).unwrap_or_default(),
            modified: text("last-modified").map(http_time).unwrap_or_default(),
            content_type: text("content-type").map(ToOwned::to_owned),
            archive: archive(text("x-ms-access-tier"), text("x-ms-archive-status")),
            is_block_blob: text("x-ms-blob-type") == Some("BlockBlob"),
            is_directory: text("x-ms-resource-type") == Some("directory"),
            metadata: metadata.collect(),
        }
    }
}

/// From the access tier and how far a rehydration is (`rehydrate-pending-to-hot`), which is said only of archived blobs.
pub(super) fn archive(access_tier: Option<&str>, status: Option<&str>) -> Archive {
    match (access_tier, status) {
        (_, Some(status)) if status.starts_with("rehydrate-pending") => Archive::Rehydrating,
        (Some("Archive"), _) => Archive::Archived,
        _ => Archive::No,
    }
}

/// A length that a file can have.
pub(super) fn size(text: &str) -> Option<u64> {
    text.parse().ok().filter(|size| *size <= SIZE_MAX)
}

/// Lists give ETags without quotes, headers with: one form.
pub(super) fn etag(text: &str) -> String {
    text.trim().trim_start_matches("W/").trim_matches('"').to_owned()
}

/// `Sun, 02 Feb 2020 02:02:02 GMT`; what is no time is the epoch.
pub(super) fn http_time(text: &str) -> Timestamp {
    let time = DateTime::parse_from_rfc2822(text).ok().and_then(|time| time.timestamp_nanos_opt());
    Timestamp(time.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("content-length", "5"),
            ("etag", "\"0x8DABC\""),
            ("last-modified", "Sun, 02 Feb 2020 02:02:02 GMT"),
            ("x-ms-blob-type", "BlockBlob"),
            ("x-ms-meta-owner", "7"),
        ] {
            headers.insert(name, value.parse().unwrap());
        }
        let found = Properties::of_headers(&headers);
        assert_eq!((found.size, found.etag.as_str(), found.is_block_blob), (5, "0x8DABC", true));
        assert_eq!(found.modified.parts(), (1_580_608_922, 0));
        assert_eq!(found.metadata["owner"], "7");
    }

    #[test]
    fn what_is_archived_says_how_far_it_is() {
        assert_eq!(archive(Some("Archive"), None), Archive::Archived);
        assert_eq!(archive(Some("Archive"), Some("rehydrate-pending-to-hot")), Archive::Rehydrating);
        assert_eq!((archive(Some("Hot"), None), archive(None, Some(""))), (Archive::No, Archive::No));
    }

    #[test]
    fn etags_have_one_form() {
        for text in ["0x8D", "\"0x8D\"", "W/\"0x8D\"", " \"0x8D\" "] {
            assert_eq!(etag(text), "0x8D");
        }
    }
}
