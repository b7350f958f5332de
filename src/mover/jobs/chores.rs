//! House-keeping between steps: tombstones, hot copies above the high water, files that an earlier daemon's writers held.

use crate::error::{Result, found};
use crate::mover::context::Context;
use crate::mover::evict;
use crate::mover::jobs::tidy;
use crate::mover::recover;
use crate::policy::heat::Rows;
use crate::types::{Ino, Timestamp};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a tombstone outlives its key: longer than any listing takes.
const TOMBSTONES_LIVE: Duration = Duration::from_secs(3600);

/// Does what is due; what fails is tried again next time.
pub(crate) async fn run(context: &Arc<Context>) {
    let before = Timestamp(
        context.clock.wall().0.saturating_sub(i64::try_from(TOMBSTONES_LIVE.as_nanos()).unwrap_or(i64::MAX)),
    );
    let done = context
        .blocking(move |context| {
            context.catalog.purge(before)?;
            context.catalog.purge_pins(context.clock.wall())?;
            recover::adopt_released(context)?;
            tidy::look_at_mapped(context)?;
            describe_moved(context)?;
            save_heat(context)?;
            evict::make_room(context, evict::Turn::Leave);
            Ok(())
        })
        .await;
    if let Err(error) = done {
        tracing::warn!(%error, "house-keeping of the mover failed; it is tried again");
    }
}

/// Writes down what changed of the heat of files; all of it again if that fails.
pub(crate) fn save_heat(context: &Context) -> Result<()> {
    context.heat.prune();
    let changed = context.heat.take_changed();
    context.catalog.save_heat(&changed).inspect_err(|_| context.heat.put_back(&changed))
}

/// Adds what an earlier daemon wrote down.
pub(crate) fn restore_heat(context: &Context) -> Result<()> {
    context.catalog.purge_heat()?;
    context.heat.restore(Rows { groups: context.catalog.heat_of_groups()?, files: Vec::new() });
    let mut after = Ino(0);
    loop {
        let files = context.catalog.heat_of_files(after)?;
        let Some(last) = files.last() else { return Ok(()) };
        after = last.ino;
        context.heat.restore(Rows { groups: Vec::new(), files });
    }
}

/// A directory was renamed: what is dirty below it says its new path, for whoever finds it without the catalog. A file that a
/// program has open for writing now has its turn when that lets go.
pub(crate) fn describe_moved(context: &Context) -> Result<()> {
    let moves = context.catalog.directory_moves();
    if context.described_moves.load(Ordering::Acquire) == moves {
        return Ok(());
    }
    let mut all = true;
    for inode in context.catalog.dirty()? {
        let ino = inode.attr.ino;
        let Some(path) = found(context.catalog.path(ino))?.flatten() else { continue };
        for staged in context.catalog.replicas(ino)?.iter().filter(|replica| replica.staged) {
            let described = context.unwritten(ino, || context.stores.describe_path(staged, &path));
            all &= described.transpose()?.is_some();
        }
    }
    if all {
        context.described_moves.store(moves, Ordering::Release);
    }
    Ok(())
}
