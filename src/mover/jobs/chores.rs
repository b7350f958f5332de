//! House-keeping between steps: tombstones, hot copies above the high water, files that an earlier daemon's writers held.

use crate::mover::context::Context;
use crate::mover::jobs::tidy;
use crate::mover::recover;
use crate::types::Timestamp;
use std::sync::Arc;
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
            recover::adopt_released(context)?;
            tidy::look_at_mapped(context)?;
            context.stores.keep_below_high_water()
        })
        .await;
    if let Err(error) = done {
        tracing::warn!(%error, "house-keeping of the mover failed; it is tried again");
    }
}
