//! Blocks and block lists.

use super::answer::Answer;
use super::blobs;
use super::content::Content;
use super::refusal::{self, Refusal};
use super::request::{Call, parse_range};
use super::store::Store;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::percent_decode_str;
use quick_xml::Reader;
use quick_xml::events::Event;
use std::fmt::Write as _;

const BLOCK_MAX: u64 = 4000 << 20;
const COMMITTED_MAX: usize = 50_000;
const STAGED_MAX: usize = 100_000;

pub fn put_block(store: &mut Store, call: &Call, body: Content) -> Result<Answer, Refusal> {
    call.check_name()?;
    let id = call.query("blockid").ok_or_else(refusal::invalid_query)?;
    let decoded = BASE64_STANDARD.decode(id).map_err(|_| refusal::invalid_query())?;
    if decoded.is_empty() || decoded.len() > 64 {
        return Err(refusal::invalid_query());
    }
    if body.size() > BLOCK_MAX {
        return Err(refusal::body_too_large());
    }
    let container = store.container(&call.container)?;
    let committed = container.blobs.get(&call.name).map_or(&[][..], |blob| &blob.blocks);
    let staged = container.staged.entry(call.name.clone()).or_default();
    // Ids of all blocks of one blob have one length.
    let known = staged.keys().next().or(committed.first().map(|(id, _)| id));
    if known.is_some_and(|known| known.len() != id.len()) {
        return Err(refusal::invalid_block());
    }
    if staged.len() >= STAGED_MAX {
        return Err(refusal::too_many_blocks());
    }
    staged.insert(id.to_owned(), body);
    Ok(Answer::empty(201))
}

pub fn put_block_from_url(store: &mut Store, call: &Call) -> Result<Answer, Refusal> {
    let url = call.header("x-ms-copy-source").ok_or_else(refusal::missing_header)?;
    let url = url::Url::parse(url).map_err(|_| refusal::invalid_header())?;
    let mut segments = url.path().trim_start_matches('/').splitn(3, '/').skip(1);
    let container = segments.next().unwrap_or_default().to_owned();
    let name = percent_decode_str(segments.next().unwrap_or_default()).decode_utf8_lossy().into_owned();
    let source = store.blob(&container, &name).map_err(|_| refusal::source_not_verified())?;
    if let Some(wanted) = call.header("x-ms-source-if-match")
        && wanted.trim_matches('"') != source.etag
    {
        return Err(refusal::source_condition_not_met());
    }
    if source.is_archived() {
        return Err(refusal::archived());
    }
    let size = source.content.size();
    let range = match call.header("x-ms-source-range") {
        None => 0..size,
        Some(text) => {
            parse_range(text, size).filter(|range| !range.is_empty()).ok_or_else(refusal::invalid_range)?
        }
    };
    let body = source.content.slice(range);
    put_block(store, call, body)
}

pub fn put_block_list(store: &mut Store, call: &Call, body: &Content) -> Result<Answer, Refusal> {
    let wanted = parse(&body.to_vec())?;
    if wanted.len() > COMMITTED_MAX {
        return Err(refusal::block_list_too_long());
    }
    let container = store.container(&call.container)?;
    let found = container.blobs.get(&call.name);
    blobs::check_write(call, found)?;
    let staged = container.staged.get(&call.name);
    let (mut content, mut blocks) = (Content::default(), Vec::with_capacity(wanted.len()));
    for (source, id) in wanted {
        let from_staged = || staged.and_then(|staged| staged.get(&id)).cloned();
        let from_committed = || {
            let blob = found?;
            let at = blob.blocks.iter().position(|(known, _)| *known == id)?;
            let start: u64 = blob.blocks[..at].iter().map(|(_, size)| size).sum();
            Some(blob.content.slice(start..start + blob.blocks[at].1))
        };
        let block = match source {
            Source::Committed => from_committed(),
            Source::Uncommitted => from_staged(),
            Source::Latest => from_staged().or_else(from_committed),
        };
        let block = block.ok_or_else(refusal::invalid_block_list)?;
        blocks.push((id, block.size()));
        content.append(&block);
    }
    blobs::replace(store, call, content, blocks)
}

pub fn get_block_list(store: &mut Store, call: &Call) -> Result<Answer, Refusal> {
    let kind = call.query("blocklisttype").unwrap_or("committed");
    let container = store.container(&call.container)?;
    let (blob, staged) = (container.blobs.get(&call.name), container.staged.get(&call.name));
    if blob.is_none() && staged.is_none() {
        return Err(refusal::blob_not_found());
    }
    let mut xml = "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>".to_owned();
    let mut section = |name: &str, blocks: &mut dyn Iterator<Item = (&String, u64)>| {
        let _ = write!(xml, "<{name}>");
        for (id, size) in blocks {
            let _ = write!(xml, "<Block><Name>{id}</Name><Size>{size}</Size></Block>");
        }
        let _ = write!(xml, "</{name}>");
    };
    if kind != "uncommitted" {
        let blocks = blob.into_iter().flat_map(|blob| &blob.blocks);
        section("CommittedBlocks", &mut blocks.map(|(id, size)| (id, *size)));
    }
    if kind != "committed" {
        let blocks = staged.into_iter().flatten();
        section("UncommittedBlocks", &mut blocks.map(|(id, content)| (id, content.size())));
    }
    let answer = Answer::text("application/xml", xml + "</BlockList>");
    Ok(match blob.filter(|blob| !blob.blocks.is_empty()) {
        Some(blob) => answer.with_etag(&blob.etag),
        None => answer,
    })
}

#[derive(Clone, Copy)]
enum Source {
    Committed,
    Uncommitted,
    Latest,
}

fn parse(body: &[u8]) -> Result<Vec<(Source, String)>, Refusal> {
    let text = std::str::from_utf8(body).map_err(|_| refusal::invalid_xml())?;
    let mut reader = Reader::from_str(text);
    let (mut list, mut source, mut saw_root) = (Vec::new(), None, false);
    loop {
        match reader.read_event().map_err(|_| refusal::invalid_xml())? {
            Event::Start(element) => match element.local_name().as_ref() {
                b"BlockList" => saw_root = true,
                b"Committed" => source = Some(Source::Committed),
                b"Uncommitted" => source = Some(Source::Uncommitted),
                b"Latest" => source = Some(Source::Latest),
                _ => return Err(refusal::invalid_xml()),
            },
            Event::Empty(element) if element.local_name().as_ref() == b"BlockList" => saw_root = true,
            Event::Text(text) => {
                if let Some(source) = source {
                    let id = text.decode().map_err(|_| refusal::invalid_xml())?.trim().to_owned();
                    list.push((source, id));
                }
            }
            Event::End(_) => source = None,
            Event::Eof if saw_root => return Ok(list),
            Event::Eof => return Err(refusal::invalid_xml()),
            _ => {}
        }
    }
}
