//! The map of a partly staged file on disk: only ever appended to, and believed as far as it must be true.
//!
//! # Disk format
//! `<stage key>.map`: one line of JSON ([`Head`]), then records of 32 bytes: kind, two numbers, and a check sum over them, the record's
//! number and the head's salt; all little-endian. The first record that does not check ends it.
//!
//! # What is believed
//! Bytes are written before the record that speaks of them, so what died with the daemon leaves no record without bytes: the page cache
//! keeps both. A restart of the machine may keep a record and lose its bytes. So records made before a restart count
//! up to those that [`Record::Synced`] vouches for, which is written after the bytes were synced; what the others speak of is as in the
//! base again, as any write that was not synced may be after a power loss.

use super::map::{Map, Record};
use crate::data::read::read_full;
use crate::error::{Error, Kind, Result};
use crate::types::{Generation, Key, Version};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::os::unix::fs::FileExt;

const VERSION: u32 = 1;
const RECORD: usize = 32;
/// Longest head that anything of ours writes.
const HEAD_MAX: usize = 16 << 10;
/// Records read at a time.
const READ_AT_ONCE: usize = 4096;

/// The version of a file that a partly staged one began from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Location of its tier.
    pub location: String,
    /// Its key there.
    pub key: Key,
    /// In which version.
    pub version: Version,
    /// How long that is.
    pub size: u64,
    /// Which generation of the file.
    pub generation: Generation,
}

/// First line of a map.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    v: u32,
    location: String,
    key: String,
    version: String,
    size: u64,
    generation: Generation,
    /// The records were made since the start of the machine that has this id.
    boot: String,
    salt: u64,
}

impl Head {
    fn new(base: &Base, boot: &str) -> Self {
        Self {
            v: VERSION,
            location: base.location.clone(),
            key: BASE64_STANDARD.encode(base.key.as_bytes()),
            version: BASE64_STANDARD.encode(&base.version.0),
            size: base.size,
            generation: base.generation,
            boot: boot.to_owned(),
            salt: rand::random(),
        }
    }

    fn base(&self) -> Result<Base> {
        let decode = |text: &str| {
            let odd = |error| Error::new(Kind::Corrupt, "not the map of a staged file").with_source(error);
            BASE64_STANDARD.decode(text).map_err(odd)
        };
        Ok(Base {
            location: self.location.clone(),
            key: Key::parse(decode(&self.key)?)?,
            version: Version::new(decode(&self.version)?),
            size: self.size,
            generation: self.generation,
        })
    }
}

/// A map and the file that it is written to.
#[derive(Debug)]
pub(in crate::data) struct Log {
    file: File,
    map: Map,
    salt: u64,
    /// Where the records begin.
    start: u64,
    records: u64,
    /// So many there are up to the last that speaks of bytes.
    last: u64,
    /// Of so many it is known that their bytes are durable.
    synced: u64,
    /// What must be written before anything that may come after it.
    owed: Vec<Record>,
}

/// What a map file says.
pub(in crate::data) struct Read {
    pub base: Base,
    pub map: Map,
    /// All of it was made since this start of the machine, so that it can be gone on with.
    pub is_current: bool,
    /// A restart of the machine took what was written, and nothing of it was ever synced.
    pub is_torn: bool,
    salt: u64,
    start: u64,
    records: u64,
    synced: u64,
}

/// The bytes of a new map file: `map`, of which all is durable.
pub(in crate::data) fn written(base: &Base, map: &Map, boot: &str) -> Result<Vec<u8>> {
    let head = Head::new(base, boot);
    let mut bytes = serde_json::to_vec(&head)
        .map_err(|error| Error::new(Kind::Corrupt, "write the map of a staged file").with_source(error))?;
    bytes.push(b'\n');
    let mut records = map.records(base.size);
    records.push(Record::Synced(records.len() as u64));
    for (index, record) in records.into_iter().enumerate() {
        bytes.extend_from_slice(&encode(head.salt, index as u64, record));
    }
    Ok(bytes)
}

/// Reads a map file as far as it is to be believed now.
///
/// # Errors
/// [`Kind::Corrupt`] if it is none, [`Kind::Unsupported`] if it is of a later version.
pub(in crate::data) fn read(file: &File, boot: &str) -> Result<Read> {
    let (head, start) = read_head(file)?;
    let base = head.base()?;
    let is_current = head.boot == boot;
    let mut read = Read {
        map: Map::new(base.size, base.generation),
        base,
        is_current,
        is_torn: false,
        salt: head.salt,
        start,
        records: 0,
        synced: 0,
    };
    let mut unsure = Vec::new();
    let mut buffer = vec![0; READ_AT_ONCE * RECORD];
    loop {
        let bytes = read_full(file, start + read.records * RECORD as u64, &mut buffer)?;
        for bytes in buffer[..bytes].chunks_exact(RECORD) {
            let Some(record) = decode(read.salt, read.records, bytes) else {
                return Ok(end(read, unsure));
            };
            match record {
                Record::Synced(count) => {
                    let sure = unsure.partition_point(|(index, _)| *index < count);
                    unsure.drain(..sure).for_each(|(_, record)| read.map.apply(record));
                    read.synced = read.synced.max(count);
                }
                _ => unsure.push((read.records, record)),
            }
            read.records += 1;
        }
        if bytes < buffer.len() {
            return Ok(end(read, unsure));
        }
    }
}

fn end(mut read: Read, unsure: Vec<(u64, Record)>) -> Read {
    read.is_torn = !read.is_current && !unsure.is_empty() && read.synced == 0;
    if read.is_current {
        unsure.into_iter().for_each(|(_, record)| read.map.apply(record));
    }
    read
}

fn read_head(file: &File) -> Result<(Head, u64)> {
    let odd = || Error::new(Kind::Corrupt, "not the map of a staged file");
    let mut bytes = vec![0; HEAD_MAX];
    let count = read_full(file, 0, &mut bytes)?;
    let end = bytes[..count].iter().position(|byte| *byte == b'\n').ok_or_else(odd)?;
    let head: Head = serde_json::from_slice(&bytes[..end]).map_err(|error| odd().with_source(error))?;
    if head.v != VERSION {
        let text = format!("the map of a staged file is of version {}; this program reads {VERSION}", head.v);
        return Err(Error::new(Kind::Unsupported, text));
    }
    Ok((head, end as u64 + 1))
}

impl Log {
    /// Goes on with what was `read` from `file`.
    pub fn new(file: File, read: Read) -> Self {
        let Read { map, salt, start, records, synced, .. } = read;
        Self { file, map, salt, start, records, last: records, synced, owed: Vec::new() }
    }

    pub fn map(&self) -> &Map {
        &self.map
    }

    /// So many records speak of bytes that were written by now.
    pub fn spoken(&self) -> u64 {
        self.last
    }

    /// Writes down what is true already; a file system without room for it owes it, and takes nothing else before.
    pub fn must(&mut self, record: Record) -> Result<()> {
        if self.map.is_news(record) {
            self.map.apply(record);
            self.owed.push(record);
        }
        self.settle()
    }

    /// Writes down what becomes true with this.
    pub fn add(&mut self, record: Record) -> Result<()> {
        self.settle()?;
        if self.map.is_news(record) {
            self.append(record)?;
            self.map.apply(record);
        }
        Ok(())
    }

    /// Writes what is owed.
    pub fn settle(&mut self) -> Result<()> {
        while let Some(record) = self.owed.first().copied() {
            self.append(record)?;
            self.owed.remove(0);
        }
        Ok(())
    }

    /// The bytes that the first `records` records speak of are durable; so are the records after this.
    pub fn vouch(&mut self, records: u64) -> Result<()> {
        if records > self.synced {
            self.append(Record::Synced(records))?;
            self.file.sync_all()?;
            self.synced = records;
        }
        Ok(())
    }

    fn append(&mut self, record: Record) -> Result<()> {
        let bytes = encode(self.salt, self.records, record);
        // A record that was cut off is written over by the next.
        self.file.write_all_at(&bytes, self.start + self.records * RECORD as u64)?;
        self.records += 1;
        if !matches!(record, Record::Synced(_)) {
            self.last = self.records;
        }
        Ok(())
    }
}

fn numbers(record: Record) -> [u64; 3] {
    match record {
        Record::Present(start, end) => [1, start, end],
        Record::Cut(size) => [2, size, 0],
        Record::Base(generation) => [3, generation.0, 0],
        Record::Synced(records) => [4, records, 0],
    }
}

fn encode(salt: u64, index: u64, record: Record) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    for (at, number) in numbers(record).into_iter().enumerate() {
        bytes[at * 8..at * 8 + 8].copy_from_slice(&number.to_le_bytes());
    }
    let check = check(salt, index, &bytes[..24]);
    bytes[24..].copy_from_slice(&check);
    bytes
}

fn decode(salt: u64, index: u64, bytes: &[u8]) -> Option<Record> {
    let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at * 8..at * 8 + 8)?.try_into().ok()?));
    if bytes.get(24..)? != check(salt, index, bytes.get(..24)?) {
        return None;
    }
    Some(match number(0)? {
        1 => Record::Present(number(1)?, number(2)?),
        2 => Record::Cut(number(1)?),
        3 => Record::Base(Generation(number(1)?)),
        4 => Record::Synced(number(1)?),
        _ => return None,
    })
}

fn check(salt: u64, index: u64, bytes: &[u8]) -> [u8; 8] {
    let mut hash = Sha256::new();
    hash.update(salt.to_le_bytes());
    hash.update(index.to_le_bytes());
    hash.update(bytes);
    let mut check = [0; 8];
    check.copy_from_slice(&hash.finalize()[..8]);
    check
}
