//! Commits what a file was that was deleted, or lost its name to another, in its place: what was closed in between may speak of it. Its delete,
//! or whoever has the name now, goes over it in its own turn. Where nothing is left that could miss it, nothing is sent.

use crate::catalog::{Inode, PlaceId, Step};
use crate::error::{Kind, Result, found};
use crate::mover::context::Context;
use crate::mover::jobs::commit::{Done, is_ours, perform, record};
use crate::mover::jobs::subject::Target;
use crate::mover::jobs::{Flow, Halt, attrs, outcome_is_unknown, preserved, resolve, upload};
use crate::mover::status::Counters;
use crate::types::{Generation, Ino};
use std::sync::Arc;

/// Does the step; answers the bytes that reached home.
pub(crate) async fn run(
    context: &Arc<Context>,
    step: &Step,
    (ino, generation): (Ino, Generation),
    (place, name): (PlaceId, &[u8]),
) -> Flow<u64> {
    let _turn = context.inodes.take(&ino).map_err(|_busy| Halt::Again)?;
    let bytes = match (found(context.catalog.inode(ino))?, target(context, place, name)?) {
        (Some(inode), Some(target)) if context.catalog.is_awaited(step.seq)? => {
            bring(context, &inode, generation, &target).await?
        }
        _ => 0,
    };
    preserved::end(context, step).await?;
    let gone = context.blocking(move |context| {
        // Programs may have it open; then it goes with the last of them.
        if (context.is_open)(ino) || found(context.catalog.names(ino))?.is_some_and(|names| !names.is_empty())
        {
            return Ok(());
        }
        for staged in found(context.catalog.drop_orphan(ino))?.unwrap_or_default() {
            context.stores.remove_staged(&staged)?;
        }
        Ok(())
    });
    gone.await?;
    Ok(bytes)
}

fn target(context: &Context, place: PlaceId, name: &[u8]) -> Result<Option<Target>> {
    let Some(place) = found(context.catalog.place(place))? else { return Ok(None) };
    let row = context.catalog.replica_at(place.id, name)?;
    let (tier, key) = (context.tier(place.tier)?, place.key.join(name)?);
    Ok(Some(Target { tier, place, name: name.to_vec(), key, row }))
}

async fn bring(context: &Arc<Context>, inode: &Inode, generation: Generation, target: &Target) -> Flow<u64> {
    let _turn = context.keys.take(&(target.place.tier, target.key.clone())).map_err(|_busy| Halt::Again)?;
    if let Some(row) = target.row.as_ref().filter(|row| row.write_id.is_some()) {
        resolve(context, row).await?;
        return Err(Halt::Again);
    }
    let write_id = attrs::write_id(inode.attr.ino, generation, inode.attr_generation, None);
    let is_done = |target: &Target| target.row.as_ref().is_some_and(|row| row.generation.0 != 0);
    let replicas = context.catalog.replicas(inode.attr.ino)?;
    let source = replicas.into_iter().find(|replica| replica.staged && replica.generation == generation);
    let Some(source) = source.filter(|_| !is_done(target)) else { return Ok(0) };
    let sealed = Arc::new(upload::seal(context, &source).await?);
    let sent = match upload::send(context, &sealed, target).await {
        // The rest of it is gone with what it began from, and so is who could miss it.
        Err(Halt::Failed(error)) if error.kind() == Kind::Stale => {
            tracing::debug!(key = %target.key, %error, "what was replaced is not shown before what replaces it");
            return Ok(0);
        }
        act => act?,
    };
    let act = Arc::new(sent);
    let told = attrs::of(context, inode, generation, target.tier.as_ref(), &write_id)?;
    let (place, name, id) = (target.place.id, target.name.clone(), write_id.clone());
    if !context.blocking(move |context| context.catalog.begin_replaced(place, &name, &id)).await? {
        return Ok(0);
    }
    let done = match perform(context, inode, generation, target, &act, &told).await {
        Ok(Some(done)) => done,
        Ok(None) => return Ok(sealed.size),
        Err(Halt::Failed(error)) if outcome_is_unknown(error.kind()) => return Err(error.into()),
        Err(Halt::Failed(error)) => match target.tier.head(&target.key).await {
            Ok(object) if is_ours(&object, &write_id) => Done::new(object),
            Err(unknown) if unknown.kind() != Kind::NotFound => return Err(unknown.into()),
            // Home was changed by others: whoever has the name now finds that too, and keeps both.
            _ => {
                context.catalog.abort_commit(target.place.id, &target.name)?;
                tracing::debug!(key = %target.key, %error, "what was replaced is not shown before what replaces it");
                return Ok(0);
            }
        },
        Err(later) => {
            context.catalog.abort_commit(target.place.id, &target.name)?;
            return Err(later);
        }
    };
    record(context, inode, generation, target, done).await?;
    Counters::add(&context.counters.committed_files, 1);
    Counters::add(&context.counters.committed_bytes, sealed.size);
    Ok(sealed.size)
}
