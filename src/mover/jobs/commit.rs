//! How one key on a tier gets new content: a row before the act, the act under a condition, a row
//! after it. A lost reply is recognised by the write id; anything else in the way is a conflict.

use crate::catalog::{Inode, Replica, WriteState};
use crate::data::Permit;
use crate::error::{Error, Kind, Result};
use crate::failpoint;
use crate::mover::context::Context;
use crate::mover::flush::found;
use crate::mover::jobs::subject::Target;
use crate::mover::jobs::{Flow, Halt, attrs, conflict, outcome_is_unknown, relocate};
use crate::tier::{NativeId, Object, RenameMode, Resident, Special, Tier, Upload};
use crate::types::{Attrs, Condition, FileKind, Generation, Key, Version};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// What puts content under a key.
pub(crate) enum Act {
    /// All bytes in one request, with the memory they take.
    Put { bytes: Bytes, _memory: Permit },
    /// Blocks that were sent before.
    Upload { upload: Arc<dyn Upload>, blocks: u64 },
    /// A directory, symlink or node.
    Special(Special),
    /// A copy inside the tier.
    Copy { from: Key, version: Version },
    /// A native rename of the file with this `st_ino`; out of the stage, if that is the row it has there.
    Rename { from: Key, native_ino: u64, staged: Option<Replica> },
    /// One more native name.
    Link { from: Key, native_ino: u64 },
    /// New attributes for the content that is there.
    Attributes(Version),
}

impl Act {
    fn native_ino(&self) -> Option<u64> {
        match self {
            Self::Rename { native_ino, .. } | Self::Link { native_ino, .. } => Some(*native_ino),
            _ => None,
        }
    }
}

/// Puts `generation` of `inode` under `target` by `act`.
pub(crate) async fn commit(
    context: &Arc<Context>,
    inode: &Inode,
    generation: Generation,
    target: &Target,
    act: Act,
) -> Flow<()> {
    let write_id = attrs::write_id(inode.attr.ino, generation, inode.attr_generation, act.native_ino());
    let attrs = attrs::of(context, inode, generation, target.tier.as_ref(), &write_id)?;
    let (ino, place, name, id) = (inode.attr.ino, target.place.id, target.name.clone(), write_id.clone());
    let (is_resident, tier) = (target.tier.resident().is_some(), target.place.tier);
    let begin = move |context: &Context| {
        let begin = || context.catalog.begin_commit(ino, place, &name, &id);
        // A rename that puts a file there natively must know of it, for it would be replaced.
        if is_resident { context.names_stand(tier, begin) } else { begin() }
    };
    let begun = context.blocking(begin).await;
    match begun {
        Err(error) if error.kind() == Kind::NotFound => return Err(Halt::Again),
        other => other?,
    }
    failpoint::pass("commit_begun");
    let version = match perform(context, inode, generation, target, &act, &attrs).await {
        // Recorded before any program could open it at its new key.
        Ok(_) if matches!(act, Act::Rename { .. }) => return Ok(()),
        Ok(version) => version,
        Err(error) => after_failure(context, inode, target, &act, &write_id, error).await?,
    };
    failpoint::pass("committed_not_recorded");
    record(context, inode, generation, target, version).await?;
    failpoint::pass("recorded_not_dropped");
    Ok(())
}

/// Does it on the tier.
pub(super) async fn perform(
    context: &Arc<Context>,
    inode: &Inode,
    generation: Generation,
    target: &Target,
    act: &Act,
    attrs: &Attrs,
) -> Result<Version> {
    let (tier, key) = (&target.tier, &target.key);
    let condition = target.condition();
    match act {
        Act::Put { bytes, .. } => tier.put(key, bytes.clone(), attrs, &condition).await,
        Act::Upload { upload, blocks } => upload.commit(*blocks, attrs, &condition).await,
        Act::Special(special) => tier.put_special(key, special, attrs, &condition).await,
        Act::Copy { from, version } => tier.copy(from, version, key, attrs, &condition).await,
        Act::Attributes(version) => tier.set_attrs(key, version, attrs).await,
        Act::Rename { from, staged, .. } => {
            let (from, inode, staged) = (from.clone(), inode.clone(), staged.clone());
            let (place, name) = (target.place.id, target.name.clone());
            natively(context, target, move |context, resident, key| {
                let ino = inode.attr.ino;
                let rename = || {
                    attrs::apply(context, &inode, resident, &from)?;
                    check(resident, key, &condition)?;
                    let mode = match condition {
                        Condition::Absent => RenameMode::NoReplace,
                        _ => RenameMode::Replace,
                    };
                    resident.rename(&from, key, mode)?;
                    match staged {
                        Some(_) => failpoint::pass("renamed_out_of_the_stage"),
                        None => failpoint::pass("committed_not_recorded"),
                    }
                    let object = resident.stat(key)?;
                    let (version, native) = (&object.version, object.native);
                    context.catalog.commit_if(
                        ino,
                        generation,
                        inode.attr_generation,
                        place,
                        &name,
                        version,
                        native,
                    )
                };
                let out_of_the_stage = |staged: &Replica| {
                    still_closed(context, &inode)?;
                    rename()?;
                    context.catalog.drop_replica(staged.place, &staged.name)?;
                    // The bytes are gone from there, what describes them is not.
                    context.stores.remove_staged(staged)
                };
                match &staged {
                    Some(staged) => {
                        let written = || Err(Error::new(Kind::Busy, "it is being written again"));
                        context.unwritten(ino, || out_of_the_stage(staged)).unwrap_or_else(written)
                    }
                    // Whoever opens it meanwhile would look where it was; while it is written to, all share one descriptor.
                    None => context.unwritten(ino, rename).unwrap_or_else(rename).map(drop),
                }
            })
            .await
        }
        Act::Link { from, .. } => {
            let from = from.clone();
            natively(context, target, move |_, resident, key| {
                check(resident, key, &condition)?;
                if matches!(condition, Condition::Matches(_)) {
                    resident.unlink(key)?;
                }
                resident.link(&from, key)
            })
            .await
        }
    }
}

/// Nobody has begun another generation meanwhile, in the very file that is to move.
fn still_closed(context: &Context, inode: &Inode) -> Result<()> {
    let now = context.catalog.inode(inode.attr.ino)?;
    let open = matches!(now.state, WriteState::Writing | WriteState::ClosedOpen);
    if open || now.generation != inode.generation {
        return Err(Error::new(Kind::Busy, "it was written again"));
    }
    Ok(())
}

/// Runs `act` on the resident side of the target's tier and makes its directory durable.
async fn natively(
    context: &Arc<Context>,
    target: &Target,
    act: impl FnOnce(&Context, &dyn Resident, &Key) -> Result<()> + Send + 'static,
) -> Result<Version> {
    let (tier, key) = (Arc::clone(&target.tier), target.key.clone());
    context
        .blocking(move |context| {
            let resident = resident(tier.as_ref())?;
            make_parents(resident, &key)?;
            act(context, resident, &key)?;
            if let Some((parent, _)) = key.split() {
                resident.sync_directory(&parent)?;
            }
            Ok(resident.stat(&key)?.version)
        })
        .await
}

pub(crate) fn resident(tier: &dyn Tier) -> Result<&dyn Resident> {
    tier.resident().ok_or_else(|| {
        Error::new(Kind::Unsupported, format!("tier {} is not a directory of this machine", tier.name()))
    })
}

/// Makes the directories above `key`.
pub(crate) fn make_parents(resident: &dyn Resident, key: &Key) -> Result<()> {
    key.split().map_or(Ok(()), |(parent, _)| resident.ensure_directory(&parent))
}

fn check(resident: &dyn Resident, key: &Key, condition: &Condition) -> Result<()> {
    let Condition::Matches(expected) = condition else { return Ok(()) };
    if resident.stat(key)?.version == *expected {
        return Ok(());
    }
    Err(Error::new(Kind::Changed, format!("{key} was changed by somebody else")))
}

impl Target {
    /// What the tier must have under the key for a write to be ours to make.
    pub(crate) fn condition(&self) -> Condition {
        match self.row.as_ref().and_then(|row| row.version.clone()) {
            Some(version) => Condition::Matches(version),
            None => Condition::Absent,
        }
    }
}

/// The act failed: finds out whether it happened all the same (then answers the version), or what is in the way.
async fn after_failure(
    context: &Arc<Context>,
    inode: &Inode,
    target: &Target,
    act: &Act,
    write_id: &str,
    error: Error,
) -> Flow<Version> {
    if outcome_is_unknown(error.kind()) {
        // The row keeps the write id; the next try asks the tier.
        return Err(error.into());
    }
    if !matches!(error.kind(), Kind::Changed | Kind::Exists | Kind::NotFound) {
        abort(context, target)?;
        return Err(error.into());
    }
    match target.tier.head(&target.key).await {
        Ok(object) if is_ours(&object, write_id) || looks_ours(target.tier.as_ref(), inode, &object) => {
            Ok(object.version)
        }
        Ok(object) if inode.attr.kind == FileKind::Directory && object.kind == FileKind::Directory => {
            Ok(object.version)
        }
        // The target is as expected: then it is the source that is not.
        Ok(object) if target.condition() == Condition::Matches(object.version.clone()) => {
            abort(context, target)?;
            Err(Halt::Failed(error))
        }
        // Written meanwhile by whoever still has it open.
        Ok(object) if target.row.as_ref().is_some_and(|row| row.is_written_leftover(&object)) => {
            abort(context, target)?;
            Err(Halt::Again)
        }
        // No content of ours is at stake.
        Ok(_) if matches!(act, Act::Attributes(_)) => {
            abort(context, target)?;
            Err(Halt::Failed(error))
        }
        Ok(object) => {
            abort(context, target)?;
            if object.kind == FileKind::Directory && relocate::clear_directory(context, target).await? {
                return Err(Halt::Again);
            }
            conflict::resolve(context, inode, target, object).await?;
            Err(Halt::Again)
        }
        Err(gone) if gone.kind() == Kind::NotFound => {
            abort(context, target)?;
            if target.condition() == Condition::Absent || matches!(act, Act::Attributes(_)) {
                return Err(Halt::Failed(error));
            }
            // Somebody deleted what we were to overwrite: ours is the newest then.
            context.catalog.nothing_there(inode.attr.ino, target.place.id, &target.name)?;
            Err(Halt::Again)
        }
        Err(unknown) => Err(unknown.into()),
    }
}

fn abort(context: &Context, target: &Target) -> Result<()> {
    context.catalog.abort_commit(target.place.id, &target.name)
}

/// Whether the commit with this write id made `object`.
pub(crate) fn is_ours(object: &Object, write_id: &str) -> bool {
    match attrs::native_ino_of(write_id) {
        Some(ino) => object.native.is_some_and(|native| native.ino == ino),
        None => object.attrs.write_id.as_deref() == Some(write_id),
    }
}

/// A directory tier without extended attributes can't keep a write id: there, what has exactly our size and our
/// modification time is ours. Somebody else's file would have to be as long and as old to the nanosecond.
fn looks_ours(tier: &dyn Tier, inode: &Inode, object: &Object) -> bool {
    let holds = tier.capabilities();
    let exact = holds.mtime_grain.is_some_and(|grain| grain <= Duration::from_micros(1));
    tier.resident().is_some()
        && !holds.xattrs
        && exact
        && object.attrs.write_id.is_none()
        && (object.kind, object.size) == (inode.attr.kind, inode.attr.size)
        && object.attrs.mtime == Some(inode.attr.mtime)
}

/// Writes down that the target holds `generation` in `version`.
pub(super) async fn record(
    context: &Arc<Context>,
    inode: &Inode,
    generation: Generation,
    target: &Target,
    version: Version,
) -> Flow<()> {
    let (ino, attr_generation) = (inode.attr.ino, inode.attr_generation);
    let (tier, place, name, key) =
        (Arc::clone(&target.tier), target.place.id, target.name.clone(), target.key.clone());
    context
        .blocking(move |context| {
            let native = native_id(tier.as_ref(), &key)?;
            context.catalog.commit_if(ino, generation, attr_generation, place, &name, &version, native)?;
            Ok(())
        })
        .await?;
    Ok(())
}

fn native_id(tier: &dyn Tier, key: &Key) -> Result<Option<NativeId>> {
    tier.resident().map_or(Ok(None), |resident| Ok(resident.stat(key)?.native))
}

/// Learns the outcome of a commit whose reply never came.
pub(crate) async fn resolve(context: &Arc<Context>, row: &Replica) -> Flow<()> {
    let Some(write_id) = row.write_id.clone() else { return Ok(()) };
    let tier = context.tier(row.tier)?;
    let object = match tier.head(&row.key).await {
        Ok(object) => Some(object),
        Err(error) if error.kind() == Kind::NotFound => None,
        Err(error) => return Err(error.into()),
    };
    let (place, name) = (row.place, row.name.clone());
    // A rename passes the key on with its commit: what was written is still the content of the inode that wrote it.
    let writer = attrs::ino_of(&write_id).or(row.ino);
    let inode = writer.map_or(Ok(None), |ino| found(context.catalog.inode(ino)))?;
    let ours = object.filter(|object| {
        is_ours(object, &write_id)
            || inode.as_ref().is_some_and(|inode| looks_ours(tier.as_ref(), inode, object))
    });
    let (Some(object), Some(ino), Some((generation, attr_generation))) =
        (ours, writer, attrs::parse_write_id(&write_id))
    else {
        context.catalog.abort_commit(place, &name)?;
        return Ok(());
    };
    tracing::info!(key = %row.key, "a commit whose reply was lost had succeeded");
    context
        .blocking(move |context| {
            let (version, native) = (&object.version, object.native);
            context.catalog.commit_if(ino, generation, attr_generation, place, &name, version, native)
        })
        .await?;
    Ok(())
}
