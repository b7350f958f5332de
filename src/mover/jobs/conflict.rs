//! What to do when a tier is not as the catalog thought: look, and keep both versions.

use crate::catalog::{Found, Inode, Observation, Observed, Place, Scope, Standing};
use crate::error::{Kind, Result};
use crate::mover::context::Context;
use crate::mover::jobs::Flow;
use crate::mover::jobs::subject::Target;
use crate::mover::status::Counters;
use crate::policy::placement::Conflict;
use crate::tier::{Entry, Object};
use crate::types::{FileKind, Ino, TierId, Timestamp};
use std::sync::Arc;

/// Longest name of a file, in bytes.
const NAME_MAX: usize = 255;

/// Looks at one name on a tier and merges what is there.
pub(crate) async fn look_at(context: &Arc<Context>, place: &Place, name: &[u8]) -> Flow<Observed> {
    let tier = context.tier(place.tier)?;
    let began = context.clock.wall();
    let entry = match tier.head(&place.key.join(name)?).await {
        Ok(object) => Some(Entry { name: name.to_vec(), object }),
        Err(error) if error.kind() == Kind::NotFound => None,
        Err(error) => return Err(error.into()),
    };
    let standing = standing(context, place, name)?;
    let found = entry.iter().map(|entry| Found { entry, standing }).collect();
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
/// belongs to the directory all the same.
pub(crate) fn standing(context: &Context, place: &Place, name: &[u8]) -> Result<Standing> {
    let Some(dir) = place.ino else { return Ok(Standing::Foreign) };
    let Some(path) = context.catalog.path(dir)? else { return Ok(Standing::Foreign) };
    if context.rules().rule(&path.join(name)?).home == place.tier {
        return Ok(Standing::Home);
    }
    let native = context.catalog.native_place(dir, place.tier)?;
    let moved = native.is_none_or(|native| native.id != place.id);
    Ok(if moved { Standing::Elsewhere } else { Standing::Foreign })
}

/// `object` is in the way of `inode` at its home: both are kept, ours under a conflict name.
pub(crate) async fn resolve(
    context: &Arc<Context>,
    inode: &Inode,
    target: &Target,
    object: Object,
) -> Flow<()> {
    let Some(parent) = target.place.ino else { return Ok(()) };
    let files = [inode.attr.kind, object.kind] == [FileKind::Regular; 2];
    if files && rule_says(context, parent, &target.name)? == Conflict::Overwrite {
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
    tracing::warn!(
        key = %target.key, tier = target.tier.name(), kept_as = %String::from_utf8_lossy(&aside),
        "CONFLICT: somebody else changed the file at its home; both versions are kept"
    );
    context.announce(&observed);
    (context.invalidate)(crate::types::Invalidation::Entry { parent, name: target.name.clone() });
    (context.invalidate)(crate::types::Invalidation::Entry { parent, name: aside });
    Ok(())
}

fn rule_says(context: &Context, parent: Ino, name: &[u8]) -> Result<Conflict> {
    let path = context.catalog.path(parent)?;
    let path = path.map(|dir| dir.join(name)).transpose()?;
    Ok(path.map_or(Conflict::KeepBoth, |path| context.rules().rule(&path).conflict))
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

/// `name.conflict-<host>-<UTC time>`, cut so that it is a valid name on every tier.
fn conflict_name(name: &[u8], host: &str, now: Timestamp, attempt: u32) -> Vec<u8> {
    let host: String = host
        .chars()
        .map(|char| if char.is_ascii_alphanumeric() || char == '-' { char } else { '_' })
        .take(64)
        .collect();
    let again = if attempt == 0 { String::new() } else { format!("-{}", attempt + 1) };
    let suffix = format!(".conflict-{host}-{}{again}", utc(now));
    let mut keep = name.len().min(NAME_MAX - suffix.len());
    // Never cut inside a UTF-8 character.
    while keep < name.len() && keep > 0 && name[keep] & 0xc0 == 0x80 {
        keep -= 1;
    }
    [&name[..keep], suffix.as_bytes()].concat()
}

/// `20260131T134500Z`.
fn utc(time: Timestamp) -> String {
    let (seconds, _) = time.parts();
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// Year, month and day of a day counted from 1970-01-01 (proleptic Gregorian calendar; years begin
/// in March, so that the leap day is the last of its year).
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Shorthand for rows that name a tier which is not configured.
pub(crate) fn is_known(context: &Context, tier: TierId) -> bool {
    context.tiers.contains_key(&tier)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_parts(seconds, 0)
    }

    #[test]
    fn times_are_utc() {
        for (seconds, text) in [
            (0, "19700101T000000Z"),
            (951_782_400, "20000229T000000Z"),
            (1_769_867_100, "20260131T134500Z"),
            (-1, "19691231T235959Z"),
            (4_107_542_399, "21000228T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(utc(at(seconds)), text);
        }
    }

    #[test]
    fn conflict_names_are_valid_names() {
        let name = conflict_name(b"a.txt", "gpu 1/\u{c3}", at(0), 0);
        assert_eq!(name, b"a.txt.conflict-gpu_1__-19700101T000000Z");
        let long = "\u{e9}".repeat(127);
        for attempt in 0..3 {
            let name = conflict_name(long.as_bytes(), &"h".repeat(300), at(0), attempt);
            assert!(name.len() <= NAME_MAX && String::from_utf8(name).is_ok());
        }
    }
}
