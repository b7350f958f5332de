//! A request taken apart.

use super::log::Operation;
use super::refusal::{self, Refusal};
use http::request::Parts;
use http::{HeaderMap, Method};
use percent_encoding::percent_decode_str;
use std::collections::BTreeMap;
use std::ops::Range;

/// Longest name, in UTF-16 units.
const NAME_MAX: usize = 1024;
const METADATA_MAX: usize = 8 * 1024;

/// What is asked, without the bytes that come with it.
#[derive(Clone, Debug)]
pub struct Call {
    pub operation: Operation,
    pub container: String,
    /// Name of the blob; empty for the container.
    pub name: String,
    query: BTreeMap<String, String>,
    pub headers: HeaderMap,
}

impl Call {
    /// # Errors
    /// If the address is none.
    pub fn of(head: &Parts) -> Result<Self, Refusal> {
        let query = url::form_urlencoded::parse(head.uri.query().unwrap_or("").as_bytes()).into_owned();
        let query: BTreeMap<String, String> = query.collect();
        let path = head.uri.path();
        let mut segments = path.trim_start_matches('/').splitn(3, '/').skip(1);
        let container = segments.next().unwrap_or_default().to_owned();
        let name = percent_decode_str(segments.next().unwrap_or_default()).decode_utf8();
        // The service takes one for the other.
        let name = name.map_err(|_| refusal::invalid_uri())?.replace('\\', "/");
        let operation = if super::tokens::is_asked_for(path) {
            Operation::Token
        } else {
            operation(&head.method, !name.is_empty(), &query, &head.headers)
        };
        Ok(Self { operation, container, name, query, headers: head.headers.clone() })
    }

    /// All that is asked for, `name=value` a line.
    pub fn query_lines(&self) -> String {
        self.query.iter().map(|(name, value)| format!("{name}={value}\n")).collect()
    }

    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// # Errors
    /// If no blob can be called so.
    pub fn check_name(&self) -> Result<(), Refusal> {
        let units: usize = self.name.chars().map(char::len_utf16).sum();
        if units > NAME_MAX || self.name.split('/').count() > 254 {
            return Err(refusal::invalid_name());
        }
        Ok(())
    }

    /// The metadata it brings.
    ///
    /// # Errors
    /// If there is too much of it, or under names that are none.
    pub fn metadata(&self) -> Result<BTreeMap<String, String>, Refusal> {
        let mut metadata = BTreeMap::new();
        for (name, value) in &self.headers {
            let Some(name) = name.as_str().strip_prefix("x-ms-meta-") else { continue };
            let letters = |c: char| c == '_' || c.is_ascii_alphabetic();
            if !name.starts_with(letters) || !name.chars().all(|c| letters(c) || c.is_ascii_digit()) {
                return Err(refusal::invalid_metadata());
            }
            let value = value.to_str().map_err(|_| refusal::invalid_metadata())?;
            metadata.insert(name.to_owned(), value.to_owned());
        }
        let size: usize = metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
        if size > METADATA_MAX { Err(refusal::metadata_too_large()) } else { Ok(metadata) }
    }

    /// The range of `size` bytes that is wanted, if not all.
    ///
    /// # Errors
    /// If there is nothing in it.
    pub fn range(&self, size: u64) -> Result<Option<Range<u64>>, Refusal> {
        let text = self.header("x-ms-range").or_else(|| self.header("range"));
        text.and_then(|text| parse_range(text, size)).map_or(Ok(None), |range| {
            if range.is_empty() { Err(refusal::invalid_range()) } else { Ok(Some(range)) }
        })
    }
}

/// `bytes=A-B` or `bytes=A-`, cut to `size`; empty if it starts behind the end.
pub fn parse_range(text: &str, size: u64) -> Option<Range<u64>> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let first = first.parse::<u64>().ok()?;
    let end = last.parse::<u64>().map_or(size, |last| size.min(last.saturating_add(1)));
    Some(first..end.max(first))
}

fn operation(
    method: &Method,
    of_blob: bool,
    query: &BTreeMap<String, String>,
    headers: &HeaderMap,
) -> Operation {
    let comp = query.get("comp").map_or("", String::as_str);
    match (method.as_str(), of_blob, comp) {
        ("PUT", false, "") => Operation::CreateContainer,
        ("GET", false, "list") => Operation::List,
        ("GET" | "HEAD", false, "") => Operation::ContainerProperties,
        ("GET", true, "blocklist") => Operation::GetBlockList,
        ("GET", true, "") => Operation::Get,
        ("HEAD", true, "") => Operation::Head,
        ("DELETE", true, "") => Operation::Delete,
        ("PUT", true, "metadata") => Operation::SetMetadata,
        ("PUT", true, "tier") => Operation::SetTier,
        ("PUT", true, "blocklist") => Operation::PutBlockList,
        ("PUT", true, "block") if headers.contains_key("x-ms-copy-source") => Operation::PutBlockFromUrl,
        ("PUT", true, "block") => Operation::PutBlock,
        ("PUT", true, "") if headers.contains_key("x-ms-blob-type") => Operation::PutBlob,
        _ => Operation::Other,
    }
}
