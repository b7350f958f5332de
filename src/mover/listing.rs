//! What still has to reach home, a step at a time: for people who ask, and to have a failed one tried again.

use crate::catalog::{PlaceId, Step, StepKind, WriteState};
use crate::error::{Result, found};
use crate::mover::context::Context;
use crate::mover::flush::{Named, Scope, each_step};
use crate::mover::jobs;
use crate::mover::queue::settled_at;
use crate::types::{FileKind, Ino, Key, Seq, Timestamp};
use std::collections::HashSet;

/// A step as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Its place in the order.
    pub seq: Seq,
    /// Its order domain.
    pub domain: String,
    /// What is to be done.
    pub what: What,
    /// Where: a path in the mount, or a key at home if nothing there has a path any more.
    pub path: Key,
    /// Bytes that are not at home yet.
    pub bytes: u64,
    /// When it was queued.
    pub queued_at: Timestamp,
    /// How far it is.
    pub stand: Stand,
    /// What the last try said.
    pub error: Option<String>,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// New content of a file.
    Write,
    /// Names or attributes.
    Update,
    /// A directory and where it is.
    Directory,
    /// A key at home goes.
    Delete,
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// Refused for good.
    Blocked,
    /// Failed, and tried again at this moment.
    Retrying(Timestamp),
    /// The file is open for writing, or was never closed.
    Open,
    /// Being done now.
    Running,
    /// Its name is held, until then at most.
    Held(Timestamp),
    /// Waits until then for renames, rewrites and deletes.
    Settling(Timestamp),
    /// Waits for its turn.
    Waiting,
}

/// What [`retry`] found to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Retry {
    /// These had failed.
    pub(crate) failed: Vec<(String, Seq)>,
    /// So many had not.
    pub(crate) others: u64,
}

/// Steps after `after`, in order, at most `limit`; and where the next page begins.
pub(crate) fn page(context: &Context, after: Seq, limit: usize) -> Result<(Vec<Queued>, Option<Seq>)> {
    let steps = context.catalog.steps(after, limit)?;
    let next = steps.last().map(|last| last.seq).filter(|_| steps.len() == limit);
    let running = context.counters.running.lock().clone();
    let now = context.clock.wall();
    let mut queued = Vec::with_capacity(steps.len());
    for step in steps {
        queued.extend(describe(context, step, &running, now)?);
    }
    Ok((queued, next))
}

/// None if it is gone meanwhile.
fn describe(context: &Context, step: Step, running: &HashSet<Seq>, now: Timestamp) -> Result<Option<Queued>> {
    let subject = match &step.what {
        StepKind::Delete { place, name } => match key(context, *place, name)? {
            None => return Ok(None),
            Some(path) => Subject::of(What::Delete, path),
        },
        StepKind::Replaced { ino, place, name, .. } => match key(context, *place, name)? {
            None => return Ok(None),
            Some(path) => {
                let bytes = found(context.catalog.inode(*ino))?.map_or(0, |inode| inode.attr.size);
                Subject { bytes, ..Subject::of(What::Write, path) }
            }
        },
        StepKind::Reconcile(ino) => match inode(context, *ino)? {
            None => return Ok(None),
            Some(subject) => subject,
        },
        StepKind::Preserved(ino, _) => match inode(context, *ino)? {
            None => return Ok(None),
            // What was closed is kept apart from what is written now.
            Some(newest) => Subject { what: What::Write, open: false, ..newest },
        },
    };
    let item = jobs::brief(context, &step)?;
    let settled = settled_at(&item);
    let stand = match () {
        () if step.blocked => Stand::Blocked,
        () if running.contains(&step.seq) => Stand::Running,
        () if step.error.is_some() => Stand::Retrying(step.not_before),
        () if subject.open => Stand::Open,
        () => match item.held_to {
            Some(until) => Stand::Held(until),
            None if settled > now => Stand::Settling(settled),
            None => Stand::Waiting,
        },
    };
    Ok(Some(Queued {
        seq: step.seq,
        domain: step.domain,
        what: subject.what,
        path: subject.path,
        bytes: subject.bytes,
        queued_at: step.queued_at,
        stand,
        error: step.error,
    }))
}

/// What a key at home is called in the mount; the key itself where its directory is gone.
fn key(context: &Context, place: PlaceId, name: &[u8]) -> Result<Option<Key>> {
    let Some(place) = found(context.catalog.place(place))? else { return Ok(None) };
    let dir = place.ino.map(|dir| context.catalog.path(dir)).transpose()?.flatten();
    Ok(Some(dir.unwrap_or(place.key).join(name)?))
}

struct Subject {
    what: What,
    path: Key,
    bytes: u64,
    open: bool,
}

impl Subject {
    fn of(what: What, path: Key) -> Self {
        Self { what, path, bytes: 0, open: false }
    }
}

fn inode(context: &Context, ino: Ino) -> Result<Option<Subject>> {
    let (Some(inode), Some(path)) = (found(context.catalog.inode(ino))?, context.catalog.path(ino)?) else {
        return Ok(None);
    };
    Ok(Some(match (inode.attr.kind, inode.state) {
        (FileKind::Directory, _) => Subject::of(What::Directory, path),
        (_, WriteState::Clean) => Subject::of(What::Update, path),
        (_, state) => Subject {
            bytes: inode.attr.size,
            open: state != WriteState::Closed,
            ..Subject::of(What::Write, path)
        },
    }))
}

/// Lets the failed steps at and below a path go on at once.
pub(crate) fn retry(context: &Context, named: &Named) -> Result<Retry> {
    let mut retry = Retry::default();
    let scope = Scope::named(std::slice::from_ref(named));
    each_step(context, |step| {
        let meant = scope.covers(context, step)?;
        if meant && step.error.is_some() {
            retry.failed.push((step.domain.clone(), step.seq));
        } else if meant {
            retry.others += 1;
        }
        Ok(())
    })?;
    for (_, seq) in &retry.failed {
        context.catalog.retry_step(*seq)?;
    }
    Ok(retry)
}
