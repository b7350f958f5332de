//! A set of bytes of one file: sorted, disjoint, merged ranges. A leaf.

use std::collections::BTreeMap;
use std::ops::Range;

/// Which bytes of a file are there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// Start → end; never empty, never touching.
    runs: BTreeMap<u64, u64>,
}

impl RangeSet {
    /// Adds `range`, merging what it touches.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        if let Some((&before, &until)) = self.runs.range(..start).next_back()
            && until >= start
        {
            start = before;
        }
        while let Some((&at, &until)) = self.runs.range(start..=end).next() {
            end = end.max(until);
            self.runs.remove(&at);
        }
        self.runs.insert(start, end);
    }

    /// Takes out everything before `at`.
    pub fn remove_before(&mut self, at: u64) {
        let end = self.run_at(at);
        self.runs = self.runs.split_off(&at);
        if let Some(end) = end {
            self.runs.insert(at, end);
        }
    }

    /// Whether all of `range` is there.
    #[must_use]
    pub fn contains(&self, range: &Range<u64>) -> bool {
        range.is_empty() || self.run_at(range.start).is_some_and(|end| end >= range.end)
    }

    /// Where the run that holds `at` ends.
    #[must_use]
    pub fn run_at(&self, at: u64) -> Option<u64> {
        self.runs.range(..=at).next_back().map(|(_, &end)| end).filter(|&end| end > at)
    }

    /// What of `range` is missing, in order.
    #[must_use]
    pub fn gaps(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut at = range.start;
        while let Some(gap) = self.first_gap(&(at..range.end)) {
            at = gap.end;
            gaps.push(gap);
        }
        gaps
    }

    /// The first missing piece of `range`.
    #[must_use]
    pub fn first_gap(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let start = self.run_at(range.start).unwrap_or(range.start);
        let end = self.runs.range(start..).next().map_or(range.end, |(&next, _)| next.min(range.end));
        (start < end).then_some(start..end)
    }

    /// How many bytes are there.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|(start, end)| end - start).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SPAN: u64 = 64;

    fn range() -> impl Strategy<Value = Range<u64>> {
        (0..SPAN, 0..SPAN).prop_map(|(a, b)| a.min(b)..a.max(b))
    }

    proptest! {
        #[test]
        fn behaves_like_a_bitmap(
            inserts in prop::collection::vec(range(), 0..24),
            cut in 0..SPAN,
            probe in range(),
        ) {
            let mut set = RangeSet::default();
            let mut bits = [false; SPAN as usize];
            for range in inserts {
                set.insert(range.clone());
                range.for_each(|at| bits[at as usize] = true);
            }
            set.remove_before(cut);
            bits[..cut as usize].fill(false);
            prop_assert_eq!(set.bytes(), bits.iter().filter(|bit| **bit).count() as u64);
            prop_assert_eq!(set.contains(&probe), probe.clone().all(|at| bits[at as usize]));
            let missing: Vec<u64> = set.gaps(&probe).into_iter().flatten().collect();
            let expected: Vec<u64> = probe.filter(|&at| !bits[at as usize]).collect();
            prop_assert_eq!(missing, expected);
            let runs: Vec<_> = set.runs.iter().collect();
            prop_assert!(runs.windows(2).all(|pair| pair[0].1 < pair[1].0), "{:?}", runs);
        }
    }
}
