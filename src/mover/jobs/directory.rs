//! Directories: a marker or a native directory at home, and the prefixes that a rename left behind.
//!
//! A renamed directory goes on owning its old prefix on each tier, so that nothing had to move before the
//! answer. Here its content follows: by one native rename where a tier can do that, else child by child,
//! depth first, with a page of names in memory per level. Each child's key is moved as it is: content that is still
//! staged keeps its own place in the order.

use crate::catalog::{DirEntry, Place, PlaceId, Step};
use crate::error::{Error, Kind, Result};
use crate::failpoint;
use crate::mover::context::Context;
use crate::mover::jobs::commit::{Act, commit, make_parents, resident, where_it_stands};
use crate::mover::jobs::subject::{Subject, Target};
use crate::mover::jobs::{Flow, Halt, attrs, conflict, delete, prefix, reconcile, relocate, tidy};
use crate::tier::{RenameMode, Resident, Special, Tier};
use crate::types::{FileKind, Ino, Key};
use std::collections::HashSet;
use std::sync::Arc;

/// Names in memory per level.
const PAGE: usize = 128;

/// A directory whose content is being moved.
struct Frame {
    dir: Ino,
    after: u64,
    stays: Stays,
    /// The places that it is to leave.
    left: HashSet<PlaceId>,
}

/// Brings the homes of a directory in line, with everything that lies under prefixes it had before.
pub(crate) async fn reconcile(context: &Arc<Context>, subject: &Subject, step: &Step) -> Flow<()> {
    let domain = &step.domain;
    move_whole(context, subject, domain).await?;
    if strays(context, subject.ino())?.is_empty() {
        return settle(context, subject.ino(), &HashSet::new(), domain).await;
    }
    settle_marker(context, subject.ino(), domain).await?;
    let mut stack = vec![open(context, subject.ino(), step).await?];
    // Directories that can't be left yet.
    let mut kept = HashSet::new();
    while let Some(frame) = stack.last_mut() {
        let page = context.catalog.entries(frame.dir, frame.after, PAGE)?;
        let Some(last) = page.last() else {
            let Some(Frame { dir, stays, left, .. }) = stack.pop() else { break };
            if stays == Stays::Nothing {
                settle(context, dir, &left, domain).await?;
                continue;
            }
            kept.insert(dir);
            if let Some(above) = stack.last_mut() {
                above.stays = stays;
            }
            continue;
        };
        frame.after = last.cookie;
        if let Some((resume, child)) = page_of_children(context, page, step, frame, &kept).await? {
            frame.after = resume;
            stack.push(open(context, child, step).await?);
        }
    }
    if kept.is_empty() { Ok(()) } else { Err(Halt::Open) }
}

/// What could not follow its directory yet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stays {
    Nothing,
    /// A file that programs have open where it was.
    OpenFile,
}

/// Moves the files of a page; stops at a directory that has prefixes to leave, with the cookie after which to go on.
async fn page_of_children(
    context: &Arc<Context>,
    page: Vec<DirEntry>,
    step: &Step,
    frame: &mut Frame,
    kept: &HashSet<Ino>,
) -> Flow<Option<(u64, Ino)>> {
    let domain = &step.domain;
    for entry in page {
        let ino = entry.inode.attr.ino;
        if entry.inode.attr.kind != FileKind::Directory {
            match reconcile::follow(context, ino, step).await {
                Err(Halt::Open) => frame.stays = Stays::OpenFile,
                other => other?,
            }
        } else if kept.contains(&ino) {
            // It was looked at a moment ago.
        } else if strays(context, ino)?.is_empty() {
            // It may have nothing where it was but its marker, and is to be made where it is now.
            settle(context, ino, &HashSet::new(), domain).await?;
        } else {
            settle_marker(context, ino, domain).await?;
            // Another name may have the same cookie: what is done already is cheap to look at again.
            return Ok(Some((entry.cookie - 1, ino)));
        }
    }
    Ok(None)
}

/// Begins with a directory: names that nobody has listed yet, or that others made since, are imported, so that they come along.
async fn open(context: &Arc<Context>, dir: Ino, step: &Step) -> Flow<Frame> {
    let is_first_try = step.attempts == 0;
    let strays = strays(context, dir)?;
    for place in strays.iter().filter(|place| is_first_try || !place.listed) {
        prefix::import(context, place).await?;
    }
    let left = strays.iter().map(|place| place.id).collect();
    Ok(Frame { dir, after: 0, stays: Stays::Nothing, left })
}

/// Places of `dir` that it should not have: not native, or on a tier that can't be home of anything in it.
pub(crate) fn strays(context: &Context, dir: Ino) -> Result<Vec<Place>> {
    let Some(path) = context.catalog.path(dir)? else { return Ok(Vec::new()) };
    let wanted = context.rules().tiers_under(&path);
    let mut strays = Vec::new();
    for place in context.catalog.places(dir)?.iter() {
        let native = context.catalog.native_place(dir, place.tier)?;
        let is_native = native.is_some_and(|native| native.id == place.id);
        if conflict::is_known(context, place.tier) && !(is_native && wanted.contains(&place.tier)) {
            strays.push(place.clone());
        }
    }
    Ok(strays)
}

/// One native rename per directory tier that may hold the directory, where nothing is in the way.
async fn move_whole(context: &Arc<Context>, subject: &Subject, domain: &str) -> Flow<()> {
    let Some(name) = subject.names.first() else { return Ok(()) };
    let wanted = context.rules().tiers_under(&name.path);
    for place in strays(context, subject.ino())? {
        let tier = context.tier(place.tier)?;
        if tier.resident().is_none() || !wanted.contains(&place.tier) {
            continue;
        }
        let parent = prefix::native(context, name.parent, place.tier, domain).await?;
        if context.catalog.native_place(subject.ino(), place.tier)?.is_some() {
            continue;
        }
        let (on, to, name) = (parent.tier, parent.key.join(&name.name)?, name.name.clone());
        let rename = move |context: &Context| {
            let resident = resident(tier.as_ref())?;
            if !context.catalog.stands(&place)? || !context.catalog.stands(&parent)? {
                return Ok(());
            }
            make_parents(resident, &to)?;
            match resident.rename(&place.key, &to, RenameMode::NoReplace) {
                // Done by an earlier try, or never made natively.
                Err(error) if error.kind() == Kind::NotFound => {}
                Err(error) if error.kind() == Kind::Exists => return Ok(()),
                other => other?,
            }
            failpoint::pass("directory_moved_not_recorded");
            context.catalog.move_place(place.id, parent.id, &name)
        };
        context.blocking(move |context| context.names_move(on, || rename(context))).await?;
    }
    Ok(())
}

/// The directory itself: its marker or native directory at home, and nothing under the keys that it `left`. Where a rename has made it leave
/// another since, what lies there has not followed it yet.
pub(crate) async fn settle(
    context: &Arc<Context>,
    dir: Ino,
    left: &HashSet<PlaceId>,
    domain: &str,
) -> Flow<()> {
    settle_marker(context, dir, domain).await?;
    for place in strays(context, dir)? {
        if !left.contains(&place.id) {
            return Err(Halt::Again);
        }
        let tier = context.tier(place.tier)?;
        if tier.resident().is_some() {
            clear(context, dir, &place, domain).await?;
            let left = place.clone();
            let gone = context.blocking(move |context| leave(context, tier.as_ref(), &left)).await;
            if gone.as_ref().is_err_and(|error| error.kind() == Kind::Busy) {
                prefix::import(context, &place).await?;
            }
            gone?;
        }
        // Keys in it on other tiers that were deleted meanwhile wait for their own steps.
        context.catalog.give_up_place(place.id)?;
    }
    tidy::leftovers(context, dir, domain).await
}

/// What lost its name while it lay in a native directory goes with that, and a file that a rename took out of it goes aside: the directory waits
/// for both, and their own steps come later in the order.
async fn clear(context: &Arc<Context>, dir: Ino, place: &Place, domain: &str) -> Flow<()> {
    let (tier, mut from) = (context.tier(place.tier)?, None);
    loop {
        let (tier, key) = (Arc::clone(&tier), place.key.clone());
        let list = move |_: &Context| delete::left(resident(tier.as_ref())?.read_directory(&key, from, PAGE));
        let Some(page) = context.blocking(list).await? else { return Ok(()) };
        for entry in &page.entries {
            delete::delete_key(context, place.id, &entry.name).await?;
            put_aside(context, dir, place, &entry.name, domain).await?;
        }
        match page.next {
            None => return Ok(()),
            next => from = next,
        }
    }
}

async fn put_aside(context: &Arc<Context>, dir: Ino, place: &Place, name: &[u8], domain: &str) -> Flow<()> {
    let Some(row) = context.catalog.replica_at(place.id, name)? else { return Ok(()) };
    let Some(file) = row.ino else { return Ok(()) };
    let is_here = context.catalog.lookup(dir, name)?.is_some_and(|inode| inode.attr.ino == file);
    if is_here || row.generation.0 == 0 || row.version.is_none() {
        return Ok(());
    }
    relocate::evacuate(context, file, &row, domain).await?;
    let _turn = context.inodes.take(&file).map_err(|_busy| Halt::Again)?;
    tidy::leftovers(context, file, domain).await
}

/// Removes the native directory at a place that is left, unless a rename has put another there.
fn leave(context: &Context, tier: &dyn Tier, place: &Place) -> Result<()> {
    context.names_stand(place.tier, || {
        if context.catalog.stands(place)? { remove_empty(resident(tier)?.rmdir(&place.key)) } else { Ok(()) }
    })
}

fn remove_empty(result: Result<()>) -> Result<()> {
    match delete::left(result) {
        // Made there by another program since it was listed: it is imported, and follows.
        Err(error) if error.kind() == Kind::NotEmpty => {
            Err(Error::new(Kind::Busy, "a directory that was moved away has new entries").with_source(error))
        }
        other => other.map(|_| ()),
    }
}

/// Makes the directory known at its home.
async fn settle_marker(context: &Arc<Context>, dir: Ino, domain: &str) -> Flow<()> {
    let Some(subject) = Subject::look(context, dir)? else { return Ok(()) };
    let Some(name) = subject.names.first() else { return Ok(()) };
    let mut target = name.target(context, domain).await?;
    if target.tier.resident().is_some() {
        clear_files(context, dir, &target, domain).await?;
    }
    let lock = (target.place.tier, target.key.clone());
    let _turn = context.keys.take(&lock).map_err(|_busy| Halt::Again)?;
    relocate::make_way(context, dir, &mut target, domain).await?;
    if target.tier.resident().is_some() {
        return make_native(context, &subject, &target, domain).await;
    }
    let inode = &subject.inode;
    if !target.holds_content(inode) {
        let act = Act::Special(Special::Directory);
        return reconcile::catalog_supplies(commit(context, inode, inode.generation, &target, act).await);
    }
    if !target.holds_attributes(inode) {
        return reconcile::attributes(context, &subject, &target).await;
    }
    Ok(())
}

/// A file that had the name may lie there until its own step, which can be later in the order, takes it away.
async fn clear_files(context: &Arc<Context>, dir: Ino, target: &Target, domain: &str) -> Flow<()> {
    match target.row.as_ref().map(|row| row.ino) {
        Some(Some(file)) if file != dir => {
            let _turn = context.inodes.take(&file).map_err(|_busy| Halt::Again)?;
            tidy::leftovers(context, file, domain).await
        }
        Some(None) => delete::delete_key(context, target.place.id, &target.name).await,
        _ => Ok(()),
    }
}

fn is_directory(resident: &dyn Resident, key: &Key) -> Result<()> {
    if resident.stat(key)?.kind == FileKind::Directory {
        return Ok(());
    }
    Err(Error::new(Kind::Busy, format!("{key} must make way for a directory")))
}

/// A real directory has no row but its place.
async fn make_native(context: &Arc<Context>, subject: &Subject, target: &Target, domain: &str) -> Flow<()> {
    prefix::native(context, subject.ino(), target.place.tier, domain).await?;
    let inode = subject.inode.clone();
    where_it_stands(context, target, move |context, resident, key| {
        make_parents(resident, key)?;
        match resident.mkdir(key, inode.attr.mode) {
            Err(error) if error.kind() == Kind::Exists => is_directory(resident, key)?,
            other => other?,
        }
        attrs::apply(context, &inode, resident, key)
    })
    .await
}
