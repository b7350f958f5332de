//! The bytes of a partly staged file on their way home: blocks that nobody wrote to are taken over from the version it began from, if
//! that lies under the target; of others what is missing is fetched while they are sent.

use crate::catalog::Replica;
use crate::data::{Candidate, Map, Partial};
use crate::error::{Error, Kind, Result, found};
use crate::mover::context::Context;
use crate::mover::jobs::subject::Target;
use crate::mover::jobs::{Flow, Halt, conflict};
use crate::tier::{BLOCKS_MAX, ContentId, Upload};
use crate::types::{Ino, Key, Version};
use bytes::Bytes;
use futures::StreamExt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// What the stage has of a sealed file.
#[derive(Debug)]
pub(crate) struct Patches {
    ino: Ino,
    partial: Arc<Partial>,
    map: Map,
    /// Where the rest is.
    base: OnceLock<Candidate>,
}

/// One block of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) range: Range<u64>,
    /// It is this block of what lies under the target.
    pub(crate) there: Option<usize>,
}

/// The blocks of a file that has all of its bytes.
pub(crate) fn even(size: u64, block: u64) -> Vec<Block> {
    let mut blocks = Vec::new();
    cut(&mut blocks, 0..size, block);
    blocks
}

fn cut(blocks: &mut Vec<Block>, range: Range<u64>, block: u64) {
    let mut at = range.start;
    while at < range.end {
        let end = range.end.min(at.saturating_add(block));
        blocks.push(Block { range: at..end, there: None });
        at = end;
    }
}

/// The blocks of a file that has what `map` says: those of `there` that nobody wrote to, and new ones between them. None if there would
/// be too many of them, or none to take over.
fn mixed(size: u64, block: u64, map: &Map, there: &[u64]) -> Option<Vec<Block>> {
    let mut blocks = Vec::new();
    let (mut at, mut sent_from, mut kept) = (0_u64, 0_u64, 0_usize);
    for (index, length) in there.iter().enumerate() {
        let range = at..at.checked_add(*length)?;
        at = range.end;
        // A small last block grows with what is appended, or every append would leave one more.
        let grows = index + 1 == there.len() && *length < block && size > at;
        if range.is_empty() || grows || !map.is_untouched(&range) {
            continue;
        }
        cut(&mut blocks, sent_from..range.start, block);
        sent_from = range.end;
        blocks.push(Block { range, there: Some(index) });
        kept += 1;
    }
    cut(&mut blocks, sent_from..size, block);
    let fits = at >= map.limit() && kept > 0 && blocks.len() as u64 <= BLOCKS_MAX;
    fits.then_some(blocks)
}

impl Patches {
    /// Fixes what the stage has of `replica`, durably.
    pub(crate) fn seal(context: &Context, replica: &Replica) -> Result<Self> {
        let partial = context.stores.open_partial(replica)?;
        partial.sync()?;
        let ino = replica.ino.ok_or(Kind::Corrupt)?;
        let map = partial.map();
        Ok(Self { ino, partial, map, base: OnceLock::new() })
    }

    /// The blocks of the upload, the taken over ones told to it.
    pub(crate) async fn plan(
        &self,
        context: &Context,
        size: u64,
        target: &Target,
        upload: &dyn Upload,
    ) -> Result<(Vec<Block>, Option<Version>)> {
        let block = upload.block_size().max(1);
        if let Some(version) = self.version_under(context, target)? {
            let there = upload.blocks_there(&version).await?;
            if let Some(blocks) = mixed(size, block, &self.map, &there) {
                return Ok((blocks, Some(version)));
            }
        }
        Ok((even(size, block), None))
    }

    /// The version that lies under the target, if it has what is missing.
    fn version_under(&self, context: &Context, target: &Target) -> Result<Option<Version>> {
        let Some(version) = target.row.as_ref().and_then(|row| row.version.clone()) else { return Ok(None) };
        let is_it = |candidate: &Candidate| {
            candidate.tier.location() == target.tier.location()
                && (&candidate.key, &candidate.version) == (&target.key, &version)
        };
        Ok(self.candidates(context)?.iter().any(is_it).then_some(version))
    }

    fn candidates(&self, context: &Context) -> Result<Vec<Candidate>> {
        let mut candidates = Vec::new();
        for row in context.catalog.bases(self.ino, self.map.bases())? {
            if let (Some(tier), Some(version)) = (context.tiers.get(&row.tier), row.version) {
                candidates.push(Candidate { tier: Arc::clone(tier), key: row.key, version });
            }
        }
        let base = self.partial.base();
        let first = context.tiers.values().find(|tier| tier.location() == base.location);
        candidates.extend(first.map(|tier| Candidate {
            tier: Arc::clone(tier),
            key: base.key.clone(),
            version: base.version.clone(),
        }));
        Ok(candidates)
    }

    /// Finds where to fetch what is missing of `blocks`, if anything is.
    ///
    /// # Errors
    /// [`Kind::Stale`] if no tier has it any more.
    pub(crate) async fn find_base(&self, context: &Context, blocks: &[Block]) -> Result<()> {
        let is_short = |block: &Block| block.there.is_none() && !self.map.missing(&block.range).is_empty();
        if self.base.get().is_some() || !blocks.iter().any(is_short) {
            return Ok(());
        }
        for candidate in self.candidates(context)? {
            let object = found(candidate.tier.head(&candidate.key).await)?;
            if object.is_some_and(|object| object.version == candidate.version) {
                // Another that was found meanwhile is as good.
                let _ = self.base.set(candidate);
                return Ok(());
            }
        }
        let base = self.partial.base();
        Err(Error::new(
            Kind::Stale,
            format!(
                "{} of its bytes were to come from {} at {}, which was changed or deleted there: they are gone; what was written here is kept on the stage",
                self.map.missing_bytes(),
                base.key,
                base.location
            ),
        ))
    }

    /// Puts what is missing of `range` over what the stage file has there.
    pub(crate) async fn patch(&self, range: &Range<u64>, bytes: &mut [u8]) -> Result<()> {
        let gaps = self.map.missing(range);
        let (Some(first), Some(last)) = (gaps.first(), gaps.last()) else { return Ok(()) };
        let hull = first.start..last.end;
        let base = self.base.get().ok_or_else(|| Error::new(Kind::Corrupt, "nobody looked for the base"))?;
        let fetched = fetch(base, hull.clone()).await?;
        for gap in gaps {
            let (from, to) = (offset(&hull, &gap)?, offset(range, &gap)?);
            bytes[to].copy_from_slice(&fetched[from]);
        }
        Ok(())
    }

    /// Equal for every attempt that cuts the file into the same blocks, and for no other.
    pub(crate) fn content(
        &self,
        sealed: ContentId,
        key: &Key,
        blocks: &[Block],
        over: Option<&Version>,
    ) -> ContentId {
        let mut plan = sealed.0.to_vec();
        for block in blocks {
            plan.extend_from_slice(&block.range.end.to_le_bytes());
            plan.push(u8::from(block.there.is_some()));
        }
        plan.extend(over.iter().flat_map(|version| version.0.iter().copied()));
        ContentId::of("partial", key, &Version::new(plan))
    }
}

fn offset(of: &Range<u64>, range: &Range<u64>) -> Result<Range<usize>> {
    let at = |offset: u64| {
        usize::try_from(offset - of.start)
            .map_err(|error| Error::new(Kind::Invalid, "a block does not fit into memory").with_source(error))
    };
    Ok(at(range.start)?..at(range.end)?)
}

/// All of `range`, or an error.
async fn fetch(base: &Candidate, range: Range<u64>) -> Result<Bytes> {
    let length = range.end - range.start;
    let moved = |error: Error| match error.kind() {
        // The next attempt finds out where to, or that it is gone.
        Kind::Changed | Kind::NotFound => {
            Error::new(Kind::Unavailable, format!("{} moved while it was read", base.key)).with_source(error)
        }
        _ => error,
    };
    let mut stream = base.tier.read(&base.key, range, &base.version).await.map_err(moved)?;
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    while let Some(part) = stream.next().await {
        bytes.extend_from_slice(&part.map_err(moved)?);
    }
    if bytes.len() as u64 == length {
        return Ok(bytes.into());
    }
    Err(Error::new(Kind::Unavailable, format!("{}: the answer was cut short", base.key)))
}

/// The rest of a file is gone: if that is because somebody changed what it was to replace, both are kept, as with every conflict, and
/// what is here of ours stays under its new name. There, nothing but a person can say what is to become of it.
pub(crate) async fn base_is_gone(
    context: &Arc<Context>,
    inode: &crate::catalog::Inode,
    target: &Target,
    error: Error,
) -> Halt {
    match keep_both(context, inode, target).await {
        Ok(true) => Halt::Again,
        Ok(false) => blocked(error),
        Err(halt) => halt,
    }
}

async fn keep_both(context: &Arc<Context>, inode: &crate::catalog::Inode, target: &Target) -> Flow<bool> {
    let Some(known) = target.row.as_ref().and_then(|row| row.version.clone()) else { return Ok(false) };
    match found(target.tier.head(&target.key).await)? {
        Some(object) if object.version != known => {
            conflict::resolve(context, inode, target, object).await?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// It is of no use to try again.
pub(crate) fn blocked(error: Error) -> Halt {
    Halt::Failed(Error::new(Kind::Corrupt, "it can't be committed").with_source(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::partial::Record;
    use crate::types::Generation;
    use proptest::prelude::*;

    fn map(size: u64, written: &[(u64, u64)]) -> Map {
        let mut map = Map::new(size, Generation(1));
        written.iter().for_each(|(start, end)| map.apply(Record::Present(*start, *end)));
        map
    }

    #[test]
    fn a_touched_block_is_sent_and_its_neighbours_are_not() {
        let blocks = mixed(30, 10, &map(30, &[(12, 13)]), &[10, 10, 10]).unwrap();
        let made = |range, there| Block { range, there };
        assert_eq!(blocks, [made(0..10, Some(0)), made(10..20, None), made(20..30, Some(2))]);
    }

    #[test]
    fn an_append_grows_a_small_last_block_and_follows_a_full_one() {
        let kept = |there: &[u64]| {
            let blocks = mixed(25, 10, &map(24, &[]), there).unwrap();
            blocks.iter().map(|one| (one.range.clone(), one.there.is_some())).collect::<Vec<_>>()
        };
        assert_eq!(kept(&[10, 10, 4]), [(0..10, true), (10..20, true), (20..25, false)]);
        assert_eq!(kept(&[10, 14]), [(0..10, true), (10..24, true), (24..25, false)]);
    }

    #[test]
    fn nothing_is_mixed_where_nothing_is_saved_or_the_list_would_be_too_long() {
        assert_eq!(mixed(30, 10, &map(30, &[(0, 30)]), &[10, 10, 10]), None);
        assert_eq!(mixed(30, 10, &map(30, &[]), &[]), None);
        assert_eq!(mixed(30, 10, &map(30, &[]), &[10, 10]), None, "a list of something shorter");
        let many = vec![1; 60_000];
        assert_eq!(mixed(60_000, 10, &map(60_000, &[]), &many), None);
    }

    proptest! {
        #[test]
        fn the_blocks_make_up_the_file(
            there in prop::collection::vec(0..20_u64, 0..12),
            written in prop::collection::vec((0..150_u64, 0..9_u64), 0..6),
            cut in 0..200_u64,
            size in 0..200_u64,
            block in 1..12_u64,
        ) {
            let base: u64 = there.iter().sum();
            let written: Vec<_> = written.into_iter().map(|(at, length)| (at, at + length)).collect();
            let mut map = map(base, &written);
            map.apply(Record::Cut(cut.min(size)));
            let Some(blocks) = mixed(size, block, &map, &there) else { return Ok(()) };
            let mut at = 0;
            for one in blocks {
                prop_assert_eq!(one.range.start, at);
                prop_assert!(!one.range.is_empty());
                at = one.range.end;
                match one.there {
                    Some(index) => {
                        let start: u64 = there[..index].iter().sum();
                        prop_assert_eq!(&one.range, &(start..start + there[index]));
                        prop_assert!(map.is_untouched(&one.range));
                    }
                    None => prop_assert!(one.range.end - one.range.start <= block),
                }
            }
            prop_assert_eq!(at, size);
        }
    }
}
