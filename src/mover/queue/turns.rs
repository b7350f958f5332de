//! Whose turn it is among the steps of one domain: those that no earlier one holds up. Kept up to date by what comes and goes, so that a
//! step costs as much among a thousand as alone.

use super::{Holds, Thing};
use crate::types::{Ino, Key, Seq, TierId};
use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;

/// The steps of a domain that have a place in its order.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Steps beside which nothing runs.
    alone: BTreeSet<Seq>,
    /// What the others hold.
    things: HashMap<Seq, Vec<Thing>>,
    inodes: HashMap<Ino, BTreeSet<Seq>>,
    keys: HashMap<TierId, HashMap<Vec<u8>, Holders>>,
    /// Those of the others that nothing of an earlier one is in the way of.
    clear: BTreeSet<Seq>,
}

/// Steps that hold a key.
#[derive(Debug, Default)]
struct Holders {
    itself: BTreeSet<Seq>,
    /// Something below it.
    below: BTreeSet<Seq>,
}

impl Turns {
    /// How many have a place.
    pub(super) fn len(&self) -> usize {
        self.alone.len() + self.things.len()
    }

    /// The first step.
    pub(super) fn first(&self) -> Option<Seq> {
        // The first of those that hold things is always clear.
        self.alone.first().into_iter().chain(self.clear.first()).min().copied()
    }

    /// Gives a step its place.
    pub(super) fn enter(&mut self, seq: Seq, holds: &Holds) {
        let Holds::Things(things) = holds else {
            self.alone.insert(seq);
            return;
        };
        self.each_set(things, |set| _ = set.insert(seq));
        self.things.insert(seq, things.clone());
        self.look_again(seq, things);
        self.look(seq);
    }

    /// Takes it away.
    pub(super) fn leave(&mut self, seq: Seq) {
        self.alone.remove(&seq);
        let Some(things) = self.things.remove(&seq) else { return };
        self.each_set(&things, |set| _ = set.remove(&seq));
        self.forget_empty(&things);
        self.clear.remove(&seq);
        self.look_again(seq, &things);
    }

    /// The steps whose turn it is, in order.
    pub(super) fn free(&self) -> impl Iterator<Item = Seq> {
        let wall = self.alone.first().copied();
        let before = wall.map_or(Bound::Unbounded, Bound::Excluded);
        let alone = wall.filter(|_| self.first() == wall);
        self.clear.range((Bound::Unbounded, before)).copied().chain(alone)
    }

    /// Whether it is the turn of this one.
    pub(super) fn is_free(&self, seq: Seq) -> bool {
        match self.alone.first() {
            Some(wall) if *wall == seq => self.first() == Some(seq),
            wall => self.clear.contains(&seq) && wall.is_none_or(|wall| *wall > seq),
        }
    }

    /// Visits every set that says who holds `things`, and those of the directories above them that something below is held.
    fn each_set(&mut self, things: &[Thing], mut act: impl FnMut(&mut BTreeSet<Seq>)) {
        for thing in things {
            match thing {
                Thing::Inode(ino) => act(self.inodes.entry(*ino).or_default()),
                Thing::Key(tier, key) => {
                    let keys = self.keys.entry(*tier).or_default();
                    act(&mut at(keys, key.as_bytes()).itself);
                    above(key).for_each(|parent| act(&mut at(keys, parent).below));
                }
            }
        }
    }

    fn forget_empty(&mut self, things: &[Thing]) {
        for thing in things {
            match thing {
                Thing::Inode(ino) if self.inodes.get(ino).is_some_and(BTreeSet::is_empty) => {
                    self.inodes.remove(ino);
                }
                Thing::Inode(_) => {}
                Thing::Key(tier, key) => {
                    let Some(keys) = self.keys.get_mut(tier) else { continue };
                    for key in std::iter::once(key.as_bytes()).chain(above(key)) {
                        if keys.get(key).is_some_and(Holders::is_empty) {
                            keys.remove(key);
                        }
                    }
                }
            }
        }
    }

    /// Every set of steps that are in the way of one that works on `things`, or that it is in the way of.
    fn meeting<'a>(&'a self, things: &'a [Thing]) -> impl Iterator<Item = &'a BTreeSet<Seq>> {
        things.iter().flat_map(|thing| {
            let (inode, key) = match thing {
                Thing::Inode(ino) => (self.inodes.get(ino), None),
                Thing::Key(tier, key) => (None, self.keys.get(tier).map(|keys| (keys, key))),
            };
            let of_key = key.into_iter().flat_map(|(keys, key)| {
                let itself = keys.get(key.as_bytes()).into_iter();
                let itself = itself.flat_map(|holders| [&holders.itself, &holders.below]);
                itself.chain(above(key).filter_map(|parent| keys.get(parent).map(|holders| &holders.itself)))
            });
            inode.into_iter().chain(of_key)
        })
    }

    /// Whether something earlier is in the way of those after `seq` that meet `things`.
    fn look_again(&mut self, seq: Seq, things: &[Thing]) {
        let after = (Bound::Excluded(seq), Bound::Unbounded);
        let later: BTreeSet<Seq> = self.meeting(things).flat_map(|set| set.range(after)).copied().collect();
        later.into_iter().for_each(|seq| self.look(seq));
    }

    fn look(&mut self, seq: Seq) {
        let Some(things) = self.things.get(&seq) else { return };
        let is_clear = self.meeting(things).all(|set| set.first().is_none_or(|first| *first >= seq));
        if is_clear {
            self.clear.insert(seq);
        } else {
            self.clear.remove(&seq);
        }
    }
}

impl Holders {
    fn is_empty(&self) -> bool {
        self.itself.is_empty() && self.below.is_empty()
    }
}

fn at<'a>(keys: &'a mut HashMap<Vec<u8>, Holders>, key: &[u8]) -> &'a mut Holders {
    keys.entry(key.to_vec()).or_default()
}

/// Every directory above `key`, the root last.
fn above(key: &Key) -> impl Iterator<Item = &[u8]> {
    let mut rest = key.as_bytes();
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        rest = rest.iter().rposition(|byte| *byte == b'/').map_or(&[][..], |at| &rest[..at]);
        Some(rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn holds() -> impl Strategy<Value = Holds> {
        let key = prop::sample::select(vec!["a", "a/b", "a/b/c", "a/d", "e", "e/f"]);
        let key = (1..3_u32, key).prop_map(|(tier, key)| Thing::Key(TierId(tier), Key::parse(key).unwrap()));
        let thing = prop_oneof![4 => key, 1 => (1..4_u64).prop_map(|ino| Thing::Inode(Ino(ino)))];
        prop_oneof![
            1 => Just(Holds::Domain),
            5 => prop::collection::vec(thing, 0..3).prop_map(Holds::Things),
        ]
    }

    /// Whether two steps must not run at once, by their definitions.
    fn meet(one: &Holds, other: &Holds) -> bool {
        let (Holds::Things(one), Holds::Things(other)) = (one, other) else { return true };
        let is_in = |key: &Key, dir: &Key| {
            key == dir || key.as_bytes().starts_with(&[dir.as_bytes(), b"/".as_slice()].concat())
        };
        one.iter().any(|one| {
            other.iter().any(|other| match (one, other) {
                (Thing::Inode(one), Thing::Inode(other)) => one == other,
                (Thing::Key(tier, one), Thing::Key(other_tier, other)) => {
                    tier == other_tier && (is_in(one, other) || is_in(other, one))
                }
                _ => false,
            })
        })
    }

    proptest! {
        /// Entered in any order and taken away again, the steps that are free are those that nothing before them meets.
        #[test]
        fn free_is_what_nothing_before_it_meets(
            steps in prop::collection::vec((0..30_u64, prop::option::weighted(0.7, holds())), 1..80),
        ) {
            let (mut turns, mut model) = (Turns::default(), BTreeMap::<Seq, Holds>::new());
            for (seq, holds) in steps {
                turns.leave(Seq(seq));
                model.remove(&Seq(seq));
                if let Some(holds) = holds {
                    turns.enter(Seq(seq), &holds);
                    model.insert(Seq(seq), holds);
                }
                let is_free = |seq: &Seq| model.range(..seq).all(|(_, before)| !meet(before, &model[seq]));
                let expected: Vec<Seq> = model.keys().copied().filter(is_free).collect();
                prop_assert_eq!(turns.free().collect::<Vec<_>>(), expected.clone());
                prop_assert!(model.keys().all(|seq| turns.is_free(*seq) == expected.contains(seq)));
                prop_assert_eq!(turns.first(), model.keys().next().copied());
                prop_assert_eq!(turns.len(), model.len());
            }
            model.keys().for_each(|seq| turns.leave(*seq));
            prop_assert!(turns.inodes.is_empty() && turns.keys.values().all(HashMap::is_empty));
        }
    }
}
