//! What is remembered of rules when the config changes: the numbers in the names of their order domains, and the homes
//! where their files are until those have moved.

use super::{Owners, Pattern, Reach, Rule, Rules, Subject};
use crate::types::{Key, TierId};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// What is remembered of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spot {
    /// Its number in the names of order domains.
    pub number: usize,
    /// Its pattern, as written.
    pub pattern: String,
    /// Whose files.
    #[serde(flatten)]
    pub owners: Owners,
    /// Number of the tier that was home.
    pub home: u32,
    /// Number of the tier where files went that nobody used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold: Option<u32>,
    /// Number of the tier where new files went while home was too full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overflow: Option<u32>,
}

impl Spot {
    fn is_of(&self, rule: &Rule) -> bool {
        self.pattern == rule.pattern && self.owners == rule.owners
    }
}

/// What is remembered of all rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// The number for the next rule that is new.
    pub next: usize,
    /// The rules, in their order.
    pub spots: Vec<Spot>,
}

impl Ledger {
    /// Gives each rule the number that it had, and new ones numbers that none has had.
    #[must_use]
    pub fn number(&self, mut rules: Vec<Rule>) -> Vec<Rule> {
        let (mut taken, mut next) = (HashSet::new(), self.next);
        for rule in &mut rules {
            let known = self.spots.iter().find(|spot| spot.is_of(rule) && !taken.contains(&spot.number));
            rule.index = known.map_or(next, |spot| spot.number);
            next += usize::from(known.is_none());
            taken.insert(rule.index);
        }
        rules
    }

    /// What is to be remembered of `rules`, which have their numbers.
    #[must_use]
    pub fn of(&self, rules: &Rules) -> Self {
        let spot = |rule: &Rule| Spot {
            number: rule.index,
            pattern: rule.pattern.clone(),
            owners: rule.owners.clone(),
            home: rule.home.0,
            cold: rule.cold.map(|cold| cold.tier.0),
            overflow: rule.overflow.map(|over| over.tier.0),
        };
        let spots: Vec<Spot> = rules.iter().map(spot).collect();
        let next = spots.iter().map(|spot| spot.number + 1).chain([self.next]).max().unwrap_or(0);
        Self { next, spots }
    }

    /// Whether files may have had another home by these rules than by those of `other`. Not if nothing is remembered.
    #[must_use]
    pub fn places_otherwise(&self, other: &Self) -> bool {
        let is_alike = |a: &Spot, b: &Spot| {
            (&a.pattern, &a.owners, a.home, a.cold, a.overflow)
                == (&b.pattern, &b.owners, b.home, b.cold, b.overflow)
        };
        let (these, others) = (&self.spots, &other.spots);
        let alike = these.len() == others.len() && these.iter().zip(others).all(|(a, b)| is_alike(a, b));
        !these.is_empty() && !alike
    }
}

/// Rules of before, as far as they say where files are.
#[derive(Debug)]
pub(super) struct Former(Vec<Known>);

#[derive(Debug)]
struct Known {
    pattern: Pattern,
    owners: Owners,
    tiers: Vec<TierId>,
}

impl Former {
    /// A pattern that can't be read any more matches nothing.
    fn new(ledger: &Ledger) -> Self {
        let compiled = ledger.spots.iter().filter_map(|spot| {
            let pattern = Pattern::parse(&spot.pattern).ok()?;
            let tiers =
                [Some(spot.home), spot.cold, spot.overflow].into_iter().flatten().map(TierId).collect();
            Some(Known { pattern, owners: spot.owners.clone(), tiers })
        });
        Self(compiled.collect())
    }

    /// Whether files of the subject may be on the tier.
    fn places(&self, subject: Subject<'_>, tier: TierId) -> bool {
        let matches = |one: &&Known| one.owners.has(subject.ids) && one.pattern.matches(subject.path);
        self.0.iter().find(matches).is_some_and(|one| one.tiers.contains(&tier))
    }

    fn under(&self, dir: &Key) -> impl Iterator<Item = TierId> {
        let mut covered = false;
        let reaching = self.0.iter().map_while(move |one| {
            let reach = if covered { return None } else { one.pattern.reach(dir) };
            covered = reach == Reach::Everything && one.owners.are_all();
            Some((reach != Reach::Nothing).then(|| one.tiers.iter().copied()))
        });
        reaching.flatten().flatten()
    }
}

impl Rules {
    /// The same rules, where files may be found at the homes of former ones too.
    #[must_use]
    pub fn after(mut self, former: &[Ledger]) -> Self {
        self.former = former.iter().map(Former::new).collect();
        self
    }

    /// The same rules, once everything has left the homes of former ones.
    #[must_use]
    pub fn as_settled(&self) -> Self {
        Self { compiled: self.compiled.clone(), former: Vec::new(), at_rest: self.at_rest }
    }

    /// Whether files may still be at homes of former rules.
    #[must_use]
    pub fn has_former(&self) -> bool {
        !self.former.is_empty()
    }

    /// Whether the path is found on this tier by former rules.
    #[must_use]
    pub fn is_also_on(&self, subject: Subject<'_>, tier: TierId) -> bool {
        self.former.iter().any(|former| former.places(subject, tier))
    }

    /// The homes that something at or below `dir` had by former rules.
    #[must_use]
    pub fn former_under(&self, dir: &Key) -> Vec<TierId> {
        let mut tiers = Vec::new();
        for tier in self.former.iter().flat_map(|former| former.under(dir)) {
            if !tiers.contains(&tier) {
                tiers.push(tier);
            }
        }
        tiers
    }

    /// Every tier where something at or below `dir` may be found: [`Rules::tiers_under`], and those of former rules.
    #[must_use]
    pub fn found_under(&self, dir: &Key) -> Vec<TierId> {
        let mut tiers = self.tiers_under(dir);
        for tier in self.former_under(dir) {
            if !tiers.contains(&tier) {
                tiers.push(tier);
            }
        }
        tiers
    }
}
