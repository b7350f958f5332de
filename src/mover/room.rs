//! Room for those that wait for it. What a mover is asked by the file system that it looks after itself, so it must not keep it.

use crate::mover::context::Context;
use crate::mover::engine::Event;
use crate::mover::evict;
use crate::types::{Seq, TierId};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use tokio::sync::mpsc;

/// Asks a mover to make room, as long as there is one.
pub struct RoomMaker {
    context: Weak<Context>,
    events: mpsc::WeakSender<Event>,
    /// Hot copies are being dropped for somebody who waits.
    making: Arc<AtomicBool>,
}

impl std::fmt::Debug for RoomMaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RoomMaker").finish_non_exhaustive()
    }
}

impl RoomMaker {
    pub(super) fn new(context: &Arc<Context>, events: &mpsc::Sender<Event>) -> Self {
        Self { context: Arc::downgrade(context), events: events.downgrade(), making: Arc::default() }
    }

    /// Somebody waits for room on `stage`: what lies in these domains up to these steps need not settle, and if the tier is above
    /// its high water, hot copies go. Does not wait.
    pub fn make_room(&self, domains: Vec<(String, Seq)>, stage: TierId) {
        let (Some(context), Some(events)) = (self.context.upgrade(), self.events.upgrade()) else { return };
        // A full channel means that the loop has much to do; who still waits asks again.
        let _ = events.try_send(Event::MakeRoom(domains));
        if context.stores.hot.contains_key(&stage) {
            self.make_room_for_copies();
        }
    }

    /// Somebody wants room for a hot copy, or was refused it. Does not wait.
    pub fn make_room_for_copies(&self) {
        let Some(context) = self.context.upgrade() else { return };
        if !self.making.swap(true, Ordering::AcqRel) {
            let (making, runtime) = (self.making.clone(), context.runtime.clone());
            runtime.spawn(async move {
                // Before it looks: who asks from now on is looked after once more.
                making.store(false, Ordering::Release);
                let done = context.blocking(|context| {
                    evict::make_room(context, evict::Turn::Wait);
                    Ok(())
                });
                if let Err(error) = done.await {
                    tracing::warn!(%error, "hot copies could not make room");
                }
            });
        }
    }
}
