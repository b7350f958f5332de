//! Path rules: which tier is home, stage, hot and cold for a path. First match wins.

use crate::types::{Key, TierId};
use std::time::Duration;

/// When a file read from afar gets a hot copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promote {
    /// At the first read.
    OnRead,
    /// Never.
    Never,
}

/// What one `[[rule]]` decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Position in the config, from 0.
    pub index: usize,
    /// The pattern as written.
    pub pattern: String,
    /// Which tier must end up with the durable copy.
    pub home: TierId,
    /// Which directory tier takes new bytes when home is not resident; equal to `home` when it is.
    pub stage: TierId,
    /// Tiers for hot copies, nearest first; empty: none.
    pub hot: Vec<TierId>,
    /// When to make a hot copy.
    pub promote: Promote,
    /// How long the kernel and the vfs may go without asking the home tier; `None`: for ever.
    pub revalidate: Option<Duration>,
    /// How long after a close an upload waits for renames, rewrites and deletes.
    pub settle: Duration,
}

/// A rule as configured, before its pattern is compiled.
pub type RuleSpec = Rule;

/// All rules, compiled.
#[derive(Debug)]
pub struct Rules {}

impl Rules {
    /// Compiles the patterns (globset, literal separators; `p/**` matches `p` too).
    ///
    /// # Errors
    /// The index of the rule and what is wrong with its pattern.
    pub fn new(_rules: Vec<RuleSpec>) -> Result<Self, (usize, String)> {
        todo!()
    }

    /// The rule for a path (config sees to it that the last one matches all).
    pub fn rule(&self, _path: &Key) -> &Rule {
        todo!()
    }

    /// Every tier that may be home of something at or below `dir`, each once, in rule order. Exact about rules
    /// that cover the whole subtree: later rules are out of reach then.
    pub fn tiers_under(&self, _dir: &Key) -> Vec<TierId> {
        todo!()
    }

    /// Whether every path below `a` is placed as the same path below `b` would be: one rule covers each
    /// whole subtree, and the two have equal home and stage.
    pub fn same_under(&self, _a: &Key, _b: &Key) -> bool {
        todo!()
    }

    /// Name of the order domain of a path: steps of one domain keep their order.
    pub fn domain(&self, _path: &Key) -> String {
        todo!()
    }
}
