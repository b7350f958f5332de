//! The mover as others see it: flush, drain, status, stop.

use crate::error::{Error, Kind, Result};
use crate::mover::awaited::Committer;
use crate::mover::cold::{self, ColdPlan};
use crate::mover::context::Context;
use crate::mover::engine::{Event, FlushRequest};
use crate::mover::evict::{self, HotPlan};
use crate::mover::flush::{self, FlushReport, FlushScope, Hold, Named, PROGRESS_EVERY, Progress, Targets};
use crate::mover::listing::{self, Queued};
use crate::mover::overflow::{self, OverflowPlan};
use crate::mover::recover;
use crate::mover::room::RoomMaker;
use crate::mover::status::{MoverStatus, Trouble};
use crate::policy::aside::is_conflict_name;
use crate::policy::placement::{Rules, Subject};
use crate::types::{Seq, TierId};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// How often a flush looks again at a file that was named and seems open, before it says so.
const CLOSE_PATIENCE: usize = 8;

/// The same at files that are closed, while the kernel lets go of them or a program has them mapped.
const MAPPED_PATIENCE: usize = 3;

/// How often a flush that waits looks whether programs of an earlier mount have let go of their files.
const LOOK_AT_INHERITED_EVERY: Duration = Duration::from_secs(2);

/// So often a flush looks for deletes that were queued by what it waited for.
const DELETES_OF_DELETES: usize = 4;

/// Talks to a running mover. Cheap to clone.
#[derive(Clone)]
pub struct MoverHandle {
    context: Arc<Context>,
    events: mpsc::Sender<Event>,
}

impl std::fmt::Debug for MoverHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MoverHandle").finish_non_exhaustive()
    }
}

impl MoverHandle {
    pub(crate) fn new(context: Arc<Context>, events: mpsc::Sender<Event>) -> Self {
        Self { context, events }
    }

    /// Waits until everything in `scope` that was closed, renamed, deleted or changed before this call is at home, with
    /// everything before it in its order domains. Settling ends at once. A file that an earlier daemon left open is taken as
    /// closed if `scope` names it.
    ///
    /// # Errors
    /// Only if the catalog fails or the mover stops; what can't be flushed is in the report.
    pub async fn flush(&self, scope: FlushScope, deadline: Duration) -> Result<FlushReport> {
        let (progress, _) = watch::channel(Progress::default());
        self.flush_watched(scope, deadline, progress).await
    }

    /// As [`MoverHandle::flush`], telling `progress` how far it is.
    ///
    /// # Errors
    /// As [`MoverHandle::flush`].
    pub async fn flush_watched(
        &self,
        scope: FlushScope,
        deadline: Duration,
        progress: watch::Sender<Progress>,
    ) -> Result<FlushReport> {
        let scope = Arc::new(scope);
        let mut targets = self.targets(&scope).await?;
        for look in 0..CLOSE_PATIENCE {
            if targets.unclosed == 0 && (targets.unsettled == 0 || look >= MAPPED_PATIENCE) {
                break;
            }
            // The end of a write may be on its way from the kernel, or wait for the last mapping to be looked at.
            tokio::time::sleep(PROGRESS_EVERY).await;
            targets = self.targets(&scope).await?;
        }
        let until = tokio::time::Instant::now() + deadline;
        let start =
            Progress { files_total: targets.files, bytes_total: targets.bytes, ..Progress::default() };
        progress.send_replace(start);
        let report = self.wait_for(targets, until, &progress).await?;
        for _ in 0..DELETES_OF_DELETES {
            let scope = Arc::clone(&scope);
            let left = self.context.blocking(move |context| flush::deletes(context, &scope)).await?;
            if !report.complete || left.domains.is_empty() {
                break;
            }
            let ended = self.wait_for(left, until, &watch::channel(Progress::default()).0).await?;
            if !ended.complete {
                return Ok(FlushReport { progress: report.progress, open: report.open, ..ended });
            }
        }
        Ok(report)
    }

    async fn wait_for(
        &self,
        targets: Targets,
        until: tokio::time::Instant,
        progress: &watch::Sender<Progress>,
    ) -> Result<FlushReport> {
        let open = targets.open.clone();
        let (reply, mut answer) = oneshot::channel();
        self.send(Event::Flush(FlushRequest { targets, progress: progress.clone(), reply })).await?;
        let sent_before = self.context.counters.sent_bytes.load(Ordering::Relaxed);
        let end = tokio::time::sleep_until(until);
        tokio::pin!(end);
        let mut look = tokio::time::interval(PROGRESS_EVERY);
        let mut inherited = tokio::time::interval(LOOK_AT_INHERITED_EVERY);
        loop {
            tokio::select! {
                answer = &mut answer => return answer.map_err(|closed| stopped().with_source(closed)),
                () = &mut end => {
                    let progress = *progress.borrow();
                    return Ok(FlushReport { progress, timed_out: true, open, ..FlushReport::default() });
                }
                _ = look.tick() => {
                    let sent = self.context.counters.sent_bytes.load(Ordering::Relaxed) - sent_before;
                    progress.send_modify(|now| now.bytes_done = now.bytes_done.max(sent.min(now.bytes_total)));
                }
                _ = inherited.tick() => self.context.blocking(recover::adopt_released).await?,
            }
        }
    }

    async fn targets(&self, scope: &Arc<FlushScope>) -> Result<Targets> {
        let scope = Arc::clone(scope);
        let look = move |context: &Context| {
            flush::close_inherited(context, &scope)?;
            let unsettled = (context.settle_closed)();
            let mut targets = flush::targets(context, &scope, Hold::Ends)?;
            targets.unsettled = unsettled;
            Ok(targets)
        };
        self.context.blocking(look).await
    }

    /// What a flush of `scope` would have to wait for, without asking for it.
    ///
    /// # Errors
    /// If the catalog fails.
    pub async fn pending(&self, scope: FlushScope) -> Result<FlushReport> {
        let targets =
            self.context.blocking(move |context| flush::targets(context, &scope, Hold::Stays)).await?;
        let progress =
            Progress { files_total: targets.files, bytes_total: targets.bytes, ..Progress::default() };
        let complete = targets.files == 0;
        Ok(FlushReport { progress, complete, open: targets.open, ..FlushReport::default() })
    }

    /// What still has to reach home: steps after `after` in their order, at most `limit`; and where the next page begins.
    ///
    /// # Errors
    /// If the catalog fails.
    pub async fn queued(&self, after: Seq, limit: usize) -> Result<(Vec<Queued>, Option<Seq>)> {
        self.context.blocking(move |context| listing::page(context, after, limit)).await
    }

    /// What would become of hot copies now; changes nothing.
    ///
    /// # Errors
    /// If the catalog or a hot tier can't be read.
    pub async fn plan(&self) -> Result<Vec<HotPlan>> {
        self.context.blocking(evict::plan).await
    }

    /// What would go to cold tiers now, because nobody uses it; changes nothing.
    ///
    /// # Errors
    /// If the catalog can't be read.
    pub async fn plan_cold(&self) -> Result<ColdPlan> {
        cold::plan(&self.context).await
    }

    /// Homes that are too full for new files now.
    #[must_use]
    pub fn overflowing(&self) -> Vec<TierId> {
        overflow::full(&self.context)
    }

    /// What is elsewhere because its home is too full.
    ///
    /// # Errors
    /// If the catalog can't be read.
    pub async fn plan_overflow(&self) -> Result<OverflowPlan> {
        self.context.blocking(overflow::plan).await
    }

    /// Looks now how full homes are, and calls home what there is room for; answers how many files.
    ///
    /// # Errors
    /// If the catalog can't be read.
    pub async fn look_at_homes(&self) -> Result<u64> {
        self.context.blocking(overflow::pass).await
    }

    /// Looks now for files that nobody uses, and moves them; answers how many moved.
    ///
    /// # Errors
    /// If the catalog can't be read.
    pub async fn send_unused(&self) -> Result<u64> {
        Ok(cold::pass(&self.context).await?.moved)
    }

    /// Tries failed steps again at once. Answers how many had failed, and how many had not.
    ///
    /// # Errors
    /// If the catalog fails or the mover stops.
    pub async fn retry(&self, named: Named) -> Result<(u64, u64)> {
        let retry = self.context.blocking(move |context| listing::retry(context, &named)).await?;
        let counts = (retry.failed.len() as u64, retry.others);
        if counts.0 > 0 {
            self.send(Event::Retry(retry.failed)).await?;
        }
        Ok(counts)
    }

    /// Flushes everything; for unmount.
    ///
    /// # Errors
    /// As [`MoverHandle::flush`].
    pub async fn drain(&self, deadline: Duration) -> Result<FlushReport> {
        self.flush(FlushScope::All, deadline).await
    }

    /// What keeps steps from their home now and may pass, the one that has failed for the longest time; cheap.
    #[must_use]
    pub fn failing(&self) -> Option<Trouble> {
        let failing = self.context.counters.failing.lock();
        failing.values().min_by_key(|(since, _)| *since).map(|(_, trouble)| trouble.clone())
    }

    /// How it is doing.
    ///
    /// # Errors
    /// If the catalog can't be read.
    pub fn status(&self) -> Result<MoverStatus> {
        let counters = &self.context.counters;
        let queue = *counters.queue.lock();
        let rules = self.context.rules();
        let backlog = self
            .context
            .catalog
            .backlog(Duration::ZERO, &|path, ids| rules.is_held(Subject::new(path, ids)))?;
        let failing = {
            let failing = counters.failing.lock();
            let longest = failing.values().min_by_key(|(since, _)| *since).cloned();
            (failing.len() as u64, longest)
        };
        let mut status = MoverStatus {
            queued: backlog.iter().map(|part| part.steps).sum(),
            backlog,
            retrying: failing.0,
            failing: failing.1,
            conflict_copies: self.conflict_copies(),
            in_flight: queue.running as u64,
            oldest: queue.oldest,
            committed_files: counters.committed_files.load(Ordering::Relaxed),
            committed_bytes: counters.committed_bytes.load(Ordering::Relaxed),
            sent_bytes: counters.sent_bytes.load(Ordering::Relaxed),
            deleted: counters.deleted.load(Ordering::Relaxed),
            moved: counters.moved.load(Ordering::Relaxed),
            conflicts: counters.conflicts.load(Ordering::Relaxed),
            retries: counters.retries.load(Ordering::Relaxed),
            leftovers: counters.leftovers.load(Ordering::Relaxed),
            blocked: counters.blocked.lock().values().cloned().collect(),
            last_error: counters.last_error.lock().clone(),
            lost: self.context.lost.lock().clone(),
            ..MoverStatus::default()
        };
        for (_, counts) in self.context.catalog.counts()? {
            status.dirty_files += counts.dirty_files;
            status.dirty_bytes += counts.dirty_bytes;
            status.open_files += counts.open_files;
        }
        Ok(status)
    }

    /// How many conflict copies are still there under the names they were given.
    fn conflict_copies(&self) -> u64 {
        let mut copies = self.context.counters.conflict_copies.lock();
        copies.retain(|ino| {
            let names = self.context.catalog.names(*ino);
            // Where the catalog can't say, they are.
            names.map_or(true, |names| names.iter().any(|(_, name)| is_conflict_name(name)))
        });
        copies.len() as u64
    }

    /// For those that wait for room; does not keep the mover.
    #[must_use]
    pub fn room_maker(&self) -> RoomMaker {
        RoomMaker::new(&self.context, &self.events)
    }

    /// For those that wait for commits; does not keep the mover.
    #[must_use]
    pub fn committer(&self) -> Committer {
        Committer::new(&self.context, &self.events)
    }

    /// The rules as they are now.
    #[must_use]
    pub fn rules(&self) -> Arc<Rules> {
        self.context.rules()
    }

    /// Uses other rules from now on.
    pub fn set_rules(&self, rules: Arc<Rules>) {
        *self.context.rules.write() = rules;
        *self.context.rules_since.lock() = self.context.clock.monotonic();
        self.context.rules_changed.notify_one();
        self.context.idle_rules_changed.notify_one();
        self.wake();
    }

    /// Uses other rules once `notes` are durable, which tell the next daemon where files are until all have moved.
    ///
    /// # Errors
    /// If the catalog can't be written; nothing has changed then.
    pub fn change_rules(&self, rules: Arc<Rules>, notes: &[(&str, Option<String>)]) -> Result<()> {
        let mut now = self.context.rules.write();
        self.context.catalog.put_notes(notes)?;
        *now = rules.clone();
        drop(now);
        self.set_rules(rules);
        Ok(())
    }

    /// Drops hot copies of a tier above this share of its capacity, down to that, from now on.
    pub fn set_marks(&self, tier: TierId, high_water: f64, low_water: f64) {
        self.context.marks.write().insert(tier, (high_water, low_water));
    }

    /// Changes when all files have left the homes of former rules: others may use [`MoverHandle::rules`] then.
    #[must_use]
    pub fn settled_rules(&self) -> watch::Receiver<()> {
        self.context.settled_rules.subscribe()
    }

    /// Looks at the queue and the clock now.
    pub fn wake(&self) {
        // A full channel means that the loop is about to look anyway.
        let _ = self.events.try_send(Event::Queued);
    }

    /// Ends the loop. Jobs under way are dropped: the next start goes on where they were.
    pub async fn stop(&self) {
        let (done, ended) = oneshot::channel();
        if self.send(Event::Stop(done)).await.is_ok() {
            // An error means that the loop ended by itself.
            let _ = ended.await;
        }
    }

    async fn send(&self, event: Event) -> Result<()> {
        self.events.send(event).await.map_err(|closed| stopped().with_source(closed.to_string()))
    }
}

fn stopped() -> Error {
    Error::new(Kind::Interrupted, "the mover is stopped")
}
