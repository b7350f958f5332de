//! Bytes of a blob or block: shared, never copied, or made up from a pattern.

use bytes::Bytes;
use std::ops::Range;
use std::sync::LazyLock;

/// Made-up content repeats after this many bytes: not a power of two, so that a wrong offset shows.
const PATTERN: usize = (8 << 20) - 4096 + 1;

/// Largest piece that is handed on at once.
pub const PIECE: usize = 256 << 10;

static NOISE: LazyLock<Bytes> = LazyLock::new(|| crate::support::noise(7, PATTERN).into());

#[derive(Clone, Debug)]
enum Part {
    Bytes(Bytes),
    Synthetic(Range<u64>),
}

impl Part {
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Synthetic(range) => range.end - range.start,
        }
    }

    fn slice(&self, range: Range<u64>) -> Self {
        match self {
            Self::Bytes(bytes) => Self::Bytes(bytes.slice(index(range.start)..index(range.end))),
            Self::Synthetic(whole) => Self::Synthetic(whole.start + range.start..whole.start + range.end),
        }
    }

    /// The first piece of it.
    fn piece(&self) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes.slice(..bytes.len().min(PIECE)),
            Self::Synthetic(range) => {
                let start = index(range.start % PATTERN as u64);
                let length = index(self.len()).min(PIECE).min(PATTERN - start);
                NOISE.slice(start..start + length)
            }
        }
    }
}

fn index(at: u64) -> usize {
    usize::try_from(at).expect("a size of this machine")
}

/// A sequence of bytes.
#[derive(Clone, Debug, Default)]
pub struct Content {
    parts: Vec<Part>,
    size: u64,
}

impl Content {
    /// Made-up bytes.
    pub fn synthetic(range: Range<u64>) -> Self {
        let mut content = Self::default();
        content.push(Part::Synthetic(range));
        content
    }

    fn push(&mut self, part: Part) {
        if part.len() > 0 {
            self.size += part.len();
            self.parts.push(part);
        }
    }

    /// These bytes after those that are there.
    pub fn push_bytes(&mut self, bytes: Bytes) {
        self.push(Part::Bytes(bytes));
    }

    /// All of `other` after what is there.
    pub fn append(&mut self, other: &Self) {
        other.parts.iter().for_each(|part| self.push(part.clone()));
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// A part of it; `range` must lie within.
    pub fn slice(&self, range: Range<u64>) -> Self {
        let (mut content, mut at) = (Self::default(), 0);
        for part in &self.parts {
            let (start, end) = (range.start.max(at), range.end.min(at + part.len()));
            if start < end {
                content.push(part.slice(start - at..end - at));
            }
            at += part.len();
        }
        content
    }

    /// Its bytes, a piece at a time.
    pub fn pieces(self) -> impl Iterator<Item = Bytes> + Send {
        let mut parts = self.parts.into_iter();
        let mut part = parts.next();
        std::iter::from_fn(move || {
            let current = part.take()?;
            let piece = current.piece();
            let sent = piece.len() as u64;
            part = if sent < current.len() { Some(current.slice(sent..current.len())) } else { parts.next() };
            Some(piece)
        })
    }

    pub fn to_vec(&self) -> Vec<u8> {
        self.clone().pieces().flatten().collect()
    }
}
