//! Files that nobody uses go to the `cold` tier of their rule: a walk over the directories that such rules reach chooses them, one
//! row in the catalog says that each is to live there, and it moves as any file does whose home is another. Time counts only while
//! a mount looks on ([`Watch`]).
//!
//! Uses no steps, as those keep the order of closes. What can't be moved stays at home.

use crate::catalog::{DirEntry, Inode, Reason, WriteState};
use crate::error::{Error, Kind, Result, found};
use crate::failpoint;
use crate::mover::context::Context;
use crate::mover::jobs::{Flow, Halt, prefix, reconcile};
use crate::policy::idle::Watch;
use crate::policy::placement::{Rules, Subject};
use crate::types::{FileKind, Generation, Ino, Key, TierId, Timestamp};
use futures::StreamExt;
use futures::stream;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The note that says since when files are watched.
const WATCHED: &str = "watched";

/// Names read from a directory at a time.
const PAGE: usize = 256;

/// Files that move at a time.
const AT_ONCE: usize = 2;

/// A walk for each part of the time after which files go, ...
const PARTS: u32 = 8;

/// ... not more often than this, ...
const SHORTEST: Duration = Duration::from_millis(250);

/// ... nor more seldom than that, ...
const LONGEST: Duration = Duration::from_secs(6 * 3600);

/// ... and than that while files are on their way, ...
const AGAIN: Duration = Duration::from_secs(10);

/// ... and looking takes this share of the time at most.
const SHARE: u32 = 100;

/// What is known of the clock is written down as often.
const NOTED_EVERY: i64 = 3600 * 1_000_000_000;

/// Files that a plan names.
const SHOWN: usize = 20;

/// What would go to the cold tiers now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColdPlan {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The first of them.
    pub first: Vec<Leaver>,
    /// Files that are on their way home, because they were used.
    pub returning: u64,
}

/// A file that nobody has used for long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaver {
    /// The file.
    pub ino: Ino,
    /// Its path.
    pub path: Key,
    /// Its size.
    pub size: u64,
    /// Where it goes.
    pub tier: TierId,
    /// For how long nobody has used it.
    pub idle: Duration,
    generation: Generation,
    parent: Ino,
    name: Vec<u8>,
}

/// Walks for as long as there are rules that send files away; ends with the mover.
pub(crate) async fn run(context: Arc<Context>) {
    // Before that every file looks as if nobody had opened it.
    let mut known = context.heat_known.subscribe();
    if known.wait_for(|known| *known).await.is_err() {
        return;
    }
    loop {
        let Some(idle) = context.rules().least_idle() else {
            context.idle_rules_changed.notified().await;
            continue;
        };
        let looked = match pass(&context).await {
            Ok(Pass { moved, looked }) => {
                if moved > 0 {
                    tracing::info!(files = moved, "files that nobody used moved to their cold tier");
                }
                looked
            }
            Err(error) => {
                tracing::warn!(%error, "the walk over files that nobody uses failed; it is tried again");
                Duration::ZERO
            }
        };
        let is_left = context.catalog.away(Reason::Going, Ino(0), 1).is_ok_and(|going| !going.is_empty());
        let longest = if is_left { AGAIN } else { LONGEST };
        let wait = (idle / PARTS).clamp(SHORTEST, longest).max(looked * SHARE);
        tokio::select! {
            () = context.idle_rules_changed.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// What a walk came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    /// Files that it moved.
    pub(crate) moved: u64,
    /// The time it took to look for them.
    looked: Duration,
}

/// One walk.
pub(crate) async fn pass(context: &Arc<Context>) -> Result<Pass> {
    let watch = context.blocking(tick).await?;
    let mut moved = go_on(context).await?;
    let mut walk = Walk::begin(watch);
    while let Some(leavers) = walk.next(context).await? {
        let mut sent = stream::iter(leavers).map(|leaver| send(context, leaver)).buffer_unordered(AT_ONCE);
        while let Some(is_there) = sent.next().await {
            moved += u64::from(is_there);
        }
    }
    if let Some(idle) = context.rules().most_idle() {
        context.in_use.lock().retain(|_, seen| walk.watch.idle(*seen) <= idle);
    }
    Ok(Pass { moved, looked: walk.looked })
}

/// What would go now; changes nothing.
pub(crate) async fn plan(context: &Arc<Context>) -> Result<ColdPlan> {
    let returning = context.blocking(|context| context.catalog.count_away(Reason::Returning)).await?;
    let mut plan = ColdPlan { returning, ..ColdPlan::default() };
    if context.rules().least_idle().is_none() {
        return Ok(plan);
    }
    let now = context.clock.wall();
    let watch =
        context.blocking(move |context| Ok(watched(context)?.unwrap_or_else(|| Watch::begun(now)))).await?;
    let mut walk = Walk::begin(Watch::clone(&watch));
    walk.watch.tick(now);
    while let Some(leavers) = walk.next(context).await? {
        for leaver in leavers {
            plan.files += 1;
            plan.bytes += leaver.size;
            if plan.first.len() < SHOWN {
                plan.first.push(leaver);
            }
        }
    }
    Ok(plan)
}

/// What is known of the time in which files were watched, of earlier mounts too.
fn watched(context: &Context) -> Result<Option<Watch>> {
    if let Some((watch, _)) = &*context.watch.lock() {
        return Ok(Some(watch.clone()));
    }
    let Some(text) = context.catalog.note(WATCHED)? else { return Ok(None) };
    match serde_json::from_str(&text) {
        Ok(watch) => Ok(Some(watch)),
        Err(error) => {
            tracing::warn!(%error, "since when files are watched can't be read; it begins anew");
            Ok(None)
        }
    }
}

/// Looks at the clock.
fn tick(context: &Context) -> Result<Watch> {
    let now = context.clock.wall();
    let noted = context.watch.lock().as_ref().map(|(_, noted)| *noted);
    let known = watched(context)?;
    let is_new = known.is_none();
    let mut watch = known.unwrap_or_else(|| Watch::begun(now));
    let before = watch.seen();
    let is_gap = watch.tick(now);
    if is_gap {
        tracing::info!(
            from = before.0,
            to = now.0,
            "the clock jumped, or nobody was mounted: of that time a day counts as time without use"
        );
    }
    let is_due = noted.is_none_or(|noted| now.0.abs_diff(noted.0) >= NOTED_EVERY.unsigned_abs());
    let noted = if is_new || is_gap || is_due {
        let text = serde_json::to_string(&watch)
            .map_err(|error| Error::new(Kind::Corrupt, "a note can't be written").with_source(error))?;
        context.catalog.put_notes(&[(WATCHED, Some(text))])?;
        now
    } else {
        noted.unwrap_or(now)
    };
    *context.watch.lock() = Some((watch.clone(), noted));
    Ok(watch)
}

/// Files that an earlier walk sent away, and that did not arrive.
async fn go_on(context: &Arc<Context>) -> Result<u64> {
    let (mut after, mut moved) = (Ino(0), 0);
    loop {
        let page = context.catalog.away(Reason::Going, after, PAGE)?;
        let Some(last) = page.last() else { return Ok(moved) };
        after = *last;
        for ino in page {
            moved += u64::from(go(context, ino).await);
        }
    }
}

/// The directories that are still to be looked at.
struct Walk {
    watch: Watch,
    looked: Duration,
    stack: Vec<(Ino, Key)>,
    /// The directory that is being read, after which name.
    at: Option<(Ino, Key, u64)>,
}

/// A page of a directory.
struct Seen {
    last: Option<u64>,
    children: Vec<(Ino, Key)>,
    leavers: Vec<Leaver>,
}

impl Walk {
    fn begin(watch: Watch) -> Self {
        Self { watch, looked: Duration::ZERO, stack: vec![(Ino::ROOT, Key::ROOT)], at: None }
    }

    /// The files of the next page that go; none at the end.
    async fn next(&mut self, context: &Arc<Context>) -> Result<Option<Vec<Leaver>>> {
        let (dir, path, after) = match self.at.take() {
            Some(at) => at,
            None => match self.stack.pop() {
                Some((dir, path)) => (dir, path, 0),
                None => return Ok(None),
            },
        };
        let (watch, of) = (self.watch.clone(), path.clone());
        let began = context.clock.monotonic();
        let seen = context.blocking(move |context| look(context, &watch, dir, &of, after)).await?;
        self.looked += context.clock.monotonic().saturating_sub(began);
        self.stack.extend(seen.children);
        self.at = seen.last.map(|last| (dir, path, last));
        Ok(Some(seen.leavers))
    }
}

fn look(context: &Context, watch: &Watch, dir: Ino, path: &Key, after: u64) -> Result<Seen> {
    let rules = context.rules();
    let page = found(context.catalog.entries(dir, after, PAGE))?.unwrap_or_default();
    let mut seen =
        Seen { last: page.last().map(|entry| entry.cookie), children: Vec::new(), leavers: Vec::new() };
    for entry in page {
        let at = path.join(&entry.name)?;
        if entry.inode.attr.kind != FileKind::Directory {
            seen.leavers.extend(leaver(context, &rules, watch, dir, at, entry)?);
        } else if rules.sends_away_under(&at) {
            seen.children.push((entry.inode.attr.ino, at));
        }
    }
    Ok(seen)
}

/// The file if it may go now.
fn leaver(
    context: &Context,
    rules: &Rules,
    watch: &Watch,
    parent: Ino,
    path: Key,
    entry: DirEntry,
) -> Result<Option<Leaver>> {
    let inode = entry.inode;
    let is_plain = inode.attr.kind == FileKind::Regular && inode.attr.nlink == 1;
    if !is_plain || inode.state != WriteState::Clean || inode.away.is_some() {
        return Ok(None);
    }
    let subject = Subject::new(&path, inode.attr.ids());
    let Some(cold) = rules.rule(subject).cold_for(inode.attr.size) else { return Ok(None) };
    let is_idle = |used| watch.idle(used) >= cold.idle;
    let ino = inode.attr.ino;
    if (context.is_open)(ino) {
        context.in_use.lock().insert(ino, watch.seen());
        return Ok(None);
    }
    if !is_idle(last_use(context, &inode)) || rules.is_held(subject) {
        return Ok(None);
    }
    // What follows asks the catalog, for few files.
    let placed = context.catalog.placed_at(ino)?.unwrap_or(watch.seen());
    let is_kept = !is_idle(placed)
        || context.catalog.step_of(ino)?.is_some()
        || context.catalog.pin_of(ino, context.clock.wall())?.is_some();
    if is_kept {
        return Ok(None);
    }
    let idle = watch.idle(last_use(context, &inode).max(placed));
    let (size, generation, name) = (inode.attr.size, inode.generation, entry.name);
    Ok(Some(Leaver { ino, path, size, tier: cold.tier, idle, generation, parent, name }))
}

/// When the file was last used, as far as its own times and its opens tell.
fn last_use(context: &Context, inode: &Inode) -> Timestamp {
    let ino = inode.attr.ino;
    let opened = context.heat.opens(ino).map(|(_, last)| last);
    let seen_open = context.in_use.lock().get(&ino).copied();
    let attr = &inode.attr;
    [Some(attr.mtime), Some(attr.ctime), Some(attr.btime), opened, seen_open]
        .into_iter()
        .flatten()
        .max()
        .unwrap_or(attr.mtime)
}

/// Sends a file away; answers whether it is there.
async fn send(context: &Arc<Context>, leaver: Leaver) -> bool {
    let ino = leaver.ino;
    let sent = match is_free(context, &leaver).await {
        Ok(true) => context.blocking(move |context| part(context, &leaver)).await.map_err(Halt::from),
        Ok(false) => Ok(false),
        Err(halt) => Err(halt),
    };
    match sent {
        Ok(true) => {
            failpoint::pass("sent_away_not_moved");
            go(context, ino).await
        }
        Ok(false) => false,
        Err(halt) => {
            tell(context, ino, halt);
            false
        }
    }
}

/// Whether nothing of others is where the file goes.
async fn is_free(context: &Arc<Context>, leaver: &Leaver) -> Flow<bool> {
    let tier = context.tier(leaver.tier)?;
    let domain = context.domain(leaver.ino, &leaver.path)?;
    let place = prefix::native(context, leaver.parent, leaver.tier, &domain).await?;
    let Some(object) = found(tier.head(&place.key.join(&leaver.name)?).await)? else { return Ok(true) };
    let row = context.catalog.replica_at(place.id, &leaver.name)?;
    let is_ours = row.is_some_and(|row| {
        row.write_id.is_some()
            || (row.ino.is_none_or(|ino| ino == leaver.ino) && row.version == Some(object.version))
    });
    if !is_ours {
        tracing::debug!(path = %leaver.path, tier = tier.name(), "something of others is where the file would go; it stays at home");
    }
    Ok(is_ours)
}

/// The moment from which the file lives elsewhere: nobody has it open, and whoever opens it later gets it home again.
fn part(context: &Context, leaver: &Leaver) -> Result<bool> {
    let act = || {
        if (context.is_open)(leaver.ino) {
            return Ok(false);
        }
        context.catalog.send_away(leaver.ino, leaver.generation, leaver.tier)
    };
    context.unwritten(leaver.ino, act).unwrap_or(Ok(false))
}

/// Moves a file that was sent away; one that can't be moved now is not away any more.
async fn go(context: &Arc<Context>, ino: Ino) -> bool {
    match settle(context, ino).await {
        Ok(()) => true,
        // Something else was at it: the next walk goes on.
        Err(Halt::Again) => false,
        Err(halt) => {
            tell(context, ino, halt);
            if let Err(error) = context.catalog.come_home(ino) {
                tracing::warn!(%ino, %error, "a file that could not go to its cold tier is tried again");
            }
            false
        }
    }
}

/// Brings a file where it lives.
pub(crate) async fn settle(context: &Arc<Context>, ino: Ino) -> Flow<()> {
    let Some(path) = found(context.catalog.path(ino))?.flatten() else { return Ok(()) };
    // Its own step does it, in its turn.
    if context.catalog.step_of(ino)?.is_some() {
        return Err(Halt::Again);
    }
    reconcile::settle(context, ino, &context.domain(ino, &path)?).await
}

pub(crate) fn tell(context: &Context, ino: Ino, halt: Halt) {
    let path = found(context.catalog.path(ino)).ok().flatten().flatten().unwrap_or_default();
    match halt {
        Halt::Failed(error) => tracing::warn!(%path, %error, "can't be moved now; it is tried again"),
        Halt::Open | Halt::Reopened | Halt::Again | Halt::NotBefore(_) => {
            tracing::debug!(%path, "in use; it is moved later");
        }
    }
}

/// Files that were open when a walk came by, and when.
pub(crate) type InUse = HashMap<Ino, Timestamp>;
