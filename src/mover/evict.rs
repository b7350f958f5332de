//! Room for hot copies: how much there is, and which copies leave for others or when a tier gets too full.
//!
//! Above its high water a tier is brought down to its low water. Below it, copies leave only for files that are worth clearly more
//! (`policy::admission`), so a set that does not fit stays instead of being replaced at every read.

use crate::data::Space;
use crate::data::hot::{Copy, HotStore, Least};
use crate::error::Result;
use crate::heat::Heat;
use crate::mover::context::Context;
use crate::mover::keep::Kept;
use crate::mover::stores::HotTier;
use crate::policy::eviction::{Candidates, Worth};
use crate::policy::heat::{Fetch, value};
use crate::tier::{Resident, Usage};
use crate::types::{Ino, Key, TierId, Timestamp};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Copies remembered as the next to leave.
const CANDIDATES: usize = 16 << 10;

/// All copies are looked for again after so long, ...
const LOOK_EVERY: Duration = Duration::from_secs(10 * 60);

/// ... but that takes this share of the time at most.
const LOOK_SHARE: u32 = 20;

/// A copy's last use is known to the hour; one that somebody else uses counts as if it was opened once in this time.
const TOUCHED_EVERY: f64 = 3600.0;

/// The copies of one tier that may leave.
#[derive(Debug)]
pub(crate) struct Evictor {
    candidates: Candidates<Found>,
    /// Bytes that are ours on the tier beside copies, when they were counted, and how long that took.
    others: Option<(u64, Duration, Duration)>,
    /// When they were last looked for, and how long that took.
    looked: Option<(Duration, Duration)>,
}

#[derive(Debug)]
struct Found {
    copy: Copy,
    /// Whose copy it is; none if it was not opened here.
    ino: Option<Ino>,
    /// What it would cost to read it from its home.
    fetch: Fetch,
}

/// What kinds of homes the copies on one tier have.
enum Homes {
    Blob,
    /// Directory tiers too: which one it is must be looked up.
    Mixed,
}

impl Homes {
    fn of(context: &Context, tier: TierId) -> Self {
        let is_resident =
            |home: TierId| context.tiers.get(&home).is_some_and(|home| home.resident().is_some());
        let mixed = context.rules().iter().any(|rule| rule.hot.contains(&tier) && is_resident(rule.home));
        if mixed { Self::Mixed } else { Self::Blob }
    }
}

impl Found {
    fn of(context: &Context, copy: Copy, ino: Option<Ino>, homes: &Homes) -> Self {
        let near = |ino| {
            // Where the catalog can't say, it is far.
            let replicas = context.catalog.replicas(ino).unwrap_or_default();
            let is_near = |tier| context.tiers.get(&tier).is_some_and(|tier| tier.resident().is_some());
            replicas.iter().any(|replica| !replica.staged && is_near(replica.tier))
        };
        let is_near = matches!(homes, Homes::Mixed) && ino.is_some_and(near);
        let fetch = if is_near { Fetch::SHARE } else { Fetch::BLOB };
        Self { copy, ino, fetch }
    }
}

/// Copies dropped.
#[derive(Debug, Default)]
struct Dropped {
    files: u64,
    bytes: u64,
}

/// One for each tier with hot copies.
pub(crate) type Evictors = HashMap<TierId, Mutex<Evictor>>;

/// Evictors for these tiers.
pub(crate) fn evictors(tiers: &HashMap<TierId, HotTier>) -> Evictors {
    let new = || Evictor { candidates: Candidates::new(CANDIDATES), others: None, looked: None };
    tiers.keys().map(|tier| (*tier, Mutex::new(new()))).collect()
}

/// Who looks after the room while somebody else does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// That other one is enough.
    Leave,
    /// They wait: what is wanted now may have come too late for the other.
    Wait,
}

/// Looks at the room on every tier with hot copies, makes what is wanted, and says what is left.
pub(crate) fn make_room(context: &Context, turn: Turn) {
    for (tier, hot) in &context.stores.hot {
        let Some(evictor) = context.evictors.get(tier) else { continue };
        let evictor = match turn {
            Turn::Leave => evictor.try_lock(),
            Turn::Wait => Some(evictor.lock()),
        };
        let Some(mut evictor) = evictor else { continue };
        if let Err(error) = evictor.make_room(context, *tier, hot) {
            let name = hot.store.tier().name();
            tracing::warn!(tier = name, %error, "the room for hot copies can't be looked after now");
        }
    }
}

/// Tells a tier how much of its capacity is used, if it has one.
pub(crate) fn count(context: &Context, tier: TierId) -> Result<()> {
    let hot = context.stores.hot.get(&tier).filter(|hot| hot.counted);
    let (Some(hot), Some(evictor)) = (hot, context.evictors.get(&tier)) else { return Ok(()) };
    let Some(resident) = hot.store.tier().resident() else { return Ok(()) };
    evictor.lock().count(context, tier, hot, resident)
}

impl Evictor {
    fn make_room(&mut self, context: &Context, tier: TierId, hot: &HotTier) -> Result<()> {
        let Some(resident) = hot.store.tier().resident() else { return Ok(()) };
        let space = hot.store.space();
        if hot.counted {
            self.count(context, tier, hot, resident)?;
        }
        let room = Room::of(resident, marks(context, tier, hot))?;
        let too_much = room.too_much(space);
        let mut freed = 0;
        if too_much > 0 || space.was_refused() {
            let kept = Kept::on(context, tier, &hot.store)?;
            if self.is_old(context) || self.candidates.is_empty() {
                self.look(context, tier, &hot.store, &kept)?;
            }
            self.rank(context, &kept);
            let dropped = self.drop_copies(&hot.store, too_much)?;
            freed = dropped.bytes;
            if dropped.files > 0 {
                let Dropped { files, bytes } = dropped;
                tracing::info!(tier = hot.store.tier().name(), files, bytes, "hot copies dropped");
            }
        }
        let left = room.left.saturating_add(i64::try_from(freed).unwrap_or(i64::MAX));
        space.publish(room.all, left, self.least(context));
        Ok(())
    }

    /// Tells the tier how much of its capacity is used.
    fn count(
        &mut self,
        context: &Context,
        tier: TierId,
        hot: &HotTier,
        resident: &dyn Resident,
    ) -> Result<()> {
        if self.is_old(context) {
            self.look(context, tier, &hot.store, &Kept::on(context, tier, &hot.store)?)?;
        }
        let copies = hot.store.space().copies();
        resident.note_used(self.others(context, tier)?.saturating_add(copies).max(1));
        Ok(())
    }

    fn plan(&mut self, context: &Context, tier: TierId, hot: &HotTier) -> Result<HotPlan> {
        let space = hot.store.space();
        let mut plan = HotPlan { tier: hot.store.tier().name().to_owned(), ..HotPlan::default() };
        let Some(resident) = hot.store.tier().resident() else { return Ok(plan) };
        let kept = Kept::on(context, tier, &hot.store)?;
        let mut candidates = Candidates::new(SHOWN);
        let (owners, homes) = (context.heat.by_copy(), Homes::of(context, tier));
        hot.store.scan(&mut |copy| {
            plan.copies += copy.size;
            let ino = owners.get(&HotStore::copy_id(&copy.key)).copied();
            let found = Found::of(context, copy, ino, &homes);
            candidates.offer(worth(context, &kept, &found), found);
            ControlFlow::Continue(())
        })?;
        candidates.rank(|found| worth(context, &kept, found));
        let room = Room::of(resident, marks(context, tier, hot))?;
        (plan.all, plan.left, plan.too_much) = (room.all, room.left, room.too_much(space));
        while let Some(Found { copy, ino, .. }) = candidates.pop() {
            let rate = rate(&context.heat, ino, copy.last_use, context.clock.wall());
            plan.leaving.push(Leaving { ino, key: copy.key, size: copy.size, rate });
        }
        Ok(plan)
    }

    /// What the next to leave is worth, whenever that is asked.
    fn least(&self, context: &Context) -> Option<Least> {
        let (worth, found) = self.candidates.least()?;
        if let Worth::Least(_) = worth {
            return Some(Arc::new(|| 0.0));
        }
        let (heat, clock) = (context.heat.clone(), context.clock.clone());
        let (ino, size, last_use, fetch) = (found.ino, found.copy.size, found.copy.last_use, found.fetch);
        Some(Arc::new(move || value(rate(&heat, ino, last_use, clock.wall()), size, fetch)))
    }

    /// Bytes of files and stages on the tier.
    fn others(&mut self, context: &Context, tier: TierId) -> Result<u64> {
        let now = context.clock.monotonic();
        if let Some((bytes, at, took)) = self.others
            && now.saturating_sub(at) < took * LOOK_SHARE
        {
            return Ok(bytes);
        }
        let counts = context.catalog.counts()?;
        let of_tier = counts.iter().find(|(id, _)| *id == tier);
        let bytes = of_tier.map_or(0, |(_, counts)| counts.bytes + counts.staged_bytes);
        self.others = Some((bytes, now, context.clock.monotonic().saturating_sub(now)));
        Ok(bytes)
    }

    fn is_old(&self, context: &Context) -> bool {
        let now = context.clock.monotonic();
        self.looked.is_none_or(|(at, took)| now.saturating_sub(at) >= LOOK_EVERY.max(took * LOOK_SHARE))
    }

    /// Looks for all copies, unless that was done a moment ago.
    fn look(&mut self, context: &Context, tier: TierId, store: &HotStore, kept: &Kept) -> Result<()> {
        let now = context.clock.monotonic();
        if self.looked.is_some_and(|(at, took)| now.saturating_sub(at) < took * LOOK_SHARE) {
            return Ok(());
        }
        let (owners, homes) = (context.heat.by_copy(), Homes::of(context, tier));
        let mut candidates = Candidates::new(CANDIDATES);
        let mut bytes = 0;
        store.scan(&mut |copy| {
            bytes += copy.size;
            let ino = owners.get(&HotStore::copy_id(&copy.key)).copied();
            let found = Found::of(context, copy, ino, &homes);
            candidates.offer(worth(context, kept, &found), found);
            ControlFlow::Continue(())
        })?;
        store.space().found(bytes);
        if let Err(error) = store.remove_dead_fills() {
            tracing::debug!(%error, "what dead fills have left can't be removed now");
        }
        self.candidates = candidates;
        self.looked = Some((now, context.clock.monotonic().saturating_sub(now)));
        Ok(())
    }

    fn rank(&mut self, context: &Context, kept: &Kept) {
        self.candidates.rank(|found| worth(context, kept, found));
    }

    /// Drops those of the least worth that nobody has open.
    fn drop_copies(&mut self, store: &HotStore, bytes: u64) -> Result<Dropped> {
        let mut dropped = Dropped::default();
        while dropped.bytes < bytes
            && let Some(Found { copy, .. }) = self.candidates.pop()
        {
            if store.evict(&copy)? {
                dropped.files += 1;
                dropped.bytes += copy.size;
            }
        }
        Ok(dropped)
    }
}

/// What would become of the hot copies on one tier now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HotPlan {
    /// The tier.
    pub tier: String,
    /// Bytes below its high water.
    pub all: u64,
    /// Of them, left; below zero: so many are too much.
    pub left: i64,
    /// Bytes of all copies, as far as they are known.
    pub copies: u64,
    /// Bytes of copies that would be dropped now.
    pub too_much: u64,
    /// The next to leave, in their order, at most `SHOWN`.
    pub leaving: Vec<Leaving>,
}

/// A copy that is among the next to leave.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaving {
    /// Whose copy it is, if it was opened here.
    pub ino: Option<Ino>,
    /// Where it is on the tier.
    pub key: Key,
    /// Its bytes.
    pub size: u64,
    /// Opens a second.
    pub rate: f64,
}

/// Copies that are told of a tier.
pub const SHOWN: usize = 20;

/// What would become of hot copies now; changes nothing.
pub(crate) fn plan(context: &Context) -> Result<Vec<HotPlan>> {
    let mut plans = Vec::new();
    for (tier, hot) in &context.stores.hot {
        let Some(evictor) = context.evictors.get(tier) else { continue };
        plans.push(evictor.lock().plan(context, *tier, hot)?);
    }
    plans.sort_by(|a, b| a.tier.cmp(&b.tier));
    Ok(plans)
}

/// High and low water, as the config has them now.
fn marks(context: &Context, tier: TierId, hot: &HotTier) -> (f64, f64) {
    let changed = context.marks.read().get(&tier).copied();
    changed.unwrap_or((hot.high_water, hot.low_water))
}

/// Bytes on a tier with hot copies.
struct Room {
    /// Below the high water.
    all: u64,
    /// Of them, not used; below zero: above the high water.
    left: i64,
    /// Between the water marks.
    between: u64,
}

impl Room {
    fn of(resident: &dyn Resident, (high_water, low_water): (f64, f64)) -> Result<Self> {
        let Usage { total, free, .. } = resident.usage()?;
        let used = total.saturating_sub(free);
        let share = |of: f64| (of * total as f64) as u64;
        let (high, low) = (share(high_water), share(low_water));
        let left = i64::try_from(high).unwrap_or(i64::MAX) - i64::try_from(used).unwrap_or(i64::MAX);
        Ok(Self { all: high, left, between: high.saturating_sub(low) })
    }

    /// Bytes of copies that must go.
    fn too_much(&self, space: &Space) -> u64 {
        if self.left < 0 {
            return self.left.unsigned_abs().saturating_add(self.between);
        }
        // What is on its way was admitted in place of others.
        u64::try_from(space.coming() - self.left).unwrap_or(0)
    }
}

fn worth(context: &Context, kept: &Kept, found: &Found) -> Worth {
    let Found { copy, ino, fetch } = found;
    kept.worth(&copy.key, copy.last_use).unwrap_or_else(|| {
        let rate = rate(&context.heat, *ino, copy.last_use, context.clock.wall());
        Worth::Usual(value(rate, copy.size, *fetch))
    })
}

/// Opens a second: as counted here, or as its last use tells if another mount has used it since.
fn rate(heat: &Heat, ino: Option<Ino>, last_use: Timestamp, now: Timestamp) -> f64 {
    let seconds = |from: Timestamp, to: Timestamp| to.0.saturating_sub(from.0).max(0) as f64 / 1e9;
    let elsewhere = 1.0 / seconds(last_use, now).max(TOUCHED_EVERY);
    let Some((ino, (_, opened))) = ino.and_then(|ino| Some((ino, heat.opens(ino)?))) else {
        return elsewhere;
    };
    let here = heat.rate(ino);
    if seconds(opened, last_use) > TOUCHED_EVERY { here.max(elsewhere) } else { here }
}
