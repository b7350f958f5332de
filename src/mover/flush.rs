//! What a flush waits for: the steps of its scope that were queued when it was asked, and
//! everything before them in their order domains.

use crate::catalog::{Step, StepKind, WriteState};
use crate::error::{Kind, Result};
use crate::mover::context::Context;
use crate::types::{Ino, Seq};
use std::collections::{BTreeMap, HashSet};
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
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) open: Vec<Ino>,
}

/// Steps read from the catalog at a time.
const PAGE: usize = 512;

/// Open files named in a report at most.
const MAX_OPEN: usize = 1000;

/// House-keeping that a flush does not wait for half a minute for: closes what an earlier daemon left open for writing, if the scope names it,
/// and looks again at what somebody may still write to.
pub(crate) fn close_inherited(context: &Context, scope: &FlushScope) -> Result<()> {
    super::recover::adopt_released(context)?;
    super::jobs::tidy::look_at_mapped(context)?;
    super::jobs::chores::describe_moved(context)?;
    let named: &[Ino] = match scope {
        FlushScope::All => return Ok(()),
        FlushScope::Inodes(inodes) | FlushScope::Under(inodes) => inodes,
    };
    for ino in named {
        super::recover::close_as_told(context, *ino)?;
    }
    Ok(())
}

/// What `scope` has to wait for now.
pub(crate) fn targets(context: &Context, scope: &FlushScope) -> Result<Targets> {
    let scope = Scope::new(scope);
    let mut targets = Targets::default();
    each_step(context, |step| {
        if scope.covers(context, step)? {
            targets.domains.insert(step.domain.clone(), step.seq);
        }
        Ok(())
    })?;
    let domains = std::mem::take(&mut targets.domains);
    each_step(context, |step| {
        if domains.get(&step.domain).is_some_and(|last| *last >= step.seq) {
            targets.count(context, step)?;
        }
        Ok(())
    })?;
    targets.domains = domains;
    Ok(targets)
}

impl Targets {
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

/// The answer, or `None` where the catalog knows no such row (any more).
pub(crate) fn found<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == Kind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Which steps are meant.
pub(crate) enum Scope {
    All,
    Inodes(HashSet<Ino>),
    Under(HashSet<Ino>),
}

impl Scope {
    fn new(scope: &FlushScope) -> Self {
        match scope {
            FlushScope::All => Self::All,
            FlushScope::Under(inodes) if inodes.contains(&Ino::ROOT) => Self::All,
            FlushScope::Inodes(inodes) => Self::Inodes(inodes.iter().copied().collect()),
            FlushScope::Under(inodes) => Self::Under(inodes.iter().copied().collect()),
        }
    }

    /// A file or directory, with everything below.
    pub(crate) fn under(ino: Ino) -> Self {
        Self::new(&FlushScope::Under(vec![ino]))
    }

    pub(crate) fn covers(&self, context: &Context, step: &Step) -> Result<bool> {
        let wanted = match self {
            Self::All => return Ok(true),
            Self::Inodes(wanted) | Self::Under(wanted) => wanted,
        };
        let deep = matches!(self, Self::Under(_));
        match &step.what {
            StepKind::Reconcile(ino) if wanted.contains(ino) => Ok(true),
            StepKind::Reconcile(ino) if deep => {
                for (parent, _) in context.catalog.names(*ino)? {
                    if is_under(context, parent, wanted)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            StepKind::Reconcile(_) => Ok(false),
            StepKind::Delete { place, .. } => match found(context.catalog.place(*place))? {
                // A key below a directory that is gone: nobody can say whose it was, so wait for it.
                Some(place) => place.ino.map_or(Ok(true), |dir| is_under(context, dir, wanted)),
                None => Ok(true),
            },
        }
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
