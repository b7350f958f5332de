//! Reading a partly staged file: what it has from its stage file, the rest from wherever its base is now.

use super::Partial;
use crate::data::reader::{Reader, Source};
use crate::data::streams::Streams;
use crate::error::{Error, Kind, Result};
use crate::tier::Tier;
use crate::types::{Key, Version};
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;

/// So often a read looks for where its base has moved to.
const MOVES: usize = 3;

/// A place that has what is missing, if it still is in this version.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Where.
    pub tier: Arc<dyn Tier>,
    /// Under which key.
    pub key: Key,
    /// In which version.
    pub version: Version,
}

/// Says where the base of a file may be now, the likeliest first.
pub type Candidates = Arc<dyn Fn(&Partial) -> Result<Vec<Candidate>> + Send + Sync>;

/// See the module.
pub struct Patched {
    partial: Arc<Partial>,
    streams: Arc<Streams>,
    candidates: Candidates,
    reader: Mutex<Option<Arc<Reader>>>,
}

impl std::fmt::Debug for Patched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Patched").field("partial", &self.partial).finish_non_exhaustive()
    }
}

impl Patched {
    /// Reads `partial` with the rest from where `candidates` says.
    #[must_use]
    pub fn new(partial: Arc<Partial>, streams: Arc<Streams>, candidates: Candidates) -> Self {
        Self { partial, streams, candidates, reader: Mutex::default() }
    }

    /// What is staged of it.
    #[must_use]
    pub fn partial(&self) -> &Arc<Partial> {
        &self.partial
    }

    /// Reads at `offset` if all of it is in the stage file.
    #[must_use]
    pub fn try_read(&self, offset: u64, buffer: &mut [u8]) -> Option<Result<usize>> {
        let range = offset..offset.saturating_add(buffer.len() as u64);
        self.partial.missing(&range).is_empty().then(|| self.partial.read_at(offset, buffer))
    }

    /// Reads `len` bytes at `offset`, fewer only at the end; waits for what must be fetched.
    ///
    /// # Errors
    /// [`Kind::Stale`] if the base is gone from every tier; else as the tiers say.
    pub async fn read(&self, offset: u64, len: usize) -> Result<Bytes> {
        let mut buffer = BytesMut::zeroed(len);
        let missing = self.partial.missing(&(offset..offset.saturating_add(len as u64)));
        for gap in missing {
            let bytes = self.fetch(&gap).await?;
            let at = (gap.start - offset) as usize;
            buffer[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        let partial = self.partial.clone();
        let read = self.streams.runtime.spawn_blocking(move || overlay(&partial, offset, buffer));
        read.await.map_err(|error| Error::new(Kind::Interrupted, "a read was cut off").with_source(error))?
    }

    async fn fetch(&self, gap: &Range<u64>) -> Result<Bytes> {
        let mut gone = None;
        let mut failed = Error::new(Kind::Stale, "what was not written of this file is gone from its tier");
        for _ in 0..MOVES {
            let Some(reader) = self.reader(gone.as_ref()).await? else { return Err(failed) };
            let len = usize::try_from(gap.end - gap.start).unwrap_or(usize::MAX);
            match reader.read(gap.start, len).await {
                Ok(bytes) if bytes.len() == len => return Ok(bytes),
                Ok(_) => {
                    let text = format!("{} is shorter than the file that began from it", reader.source().key);
                    return Err(Error::new(Kind::Corrupt, text));
                }
                Err(error) if error.kind() == Kind::Stale => (gone, failed) = (Some(reader), error),
                Err(error) => return Err(error),
            }
        }
        Err(failed)
    }

    /// A reader of the base; where it was `gone` from, it is looked for elsewhere.
    async fn reader(&self, gone: Option<&Arc<Reader>>) -> Result<Option<Arc<Reader>>> {
        let known = self.reader.lock().clone();
        if let Some(known) = known.filter(|known| gone.is_none_or(|gone| !Arc::ptr_eq(gone, known))) {
            return Ok(Some(known));
        }
        for candidate in (self.candidates)(&self.partial)? {
            let is_gone = gone.is_some_and(|gone| {
                let source = gone.source();
                (&source.key, &source.version) == (&candidate.key, &candidate.version)
            });
            if is_gone {
                continue;
            }
            if let Some(size) = self.size_of(&candidate).await? {
                let Candidate { tier, key, version } = candidate;
                let reader = Reader::open(Source { tier, key, version, size }, self.streams.clone(), None);
                *self.reader.lock() = Some(reader.clone());
                return Ok(Some(reader));
            }
        }
        Ok(None)
    }

    /// How long it is, if it is there. Readers of one version share what they fetch, so it must be right.
    async fn size_of(&self, candidate: &Candidate) -> Result<Option<u64>> {
        let base = self.partial.base();
        if (&candidate.key, &candidate.version) == (&base.key, &base.version)
            && candidate.tier.location() == base.location
        {
            return Ok(Some(base.size));
        }
        match candidate.tier.head(&candidate.key).await {
            Ok(object) => Ok((object.version == candidate.version).then_some(object.size)),
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Puts what is in the stage file by now over what was fetched, and ends where the file does.
fn overlay(partial: &Partial, offset: u64, mut buffer: BytesMut) -> Result<Bytes> {
    let size = partial.file().metadata()?.len();
    for range in partial.present(&(offset..offset + buffer.len() as u64)) {
        let (start, end) = ((range.start - offset) as usize, (range.end - offset) as usize);
        partial.read_at(range.start, &mut buffer[start..end])?;
    }
    buffer.truncate(usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX).min(buffer.len()));
    Ok(buffer.freeze())
}
