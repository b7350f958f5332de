//! List Blobs.

use super::answer::{Answer, http_date};
use super::refusal::{self, Refusal};
use super::request::Call;
use super::store::{Blob, Store};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Bound;

const PAGE_MAX: usize = 5000;

pub fn list(store: &mut Store, call: &Call) -> Result<Answer, Refusal> {
    let limit = match call.query("maxresults").map(str::parse::<usize>) {
        None => PAGE_MAX,
        Some(Ok(limit)) if limit > 0 => limit.min(PAGE_MAX),
        Some(_) => return Err(refusal::out_of_range_query()),
    };
    let blobs = &store.container(&call.container)?.blobs;
    let with_metadata =
        call.query("include").is_some_and(|parts| parts.split(',').any(|part| part == "metadata"));
    let mut page = Page { xml: String::with_capacity(limit.min(blobs.len()) * 400), with_metadata, count: 0 };
    let prefix = call.query("prefix").unwrap_or_default();
    let next = page.fill(blobs, prefix, call.query("delimiter"), call.query("marker"), limit);
    let xml = format!(
        "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ContainerName=\"{}\"><Blobs>{}</Blobs>\
         <NextMarker>{}</NextMarker></EnumerationResults>",
        call.container,
        page.xml,
        escaped(&next.unwrap_or_default())
    );
    Ok(Answer::text("application/xml", xml))
}

struct Page {
    xml: String,
    with_metadata: bool,
    count: usize,
}

impl Page {
    /// Adds what comes from `marker` on; answers where the next page starts.
    fn fill(
        &mut self,
        blobs: &BTreeMap<String, Blob>,
        prefix: &str,
        delimiter: Option<&str>,
        marker: Option<&str>,
        limit: usize,
    ) -> Option<String> {
        let mut from = marker.filter(|marker| !marker.is_empty()).unwrap_or(prefix).to_owned();
        loop {
            let range = (Bound::Included(from.as_str()), Bound::Unbounded);
            let mut skip_to = None;
            for (name, blob) in blobs.range::<str, _>(range) {
                if !name.starts_with(prefix) {
                    return None;
                }
                if self.count == limit {
                    return Some(name.clone());
                }
                self.count += 1;
                let folder = delimiter.and_then(|delimiter| {
                    let at = name[prefix.len()..].find(delimiter)?;
                    Some(&name[..prefix.len() + at + delimiter.len()])
                });
                match folder {
                    None => self.blob(name, blob),
                    Some(folder) => {
                        let _ = write!(self.xml, "<BlobPrefix>{}</BlobPrefix>", name_element(folder));
                        skip_to = Some(format!("{folder}\u{10ffff}"));
                        break;
                    }
                }
            }
            from = skip_to?;
        }
    }

    fn blob(&mut self, name: &str, blob: &Blob) {
        // Writing to a String can't fail.
        let _ = write!(
            self.xml,
            "<Blob>{}<Properties><Last-Modified>{}</Last-Modified><Etag>{}</Etag><Content-Length>{}</Content-Length>\
             <Content-Type>{}</Content-Type><BlobType>BlockBlob</BlobType><AccessTier>{}</AccessTier>",
            name_element(name),
            http_date(blob.modified),
            blob.etag,
            blob.content.size(),
            escaped(&blob.content_type),
            blob.access_tier.as_deref().unwrap_or("Hot"),
        );
        if blob.rehydrating.is_some() {
            self.xml.push_str("<ArchiveStatus>rehydrate-pending-to-hot</ArchiveStatus>");
        }
        self.xml.push_str("</Properties>");
        if self.with_metadata {
            self.xml.push_str("<Metadata>");
            for (key, value) in &blob.metadata {
                let _ = write!(self.xml, "<{key}>{}</{key}>", escaped(value));
            }
            self.xml.push_str("</Metadata>");
        }
        self.xml.push_str("</Blob>");
    }
}

/// What XML can't hold is percent-encoded, and the element says so.
fn name_element(name: &str) -> String {
    let unfit = |c: char| (c < ' ' && c != '\t') || matches!(c, '\u{fffe}' | '\u{ffff}');
    if name.contains(unfit) {
        return format!("<Name Encoded=\"true\">{}</Name>", utf8_percent_encode(name, NON_ALPHANUMERIC));
    }
    format!("<Name>{}</Name>", escaped(name))
}

fn escaped(text: &str) -> String {
    if !text.contains(['&', '<', '>']) {
        return text.to_owned();
    }
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
