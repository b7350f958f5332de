//! What to do when a tier is not as the catalog thought: look, and keep both versions.

use crate::catalog::{Found, Inode, Observation, Observed, Place, Scope, Standing, WriteState};
use crate::error::{Result, found};
use crate::mover::context::Context;
use crate::mover::jobs::commit::resident;
use crate::mover::jobs::subject::Target;
use crate::mover::jobs::{Flow, same};
use crate::mover::status::Counters;
use crate::policy::aside::conflict_name;
use crate::policy::placement::{Conflict, Role, Subject};
use crate::tier::{Entry, Object};
use crate::types::{FileKind, Ino, TierId, Timestamp};
use std::sync::Arc;

/// Looks at one name on a tier and merges what is there.
pub(crate) async fn look_at(context: &Arc<Context>, place: &Place, name: &[u8]) -> Flow<Observed> {
    let tier = context.tier(place.tier)?;
    if tier.resident().is_some() {
        let (place, name) = (place.clone(), name.to_vec());
        return Ok(context.blocking(move |context| look_at_native(context, &place, &name)).await?);
    }
    let began = context.clock.wall();
    let object = found(tier.head(&place.key.join(name)?).await)?;
    Ok(merge(context, place, name, object, began)?)
}

/// The same on a directory tier: while no rename takes the directory elsewhere, for what is not under its old key is not gone.
fn look_at_native(context: &Context, place: &Place, name: &[u8]) -> Result<Observed> {
    let tier = context.tier(place.tier)?;
    let resident = resident(tier.as_ref())?;
    context.names_stand(place.tier, || {
        let began = context.clock.wall();
        let Some(place) = found(context.catalog.place(place.id))? else { return Ok(Observed::default()) };
        let object = found(resident.stat(&place.key.join(name)?))?;
        merge(context, &place, name, object, began)
    })
}

fn merge(
    context: &Context,
    place: &Place,
    name: &[u8],
    object: Option<Object>,
    began: Timestamp,
) -> Result<Observed> {
    let tier = context.tier(place.tier)?;
    let entry = object.map(|object| Entry { name: name.to_vec(), object });
    let standing = |entry| standing(context, place, entry).map(|standing| Found { entry, standing });
    let found = entry.iter().map(standing).collect::<Result<_>>()?;
    let observed = context.catalog.observe(&Observation {
        place: place.id,
        began,
        found,
        scope: Scope::Name(name),
        defaults: context.defaults,
        holds_owner_and_mode: tier.capabilities().owner_and_mode,
        markers: tier.resident().is_none(),
    })?;
    context.announce(&observed);
    Ok(observed)
}

/// How a name found at `place` relates to the rules. What lies under a prefix that was renamed and not moved yet
/// belongs to the directory all the same, and so does what has not left the home that former rules gave it.
pub(crate) fn standing(context: &Context, place: &Place, entry: &Entry) -> Result<Standing> {
    let Some(dir) = place.ino else { return Ok(Standing::Foreign) };
    let Some(above) = context.catalog.path(dir)? else { return Ok(Standing::Foreign) };
    let (rules, path) = (context.rules(), above.join(&entry.name)?);
    let subject = Subject::new(&path, context.defaults.ids_of(&entry.object));
    match rules.role(entry.object.kind, subject, place.tier) {
        Role::Home => return Ok(Standing::Home),
        Role::Cold => return Ok(Standing::Cold),
        Role::Overflow => return Ok(Standing::Overflow),
        Role::Former => return Ok(Standing::Elsewhere),
        Role::None => {}
    }
    let is_left = context.catalog.is_left(place, &rules.tiers_under(&above))?;
    Ok(if is_left { Standing::Elsewhere } else { Standing::Foreign })
}

/// `object` is in the way of `inode` at its home: both are kept, ours under a conflict name.
pub(crate) async fn resolve(
    context: &Arc<Context>,
    inode: &Inode,
    target: &Target,
    object: Object,
) -> Flow<()> {
    let Some(parent) = target.place.ino else { return Ok(()) };
    if inode.away.is_some_and(|away| away.lives_on() == Some(target.place.tier))
        && is_at_home(context, inode, target)?
    {
        tracing::warn!(
            key = %target.key, tier = target.tier.name(),
            "somebody else's file is where an unused one should go; that stays at home"
        );
        context.catalog.come_home(inode.attr.ino)?;
        return Ok(());
    }
    if same::adopt(context, inode, target, &object).await? {
        return Ok(());
    }
    let files = [inode.attr.kind, object.kind] == [FileKind::Regular; 2];
    if files && rule_says(context, inode, parent, &target.name)? == Conflict::Overwrite {
        tracing::warn!(
            key = %target.key, tier = target.tier.name(),
            "somebody else changed the file at its home; it is overwritten, as its rule says"
        );
        return Ok(context.catalog.overwrite(
            inode.attr.ino,
            target.place.id,
            &target.name,
            &object.version,
        )?);
    }
    let aside = free_name(context, target, context.clock.wall())?;
    let entry = Entry { name: target.name.clone(), object };
    let observed = context.catalog.set_aside(
        inode.attr.ino,
        parent,
        &target.name,
        &aside,
        target.place.id,
        Some(&entry),
        context.defaults,
    )?;
    Counters::add(&context.counters.conflicts, 1);
    context.counters.note_conflict(inode.attr.ino);
    tracing::warn!(
        key = %target.key, tier = target.tier.name(), kept_as = %String::from_utf8_lossy(&aside),
        "CONFLICT: somebody else changed the file at its home; both versions are kept"
    );
    context.announce(&observed);
    (context.invalidate)(crate::types::Invalidation::Entry { parent, name: target.name.clone() });
    (context.invalidate)(crate::types::Invalidation::Entry { parent, name: aside });
    Ok(())
}

/// Whether the newest bytes lie on another tier, so that nothing need be done where the target is.
fn is_at_home(context: &Context, inode: &Inode, target: &Target) -> Result<bool> {
    let replicas = context.catalog.replicas(inode.attr.ino)?;
    Ok(inode.state == WriteState::Clean
        && replicas.iter().any(|replica| {
            replica.tier != target.place.tier
                && !replica.staged
                && replica.generation == inode.generation
                && replica.version.is_some()
        }))
}

fn rule_says(context: &Context, inode: &Inode, parent: Ino, name: &[u8]) -> Result<Conflict> {
    let path = context.catalog.path(parent)?;
    let path = path.map(|dir| dir.join(name)).transpose()?;
    Ok(path.map_or(Conflict::KeepBoth, |path| context.rule(&path, inode.attr.ids()).conflict))
}

fn free_name(context: &Context, target: &Target, now: Timestamp) -> Result<Vec<u8>> {
    let parent = target.place.ino;
    let mut attempt = 0_u32;
    loop {
        let name = conflict_name(&target.name, &context.host, now, attempt);
        let taken = match parent {
            Some(parent) => context.catalog.lookup(parent, &name)?.is_some(),
            None => false,
        };
        if !taken {
            return Ok(name);
        }
        attempt += 1;
    }
}

/// Shorthand for rows that name a tier which is not configured.
pub(crate) fn is_known(context: &Context, tier: TierId) -> bool {
    context.tiers.contains_key(&tier)
}
