//! Waiting for commits on behalf of the file system. What a mover is asked by the file system that it looks after itself, so it must not keep it.

use crate::error::{Error, Kind, Result};
use crate::mover::context::Context;
use crate::mover::engine::{Event, FlushRequest};
use crate::mover::flush::{self, FlushReport, FlushScope, Hold, Progress, Targets};
use crate::mover::status::Trouble;
use crate::policy::placement::Subject;
use crate::types::{Awaited, Generation, Ino, Timestamp};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

/// How often a waiter looks at what fails.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How often it looks whether it still waits for the right step.
const LOOK_AGAIN_EVERY: Duration = Duration::from_millis(500);

/// Before it is asked again for a step that came back.
const AGAIN: Duration = Duration::from_millis(20);

/// Waits for a mover, as long as there is one.
#[derive(Clone)]
pub struct Committer {
    context: Weak<Context>,
    events: mpsc::WeakSender<Event>,
}

impl std::fmt::Debug for Committer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Committer").finish_non_exhaustive()
    }
}

impl Committer {
    pub(super) fn new(context: &Arc<Context>, events: &mpsc::Sender<Event>) -> Self {
        Self { context: Arc::downgrade(context), events: events.downgrade() }
    }

    /// Waits until it is at home, with what comes before it in its order; settling ends for that. What can't be committed is tried again
    /// all the same after this has told it.
    ///
    /// # Errors
    /// What keeps it from its home: a refusal at once; what may pass (throttling, no answer) when it has lasted for `patience`.
    /// [`Kind::Changed`] if somebody else changed it there: then it is at home under the name of a conflict copy.
    pub async fn at_home(&self, awaited: Awaited, patience: Duration) -> Result<()> {
        let context = self.context.upgrade().ok_or_else(ending)?;
        let mut watch = Watch::new(&context, patience);
        match awaited {
            Awaited::Content(ino, generation) => self.content(&context, ino, generation, watch).await,
            Awaited::Names(dir) => {
                let scope = FlushScope::In(dir);
                let look = move |context: &Context| flush::targets(context, &scope, Hold::Stays);
                let targets = context.blocking(look).await?;
                self.wait_on(&context, targets, &mut watch).await
            }
        }
    }

    async fn content(
        &self,
        context: &Arc<Context>,
        ino: Ino,
        generation: Generation,
        mut watch: Watch,
    ) -> Result<()> {
        let look = || context.blocking(move |context| targets_of(context, ino, generation));
        let conflicts = |context: &Context| context.counters.conflict_copies.lock().contains(&ino);
        let before = conflicts(context);
        while let Some(targets) = look().await? {
            let step = targets.domains.clone();
            let mut done = pin!(self.wait_on(context, targets, &mut watch));
            loop {
                tokio::select! {
                    done = &mut done => break done?,
                    // It may have been deleted, or renamed to another place in the order.
                    () = tokio::time::sleep(LOOK_AGAIN_EVERY) => {
                        if look().await?.is_none_or(|now| now.domains != step) {
                            break;
                        }
                    }
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
        if conflicts(context) && !before {
            let text = "somebody else changed the file at its home; both versions are kept, this one under another name";
            return Err(Error::new(Kind::Changed, text));
        }
        Ok(())
    }

    async fn wait_on(&self, context: &Arc<Context>, targets: Targets, watch: &mut Watch) -> Result<()> {
        let (reply, mut answer) = oneshot::channel();
        let request =
            FlushRequest { targets: targets.clone(), progress: watch::channel(Progress::default()).0, reply };
        let events = self.events.upgrade().ok_or_else(ending)?;
        events
            .send(Event::Flush(request))
            .await
            .map_err(|closed| ending().with_source(closed.to_string()))?;
        drop(events);
        let mut look = tokio::time::interval(LOOK_EVERY);
        loop {
            tokio::select! {
                answer = &mut answer => {
                    return refused(&answer.map_err(|closed| ending().with_source(closed))?);
                }
                _ = look.tick() => watch.look(context, &targets)?,
            }
        }
    }
}

/// The step that brings it home; none if there is nothing to wait for.
fn targets_of(context: &Context, ino: Ino, generation: Generation) -> Result<Option<Targets>> {
    let Some((domain, seq)) = context.catalog.step_for(ino, generation)? else { return Ok(None) };
    let path = context.catalog.path(ino)?;
    // Renamed meanwhile to a name under which nothing is committed.
    let ids = context.catalog.inode(ino)?.attr.ids();
    if path.is_some_and(|path| context.rules().is_held(Subject::new(&path, ids))) {
        return Ok(None);
    }
    flush::want(context, ino)?;
    Ok(Some(Targets::step(&context.rules(), domain, seq)))
}

fn refused(report: &FlushReport) -> Result<()> {
    report.blocked.first().map_or(Ok(()), |trouble| Err(told(trouble)))
}

fn told(trouble: &Trouble) -> Error {
    Error::new(trouble.kind, format!("{}: {}", trouble.about, trouble.error))
}

fn ending() -> Error {
    Error::new(
        Kind::Interrupted,
        "the mount is ending; what was written is kept and goes home after the next mount",
    )
}

/// How long the home has given no sign of life, and what it said.
struct Watch {
    patience: Duration,
    /// What failed before is being tried again.
    began: Timestamp,
    sent: u64,
    heard: Instant,
}

impl Watch {
    fn new(context: &Context, patience: Duration) -> Self {
        let (began, sent) = (context.clock.wall(), sent(context));
        Self { patience, began, sent, heard: Instant::now() }
    }

    /// Fails if there is no use in waiting any longer.
    fn look(&mut self, context: &Context, targets: &Targets) -> Result<()> {
        let sent = sent(context);
        if sent != self.sent {
            (self.sent, self.heard) = (sent, Instant::now());
        }
        let now = context.clock.wall();
        let failing = context.counters.failing.lock();
        let ours = failing.iter().filter(|((domain, seq), _)| targets.include(domain, *seq));
        let since_call = |(_, trouble): &&(Timestamp, Trouble)| trouble.at >= self.began;
        for (since, trouble) in ours.map(|(_, known)| known).filter(since_call) {
            let lasted = now.0.saturating_sub(since.max(&self.began).0);
            let lasted = Duration::from_nanos(u64::try_from(lasted).unwrap_or(0));
            if !trouble.kind.is_transient() || lasted >= self.patience {
                return Err(told(trouble));
            }
        }
        drop(failing);
        if self.heard.elapsed() >= self.patience {
            return Err(Error::new(Kind::TimedOut, "the home gives no sign of life; the upload goes on"));
        }
        Ok(())
    }
}

/// Bytes sent and steps done: both are signs of life.
fn sent(context: &Context) -> u64 {
    let counters = &context.counters;
    let sent = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    sent(&counters.sent_bytes)
        + sent(&counters.committed_files)
        + sent(&counters.deleted)
        + sent(&counters.moved)
}
