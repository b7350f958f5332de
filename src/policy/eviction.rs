//! Which hot copies leave first. Pure.

use std::cmp::Ordering;

/// How much it is worth to keep a copy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Worth {
    /// It leaves before others; of those, the one with the least number.
    Least(f64),
    /// What [`value`](super::heat::value) says.
    Usual(f64),
    /// It stays.
    Kept,
}

impl Worth {
    /// From what leaves first to what stays.
    #[must_use]
    pub fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Least(a), Self::Least(b)) | (Self::Usual(a), Self::Usual(b)) => a.total_cmp(b),
            _ => self.class().cmp(&other.class()),
        }
    }

    fn class(&self) -> u8 {
        match self {
            Self::Least(_) => 0,
            Self::Usual(_) => 1,
            Self::Kept => 2,
        }
    }
}

/// Copies that may leave, and in which order.
#[derive(Clone, Debug)]
pub struct Candidates<T> {
    max: usize,
    /// Those that leave last come first.
    list: Vec<(Worth, T)>,
}

impl<T> Candidates<T> {
    /// Room for `max` of them.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { max, list: Vec::new() }
    }

    /// Offers one more; of too many, those that leave last are dropped.
    pub fn offer(&mut self, worth: Worth, what: T) {
        if worth == Worth::Kept {
            return;
        }
        self.list.push((worth, what));
        if self.list.len() >= 2 * self.max {
            self.sort();
        }
    }

    /// Asks anew what each is worth.
    pub fn rank(&mut self, worth: impl Fn(&T) -> Worth) {
        self.list.iter_mut().for_each(|(known, what)| *known = worth(what));
        self.list.retain(|(worth, _)| *worth != Worth::Kept);
        self.sort();
    }

    fn sort(&mut self) {
        self.list.sort_by(|(a, _), (b, _)| b.order(a));
        self.list.drain(..self.list.len().saturating_sub(self.max));
    }

    /// The next to leave, and what it is worth, as it was ranked.
    #[must_use]
    pub fn least(&self) -> Option<&(Worth, T)> {
        self.list.last()
    }

    /// The next to leave, as they were ranked.
    pub fn pop(&mut self) -> Option<T> {
        self.list.pop().map(|(_, what)| what)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Worth::{Kept, Least, Usual};

    fn left(mut candidates: Candidates<u32>) -> Vec<u32> {
        std::iter::from_fn(|| candidates.pop()).collect()
    }

    #[test]
    fn the_least_worth_leave_first_and_the_kept_never() {
        let mut candidates = Candidates::new(10);
        for (worth, name) in [(Usual(3.0), 3), (Kept, 9), (Least(2.0), 1), (Usual(0.5), 2), (Least(1.0), 0)] {
            candidates.offer(worth, name);
        }
        candidates.rank(|name| match name {
            0 | 1 => Least(f64::from(*name)),
            name => Usual(f64::from(*name)),
        });
        assert_eq!(candidates.least(), Some(&(Least(0.0), 0)));
        assert_eq!(left(candidates), [0, 1, 2, 3]);
    }

    #[test]
    fn of_too_many_those_that_leave_first_are_remembered() {
        let mut candidates = Candidates::new(8);
        (0..1000).for_each(|at: u32| candidates.offer(Usual(f64::from(at * 7919 % 1000)), at * 7919 % 1000));
        candidates.rank(|value| Usual(f64::from(*value)));
        assert_eq!(left(candidates), [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn what_has_become_hot_is_asked_for_again() {
        let mut candidates = Candidates::new(8);
        (0..4).for_each(|name| candidates.offer(Usual(f64::from(name)), name));
        candidates.rank(|name| if *name == 0 { Kept } else { Usual(-f64::from(*name)) });
        assert_eq!(candidates.len(), 3);
        assert_eq!(left(candidates), [3, 2, 1]);
    }
}
