//! Room for new bytes: who opens for writing waits while more is dirty than the rule allows, or the stage is full, as long as
//! bytes are on their way home that make room. Says only what holds now; whoever owns the thread does the waiting.

use super::Vfs;
use crate::catalog::{Backlog, Waiting};
use crate::error::{Kind, Result};
use crate::policy::placement::{Order, Rule};
use crate::policy::room::{self, Ordering, Part, Room, Sums, Waits};
use crate::types::{Ids, Ino, Key, Seq, TierId, Whereabouts};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// How long waiting would have been in vain before somebody is told.
const TELL_AFTER: Duration = Duration::from_secs(5);

/// Asks for room: these domains need not settle up to these steps, and hot copies on the tier may go. Must not wait.
pub type Ask = Arc<dyn Fn(Vec<(String, Seq)>, TierId) + Send + Sync>;

/// How room is made.
#[derive(Clone)]
pub struct Making {
    /// Told that somebody waits.
    pub ask: Ask,
    /// How long a caller waits for each tier.
    pub deadlines: HashMap<TierId, Duration>,
}

impl Default for Making {
    /// By nobody.
    fn default() -> Self {
        Self { ask: Arc::new(|_, _| {}), deadlines: HashMap::new() }
    }
}

/// What is to be opened for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// This file.
    File(Ino),
    /// A new file of this name, for this user.
    Name(Ino, Vec<u8>, Ids),
}

/// Why an open for writing waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// More is dirty than `dirty_max` of this rule allows.
    Limit(usize),
    /// The stage on this tier is full.
    Stage(TierId),
}

/// Opens that wait for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiters {
    /// How many.
    pub opens: u64,
    /// Since when by the monotonic clock, without a moment in which none did.
    pub since: Duration,
}

/// Who waits now.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<BTreeMap<Cause, Waiters>>,
    /// Since when waiting would be in vain, and whether somebody was told.
    over: Mutex<Option<(Duration, bool)>>,
}

/// One that waits; it does not any more once this is dropped.
pub struct Waiter<'a> {
    vfs: &'a Vfs,
    cause: Cause,
}

impl Vfs {
    /// Whether any rule has a limit, so that [`Vfs::room`] is worth asking.
    #[must_use]
    pub fn has_limits(&self) -> bool {
        self.rules().iter().any(|rule| rule.dirty_max.is_some())
    }

    /// Whether an open may go on now; if not, why. Asks for room then. May take as long as adding up all that is dirty.
    ///
    /// # Errors
    /// If the catalog can't be read.
    pub fn room(&self, wanted: &Wanted) -> Result<Option<Cause>> {
        let Some((path, whereabouts)) = self.wanted_path(wanted)? else { return Ok(None) };
        let rule = self.rule(&path, whereabouts);
        if rule.dirty_max.is_none() {
            return Ok(None);
        }
        let backlog = self.backlog()?;
        let of_rule = |part: &&Backlog| self.rule_of(part).is_some_and(|of| of.index == rule.index);
        let sums = self.sums(backlog.iter().filter(of_rule));
        match room::below(rule.dirty_max, sums) {
            Room::Free => *self.room.over.lock() = None,
            Room::Over => self.tell_over(&rule, sums),
            Room::Wait => {
                self.ask_for_room(backlog.iter().filter(of_rule), rule.stage);
                return Ok(Some(Cause::Limit(rule.index)));
            }
        }
        Ok(None)
    }

    /// Whether an open that the stage had no room for may find some later; asks for it then. Else there is none to be had.
    ///
    /// # Errors
    /// If the catalog can't be read.
    pub fn room_on_stage(&self, wanted: &Wanted) -> Result<Option<(Cause, Duration)>> {
        let Some((path, whereabouts)) = self.wanted_path(wanted)? else { return Ok(None) };
        let rule = self.rule(&path, whereabouts);
        if rule.stage == rule.home {
            return Ok(None);
        }
        let backlog = self.backlog()?;
        let staged = |part: &&Backlog| self.rule_of(part).is_some_and(|of| of.stages_on(rule.stage));
        let room = room::on_full_stage(self.sums(backlog.iter().filter(staged)));
        if room != Room::Wait {
            return Ok(None);
        }
        self.ask_for_room(backlog.iter().filter(staged), rule.stage);
        let patience = self.parts.room.deadlines.get(&rule.stage).copied().unwrap_or_default();
        Ok(Some((Cause::Stage(rule.stage), patience)))
    }

    /// One more open waits.
    #[must_use]
    pub fn wait_for_room(&self, cause: Cause) -> Waiter<'_> {
        let mut waiting = self.room.waiting.lock();
        let since = self.parts.clock.monotonic();
        let waiters = waiting.entry(cause).or_insert(Waiters { opens: 0, since });
        waiters.opens += 1;
        if waiters.opens == 1 {
            drop(waiting);
            match cause {
                Cause::Limit(rule) => {
                    tracing::warn!(rule, "opens for writing wait: more than dirty_max is not at home yet")
                }
                Cause::Stage(tier) => {
                    tracing::warn!(tier = self.tier_name(tier), "opens for writing wait: the stage is full");
                }
            }
        }
        Waiter { vfs: self, cause }
    }

    /// Who waits now, and why.
    #[must_use]
    pub fn waiters(&self) -> Vec<(Cause, Waiters)> {
        self.room.waiting.lock().iter().map(|(cause, waiters)| (*cause, *waiters)).collect()
    }

    /// Dirty bytes of a rule.
    ///
    /// # Errors
    /// If the catalog can't be read.
    pub fn dirty_of(&self, rule: usize) -> Result<Sums> {
        let backlog = self.backlog()?;
        Ok(self.sums(backlog.iter().filter(|part| self.rule_of(part).is_some_and(|of| of.index == rule))))
    }

    /// None if it is gone.
    fn wanted_path(&self, wanted: &Wanted) -> Result<Option<(Key, Whereabouts)>> {
        let path = match wanted {
            Wanted::File(ino) => {
                self.catalog().inode(*ino).and_then(|inode| Ok((self.some_path(*ino)?, inode.opened_as())))
            }
            Wanted::Name(dir, name, ids) => self.child_path(*dir, name).map(|path| {
                let whereabouts = self.new_whereabouts(&path, *ids);
                (path, whereabouts)
            }),
        };
        match path {
            Ok(path) => Ok(Some(path)),
            // The open itself says what is wrong.
            Err(error) if matches!(error.kind(), Kind::NotFound | Kind::Invalid | Kind::NameTooLong) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn backlog(&self) -> Result<Arc<Vec<Backlog>>> {
        self.catalog().backlog(Duration::ZERO, &|path, ids| self.is_held(path, ids))
    }

    fn rule_of(&self, part: &Backlog) -> Option<Arc<Rule>> {
        self.rules.read().of_domain(&part.domain).cloned()
    }

    fn sums<'a>(&self, parts: impl Iterator<Item = &'a Backlog>) -> Sums {
        Sums::of(parts.map(|part| Part {
            bytes: part.bytes,
            steps: part.steps,
            waits: match part.waiting {
                Waiting::ForMover => Waits::ForMover,
                Waiting::Behind => Waits::Behind,
                Waiting::ForName | Waiting::ForClose | Waiting::ForPerson => Waits::ForOthers,
            },
            order: match self.rule_of(part).map(|rule| rule.order) {
                Some(Order::None) => Ordering::None,
                _ => Ordering::Kept,
            },
        }))
    }

    fn ask_for_room<'a>(&self, parts: impl Iterator<Item = &'a Backlog>, stage: TierId) {
        let mut domains: BTreeMap<String, Seq> = BTreeMap::new();
        for part in parts {
            let newest = domains.entry(part.domain.clone()).or_insert(part.newest);
            *newest = part.newest.max(*newest);
        }
        (self.parts.room.ask)(domains.into_iter().collect(), stage);
    }

    /// A file that was closed a moment ago may count as open still: that is no reason to shout.
    fn tell_over(&self, rule: &Rule, sums: Sums) {
        let now = self.parts.clock.monotonic();
        let mut over = self.room.over.lock();
        let (since, told) = over.get_or_insert((now, false));
        if !*told && now.saturating_sub(*since) >= TELL_AFTER {
            *told = true;
            tracing::error!(
                rule = rule.pattern,
                dirty = sums.dirty,
                "more than dirty_max is not at home, and nothing of it can be committed: opens for writing go on all the same"
            );
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiting = self.vfs.room.waiting.lock();
        let Some(waiters) = waiting.get_mut(&self.cause) else { return };
        waiters.opens -= 1;
        if waiters.opens == 0 {
            waiting.remove(&self.cause);
            drop(waiting);
            tracing::info!("opens for writing go on");
        }
    }
}
