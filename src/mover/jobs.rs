//! The jobs: each does what one step asks for, looks again, and is idempotent.

pub(crate) mod attrs;
pub(crate) mod chores;
mod commit;
mod conflict;
mod delete;
mod directory;
mod prefix;
mod reconcile;
mod relocate;
pub(crate) mod subject;
pub(crate) mod tidy;
mod upload;

pub(crate) use commit::{resident, resolve};

use crate::catalog::{Step, StepKind};
use crate::error::{Error, Kind, Result};
use crate::mover::context::Context;
use crate::mover::flush::found;
use crate::mover::queue::{Holds, Item, Thing, Verdict, backoff, later};
use crate::mover::status::{Counters, Trouble};
use crate::policy::placement::Order;
use crate::types::{FileKind, Seq};
use std::sync::Arc;
use std::time::Duration;

/// Why a job ends without having done all.
#[derive(Debug)]
pub(crate) enum Halt {
    /// It failed.
    Failed(Error),
    /// The file is open for writing: nothing can be sealed now.
    Open,
    /// Things changed while it worked: look again.
    Again,
}

impl<E: Into<Error>> From<E> for Halt {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// What a job's parts return.
pub(crate) type Flow<T> = std::result::Result<T, Halt>;

/// How a job ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) domain: String,
    pub(crate) seq: Seq,
    pub(crate) verdict: Verdict,
    /// Bytes that reached home.
    pub(crate) bytes: u64,
    pub(crate) trouble: Option<Trouble>,
}

impl Ended {
    fn new(item: &Item, verdict: Verdict) -> Self {
        Self { domain: item.domain.clone(), seq: item.seq, verdict, bytes: 0, trouble: None }
    }

    /// The job's task panicked or was stopped.
    pub(crate) fn died(
        context: &Context,
        (domain, seq): (String, Seq),
        error: &tokio::task::JoinError,
    ) -> Self {
        tracing::error!(%domain, seq = seq.0, %error, "a job of the mover died; it is tried again");
        let verdict = Verdict::Retry(later(context.clock.wall(), backoff(6, rand::random())));
        Self { domain, seq, verdict, bytes: 0, trouble: None }
    }
}

/// A step as the queue needs it.
pub(crate) fn brief(context: &Context, step: &Step) -> Result<Item> {
    Ok(Item {
        seq: step.seq,
        domain: step.domain.clone(),
        queued_at: step.queued_at,
        settle: settle(context, &step.what)?,
        not_before: step.not_before,
        holds: match context.rules().order(&step.domain) {
            Order::Strict => Holds::Domain,
            Order::None => holds(context, &step.what)?,
        },
    })
}

/// A step that works on more than this many keys runs alone.
const MOST_KEYS: usize = 16;

/// What a step works on: the inode, the keys it has and those it should have, or the key to delete. Steps above or below
/// the same key keep their order too: a directory goes after what was in it.
fn holds(context: &Context, what: &StepKind) -> Result<Holds> {
    let ino = match what {
        StepKind::Delete { place, name } => {
            let key = match found(context.catalog.place(*place))? {
                Some(place) => Thing::Key(place.tier, place.key.join(name)?),
                None => return Ok(Holds::Things(Vec::new())),
            };
            return Ok(Holds::Things(vec![key]));
        }
        StepKind::Reconcile(ino) => *ino,
    };
    let (names, replicas) = (context.catalog.names(ino)?, context.catalog.replicas(ino)?);
    let is_directory =
        found(context.catalog.inode(ino))?.is_some_and(|inode| inode.attr.kind == FileKind::Directory);
    let places = if is_directory { context.catalog.places(ino)? } else { Arc::default() };
    if names.len() + replicas.len() + places.len() > MOST_KEYS {
        return Ok(Holds::Domain);
    }
    let rules = context.rules();
    let mut things = vec![Thing::Inode(ino)];
    for (parent, name) in names {
        let Some(dir) = context.catalog.path(parent)? else { continue };
        let path = dir.join(&name)?;
        things.push(Thing::Key(rules.rule(&path).home, path));
    }
    let replicas = replicas.into_iter().filter(|replica| !replica.staged);
    things.extend(replicas.map(|replica| Thing::Key(replica.tier, replica.key)));
    things.extend(places.iter().map(|place| Thing::Key(place.tier, place.key.clone())));
    Ok(Holds::Things(things))
}

/// Only files settle: a directory or a symlink costs one request, a delete frees a name.
pub(crate) fn settle(context: &Context, what: &StepKind) -> Result<Duration> {
    let StepKind::Reconcile(ino) = *what else { return Ok(Duration::ZERO) };
    match found(context.catalog.inode(ino))? {
        Some(inode) if inode.attr.kind == FileKind::Regular => {}
        _ => return Ok(Duration::ZERO),
    }
    Ok(context.catalog.path(ino)?.map_or(Duration::ZERO, |path| context.rules().rule(&path).settle))
}

/// Does the step of `item`.
pub(crate) async fn run(context: Arc<Context>, item: Item) -> Ended {
    let step = match fresh(&context, item.seq) {
        Ok(Some(step)) => step,
        Ok(None) => return Ended::new(&item, Verdict::Done),
        Err(error) => return failed(&context, &item, None, error),
    };
    if step.queued_at != item.queued_at {
        return match brief(&context, &step) {
            Ok(now) => Ended::new(&item, Verdict::Later(now)),
            Err(error) => failed(&context, &item, Some(&step), error),
        };
    }
    let result = match &step.what {
        StepKind::Reconcile(ino) => reconcile::run(&context, &step, *ino).await,
        StepKind::Delete { place, name } => delete::run(&context, &step, *place, name).await,
    };
    match result {
        Ok(bytes) => Ended { bytes, ..Ended::new(&item, Verdict::Done) },
        Err(Halt::Open) => Ended::new(&item, Verdict::Parked),
        Err(Halt::Again) => Ended::new(&item, Verdict::Retry(later(context.clock.wall(), AGAIN))),
        Err(Halt::Failed(error)) => failed(&context, &item, Some(&step), error),
    }
}

/// Wait before looking again at what changed under a job.
const AGAIN: Duration = Duration::from_millis(20);

/// The step as it is now, if it still exists.
pub(crate) fn fresh(context: &Context, seq: Seq) -> Result<Option<Step>> {
    let next = context.catalog.steps(Seq(seq.0.saturating_sub(1)), 1)?;
    Ok(next.into_iter().next().filter(|step| step.seq == seq))
}

/// Ends a step; false if it was queued once more while it ran and must be done again.
fn finish(context: &Context, seq: Seq) -> Result<bool> {
    context.catalog.finish_step(seq)?;
    Ok(fresh(context, seq)?.is_none())
}

fn failed(context: &Context, item: &Item, step: Option<&Step>, error: Error) -> Ended {
    let now = context.clock.wall();
    let attempts = step.map_or(1, |step| step.attempts + 1);
    let about = step.map_or_else(String::new, |step| about(context, step));
    let blocked = is_permanent(error.kind());
    let not_before = later(now, backoff(attempts, rand::random()));
    let text = error.to_string();
    tracing::warn!(%about, domain = %item.domain, attempts, blocked, error = %text, "a step of the mover failed");
    Counters::add(&context.counters.retries, 1);
    if let Err(error) = context.catalog.fail_step(item.seq, &text, not_before, blocked) {
        tracing::error!(%error, "the failure of a step can't be remembered");
    }
    let trouble = Trouble { seq: item.seq, domain: item.domain.clone(), about, error: text, at: now };
    let verdict = if blocked { Verdict::Blocked } else { Verdict::Retry(not_before) };
    Ended { trouble: Some(trouble), ..Ended::new(item, verdict) }
}

/// Whether trying again is of no use until a person acts. Whatever may pass by itself or by a change outside
/// tierfs (credentials, quota, a mount that comes back) is tried again for ever.
fn is_permanent(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Refused
            | Kind::NameTooLong
            | Kind::Unsupported
            | Kind::Invalid
            | Kind::Outside
            | Kind::NotDirectory
            | Kind::IsDirectory
            | Kind::Corrupt
    )
}

/// Whether a failed write may have happened all the same.
pub(crate) fn outcome_is_unknown(kind: Kind) -> bool {
    !is_permanent(kind)
        && !matches!(
            kind,
            Kind::Denied
                | Kind::NotPermitted
                | Kind::NoSpace
                | Kind::NotFound
                | Kind::Archived
                | Kind::ReadOnly
                | Kind::Exists
                | Kind::Changed
        )
}

/// What a step is about, for people.
fn about(context: &Context, step: &Step) -> String {
    let known = match &step.what {
        StepKind::Reconcile(ino) => context.catalog.path(*ino).ok().flatten().map(|path| path.to_string()),
        StepKind::Delete { place, name } => context
            .catalog
            .place(*place)
            .ok()
            .map(|place| format!("delete of {}/{}", place.key, String::from_utf8_lossy(name))),
    };
    known.unwrap_or_else(|| format!("step {}", step.seq.0))
}
