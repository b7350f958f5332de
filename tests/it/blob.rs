//! The Blob tier against Azurite and our own server: what is stored, what other tools see, what is refused.

mod conditions;
mod contract;
mod differential;
mod emulator;
mod foreign;
mod names;
mod stored;
mod strict;
mod trouble;

use bytes::Bytes;
use emulator::Container;
use futures::TryStreamExt;
use std::ops::Range;
use tierfs::error::{Kind, Result};
use tierfs::tier::{Entry, Tier};
use tierfs::types::{Attrs, Condition, Key, Version};

fn key(path: impl AsRef<[u8]>) -> Key {
    Key::parse(path).expect("a key")
}

fn bytes(length: usize) -> Bytes {
    let pattern: Vec<u8> = (0..=250).collect();
    pattern.repeat(length / pattern.len() + 1)[..length].to_vec().into()
}

fn written_by(id: &str) -> Attrs {
    Attrs { write_id: Some(id.into()), ..Attrs::default() }
}

async fn put(tier: &dyn Tier, path: &str, content: &str) -> Version {
    let content = Bytes::from(content.to_owned());
    tier.put(&key(path), content, &Attrs::default(), &Condition::Always).await.expect("a put")
}

async fn read(tier: &dyn Tier, path: &str, range: Range<u64>, version: &Version) -> Result<Vec<u8>> {
    let parts: Vec<Bytes> = tier.read(&key(path), range, version).await?.try_collect().await?;
    Ok(parts.concat())
}

/// Reads what is there now.
async fn content(tier: &dyn Tier, path: &str) -> Vec<u8> {
    let object = tier.head(&key(path)).await.expect("an object");
    read(tier, path, 0..object.size, &object.version).await.expect("its bytes")
}

/// All entries of a directory in pages of `limit`, sorted, and how many names are hidden.
async fn list(tier: &dyn Tier, dir: &str, limit: usize) -> (Vec<Entry>, u64) {
    let (mut entries, mut hidden, mut cursor) = (Vec::new(), 0, None);
    loop {
        let page = tier.list(&key(dir), b"", cursor, limit).await.expect("a page");
        entries.extend(page.entries);
        hidden += page.hidden;
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    (entries, hidden)
}

fn names(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect()
}

fn kind<T>(result: Result<T>) -> Kind {
    match result {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error.kind(),
    }
}
