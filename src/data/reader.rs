//! A handle for reading one version of one object from a tier that is not resident.
//!
//! Readers of the same version share one feed, so what several of them want is fetched once.

use crate::data::feed::Feed;
use crate::data::fill::Fill;
use crate::data::streams::Streams;
use crate::error::Result;
use crate::tier::{ContentId, Tier};
use crate::types::{Key, Version};
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;

/// One version of one object.
#[derive(Clone, Debug)]
pub struct Source {
    /// Where it is.
    pub tier: Arc<dyn Tier>,
    /// Under which key.
    pub key: Key,
    /// In which version.
    pub version: Version,
    /// How long that version is.
    pub size: u64,
}

impl Source {
    pub(super) fn id(&self) -> ContentId {
        ContentId::of(&self.tier.location(), &self.key, &self.version)
    }
}

/// A handle for reading a [`Source`]. Dropped, it ends read-ahead; a fill under way is finished
/// in the background if there is room for one more, else given up.
#[derive(Debug)]
pub struct Reader {
    feed: Arc<Feed>,
}

impl Reader {
    /// Opens `source`; nothing is fetched before the first read. What is read also goes into `fill`,
    /// which from the first read on is completed in the background.
    #[must_use]
    pub fn open(source: Source, shared: Arc<Streams>, fill: Option<Fill>) -> Arc<Self> {
        let feed = shared.feed(source.id(), || Feed::new(source, Arc::clone(&shared)));
        feed.join(fill);
        Arc::new(Self { feed })
    }

    /// Answers from memory or from the fill's file, without waiting for the tier; `None`: it is not there
    /// yet, but has been asked for. May do a short read of a local file.
    #[must_use]
    pub fn try_read(&self, offset: u64, buf: &mut [u8]) -> Option<Result<usize>> {
        let range = self.clip(offset, buf.len());
        if range.is_empty() {
            return Some(Ok(0));
        }
        let buf = &mut buf[..(range.end - range.start) as usize];
        if self.feed.copy_present(&range, buf) {
            self.feed.note_hit(&range);
            return Some(Ok(self.answered(&range)));
        }
        self.feed.note_miss(&range);
        None
    }

    /// Reads `len` bytes at `offset`, fewer only at the end; waits until they have come in.
    ///
    /// # Errors
    /// `Stale` if this version is gone from its tier; else as the tier says.
    pub async fn read(&self, offset: u64, len: usize) -> Result<Bytes> {
        let range = self.clip(offset, len);
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let bytes = self.feed.read(&range).await?;
        self.answered(&range);
        Ok(bytes)
    }

    /// How long it is.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.feed.source().size
    }

    /// What it reads.
    #[must_use]
    pub fn source(&self) -> &Source {
        self.feed.source()
    }

    /// The fill that reads of it feed, whether it is complete or not.
    #[must_use]
    pub fn fill(&self) -> Option<Arc<Fill>> {
        self.feed.fill()
    }

    #[cfg(test)]
    pub(super) fn is_filling_from(&self, start: u64) -> bool {
        self.feed.is_filling_from(start)
    }

    fn clip(&self, offset: u64, len: usize) -> Range<u64> {
        let end = offset.saturating_add(len as u64).min(self.size());
        offset.min(end)..end
    }

    fn answered(&self, range: &Range<u64>) -> usize {
        let len = range.end - range.start;
        self.feed.streams().meters.read_bytes.add(len);
        len as usize
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.feed.leave();
    }
}
