//! What the control server needs of a running mount, and no more.

use crate::control::protocol::{
    Drained, Evicted, FileSystem, Hello, ListPage, ListQuery, LostPage, NativePath, PinPage, Pinned, Plan,
    Progress, QueuePage, QueueQuery, Reloaded, Retried, TierAccepted, Warmed,
};
use crate::control::status::Status;
use crate::error::Result;
use crate::types::Timestamp;
use crate::vfs::Evict;
use async_trait::async_trait;
use std::time::Duration;
use tokio::sync::watch;

/// Where a long call says how far it is; only the latest value is kept.
pub type ProgressSink = watch::Sender<Progress>;

/// A running mount, as the commands see it.
///
/// Paths are bytes relative to the mount's root, without a leading slash; the root is empty.
/// Dropping a returned future abandons the waiting, never the work.
#[async_trait]
pub trait Daemon: Send + Sync {
    /// Who answers, and whether it serves or drains. Never waits.
    fn hello(&self) -> Hello;

    /// All facts, from memory: never waits for a tier.
    async fn status(&self) -> Status;

    /// Commits everything that is dirty at or below `paths` (empty: everywhere), ending settle
    /// and hold for it. Running out of `deadline` is not an error: it shows in what is left.
    ///
    /// # Errors
    /// [`crate::error::Kind::NotFound`] if a path is not there.
    async fn flush(
        &self,
        paths: &[Vec<u8>],
        deadline: Option<Duration>,
        progress: &ProgressSink,
    ) -> Result<Drained>;

    /// What is dirty at or below `paths` (empty: everywhere), as what is left of a flush; ends no settle and no hold.
    ///
    /// # Errors
    /// As [`Daemon::flush`].
    async fn pending(&self, paths: &[Vec<u8>]) -> Result<Drained>;

    /// Fetches hot copies of what is at or below `paths` (empty: everywhere) where a rule has a place for them, and has
    /// archived files brought back, which it does not wait for. Dropped, it stops. Running out of `deadline` is not an
    /// error: it shows in what is left.
    ///
    /// # Errors
    /// As [`Daemon::flush`].
    async fn warm(
        &self,
        paths: &[Vec<u8>],
        deadline: Option<Duration>,
        progress: &ProgressSink,
    ) -> Result<Warmed>;

    /// Drops the hot copies of what is at or below `paths`, where they are clean, closed and not pinned. Dropped, it stops.
    ///
    /// # Errors
    /// As [`Daemon::flush`].
    async fn evict(&self, paths: &[Vec<u8>], evict: Evict, progress: &ProgressSink) -> Result<Evicted>;

    /// Keeps `paths`, and what is below them, near.
    ///
    /// # Errors
    /// As [`Daemon::flush`]; [`crate::error::Kind::Invalid`] if `until` is over.
    async fn pin(&self, paths: &[Vec<u8>], until: Option<Timestamp>) -> Result<Pinned>;

    /// No longer keeps them near.
    ///
    /// # Errors
    /// As [`Daemon::flush`].
    async fn unpin(&self, paths: &[Vec<u8>]) -> Result<Pinned>;

    /// A page of what is pinned, after a position in the list.
    ///
    /// # Errors
    /// If the catalog can't be read.
    async fn pins(&self, after: u64) -> Result<PinPage>;

    /// Commits everything before an unmount; the mount serves on.
    ///
    /// # Errors
    /// As the mover says; time out is no error.
    async fn drain(&self, deadline: Option<Duration>, progress: &ProgressSink) -> Result<Drained>;

    /// Takes the mount away from the kernel, for callers that may not.
    ///
    /// # Errors
    /// [`crate::error::Kind::Busy`] while files are open.
    async fn unmount(&self) -> Result<()>;

    /// Answers when the mount is gone from the kernel and what was dirty then is committed or given
    /// up for this run (it stays on the stage).
    async fn ended(&self, progress: &ProgressSink) -> Drained;

    /// Native path of a resident copy of the newest bytes of a file.
    ///
    /// # Errors
    /// [`crate::error::Kind::NotFound`] if the path is not there,
    /// [`crate::error::Kind::NoAttribute`] if no copy is resident.
    async fn native_path(&self, path: &[u8]) -> Result<NativePath>;

    /// Reads the config again and uses what may change while mounted.
    ///
    /// # Errors
    /// [`crate::error::Kind::Invalid`] with all that is wrong; nothing has changed then.
    async fn reload(&self) -> Result<Reloaded>;

    /// A page of the entries of a directory, or the one row of anything else.
    ///
    /// # Errors
    /// [`crate::error::Kind::NotFound`].
    async fn list(&self, query: &ListQuery) -> Result<ListPage>;

    /// Takes what is at the path of a tier now for the tier; what was known there and is not any more is lost.
    ///
    /// # Errors
    /// [`crate::error::Kind::Invalid`] if the tier is there, or is not a directory.
    async fn accept_tier(&self, name: &str, file_system: FileSystem) -> Result<TierAccepted>;

    /// Files that were lost with a tier, after a position in the list.
    ///
    /// # Errors
    /// If the catalog can't be read.
    async fn lost(&self, after: u64) -> Result<LostPage>;

    /// Forgets lost files up to a position in the list; answers how many.
    ///
    /// # Errors
    /// If the catalog can't be written.
    async fn forget_lost(&self, up_to: u64) -> Result<u64>;

    /// A page of what still has to reach home.
    ///
    /// # Errors
    /// If the catalog can't be read.
    async fn queue(&self, query: &QueueQuery) -> Result<QueuePage>;

    /// What the mover would do now; changes nothing.
    ///
    /// # Errors
    /// If the catalog or a hot tier can't be read.
    async fn plan(&self) -> Result<Plan>;

    /// Tries the failed steps of what is at or below `path` again now; `path` may be gone, with its delete to come.
    ///
    /// # Errors
    /// [`crate::error::Kind::NotFound`] if nothing of it is in the queue.
    async fn retry(&self, path: &[u8]) -> Result<Retried>;
}
