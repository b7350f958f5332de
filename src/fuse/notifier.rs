//! What the kernel must forget, told from one thread of its own: an `inval_entry` from inside a handler
//! that holds the parent's lock would hang for good.

use crate::types::Invalidation;
use fuser::{INodeNo, Notifier};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// Invalidations that may wait. If the kernel can't keep up the rest is dropped: then an entry lives
/// until its time-to-live is over.
const WAITING_MAX: usize = 65_536;

/// The sending side; cheap to clone, never waits.
#[derive(Clone, Debug)]
pub struct Notifications(SyncSender<Invalidation>);

impl Notifications {
    /// Both ends; the receiver goes to `serve`.
    #[must_use]
    pub fn new() -> (Self, Receiver<Invalidation>) {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        (Self(sender), receiver)
    }

    /// Queues one invalidation.
    pub fn send(&self, invalidation: Invalidation) {
        if let Err(TrySendError::Full(lost)) = self.0.try_send(invalidation) {
            tracing::debug!(?lost, "too many invalidations; the kernel learns of this one later");
        }
    }
}

/// Tells the kernel until every sender is gone.
pub(super) fn serve(notifier: &Notifier, queue: &Receiver<Invalidation>) {
    while let Ok(invalidation) = queue.recv() {
        // ENOENT: the kernel does not know it, which is what we want.
        let told = match &invalidation {
            Invalidation::Entry { parent, name } => {
                notifier.inval_entry(INodeNo(parent.0), OsStr::from_bytes(name))
            }
            Invalidation::Inode(ino) => notifier.inval_inode(INodeNo(ino.0), 0, 0),
        };
        if let Err(error) = told
            && error.raw_os_error() != Some(libc::ENOENT)
        {
            tracing::debug!(?invalidation, %error, "the kernel did not take an invalidation");
        }
    }
}
