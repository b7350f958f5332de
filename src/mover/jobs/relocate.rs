//! Keys that are in the way, and copies that must follow their file to another key.

use crate::catalog::{Inode, Replica, WriteState};
use crate::error::{Error, Kind, Result, found};
use crate::mover::context::Context;
use crate::mover::jobs::commit::{Act, commit, make_parents, resident, resolve};
use crate::mover::jobs::subject::{Subject, Target};
use crate::mover::jobs::{Flow, Halt, conflict, upload};
use crate::mover::status::Counters;
use crate::tier::{Object, RenameMode};
use crate::types::{FileKind, Ino, Version};
use std::sync::Arc;

/// Sees to it that `target` may be written for `ino`: the outcome of an earlier commit is learned, and the only
/// copy of another file that lies there is copied away.
pub(crate) async fn make_way(
    context: &Arc<Context>,
    ino: Ino,
    target: &mut Target,
    domain: &str,
) -> Flow<()> {
    target.refresh(context)?;
    let Some(row) = target.row.clone() else { return Ok(()) };
    if row.write_id.is_some() {
        resolve(context, &row).await?;
        target.refresh(context)?;
    }
    follow_replaced(context, target).await?;
    let Some(row) = target.row.clone() else { return Ok(()) };
    match row.ino {
        Some(other) if other != ino && row.generation.0 != 0 && row.version.is_some() => {
            make_way_for(context, other, &row, target, domain).await
        }
        _ => Ok(()),
    }
}

/// A file that was replaced by a rename is at its native key until the new one comes, and whoever has it open may go on
/// writing to it: that is no change by others.
async fn follow_replaced(context: &Arc<Context>, target: &mut Target) -> Flow<()> {
    if target.row.as_ref().is_none_or(|row| row.generation.0 != 0) {
        return Ok(());
    }
    let object = native_object(context, target).await?;
    if let (Some(row), Some(object)) = (&mut target.row, object)
        && row.is_written_leftover(&object)
    {
        row.version = Some(object.version);
    }
    Ok(())
}

/// The version of what lies there, if it is the very file of the row, but was written in place since.
async fn written_in_place(context: &Arc<Context>, target: &Target) -> Flow<Option<Version>> {
    let (Some(object), Some(row)) = (native_object(context, target).await?, &target.row) else {
        return Ok(None);
    };
    let is_it = object.native.is_some_and(|native| row.native_ino != 0 && native.ino == row.native_ino);
    Ok(Some(object.version).filter(|version| is_it && row.version.as_ref() != Some(version)))
}

/// Another file that lost its name to this one lies there: its newest content goes elsewhere first, also what was written in place since.
async fn make_way_for(
    context: &Arc<Context>,
    other: Ino,
    row: &Replica,
    target: &mut Target,
    domain: &str,
) -> Flow<()> {
    let inode = found(context.catalog.inode(other))?;
    let is_newest = |inode: &Inode| inode.generation == row.generation && inode.state == WriteState::Clean;
    if inode.as_ref().is_some_and(is_newest) && written_in_place(context, target).await?.is_some() {
        conflict::look_at(context, &target.place, &target.name).await?;
        return Err(Halt::Again);
    }
    evacuate(context, other, row, domain).await?;
    target.refresh(context)?;
    let version = written_in_place(context, target).await?;
    if let (Some(row), Some(version)) = (&mut target.row, version) {
        row.version = Some(version);
    }
    Ok(())
}

async fn native_object(context: &Arc<Context>, target: &Target) -> Flow<Option<Object>> {
    if target.tier.resident().is_none() {
        return Ok(None);
    }
    let (tier, key) = (Arc::clone(&target.tier), target.key.clone());
    Ok(context.blocking(move |_| found(resident(tier.as_ref())?.stat(&key))).await?)
}

/// Copies the only copy of `other`, which lies under a key that another file must have now, to `.tierfs/moved/<ino>` on the
/// same tier; its own step brings it to its native key later.
pub(crate) async fn evacuate(context: &Arc<Context>, other: Ino, row: &Replica, domain: &str) -> Flow<()> {
    let Some(inode) = found(context.catalog.inode(other))? else { return Ok(()) };
    if inode.attr.kind == FileKind::Directory {
        // A marker: its directory's own step makes one where it belongs.
        return Ok(());
    }
    // What is only open may be taken back, or go with the power: it stands for nothing.
    let is_open = matches!(inode.state, WriteState::Writing | WriteState::ClosedOpen);
    let others = context.catalog.replicas(other)?;
    let elsewhere = others.iter().any(|replica| {
        (replica.place, &replica.name) != (row.place, &row.name)
            && replica.generation >= row.generation
            && replica.write_id.is_none()
            && ((replica.staged && !is_open) || replica.version.is_some())
            && !replica.is_partial()
    });
    if elsewhere {
        return Ok(());
    }
    let _turn = context.inodes.take(&other).map_err(|_busy| Halt::Again)?;
    let tier = context.tier(row.tier)?;
    let place = context.catalog.moved_place(row.tier)?;
    let name = other.to_string().into_bytes();
    let mut target = Target { key: place.key.join(&name)?, tier, place, name, row: None };
    target.refresh(context)?;
    if let Some(old) = target.row.clone().filter(|old| old.write_id.is_some()) {
        resolve(context, &old).await?;
        // What was learned may be that it is done.
        return Err(Halt::Again);
    }
    transfer(context, &inode, row, &target).await?;
    context.catalog.queue(other, domain)?;
    Ok(())
}

/// A directory that was renamed away still lies under a key that a file must have now: it goes to `.tierfs/moved` with all that is in it,
/// and its own step takes it home from there. False if it is none of ours.
pub(crate) async fn clear_directory(context: &Arc<Context>, target: &Target) -> Flow<bool> {
    let places = context.catalog.places_in(target.place.id)?;
    let Some(place) = places.into_iter().find(|place| place.key == target.key) else { return Ok(false) };
    let Some(owner) = place.ino else { return Ok(false) };
    if context.catalog.native_place(owner, place.tier)?.is_some_and(|native| native.id == place.id) {
        return Ok(false);
    }
    let _turn = context.inodes.take(&owner).map_err(|_busy| Halt::Again)?;
    let moved = context.catalog.moved_place(place.tier)?;
    let name = format!("{owner}-{}", place.id.0).into_bytes();
    let (tier, from, to) = (Arc::clone(&target.tier), place.key.clone(), moved.key.join(&name)?);
    let on = place.tier;
    let aside = move |context: &Context| {
        let resident = resident(tier.as_ref())?;
        if !context.catalog.stands(&place)? {
            return Ok(());
        }
        make_parents(resident, &to)?;
        match resident.rename(&from, &to, RenameMode::NoReplace) {
            // Done by an earlier try.
            Err(error) if error.kind() == Kind::NotFound => {}
            other => other?,
        }
        context.catalog.move_place(place.id, moved.id, &name)
    };
    context.blocking(move |context| context.names_move(on, || aside(context))).await?;
    Ok(true)
}

/// Learns the outcome of commits of this inode that are still open; answers whether there were any.
pub(crate) async fn learn(context: &Arc<Context>, subject: &Subject) -> Flow<bool> {
    let mut any = false;
    for row in subject.replicas.iter().filter(|row| row.write_id.is_some()) {
        resolve(context, row).await?;
        any = true;
    }
    Ok(any)
}

/// Brings the content of `source`, as it is, under `target` on the same or another tier.
pub(crate) async fn transfer(
    context: &Arc<Context>,
    inode: &Inode,
    source: &Replica,
    target: &Target,
) -> Flow<()> {
    let done = match same_tier_act(context, source, target).await? {
        Some(act) => commit(context, inode, source.generation, target, act).await,
        None => Err(Halt::Failed(Kind::Unsupported.into())),
    };
    match done {
        Ok(()) => {}
        Err(Halt::Failed(error)) if error.kind() == Kind::Unsupported => {
            let mut target = target.clone();
            target.refresh(context)?;
            let sealed = Arc::new(upload::seal(context, source).await?);
            let act = upload::send(context, &sealed, &target).await?;
            commit(context, inode, source.generation, &target, act).await?;
        }
        Err(Halt::Failed(error)) if matches!(error.kind(), Kind::Changed | Kind::NotFound) => {
            return Err(source_changed(context, source, error).await);
        }
        Err(other) => return Err(other),
    }
    Counters::add(&context.counters.moved, 1);
    Ok(())
}

async fn same_tier_act(context: &Arc<Context>, source: &Replica, target: &Target) -> Flow<Option<Act>> {
    if source.tier != target.place.tier {
        return Ok(None);
    }
    let from = source.key.clone();
    if target.tier.resident().is_none() {
        return Ok(source.version.clone().map(|version| Act::Copy { from, version }));
    }
    let (tier, key) = (Arc::clone(&target.tier), from.clone());
    let native = context.blocking(move |_| Ok(resident(tier.as_ref())?.stat(&key)?.native)).await?;
    Ok(native.map(|native| Act::Rename { from: source.clone(), native_ino: native.ino }))
}

/// A copy failed because its source is not what the catalog thought: looks at it, so that the next try knows.
pub(crate) async fn source_changed(context: &Arc<Context>, source: &Replica, error: Error) -> Halt {
    match look_at_source(context, source).await {
        Ok(true) => Halt::Again,
        Ok(false) => Halt::Failed(error),
        Err(halt) => halt,
    }
}

/// Whether the source was indeed another.
async fn look_at_source(context: &Arc<Context>, source: &Replica) -> Flow<bool> {
    let place = context.catalog.place(source.place)?;
    conflict::look_at(context, &place, &source.name).await?;
    let now = context.catalog.replica_at(source.place, &source.name)?;
    Ok(now.is_none_or(|now| now.version != source.version || now.ino != source.ino))
}

/// A replica of `subject` that no name wants any more, on a tier that is configured.
pub(crate) fn strays(context: &Context, subject: &Subject) -> Result<Vec<Replica>> {
    let mut strays = Vec::new();
    for replica in &subject.replicas {
        let known = conflict::is_known(context, replica.tier);
        if known && !replica.staged && !subject.is_native(context, replica)? {
            strays.push(replica.clone());
        }
    }
    Ok(strays)
}
