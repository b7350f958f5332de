//! Files whose home is another since the config changed: a walk over all names brings them there, a few at a time. A note
//! in the catalog, made before the new rules are used, outlives a crash; it goes when a walk has found nothing left to do.
//! Uses no steps: those keep the order of closes, and must not wait for a million moves.

use crate::catalog::WriteState;
use crate::error::{Error, Kind, Result, found};
use crate::mover::context::Context;
use crate::mover::jobs::subject::Subject;
use crate::mover::jobs::{Flow, Halt, conflict, directory, prefix, reconcile, relocate, tidy};
use crate::policy::placement::{self, Rules};
use crate::types::{FileKind, Ino, Key};
use futures::StreamExt;
use futures::stream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The note that the walk is under way: which rules were in force before.
pub const FORMER: &str = "former rules";

/// Names read from a directory at a time.
const PAGE: usize = 256;

/// Files that are moved at a time.
const AT_ONCE: usize = 4;

/// What began under the rules of before has ended after so long.
const SETTLED: Duration = Duration::from_secs(120);

/// Wait before what could not be moved is tried again, ...
const AGAIN: Duration = Duration::from_secs(10);

/// ... which grows to this while nothing can be, ...
const LONGEST: Duration = Duration::from_secs(5 * 60);

/// ... and walks take this share of the time at most.
const SHARE: u32 = 100;

/// What a walk came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pass {
    moved: u64,
    left: u64,
}

impl Pass {
    /// How long to wait before the next one, after `before`: files that are open for days must not cost a walk each time.
    fn patience(self, before: Duration) -> Duration {
        if self.moved > 0 { AGAIN } else { (before * 2).min(LONGEST) }
    }
}

/// Time that a walk has looked for files to move. Moving them has a pace of its own.
#[derive(Debug, Default)]
struct Looked(AtomicU64);

impl Looked {
    fn since(&self, context: &Context, began: Duration) {
        let took = context.clock.monotonic().saturating_sub(began);
        self.0.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn time(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// What became of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    AtHome,
    Moved,
    /// It is open, dirty, or could not be moved now.
    Left,
}

/// A directory that is walked.
struct Frame {
    dir: Ino,
    path: Key,
    after: u64,
    children: Vec<(Ino, Key)>,
    /// Something below could not be moved yet.
    kept: bool,
}

/// Walks whenever rules changed; ends with the mover.
pub(crate) async fn run(context: Arc<Context>) {
    let mut patience = AGAIN;
    loop {
        let rules = context.rules();
        if !rules.has_former() {
            context.rules_changed.notified().await;
            continue;
        }
        let began = context.clock.monotonic();
        let looked = Looked::default();
        let pass = match walk(&context, &looked).await {
            Ok(pass) => pass,
            Err(error) => {
                tracing::warn!(%error, "the walk over files with another home failed; it is tried again");
                Pass { left: 1, ..Pass::default() }
            }
        };
        if pass.moved > 0 {
            tracing::info!(
                files = pass.moved,
                left = pass.left,
                "files moved to the homes that the config gives them now"
            );
        }
        let changed = context.changed_rules_at(&rules);
        let age = changed.map_or(Duration::ZERO, |changed| began.saturating_sub(changed));
        if pass == Pass::default() && age >= SETTLED {
            match context.forget_former(&rules) {
                Ok(()) => continue,
                Err(error) => tracing::warn!(%error, "that all files are at their homes can't be noted"),
            }
        }
        patience = pass.patience(patience);
        let wait = if pass == Pass::default() { SETTLED.saturating_sub(age).max(AGAIN) } else { patience };
        tokio::select! {
            () = context.rules_changed.notified() => patience = AGAIN,
            () = tokio::time::sleep(wait.max(looked.time() * SHARE)) => {}
        }
    }
}

async fn walk(context: &Arc<Context>, looked: &Looked) -> Result<Pass> {
    let mut pass = Pass::default();
    let mut stack = vec![enter(context, Ino::ROOT, Key::ROOT, &mut pass).await?];
    while let Some(frame) = stack.last_mut() {
        if let Some((dir, path)) = frame.children.pop() {
            if may_be_elsewhere(&context.rules(), &path) {
                stack.push(enter(context, dir, path, &mut pass).await?);
            }
            continue;
        }
        let began = context.clock.monotonic();
        let page = found(context.catalog.entries(frame.dir, frame.after, PAGE))?.unwrap_or_default();
        looked.since(context, began);
        let Some(last) = page.last() else {
            let Some(mut frame) = stack.pop() else { break };
            leave(context, &mut frame, &mut pass).await;
            if let Some(above) = stack.last_mut() {
                above.kept |= frame.kept;
            }
            continue;
        };
        frame.after = last.cookie;
        let mut files = Vec::new();
        for entry in page {
            let ino = entry.inode.attr.ino;
            match entry.inode.attr.kind {
                FileKind::Directory => frame.children.push((ino, frame.path.join(&entry.name)?)),
                _ => files.push(ino),
            }
        }
        let mut done = stream::iter(files).map(|ino| file(context, ino, looked)).buffer_unordered(AT_ONCE);
        while let Some(outcome) = done.next().await {
            pass.moved += u64::from(outcome == Outcome::Moved);
            pass.left += u64::from(outcome == Outcome::Left);
            frame.kept |= outcome == Outcome::Left;
        }
    }
    Ok(pass)
}

/// Whether anything at or below `dir` may have had another home.
fn may_be_elsewhere(rules: &Rules, dir: &Key) -> bool {
    let (former, now) = (rules.former_under(dir), rules.tiers_under(dir));
    former.len() != 1 || former != now
}

/// Begins with a directory: names that nobody has listed at former homes are taken in.
async fn enter(context: &Arc<Context>, dir: Ino, path: Key, pass: &mut Pass) -> Result<Frame> {
    let mut frame = Frame { dir, path, after: 0, children: Vec::new(), kept: false };
    let former = context.rules().former_under(&frame.path);
    for place in found(context.catalog.places(dir))?.iter().flat_map(|places| places.iter()) {
        if place.listed || !former.contains(&place.tier) || !conflict::is_known(context, place.tier) {
            continue;
        }
        if let Err(halt) = prefix::import(context, place).await {
            tell(&frame.path, halt);
            frame.kept = true;
            pass.left += 1;
        }
    }
    Ok(frame)
}

/// Ends with a directory: it is known at its home, and its emptied directories are gone from tiers that hold nothing of it.
async fn leave(context: &Arc<Context>, frame: &mut Frame, pass: &mut Pass) {
    if frame.dir == Ino::ROOT || frame.kept {
        return;
    }
    match leave_directory(context, frame.dir, &frame.path).await {
        Ok(()) => {}
        // Something of others, or something hidden, is in it: it stays.
        Err(Halt::Failed(error)) if matches!(error.kind(), Kind::Busy | Kind::NotFound) => {}
        Err(halt) => {
            tell(&frame.path, halt);
            frame.kept = true;
            pass.left += 1;
        }
    }
}

async fn leave_directory(context: &Arc<Context>, dir: Ino, path: &Key) -> Flow<()> {
    let rules = context.rules();
    let strays = directory::strays(context, dir)?;
    for place in &strays {
        let native = context.catalog.native_place(dir, place.tier)?;
        if native.is_none_or(|native| native.id != place.id) {
            // Left by a rename, whose step takes along what is in it.
            return Ok(());
        }
    }
    let Some(inode) = found(context.catalog.inode(dir))? else { return Ok(()) };
    let subject = placement::Subject::new(path, inode.attr.ids());
    let is_known = strays.is_empty() && rules.is_also_on(subject, rules.rule(subject).home);
    if is_known || context.catalog.step_of(dir)?.is_some() {
        return Ok(());
    }
    let _turn = context.inodes.take(&dir).map_err(|_busy| Halt::Again)?;
    let left = strays.iter().map(|place| place.id).collect();
    directory::settle(context, dir, &left, &rules.directory_domain(subject)).await
}

async fn file(context: &Arc<Context>, ino: Ino, looked: &Looked) -> Outcome {
    match move_home(context, ino, looked).await {
        Ok(outcome) => outcome,
        Err(halt) => {
            let path = found(context.catalog.path(ino)).ok().flatten().flatten().unwrap_or_default();
            tell(&path, halt);
            Outcome::Left
        }
    }
}

async fn move_home(context: &Arc<Context>, ino: Ino, looked: &Looked) -> Flow<Outcome> {
    let began = context.clock.monotonic();
    let Some(subject) = Subject::look(context, ino)? else { return Ok(Outcome::AtHome) };
    let is_there = relocate::strays(context, &subject)?.is_empty();
    looked.since(context, began);
    if is_there {
        tidy::whereabouts(context, ino)?;
        return Ok(Outcome::AtHome);
    }
    // Its own step brings it home.
    if subject.inode.state != WriteState::Clean || context.catalog.step_of(ino)?.is_some() {
        return Ok(Outcome::Left);
    }
    let Some(name) = subject.names.first() else { return Ok(Outcome::AtHome) };
    reconcile::settle(context, ino, &context.domain(ino, &name.path)?).await?;
    Ok(match subject.inode.attr.kind {
        FileKind::Regular | FileKind::Symlink => Outcome::Moved,
        // What no home can hold stays where it is.
        _ => Outcome::AtHome,
    })
}

fn tell(path: &Key, halt: Halt) {
    match halt {
        Halt::Failed(error) => {
            tracing::warn!(%path, %error, "can't be moved to its home now; it is tried again")
        }
        Halt::Open | Halt::Reopened | Halt::Again | Halt::NotBefore(_) => {
            tracing::debug!(%path, "in use; it is moved to its home later")
        }
    }
}

impl Context {
    /// When these rules came, if they are still in force.
    fn changed_rules_at(&self, rules: &Arc<Rules>) -> Option<Duration> {
        let now = self.rules.read();
        Arc::ptr_eq(rules, &now).then(|| *self.rules_since.lock())
    }

    /// All is at home: what is at former homes is not looked for any longer.
    fn forget_former(&self, rules: &Arc<Rules>) -> Result<()> {
        let mut now = self.rules.write();
        if !Arc::ptr_eq(rules, &now) {
            return Err(Error::new(Kind::Interrupted, "the rules have changed once more"));
        }
        self.catalog.put_notes(&[(FORMER, None)])?;
        *now = Arc::new(rules.as_settled());
        drop(now);
        self.settled_rules.send_replace(());
        tracing::info!("all files are at the homes that the config gives them");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_that_move_nothing_come_ever_more_seldom() {
        let (idle, busy) = (Pass { moved: 0, left: 1 }, Pass { moved: 1, left: 1 });
        let waits: Vec<u64> = std::iter::successors(Some(AGAIN), |wait| Some(idle.patience(*wait)))
            .map(|wait| wait.as_secs())
            .take(8)
            .collect();
        assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300, 300]);
        assert_eq!(busy.patience(LONGEST), AGAIN);
    }
}
