//! What an earlier daemon left half done: redone or finished before the mount serves.
//!
//! * Renames written down but not applied: their native moves are made good, then the tables.
//! * Commits of unknown outcome: the tier is asked; if it can't answer now, the next try of the step asks.
//! * `.copy` files: completed if a row waits for them, else garbage.
//! * Files without names: their staged bytes go.
//! * Staged files without rows: counted and left alone.
//! * Rows whose staged file is gone: named as lost. The row stays, so that reads fail (EIO) and the file never
//!   looks empty; writing the file again, or deleting it, ends that.
//! * After a restart of the machine, staged files that are gone, or shorter than they were when they were closed, as a power loss
//!   may cut what nobody synced: that generation is lost, and named; home's version, if there is one, is shown again. So it is where a partly
//!   staged file lost some of what was written to it, and nothing of that was ever synced.
//! * Files closed but not released: taken as released once the kernel says that no writer lives.

use crate::catalog::{Content, Inode, NativeMove, RenamePlan, Replica, WriteState};
use crate::data::lease;
use crate::error::{Error, Kind, Result, found};
use crate::mover::context::Context;
use crate::mover::jobs::upload::note_size;
use crate::mover::jobs::{self, Halt, resident};
use crate::mover::status::Counters;
use crate::tier::{Access, RenameMode, Resident};
use crate::types::{FileKind, Ino, Invalidation, Key, Timestamp};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

/// What recovery found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Renames finished.
    pub renames: u64,
    /// Commits whose outcome was learned.
    pub commits: u64,
    /// Files without names whose staged bytes were removed.
    pub orphans: u64,
    /// Dirty files that go on.
    pub dirty: u64,
    /// Dirty files that were open when the daemon ended.
    pub open: u64,
    /// Opens for writing that died before they were answered, taken back.
    pub undone: u64,
    /// Dirty files whose bytes are gone, or cut by a power loss.
    pub lost: u64,
    /// Staged files that no row knows; left alone.
    pub leftovers: u64,
}

pub(crate) async fn recover(context: &Arc<Context>) -> Result<Recovered> {
    let mut recovered = context.blocking(local).await?;
    for row in context.catalog.unknown_commits()? {
        match jobs::resolve(context, &row).await {
            Ok(()) => recovered.commits += 1,
            Err(Halt::Failed(error)) => {
                tracing::warn!(key = %row.key, %error, "the outcome of a commit is not known yet; the file's next try asks again");
            }
            Err(Halt::Open | Halt::Reopened | Halt::Again | Halt::NotBefore(_)) => {}
        }
    }
    Ok(recovered)
}

/// All that needs no waiting for a far tier.
fn local(context: &Context) -> Result<Recovered> {
    let mut recovered = Recovered::default();
    for (id, plan) in context.catalog.intents()? {
        redo(context, &plan)?;
        context.catalog.finish_rename(id, &plan)?;
        recovered.renames += 1;
    }
    for ino in context.catalog.orphans()? {
        for staged in context.catalog.drop_orphan(ino)? {
            remove(context, &staged);
        }
        recovered.orphans += 1;
    }
    for inode in context.catalog.dirty()? {
        dirty_file(context, &inode, &mut recovered)?;
    }
    for ino in context.catalog.clean_but_staged()? {
        forget_removed(context, ino)?;
        if let Some(path) = context.catalog.path(ino)? {
            context.catalog.queue(ino, &context.domain(ino, &path)?)?;
        }
    }
    recovered.leftovers = context.stores.sweep(context)?;
    Counters::add(&context.counters.leftovers, recovered.leftovers);
    adopt_released(context)?;
    Ok(recovered)
}

/// The staged copy of a file that home has may have been removed by a delete whose rows went with the power.
fn forget_removed(context: &Context, ino: Ino) -> Result<()> {
    let Some(staged) =
        found(context.catalog.inode(ino))?.map_or(Ok(None), |inode| staged(context, &inode))?
    else {
        return Ok(());
    };
    if look(context, &staged)? != Stage::Missing {
        return Ok(());
    }
    match context.catalog.drop_replica(staged.place, &staged.name) {
        // It is the only one: whoever opens the file is told.
        Err(error) if error.kind() == Kind::Busy => Ok(()),
        dropped => dropped.map(drop),
    }
}

fn remove(context: &Context, staged: &Replica) {
    if let Err(error) = context.stores.remove_staged(staged) {
        tracing::warn!(key = %staged.key, %error, "the staged bytes of a deleted file could not be removed");
    }
}

/// Makes the native moves of a plan that were not made yet.
fn redo(context: &Context, plan: &RenamePlan) -> Result<()> {
    for step in &plan.moves {
        let tier = context.tier(step.tier)?;
        redo_move(resident(tier.as_ref())?, step)?;
    }
    Ok(())
}

fn redo_move(resident: &dyn Resident, step: &NativeMove) -> Result<()> {
    if native_ino(resident, &step.to)? == Some(step.native_ino) {
        return Ok(());
    }
    if native_ino(resident, &step.from)? != Some(step.native_ino) {
        // Neither here nor there: somebody else moved or removed it; a look at the tier will tell.
        tracing::warn!(from = %step.from, to = %step.to, "a rename can't be finished: its file is gone");
        return Ok(());
    }
    let mode = if step.exchange { RenameMode::Exchange } else { RenameMode::Replace };
    resident.rename(&step.from, &step.to, mode)
}

fn native_ino(resident: &dyn Resident, key: &Key) -> Result<Option<u64>> {
    Ok(found(resident.stat(key))?.and_then(|object| object.native).map(|native| native.ino))
}

fn dirty_file(context: &Context, inode: &Inode, recovered: &mut Recovered) -> Result<()> {
    let ino = inode.attr.ino;
    recovered.dirty += 1;
    if matches!(inode.state, WriteState::Writing | WriteState::ClosedOpen) {
        recovered.open += 1;
        context.inherited.lock().insert(ino, inode.generation);
    }
    for preserved in older(context, inode)? {
        if look(context, &preserved)? == Stage::Missing {
            let path = context.catalog.path(ino)?.unwrap_or_default();
            tracing::error!(%path, key = %preserved.key, "what was closed before the file was written again is gone from the stage");
        }
    }
    let Some(staged) = staged(context, inode)? else { return Ok(()) };
    let missing = match look(context, &staged)? {
        Stage::Holds(size) if is_cut(context, inode, &staged, size) || is_torn(context, &staged) => {
            recovered.lost += 1;
            if !take_back_lost(context, inode)? {
                lose(context, &staged)?;
            }
            // What is left is no version of anything, but somebody's bytes: fsck offers them.
            if size == 0 {
                remove(context, &staged);
            }
            return Ok(());
        }
        Stage::Holds(size) if inode.state == WriteState::Closed => {
            note_size(context, inode, size)?;
            return Ok(());
        }
        found => found == Stage::Missing,
    };
    if missing && context.catalog.replicas(ino)?.iter().any(|replica| replica.write_id.is_some()) {
        // It may have been on its way out of the stage: the outcome of that commit tells.
        return Ok(());
    }
    if missing && never_began(context, inode, &staged)? {
        recovered.undone += 1;
    } else if missing {
        recovered.lost += 1;
        if context.stores.is_of_an_earlier_boot(staged.tier) {
            // As good as certain it was removed by a delete whose rows went with the power.
            lose(context, &staged)?;
            remove(context, &staged);
            return Ok(());
        }
        context.note_lost(ino, &staged);
    }
    Ok(())
}

/// Whether bytes are missing that were there when the file was closed, synced or opened. What still writes to a closed file makes it no
/// shorter: that takes a call to the daemon, which notes a new generation first. Of a file that was open only a restart of the machine says
/// as much.
fn is_cut(context: &Context, inode: &Inode, staged: &Replica, size: u64) -> bool {
    let fixed = match inode.state {
        WriteState::Closed => true,
        WriteState::ClosedOpen | WriteState::Writing => context.stores.is_of_an_earlier_boot(staged.tier),
        WriteState::Clean => false,
    };
    fixed && inode.attr.kind == FileKind::Regular && size < inode.attr.size
}

/// A map that can't be read now, or at all, says so to whoever opens the file.
fn is_torn(context: &Context, staged: &Replica) -> bool {
    context.stores.is_torn(staged).unwrap_or_else(|error| {
        tracing::error!(key = %staged.key, %error, "a partly staged file can't be looked at");
        false
    })
}

/// What a generation that no close finished began from may lie where no look at home finds it: under a key that its file has yet to leave.
fn take_back_lost(context: &Context, inode: &Inode) -> Result<bool> {
    let ino = inode.attr.ino;
    let Some(lost) = context.catalog.lose_newest(ino, &domain(context, ino)?)? else { return Ok(false) };
    context.catalog.queue(ino, &domain(context, ino)?)?;
    for file in lost {
        tracing::error!(path = %file.path, "what was written last did not outlast a restart of the machine: it was never synced; the file is what it was before");
    }
    Ok(true)
}

fn domain(context: &Context, ino: Ino) -> Result<String> {
    let path = context.catalog.path(ino)?.unwrap_or_default();
    context.domain(ino, &path)
}

fn lose(context: &Context, staged: &Replica) -> Result<()> {
    for lost in context.catalog.lose(std::slice::from_ref(staged))?.lost {
        tracing::error!(path = %lost.path, "its newest bytes did not outlast a restart of the machine: they were never synced, or it was being deleted");
    }
    Ok(())
}

/// What the stage has of a row.
#[derive(PartialEq, Eq)]
enum Stage {
    /// So many bytes.
    Holds(u64),
    /// Nothing, not even a copy that was to become it.
    Missing,
    /// Nobody knows now.
    Unknown,
}

/// Looks for a staged file, and completes it if all it needs is a rename.
fn look(context: &Context, staged: &Replica) -> Result<Stage> {
    let Some(tier) = context.tiers.get(&staged.tier) else { return Ok(Stage::Unknown) };
    let resident = resident(tier.as_ref())?;
    match resident.stat(&staged.key) {
        Ok(object) => Ok(Stage::Holds(object.size)),
        Err(error) if error.kind() == Kind::NotFound => {
            let completed = complete_copy(resident, &staged.key)?;
            Ok(if completed { Stage::Unknown } else { Stage::Missing })
        }
        // Absent or sick: nothing is known, so nothing is lost.
        Err(error) => {
            tracing::warn!(key = %staged.key, %error, "a staged file can't be looked at now");
            Ok(Stage::Unknown)
        }
    }
}

fn revert(context: &Context, ino: Ino) -> Result<Option<Replica>> {
    context.catalog.revert_write(ino, &domain(context, ino)?)
}

/// The daemon died between the row of a new generation and its file, and nobody was told that there is one: it is taken back. A
/// staged file that was there described itself at once, so one that is lost has left its sidecar.
fn never_began(context: &Context, inode: &Inode, staged: &Replica) -> Result<bool> {
    let ino = inode.attr.ino;
    if inode.state != WriteState::Writing || context.stores.describes_itself(staged)? {
        return Ok(false);
    }
    if revert(context, ino)?.is_some() {
        if let Some(path) = context.catalog.path(ino)? {
            context.catalog.queue(ino, &context.domain(ino, &path)?)?;
        }
        return Ok(true);
    }
    let names = context.catalog.names(ino)?;
    let [(parent, name)] = names.as_slice() else { return Ok(false) };
    if inode.attr.size > 0 || inode.generation.0 > 1 {
        return Ok(false);
    }
    context.catalog.unlink(*parent, name, &[], "", context.clock.wall())?;
    context.catalog.drop_orphan(ino)?;
    Ok(true)
}

/// A write-open died between its row and the rename of the copied bytes.
fn complete_copy(resident: &dyn Resident, key: &Key) -> Result<bool> {
    let Some((parent, name)) = key.split() else { return Ok(false) };
    let copy = parent.join([name, b".copy"].concat())?;
    match resident.rename(&copy, key, RenameMode::NoReplace) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == Kind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Staged generations that the file has newer ones than.
fn older(context: &Context, inode: &Inode) -> Result<Vec<Replica>> {
    let mut replicas = context.catalog.replicas(inode.attr.ino)?;
    replicas.retain(|replica| replica.staged && replica.generation < inode.generation);
    Ok(replicas)
}

fn staged(context: &Context, inode: &Inode) -> Result<Option<Replica>> {
    let replicas = context.catalog.replicas(inode.attr.ino)?;
    Ok(replicas.into_iter().find(|replica| replica.staged && replica.generation == inode.generation))
}

/// Files that an earlier daemon saw closed: taken as released once no writer lives.
pub(crate) fn adopt_released(context: &Context) -> Result<()> {
    let inherited: Vec<_> =
        context.inherited.lock().iter().map(|(ino, generation)| (*ino, *generation)).collect();
    let mut settles = false;
    for (ino, generation) in inherited {
        let ended = match found(context.catalog.inode(ino))? {
            Some(inode) if inode.generation == generation => has_ended(context, &inode),
            // It was opened here since, or preserved for those who waited for it.
            Some(_) => Ok(!(context.is_open)(ino)),
            None => Ok(true),
        };
        settles |= (context.is_open)(ino);
        match ended {
            Ok(true) => {
                context.inherited.lock().remove(&ino);
            }
            Ok(false) => {}
            // One file that can't be looked at keeps no other from going on.
            Err(error) => tracing::warn!(%ino, %error, "a file that was open can't be looked at now"),
        }
    }
    if settles {
        (context.settle_closed)();
    }
    Ok(())
}

/// Whether nobody writes any more to what an earlier daemon left open.
fn has_ended(context: &Context, inode: &Inode) -> Result<bool> {
    let ino = inode.attr.ino;
    match inode.state {
        WriteState::ClosedOpen => Ok(!has_writer(context, inode)? && close_as_it_is(context, inode)?),
        WriteState::Writing => context.unwritten(ino, || take_back(context, inode)).unwrap_or(Ok(false)),
        WriteState::Clean | WriteState::Closed => Ok(true),
    }
}

/// A generation that nobody has written to, and that nobody can write to any more, never was: the one before it is at home, or on
/// its way.
fn take_back(context: &Context, inode: &Inode) -> Result<bool> {
    let ino = inode.attr.ino;
    let Some(file) = open_staged(context, inode)? else { return Ok(false) };
    let content = content_of(&file, context)?;
    let unchanged = (content.size, content.mtime) == (inode.attr.size, inode.attr.mtime);
    if !unchanged || (context.is_open)(ino) || has_writer(context, inode)? {
        return Ok(false);
    }
    let Some(staged) = revert(context, ino)? else { return Ok(false) };
    // What was only opened was never synced: the file may not stand for what home has.
    context.catalog.sync()?;
    remove(context, &staged);
    Ok(true)
}

/// Somebody asks for a file that an earlier daemon left open: it is taken as closed now, unless a writer lives.
pub(crate) fn close_as_told(context: &Context, ino: Ino) -> Result<()> {
    let Some(generation) = context.inherited.lock().get(&ino).copied() else { return Ok(()) };
    let Some(inode) = found(context.catalog.inode(ino))? else { return Ok(()) };
    let open = matches!(inode.state, WriteState::Writing | WriteState::ClosedOpen);
    if inode.generation != generation || !open || has_writer(context, &inode)? {
        return Ok(());
    }
    if close_as_it_is(context, &inode)? {
        context.inherited.lock().remove(&ino);
    }
    Ok(())
}

/// Nobody has it open any more: what the stage has of it is what was closed, in its turn. False if that can't be known now.
fn close_as_it_is(context: &Context, inode: &Inode) -> Result<bool> {
    let ino = inode.attr.ino;
    let (Some(file), Some(path)) = (open_staged(context, inode)?, context.catalog.path(ino)?) else {
        return Ok(false);
    };
    let content = content_of(&file, context)?;
    match inode.state {
        WriteState::ClosedOpen => context.catalog.resize(ino, content)?,
        _ => drop(context.catalog.close(ino, content, &context.domain(ino, &path)?)?),
    }
    context.catalog.released(ino)?;
    (context.invalidate)(Invalidation::Inode(ino));
    Ok(true)
}

fn content_of(file: &File, context: &Context) -> Result<Content> {
    let metadata = file.metadata()?;
    Ok(Content {
        size: metadata.len(),
        blocks: metadata.blocks(),
        mtime: Timestamp::from_parts(metadata.mtime(), metadata.mtime_nsec()),
        ctime: context.clock.wall(),
    })
}

fn open_staged(context: &Context, inode: &Inode) -> Result<Option<File>> {
    let Some(staged) = staged(context, inode)? else { return Ok(None) };
    let tier = context.tier(staged.tier)?;
    found(resident(tier.as_ref())?.open(&staged.key, Access::Read))
}

/// Whether a program still has the staged file open for writing. Where the kernel can't say, the file is as old as the daemon
/// that died: nobody here can have it open but through a passthrough that outlived it, which needs leases to work.
fn has_writer(context: &Context, inode: &Inode) -> Result<bool> {
    let Some(file) = open_staged(context, inode)? else { return Ok(true) };
    match lease::no_writers(&file) {
        Ok(free) => Ok(!free),
        Err(error) if error.kind() == Kind::Unsupported => Ok(false),
        Err(error) => Err(Error::context(error, "look for writers of a staged file")),
    }
}
