//! Files that were away and are used again, or for which home has room again, come home, a few at a time. The rows in the catalog
//! say which; they go when the file is at home.

use crate::catalog::Reason;
use crate::mover::cold;
use crate::mover::context::Context;
use crate::mover::jobs::Halt;
use crate::types::Ino;
use futures::StreamExt;
use futures::stream;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Files that come at a time.
const AT_ONCE: usize = 4;

/// Files read from the catalog at a time.
const PAGE: usize = 256;

/// Wait before what could not come is tried again, ...
const AGAIN: Duration = Duration::from_secs(1);

/// ... which doubles to this, ...
const LONGEST: Duration = Duration::from_secs(5 * 60);

/// ... and to this while programs have it open.
const WHILE_OPEN: Duration = Duration::from_secs(15);

/// When to try a file again, by the monotonic clock, and how long the wait was.
type Waits = HashMap<Ino, (Duration, Duration)>;

/// Brings files home whenever one is wanted; ends with the mover.
pub(crate) async fn run(context: Arc<Context>) {
    let (wanted, mut waits) = (context.catalog.returning(), Waits::new());
    loop {
        let next = match round(&context, &mut waits).await {
            Ok(next) => next,
            Err(error) => {
                tracing::warn!(%error, "files that are wanted at home can't be brought there now; it is tried again");
                Some(AGAIN)
            }
        };
        tokio::select! {
            () = wanted.notified() => {}
            () = tokio::time::sleep(next.unwrap_or(LONGEST)) => {}
        }
    }
}

/// Tries all that are due; answers how long there is nothing to do.
pub(crate) async fn round(
    context: &Arc<Context>,
    waits: &mut Waits,
) -> crate::error::Result<Option<Duration>> {
    let mut after = Ino(0);
    let mut left = Waits::new();
    if context.rules().are_at_rest() {
        return Ok(None);
    }
    loop {
        let page = context.catalog.away(Reason::Returning, after, PAGE)?;
        let Some(last) = page.last() else { break };
        after = *last;
        let now = context.clock.monotonic();
        let (later, due): (Vec<_>, Vec<_>) =
            page.into_iter().partition(|ino| waits.get(ino).is_some_and(|(at, _)| *at > now));
        left.extend(later.into_iter().filter_map(|ino| Some((ino, *waits.get(&ino)?))));
        let come = |ino| async move { (ino, cold::settle(context, ino).await) };
        let mut came = stream::iter(due).map(come).buffer_unordered(AT_ONCE);
        while let Some((ino, end)) = came.next().await {
            let Err(halt) = end else { continue };
            let before = waits.get(&ino).map(|(_, wait)| *wait);
            let longest = match halt {
                // Things changed while it was looked at.
                Halt::Again => AGAIN,
                Halt::Failed(_) => LONGEST,
                Halt::Open | Halt::Reopened | Halt::NotBefore(_) => WHILE_OPEN,
            };
            let wait = before.map_or(AGAIN, |wait| (wait * 2).min(longest));
            left.insert(ino, (context.clock.monotonic() + wait, wait));
            cold::tell(context, ino, halt);
        }
    }
    *waits = left;
    let now = context.clock.monotonic();
    Ok(waits.values().map(|(at, _)| at.saturating_sub(now)).min())
}
