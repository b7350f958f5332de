//! One page of List Blobs: a parser for an answer that nobody vouches for.
//!
//! quick-xml's event reader, because names may hold what serde would trim or refuse, and because unknown elements
//! must not matter.

use super::failure::{Failure, Outcome};
use super::properties::{Properties, archive, etag, http_time, size};
use crate::error::Kind;
use crate::tier::Archive;
use percent_encoding::percent_decode_str;
use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};

/// Most blobs and prefixes a page may have: what the service promises, and some patience.
const ITEMS_MAX: usize = 10_000;

/// Deepest nesting that makes sense.
const DEPTH_MAX: usize = 16;

/// What a page of a listing holds.
#[derive(Debug, Default, PartialEq)]
pub(in super::super) struct Listing {
    /// Blobs: full name and properties.
    pub(in super::super) blobs: Vec<(String, Properties)>,
    /// Common prefixes, each with its delimiter at the end.
    pub(in super::super) prefixes: Vec<String>,
    /// Entries that can't be shown: names that are no text, lengths that are none.
    pub(in super::super) unreadable: u64,
    /// Where to go on.
    pub(in super::super) next: Option<String>,
}

/// Parses the body of a List Blobs answer.
///
/// # Errors
/// [`Kind::Corrupt`] if it is not one.
pub(super) fn parse(body: &[u8]) -> Outcome<Listing> {
    let text =
        std::str::from_utf8(body).map_err(|error| corrupt("the list is not UTF-8").with_source(error))?;
    let mut reader = Reader::from_str(text.trim_start_matches('\u{feff}'));
    let mut parser = Parser::default();
    loop {
        match reader.read_event() {
            Ok(Event::Start(element)) => parser.open(&element)?,
            Ok(Event::Empty(element)) => {
                parser.open(&element)?;
                parser.close()?;
            }
            Ok(Event::End(_)) => parser.close()?,
            Ok(Event::Text(text)) => parser.text.push_str(&text.decode().map_err(not_text)?),
            Ok(Event::CData(text)) => parser.text.push_str(&text.decode().map_err(not_text)?),
            Ok(Event::GeneralRef(reference)) => {
                let resolved = match reference.resolve_char_ref() {
                    Ok(Some(letter)) => Some(letter.to_string()),
                    Ok(None) => reference
                        .decode()
                        .ok()
                        .and_then(|name| resolve_predefined_entity(&name))
                        .map(ToOwned::to_owned),
                    Err(_) => None,
                };
                parser.text.push_str(&resolved.ok_or_else(|| corrupt("an unknown entity in the list"))?);
            }
            Ok(Event::Eof) => return parser.finish(),
            Ok(_) => {}
            Err(error) => return Err(corrupt("the list is not XML").with_source(error)),
        }
    }
}

fn corrupt(text: &str) -> Failure {
    Failure::new(Kind::Corrupt, text)
}

fn not_text(error: quick_xml::encoding::EncodingError) -> Failure {
    corrupt("the list is not text").with_source(error)
}

#[derive(Default)]
struct Parser {
    /// Names of the open elements, outermost first.
    path: Vec<Vec<u8>>,
    /// Text of the innermost open element so far.
    text: String,
    encoded: bool,
    saw_root: bool,
    name: Option<String>,
    properties: Properties,
    /// What is said of the blob at hand makes no sense.
    broken: bool,
    listing: Listing,
}

impl Parser {
    fn open(&mut self, element: &BytesStart<'_>) -> Outcome<()> {
        if self.path.len() >= DEPTH_MAX {
            return Err(corrupt("the list is nested too deeply"));
        }
        let name = element.local_name().as_ref().to_vec();
        self.saw_root |= self.path.is_empty() && name == b"EnumerationResults";
        match name.as_slice() {
            b"Blob" | b"BlobPrefix" => {
                self.name = None;
                self.broken = false;
                self.properties = Properties::default();
            }
            b"Name" => {
                let flag = element.try_get_attribute("Encoded").ok().flatten();
                self.encoded = flag.is_some_and(|flag| flag.value.eq_ignore_ascii_case(b"true"));
            }
            _ => {}
        }
        self.path.push(name);
        self.text.clear();
        Ok(())
    }

    fn close(&mut self) -> Outcome<()> {
        let text = std::mem::take(&mut self.text);
        let Some(name) = self.path.pop() else {
            return Err(corrupt("the list is not XML"));
        };
        let parent = self.path.last().map_or(&b""[..], Vec::as_slice);
        match (parent, name.as_slice()) {
            (b"Blob" | b"BlobPrefix", b"Name") => self.name = decode(text, self.encoded),
            (b"Properties", key) => self.broken |= !set_property(&mut self.properties, key, &text),
            (b"Metadata", key) => {
                let key = String::from_utf8_lossy(key).to_ascii_lowercase();
                self.properties.metadata.insert(key, text.trim().to_owned());
            }
            (b"Blobs", b"Blob") => {
                let properties = std::mem::take(&mut self.properties);
                self.take_name(|listing, name| listing.blobs.push((name, properties)))?;
            }
            (b"Blobs", b"BlobPrefix") => self.take_name(|listing, name| listing.prefixes.push(name))?,
            (b"EnumerationResults", b"NextMarker") if !text.is_empty() => self.listing.next = Some(text),
            _ => {}
        }
        Ok(())
    }

    fn take_name(&mut self, add: impl FnOnce(&mut Listing, String)) -> Outcome<()> {
        if self.listing.blobs.len() + self.listing.prefixes.len() >= ITEMS_MAX {
            return Err(corrupt("the list has more entries than a page can have"));
        }
        match self.name.take().filter(|_| !self.broken) {
            Some(name) => add(&mut self.listing, name),
            None => self.listing.unreadable += 1,
        }
        Ok(())
    }

    fn finish(self) -> Outcome<Listing> {
        // A cut answer must not pass for a short list.
        if !self.path.is_empty() || !self.saw_root {
            return Err(corrupt("the list is cut or is no list"));
        }
        Ok(self.listing)
    }
}

fn decode(name: String, encoded: bool) -> Option<String> {
    if !encoded {
        return Some(name);
    }
    percent_decode_str(&name).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

/// Whether it makes sense.
fn set_property(properties: &mut Properties, key: &[u8], text: &str) -> bool {
    match key {
        b"Content-Length" => return set_size(properties, text),
        b"Etag" => properties.etag = etag(text),
        b"Last-Modified" => properties.modified = http_time(text),
        b"Content-Type" => properties.content_type = Some(text.to_owned()),
        // In either order; a rehydration says more than the tier.
        b"AccessTier" if properties.archive == Archive::No => properties.archive = archive(Some(text), None),
        b"ArchiveStatus" => properties.archive = archive(None, Some(text)),
        b"ResourceType" => properties.is_directory = text == "directory",
        b"BlobType" => properties.is_block_blob = text == "BlockBlob",
        _ => {}
    }
    true
}

fn set_size(properties: &mut Properties, text: &str) -> bool {
    let found = size(text);
    properties.size = found.unwrap_or(0);
    found.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn page(blobs: &str, next: &str) -> String {
        format!(
            "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ServiceEndpoint=\"http://x/\" ContainerName=\"c\">\
             <Prefix>p</Prefix><Blobs>{blobs}</Blobs><NextMarker>{next}</NextMarker></EnumerationResults>"
        )
    }

    #[test]
    fn a_page_is_read() {
        let body = page(
            "<Blob><Name> a &amp; b&#xe9;&#10;</Name><Properties><Last-Modified>Sun, 02 Feb 2020 02:02:02 GMT</Last-Modified>\
             <Etag>0x8D</Etag><Content-Length>12</Content-Length><BlobType>BlockBlob</BlobType><AccessTier>Archive</AccessTier></Properties>\
             <Metadata><Owner>7</Owner><x /></Metadata><OrMetadata /></Blob>\
             <BlobPrefix><Name Encoded=\"true\">p%2Fx%01/</Name></BlobPrefix><Blob><Name Encoded=\"true\">%ff</Name></Blob>",
            "m&lt;1",
        );
        let found = parse(body.as_bytes()).unwrap();
        let (name, properties) = &found.blobs[0];
        assert_eq!(name, " a & bé\n");
        assert_eq!(
            (properties.size, properties.etag.as_str(), properties.archive),
            (12, "0x8D", Archive::Archived)
        );
        assert_eq!(properties.modified.0, 1_580_608_922_000_000_000);
        assert_eq!(properties.metadata["owner"], "7");
        assert_eq!(found.prefixes, ["p/x\u{1}/"]);
        assert_eq!((found.blobs.len(), found.unreadable, found.next.as_deref()), (1, 1, Some("m<1")));
    }

    #[test]
    fn an_empty_page_is_read() {
        assert_eq!(parse(page("", "").as_bytes()).unwrap(), Listing::default());
        let short = "<EnumerationResults><Blobs /><NextMarker /></EnumerationResults>";
        assert_eq!(parse(short.as_bytes()).unwrap(), Listing::default());
    }

    #[test]
    fn nonsense_is_refused() {
        let many = "<BlobPrefix><Name>a/</Name></BlobPrefix>".repeat(ITEMS_MAX + 1);
        for body in [
            "",
            "<html></html>",
            "<EnumerationResults><Blobs>",
            "<EnumerationResults></Blobs>",
            &page("<Blob><Name>&nope;</Name></Blob>", ""),
            &page(&"<a>".repeat(20), ""),
            &page(&many, ""),
        ] {
            assert_eq!(parse(body.as_bytes()).unwrap_err().kind, Kind::Corrupt, "{body:.80}");
        }
        assert!(parse(b"\xff").is_err());
    }

    fn with_length(name: &str, length: &str) -> String {
        format!(
            "<Blob><Name>{name}</Name><Properties><Content-Length>{length}</Content-Length><Etag>e</Etag></Properties></Blob>"
        )
    }

    proptest! {
        #[test]
        fn a_length_that_is_none_hides_its_blob_alone(
            length in "-?[0-9]{0,30}|[a-z]{1,5}|1e9|0x10|9223372036854775808|NaN", long in 0usize..3,
        ) {
            let deep = "x/".repeat(10_000);
            let name = ["a", &deep, "../../%00"][long];
            let blobs = with_length(name, &length) + &with_length("good", "7");
            let found = parse(page(&blobs, "").as_bytes()).unwrap();
            let good = found.blobs.last().unwrap();
            prop_assert_eq!((good.0.as_str(), good.1.size), ("good", 7));
            prop_assert_eq!(found.blobs.len() as u64 + found.unreadable, 2);
            prop_assert!(found.blobs.iter().all(|(_, blob)| i64::try_from(blob.size).is_ok()));
        }

        #[test]
        fn a_cut_page_is_never_a_short_list(cut in 0usize..400) {
            let body = page("<Blob><Name>a</Name></Blob><Blob><Name>b</Name></Blob>", "x");
            let cut = cut.min(body.len() - 1);
            if let Some(start) = body.get(..cut) {
                prop_assert!(parse(start.as_bytes()).is_err());
            }
        }

        #[test]
        fn any_bytes_are_survived(body in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&body);
        }

        #[test]
        fn any_elements_are_survived(body in "(<(/)?(Blob|Name|Blobs|Metadata|Properties|Etag|BlobPrefix)( Encoded=\"true\")?(/)?>|&[a-z#0-9]{1,4};|[a-z%]){0,60}") {
            let _ = parse(page(&body, "").as_bytes());
        }

        #[test]
        fn any_name_is_kept(name in "[^<>&\r]{1,40}") {
            let body = page(&format!("<Blob><Name>{name}</Name></Blob>"), "");
            prop_assert_eq!(&parse(body.as_bytes()).unwrap().blobs[0].0, &name);
        }
    }
}
