//! What is left over once the homes are in line: keys of old names, and staged bytes.

use crate::catalog::{Replica, WriteState};
use crate::error::{Kind, Result};
use crate::failpoint;
use crate::mover::context::Context;
use crate::mover::jobs::subject::Subject;
use crate::mover::jobs::{Flow, delete, relocate};
use crate::types::{Ino, TierId};
use std::sync::Arc;

/// Deletes the keys that no name of `ino` wants any more. The row goes first: after a crash the delete step goes on.
pub(crate) async fn leftovers(context: &Arc<Context>, ino: Ino, domain: &str) -> Flow<()> {
    let Some(subject) = Subject::look(context, ino)? else { return Ok(()) };
    for stray in relocate::strays(context, &subject)? {
        match context.catalog.doom(stray.place, &stray.name, domain) {
            // What no home can hold (a fifo on Blob) stays where it is.
            Err(error) if error.kind() == Kind::Busy => continue,
            other => other?,
        }
        failpoint::pass("doomed_not_deleted");
        delete::delete_key(context, stray.place, &stray.name).await?;
    }
    Ok(())
}

/// The newest generation is at home: its staged file becomes the hot copy, or goes. While a program
/// has it open it stays, because the kernel may know that very file; the last close queues this again.
pub(crate) async fn staged(context: &Arc<Context>, ino: Ino) -> Flow<()> {
    let Some(subject) = Subject::look(context, ino)? else { return Ok(()) };
    if subject.inode.state != WriteState::Clean || (context.is_open)(ino) {
        return Ok(());
    }
    for replica in subject.replicas.iter().filter(|replica| replica.staged) {
        let home = home_copy(&subject, replica.tier);
        let replica = replica.clone();
        context.blocking(move |context| release(context, &replica, home.as_ref())).await?;
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
