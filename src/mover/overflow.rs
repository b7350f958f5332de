//! Homes that are too full for new files: looks now and then how full they are, and has the files that went elsewhere come home
//! when there is room. Files that the mover itself finds no room for go the same way.

use crate::catalog::{Reason, WriteState};
use crate::error::{Error, Kind, Result, found};
use crate::fullness::Level;
use crate::mover::context::Context;
use crate::mover::evict;
use crate::policy::placement::{Rules, Subject};
use crate::tier::Usage;
use crate::types::{FileKind, Ino, TierId};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// How often it is looked, ...
const EVERY: Duration = Duration::from_secs(2);

/// ... and while files come home, so that more may follow.
const WHILE_COMING: Duration = Duration::from_millis(250);

/// Files that are on their way home at most.
const AT_ONCE: u64 = 256;

/// Files read from the catalog at a time, and looked at in one look.
const PAGE: usize = 256;

/// What is between files that come home and the low water of each home.
type Left = HashMap<TierId, u64>;

/// Files that are elsewhere because their homes were too full.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverflowPlan {
    /// Homes that are too full now.
    pub full: Vec<TierId>,
    /// Files that wait for room at home.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Looks for as long as the mover lives.
pub(crate) async fn run(context: Arc<Context>) {
    let mut after = Ino(0);
    loop {
        let from = after;
        let wait = match context.blocking(move |context| look(context, from)).await {
            Ok((next, called)) => {
                after = next;
                if called > 0 { WHILE_COMING } else { EVERY }
            }
            Err(error) => {
                tracing::debug!(%error, "how full homes are is not known now");
                EVERY
            }
        };
        tokio::time::sleep(wait).await;
    }
}

/// One look; answers how many files it called home.
pub(crate) fn pass(context: &Context) -> Result<u64> {
    Ok(look(context, Ino(0))?.1)
}

/// What is elsewhere now.
pub(crate) fn plan(context: &Context) -> Result<OverflowPlan> {
    let (files, bytes) = context.catalog.sum_away(Reason::Overflow)?;
    Ok(OverflowPlan { full: full(context), files, bytes })
}

/// Homes that are too full for new files now.
pub(crate) fn full(context: &Context) -> Vec<TierId> {
    let homes = context.rules().overflowing().into_iter();
    homes.filter(|tier| context.fullness.is_full(*tier)).collect()
}

/// Answers after which file to go on, and how many were called home.
fn look(context: &Context, after: Ino) -> Result<(Ino, u64)> {
    let rules = context.rules();
    let homes = rules.overflowing();
    context.fullness.keep(&homes);
    let mut left = Left::new();
    for tier in homes {
        match below_low_water(context, tier) {
            Ok(below) => left.extend(below.map(|below| (tier, below))),
            // One that is away says nothing, and keeps no other from being asked.
            Err(error) => tracing::debug!(%error, "how full a home is can't be told now"),
        }
    }
    if left.is_empty() { Ok((after, 0)) } else { call_home(context, &rules, left, after) }
}

/// Notes how full a home is; answers how much room there is below its low water, if new files go there.
fn below_low_water(context: &Context, tier: TierId) -> Result<Option<u64>> {
    let Some(Usage { total, free, .. }) = usage(context, tier)? else { return Ok(None) };
    let (high, low) = context.marks.read().get(&tier).copied().unwrap_or((1.0, 1.0));
    let (used, share) = (total.saturating_sub(free), |of: f64| (of * total as f64) as u64);
    let level = match used {
        used if used >= share(high) => Level::Full,
        used if used < share(low) => Level::Low,
        _ => Level::Between,
    };
    if context.fullness.note(tier, level, context.clock.monotonic()) {
        let tier = context.tier(tier)?.name().to_owned();
        match level {
            Level::Full => tracing::warn!(
                tier,
                used,
                total,
                "over its high water: new files go to the overflow of their rule"
            ),
            _ => tracing::info!(tier, used, total, "below its low water: new files go there again"),
        }
    }
    Ok((level == Level::Low && !context.fullness.is_full(tier)).then(|| share(low) - used))
}

fn usage(context: &Context, tier: TierId) -> Result<Option<Usage>> {
    evict::count(context, tier)?;
    context.tier(tier)?.resident().map(|resident| resident.usage()).transpose()
}

/// Has as many files come home as there is room for.
fn call_home(context: &Context, rules: &Rules, mut left: Left, after: Ino) -> Result<(Ino, u64)> {
    // Those that come take room that is not seen yet.
    let (mut coming, bytes) = context.catalog.sum_away(Reason::Returning)?;
    left.values_mut().for_each(|left| *left = left.saturating_sub(bytes));
    if rules.are_at_rest() || coming >= AT_ONCE {
        return Ok((after, 0));
    }
    let page = context.catalog.away(Reason::Overflow, after, PAGE)?;
    let (mut last, mut called) = (Ino(0), 0);
    for ino in &page {
        last = *ino;
        if coming >= AT_ONCE {
            return Ok((last, called));
        }
        let Some((home, size)) = wanted(context, rules, *ino)? else { continue };
        let Some(left) = left.get_mut(&home).filter(|left| **left >= size) else { continue };
        *left -= size;
        context.catalog.come_home(*ino)?;
        coming += 1;
        called += 1;
    }
    // At the end it begins again.
    Ok((if page.len() == PAGE { last } else { Ino(0) }, called))
}

/// The home of a file that may go there now, and its size.
fn wanted(context: &Context, rules: &Rules, ino: Ino) -> Result<Option<(TierId, u64)>> {
    let Some(inode) = found(context.catalog.inode(ino))? else { return Ok(None) };
    let Some(path) = found(context.catalog.path(ino))?.flatten() else { return Ok(None) };
    let subject = Subject::new(&path, inode.attr.ids());
    if inode.state != WriteState::Clean || rules.is_held(subject) || (context.is_open)(ino) {
        return Ok(None);
    }
    Ok(Some((rules.rule(subject).home, inode.attr.size)))
}

/// There is no room at home for a file that is on its way there. Where its rule has a tier for that, it goes to that one, or stays on it:
/// answers whether it does.
pub(crate) fn no_room(context: &Context, ino: Ino, home: TierId, error: &Error) -> Result<bool> {
    if error.kind() != Kind::NoSpace {
        return Ok(false);
    }
    let Some(inode) = found(context.catalog.inode(ino))? else { return Ok(false) };
    let Some(path) = found(context.catalog.path(ino))?.flatten() else { return Ok(false) };
    let rule = context.rule(&path, inode.attr.ids());
    let Some(overflow) = rule.overflow.filter(|_| rule.home == home) else { return Ok(false) };
    let is_elsewhere = inode.away.is_some_and(|away| away.tier != overflow.tier);
    if inode.attr.kind != FileKind::Regular || inode.whereabouts().away.is_some() || is_elsewhere {
        return Ok(false);
    }
    context.fullness.refused(home, context.clock.monotonic());
    let home = context.tier(home)?.name().to_owned();
    tracing::warn!(%path, home, "there is no room at home: the file goes to the overflow of its rule");
    context.catalog.overflows(ino, overflow.tier)?;
    Ok(true)
}
