//! Reconcile: bring the homes of one inode in line with the catalog.

use crate::catalog::{Replica, Step, WriteState};
use crate::error::{Error, Kind};
use crate::mover::context::Context;
use crate::mover::jobs::commit::{Act, commit, resident};
use crate::mover::jobs::subject::{Name, Subject, Target};
use crate::mover::jobs::{Flow, Halt, ahead, conflict, directory, partial, relocate, tidy, upload};
use crate::mover::overflow;
use crate::mover::queue::later;
use crate::mover::status::Counters;
use crate::policy::placement::Order;
use crate::tier::Special;
use crate::types::{FileKind, Ino, Seq};
use std::sync::Arc;
use std::time::Duration;

/// Looks at a changing file at most so often before others get their turn.
const ROUNDS: usize = 8;

/// Does a reconcile step; answers the bytes that reached home.
pub(crate) async fn run(context: &Arc<Context>, step: &Step, ino: Ino) -> Flow<u64> {
    let _turn = context.inodes.take(&ino).map_err(|_busy| Halt::Again)?;
    let mut bytes = 0;
    for _ in 0..ROUNDS {
        let Some(subject) = Subject::look(context, ino)? else {
            return if super::finish(context, step.seq)? { Ok(bytes) } else { Err(Halt::Again) };
        };
        match round(context, step, &subject).await {
            Ok(sent) => {
                bytes += sent;
                if super::finish(context, step.seq)? {
                    return Ok(bytes);
                }
                // Written again meanwhile, it is a step for what was closed before.
                if super::fresh(context, step.seq)?.is_some_and(|now| now.what != step.what) {
                    return Err(Halt::Again);
                }
            }
            Err(Halt::Again) => {}
            Err(other) => return Err(other),
        }
    }
    Err(Halt::Again)
}

async fn round(context: &Arc<Context>, step: &Step, subject: &Subject) -> Flow<u64> {
    if relocate::learn(context, subject).await? {
        return Err(Halt::Again);
    }
    if subject.inode.attr.kind == FileKind::Directory {
        directory::reconcile(context, subject, step).await?;
        return Ok(0);
    }
    if subject.inode.state == WriteState::ClosedOpen && step.content {
        return Err(preserve(context, subject, step).await?);
    }
    if let Err(open) = not_open(subject, step) {
        let is_reopened = matches!(open, Halt::Reopened);
        if is_reopened && names_first(context, subject, &step.domain).await? {
            return Ok(0);
        }
        return Err(open);
    }
    if is_open_elsewhere(context, subject)? {
        return Err(Halt::Open);
    }
    let mut bytes = 0;
    for name in &subject.names {
        // Under an earlier name the bytes may have left the stage.
        let Some(now) = Subject::look(context, subject.ino())? else { return Err(Halt::Again) };
        not_open(&now, step)?;
        bytes += bring_home(context, &now, name, step).await?;
    }
    tidy::leftovers(context, subject.ino(), &step.domain).await?;
    tidy::staged(context, subject.ino(), &step.domain).await?;
    tidy::whereabouts(context, subject.ino())?;
    Ok(bytes)
}

/// The directory of `ino` moved: the copies of the file follow, whichever generation they hold. Newer content that is
/// still staged is committed by its own step, in its own turn.
pub(crate) async fn follow(context: &Arc<Context>, ino: Ino, step: &Step) -> Flow<()> {
    let domain = &step.domain;
    let _turn = context.inodes.take(&ino).map_err(|_busy| Halt::Again)?;
    let Some(subject) = Subject::look(context, ino)? else { return Ok(()) };
    if relocate::learn(context, &subject).await? {
        return Err(Halt::Again);
    }
    if is_open_elsewhere(context, &subject)? {
        return Err(Halt::Open);
    }
    let strays = relocate::strays(context, &subject)?;
    let Some(newest) = strays.iter().filter(|stray| has_content(stray)).max_by_key(|stray| stray.generation)
    else {
        return tidy::leftovers(context, ino, domain).await;
    };
    for name in &subject.names {
        if subject.inode.state == WriteState::Clean {
            bring_home(context, &subject, name, step).await?;
        } else {
            carry(context, &subject, newest, name, domain).await?;
        }
    }
    tidy::leftovers(context, ino, domain).await
}

/// A file that is written again was renamed or linked: what its home has of it follows, for what is queued behind that does not wait until
/// it is closed. True if nothing is left to do before that. What would have to be sent to another tier waits for the close.
async fn names_first(context: &Arc<Context>, subject: &Subject, domain: &str) -> Flow<bool> {
    let strays = relocate::strays(context, subject)?;
    let can_be_copied = |replica: &&Replica| {
        !replica.staged && context.tier(replica.tier).is_ok_and(|tier| tier.resident().is_none())
    };
    let copies = subject.replicas.iter().filter(can_be_copied);
    let sources = copies.chain(&strays).filter(|source| has_content(source));
    let Some(newest) = sources.max_by_key(|source| source.generation) else { return Ok(strays.is_empty()) };
    if subject.names.iter().any(|name| name.home != newest.tier) {
        return Ok(false);
    }
    for name in &subject.names {
        carry(context, subject, newest, name, domain).await?;
    }
    tidy::leftovers(context, subject.ino(), domain).await?;
    Ok(true)
}

/// Brings what `source` has of a file, and the attributes of the file, to the home of a name that has nothing as new.
async fn carry(
    context: &Arc<Context>,
    subject: &Subject,
    source: &Replica,
    name: &Name,
    domain: &str,
) -> Flow<()> {
    let ino = subject.ino();
    let mut target = name.target(context, domain).await?;
    let lock = (target.place.tier, target.key.clone());
    let _turn = context.keys.take(&lock).map_err(|_busy| Halt::Again)?;
    relocate::make_way(context, ino, &mut target, domain).await?;
    if target.row.as_ref().is_some_and(|row| row.ino == Some(ino) && row.generation >= source.generation) {
        if target.holds_attributes(&subject.inode) {
            return Ok(());
        }
        return attributes(context, subject, &target).await;
    }
    relocate::transfer(context, &subject.inode, source, &target).await
}

/// Brings a clean file, which has no step, to the homes of its names.
pub(crate) async fn settle(context: &Arc<Context>, ino: Ino, domain: &str) -> Flow<()> {
    let _turn = context.inodes.take(&ino).map_err(|_busy| Halt::Again)?;
    let Some(subject) = Subject::look(context, ino)? else { return Ok(()) };
    if relocate::learn(context, &subject).await? {
        return Err(Halt::Again);
    }
    if subject.inode.state != WriteState::Clean || is_open_elsewhere(context, &subject)? {
        return Err(Halt::Open);
    }
    for name in &subject.names {
        bring_home(context, &subject, name, &Step::unqueued(ino, domain)).await?;
    }
    tidy::leftovers(context, ino, domain).await?;
    tidy::whereabouts(context, ino)
}

fn has_content(replica: &Replica) -> bool {
    replica.generation.0 != 0 && replica.version.is_some()
}

fn not_open(subject: &Subject, step: &Step) -> Flow<()> {
    match subject.inode.state {
        WriteState::Writing if !step.content => Err(Halt::Reopened),
        WriteState::Writing | WriteState::ClosedOpen => Err(Halt::Open),
        WriteState::Closed | WriteState::Clean => Ok(()),
    }
}

/// How long the release of a file takes at most that nobody has open after its close.
const LETTING_GO: Duration = Duration::from_secs(1);

/// A file that was closed by one program, and that another has open or mapped, is committed as it was closed if others wait for that. Its step
/// then is for the bytes that were preserved.
async fn preserve(context: &Arc<Context>, subject: &Subject, step: &Step) -> Flow<Halt> {
    let ino = subject.ino();
    let is_wanted = context.wanted.lock().contains(&ino)
        || (context.rules().order(&step.domain) != Order::None && context.catalog.is_followed(ino)?);
    if !is_wanted {
        return Ok(Halt::Open);
    }
    let moment = later(step.renewed_at, LETTING_GO);
    if moment > context.clock.wall() {
        return Ok(Halt::NotBefore(moment));
    }
    let preserved = context.blocking(move |context| (context.preserve)(ino)).await?;
    Ok(if preserved { Halt::Again } else { Halt::Open })
}

/// Its bytes are not fixed yet.
pub(crate) fn is_open(subject: &Subject) -> bool {
    matches!(subject.inode.state, WriteState::Writing | WriteState::ClosedOpen)
}

/// Whether a program has the file open where a directory's rename left it: what it writes there in place would be lost
/// with that copy. New writers begin at the new home.
fn is_open_elsewhere(context: &Context, subject: &Subject) -> Result<bool, Error> {
    if subject.inode.attr.kind != FileKind::Regular || !(context.is_open)(subject.ino()) {
        return Ok(false);
    }
    let in_place = |replica: &Replica| {
        replica.generation == subject.inode.generation
            && context.tier(replica.tier).is_ok_and(|tier| tier.resident().is_some())
    };
    Ok(relocate::strays(context, subject)?.iter().any(in_place))
}

/// Brings the newest content and attributes to the home of a name, or where its rule sends what home has no room for.
async fn bring_home(context: &Arc<Context>, subject: &Subject, name: &Name, step: &Step) -> Flow<u64> {
    let mut target = name.target(context, &step.domain).await?;
    match bring(context, subject, &mut target, step).await {
        Err(Halt::Failed(error)) if overflow::no_room(context, subject.ino(), name.home, &error)? => {
            Err(Halt::Again)
        }
        brought => brought,
    }
}

/// Makes `target` hold the newest content and attributes; answers the bytes that reached it.
async fn bring(context: &Arc<Context>, subject: &Subject, target: &mut Target, step: &Step) -> Flow<u64> {
    let lock = (target.place.tier, target.key.clone());
    let _turn = context.keys.take(&lock).map_err(|_busy| Halt::Again)?;
    relocate::make_way(context, subject.ino(), target, &step.domain).await?;
    let inode = &subject.inode;
    if target.holds_content(inode) {
        if inode.state == WriteState::Closed {
            let (ino, generation) = (subject.ino(), inode.generation);
            context.blocking(move |context| context.catalog.found_at_home(ino, generation)).await?;
        }
        if !target.holds_attributes(inode) {
            attributes(context, subject, target).await?;
        }
        return Ok(0);
    }
    let special = match inode.attr.kind {
        FileKind::Regular => return content(context, subject, target, step.seq).await,
        FileKind::Symlink => Special::Symlink(inode.target.clone().unwrap_or_default()),
        kind => Special::Node { kind, rdev: inode.attr.rdev },
    };
    catalog_supplies(commit(context, inode, inode.generation, target, Act::Special(special)).await)?;
    Ok(0)
}

/// What a tier can't hold at all (a fifo on Blob) lives in the catalog only.
pub(crate) fn catalog_supplies(result: Flow<()>) -> Flow<()> {
    match result {
        Err(Halt::Failed(error)) if error.kind() == Kind::Unsupported => Ok(()),
        other => other,
    }
}

/// Tells the tier the newest attributes of content that is there.
pub(crate) async fn attributes(context: &Arc<Context>, subject: &Subject, target: &Target) -> Flow<()> {
    let row = target.row.as_ref();
    let Some((generation, version)) = row.and_then(|row| Some((row.generation, row.version.clone()?))) else {
        return Err(Halt::Again);
    };
    match commit(context, &subject.inode, generation, target, Act::Attributes(version)).await {
        // Changed behind our back: nothing of ours is lost, so their version is taken in.
        Err(Halt::Failed(error)) if matches!(error.kind(), Kind::Changed | Kind::NotFound) => {
            conflict::look_at(context, &target.place, &target.name).await?;
            Err(Halt::Again)
        }
        other => catalog_supplies(other),
    }
}

async fn content(context: &Arc<Context>, subject: &Subject, target: &mut Target, seq: Seq) -> Flow<u64> {
    let inode = &subject.inode;
    let Some(source) = subject.sources(context, target.place.tier).into_iter().next() else {
        let text = format!("no tier has the newest content of inode {}", subject.ino());
        return Err(Error::new(Kind::Corrupt, text).into());
    };
    if source.tier == target.place.tier
        && let Some(act) = inside(context, subject, &source, target).await?
    {
        let _piece = if source.staged { None } else { target.tier.begin_piece(0).await };
        match commit(context, inode, source.generation, target, act).await {
            Err(Halt::Failed(error)) if error.kind() == Kind::Unsupported => target.refresh(context)?,
            Err(Halt::Failed(error)) if matches!(error.kind(), Kind::Changed | Kind::NotFound) => {
                return Err(relocate::source_changed(context, &source, error).await);
            }
            other => {
                other?;
                Counters::add(&context.counters.moved, 1);
                return note(context, inode.attr.size);
            }
        }
    }
    let (sealed, act) = match ahead::take(context, seq, &source, target) {
        Some(sent) => (Arc::clone(&sent.sealed), sent.act()),
        None => {
            let sealed = Arc::new(upload::seal(context, &source).await?);
            let act = match upload::send(context, &sealed, target).await {
                Err(Halt::Failed(error)) if error.kind() == Kind::Stale => {
                    return Err(partial::base_is_gone(context, inode, target, error).await);
                }
                act => act?,
            };
            (sealed, act)
        }
    };
    upload::may_commit(context, &sealed, inode, target).await?;
    if source.staged {
        let version = sealed.version().clone();
        context.sealed.lock().insert(subject.ino(), (source.generation, version));
    }
    commit(context, inode, source.generation, target, act).await?;
    note(context, sealed.size)
}

fn note(context: &Context, bytes: u64) -> Flow<u64> {
    Counters::add(&context.counters.committed_files, 1);
    Counters::add(&context.counters.committed_bytes, bytes);
    Ok(bytes)
}

/// The act that needs no bytes to pass through here, if there is one.
async fn inside(
    context: &Arc<Context>,
    subject: &Subject,
    source: &Replica,
    target: &Target,
) -> Flow<Option<Act>> {
    if source.is_partial() {
        return Ok(None);
    }
    let tier = Arc::clone(&target.tier);
    if tier.resident().is_none() {
        let version = source.version.clone().filter(|_| !source.staged);
        return Ok(version.map(|version| Act::Copy { from: source.key.clone(), version }));
    }
    let from = source.key.clone();
    let stat = move |_: &Context| Ok(resident(tier.as_ref())?.stat(&from)?.native);
    let native = match context.blocking(stat).await {
        Ok(native) => native,
        // The upload from this source says what is wrong with it.
        Err(error) if error.kind() == Kind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let Some(native_ino) = native.map(|native| native.ino) else { return Ok(None) };
    let from = source.key.clone();
    if !subject.is_native(context, source)? {
        return Ok(Some(Act::Rename { from: source.clone(), native_ino }));
    }
    Ok(target.tier.capabilities().hard_links.then_some(Act::Link { from, native_ino }))
}
