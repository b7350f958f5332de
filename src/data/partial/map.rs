//! Which bytes of a partly staged file are its own, and which are those of the version it began from. Pure.

use crate::data::ranges::RangeSet;
use crate::types::Generation;
use std::ops::Range;

/// One change of a [`Map`], as it is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// The bytes from the first to before the second offset are in the stage file.
    Present(u64, u64),
    /// The file was cut to this size: whatever comes behind it is in the stage file.
    Cut(u64),
    /// What is still missing is the same in this generation of the file, once home has it.
    Base(Generation),
    /// The bytes that the first so many records speak of are durable.
    Synced(u64),
}

/// Which bytes of a file are in its stage file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    present: RangeSet,
    /// From here on all is in the stage file.
    limit: u64,
    /// Generations that have what is missing.
    bases: Vec<Generation>,
}

impl Map {
    /// Of a file that has nothing of its own: all `size` bytes are those of `base`.
    #[must_use]
    pub fn new(size: u64, base: Generation) -> Self {
        Self { present: RangeSet::default(), limit: size, bases: vec![base] }
    }

    /// Takes a change in.
    pub fn apply(&mut self, record: Record) {
        match record {
            Record::Present(start, end) => self.present.insert(start..end.min(self.limit)),
            Record::Cut(size) => self.limit = self.limit.min(size),
            Record::Base(generation) => self.bases.push(generation),
            Record::Synced(_) => {}
        }
    }

    /// Whether `record` would say anything new.
    #[must_use]
    pub fn is_news(&self, record: Record) -> bool {
        match record {
            Record::Present(start, end) => !self.missing(&(start..end)).is_empty(),
            Record::Cut(size) => size < self.limit,
            Record::Base(generation) => !self.bases.contains(&generation),
            Record::Synced(_) => true,
        }
    }

    /// What of `range` is not in the stage file, in order.
    #[must_use]
    pub fn missing(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let end = range.end.min(self.limit);
        if range.start >= end { Vec::new() } else { self.present.gaps(&(range.start..end)) }
    }

    /// What of `range` is in the stage file, in order.
    #[must_use]
    pub fn present(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut present = Vec::new();
        let mut at = range.start;
        for gap in self.missing(range) {
            present.push(at..gap.start);
            at = gap.end;
        }
        present.push(at..range.end);
        present.retain(|range| !range.is_empty());
        present
    }

    /// Whether nothing of `range` is in the stage file.
    #[must_use]
    pub fn is_untouched(&self, range: &Range<u64>) -> bool {
        self.missing(range) == [range.clone()]
    }

    /// From here on nothing is missing.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes that are missing.
    #[must_use]
    pub fn missing_bytes(&self) -> u64 {
        self.missing(&(0..self.limit)).iter().map(|gap| gap.end - gap.start).sum()
    }

    /// Generations that have what is missing, the first one first.
    #[must_use]
    pub fn bases(&self) -> &[Generation] {
        &self.bases
    }

    /// The same where what is missing is known as another generation alone.
    #[must_use]
    pub(in crate::data) fn based_on(self, base: Generation) -> Self {
        Self { bases: vec![base], ..self }
    }

    /// What an empty map becomes this one by.
    #[must_use]
    pub(super) fn records(&self, size: u64) -> Vec<Record> {
        let mut records: Vec<Record> = self.bases.iter().skip(1).map(|base| Record::Base(*base)).collect();
        if self.limit < size {
            records.push(Record::Cut(self.limit));
        }
        let present = self.present(&(0..self.limit));
        records.extend(present.into_iter().map(|range| Record::Present(range.start, range.end)));
        records
    }
}
