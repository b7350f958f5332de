//! What a flush waits for: the steps of its scope that were queued when it was asked, and
//! everything before them in their order domains.

use crate::catalog::{Place, Step, StepKind, WriteState};
use crate::error::{Result, found};
use crate::mover::context::Context;
use crate::mover::jobs;
use crate::mover::queue::Queue;
use crate::policy::placement::{Order, Rules};
use crate::types::{Ino, Key, Seq};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

/// What to flush.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlushScope {
    /// Everything.
    All,
    /// These files, their names, deletes and attributes.
    Inodes(Vec<Ino>),
    /// These files and directories with everything below.
    Under(Vec<Ino>),
    /// The names in this directory, with what is closed under them.
    In(Ino),
    /// The same by their paths, with what their homes still have under those.
    Named(Vec<Named>),
}

/// A path somebody named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The path.
    pub path: Key,
    /// What is there; none: it was removed, or renamed away, and its home may not know yet.
    pub ino: Option<Ino>,
}

/// How far a flush is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Steps that are done.
    pub files_done: u64,
    /// Steps it waits for in all.
    pub files_total: u64,
    /// Bytes at home, those of uploads under way included.
    pub bytes_done: u64,
    /// Bytes in all.
    pub bytes_total: u64,
    /// Bytes at home, without those of uploads under way.
    pub bytes_home: u64,
}

/// How a flush ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlushReport {
    /// How far it came.
    pub progress: Progress,
    /// Whether everything asked for is at home.
    pub complete: bool,
    /// The deadline passed first.
    pub timed_out: bool,
    /// Domains that wait for a person, with what they say.
    pub blocked: Vec<super::Trouble>,
    /// Files in the scope that are open for writing: what is written after their last close can't be flushed.
    pub open: Vec<Ino>,
}

/// Up to which step each domain must be worked off, and how much that is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Targets {
    pub(crate) domains: BTreeMap<String, Seq>,
    /// In domains without order: these steps alone.
    exact: BTreeMap<String, BTreeSet<Seq>>,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) open: Vec<Ino>,
    /// Files without a step: never closed.
    pub(crate) unclosed: u64,
    /// Files that are closed, and that somebody may still write to.
    pub(crate) unsettled: usize,
}

/// Steps read from the catalog at a time.
const PAGE: usize = 512;

/// Steps of a domain without order that a flush waits for one by one; beyond that it waits for all before the last of them too.
const MAX_EXACT: usize = 10_000;

/// Open files named in a report at most.
const MAX_OPEN: usize = 1000;

/// House-keeping that a flush does not wait for half a minute for: closes what an earlier daemon left open for writing, if the scope names it,
/// and looks again at what somebody may still write to.
pub(crate) fn close_inherited(context: &Context, scope: &FlushScope) -> Result<()> {
    super::recover::adopt_released(context)?;
    super::jobs::tidy::look_at_mapped(context)?;
    super::jobs::chores::describe_moved(context)?;
    let named: Vec<Ino> = match scope {
        FlushScope::All | FlushScope::In(_) => return Ok(()),
        FlushScope::Inodes(inodes) | FlushScope::Under(inodes) => inodes.clone(),
        FlushScope::Named(named) => named.iter().filter_map(|named| named.ino).collect(),
    };
    for ino in named {
        super::recover::close_as_told(context, ino)?;
    }
    Ok(())
}

/// What becomes of names in the scope that are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// They are committed as they are.
    Ends,
    /// They go on being held.
    Stays,
}

/// What `scope` has to wait for now.
pub(crate) fn targets(context: &Context, asked: &FlushScope, hold: Hold) -> Result<Targets> {
    let scope = Scope::new(asked);
    let rules = context.rules();
    let waits = hold == Hold::Ends || matches!(asked, FlushScope::In(_));
    let mut targets = Targets::default();
    each_step(context, |step| {
        if scope.covers(context, step)? {
            targets.domains.insert(step.domain.clone(), step.seq);
            if !scope.is_all() && rules.order(&step.domain) == Order::None {
                targets.exact.entry(step.domain.clone()).or_default().insert(step.seq);
            }
            if waits && let StepKind::Reconcile(ino) = step.what {
                want(context, ino)?;
            }
            if let Some(ino) = step.what.ino().filter(|_| hold == Hold::Ends)
                && jobs::is_held(context, step)?
            {
                context.released.lock().insert(ino);
            }
        }
        Ok(())
    })?;
    targets.exact.retain(|_, steps| steps.len() <= MAX_EXACT);
    let mut counted = targets.clone();
    each_step(context, |step| {
        if targets.include(&step.domain, step.seq)
            && (scope.covers(context, step)? || !jobs::is_held(context, step)?)
        {
            counted.count(context, step)?;
        }
        Ok(())
    })?;
    let mut targets = counted;
    if let FlushScope::Named(named) = asked {
        for ino in named.iter().filter_map(|named| named.ino) {
            targets.count_unclosed(context, ino)?;
        }
    }
    Ok(targets)
}

/// What was closed of a file that is open is committed as it was closed.
pub(crate) fn want(context: &Context, ino: Ino) -> Result<()> {
    if found(context.catalog.inode(ino))?.is_some_and(|inode| inode.state == WriteState::ClosedOpen) {
        context.wanted.lock().insert(ino);
    }
    Ok(())
}

/// Deletes in `asked` that are left when all it waited for is done: a step that moved a key has queued them behind everything.
pub(crate) fn deletes(context: &Context, asked: &FlushScope) -> Result<Targets> {
    let scope = Scope::new(asked);
    let mut targets = Targets::default();
    each_step(context, |step| {
        if matches!(step.what, StepKind::Delete { .. }) && scope.covers(context, step)? {
            targets.domains.insert(step.domain.clone(), step.seq);
            targets.exact.entry(step.domain.clone()).or_default().insert(step.seq);
        }
        Ok(())
    })?;
    targets.exact.retain(|_, steps| steps.len() <= MAX_EXACT);
    Ok(targets)
}

impl Targets {
    /// This step, with all before it in its order.
    pub(crate) fn step(rules: &Rules, domain: String, seq: Seq) -> Self {
        let exact = match rules.order(&domain) {
            Order::None => BTreeMap::from([(domain.clone(), BTreeSet::from([seq]))]),
            Order::Strict | Order::Barrier => BTreeMap::new(),
        };
        Self { domains: BTreeMap::from([(domain, seq)]), exact, ..Self::default() }
    }

    /// Whether this step is waited for.
    pub(crate) fn include(&self, domain: &str, seq: Seq) -> bool {
        match self.exact.get(domain) {
            Some(steps) => steps.contains(&seq),
            None => self.domains.get(domain).is_some_and(|last| seq <= *last),
        }
    }

    /// Forgets what is done.
    pub(crate) fn drop_done(&mut self, queue: &Queue) {
        let Self { domains, exact, .. } = self;
        domains.retain(|domain, last| {
            let Some(steps) = exact.get_mut(domain) else { return !queue.is_past(domain, *last) };
            while steps.first().is_some_and(|first| !queue.is_left(domain, *first)) {
                steps.pop_first();
            }
            !steps.is_empty()
        });
    }

    /// Whether nothing that is left can go on before a person acts.
    pub(crate) fn are_stuck(&self, queue: &Queue) -> bool {
        self.domains.iter().all(|(domain, last)| match self.exact.get(domain) {
            Some(steps) => {
                let waits = |seq: &Seq| queue.is_left(domain, *seq) && !queue.is_blocked(domain, *seq);
                !steps.iter().any(waits)
            }
            None => queue.is_stuck(domain, *last),
        })
    }

    /// A file that was named and has never been closed has no step yet, and is not at home all the same.
    fn count_unclosed(&mut self, context: &Context, ino: Ino) -> Result<()> {
        let Some(inode) = found(context.catalog.inode(ino))? else { return Ok(()) };
        if inode.state == WriteState::Writing && !self.open.contains(&ino) {
            self.files += 1;
            self.unclosed += 1;
            self.open.push(ino);
        }
        Ok(())
    }

    fn count(&mut self, context: &Context, step: &Step) -> Result<()> {
        self.files += 1;
        let StepKind::Reconcile(ino) = step.what else { return Ok(()) };
        let Some(inode) = found(context.catalog.inode(ino))? else { return Ok(()) };
        match inode.state {
            WriteState::Clean => {}
            WriteState::Closed => self.bytes += inode.attr.size,
            WriteState::Writing | WriteState::ClosedOpen if self.open.len() < MAX_OPEN => self.open.push(ino),
            WriteState::Writing | WriteState::ClosedOpen => {}
        }
        Ok(())
    }
}

/// Visits every step, in order.
pub(crate) fn each_step(context: &Context, mut visit: impl FnMut(&Step) -> Result<()>) -> Result<()> {
    let mut after = Seq(0);
    loop {
        let page = context.catalog.steps(after, PAGE)?;
        page.iter().try_for_each(&mut visit)?;
        match page.last() {
            Some(last) if page.len() == PAGE => after = last.seq,
            _ => return Ok(()),
        }
    }
}

/// Which steps are meant.
pub(crate) struct Scope {
    inodes: Inodes,
    /// With everything below, as it is here or as the home still has it.
    keys: Vec<Key>,
}

enum Inodes {
    All,
    Themselves(HashSet<Ino>),
    Under(HashSet<Ino>),
    /// The directory and the names in it.
    In(Ino),
}

impl Scope {
    fn new(scope: &FlushScope) -> Self {
        let inodes = match scope {
            FlushScope::All => Inodes::All,
            FlushScope::Under(inodes) if inodes.contains(&Ino::ROOT) => Inodes::All,
            FlushScope::Inodes(inodes) => Inodes::Themselves(inodes.iter().copied().collect()),
            FlushScope::Under(inodes) => Inodes::Under(inodes.iter().copied().collect()),
            FlushScope::In(dir) => Inodes::In(*dir),
            FlushScope::Named(named) => return Self::named(named),
        };
        Self { inodes, keys: Vec::new() }
    }

    /// What is, or was, at and below these paths.
    pub(crate) fn named(named: &[Named]) -> Self {
        let inodes: HashSet<Ino> = named.iter().filter_map(|named| named.ino).collect();
        let inodes = if inodes.contains(&Ino::ROOT) { Inodes::All } else { Inodes::Under(inodes) };
        Self { inodes, keys: named.iter().map(|named| named.path.clone()).collect() }
    }

    fn is_all(&self) -> bool {
        matches!(self.inodes, Inodes::All)
    }

    pub(crate) fn covers(&self, context: &Context, step: &Step) -> Result<bool> {
        if self.is_all() {
            return Ok(true);
        }
        match &step.what {
            StepKind::Reconcile(ino) | StepKind::Preserved(ino, _) => self.covers_inode(context, *ino),
            StepKind::Delete { place, name } | StepKind::Replaced { place, name, .. } => {
                match found(context.catalog.place(*place))? {
                    // A key of which nobody can say where it was.
                    None => Ok(true),
                    Some(place) => self.covers_key(context, &place, name),
                }
            }
        }
    }

    fn covers_inode(&self, context: &Context, ino: Ino) -> Result<bool> {
        let wanted = match &self.inodes {
            Inodes::All => return Ok(true),
            Inodes::Themselves(wanted) => return Ok(wanted.contains(&ino)),
            Inodes::In(dir) => {
                let names = || context.catalog.names(ino);
                return Ok(ino == *dir || names()?.iter().any(|(parent, _)| parent == dir));
            }
            Inodes::Under(wanted) => wanted,
        };
        if wanted.contains(&ino) {
            return Ok(true);
        }
        for (parent, _) in context.catalog.names(ino)? {
            if is_under(context, parent, wanted)? {
                return Ok(true);
            }
        }
        if self.keys.is_empty() {
            return Ok(false);
        }
        // Renamed away: its home still has it under the old name.
        let replicas = context.catalog.replicas(ino)?;
        let places = context.catalog.places(ino)?;
        let mut keys = replicas.iter().filter(|replica| !replica.staged).map(|replica| &replica.key);
        Ok(keys.any(|key| self.has(key)) || places.iter().any(|place| self.has(&place.key)))
    }

    fn covers_key(&self, context: &Context, place: &Place, name: &[u8]) -> Result<bool> {
        if !self.keys.is_empty() && self.has(&place.key.join(name)?) {
            return Ok(true);
        }
        let wanted = match &self.inodes {
            Inodes::All => return Ok(true),
            Inodes::Themselves(wanted) | Inodes::Under(wanted) => wanted,
            Inodes::In(dir) => return Ok(place.ino == Some(*dir)),
        };
        match place.ino {
            Some(dir) => is_under(context, dir, wanted),
            // A key below a directory that is gone: only its key tells whose it was.
            None => Ok(self.keys.is_empty()),
        }
    }

    fn has(&self, key: &Key) -> bool {
        self.keys.iter().any(|named| key.is_under(named))
    }
}

/// Longest chain of parents that is followed.
const MAX_DEPTH: usize = 4096;

fn is_under(context: &Context, dir: Ino, wanted: &HashSet<Ino>) -> Result<bool> {
    let mut at = dir;
    for _ in 0..MAX_DEPTH {
        if wanted.contains(&at) {
            return Ok(true);
        }
        if at == Ino::ROOT {
            return Ok(false);
        }
        match context.catalog.names(at)?.first() {
            Some((parent, _)) => at = *parent,
            None => return Ok(false),
        }
    }
    Ok(false)
}

/// How often a waiting flush looks at the bytes sent.
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_millis(200);
