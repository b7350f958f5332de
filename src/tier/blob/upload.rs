//! An upload to Azure: blocks in any order, then one conditional commit that knows itself again.

use super::attributes::{self, Metadata};
use super::azrest::{Client, Failure, Listed, Outcome, Write};
use crate::error::{Error, Kind, Result};
use crate::tier::{ContentId, Upload};
use crate::types::blob::AccessTier;
use crate::types::{Attrs, Condition, Version};
use async_trait::async_trait;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

const MIB: u64 = 1024 * 1024;

/// Smallest block of a blob of many.
const BLOCK_MIN: u64 = 8 * MIB;

pub(super) use crate::tier::BLOCKS_MAX;

/// The size of the blocks of a blob of `size` bytes.
pub(super) fn block_size(size: u64) -> u64 {
    size.div_ceil(BLOCKS_MAX).max(BLOCK_MIN).next_multiple_of(MIB)
}

/// Bytes of a block id that tell it from others.
const ID: usize = 12;

/// Block ids of one upload: of one length, and no other upload's.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockIds {
    upload: [u8; 8],
    /// Bytes of an id: as many as the ids have with which it shares a list.
    length: usize,
}

impl BlockIds {
    pub(super) fn new() -> Self {
        Self { upload: rand::random(), length: ID }
    }

    /// The ids of every upload of `content`: whoever comes later finds the blocks again.
    fn of(content: ContentId) -> Self {
        let mut ids = [0; 8];
        ids.copy_from_slice(&content.0[..8]);
        Self { upload: ids, length: ID }
    }

    fn as_long_as(self, length: usize) -> Self {
        Self { length, ..self }
    }

    /// Which block has this id; `None`: another upload's.
    fn index(self, id: &str) -> Option<u64> {
        let bytes = BASE64_STANDARD.decode(id).ok()?;
        let index = bytes.get(..ID)?.strip_prefix(&self.upload)?.try_into().ok()?;
        let is_ours = bytes.len() == self.length && bytes[ID..].iter().all(|byte| *byte == 0);
        is_ours.then_some(())?;
        Some(u64::from(u32::from_be_bytes(index)))
    }

    /// The id of block `index`.
    pub(super) fn id(self, index: u32) -> String {
        let mut bytes = vec![0; self.length];
        bytes[..8].copy_from_slice(&self.upload);
        bytes[8..ID].copy_from_slice(&index.to_be_bytes());
        BASE64_STANDARD.encode(bytes)
    }
}

/// Waits for `sent`, a `write` of `size` bytes to `blob`; one whose reply was lost, and one that is sent again, is found
/// out by its write id.
///
/// # Errors
/// [`Kind::Exists`] / [`Kind::Changed`] if the condition does not hold.
pub(super) async fn recognised(
    client: &Client,
    blob: &str,
    write: Write<'_>,
    size: u64,
    sent: impl Future<Output = Outcome<Version>>,
) -> Outcome<Version> {
    let condition = write.condition;
    let failure = match sent.await {
        Ok(version) => return Ok(version),
        Err(failure) => failure,
    };
    let lost_blocks = failure.code == "InvalidBlockList" || failure.code == "InvalidBlobOrBlock";
    if !failure.outcome_unknown && !matches!(failure.kind, Kind::Exists | Kind::Changed) {
        return Err(as_condition(failure, condition));
    }
    let found = match client.head(blob).await {
        Ok(found) => Some(found),
        Err(head) if head.kind == Kind::NotFound => None,
        // Still unknown, and the first failure says more.
        Err(_) => return Err(failure),
    };
    // Some tools keep the metadata of what they overwrite: the size must fit too.
    if let (Some(found), Some(ours)) = (&found, write.metadata.get("tierfs_write_id"))
        && (found.metadata.get("tierfs_write_id"), found.size) == (Some(ours), size)
    {
        return Ok(Version::new(&found.etag));
    }
    if lost_blocks && holds(condition, found.as_ref().map(|found| found.etag.as_bytes())) {
        // Nobody is in the way: the blocks were dropped, by age or by another's commit that is gone again.
        return Err(Failure::new(Kind::Unavailable, "the blocks are gone; the upload must start again"));
    }
    Err(as_condition(failure, condition))
}

/// Writes all of a blob in one request, or, where blocks that an upload left uncommitted pass for a blob that is there, as a block and its list.
///
/// # Errors
/// As [`recognised`].
pub(super) async fn put_whole(
    client: &Client,
    blob: &str,
    bytes: Bytes,
    write: Write<'_>,
) -> Outcome<Version> {
    let size = bytes.len() as u64;
    let sent = client.put_blob(blob, bytes.clone(), write);
    let failure = match recognised(client, blob, write, size, sent).await {
        Err(failure) if failure.kind == Kind::Exists && *write.condition == Condition::Absent => failure,
        answer => return answer,
    };
    match client.head(blob).await {
        Err(head) if head.kind == Kind::NotFound => {}
        _ => return Err(failure),
    }
    let mut listed = Vec::new();
    if size > 0 {
        let id = BlockIds::new().id(0);
        client.put_block(blob, &id, bytes.clone()).await?;
        listed.push(Listed::Sent(id));
    }
    recognised(client, blob, write, size, client.put_block_list(blob, &listed, write)).await
}

fn holds(condition: &Condition, found: Option<&[u8]>) -> bool {
    match condition {
        Condition::Always => true,
        Condition::Absent => found.is_none(),
        Condition::Matches(version) if version.0.is_empty() => found.is_none(),
        Condition::Matches(version) => found == Some(&*version.0),
    }
}

/// The service has several words for a condition that does not hold.
fn as_condition(mut failure: Failure, condition: &Condition) -> Failure {
    failure.kind = match (failure.kind, condition) {
        (Kind::Changed, Condition::Absent) => Kind::Exists,
        (Kind::Exists | Kind::NotFound, Condition::Matches(_)) => Kind::Changed,
        (kind, _) => kind,
    };
    failure
}

/// What the blob is made of that the upload goes over.
#[derive(Debug, Default)]
struct There {
    /// Only as long as it is in this version.
    version: Option<Version>,
    blocks: Vec<(String, u64)>,
    /// Which of them are taken over, by the number of the new block.
    kept: BTreeMap<u64, usize>,
}

impl There {
    fn id(&self, index: u64) -> Option<&String> {
        Some(&self.blocks.get(*self.kept.get(&index)?)?.0)
    }
}

/// How long the ids of these blocks are, if ids of ours can be so.
fn id_length(blocks: &[(String, u64)]) -> Option<usize> {
    let lengths = || blocks.iter().map(|(id, _)| BASE64_STANDARD.decode(id).ok().map(|id| id.len()));
    let first = lengths().next()??;
    (first >= ID && lengths().all(|length| length == Some(first))).then_some(first)
}

/// See [`Upload`]. What fits into one block is kept and sent with the commit, in one request.
pub(super) struct AzureUpload {
    client: Arc<Client>,
    what: String,
    blob: String,
    ids: Mutex<BlockIds>,
    block_size: u64,
    one_block: bool,
    kept: Mutex<Option<Bytes>>,
    /// The blocks that are there to be named, and their sizes.
    sent: Mutex<BTreeMap<u64, u64>>,
    there: Mutex<There>,
    access_tier: Option<AccessTier>,
}

impl AzureUpload {
    /// An upload of about `size` bytes to `blob`; `what` is said in errors.
    pub(super) fn new(
        client: Arc<Client>,
        what: String,
        blob: String,
        size: u64,
        access_tier: Option<AccessTier>,
    ) -> Self {
        let block_size = block_size(size);
        let one_block = size <= block_size;
        let (ids, kept, sent) = (Mutex::new(BlockIds::new()), Mutex::new(None), Mutex::default());
        let there = Mutex::default();
        Self { client, what, blob, ids, block_size, one_block, kept, sent, there, access_tier }
    }

    fn id(&self, index: u64) -> Result<String> {
        let index = u32::try_from(index).ok().filter(|index| u64::from(*index) < BLOCKS_MAX);
        index.map(|index| self.ids.lock().id(index)).ok_or_else(|| {
            Error::new(Kind::Refused, format!("{}: a blob has at most {BLOCKS_MAX} blocks", self.what))
        })
    }

    async fn send(&self, index: u64, bytes: Bytes) -> Result<()> {
        let id = self.id(index)?;
        let size = bytes.len() as u64;
        let sent = match self.client.put_block(&self.blob, &id, bytes.clone()).await {
            Err(failure) if failure.code == "InvalidBlobOrBlock" => {
                self.be_as_long_as_others().await?;
                let again = self.id(index)?;
                if again == id {
                    return Err(failure.into_error(&self.what));
                }
                self.client.put_block(&self.blob, &again, bytes).await
            }
            sent => sent,
        };
        sent.map_err(|failure| failure.into_error(&self.what))?;
        self.sent.lock().insert(index, size);
        Ok(())
    }

    /// Blocks of one blob have ids of one length, whoever sent them.
    async fn be_as_long_as_others(&self) -> Result<()> {
        let listed = self.client.committed_blocks(&self.blob).await;
        let (_, blocks) = listed.map_err(|failure| failure.into_error(&self.what))?;
        if let Some(length) = id_length(&blocks) {
            self.ids.lock().length = length;
        }
        Ok(())
    }

    /// The size of blocks `0..blocks`. A list that names what was never sent would look like blocks that others dropped.
    fn size(&self, blocks: u64) -> Result<u64> {
        let (sent, kept) = (self.sent.lock(), self.kept.lock().as_ref().map(|bytes| bytes.len() as u64));
        let there = self.there.lock();
        let taken_over = |index| there.kept.get(&index).and_then(|at| Some(there.blocks.get(*at)?.1));
        let size_of = |index| {
            let first = kept.filter(|_| index == 0);
            first.or_else(|| sent.get(&index).copied()).or_else(|| taken_over(index))
        };
        (0..blocks).try_fold(0, |size, index| {
            let missing = || Error::new(Kind::Invalid, format!("{}: block {index} was not sent", self.what));
            Ok(size + size_of(index).ok_or_else(missing)?)
        })
    }

    fn listed(&self, index: u64) -> Result<Listed> {
        let kept = self.there.lock().id(index).cloned();
        Ok(match kept {
            Some(id) => Listed::Kept(id),
            None => Listed::Sent(self.id(index)?),
        })
    }

    /// An id says which bytes it stands for in one version only: others use the same ids again.
    fn still_there(&self, condition: &Condition) -> Result<()> {
        let there = self.there.lock();
        let expected = there.version.clone().map(Condition::Matches);
        if there.kept.is_empty() || expected.as_ref() == Some(condition) {
            return Ok(());
        }
        let text = format!("{}: the blocks to take over are of another version", self.what);
        Err(Error::new(Kind::Changed, text))
    }

    /// Commits with the given content type.
    pub(super) async fn finish(
        &self,
        blocks: u64,
        metadata: &Metadata,
        condition: &Condition,
        content_type: Option<&str>,
    ) -> Result<Version> {
        self.still_there(condition)?;
        let size = self.size(blocks)?;
        let kept = self.kept.lock().clone();
        let write = Write { metadata, condition, content_type, access_tier: self.access_tier };
        let whole = match (blocks, &kept) {
            (0, _) => Some(Bytes::new()),
            (1, Some(bytes)) => Some(bytes.clone()),
            _ => None,
        };
        let committed = if let Some(bytes) = whole {
            put_whole(&self.client, &self.blob, bytes, write).await
        } else {
            if let Some(bytes) = kept {
                self.send(0, bytes).await?;
            }
            let listed = (0..blocks).map(|index| self.listed(index)).collect::<Result<Vec<_>>>()?;
            let sent = self.client.put_block_list(&self.blob, &listed, write);
            recognised(&self.client, &self.blob, write, size, sent).await
        };
        committed.map_err(|failure| failure.into_error(&self.what))
    }
}

#[async_trait]
impl Upload for AzureUpload {
    fn block_size(&self) -> u64 {
        self.block_size
    }

    async fn resume(&self, content: ContentId) -> Result<BTreeMap<u64, u64>> {
        if self.one_block {
            return Ok(BTreeMap::new());
        }
        let ids = {
            let mut ids = self.ids.lock();
            *ids = BlockIds::of(content).as_long_as(ids.length);
            *ids
        };
        let listed = self.client.uncommitted_blocks(&self.blob).await;
        let listed = listed.map_err(|failure| failure.into_error(&self.what))?;
        let ours = listed.into_iter().filter_map(|(id, size)| Some((ids.index(&id)?, size)));
        let ours: BTreeMap<u64, u64> = ours.collect();
        self.sent.lock().clone_from(&ours);
        Ok(ours)
    }

    async fn blocks_there(&self, version: &Version) -> Result<Vec<u64>> {
        if self.one_block {
            return Ok(Vec::new());
        }
        let listed = self.client.committed_blocks(&self.blob).await;
        let (etag, blocks) = listed.map_err(|failure| failure.into_error(&self.what))?;
        let Some(length) = id_length(&blocks) else { return Ok(Vec::new()) };
        self.ids.lock().length = length;
        if etag.as_bytes() != &*version.0 {
            return Ok(Vec::new());
        }
        let sizes = blocks.iter().map(|(_, size)| *size).collect();
        *self.there.lock() = There { version: Some(version.clone()), blocks, kept: BTreeMap::new() };
        Ok(sizes)
    }

    fn keep_block(&self, index: u64, there: usize) {
        self.there.lock().kept.insert(index, there);
    }

    async fn put_block(&self, index: u64, bytes: Bytes) -> Result<()> {
        if index == 0 && self.one_block {
            *self.kept.lock() = Some(bytes);
            return Ok(());
        }
        self.send(index, bytes).await
    }

    async fn commit(&self, blocks: u64, attrs: &Attrs, condition: &Condition) -> Result<Version> {
        let metadata = attributes::regular(attrs).map_err(|error| error.context(&self.what))?;
        self.finish(blocks, &metadata, condition, None).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_grow_with_the_blob() {
        assert_eq!(block_size(0), 8 * MIB);
        assert_eq!(block_size(8 * MIB * BLOCKS_MAX), 8 * MIB);
        assert_eq!(block_size(8 * MIB * BLOCKS_MAX + 1), 9 * MIB);
        let largest = BLOCKS_MAX * 4000 * MIB;
        assert!(block_size(largest) <= 4000 * MIB && block_size(largest) * BLOCKS_MAX >= largest);
    }

    #[test]
    fn block_ids_have_one_length_and_one_owner() {
        let (ours, theirs) = (BlockIds::new(), BlockIds::new());
        let mut all: Vec<String> =
            [0, 1, 49_999].into_iter().flat_map(|index| [ours.id(index), theirs.id(index)]).collect();
        assert!(all.iter().all(|id| id.len() == 16));
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 6);
        assert_eq!(ours.index(&ours.id(49_999)), Some(49_999));
        for foreign in [theirs.id(1), ours.id(1)[..12].to_owned(), "no base64".to_owned()] {
            assert_eq!(ours.index(&foreign), None);
        }
    }

    #[test]
    fn refusals_are_told_by_what_was_expected() {
        let told = |kind, condition: &Condition| as_condition(Failure::new(kind, ""), condition).kind;
        let matches = Condition::Matches(Version::new("e"));
        assert_eq!(told(Kind::Changed, &Condition::Absent), Kind::Exists);
        assert_eq!(told(Kind::NotFound, &matches), Kind::Changed);
        assert_eq!(told(Kind::Changed, &matches), Kind::Changed);
        assert_eq!(told(Kind::Busy, &Condition::Always), Kind::Busy);
        assert!(
            holds(&matches, Some(b"e"))
                && !holds(&matches, Some(b"f"))
                && !holds(&Condition::Absent, Some(b"e"))
        );
    }
}
