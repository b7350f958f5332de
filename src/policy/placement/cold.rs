//! Files that are not at home, because nobody uses them or home was too full: where a rule sends them, and which rule holds for them
//! there.

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

/// Where the new files of a rule go while its home is too full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow {
    /// The tier.
    pub tier: TierId,
    /// The directory tier that takes new bytes for it; that itself if it is one.
    pub stage: TierId,
    /// How long the tier may go without being asked; `None`: for ever.
    pub revalidate: Option<Duration>,
}

/// How a tier relates to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It is home of the path, or of something below it.
    Home,
    /// It is where the rule of a file sends what nobody uses.
    Cold,
    /// It is where the rule of a file sends new ones while home is too full.
    Overflow,
    /// It was home by former rules.
    Former,
    /// No rule places anything of it there.
    None,
}

/// The rule as it holds for files that are on its other tiers: that is their home. What is read on the cold tier comes home, so that a
/// hot copy would be of no use.
pub(super) fn away(rule: &Rule) -> Vec<Arc<Rule>> {
    let over = |over: Overflow| {
        let hot = rule.hot.iter().copied().filter(|tier| *tier != over.tier).collect();
        Rule { home: over.tier, stage: over.stage, hot, ..rule.clone() }
    };
    let cold = |cold: Cold| Rule { home: cold.tier, hot: Vec::new(), keep_hot: None, ..rule.clone() };
    [rule.overflow.map(over), rule.cold.map(cold)].into_iter().flatten().map(Arc::new).collect()
}

impl Compiled {
    /// The rule for a file that was sent to `tier`; none if it sends nothing there.
    pub(super) fn sent_to(&self, tier: TierId) -> Option<&Arc<Rule>> {
        self.away.iter().find(|rule| rule.home == tier)
    }
}

impl Rule {
    /// Every tier where its files may be for good.
    pub fn tiers(&self) -> impl Iterator<Item = TierId> {
        let others = [self.cold.map(|cold| cold.tier), self.overflow.map(|over| over.tier)];
        std::iter::once(self.home).chain(others.into_iter().flatten())
    }

    /// How long a tier to which it sends files may go without being asked; none if it sends nothing there.
    fn window_of(&self, tier: TierId) -> Option<Option<Duration>> {
        let cold = self.cold.filter(|cold| cold.tier == tier).map(|cold| cold.revalidate);
        cold.or(self.overflow.filter(|over| over.tier == tier).map(|over| over.revalidate))
    }

    /// Whether some of its files go through a stage on this tier, rather than being written where they live.
    #[must_use]
    pub fn stages_on(&self, tier: TierId) -> bool {
        let through = |stage: TierId, home: TierId| stage == tier && home != stage;
        through(self.stage, self.home) || self.overflow.is_some_and(|over| through(over.stage, over.tier))
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
        let (home, cold, over, former) = match kind {
            FileKind::Directory => (
                self.tiers_under(subject.path).contains(&tier),
                false,
                false,
                self.former_under(subject.path).contains(&tier),
            ),
            _ => {
                let rule = &self.compiled(subject).rule;
                let cold = rule.cold.is_some_and(|cold| cold.tier == tier);
                let over = rule.overflow.is_some_and(|over| over.tier == tier);
                (rule.home == tier, cold, over, self.is_also_on(subject, tier))
            }
        };
        match (home, cold, over, former) {
            (true, ..) => Role::Home,
            (_, true, ..) => Role::Cold,
            (_, _, true, _) => Role::Overflow,
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

    /// The homes whose new files go elsewhere while they are too full, each once.
    #[must_use]
    pub fn overflowing(&self) -> Vec<TierId> {
        let mut homes = Vec::new();
        for rule in self.iter().filter(|rule| rule.overflow.is_some() && !self.at_rest) {
            if !homes.contains(&rule.home) {
                homes.push(rule.home);
            }
        }
        homes
    }

    /// The longest such time.
    #[must_use]
    pub fn most_idle(&self) -> Option<Duration> {
        self.iter().filter_map(|rule| rule.cold).map(|cold| cold.idle).max()
    }

    /// How long what a tier has under a path may be believed: where it has only what was sent there, that is for it to say.
    #[must_use]
    pub fn revalidate_on(&self, path: &Key, tier: TierId) -> Option<Duration> {
        let is_home = self.reaching(path).any(|one| one.rule.home == tier);
        let window = self.reaching(path).find_map(|one| one.rule.window_of(tier));
        window.filter(|_| !is_home).unwrap_or_else(|| self.revalidate(path))
    }

    /// Whether a tier matters to the path only for what was sent there.
    #[must_use]
    pub fn is_only_away(&self, path: &Key, tier: TierId) -> bool {
        let mut away = false;
        for one in self.reaching(path) {
            if one.rule.home == tier {
                return false;
            }
            away |= one.rule.window_of(tier).is_some();
        }
        away && !self.former_under(path).contains(&tier)
    }
}
