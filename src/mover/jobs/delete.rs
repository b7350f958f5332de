//! Deletes of doomed keys, under the condition that nobody else has put something there.

use crate::catalog::{PlaceId, Replica, Step};
use crate::error::{Kind, Result, found};
use crate::failpoint;
use crate::mover::context::Context;
use crate::mover::jobs::{Flow, Halt, commit, conflict, resident};
use crate::mover::status::Counters;
use crate::tier::{Object, Resident};
use crate::types::{Condition, Version};
use std::sync::Arc;

/// Does a delete step.
pub(crate) async fn run(context: &Arc<Context>, step: &Step, place: PlaceId, name: &[u8]) -> Flow<u64> {
    delete_key(context, place, name).await?;
    super::finish(context, step.seq)?;
    Ok(0)
}

/// Deletes the key if it is (still) doomed.
pub(crate) async fn delete_key(context: &Arc<Context>, place: PlaceId, name: &[u8]) -> Flow<()> {
    let Some(row) = context.catalog.replica_at(place, name)?.filter(|row| row.ino.is_none()) else {
        return Ok(());
    };
    let _turn = context.keys.take(&(row.tier, row.key.clone())).map_err(|_busy| Halt::Again)?;
    if context.tier(row.tier)?.resident().is_some() {
        return delete_native(context, row).await;
    }
    let Some(version) = doomed_version(context, &row).await? else {
        context.catalog.deleted(place, name)?;
        return Ok(());
    };
    let tier = context.tier(row.tier)?;
    let result = tier.delete(&row.key, &Condition::Matches(version)).await;
    failpoint::pass("delete_sent");
    match result {
        Ok(()) => {
            Counters::add(&context.counters.deleted, 1);
            context.catalog.deleted(place, name)?;
        }
        Err(error) if error.kind() == Kind::NotFound => context.catalog.deleted(place, name)?,
        // Somebody else wrote there since (or put something into the directory): it comes back.
        Err(error) if matches!(error.kind(), Kind::Changed | Kind::NotEmpty) => {
            come_back(context, &row).await?
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// On a directory tier programs and renames work beside this, and no file system deletes on condition: it is looked at and
/// deleted while no rename can put another file there, and a new file can't be made over it.
async fn delete_native(context: &Arc<Context>, row: Replica) -> Flow<()> {
    let doomed = row.clone();
    let stays = context
        .blocking(move |context| {
            let tier = context.tier(doomed.tier)?;
            let resident = resident(tier.as_ref())?;
            let stays = context.names_stand(doomed.tier, || delete_if_doomed(context, resident, &doomed))?;
            if let Some((parent, _)) = doomed.key.split() {
                left(resident.sync_directory(&parent))?;
            }
            Ok(stays)
        })
        .await?;
    if stays { come_back(context, &row).await } else { Ok(()) }
}

/// Answers whether somebody else changed it, so that it stays.
fn delete_if_doomed(context: &Context, resident: &dyn Resident, row: &Replica) -> Result<bool> {
    if context.catalog.replica_at(row.place, &row.name)?.as_ref() != Some(row) {
        return Ok(false);
    }
    // What is there, or what a commit of ours of unknown outcome made of it.
    let is_ours = |object: &Object| row.write_id.as_ref().is_some_and(|id| commit::is_ours(object, id));
    match left(resident.stat(&row.key))? {
        Some(object) if !row.may_go(&object) && !is_ours(&object) => return Ok(true),
        Some(object) => {
            found(resident.unlink(&row.key))?;
            context.catalog.lost_a_link(row.tier, &object, |key| resident.stat(key))?;
            Counters::add(&context.counters.deleted, 1);
        }
        None => {}
    }
    failpoint::pass("delete_sent");
    context.catalog.deleted(row.place, &row.name)?;
    Ok(false)
}

/// Of what is to go nothing may be left but a file that came in the place of its directory: a power loss took the row that says so.
pub(super) fn left<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(error) if error.kind() == Kind::NotDirectory => Ok(None),
        other => found(other),
    }
}

/// Which version may be deleted: the one of the row, or, if a commit of ours may have come through after it, that one's.
async fn doomed_version(context: &Arc<Context>, row: &Replica) -> Flow<Option<Version>> {
    let Some(write_id) = &row.write_id else { return Ok(row.version.clone()) };
    match context.tier(row.tier)?.head(&row.key).await {
        Ok(object) if commit::is_ours(&object, write_id) => Ok(Some(object.version)),
        Ok(_) => Ok(row.version.clone()),
        Err(error) if error.kind() == Kind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn come_back(context: &Arc<Context>, row: &Replica) -> Flow<()> {
    tracing::info!(key = %row.key, "deleted here, but changed by somebody else meanwhile: it stays");
    context.catalog.deleted(row.place, &row.name)?;
    let place: Result<_> = context.catalog.place(row.place);
    if let Some(place) = found(place)? {
        conflict::look_at(context, &place, &row.name).await?;
    }
    Ok(())
}
