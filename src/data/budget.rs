//! The mount's memory for bytes on the move: one total, split once. A leaf.
//!
//! Half is for the block cache, into which read-ahead streams; five eighths of that half may
//! be *promised* to read-ahead, so that windows never push each other out before they are read.
//! Of the other half most is for uploads, the rest for bytes on their way into hot copies. The
//! shares are fixed so that no use can starve another, and nobody who waits holds what another
//! waiter needs.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The least a mount can work with.
pub const MEMORY_MIN: u64 = 16 << 20;

/// Permits are counted in bytes and taken by `u32`.
const PERMIT_MAX: u64 = u32::MAX as u64;

/// Memory of one mount; cheap to clone.
#[derive(Clone, Debug)]
pub struct MemoryBudget {
    total: u64,
    ahead: Share,
    transfers: Share,
    fills: Share,
}

#[derive(Clone, Debug)]
struct Share {
    permits: Arc<Semaphore>,
    size: u64,
}

impl Share {
    fn new(size: u64) -> Self {
        let size = size.min(PERMIT_MAX);
        Self { permits: Arc::new(Semaphore::new(size as usize)), size }
    }

    /// More than the share can never be had: such a request takes all of it.
    fn clamp(&self, bytes: u64) -> u32 {
        bytes.min(self.size) as u32
    }

    async fn acquire(&self, bytes: u64) -> Permit {
        let permit = Arc::clone(&self.permits).acquire_many_owned(self.clamp(bytes)).await;
        Permit(permit.ok())
    }

    fn try_acquire(&self, bytes: u64) -> Option<Permit> {
        Arc::clone(&self.permits)
            .try_acquire_many_owned(self.clamp(bytes))
            .ok()
            .map(|permit| Permit(Some(permit)))
    }
}

/// Memory in use; given back when dropped.
#[derive(Debug)]
pub struct Permit(Option<OwnedSemaphorePermit>);

impl Permit {
    /// How many bytes it stands for.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, |permit| permit.num_permits() as u64)
    }
}

impl MemoryBudget {
    /// `total` bytes, at least [`MEMORY_MIN`].
    #[must_use]
    pub fn new(total: u64) -> Self {
        let total = total.max(MEMORY_MIN);
        Self {
            total,
            ahead: Share::new(total / 16 * 5),
            transfers: Share::new(total / 8 * 3),
            fills: Share::new(total / 8),
        }
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// What the block cache may hold.
    #[must_use]
    pub fn cache_bytes(&self) -> u64 {
        self.total / 2
    }

    /// What uploads may hold together.
    #[must_use]
    pub fn transfer_bytes(&self) -> u64 {
        self.transfers.size
    }

    /// Waits for memory for an upload buffer; at most [`MemoryBudget::transfer_bytes`] is given.
    pub async fn acquire(&self, bytes: u64) -> Permit {
        self.transfers.acquire(bytes).await
    }

    /// The same without waiting.
    #[must_use]
    pub fn try_acquire(&self, bytes: u64) -> Option<Permit> {
        self.transfers.try_acquire(bytes)
    }

    /// Waits for memory for bytes that go into a hot copy.
    pub(super) async fn acquire_fill(&self, bytes: u64) -> Permit {
        self.fills.acquire(bytes).await
    }

    /// A promise to one reader's read-ahead, empty at first.
    pub(super) fn reservation(&self) -> Reservation {
        Reservation { share: self.ahead.clone(), held: 0 }
    }
}

/// Cache space promised to one reader's read-ahead.
#[derive(Debug)]
pub(super) struct Reservation {
    share: Share,
    held: u64,
}

impl Reservation {
    /// By how much it could grow now.
    pub fn room(&self) -> u64 {
        self.share.permits.available_permits() as u64
    }

    /// Grows or shrinks to `to`, as far as there is room.
    pub fn resize(&mut self, to: u64) {
        if to < self.held {
            self.share.permits.add_permits((self.held - to) as usize);
            self.held = to;
        } else if let Ok(more) = u32::try_from(to - self.held)
            && let Ok(permit) = self.share.permits.try_acquire_many(more)
        {
            permit.forget();
            self.held = to;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waits_until_memory_comes_back() {
        let budget = MemoryBudget::new(MEMORY_MIN);
        let all = budget.acquire(u64::MAX).await;
        assert_eq!(all.bytes(), budget.transfer_bytes());
        assert!(budget.try_acquire(1).is_none());
        let mut waiting = Box::pin(budget.acquire(100));
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(all);
        assert_eq!(waiting.await.bytes(), 100);
    }

    #[test]
    fn shares_stay_below_the_total() {
        for total in [0, MEMORY_MIN, 512 << 20, 1 << 40] {
            let budget = MemoryBudget::new(total);
            assert!(
                budget.cache_bytes() + budget.transfer_bytes() + budget.fills.size <= budget.total(),
                "{total}"
            );
            assert!(budget.ahead.size <= budget.cache_bytes());
        }
    }

    #[test]
    fn a_reservation_gives_back_what_it_took() {
        let budget = MemoryBudget::new(MEMORY_MIN);
        let room = budget.reservation().room();
        let mut one = budget.reservation();
        one.resize(room);
        let mut two = budget.reservation();
        two.resize(1);
        assert_eq!((two.held, two.room()), (0, 0));
        one.resize(room - 10);
        two.resize(10);
        assert_eq!(two.held, 10);
        drop((one, two));
        assert_eq!(budget.reservation().room(), room);
    }
}
