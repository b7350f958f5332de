//! Deletes of doomed keys, under the condition that nobody else has put something there.

use crate::catalog::{PlaceId, Replica, Step};
use crate::error::{Kind, Result};
use crate::failpoint;
use crate::mover::context::Context;
use crate::mover::flush::found;
use crate::mover::jobs::{Flow, Halt, commit, conflict};
use crate::mover::status::Counters;
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
