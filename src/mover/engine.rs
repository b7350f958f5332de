//! The loop: takes events, keeps the queue fed, starts jobs, answers flushes. Decides nothing itself.

use crate::error::Result;
use crate::mover::context::Context;
use crate::mover::flush::{FlushReport, Progress, Targets};
use crate::mover::handle::MoverHandle;
use crate::mover::jobs::{self, Ended, Part};
use crate::mover::queue::{Item, Limits, Queue, Verdict};
use crate::mover::status::{QueueFacts, Trouble};
use crate::mover::{cold, homecoming, overflow, rehome};
use crate::types::{Seq, Timestamp};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id, JoinError, JoinSet};

/// What can happen to the mover.
pub(crate) enum Event {
    /// A step was queued, a file released, or the clock moved.
    Queued,
    /// A job ended.
    Finished(Ended),
    /// Somebody waits for these.
    Flush(FlushRequest),
    /// Somebody wants these failed steps tried again now.
    Retry(Vec<(String, Seq)>),
    /// Somebody waits for room: these need not settle up to these steps.
    MakeRoom(Vec<(String, Seq)>),
    /// Time for house-keeping.
    Chores,
    /// End now; what runs is dropped.
    Stop(oneshot::Sender<()>),
}

/// A flush that waits for its answer.
pub(crate) struct FlushRequest {
    pub(crate) targets: Targets,
    pub(crate) progress: tokio::sync::watch::Sender<Progress>,
    pub(crate) reply: oneshot::Sender<FlushReport>,
}

struct Waiting {
    request: FlushRequest,
    progress: Progress,
    blocked: Vec<Trouble>,
}

struct Engine {
    context: Arc<Context>,
    queue: Queue,
    jobs: JoinSet<Ended>,
    /// Which step each job does.
    tasks: HashMap<Id, (String, Seq, Part)>,
    flushes: Vec<Waiting>,
    events: mpsc::Receiver<Event>,
    /// What goes on beside the queue.
    walks: JoinSet<()>,
}

/// Events waiting for the loop at most; senders wait beyond that.
const EVENTS: usize = 64;

/// Steps read at a time.
const PAGE: usize = 256;

/// How often the loop looks at stages, hot copies and tombstones.
const CHORES_EVERY: Duration = Duration::from_secs(30);

/// The longest sleep: the wall clock that steps are due by may jump.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);

/// Wait after the catalog itself failed.
const CATALOG_RETRY: Duration = Duration::from_secs(1);

pub(crate) fn start(context: Arc<Context>, limits: Limits) -> MoverHandle {
    let (sender, events) = mpsc::channel(EVENTS);
    let engine = Engine {
        context: Arc::clone(&context),
        queue: Queue::new(limits),
        jobs: JoinSet::new(),
        tasks: HashMap::new(),
        flushes: Vec::new(),
        events,
        walks: JoinSet::new(),
    };
    let runtime = context.runtime.clone();
    runtime.spawn(restore_heat(Arc::clone(&context)));
    runtime.spawn(engine.run());
    MoverHandle::new(context, sender)
}

/// Files count as never opened until this is done, a second for a million.
async fn restore_heat(context: Arc<Context>) {
    match context.blocking(jobs::chores::restore_heat).await {
        Ok(()) => drop(context.heat_known.send_replace(true)),
        Err(error) => tracing::warn!(%error, "the heat of files is not known from before"),
    }
}

impl Engine {
    async fn run(mut self) {
        let mut chores = tokio::time::interval(CHORES_EVERY);
        chores.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let queued = self.context.catalog.queued();
        self.walks.spawn(rehome::run(Arc::clone(&self.context)));
        self.walks.spawn(cold::run(Arc::clone(&self.context)));
        self.walks.spawn(homecoming::run(Arc::clone(&self.context)));
        self.walks.spawn(overflow::run(Arc::clone(&self.context)));
        loop {
            let sleep = self.turn().await;
            let event = tokio::select! {
                event = self.events.recv() => match event {
                    Some(event) => event,
                    None => break,
                },
                Some(ended) = self.jobs.join_next_with_id() => Event::Finished(self.ended(ended)),
                () = queued.notified() => Event::Queued,
                _ = chores.tick() => Event::Chores,
                () = tokio::time::sleep(sleep) => continue,
            };
            if let Event::Stop(done) = event {
                self.walks.shutdown().await;
                self.jobs.shutdown().await;
                if let Err(error) = self.context.blocking(jobs::chores::save_heat).await {
                    tracing::warn!(%error, "the heat of the last files could not be written down");
                }
                self.context.quiet().await;
                // Whoever asked may have gone away: then nobody needs the answer.
                let _ = done.send(());
                break;
            }
            self.take(event).await;
        }
    }

    /// A job that panicked is tried again.
    fn ended(&mut self, ended: std::result::Result<(Id, Ended), JoinError>) -> Ended {
        match ended {
            Ok((id, ended)) => {
                self.tasks.remove(&id);
                ended
            }
            Err(error) => {
                let name = self.tasks.remove(&error.id()).unwrap_or((String::new(), Seq(0), Part::Whole));
                Ended::died(&self.context, name, &error)
            }
        }
    }

    async fn take(&mut self, event: Event) {
        match event {
            Event::Queued => {
                self.queue.notice();
                self.unblock();
            }
            Event::Finished(ended) => self.finished(ended),
            Event::Flush(request) => self.flush(request),
            Event::Retry(steps) => {
                self.queue.notice();
                steps.iter().for_each(|(domain, seq)| self.queue.retry(domain, *seq));
                let mut blocked = self.context.counters.blocked.lock();
                blocked.retain(|step, _| !steps.contains(step));
            }
            Event::MakeRoom(domains) => {
                domains.iter().for_each(|(domain, last)| self.queue.settle_no_more(domain, *last));
            }
            Event::Chores => jobs::chores::run(&self.context).await,
            // Handled where the loop ends.
            Event::Stop(_) => {}
        }
    }

    /// Feeds the queue, starts what is due, answers flushes; says how long there is nothing to do.
    async fn turn(&mut self) -> Duration {
        self.queue.look_at_held_by(self.context.clock.wall());
        if let Err(error) = self.feed().await {
            tracing::error!(%error, "the mover can't read the catalog");
            return CATALOG_RETRY;
        }
        // Not a moment before the last step was queued: it would look like one from a clock that jumped back, and not settle.
        let now = self.context.clock.wall();
        for item in self.queue.start(now) {
            self.spawn(item, Part::Whole);
        }
        for item in self.queue.start_ahead(now) {
            self.spawn(item, Part::Ahead);
        }
        self.answer_flushes();
        self.publish();
        self.queue.next_wake(now).map_or(LONGEST_SLEEP, |at| until(now, at).min(LONGEST_SLEEP))
    }

    async fn feed(&mut self) -> Result<()> {
        while let Some(from) = self.queue.scan_from() {
            let mut after = from;
            let complete = loop {
                let (page, full) = self
                    .context
                    .blocking(move |context| {
                        let steps = context.catalog.steps(after, PAGE)?;
                        let full = steps.len() == PAGE;
                        Ok((
                            steps
                                .iter()
                                .map(|step| jobs::brief(context, step))
                                .collect::<Result<Vec<_>>>()?,
                            full,
                        ))
                    })
                    .await?;
                after = page.last().map_or(after, |item| item.seq);
                page.into_iter().for_each(|item| self.queue.offer(item, from));
                if !full {
                    break true;
                }
                if self.queue.is_satisfied() {
                    break false;
                }
            };
            self.queue.end_scan(from, complete);
        }
        Ok(())
    }

    /// A blocked step whose file was written again, or deleted, blocks no longer.
    fn unblock(&mut self) {
        for (domain, seq) in self.queue.blocked() {
            match jobs::fresh(&self.context, seq) {
                Ok(Some(step)) if step.blocked => {}
                Ok(_) => self.queue.unblock(&domain, seq),
                Err(error) => tracing::debug!(%error, "a blocked step can't be looked at"),
            }
        }
    }

    fn spawn(&mut self, item: Item, part: Part) {
        let name = (item.domain.clone(), item.seq, part);
        if part == Part::Whole {
            self.context.counters.running.lock().insert(item.seq);
        }
        let (context, runtime) = (Arc::clone(&self.context), &self.context.runtime);
        let task = match part {
            Part::Whole => self.jobs.spawn_on(jobs::run(context, item), runtime),
            Part::Ahead => self.jobs.spawn_on(jobs::ahead::run(context, item), runtime),
        };
        self.tasks.insert(task.id(), name);
    }

    fn finished(&mut self, ended: Ended) {
        let Ended { domain, seq, verdict, bytes, trouble, part } = ended;
        if part == Part::Ahead {
            self.queue.finish_ahead(&domain, seq);
            return;
        }
        let counters = &self.context.counters;
        counters.running.lock().remove(&seq);
        counters.blocked.lock().remove(&(domain.clone(), seq));
        if !matches!(verdict, Verdict::Retry(_)) {
            counters.failing.lock().remove(&(domain.clone(), seq));
        }
        if let Some(trouble) = trouble {
            let step = (domain.clone(), seq);
            if verdict == Verdict::Blocked {
                counters.blocked.lock().insert(step, trouble.clone());
            } else {
                let since = |(since, _): &(Timestamp, Trouble)| *since;
                let mut failing = counters.failing.lock();
                let since = failing.get(&step).map_or(trouble.at, since);
                failing.insert(step, (since, trouble.clone()));
            }
            *counters.last_error.lock() = Some(trouble);
        }
        if verdict == Verdict::Done {
            for flush in &mut self.flushes {
                flush.note_done(&domain, seq, bytes);
            }
        }
        let refused = verdict == Verdict::Blocked;
        self.queue.finish(&domain, seq, verdict);
        if refused {
            // It may have been written again while it was refused.
            self.unblock();
        }
    }

    fn flush(&mut self, request: FlushRequest) {
        self.queue.notice();
        self.queue.look_at_held();
        for (domain, seq) in &request.targets.domains {
            self.queue.hurry(domain, *seq);
        }
        let progress = Progress {
            files_total: request.targets.files,
            bytes_total: request.targets.bytes,
            ..Progress::default()
        };
        self.flushes.push(Waiting { request, progress, blocked: Vec::new() });
    }

    fn answer_flushes(&mut self) {
        let queue = &self.queue;
        let blocked = self.context.counters.blocked.lock().clone();
        let mut ended = Vec::new();
        let mut index = 0;
        while index < self.flushes.len() {
            let flush = &mut self.flushes[index];
            flush.request.targets.drop_done(queue);
            let left = &flush.request.targets;
            let stuck = left.are_stuck(queue);
            flush.blocked = blocked
                .iter()
                .filter(|((domain, seq), _)| left.include(domain, *seq))
                .map(|(_, trouble)| trouble.clone())
                .collect();
            if stuck || flush.request.reply.is_closed() {
                ended.push(self.flushes.swap_remove(index));
            } else {
                index += 1;
            }
        }
        ended.into_iter().for_each(Waiting::answer);
        // The domains of a flush that arrived before their steps were read are hurried now.
        for flush in &self.flushes {
            for (domain, seq) in &flush.request.targets.domains {
                self.queue.settle_no_more(domain, *seq);
            }
        }
    }

    fn publish(&self) {
        *self.context.counters.queue.lock() =
            QueueFacts { running: self.queue.running(), oldest: self.queue.oldest() };
    }
}

impl Waiting {
    fn note_done(&mut self, domain: &str, seq: Seq, bytes: u64) {
        if !self.request.targets.include(domain, seq) {
            return;
        }
        self.progress.files_done += 1;
        self.progress.bytes_home = (self.progress.bytes_home + bytes).min(self.progress.bytes_total);
        self.progress.bytes_done = (self.progress.bytes_done + bytes).min(self.progress.bytes_total);
        self.request.progress.send_replace(self.progress);
    }

    fn answer(self) {
        let report = FlushReport {
            progress: self.progress,
            complete: self.request.targets.domains.is_empty() && self.request.targets.unclosed == 0,
            timed_out: false,
            blocked: self.blocked,
            open: self.request.targets.open,
        };
        // A flush whose asker left is over all the same.
        let _ = self.request.reply.send(report);
    }
}

fn until(now: Timestamp, at: Timestamp) -> Duration {
    Duration::from_nanos(u64::try_from(at.0.saturating_sub(now.0)).unwrap_or(0))
}
