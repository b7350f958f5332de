//! Prefixes of tiers: whose they are, what nobody has listed in them yet, and how one directory gets a
//! prefix that another still has (two directories that swapped names).

use crate::catalog::{Found, Observation, Observed, Place, Scope};
use crate::error::{Kind, Result};
use crate::mover::context::Context;
use crate::mover::jobs::{Flow, Halt, conflict};
use crate::tier::{Page, Tier};
use crate::types::{Ino, TierId, Timestamp};
use std::sync::Arc;

/// Names asked of a tier at a time.
const LIST: usize = 1000;

/// Levels of one path that can be in the way.
const LEVELS: usize = 64;

/// The native place of `dir` on `tier`. A prefix on the way that another directory left by a rename, but still owns, is handed over:
/// its keys stay with their files until their directory's own step moves them.
pub(crate) async fn native(context: &Arc<Context>, dir: Ino, tier: TierId, domain: &str) -> Flow<Place> {
    for _ in 0..LEVELS {
        match context.catalog.ensure_place(dir, tier) {
            Err(error) if error.kind() == Kind::Busy => {
                let Some((place, heir)) = context.catalog.place_in_the_way(dir, tier)? else {
                    return Err(Halt::Again);
                };
                hand_over(context, &place, heir, domain).await?;
            }
            other => return Ok(other?),
        }
    }
    Err(Halt::Again)
}

async fn hand_over(context: &Arc<Context>, place: &Place, heir: Ino, domain: &str) -> Flow<()> {
    let Some(owner) = place.ino else { return Ok(()) };
    let _turn = context.inodes.take(&owner).map_err(|_busy| Halt::Again)?;
    // What others have put there since it was listed is its owner's too.
    import(context, place).await?;
    context.catalog.hand_over_place(place.id, heir, domain)?;
    Ok(())
}

/// Takes in every name under a prefix.
pub(crate) async fn import(context: &Arc<Context>, place: &Place) -> Flow<()> {
    let tier = context.tier(place.tier)?;
    let mut from = None;
    loop {
        let began = context.clock.wall();
        let page = match tier.list(&place.key, b"", from, LIST).await {
            Ok(page) => page,
            Err(error) if matches!(error.kind(), Kind::NotFound | Kind::NotDirectory) => {
                return if context.catalog.stands(place)? { Ok(()) } else { Err(Halt::Again) };
            }
            Err(error) => return Err(error.into()),
        };
        let next = page.next.clone();
        let (tier, place) = (Arc::clone(&tier), place.clone());
        let observe = move |context: &Context| {
            // What lies under its old key is another directory's once it has moved.
            context.names_stand(place.tier, || match context.catalog.stands(&place)? {
                true => observe(context, tier.as_ref(), &place, &page, began).map(Some),
                false => Ok(None),
            })
        };
        let observed = context.blocking(observe).await?.ok_or(Halt::Again)?;
        context.announce(&observed);
        match next {
            Some(next) => from = Some(next),
            None => return Ok(()),
        }
    }
}

fn observe(
    context: &Context,
    tier: &dyn Tier,
    place: &Place,
    page: &Page,
    began: Timestamp,
) -> Result<Observed> {
    let found = page
        .entries
        .iter()
        .map(|entry| Ok(Found { entry, standing: conflict::standing(context, place, entry)? }))
        .collect::<Result<Vec<_>>>()?;
    context.catalog.observe(&Observation {
        place: place.id,
        began,
        found,
        scope: Scope::Found,
        defaults: context.defaults,
        holds_owner_and_mode: tier.capabilities().owner_and_mode,
        markers: tier.resident().is_none(),
    })
}
