//! Path rules: which tier is home, stage, hot and cold for a path. First match wins.

mod braces;
mod cold;
mod former;
mod owner;
mod pattern;
mod segment;
#[cfg(test)]
mod tests;

pub use cold::{Cold, Overflow, Role};
pub use former::{Ledger, Spot};
pub use owner::{Owners, Subject};
pub(crate) use pattern::{Pattern, Reach};

use crate::types::{FileKind, Key, TierId};
use former::Former;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// How names of order domains begin.
const DOMAIN: &str = "rule";

/// When a file read from afar gets a hot copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promote {
    /// At the first read, as long as there is room; then only of files that are read clearly more often than others.
    Heat,
    /// At the first read, in place of others.
    OnRead,
    /// Never.
    Never,
}

/// Which commits of a rule keep their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// All: one after another, as they were closed.
    #[default]
    Strict,
    /// New names in parallel; overwrites, renames and deletes wait for all before them, and what comes after waits for them.
    Barrier,
    /// None, but those of one file and one name.
    None,
}

/// What close waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Write {
    /// The stage.
    #[default]
    Back,
    /// The commit at home.
    Through,
}

/// What fsync waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fsync {
    /// The stage.
    #[default]
    Stage,
    /// The commit at home.
    Home,
}

/// What becomes of a file that somebody else changed at its home while it was dirty here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conflict {
    /// Both versions are kept, ours under another name.
    #[default]
    KeepBoth,
    /// Ours replaces theirs: the last writer wins.
    Overwrite,
}

/// Groups of files of which the newest keep their hot copies.
#[derive(Clone, Debug)]
pub struct KeepHot {
    text: String,
    pattern: Pattern,
    /// How many groups of each parent.
    pub last: usize,
}

impl KeepHot {
    /// The `last` newest of the directories that match `group`, relative to the mount.
    ///
    /// # Errors
    /// What is wrong with the pattern and what to write instead.
    pub fn new(group: &str, last: usize) -> Result<Self, String> {
        if group.split('/').any(|part| part == "**") {
            return Err("has a `**`; write a `*` for each directory, as in \"checkpoints/*/*\"".into());
        }
        Ok(Self { text: group.to_owned(), pattern: Pattern::parse(group)?, last })
    }

    /// Whether this directory is a group.
    #[must_use]
    pub fn is_group(&self, dir: &Key) -> bool {
        self.pattern.matches(dir)
    }

    /// Whether groups may be below this directory.
    #[must_use]
    pub fn is_above_groups(&self, dir: &Key) -> bool {
        self.pattern.reach(dir) != Reach::Nothing
    }

    /// As it was written.
    #[must_use]
    pub fn pattern(&self) -> &str {
        &self.text
    }
}

impl PartialEq for KeepHot {
    fn eq(&self, other: &Self) -> bool {
        (&self.text, self.last) == (&other.text, other.last)
    }
}

impl Eq for KeepHot {}

/// What one `[[rule]]` decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its number in the names of its order domains: it keeps that while the config changes around it.
    pub index: usize,
    /// The pattern as written.
    pub pattern: String,
    /// Whose files.
    pub owners: Owners,
    /// Which tier must end up with the durable copy.
    pub home: TierId,
    /// Which directory tier takes new bytes when home is not resident; equal to `home` when it is.
    pub stage: TierId,
    /// Where files go that nobody has used for long.
    pub cold: Option<Cold>,
    /// Where new files go while home is too full.
    pub overflow: Option<Overflow>,
    /// Tiers for hot copies, nearest first; empty: none.
    pub hot: Vec<TierId>,
    /// When to make a hot copy.
    pub promote: Promote,
    /// How large a file must be for a hot copy, or to go where nobody uses it, at least and at most.
    pub sizes: RangeInclusive<u64>,
    /// How long the kernel and the vfs may go without asking the home tier; `None`: for ever.
    pub revalidate: Option<Duration>,
    /// How long after a close an upload waits for renames, rewrites and deletes.
    pub settle: Duration,
    /// What close waits for.
    pub write: Write,
    /// What fsync waits for.
    pub fsync: Fsync,
    /// How often what is open for writing is brought home as it is; `None`: never.
    pub open_upload: Option<Duration>,
    /// Which commits keep their order.
    pub order: Order,
    /// Directories with an order domain of their own; what is in none of them is in the rule's.
    pub order_by: Option<String>,
    /// Names that are never committed, for as long as they are such.
    pub hold: Vec<String>,
    /// How long a name is held at most.
    pub hold_max: Duration,
    /// What becomes of both versions after an outside change.
    pub conflict: Conflict,
    /// Bytes not at home above which opens for writing wait; `None`: any number.
    pub dirty_max: Option<u64>,
    /// Groups whose newest keep their hot copies.
    pub keep_hot: Option<KeepHot>,
}

/// A rule as configured, before its pattern is compiled.
pub type RuleSpec = Rule;

/// All rules, compiled; the last one matches everything.
#[derive(Debug)]
pub struct Rules {
    compiled: Vec<Compiled>,
    /// Rules of before, under whose homes there may be files still.
    former: Vec<Former>,
    /// Nothing moves by them.
    at_rest: bool,
}

#[derive(Clone, Debug)]
struct Compiled {
    rule: Arc<Rule>,
    /// The same for files that were sent to another tier.
    away: Vec<Arc<Rule>>,
    pattern: Pattern,
    order_by: Option<Pattern>,
    hold: Vec<Pattern>,
    /// Earlier rules leave it nothing to match.
    shadowed: bool,
}

impl Rules {
    /// Compiles the patterns (globset, literal separators; `p/**` matches `p` too).
    ///
    /// # Errors
    /// The index of the rule and what is wrong with its pattern.
    pub fn new(rules: Vec<RuleSpec>) -> Result<Self, (usize, String)> {
        let mut compiled: Vec<Compiled> = Vec::with_capacity(rules.len());
        for (index, rule) in rules.into_iter().enumerate() {
            let pattern = Pattern::parse(&rule.pattern).map_err(|wrong| (index, wrong))?;
            let takes_all = |earlier: &&Compiled| earlier.rule.owners.include(&rule.owners);
            let shadowed =
                pattern.is_shadowed_by(compiled.iter().filter(takes_all).map(|earlier| &earlier.pattern));
            let parse = |glob: &String| Pattern::parse(glob).map_err(|wrong| (index, wrong));
            let order_by = rule.order_by.as_ref().map(parse).transpose()?;
            let hold = rule.hold.iter().map(parse).collect::<Result<_, _>>()?;
            let away = cold::away(&rule);
            compiled.push(Compiled { rule: Arc::new(rule), away, pattern, order_by, hold, shadowed });
        }
        match compiled.last() {
            Some(last) if last.pattern.matches_everything() && last.rule.owners.are_all() => {
                Ok(Self { compiled, former: Vec::new(), at_rest: false })
            }
            Some(_) => Err((
                compiled.len() - 1,
                "the last rule must match everything: `**`, without uid and gid".into(),
            )),
            None => Err((0, "there is no rule; the last one must match everything: `**`".into())),
        }
    }

    /// The rule for a path and its owner (config sees to it that the last one matches all). For a file that was sent to a tier, the
    /// rule has that for its home, if it is one that sends files there.
    #[must_use]
    pub fn rule(&self, subject: Subject<'_>) -> &Arc<Rule> {
        let one = self.compiled(subject);
        subject.away.and_then(|tier| one.sent_to(tier)).unwrap_or(&one.rule)
    }

    fn compiled(&self, subject: Subject<'_>) -> &Compiled {
        let last = self.compiled.len() - 1;
        let first_match = self.compiled[..last].iter().find(|one| !one.shadowed && one.matches(subject));
        first_match.unwrap_or(&self.compiled[last])
    }

    /// How long name and attributes of a path may be believed, whoever owns it; `None`: for ever.
    #[must_use]
    pub fn revalidate(&self, path: &Key) -> Option<Duration> {
        let matching = self.compiled.iter().filter(|one| !one.shadowed && one.pattern.matches(path));
        let mut shortest: Option<Duration> = None;
        for one in matching {
            shortest = match (shortest, one.rule.revalidate) {
                (Some(known), Some(time)) => Some(known.min(time)),
                (known, time) => known.or(time),
            };
            if one.rule.owners.are_all() {
                break;
            }
        }
        shortest
    }

    /// The same for all that is below `dir`, if no rule there differs from the others in it.
    #[must_use]
    pub fn revalidate_below(&self, dir: &Key) -> Option<Option<Duration>> {
        let mut windows = self.reaching(dir).map(|one| one.rule.revalidate);
        let first = windows.next()?;
        windows.all(|window| window == first).then_some(first)
    }

    /// Whether nothing may be committed under this name, which its program is still to change.
    #[must_use]
    pub fn is_held(&self, subject: Subject<'_>) -> bool {
        self.compiled(subject).hold.iter().any(|pattern| pattern.matches(subject.path))
    }

    /// All rules, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.compiled.iter().map(|one| &*one.rule)
    }

    /// Every tier that may be home of something at or below `dir`, or hold what of it nobody uses, each once, in rule order. Exact about rules
    /// that cover the whole subtree: later rules are out of reach then.
    #[must_use]
    pub fn tiers_under(&self, dir: &Key) -> Vec<TierId> {
        let mut tiers = Vec::new();
        for one in self.reaching(dir) {
            for tier in one.rule.tiers() {
                if !tiers.contains(&tier) {
                    tiers.push(tier);
                }
            }
        }
        tiers
    }

    /// Whether every path below `a` is placed as the same path below `b` would be: all rules that reach
    /// into the two subtrees have one home and stage, or the same rules reach into both in the same way.
    #[must_use]
    pub fn same_under(&self, a: &Key, b: &Key) -> bool {
        // What former rules placed lies elsewhere until it has moved: a step looks at it.
        self.former.is_empty() && (self.same_place_under(a, b) || self.same_rules_under(a, b))
    }

    fn same_place_under(&self, a: &Key, b: &Key) -> bool {
        let mut places = self.reaching(a).chain(self.reaching(b)).map(|one| {
            (one.rule.home, one.rule.stage, one.rule.cold.map(|cold| cold.tier), one.rule.overflow)
        });
        let first = places.next();
        places.all(|place| Some(place) == first)
    }

    fn same_rules_under(&self, a: &Key, b: &Key) -> bool {
        let (mut below_a, mut below_b) = (self.reaching(a), self.reaching(b));
        loop {
            match (below_a.next(), below_b.next()) {
                (Some(one), Some(other)) if std::ptr::eq(one, other) && one.pattern.same_below(a, b) => {}
                (None, None) => return true,
                _ => return false,
            }
        }
    }

    /// The rules that may match something at or below `dir`, to the first that matches all of it.
    fn reaching<'a>(&'a self, dir: &'a Key) -> impl Iterator<Item = &'a Compiled> {
        let mut covered = false;
        self.compiled
            .iter()
            .filter(|one| !one.shadowed)
            .map_while(move |one| {
                if covered {
                    return None;
                }
                let reach = one.pattern.reach(dir);
                covered = reach == Reach::Everything && one.rule.owners.are_all();
                Some((reach != Reach::Nothing).then_some(one))
            })
            .flatten()
    }

    /// Name of the order domain of what is not a directory: steps of one domain keep their order.
    #[must_use]
    pub fn domain(&self, subject: Subject<'_>) -> String {
        let one = self.compiled(subject);
        match subject.path.split().and_then(|(directory, _)| one.ordered_by(&directory)) {
            Some(directory) => format!("{DOMAIN}{}:{directory}", one.rule.index),
            None => format!("{DOMAIN}{}", one.rule.index),
        }
    }

    /// Name of the order domain of a directory: that of what is directly in it.
    #[must_use]
    pub fn directory_domain(&self, subject: Subject<'_>) -> String {
        self.compiled(subject).directory_domain(subject.path)
    }

    /// Name of the order domain of something of this kind.
    #[must_use]
    pub fn domain_of(&self, kind: FileKind, subject: Subject<'_>) -> String {
        match kind {
            FileKind::Directory => self.directory_domain(subject),
            _ => self.domain(subject),
        }
    }

    /// For a directory that is renamed from `from` to `to`: the rules in whose domains steps for what is in it may be, in the form of
    /// [`RuleSet`]; none if all of those are in the domain of what will be written below its new name, so that the order there is enough.
    #[must_use]
    pub fn domains_below(&self, from: &Key, to: Subject<'_>) -> Option<String> {
        let rules: Vec<&Compiled> = self.reaching(from).collect();
        let is_one = |one: &Compiled| one.order_by.is_none() || one.ordered_by(from).is_some();
        if let [one] = rules[..]
            && is_one(one)
            && one.rule.owners.are_all()
            && one.directory_domain(from) == self.directory_domain(to)
        {
            return None;
        }
        Some(RuleSet(rules.iter().map(|one| one.rule.index).collect()).to_string())
    }

    /// The rule that an order domain is of; none if no rule of now makes it.
    #[must_use]
    pub fn of_domain(&self, domain: &str) -> Option<&Arc<Rule>> {
        self.numbered(rule_of(domain)?)
    }

    /// The rule with this number.
    #[must_use]
    pub fn numbered(&self, index: usize) -> Option<&Arc<Rule>> {
        self.compiled.iter().map(|one| &one.rule).find(|rule| rule.index == index)
    }

    /// Which steps of an order domain keep their order; all in one that no rule of now makes.
    #[must_use]
    pub fn order(&self, domain: &str) -> Order {
        self.of_domain(domain).map_or(Order::Strict, |rule| rule.order)
    }
}

impl Compiled {
    fn matches(&self, subject: Subject<'_>) -> bool {
        self.rule.owners.has(subject.ids) && self.pattern.matches(subject.path)
    }

    fn directory_domain(&self, path: &Key) -> String {
        match self.ordered_by(path) {
            Some(directory) => format!("{DOMAIN}{}:{directory}", self.rule.index),
            None => format!("{DOMAIN}{}", self.rule.index),
        }
    }

    /// The directory at or above `path` that has an order domain of its own.
    fn ordered_by(&self, path: &Key) -> Option<Key> {
        let order_by = self.order_by.as_ref()?;
        let mut at = Key::ROOT;
        for name in path.components() {
            at = at.join(name).ok()?;
            if order_by.matches(&at) {
                return Some(at);
            }
        }
        None
    }
}

/// Number of the rule that makes an order domain.
fn rule_of(domain: &str) -> Option<usize> {
    let index = domain.strip_prefix(DOMAIN)?;
    index.split_once(':').map_or(index, |(index, _)| index).parse().ok()
}

/// Rules by their numbers, as text for a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSet(Vec<usize>);

impl RuleSet {
    /// Whether one of the rules makes this domain. A domain that no rule can have made counts too.
    #[must_use]
    pub fn makes(&self, domain: &str) -> bool {
        rule_of(domain).is_none_or(|index| self.0.contains(&index))
    }
}

impl std::fmt::Display for RuleSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let indices: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&indices.join(","))
    }
}

impl From<&str> for RuleSet {
    fn from(text: &str) -> Self {
        Self(text.split(',').filter_map(|index| index.parse().ok()).collect())
    }
}
