//! Commits a closed generation in its place, though its file has newer ones: what was closed after it may speak of it.

use crate::catalog::{Replica, Step};
use crate::error::{Kind, found};
use crate::mover::context::Context;
use crate::mover::jobs::commit::commit;
use crate::mover::jobs::subject::{Subject, Target};
use crate::mover::jobs::{Flow, Halt, partial, relocate, upload};
use crate::mover::status::Counters;
use crate::types::{Generation, Ino};
use std::sync::Arc;

/// Looks at a changing file at most so often before others get their turn.
const ROUNDS: usize = 8;

/// Does the step; answers the bytes that reached home.
pub(crate) async fn run(context: &Arc<Context>, step: &Step, ino: Ino, generation: Generation) -> Flow<u64> {
    let _turn = context.inodes.take(&ino).map_err(|_busy| Halt::Again)?;
    for _ in 0..ROUNDS {
        let sent = match Subject::look(context, ino)? {
            Some(subject) => round(context, step, &subject, generation).await,
            // Deleted: its steps went with its names, or have other things to do.
            None => Ok(0),
        };
        match sent {
            Ok(bytes) => return end(context, step).await.map(|()| bytes),
            Err(Halt::Again) => {}
            Err(other) => return Err(other),
        }
    }
    Err(Halt::Again)
}

async fn round(context: &Arc<Context>, step: &Step, subject: &Subject, generation: Generation) -> Flow<u64> {
    if relocate::learn(context, subject).await? {
        return Err(Halt::Again);
    }
    let is_it = |replica: &&Replica| replica.staged && replica.generation == generation;
    let Some(source) = subject.replicas.iter().find(is_it).cloned() else { return Ok(0) };
    let mut bytes = 0;
    for name in &subject.names {
        let mut target = name.target(context, &step.domain).await?;
        // Where files are written in place nobody has waited for a commit.
        if target.tier.resident().is_none() {
            bytes += bring(context, subject, &source, &mut target, &step.domain).await?;
        }
    }
    Ok(bytes)
}

async fn bring(
    context: &Arc<Context>,
    subject: &Subject,
    source: &Replica,
    target: &mut Target,
    domain: &str,
) -> Flow<u64> {
    let lock = (target.place.tier, target.key.clone());
    let _turn = context.keys.take(&lock).map_err(|_busy| Halt::Again)?;
    relocate::make_way(context, subject.ino(), target, domain).await?;
    let has_it = target.row.as_ref().is_some_and(|row| {
        row.ino == Some(subject.ino()) && row.generation >= source.generation && row.version.is_some()
    });
    if has_it {
        return Ok(0);
    }
    let sealed = Arc::new(upload::seal(context, source).await?);
    let act = match upload::send(context, &sealed, target).await {
        Err(Halt::Failed(error)) if error.kind() == Kind::Stale => return Err(partial::blocked(error)),
        act => act?,
    };
    upload::may_show(context, &sealed, subject.ino(), target).await?;
    commit(context, &subject.inode, source.generation, target, act).await?;
    Counters::add(&context.counters.committed_files, 1);
    Counters::add(&context.counters.committed_bytes, sealed.size);
    Ok(sealed.size)
}

/// Home has it: the row goes, then the bytes. A step that is another by now is done as that.
pub(super) async fn end(context: &Arc<Context>, step: &Step) -> Flow<()> {
    let done = step.clone();
    let end = move |context: &Context| match context.catalog.preserved_done(&done)? {
        Some(row) => found(context.stores.remove_staged(&row)).map(drop),
        None => Ok(()),
    };
    context.blocking(end).await?;
    if super::fresh(context, step.seq)?.is_some() { Err(Halt::Again) } else { Ok(()) }
}
