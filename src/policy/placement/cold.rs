//! Files that nobody uses: where a rule sends them, and which rule holds for them there.

use super::{Compiled, Rule, Rules, Subject};
use crate::types::{FileKind, Key, TierId};
use std::sync::Arc;
use std::time::Duration;

/// Where the files of a rule go that nobody has used for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cold {
    /// The tier.
    pub tier: TierId,
    /// How long they must not have been used.
    pub idle: Duration,
    /// How long that tier may go without being asked; `None`: for ever.
    pub revalidate: Option<Duration>,
}

/// How a tier relates to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It is home of the path, or of something below it.
    Home,
    /// It is where the rule of a file sends what nobody uses.
    Cold,
    /// It was home by former rules.
    Former,
    /// No rule places anything of it there.
    None,
}

/// The rule as it holds for files that are on its cold tier: that is their home as long as nobody uses them. What is read from there
/// comes home, so that a hot copy would be of no use.
pub(super) fn away(rule: &Rule) -> Option<Arc<Rule>> {
    let cold = rule.cold?;
    Some(Arc::new(Rule { home: cold.tier, hot: Vec::new(), keep_hot: None, ..rule.clone() }))
}

impl Compiled {
    /// The rule for a file that was sent to `tier`; none if it sends nothing there.
    pub(super) fn sent_to(&self, tier: TierId) -> Option<&Arc<Rule>> {
        self.away.as_ref().filter(|rule| rule.home == tier)
    }
}

impl Rule {
    /// Every tier where its files may be for good.
    pub fn tiers(&self) -> impl Iterator<Item = TierId> {
        [Some(self.home), self.cold.map(|cold| cold.tier)].into_iter().flatten()
    }

    /// Where a file of this size goes when nobody uses it.
    #[must_use]
    pub fn cold_for(&self, size: u64) -> Option<Cold> {
        self.cold.filter(|_| self.sizes.contains(&size))
    }
}

impl Rules {
    /// Whether the file lives where it was sent, by the rule it has now.
    #[must_use]
    pub fn is_away(&self, subject: Subject<'_>) -> bool {
        subject.away.is_some_and(|tier| self.compiled(subject).sent_to(tier).is_some())
    }

    /// What something of this kind at the path has to do with a tier.
    #[must_use]
    pub fn role(&self, kind: FileKind, subject: Subject<'_>, tier: TierId) -> Role {
        let (home, cold, former) = match kind {
            FileKind::Directory => (
                self.tiers_under(subject.path).contains(&tier),
                false,
                self.former_under(subject.path).contains(&tier),
            ),
            _ => {
                let rule = &self.compiled(subject).rule;
                let cold = rule.cold.is_some_and(|cold| cold.tier == tier);
                (rule.home == tier, cold, self.is_also_on(subject, tier))
            }
        };
        match (home, cold, former) {
            (true, ..) => Role::Home,
            (_, true, _) => Role::Cold,
            (.., true) => Role::Former,
            _ => Role::None,
        }
    }

    /// Whether a file at or below `dir` may ever be sent away.
    #[must_use]
    pub fn sends_away_under(&self, dir: &Key) -> bool {
        self.reaching(dir).any(|one| one.rule.cold.is_some())
    }

    /// The same rules for a mount that moves nothing: files are found where they were sent, and stay there.
    #[must_use]
    pub fn at_rest(&self) -> Self {
        Self { at_rest: true, ..self.as_settled() }
    }

    /// Whether nothing moves by them.
    #[must_use]
    pub fn are_at_rest(&self) -> bool {
        self.at_rest
    }

    /// The shortest time after which a rule sends files away; none if none does.
    #[must_use]
    pub fn least_idle(&self) -> Option<Duration> {
        self.iter().filter(|_| !self.at_rest).filter_map(|rule| rule.cold).map(|cold| cold.idle).min()
    }

    /// The longest such time.
    #[must_use]
    pub fn most_idle(&self) -> Option<Duration> {
        self.iter().filter_map(|rule| rule.cold).map(|cold| cold.idle).max()
    }

    /// How long what a tier has under a path may be believed: where it is only the cold tier of the path, that is for it to say.
    #[must_use]
    pub fn revalidate_on(&self, path: &Key, tier: TierId) -> Option<Duration> {
        let mut matching = self.reaching(path);
        let is_home = self.reaching(path).any(|one| one.rule.home == tier);
        match matching.find_map(|one| one.rule.cold.filter(|cold| !is_home && cold.tier == tier)) {
            Some(cold) => cold.revalidate,
            None => self.revalidate(path),
        }
    }

    /// Whether a tier matters to the path only for what nobody uses.
    #[must_use]
    pub fn is_only_cold(&self, path: &Key, tier: TierId) -> bool {
        let mut cold = false;
        for one in self.reaching(path) {
            if one.rule.home == tier {
                return false;
            }
            cold |= one.rule.cold.is_some_and(|cold| cold.tier == tier);
        }
        cold && !self.former_under(path).contains(&tier)
    }
}
