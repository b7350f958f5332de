//! What the queue has to know of a step: what it keeps others from, how long it waits, whether its name is held.

use crate::catalog::{Inode, Step, StepKind, WriteState};
use crate::error::{Result, found};
use crate::mover::context::Context;
use crate::mover::queue::{Ahead, Holds, Item, Names, Thing, later};
use crate::policy::placement::{Order, RuleSet, Subject};
use crate::types::{FileKind, Key, Timestamp, Whereabouts};
use std::sync::Arc;
use std::time::Duration;

/// Below that, sending the bytes ahead of a commit saves no time.
const AHEAD_FROM: u64 = 64 << 10;

/// A step as the queue needs it.
pub(crate) fn brief(context: &Context, step: &Step) -> Result<Item> {
    let about = About::look(context, &step.what)?;
    Ok(Item {
        seq: step.seq,
        domain: step.domain.clone(),
        queued_at: step.queued_at,
        renewed_at: step.renewed_at,
        settle: about.settle(context, &step.what),
        held_to: about.held_to(context, step),
        not_before: step.not_before,
        holds: match context.rules().order(&step.domain) {
            Order::Strict => Holds::Domain,
            Order::Barrier if !about.is_new(context, step)? => Holds::Domain,
            Order::Barrier | Order::None => holds(context, &step.what)?,
        },
        follows: step.follows.as_deref().map(RuleSet::from),
        names: match about.kind() {
            Some(FileKind::Directory) if step.moved => Names::Moved,
            _ => Names::Stay,
        },
        ahead: about.ahead(context, &step.what),
    })
}

/// Whether nothing has changed since the queue was told of the step that concerns it.
pub(super) fn is_as_told(context: &Context, step: &Step, item: &Item) -> Result<bool> {
    let held = || Ok::<_, crate::error::Error>(About::look(context, &step.what)?.held_to(context, step));
    Ok(step.renewed_at == item.renewed_at && held()?.is_none())
}

/// Whether nothing is committed of this inode under the name it has.
pub(crate) fn is_held(context: &Context, step: &Step) -> Result<bool> {
    Ok(About::look(context, &step.what)?.held_to(context, step).is_some())
}

/// What a step is about.
struct About {
    inode: Option<Inode>,
    path: Option<Key>,
}

impl About {
    fn look(context: &Context, what: &StepKind) -> Result<Self> {
        let Some(ino) = what.ino() else { return Ok(Self { inode: None, path: None }) };
        let inode = found(context.catalog.inode(ino))?;
        let path = if inode.is_some() { context.catalog.path(ino)? } else { None };
        Ok(Self { inode, path })
    }

    fn whereabouts(&self) -> Whereabouts {
        self.inode.as_ref().map(Inode::whereabouts).unwrap_or_default()
    }

    fn kind(&self) -> Option<FileKind> {
        self.inode.as_ref().map(|inode| inode.attr.kind)
    }

    /// Only files settle: a directory or a symlink costs one request, a delete frees a name.
    fn settle(&self, context: &Context, what: &StepKind) -> Duration {
        match (what, &self.path) {
            (StepKind::Reconcile(_), Some(path)) if self.kind() == Some(FileKind::Regular) => {
                context.rule(path, self.whereabouts()).settle
            }
            _ => Duration::ZERO,
        }
    }

    /// When its name is not held any longer, if it is. A file with several names is not.
    fn held_to(&self, context: &Context, step: &Step) -> Option<Timestamp> {
        let (Some(inode), Some(path)) = (&self.inode, &self.path) else { return None };
        let is_directory = inode.attr.kind == FileKind::Directory;
        let rules = context.rules();
        if !rules.is_held(Subject::new(path, self.whereabouts()))
            || (inode.attr.nlink > 1 && !is_directory)
            || context.released.lock().contains(&inode.attr.ino)
        {
            return None;
        }
        let until = later(step.queued_at, rules.rule(Subject::new(path, self.whereabouts())).hold_max);
        Some(until).filter(|until| *until > context.clock.wall())
    }

    /// Whether nothing is at home that the step replaces, moves or takes away.
    fn is_new(&self, context: &Context, step: &Step) -> Result<bool> {
        let moves = step.moved || matches!(step.what, StepKind::Replaced { .. });
        let Some(inode) = self.inode.as_ref().filter(|_| !moves) else { return Ok(false) };
        if inode.attr.kind == FileKind::Directory || inode.state == WriteState::Clean {
            return Ok(true);
        }
        let replicas = context.catalog.replicas(inode.attr.ino)?;
        Ok(!replicas.iter().any(|replica| !replica.staged && replica.version.is_some()))
    }

    fn ahead(&self, context: &Context, what: &StepKind) -> Ahead {
        let (Some(inode), Some(path)) = (&self.inode, &self.path) else { return Ahead::No };
        let is_remote = || {
            context
                .tier(context.rule(path, inode.whereabouts()).home)
                .is_ok_and(|home| home.resident().is_none())
        };
        let is_closed = matches!(what, StepKind::Reconcile(_)) && inode.state == WriteState::Closed;
        if is_closed && inode.attr.size >= AHEAD_FROM && is_remote() { Ahead::Possible } else { Ahead::No }
    }
}

/// A step that works on more than this many keys runs alone.
const MOST_KEYS: usize = 16;

/// What a step works on: the inode, the keys it has and those it should have, or the key to delete. Steps above or below
/// the same key keep their order too: a directory goes after what was in it.
fn holds(context: &Context, what: &StepKind) -> Result<Holds> {
    let ino = match what {
        StepKind::Delete { place, name } | StepKind::Replaced { place, name, .. } => {
            let key = match found(context.catalog.place(*place))? {
                Some(place) => Thing::Key(place.tier, place.key.join(name)?),
                None => return Ok(Holds::Things(Vec::new())),
            };
            return Ok(Holds::Things(vec![key]));
        }
        StepKind::Reconcile(ino) | StepKind::Preserved(ino, _) => *ino,
    };
    let (names, replicas) = (context.catalog.names(ino)?, context.catalog.replicas(ino)?);
    let inode = found(context.catalog.inode(ino))?;
    let is_directory = inode.as_ref().is_some_and(|inode| inode.attr.kind == FileKind::Directory);
    let whereabouts = inode.as_ref().map(Inode::whereabouts).unwrap_or_default();
    let places = if is_directory { context.catalog.places(ino)? } else { Arc::default() };
    if names.len() + replicas.len() + places.len() > MOST_KEYS {
        return Ok(Holds::Domain);
    }
    let rules = context.rules();
    let mut things = vec![Thing::Inode(ino)];
    for (parent, name) in names {
        let Some(dir) = context.catalog.path(parent)? else { continue };
        let path = dir.join(&name)?;
        things.push(Thing::Key(rules.rule(Subject::new(&path, whereabouts)).home, path));
    }
    let replicas = replicas.into_iter().filter(|replica| !replica.staged);
    things.extend(replicas.map(|replica| Thing::Key(replica.tier, replica.key)));
    things.extend(places.iter().map(|place| Thing::Key(place.tier, place.key.clone())));
    Ok(Holds::Things(things))
}
