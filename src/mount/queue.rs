//! What still has to reach home, as the commands see it.

use super::daemon::Live;
use crate::control::protocol::{QueuePage, QueueQuery, QueueRow, QueueState, QueueWhat, Retried, WirePath};
use crate::error::{Error, Kind, Result};
use crate::mover::{FlushScope, Named, Queued, Stand, What};
use crate::types::{Key, Seq, Timestamp};
use crate::vfs::{Caller, Vfs};

impl Live {
    pub(super) async fn queue_page(&self, query: &QueueQuery) -> Result<QueuePage> {
        let (steps, next) = self.assembled.mover.queued(Seq(query.after), query.limit as usize).await?;
        let now = self.assembled.clock.wall();
        let rows = steps.into_iter().map(|step| row(step, now)).collect();
        Ok(QueuePage { rows, next: next.map(|next| next.0) })
    }

    pub(super) async fn retry_at(&self, path: &[u8]) -> Result<Retried> {
        let named = self.named(vec![path.to_vec()]).await?.remove(0);
        let key = named.path.clone();
        let (steps, others) = self.assembled.mover.retry(named).await?;
        match steps + others {
            0 => Err(Error::new(Kind::NotFound, format!("{key} is not in the queue: all of it is at home"))),
            _ => Ok(Retried { steps, others }),
        }
    }

    /// What is at these paths: what is known here, whatever a tier says; else what the tier says. A path that is gone is one too.
    pub(super) async fn named(&self, paths: Vec<Vec<u8>>) -> Result<Vec<Named>> {
        let resolve = |vfs: &Vfs, caller: &Caller, key: &Key| match vfs.resolve_known(key) {
            Err(error) if error.kind() == Kind::NotFound => vfs.resolve(caller, key),
            known => known,
        };
        self.apart(move |vfs, caller| {
            let named = |path: &Vec<u8>| -> Result<Named> {
                let path = Key::parse(path)?;
                let ino = match resolve(vfs, caller, &path) {
                    Ok(ino) => Some(ino),
                    Err(error) if error.kind() == Kind::NotFound => None,
                    Err(error) => return Err(error.context(path)),
                };
                Ok(Named { path, ino })
            };
            paths.iter().map(named).collect()
        })
        .await
    }

    /// What a flush of `paths` means. One that is not there must have something to be done.
    pub(super) async fn flush_scope_of(&self, paths: &[Vec<u8>]) -> Result<FlushScope> {
        if paths.is_empty() {
            return Ok(FlushScope::All);
        }
        let named = self.named(paths.to_vec()).await?;
        for one in named.iter().filter(|one| one.ino.is_none()) {
            let left = self.assembled.mover.pending(FlushScope::Named(vec![one.clone()])).await?;
            if left.complete {
                return Err(Error::new(Kind::NotFound, format!("{}: no such file or directory", one.path)));
            }
        }
        Ok(FlushScope::Named(named))
    }
}

fn row(step: Queued, now: Timestamp) -> QueueRow {
    let (state, until) = match step.stand {
        Stand::Blocked => (QueueState::Blocked, None),
        Stand::Retrying(at) => (QueueState::Retrying, Some(at)),
        Stand::Open => (QueueState::Open, None),
        Stand::Running => (QueueState::Uploading, None),
        Stand::Held(until) => (QueueState::Held, Some(until)),
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
