//! What still has to reach home, as the commands see it.

use super::daemon::Live;
use crate::control::protocol::{QueuePage, QueueQuery, QueueRow, QueueState, QueueWhat, Retried, WirePath};
use crate::error::{Error, Kind, Result};
use crate::mover::{About, Queued, Stand, What};
use crate::types::{Key, Seq, Timestamp};

impl Live {
    pub(super) async fn queue_page(&self, query: &QueueQuery) -> Result<QueuePage> {
        let (steps, next) = self.assembled.mover.queued(Seq(query.after), query.limit as usize).await?;
        let now = self.assembled.clock.wall();
        let rows = steps.into_iter().map(|step| row(step, now)).collect();
        Ok(QueuePage { rows, next: next.map(|next| next.0) })
    }

    pub(super) async fn retry_at(&self, path: &[u8]) -> Result<Retried> {
        let key = Key::parse(path)?;
        let about = {
            let key = key.clone();
            self.apart(move |vfs, _| about(|key| vfs.resolve_known(key), &key)).await?
        };
        let (steps, others) = self.assembled.mover.retry(about).await?;
        match steps + others {
            0 => Err(Error::new(Kind::NotFound, format!("{key} is not in the queue: all of it is at home"))),
            _ => Ok(Retried { steps, others }),
        }
    }
}

/// What of the queue a path means: what is there, or the delete of what was.
fn about(resolve: impl Fn(&Key) -> Result<crate::types::Ino>, key: &Key) -> Result<About> {
    match (resolve(key), key.split()) {
        (Err(error), Some((parent, name))) if error.kind() == Kind::NotFound => {
            let parent = resolve(&parent).map_err(|error| error.context(key.clone()))?;
            Ok(About::Name(parent, name.to_vec()))
        }
        (found, _) => Ok(About::Inode(found.map_err(|error| error.context(key.clone()))?)),
    }
}

fn row(step: Queued, now: Timestamp) -> QueueRow {
    let (state, until) = match step.stand {
        Stand::Blocked => (QueueState::Blocked, None),
        Stand::Retrying(at) => (QueueState::Retrying, Some(at)),
        Stand::Open => (QueueState::Open, None),
        Stand::Running => (QueueState::Uploading, None),
        Stand::Settling(at) => (QueueState::Settling, Some(at)),
        Stand::Waiting => (QueueState::Waiting, None),
    };
    QueueRow {
        seq: step.seq.0,
        domain: step.domain,
        what: match step.what {
            What::Write => QueueWhat::Write,
            What::Update => QueueWhat::Update,
            What::Directory => QueueWhat::Directory,
            What::Delete => QueueWhat::Delete,
        },
        path: WirePath(step.path.as_bytes().to_vec()),
        bytes: step.bytes,
        age_s: seconds(step.queued_at, now),
        state,
        error: step.error,
        next_s: until.map(|at| seconds(now, at)),
    }
}

/// Whole seconds between two moments, none if they are the other way round.
fn seconds(from: Timestamp, to: Timestamp) -> u64 {
    (to.0.saturating_sub(from.0).max(0) / 1_000_000_000).cast_unsigned()
}
