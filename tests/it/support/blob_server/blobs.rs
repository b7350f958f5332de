//! Whole blobs: put, get, delete, metadata, access tier.

use super::answer::Answer;
use super::content::Content;
use super::refusal::{self, Refusal};
use super::request::Call;
use super::store::{Blob, Store};
use std::time::SystemTime;

/// Most bytes of one Put Blob.
const PUT_MAX: u64 = 5000 << 20;

/// Whether `found` meets what a write asks for.
///
/// # Errors
/// The service's word for what is in the way.
pub fn check_write(call: &Call, found: Option<&Blob>) -> Result<(), Refusal> {
    if call.header("if-none-match") == Some("*") && found.is_some() {
        return Err(refusal::blob_exists());
    }
    match (call.header("if-match"), found) {
        (Some("*"), Some(_)) | (None, _) => {}
        (Some(wanted), Some(blob)) if is_etag(wanted, &blob.etag) => {}
        (Some(_), _) => return Err(refusal::condition_not_met()),
    }
    if found.is_some_and(|blob| blob.copying) {
        return Err(refusal::pending_copy());
    }
    if found.is_some_and(Blob::is_archived) { Err(refusal::archived()) } else { Ok(()) }
}

fn is_etag(text: &str, etag: &str) -> bool {
    text.trim_matches('"') == etag
}

/// The blob to read, of the wanted version.
///
/// # Errors
/// If there is none: then a wanted version counts first.
fn wanted<'a>(store: &'a mut Store, call: &Call) -> Result<&'a mut Blob, Refusal> {
    let blob = store.container(&call.container)?.blobs.get_mut(&call.name);
    let blob = blob.ok_or_else(|| match call.header("if-match") {
        Some(_) => refusal::condition_not_met(),
        None => refusal::blob_not_found(),
    })?;
    check_read(call, blob)?;
    Ok(blob)
}

fn check_read(call: &Call, blob: &Blob) -> Result<(), Refusal> {
    match call.header("if-match") {
        Some(wanted) if wanted != "*" && !is_etag(wanted, &blob.etag) => Err(refusal::condition_not_met()),
        _ => Ok(()),
    }
}

/// Makes `content` the blob.
pub fn replace(
    store: &mut Store,
    call: &Call,
    content: Content,
    blocks: Vec<(String, u64)>,
) -> Result<Answer, Refusal> {
    call.check_name()?;
    let metadata = call.metadata()?;
    let access_tier = access_tier(call)?;
    check_write(call, store.container(&call.container)?.blobs.get(&call.name))?;
    let snapshots = store.blob(&call.container, &call.name).map_or(0, |blob| blob.snapshots);
    let (etag, modified) = (store.next_etag(), SystemTime::now());
    let content_type =
        call.header("x-ms-blob-content-type").or_else(|| call.header("content-type")).unwrap_or("");
    let content_type = if content_type.is_empty() { "application/octet-stream" } else { content_type };
    let answer = Answer::written(201, &etag, modified);
    let blob = Blob {
        content,
        etag,
        modified,
        metadata,
        content_type: content_type.to_owned(),
        access_tier,
        rehydrating: None,
        snapshots,
        copying: false,
        blocks,
    };
    let container = store.container(&call.container)?;
    // Blocks that the new content does not name are gone.
    container.staged.remove(&call.name);
    container.blobs.insert(call.name.clone(), blob);
    Ok(answer)
}

fn access_tier(call: &Call) -> Result<Option<String>, Refusal> {
    match call.header("x-ms-access-tier") {
        None => Ok(None),
        Some(tier @ ("Hot" | "Cool" | "Cold" | "Archive")) => Ok(Some(tier.to_owned())),
        Some(_) => Err(refusal::invalid_header()),
    }
}

pub fn put(store: &mut Store, call: &Call, body: Content) -> Result<Answer, Refusal> {
    if call.header("x-ms-blob-type") != Some("BlockBlob") {
        return Err(refusal::invalid_header());
    }
    if body.size() > PUT_MAX {
        return Err(refusal::body_too_large());
    }
    replace(store, call, body, Vec::new())
}

pub fn get(store: &mut Store, call: &Call) -> Result<Answer, Refusal> {
    let blob = wanted(store, call)?;
    if blob.is_archived() {
        return Err(if blob.rehydrating.is_some() { refusal::rehydrating() } else { refusal::archived() });
    }
    let range = call.range(blob.content.size())?;
    Ok(Answer::blob(blob, range, true))
}

pub fn head(store: &mut Store, call: &Call) -> Result<Answer, Refusal> {
    let blob = wanted(store, call)?;
    Ok(Answer::blob(blob, None, false))
}

pub fn delete(store: &mut Store, call: &Call) -> Result<Answer, Refusal> {
    let found = wanted(store, call)?;
    if found.copying {
        return Err(refusal::pending_copy());
    }
    let snapshots = found.snapshots;
    if snapshots > 0 && call.header("x-ms-delete-snapshots").is_none() {
        return Err(refusal::snapshots_present());
    }
    if call.header("if-none-match") == Some("*") {
        return Err(refusal::condition_not_met());
    }
    let container = store.container(&call.container)?;
    container.blobs.remove(&call.name);
    container.staged.remove(&call.name);
    Ok(Answer::empty(202))
}

pub fn set_metadata(store: &mut Store, call: &Call) -> Result<Answer, Refusal> {
    let metadata = call.metadata()?;
    let etag = store.next_etag();
    let blob = wanted(store, call)?;
    if call.header("if-none-match") == Some("*") {
        return Err(refusal::condition_not_met());
    }
    check_write(call, Some(blob))?;
    (blob.metadata, blob.etag, blob.modified) = (metadata, etag, SystemTime::now());
    Ok(Answer::written(200, &blob.etag, blob.modified))
}

/// Does not change the ETag. Out of the archive it takes hours: here, until a test says that they are over.
pub fn set_tier(store: &mut Store, call: &Call) -> Result<Answer, Refusal> {
    let wanted = access_tier(call)?.ok_or_else(refusal::missing_header)?;
    let priority = call.header("x-ms-rehydrate-priority").unwrap_or("Standard").to_owned();
    if !matches!(priority.as_str(), "Standard" | "High") {
        return Err(refusal::invalid_header());
    }
    let blob = store.blob(&call.container, &call.name)?;
    if !blob.is_archived() || wanted == "Archive" {
        blob.access_tier = Some(wanted);
        return Ok(Answer::empty(200));
    }
    if blob.rehydrating.is_some() {
        return Err(refusal::rehydrating());
    }
    blob.rehydrating = Some(priority);
    Ok(Answer::empty(202))
}
