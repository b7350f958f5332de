//! The jobs: each does what one step asks for, looks again, and is idempotent.

pub(crate) mod ahead;
pub(crate) mod attrs;
mod brief;
pub(crate) mod chores;
mod commit;
pub(crate) mod conflict;
mod delete;
pub(crate) mod directory;
mod partial;
pub(crate) mod prefix;
mod preserved;
pub(crate) mod reconcile;
pub(crate) mod relocate;
mod replaced;
mod same;
pub(crate) mod subject;
pub(crate) mod tidy;
pub(super) mod upload;

pub(crate) use brief::{brief, is_held};
pub(crate) use commit::{resident, resolve};

use crate::catalog::{PlaceId, Step, StepKind};
use crate::error::{Error, Kind, Result};
use crate::mover::context::Context;
use crate::mover::queue::{Item, Verdict, backoff, later};
use crate::mover::status::{Counters, Trouble};
use crate::types::{Seq, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// Why a job ends without having done all.
#[derive(Debug)]
pub(crate) enum Halt {
    /// It failed.
    Failed(Error),
    /// The file was closed, but is still open: nothing can be sealed now.
    Open,
    /// The file is being written again: its next close gives it its place in the order.
    Reopened,
    /// Things changed while it worked: look again.
    Again,
    /// Nothing is to be done before this moment.
    NotBefore(Timestamp),
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
    pub(crate) part: Part,
}

/// What of a step a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it, in its turn.
    Whole,
    /// It sends bytes before that.
    Ahead,
}

impl Ended {
    fn new(item: &Item, verdict: Verdict) -> Self {
        Self {
            domain: item.domain.clone(),
            seq: item.seq,
            verdict,
            bytes: 0,
            trouble: None,
            part: Part::Whole,
        }
    }

    /// The job's task panicked or was stopped.
    pub(crate) fn died(
        context: &Context,
        (domain, seq, part): (String, Seq, Part),
        error: &tokio::task::JoinError,
    ) -> Self {
        tracing::error!(%domain, seq = seq.0, %error, "a job of the mover died; it is tried again");
        let verdict = Verdict::Retry(later(context.clock.wall(), backoff(6, rand::random())));
        Self { domain, seq, verdict, bytes: 0, trouble: None, part }
    }
}

/// Does the step of `item`.
pub(crate) async fn run(context: Arc<Context>, item: Item) -> Ended {
    let ended = run_step(&context, &item).await;
    tracing::trace!(seq = item.seq.0, domain = %item.domain, verdict = ?ended.verdict, "a step was looked at");
    if ended.verdict == Verdict::Done {
        ahead::forget(&context, item.seq);
    }
    ended
}

async fn run_step(context: &Arc<Context>, item: &Item) -> Ended {
    let step = match fresh(context, item.seq) {
        Ok(Some(step)) => step,
        Ok(None) => return Ended::new(item, Verdict::Done),
        Err(error) => return failed(context, item, None, error),
    };
    match brief::is_as_told(context, &step, item) {
        Ok(true) => {}
        Ok(false) => {
            return match brief(context, &step) {
                Ok(now) => Ended::new(item, Verdict::Later(now)),
                Err(error) => failed(context, item, Some(&step), error),
            };
        }
        Err(error) => return failed(context, item, Some(&step), error),
    }
    let result = match &step.what {
        StepKind::Reconcile(ino) => reconcile::run(context, &step, *ino).await,
        StepKind::Preserved(ino, generation) => preserved::run(context, &step, *ino, *generation).await,
        StepKind::Replaced { ino, generation, place, name } => {
            replaced::run(context, &step, (*ino, *generation), (*place, name)).await
        }
        StepKind::Delete { place, name } => delete::run(context, &step, *place, name).await,
    };
    match result {
        Ok(bytes) => {
            if let Some(ino) = step.what.ino() {
                context.released.lock().remove(&ino);
                context.wanted.lock().remove(&ino);
            }
            Ended { bytes, ..Ended::new(item, Verdict::Done) }
        }
        Err(Halt::Open) => Ended::new(item, Verdict::Parked),
        Err(Halt::Reopened) => Ended::new(item, Verdict::Reopened),
        Err(Halt::NotBefore(moment)) => Ended::new(item, Verdict::Retry(moment)),
        Err(Halt::Again) => Ended::new(item, Verdict::Retry(later(context.clock.wall(), AGAIN))),
        Err(Halt::Failed(error)) => failed(context, item, Some(&step), error),
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
    let (text, kind) = (error.to_string(), error.kind());
    tracing::warn!(%about, domain = %item.domain, attempts, blocked, error = %text, "a step of the mover failed");
    Counters::add(&context.counters.retries, 1);
    if let Err(error) = context.catalog.fail_step(item.seq, &text, not_before, blocked) {
        tracing::error!(%error, "the failure of a step can't be remembered");
    }
    let trouble = Trouble { seq: item.seq, domain: item.domain.clone(), about, error: text, kind, at: now };
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
        StepKind::Reconcile(ino) | StepKind::Preserved(ino, _) => {
            context.catalog.path(*ino).ok().flatten().map(|path| path.to_string())
        }
        StepKind::Delete { place, name } => {
            key_of(context, *place, name).map(|key| format!("delete of {key}"))
        }
        StepKind::Replaced { place, name, .. } => {
            key_of(context, *place, name).map(|key| format!("{key} as it was"))
        }
    };
    known.unwrap_or_else(|| format!("step {}", step.seq.0))
}

fn key_of(context: &Context, place: PlaceId, name: &[u8]) -> Option<String> {
    let place = context.catalog.place(place).ok()?;
    Some(format!("{}/{}", place.key, String::from_utf8_lossy(name)))
}
