//! A tier in memory, for tests: flat keys with attributes and atomic conditions, as Blob has them.
//!
//! Directories exist by the names below them, or by a marker. Nothing survives the process.

mod upload;

use crate::clock::Clock;
use crate::error::{Error, Kind, Result};
use crate::tier::{
    Archive, ByteStream, Capabilities, Cursor, Entry, Object, Page, Resident, Special, Tier, Upload, Usage,
};
use crate::types::{Attrs, Condition, FileKind, Key, Timestamp, Version};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

const CHUNK: usize = 16 << 10;
const TOTAL: u64 = 1 << 40;
/// Extended attributes that one object can carry, as on Blob.
const ATTRIBUTES_MAX: usize = 8 << 10;

#[derive(Clone, Debug)]
struct Stored {
    kind: FileKind,
    bytes: Bytes,
    attrs: Attrs,
    version: u64,
    modified: Timestamp,
    rdev: u32,
}

impl Stored {
    fn version(&self) -> Version {
        Version::new(self.version.to_be_bytes())
    }

    fn object(&self) -> Object {
        let target = (self.kind == FileKind::Symlink).then(|| self.bytes.to_vec());
        Object {
            kind: self.kind,
            size: self.bytes.len() as u64,
            version: self.version(),
            modified: self.modified,
            attrs: self.attrs.clone(),
            target,
            rdev: self.rdev,
            native: None,
            archive: Archive::No,
        }
    }
}

#[derive(Debug)]
struct Shared {
    name: String,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<Key, Stored>,
    versions: u64,
}

/// See the module. Clones share their content.
#[derive(Clone, Debug)]
pub struct MemoryTier(Arc<Shared>);

impl MemoryTier {
    /// An empty tier.
    pub fn new(name: impl Into<String>, clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Shared { name: name.into(), clock, state: Mutex::default() }))
    }
}

impl State {
    fn check(&self, key: &Key, condition: &Condition) -> Result<()> {
        match (condition, self.objects.get(key)) {
            (Condition::Always, _) | (Condition::Absent, None) => Ok(()),
            (Condition::Absent, Some(_)) => Err(Kind::Exists.into()),
            (Condition::Matches(version), Some(found)) if *version == found.version() => Ok(()),
            (Condition::Matches(_), _) => Err(Kind::Changed.into()),
        }
    }

    /// Whether names lie below `key`.
    fn is_prefix(&self, key: &Key) -> bool {
        let below =
            self.objects.range(key.clone()..).take_while(|(at, _)| at.as_bytes().starts_with(key.as_bytes()));
        key.is_root() || below.skip_while(|(at, _)| *at == key).any(|(at, _)| at.is_under(key))
    }

    fn get(&self, key: &Key) -> Result<&Stored> {
        self.objects.get(key).ok_or_else(|| Kind::NotFound.into())
    }

    fn get_version(&self, key: &Key, version: &Version) -> Result<&Stored> {
        let found = self.get(key)?;
        if found.version() == *version { Ok(found) } else { Err(Kind::Changed.into()) }
    }
}

impl Shared {
    /// Stores `new` (whose version and time are filled in here) if `condition` holds.
    fn store(&self, key: &Key, new: Stored, condition: &Condition) -> Result<Version> {
        if key.is_root() {
            return Err(Kind::IsDirectory.into());
        }
        let mut state = self.state.lock();
        state.check(key, condition)?;
        state.versions += 1;
        let stored = Stored { version: state.versions, modified: self.clock.wall(), ..new };
        let version = stored.version();
        state.objects.insert(key.clone(), stored);
        Ok(version)
    }
}

fn regular(bytes: Bytes, attrs: &Attrs) -> Stored {
    fresh(FileKind::Regular, bytes, attrs, 0)
}

fn fresh(kind: FileKind, bytes: Bytes, attrs: &Attrs, rdev: u32) -> Stored {
    Stored { kind, bytes, attrs: attrs.clone(), version: 0, modified: Timestamp::default(), rdev }
}

#[async_trait]
impl Tier for MemoryTier {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn location(&self) -> String {
        format!("memory:{}", self.0.name)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            conditional: true,
            owner_and_mode: true,
            mtime_grain: Some(Duration::from_nanos(1)),
            symlinks: true,
            hard_links: false,
            xattrs: true,
            special_files: true,
            case_sensitive: true,
            any_name: true,
            empty_directories: true,
            writable: true,
            networked: false,
        }
    }

    fn can_carry(&self, attrs: &Attrs) -> bool {
        attrs.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() <= ATTRIBUTES_MAX
    }

    async fn probe(&self) -> Result<()> {
        Ok(())
    }

    async fn head(&self, key: &Key) -> Result<Object> {
        let state = self.0.state.lock();
        match state.get(key) {
            Err(error) if error.kind() == Kind::NotFound && state.is_prefix(key) => Ok(bare_directory()),
            found => Ok(found?.object()),
        }
    }

    async fn list(&self, dir: &Key, prefix: &[u8], from: Option<Cursor>, limit: usize) -> Result<Page> {
        let after = from.map(|cursor| unescape(&cursor)).transpose()?;
        let entries = entries(&self.0.state.lock(), dir, prefix)?;
        let mut left =
            entries.into_iter().filter(|(name, _)| after.as_ref().is_none_or(|after| name > after));
        let entries: Vec<Entry> =
            left.by_ref().take(limit.max(1)).map(|(name, object)| Entry { name, object }).collect();
        let more = left.next().is_some();
        let next = entries.last().filter(|_| more).map(|last| escape(&last.name));
        Ok(Page { entries, next, hidden: 0 })
    }

    async fn read(&self, key: &Key, range: Range<u64>, version: &Version) -> Result<ByteStream> {
        let bytes = self.0.state.lock().get_version(key, version)?.bytes.clone();
        let clip = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
        let (start, end) = (clip(range.start), clip(range.end));
        let mut rest = bytes.slice(start..end.max(start));
        let chunks =
            std::iter::from_fn(move || (!rest.is_empty()).then(|| Ok(rest.split_to(rest.len().min(CHUNK)))));
        Ok(futures::stream::iter(chunks).boxed())
    }

    async fn put(&self, key: &Key, bytes: Bytes, attrs: &Attrs, condition: &Condition) -> Result<Version> {
        self.0.store(key, regular(bytes, attrs), condition)
    }

    async fn put_special(
        &self,
        key: &Key,
        special: &Special,
        attrs: &Attrs,
        condition: &Condition,
    ) -> Result<Version> {
        let new = match special {
            Special::Directory => fresh(FileKind::Directory, Bytes::new(), attrs, 0),
            Special::Symlink(target) => fresh(FileKind::Symlink, Bytes::copy_from_slice(target), attrs, 0),
            Special::Node { kind, rdev } => fresh(*kind, Bytes::new(), attrs, *rdev),
        };
        self.0.store(key, new, condition)
    }

    async fn upload(&self, key: &Key, _size: u64) -> Result<Box<dyn Upload>> {
        Ok(Box::new(upload::MemoryUpload::new(self.clone(), key.clone())))
    }

    async fn delete(&self, key: &Key, condition: &Condition) -> Result<()> {
        let mut state = self.0.state.lock();
        state.get(key)?;
        state.check(key, condition)?;
        state.objects.remove(key);
        Ok(())
    }

    async fn copy(
        &self,
        from: &Key,
        version: &Version,
        to: &Key,
        attrs: &Attrs,
        condition: &Condition,
    ) -> Result<Version> {
        let source = self.0.state.lock().get_version(from, version)?.clone();
        self.0.store(to, Stored { attrs: attrs.clone(), ..source }, condition)
    }

    async fn set_attrs(&self, key: &Key, version: &Version, attrs: &Attrs) -> Result<Version> {
        let found = self.0.state.lock().get_version(key, version)?.clone();
        let condition = Condition::Matches(version.clone());
        self.0.store(key, Stored { attrs: attrs.clone(), ..found }, &condition)
    }

    async fn usage(&self) -> Result<Usage> {
        let used: u64 = self.0.state.lock().objects.values().map(|stored| stored.bytes.len() as u64).sum();
        Ok(Usage { total: TOTAL, free: TOTAL.saturating_sub(used), files: 0, files_free: 0 })
    }

    fn resident(&self) -> Option<&dyn Resident> {
        None
    }
}

/// The names one level below `dir`, in order; what only has names below it is a bare directory.
fn entries(state: &State, dir: &Key, prefix: &[u8]) -> Result<BTreeMap<Vec<u8>, Object>> {
    let depth = dir.components().count();
    let mut found = BTreeMap::new();
    for (key, stored) in
        state.objects.range(dir.clone()..).take_while(|(key, _)| key.as_bytes().starts_with(dir.as_bytes()))
    {
        let mut below = key.components().skip(depth);
        let Some(name) = below.next().filter(|_| key.is_under(dir)) else { continue };
        if !name.starts_with(prefix) || (dir.is_root() && name == b".tierfs") {
            continue;
        }
        if below.next().is_none() {
            found.insert(name.to_vec(), stored.object());
        } else {
            found.entry(name.to_vec()).or_insert_with(bare_directory);
        }
    }
    Ok(found)
}

fn bare_directory() -> Object {
    let mut object = fresh(FileKind::Directory, Bytes::new(), &Attrs::default(), 0).object();
    object.version = Version::new([]);
    object
}

fn escape(name: &[u8]) -> Cursor {
    use std::fmt::Write;
    let mut text = String::with_capacity(name.len() * 2);
    for byte in name {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
    }
    Cursor(text)
}

fn unescape(cursor: &Cursor) -> Result<Vec<u8>> {
    let bad = || Error::new(Kind::Invalid, "not a cursor of this tier");
    let digits = cursor.0.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return Err(bad());
    }
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(byte).collect::<Option<_>>().ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_round_trip() {
        for name in [&b"a"[..], b"\xff\x00/", "é".as_bytes()] {
            assert_eq!(unescape(&escape(name)).unwrap(), name);
        }
        for bad in ["a", "zz", "é"] {
            assert_eq!(unescape(&Cursor(bad.into())).unwrap_err().kind(), Kind::Invalid);
        }
    }
}
