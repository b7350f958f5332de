//! The block cache: bytes of remote files in memory, bounded, least recently used out first.
//!
//! A block of [`BLOCK`] bytes is the unit of eviction; it holds the pieces that have arrived, as
//! they arrived (no copy), so a stream's bytes can be read while their part is still coming and
//! a random read keeps only what it asked for. Must not know where bytes come from.

use crate::tier::ContentId;
use bytes::Bytes;
use lru::LruCache;
use parking_lot::Mutex;
use std::ops::Range;

/// Unit of eviction.
pub const BLOCK: u64 = 1 << 20;

/// What a piece costs beside its bytes, so that tiny pieces can't go around the bound.
const PIECE_COST: u64 = 64;
const SHARD_MIN: u64 = 16 * BLOCK;
const SHARDS_MAX: u64 = 16;

type BlockKey = (ContentId, u64);

/// Bytes of remote files, shared by all readers of a mount.
#[derive(Debug)]
pub struct BlockCache {
    shards: Box<[Mutex<Shard>]>,
    shard_bytes: u64,
}

#[derive(Debug)]
struct Shard {
    blocks: LruCache<BlockKey, Block>,
    bytes: u64,
}

/// Pieces by offset in the file: sorted, disjoint.
#[derive(Debug, Default)]
struct Block {
    pieces: Vec<(u64, Bytes)>,
    cost: u64,
}

impl BlockCache {
    /// A cache that holds at most `bytes`.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        let count = (bytes / SHARD_MIN).clamp(1, SHARDS_MAX);
        let shard = || Mutex::new(Shard { blocks: LruCache::unbounded(), bytes: 0 });
        Self { shards: (0..count).map(|_| shard()).collect(), shard_bytes: bytes / count }
    }

    /// Adds bytes that arrived; what is there already is kept.
    pub fn insert(&self, file: ContentId, offset: u64, bytes: &Bytes) {
        for (index, range) in blocks(&(offset..offset + bytes.len() as u64)) {
            let piece = bytes.slice((range.start - offset) as usize..(range.end - offset) as usize);
            self.shard(file, index).lock().insert((file, index), range.start, &piece, self.shard_bytes);
        }
    }

    /// All of `range` in pieces, or `None` if some of it is missing.
    #[must_use]
    pub fn get(&self, file: ContentId, range: &Range<u64>) -> Option<Vec<Bytes>> {
        let mut found = Vec::new();
        let mut at = range.start;
        self.walk(file, range, |start, piece| {
            if start == at {
                at += piece.len() as u64;
                found.push(piece);
            }
        });
        (at == range.end).then_some(found)
    }

    /// The piece at the start of `range`, if it is there.
    #[must_use]
    pub fn first(&self, file: ContentId, range: &Range<u64>) -> Option<Bytes> {
        let (index, part) = blocks(range).next()?;
        let mut first = None;
        let shard = self.shard(file, index).lock();
        // A look without use: it must not make the block younger.
        shard.blocks.peek(&(file, index))?.walk(&part, &mut |start, piece| {
            if start == range.start {
                first = Some(piece);
            }
        });
        first
    }

    /// Copies what is there of `range` to its place in `buf`; answers what is missing.
    pub fn copy(&self, file: ContentId, range: &Range<u64>, buf: &mut [u8]) -> Vec<Range<u64>> {
        let mut pieces = Vec::new();
        self.walk(file, range, |start, piece| pieces.push((start, piece)));
        let mut gaps = Vec::new();
        let mut next = range.start;
        // The copy is made with no lock held.
        for (start, piece) in pieces {
            if next < start {
                gaps.push(next..start);
            }
            let at = (start - range.start) as usize;
            buf[at..at + piece.len()].copy_from_slice(&piece);
            next = start + piece.len() as u64;
        }
        if next < range.end {
            gaps.push(next..range.end);
        }
        gaps
    }

    /// What of `range` is not here.
    #[must_use]
    pub fn gaps(&self, file: ContentId, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut next = range.start;
        self.walk(file, range, |start, piece| {
            if next < start {
                gaps.push(next..start);
            }
            next = start + piece.len() as u64;
        });
        if next < range.end {
            gaps.push(next..range.end);
        }
        gaps
    }

    /// A stream has passed the blocks that end in `range`: they are the first to go.
    pub fn demote(&self, file: ContentId, range: &Range<u64>) {
        for index in range.start / BLOCK..range.end / BLOCK {
            self.shard(file, index).lock().blocks.demote(&(file, index));
        }
    }

    /// How much is held.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().bytes).sum()
    }

    fn shard(&self, file: ContentId, index: u64) -> &Mutex<Shard> {
        // Neighbouring blocks go to neighbouring shards, so a stream fills all of them evenly.
        let at = u64::from(file.0[0]).wrapping_add(index) % self.shards.len() as u64;
        &self.shards[at as usize]
    }

    /// Visits what is there of `range`, in order, clipped to it.
    fn walk(&self, file: ContentId, range: &Range<u64>, mut visit: impl FnMut(u64, Bytes)) {
        for (index, part) in blocks(range) {
            if let Some(block) = self.shard(file, index).lock().blocks.get(&(file, index)) {
                block.walk(&part, &mut visit);
            }
        }
    }
}

/// The blocks that `range` touches, each with its share of it.
fn blocks(range: &Range<u64>) -> impl Iterator<Item = (u64, Range<u64>)> + use<> {
    let range = range.clone();
    let last = if range.is_empty() { 0 } else { range.end.div_ceil(BLOCK) };
    (range.start / BLOCK..last).map(move |index| {
        (index, range.start.max(index * BLOCK)..range.end.min((index + 1).saturating_mul(BLOCK)))
    })
}

impl Shard {
    fn insert(&mut self, key: BlockKey, offset: u64, piece: &Bytes, limit: u64) {
        let block = self.blocks.get_or_insert_mut(key, Block::default);
        let before = block.cost;
        block.insert(offset, piece);
        self.bytes += block.cost - before;
        while self.bytes > limit
            && let Some((_, block)) = self.blocks.pop_lru()
        {
            self.bytes -= block.cost;
        }
    }
}

impl Block {
    /// The first piece that ends behind `offset`.
    fn position(&self, offset: u64) -> usize {
        self.pieces.partition_point(|(start, piece)| start + piece.len() as u64 <= offset)
    }

    fn insert(&mut self, mut offset: u64, bytes: &Bytes) {
        let end = offset + bytes.len() as u64;
        let first = offset;
        while offset < end {
            let at = self.position(offset);
            let (start, until) = match self.pieces.get(at) {
                Some((start, piece)) if *start < end => (*start, start + piece.len() as u64),
                _ => (end, end),
            };
            if offset < start {
                let new = bytes.slice((offset - first) as usize..(start - first) as usize);
                self.cost += new.len() as u64 + PIECE_COST;
                self.pieces.insert(at, (offset, new));
            }
            offset = until;
        }
    }

    fn walk(&self, range: &Range<u64>, visit: &mut impl FnMut(u64, Bytes)) {
        for (start, piece) in &self.pieces[self.position(range.start)..] {
            if *start >= range.end {
                break;
            }
            let from = range.start.max(*start);
            let to = range.end.min(start + piece.len() as u64);
            visit(from, piece.slice((from - start) as usize..(to - start) as usize));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    const FILE: ContentId = ContentId([7; 16]);

    fn content(range: Range<u64>) -> Bytes {
        static ALL: LazyLock<Bytes> =
            LazyLock::new(|| (0..4 * BLOCK).map(|at| (at / 251 + at) as u8).collect());
        ALL.slice(range.start as usize..range.end as usize)
    }

    #[test]
    fn pieces_are_found_across_blocks() {
        let cache = BlockCache::new(64 << 20);
        cache.insert(FILE, BLOCK - 100, &content(BLOCK - 100..BLOCK + 100));
        let got = cache.get(FILE, &(BLOCK - 50..BLOCK + 50)).unwrap().concat();
        assert_eq!(got, content(BLOCK - 50..BLOCK + 50));
        assert_eq!(cache.get(FILE, &(BLOCK..BLOCK + 101)), None);
        assert_eq!(cache.get(ContentId([8; 16]), &(BLOCK..BLOCK + 1)), None);
    }

    #[test]
    fn stays_within_its_bound_and_drops_what_was_passed_first() {
        let cache = BlockCache::new(8 * BLOCK);
        let block = Bytes::from(vec![1; BLOCK as usize]);
        for index in 0..7 {
            cache.insert(FILE, index * BLOCK, &block);
        }
        cache.demote(FILE, &(3 * BLOCK - 1..3 * BLOCK + 1));
        for index in 7..9 {
            cache.insert(FILE, index * BLOCK, &block);
            assert!(cache.bytes() <= 8 * BLOCK);
        }
        assert_eq!(
            cache.gaps(FILE, &(0..9 * BLOCK)),
            [0..BLOCK, 2 * BLOCK..3 * BLOCK],
            "block 2 was passed, block 0 is the oldest"
        );
    }

    #[test]
    fn tiny_pieces_can_not_go_around_the_bound() {
        let cache = BlockCache::new(1 << 20);
        for at in 0..40_000u64 {
            cache.insert(FILE, at * 4096, &Bytes::from_static(b"x"));
        }
        let pieces: usize = cache.shards[0].lock().blocks.iter().map(|(_, block)| block.pieces.len()).sum();
        assert!(pieces <= (1 << 20) / 64, "{pieces}");
    }

    proptest! {
        #[test]
        fn overlapping_inserts_keep_the_bytes(
            inserts in prop::collection::vec((0u64..3 * BLOCK, 0u64..BLOCK), 1..12),
            probe in (0u64..3 * BLOCK, 1u64..BLOCK),
        ) {
            let cache = BlockCache::new(64 << 20);
            let mut there = super::super::ranges::RangeSet::default();
            for (start, len) in inserts {
                cache.insert(FILE, start, &content(start..start + len));
                there.insert(start..start + len);
            }
            let probe = probe.0..probe.0 + probe.1;
            prop_assert_eq!(cache.gaps(FILE, &probe), there.gaps(&probe));
            let got = cache.get(FILE, &probe).map(|pieces| pieces.concat());
            let expected = there.contains(&probe).then(|| content(probe.clone()).to_vec());
            prop_assert!(got == expected);
        }
    }
}
