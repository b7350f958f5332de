//! How one key on a tier gets new content: a row before the act, the act under a condition, a row
//! after it. A lost reply is recognised by the write id; anything else in the way is a conflict.

use crate::catalog::{Inode, Reason, Replica, WriteState};
use crate::data::Permit;
use crate::error::{Error, Kind, Result, found};
use crate::failpoint;
use crate::mover::context::Context;
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
    /// A native rename of the file with this `st_ino` from where the row has it.
    Rename { from: Replica, native_ino: u64 },
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
    let act = Arc::new(act);
    let done = match perform(context, inode, generation, target, &act, &attrs).await {
        Ok(Some(done)) => done,
        Ok(None) => return Ok(()),
        Err(Halt::Failed(error)) => after_failure(context, inode, target, &act, &write_id, error).await?,
        Err(later) => {
            abort(context, target)?;
            return Err(later);
        }
    };
    failpoint::pass("committed_not_recorded");
    record(context, inode, generation, target, done).await?;
    failpoint::pass("recorded_not_dropped");
    Ok(())
}

/// What an act made of the key.
pub(super) struct Done {
    version: Version,
    native: Option<NativeId>,
}

impl Done {
    pub(super) fn new(object: Object) -> Self {
        Self { version: object.version, native: object.native }
    }
}

/// Does it on the tier; none if it is recorded already.
///
/// A rename takes a native directory elsewhere at any time, so on a directory tier its name is looked at and the act done while none
/// can: else the old directory would be made anew, and the file be where the catalog has it not.
pub(super) async fn perform(
    context: &Arc<Context>,
    inode: &Inode,
    generation: Generation,
    target: &Target,
    act: &Arc<Act>,
    attrs: &Attrs,
) -> Flow<Option<Done>> {
    match &**act {
        Act::Rename { from, native_ino } => {
            let moving = Moving {
                from: from.clone(),
                native_ino: *native_ino,
                inode: inode.clone(),
                generation,
                target: target.clone(),
            };
            context.blocking(move |context| moving.run(context)).await?.ok_or(Halt::Again)?;
            Ok(None)
        }
        Act::Link { from, .. } => {
            let (from, condition) = (from.clone(), target.condition());
            let link = move |_: &Context, resident: &dyn Resident, key: &Key| {
                make_parents(resident, key)?;
                check(resident, key, &condition)?;
                if matches!(condition, Condition::Matches(_)) {
                    resident.unlink(key)?;
                }
                resident.link(&from, key)?;
                sync_parent(resident, key)?;
                resident.stat(key).map(Done::new)
            };
            where_it_stands(context, target, link).await.map(Some)
        }
        _ if target.tier.resident().is_some() => {
            let (act, attrs, tier) = (Arc::clone(act), attrs.clone(), Arc::clone(&target.tier));
            let condition = target.condition();
            let publish = move |context: &Context, resident: &dyn Resident, key: &Key| {
                let published = publish(tier.as_ref(), key, &act, &attrs, &condition);
                let version = context.runtime.block_on(published)?;
                Ok(Done { version, native: resident.stat(key)?.native })
            };
            where_it_stands(context, target, publish).await.map(Some)
        }
        act => {
            let condition = target.condition();
            let version = publish(target.tier.as_ref(), &target.key, act, attrs, &condition).await?;
            Ok(Some(Done { version, native: None }))
        }
    }
}

/// Does what any tier can.
async fn publish(
    tier: &dyn Tier,
    key: &Key,
    act: &Act,
    attrs: &Attrs,
    condition: &Condition,
) -> Result<Version> {
    match act {
        Act::Put { bytes, .. } => tier.put(key, bytes.clone(), attrs, condition).await,
        Act::Upload { upload, blocks } => upload.commit(*blocks, attrs, condition).await,
        Act::Special(special) => tier.put_special(key, special, attrs, condition).await,
        Act::Copy { from, version } => tier.copy(from, version, key, attrs, condition).await,
        Act::Attributes(version) => tier.set_attrs(key, version, attrs).await,
        Act::Rename { .. } | Act::Link { .. } => Err(Kind::Unsupported.into()),
    }
}

/// Runs `act` on a directory tier while no rename can take the target's directory elsewhere; later if one has.
pub(crate) async fn where_it_stands<T: Send + 'static>(
    context: &Arc<Context>,
    target: &Target,
    act: impl FnOnce(&Context, &dyn Resident, &Key) -> Result<T> + Send + 'static,
) -> Flow<T> {
    let target = target.clone();
    let act = move |context: &Context| {
        context.names_stand(target.place.tier, || at_its_place(context, &target, act))
    };
    context.blocking(act).await?.ok_or(Halt::Again)
}

/// Runs `act` if the target's directory is where it was.
fn at_its_place<T>(
    context: &Context,
    target: &Target,
    act: impl FnOnce(&Context, &dyn Resident, &Key) -> Result<T>,
) -> Result<Option<T>> {
    if !context.catalog.stands(&target.place)? {
        return Ok(None);
    }
    act(context, resident(target.tier.as_ref())?, &target.key).map(Some)
}

/// A native rename of a file to its target.
struct Moving {
    from: Replica,
    native_ino: u64,
    inode: Inode,
    generation: Generation,
    target: Target,
}

impl Moving {
    /// None if the target's directory has gone elsewhere.
    fn run(&self, context: &Context) -> Result<Option<()>> {
        let ino = self.inode.attr.ino;
        if self.from.staged {
            let written = || Err(Error::new(Kind::Busy, "it is being written again"));
            return context.unwritten(ino, || self.leave_the_stage(context)).unwrap_or_else(written);
        }
        // Whoever opens it meanwhile would look where it was; while it is written to, all share one descriptor.
        context.unwritten(ino, || self.rename(context)).unwrap_or_else(|| self.rename(context))
    }

    fn leave_the_stage(&self, context: &Context) -> Result<Option<()>> {
        still_closed(context, &self.inode)?;
        let Some(()) = self.rename(context)? else { return Ok(None) };
        // The bytes are gone from there, what describes them is not.
        context.stores.remove_staged(&self.from).map(Some)
    }

    fn rename(&self, context: &Context) -> Result<Option<()>> {
        let rename =
            |context: &Context, resident: &dyn Resident, key: &Key| self.rename_to(context, resident, key);
        context.names_move(self.target.place.tier, || at_its_place(context, &self.target, rename))
    }

    fn rename_to(&self, context: &Context, resident: &dyn Resident, key: &Key) -> Result<()> {
        // A rename of its directory may have brought something else there since.
        if resident.stat(&self.from.key)?.native.map(|native| native.ino) != Some(self.native_ino) {
            return Err(Error::new(Kind::Changed, format!("{} is another file now", self.from.key)));
        }
        let condition = self.target.condition();
        make_parents(resident, key)?;
        attrs::apply(context, &self.inode, resident, &self.from.key)?;
        check(resident, key, &condition)?;
        let mode = match condition {
            Condition::Absent => RenameMode::NoReplace,
            _ => RenameMode::Replace,
        };
        resident.rename(&self.from.key, key, mode)?;
        match self.from.staged {
            true => failpoint::pass("renamed_out_of_the_stage"),
            false => failpoint::pass("committed_not_recorded"),
        }
        sync_parent(resident, key)?;
        let (object, inode, target) = (resident.stat(key)?, &self.inode, &self.target);
        // Recorded before any program can open it at its new key.
        context.catalog.commit_if(
            inode.attr.ino,
            self.generation,
            inode.attr_generation,
            target.place.id,
            &target.name,
            &object.version,
            object.native,
        )?;
        self.left(context)
    }

    /// Nothing is left where it was: what comes there now is another's.
    fn left(&self, context: &Context) -> Result<()> {
        let (place, name) = (self.from.place, &self.from.name);
        let now = context.catalog.replica_at(place, name)?;
        if now.is_none_or(|now| (now.ino, now.generation) != (self.from.ino, self.from.generation)) {
            return Ok(());
        }
        context.catalog.drop_replica(place, name).map(drop)
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

pub(crate) fn resident(tier: &dyn Tier) -> Result<&dyn Resident> {
    tier.resident().ok_or_else(|| {
        Error::new(Kind::Unsupported, format!("tier {} is not a directory of this machine", tier.name()))
    })
}

/// Makes the directories above `key`.
pub(crate) fn make_parents(resident: &dyn Resident, key: &Key) -> Result<()> {
    key.split().map_or(Ok(()), |(parent, _)| resident.ensure_directory(&parent))
}

fn sync_parent(resident: &dyn Resident, key: &Key) -> Result<()> {
    key.split().map_or(Ok(()), |(parent, _)| resident.sync_directory(&parent))
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
) -> Flow<Done> {
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
            Ok(Done::new(object))
        }
        Ok(object) if inode.attr.kind == FileKind::Directory && object.kind == FileKind::Directory => {
            Ok(Done::new(object))
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
            let is_directory = object.kind == FileKind::Directory;
            if is_directory && (relocate::clear_directory(context, target).await? || has_left(target).await?)
            {
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

/// Whether a directory that was in the way has left by its own step since.
async fn has_left(target: &Target) -> Result<bool> {
    let now = found(target.tier.head(&target.key).await)?;
    Ok(now.is_none_or(|now| now.kind != FileKind::Directory))
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

/// A directory tier without extended attributes can't keep a write id, and a file that comes home may have been brought there by
/// another mount, which found it where this one did: there, what has exactly our size and our modification time is ours. Somebody
/// else's file would have to be as long and as old to the nanosecond.
fn looks_ours(tier: &dyn Tier, inode: &Inode, object: &Object) -> bool {
    let holds = tier.capabilities();
    let exact = holds.mtime_grain.is_some_and(|grain| grain <= Duration::from_micros(1));
    let no_id = !holds.xattrs && object.attrs.write_id.is_none();
    let comes_home =
        inode.state == WriteState::Clean && inode.away.is_some_and(|away| away.reason == Reason::Returning);
    tier.resident().is_some()
        && (no_id || comes_home)
        && exact
        && (object.kind, object.size) == (inode.attr.kind, inode.attr.size)
        && object.attrs.mtime == Some(inode.attr.mtime)
}

/// Writes down that the target holds `generation` as it was done.
pub(super) async fn record(
    context: &Arc<Context>,
    inode: &Inode,
    generation: Generation,
    target: &Target,
    done: Done,
) -> Flow<()> {
    let (ino, attr_generation) = (inode.attr.ino, inode.attr_generation);
    let (place, name) = (target.place.id, target.name.clone());
    let record = move |context: &Context| {
        let Done { version, native } = &done;
        context.catalog.commit_if(ino, generation, attr_generation, place, &name, version, *native)
    };
    context.blocking(record).await?;
    Ok(())
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
