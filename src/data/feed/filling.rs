//! The hot copy that a feed's bytes go into on their way.

use super::Feed;
use crate::data::budget::Permit;
use crate::data::fill::{Fill, Offer, Phase};
use crate::error::Error;
use crate::tier::Piece;
use bytes::Bytes;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long bytes may wait for a hot copy's disk before the copy is given up: a sick hot tier
/// must not delay reads.
const FILL_PATIENCE: Duration = Duration::from_secs(2);
/// How often it is looked whether a fill's claim must be renewed.
const BEAT_TICK: Duration = Duration::from_secs(5);

impl Feed {
    /// Waits until so many bytes that only the hot copy wants may move, where they come from and where they go; not any longer once
    /// a reader waits for them.
    pub(in crate::data) async fn begin_pieces(&self, flight: u64, bytes: u64) -> Vec<Piece> {
        let hurried = self.hurry.notified();
        tokio::pin!(hurried);
        hurried.as_mut().enable();
        if self.is_awaited(flight) {
            return Vec::new();
        }
        let begin = async {
            let mut pieces = Vec::from_iter(self.source.tier.begin_piece(bytes).await);
            if let Some(fill) = self.filling() {
                pieces.extend(fill.tier().begin_piece(bytes).await);
            }
            pieces
        };
        tokio::select! {
            pieces = begin => pieces,
            () = hurried => Vec::new(),
        }
    }

    fn is_awaited(&self, flight: u64) -> bool {
        self.state.lock().flights.iter().any(|other| other.id == flight && !other.waiters.is_empty())
    }

    pub(super) async fn offer(&self, fill: &Arc<Fill>, offset: u64, chunk: &Bytes) {
        let memory = self.streams.budget.acquire_fill(chunk.len() as u64);
        let memory: Option<Permit> = tokio::time::timeout(FILL_PATIENCE, memory).await.ok();
        if memory.is_none() {
            tracing::warn!(key = %fill.target(), "hot copy given up: its tier takes bytes too slowly");
            return self.drop_fill(fill);
        }
        if fill.offer(offset, chunk, memory) == Offer::StartWriting {
            let (fill, meters) = (Arc::clone(fill), Arc::clone(&self.streams.meters));
            self.streams.runtime.spawn_blocking(move || match fill.write_queued() {
                Ok(()) if fill.phase() == Phase::Complete => meters.fills_completed.add(1),
                Ok(()) => {}
                Err(error) => {
                    meters.fills_dropped.add(1);
                    tracing::warn!(key = %fill.target(), %error, "hot copy given up");
                }
            });
        }
    }

    /// The hot copy can't be read: its bytes count as missing from now on.
    pub(super) fn lose_fill(&self, fill: &Arc<Fill>, error: &Error) -> bool {
        tracing::warn!(key = %fill.target(), %error, "hot copy can't be read, reading from home");
        self.fill.write().take();
        self.drop_fill(fill);
        false
    }

    pub(super) fn drop_fill(&self, fill: &Arc<Fill>) {
        let (fill, meters) = (Arc::clone(fill), Arc::clone(&self.streams.meters));
        self.streams.runtime.spawn_blocking(move || {
            if fill.abandon() {
                meters.fills_dropped.add(1);
            }
        });
    }
}

/// Keeps the claim of a fill alive while the tier it reads from is slow.
pub(super) async fn keep_claim(fill: Weak<Fill>) {
    loop {
        tokio::time::sleep(BEAT_TICK).await;
        let Some(fill) = fill.upgrade().filter(|fill| fill.phase() == Phase::Filling) else { return };
        let beat = tokio::task::spawn_blocking(move || fill.beat_if_due());
        if let Ok(Err(error)) = beat.await {
            tracing::debug!(%error, "the claim of a hot copy could not be renewed");
        }
    }
}
