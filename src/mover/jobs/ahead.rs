//! Bytes that are sent before it is the turn of their step to be visible: blocks without a Block List. Orders then cost one request
//! a file, whatever its size.

use crate::catalog::{Replica, StepKind};
use crate::error::Kind;
use crate::mover::context::Context;
use crate::mover::jobs::commit::Act;
use crate::mover::jobs::reconcile::is_open;
use crate::mover::jobs::subject::{Subject, Target};
use crate::mover::jobs::upload::{self, Sealed};
use crate::mover::jobs::{Ended, Flow, Halt, Part, fresh};
use crate::mover::queue::{Item, Verdict};
use crate::tier::Upload;
use crate::types::{Key, Seq, TierId};
use std::sync::Arc;

/// What was sent for a step.
pub(crate) struct Sent {
    source: Key,
    target: (TierId, Key),
    pub(crate) sealed: Arc<Sealed>,
    upload: Arc<dyn Upload>,
    blocks: u64,
}

impl Sent {
    pub(crate) fn act(&self) -> Act {
        Act::Upload { upload: Arc::clone(&self.upload), blocks: self.blocks }
    }
}

/// Sends what the step of `item` will show. Best effort: what fails is done in the step's turn, which says why.
pub(crate) async fn run(context: Arc<Context>, item: Item) -> Ended {
    match send(&context, item.seq).await {
        Ok(()) | Err(Halt::Again | Halt::Open | Halt::Reopened | Halt::NotBefore(_)) => {}
        Err(Halt::Failed(error)) => {
            tracing::debug!(seq = item.seq.0, %error, "bytes could not be sent ahead");
        }
    }
    Ended { part: Part::Ahead, ..Ended::new(&item, Verdict::Done) }
}

async fn send(context: &Arc<Context>, seq: Seq) -> Flow<()> {
    let Some(step) = fresh(context, seq)? else { return Ok(()) };
    let StepKind::Reconcile(ino) = step.what else { return Ok(()) };
    let _turn = context.inodes.take(&ino).map_err(|_busy| Halt::Again)?;
    let Some(subject) = Subject::look(context, ino)? else { return Ok(()) };
    let [name] = &subject.names[..] else { return Ok(()) };
    // An earlier generation is to be committed under the same key, which drops all blocks that it does not name.
    let is_preserved = |replica: &Replica| replica.staged && replica.generation < subject.inode.generation;
    if is_open(&subject) || subject.replicas.iter().any(is_preserved) {
        return Ok(());
    }
    let target = name.target(context, &step.domain).await?;
    if context.catalog.has_replaced(target.place.id, &target.name)? {
        return Ok(());
    }
    let source = subject.sources(context, target.place.tier).into_iter().find(|source| source.staged);
    let Some(source) = source.filter(|_| target.tier.resident().is_none()) else { return Ok(()) };
    let sealed = Arc::new(upload::seal(context, &source).await?);
    let upload: Arc<dyn Upload> = match target.tier.upload(&target.key, sealed.size).await {
        Ok(upload) => upload.into(),
        Err(error) if error.kind() == Kind::Unsupported => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let blocks = upload::send_blocks(context, &sealed, &target, &upload).await?;
    let sent = Sent { source: source.key, target: (target.place.tier, target.key), sealed, upload, blocks };
    context.sent.lock().insert(seq, sent);
    Ok(())
}

/// What was sent of `source` for `target`, to be used once.
pub(crate) fn take(context: &Context, seq: Seq, source: &Replica, target: &Target) -> Option<Sent> {
    let sent = context.sent.lock().remove(&seq)?;
    let fits = sent.source == source.key
        && sent.sealed.generation() == source.generation
        && sent.target == (target.place.tier, target.key.clone());
    fits.then_some(sent)
}

/// The step is done.
pub(crate) fn forget(context: &Context, seq: Seq) {
    context.sent.lock().remove(&seq);
}
