//! Homes that are too full for new files: looks now and then how full they are, and has the files that went elsewhere come home
//! when there is room.

use crate::catalog::Reason;
use crate::error::{Kind, Result, found};
use crate::fullness::Level;
use crate::mover::context::Context;
use crate::policy::placement::Subject;
use crate::tier::Usage;
use crate::types::{Ino, TierId};
use std::sync::Arc;
use std::time::Duration;

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(2);

/// Files that are on their way home at most: those that come take room that is not seen yet.
const AT_ONCE: u64 = 64;

/// Files read from the catalog at a time.
const PAGE: usize = 256;

/// What may be used by files that come home, below the low water.
#[derive(Clone, Copy, Debug)]
struct Home {
    tier: TierId,
    left: u64,
}

/// Looks for as long as there are rules that want it; ends with the mover.
pub(crate) async fn run(context: Arc<Context>) {
    loop {
        if let Err(error) = context.blocking(look).await {
            tracing::debug!(%error, "how full homes are is not known now");
        }
        tokio::time::sleep(EVERY).await;
    }
}

fn look(context: &Context) -> Result<()> {
    let mut homes = Vec::new();
    for tier in context.rules().overflowing() {
        let Some(usage) = usage(context, tier)? else { continue };
        let (high, low) = context.marks.read().get(&tier).copied().unwrap_or((1.0, 1.0));
        let used = usage.total.saturating_sub(usage.free);
        let share = |of: f64| (of * usage.total as f64) as u64;
        let level = match used {
            used if used >= share(high) => Level::Full,
            used if used < share(low) => Level::Low,
            _ => Level::Between,
        };
        if context.fullness.note(tier, level) {
            let name = context.tier(tier)?.name().to_owned();
            tracing::info!(tier = name, ?level, "where new files go has changed with how full their home is");
        }
        if level == Level::Low {
            homes.push(Home { tier, left: share(low) - used });
        }
    }
    call_home(context, &mut homes)
}

fn usage(context: &Context, tier: TierId) -> Result<Option<Usage>> {
    match context.tier(tier)?.resident() {
        Some(resident) => match resident.usage() {
            Err(error) if error.kind() == Kind::Absent => Ok(None),
            usage => usage.map(Some),
        },
        None => Ok(None),
    }
}

/// Has as many files come home as there is room for.
fn call_home(context: &Context, homes: &mut [Home]) -> Result<()> {
    let (mut after, mut coming) = (Ino(0), context.catalog.count_away(Reason::Returning)?);
    let rules = context.rules();
    while !homes.is_empty() && coming < AT_ONCE {
        let page = context.catalog.away(Reason::Overflow, after, PAGE)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = *last;
        for ino in page {
            let Some(inode) = found(context.catalog.inode(ino))? else { continue };
            let Some(path) = found(context.catalog.path(ino))?.flatten() else { continue };
            let home = rules.rule(Subject::new(&path, inode.attr.ids())).home;
            let Some(room) = homes.iter_mut().find(|room| room.tier == home) else { continue };
            if inode.attr.size > room.left || (context.is_open)(ino) || coming >= AT_ONCE {
                continue;
            }
            room.left -= inode.attr.size;
            coming += 1;
            context.catalog.fits_home(ino)?;
        }
    }
    Ok(())
}
