//! What is left over once the homes are in line: keys of old names, and staged bytes.

use crate::catalog::{Content, Inode, Replica, WriteState, Writers};
use crate::data::lease;
use crate::error::{Error, Kind, Result, found};
use crate::failpoint;
use crate::mover::context::Context;
use crate::mover::jobs::subject::Subject;
use crate::mover::jobs::{Flow, Halt, conflict, delete, relocate, resident};
use crate::tier::Access;
use crate::types::{FileKind, Ino, Invalidation, TierId, Timestamp};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

/// Deletes the keys that no name of `ino` wants any more. The row goes first: after a crash the delete step goes on.
pub(crate) async fn leftovers(context: &Arc<Context>, ino: Ino, domain: &str) -> Flow<()> {
    let Some(names) = found(context.catalog.names(ino))? else { return Ok(()) };
    let Some(subject) = Subject::look(context, ino)? else { return Ok(()) };
    for stray in relocate::strays(context, &subject)? {
        let writers = in_use(context, &subject, &stray).await?;
        match context.catalog.doom(&stray, &names, subject.inode.whereabouts().away, writers, domain) {
            // What no home can hold (a fifo on Blob) stays where it is.
            Err(error) if error.kind() == Kind::Busy => continue,
            // A rename made it what it should be, or gave the key to another file.
            Err(error) if matches!(error.kind(), Kind::Changed | Kind::NotFound) => return Err(Halt::Again),
            other => other?,
        }
        failpoint::pass("doomed_not_deleted");
        let _piece = context.tier(stray.tier)?.begin_piece(0).await;
        delete::delete_key(context, stray.place, &stray.name).await?;
    }
    Ok(())
}

/// What is known of where the file was sent is brought in line with where it is: it is there, or at home again.
pub(crate) fn whereabouts(context: &Context, ino: Ino) -> Flow<()> {
    let Some(subject) = Subject::look(context, ino)? else { return Ok(()) };
    let Some(away) = subject.inode.away else { return Ok(()) };
    let is_settled =
        subject.inode.state == WriteState::Clean && relocate::strays(context, &subject)?.is_empty();
    if is_settled && subject.names.iter().any(|name| name.is_away) {
        context.catalog.is_away(ino)?;
    } else if is_settled {
        context.catalog.is_home(ino, away)?;
    }
    Ok(())
}

/// The newest generation is at home: its staged file becomes the hot copy, or goes. While a program
/// has it open it stays, because the kernel may know that very file; the last close queues this again.
pub(crate) async fn staged(context: &Arc<Context>, ino: Ino, domain: &str) -> Flow<()> {
    let Some(subject) = Subject::look(context, ino)? else { return Ok(()) };
    if subject.inode.state != WriteState::Clean || (context.is_open)(ino) {
        return Ok(());
    }
    for replica in subject.replicas.iter().filter(|replica| replica.staged) {
        let home = home_copy(&subject, replica.tier);
        let (inode, replica, domain) = (subject.inode.clone(), replica.clone(), domain.to_owned());
        let newest = replica.generation == inode.generation;
        let end = context
            .blocking(move |context| {
                let act = || {
                    if (context.is_open)(ino) {
                        return Ok(NotYet::Later);
                    }
                    if newest && let Some(reason) = not_yet(context, &inode, &replica, &domain)? {
                        return Ok(reason);
                    }
                    release(context, &replica, home.as_ref()).map(|()| NotYet::Never)
                };
                context.unwritten(ino, act).unwrap_or(Ok(NotYet::Later))
            })
            .await?;
        if end == NotYet::Soon {
            return Err(Halt::Again);
        }
    }
    Ok(())
}

/// A native copy that must go while programs work on it stays, and so does one with bytes that no copy elsewhere has: what they
/// wrote would go with it.
async fn in_use(context: &Arc<Context>, subject: &Subject, stray: &Replica) -> Flow<Writers> {
    let tier = context.tier(stray.tier)?;
    let ino = subject.ino();
    let newest = stray.generation == subject.inode.generation;
    if !newest || tier.resident().is_none() || subject.inode.attr.kind != FileKind::Regular {
        return Ok(Writers::Maybe);
    }
    if (context.is_open)(ino) {
        return Err(Halt::Open);
    }
    let key = stray.key.clone();
    let look = move |_: &Context| {
        let resident = resident(tier.as_ref())?;
        let file = match found(resident.open(&key, Access::Read)) {
            // A directory was made where the file was.
            Err(error) if error.kind() == Kind::IsDirectory => None,
            file => file?,
        };
        let Some(file) = file else { return Ok((false, None)) };
        Ok((has_writers(&file)?, Some(resident.stat_open(&file)?.version)))
    };
    let (written, version) = context.blocking(look).await?;
    if written {
        let text = format!("{} is still open or mapped for writing", stray.key);
        return Err(Error::new(Kind::Busy, text).into());
    }
    // One file with several names is in another version with each name that comes or goes.
    let is_shared = subject.replicas.iter().any(|other| {
        (other.tier, other.native_ino) == (stray.tier, stray.native_ino) && other.key != stray.key
    });
    let changed = version.is_some() && version != stray.version;
    if changed && !is_shared && subject.inode.state == WriteState::Clean {
        conflict::look_at(context, &context.catalog.place(stray.place)?, &stray.name).await?;
        return Err(Halt::Again);
    }
    Ok(Writers::None)
}

/// Where the kernel can't say, nobody can.
fn has_writers(file: &File) -> Result<bool> {
    match lease::no_writers(file) {
        Err(error) if matches!(error.kind(), Kind::Unsupported | Kind::Denied) => Ok(false),
        answer => answer.map(|free| !free),
    }
}

/// Why a staged file stays though its content is at home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotYet {
    /// It does not.
    Never,
    /// Whoever had it open is about to let go.
    Soon,
    /// Somebody has it mapped, or it has changed since: another look, or another commit, is to come.
    Later,
}

/// How long descriptors of a file that was just closed may live on inside the kernel and this daemon.
const LETTING_GO: Duration = Duration::from_millis(500);

/// A mapping outlives the close of a file that the kernel passes through: as long as there may be one, the staged file stays; what it
/// changed after the commit is a new generation.
fn not_yet(context: &Context, inode: &Inode, staged: &Replica, domain: &str) -> Result<Option<NotYet>> {
    let ino = inode.attr.ino;
    let tier = context.tier(staged.tier)?;
    let resident = resident(tier.as_ref())?;
    let Some(file) = found(resident.open(&staged.key, Access::Read))? else { return Ok(None) };
    if has_writers(&file)? {
        let now = context.clock.wall();
        let since = *context.mapped.lock().entry(ino).or_insert(now);
        let soon = now.0.saturating_sub(since.0) < i64::try_from(LETTING_GO.as_nanos()).unwrap_or(i64::MAX);
        return Ok(Some(if soon { NotYet::Soon } else { NotYet::Later }));
    }
    context.mapped.lock().remove(&ino);
    let metadata = file.metadata()?;
    let content = Content {
        size: metadata.size(),
        blocks: metadata.blocks(),
        mtime: Timestamp::from_parts(metadata.mtime(), metadata.mtime_nsec()),
        ctime: context.clock.wall(),
    };
    let known = context.sealed.lock().remove(&ino).filter(|(generation, _)| *generation == inode.generation);
    let same = match known {
        Some((_, version)) => resident.stat_open(&file)?.version == version,
        // Sealed by an earlier daemon.
        None => (content.size, content.mtime) == (inode.attr.size, inode.attr.mtime),
    };
    if same || !context.catalog.changed_after_commit(ino, inode.generation, content, domain)? {
        return Ok(None);
    }
    tracing::info!(key = %staged.key, "changed through a mapping after its commit: it is committed again");
    (context.invalidate)(Invalidation::Inode(ino));
    Ok(Some(NotYet::Later))
}

/// Looks again at files that were mapped; each has a step then.
pub(crate) fn look_at_mapped(context: &Context) -> Result<()> {
    let mapped: Vec<Ino> = context.mapped.lock().keys().copied().collect();
    for ino in mapped {
        let Some(path) =
            found(context.catalog.inode(ino))?.and_then(|_| context.catalog.path(ino).transpose())
        else {
            context.mapped.lock().remove(&ino);
            continue;
        };
        context.catalog.queue(ino, &context.domain(ino, &path?)?)?;
    }
    Ok(())
}

/// The copy at home that the staged file on `stage` may stand in for as a hot copy, if a rule wants that.
fn home_copy(subject: &Subject, stage: TierId) -> Option<Replica> {
    subject.names.iter().filter(|name| name.home != stage && name.hot.contains(&stage)).find_map(|name| {
        subject
            .replicas
            .iter()
            .find(|replica| {
                !replica.staged
                    && replica.tier == name.home
                    && replica.name == name.name
                    && replica.generation == subject.inode.generation
                    && replica.version.is_some()
            })
            .cloned()
    })
}

fn release(context: &Context, staged: &Replica, home: Option<&Replica>) -> Result<()> {
    match context.catalog.drop_replica(staged.place, &staged.name) {
        Ok(_) => {}
        // Opened for writing meanwhile: the same file holds the next generation now.
        Err(error) if matches!(error.kind(), Kind::Busy | Kind::NotFound) => return Ok(()),
        Err(error) => return Err(error),
    }
    failpoint::pass("row_dropped_bytes_left");
    let hot = match home {
        Some(home) => context.stores.adopt(context, staged, home),
        None => Ok(false),
    };
    match hot {
        Ok(true) => Ok(()),
        Ok(false) => context.stores.remove_staged(staged),
        Err(error) => {
            tracing::debug!(%error, key = %staged.key, "a staged file could not become a hot copy");
            context.stores.remove_staged(staged)
        }
    }
}
