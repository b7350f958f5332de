//! The verbs. Signatures are the contract with vfs and mover.

use super::*;
use crate::clock::Clock;
use std::sync::Arc;
use tokio::sync::Notify;

/// The catalog. Cheap to share; all verbs are short and synchronous.
#[derive(Debug)]
pub struct Catalog {}

impl Catalog {
    /// Opens or makes the catalog at `location`, migrating an older schema after a copy is kept.
    ///
    /// # Errors
    /// `Invalid` if its schema is newer, `Corrupt`, `Busy` if another daemon holds it.
    pub fn open(location: &Location, clock: Arc<dyn Clock>) -> Result<Self> {
        todo!()
    }

    /// Random name of this catalog, made once; names its stage directories.
    pub fn id(&self) -> &str {
        todo!()
    }

    /// Wakes whoever waits whenever a step is queued or becomes runnable.
    pub fn queued(&self) -> Arc<Notify> {
        todo!()
    }

    // ---- tiers
    /// The row of tier `name`, made if new, with its root place (owned by `Ino::ROOT`) and stage place. An existing row keeps its mark.
    pub fn register_tier(&self, name: &str, location: &str) -> Result<TierRow> {
        todo!()
    }
    /// Remembers the tier's `.tierfs/id` and file-system type.
    pub fn set_mark(&self, tier: TierId, mark: &str, fs_type: &str) -> Result<()> {
        todo!()
    }

    // ---- reads
    /// The inode. `NotFound` if there is no such row.
    pub fn inode(&self, ino: Ino) -> Result<Inode> {
        todo!()
    }
    /// What `name` in `parent` names, as far as known.
    pub fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Option<Inode>> {
        todo!()
    }
    /// Entries with cookies above `after`, in cookie order.
    pub fn entries(&self, dir: Ino, after: u64, limit: usize) -> Result<Vec<DirEntry>> {
        todo!()
    }
    /// Whether the directory has any entry.
    pub fn is_empty(&self, dir: Ino) -> Result<bool> {
        todo!()
    }
    /// All names of an inode: (directory, name).
    pub fn names(&self, ino: Ino) -> Result<Vec<(Ino, Vec<u8>)>> {
        todo!()
    }
    /// The path of one of its names, from the mount's root; `None` if it has none.
    pub fn path(&self, ino: Ino) -> Result<Option<Key>> {
        todo!()
    }
    /// Every replica this inode answers for, staged ones included.
    pub fn replicas(&self, ino: Ino) -> Result<Vec<Replica>> {
        todo!()
    }
    /// The replica row of one key, if any (doomed ones too).
    pub fn replica_at(&self, place: PlaceId, name: &[u8]) -> Result<Option<Replica>> {
        todo!()
    }
    /// The directory's places on all tiers.
    pub fn places(&self, dir: Ino) -> Result<Vec<Place>> {
        todo!()
    }
    /// One place.
    pub fn place(&self, id: PlaceId) -> Result<Place> {
        todo!()
    }
    /// The native place of directory `dir` on `tier`, made (rows only) together with its ancestors' where
    /// missing. `Busy` if another inode owns a prefix on the way.
    pub fn ensure_place(&self, dir: Ino, tier: TierId) -> Result<Place> {
        todo!()
    }
    /// As [`Catalog::ensure_place`] but only looks: `None` where a row is missing or owned by another.
    pub fn native_place(&self, dir: Ino, tier: TierId) -> Result<Option<Place>> {
        todo!()
    }
    /// Value of one extended attribute.
    pub fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Option<Vec<u8>>> {
        todo!()
    }
    /// All extended attributes.
    pub fn xattrs(&self, ino: Ino) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        todo!()
    }
    /// Inodes whose state is not clean.
    pub fn dirty(&self) -> Result<Vec<Inode>> {
        todo!()
    }
    /// Sums per tier.
    pub fn counts(&self) -> Result<Vec<(TierId, TierCounts)>> {
        todo!()
    }

    // ---- namespace
    /// Makes an inode with its first name. `Exists` if the name is taken. `Native` bytes need the parent's
    /// place on that tier; takes over doomed or stale rows of the key.
    pub fn create(&self, new: &NewInode<'_>) -> Result<Inode> {
        todo!()
    }
    /// Gives `ino` one more name. `native`: the tier on which the link was already made natively (a replica row is added there);
    /// `domain`: queue a step because home must be told.
    pub fn link(
        &self,
        ino: Ino,
        parent: Ino,
        name: &[u8],
        native: Option<TierId>,
        domain: Option<&str>,
        now: Timestamp,
    ) -> Result<Inode> {
        todo!()
    }
    /// Takes a name away (not a directory's). `gone`: tiers on which its native file was already unlinked (rows dropped);
    /// every other replica at that name's keys is doomed and a delete step queued in `domain`. At the last name all other non-staged replicas
    /// are doomed too, the reconcile step is dropped, staged rows stay until [`Catalog::drop_orphan`].
    pub fn unlink(
        &self,
        parent: Ino,
        name: &[u8],
        gone: &[TierId],
        domain: &str,
        now: Timestamp,
    ) -> Result<Unlinked> {
        todo!()
    }
    /// Removes an empty directory; its places on tiers in `gone` are dropped, others are given up (owner none) and
    /// its marker replicas doomed. `NotEmpty`.
    pub fn rmdir(
        &self,
        parent: Ino,
        name: &[u8],
        gone: &[TierId],
        domain: &str,
        now: Timestamp,
    ) -> Result<Unlinked> {
        todo!()
    }
    /// Writes down a rename before its native moves are made.
    pub fn begin_rename(&self, plan: &RenamePlan) -> Result<IntentId> {
        todo!()
    }
    /// Applies the plan to the tables and forgets the intent. Replicas and places not named by a move keep their keys. A replaced
    /// file is unlinked as by [`Catalog::unlink`], except that keys equal to the new name's native keys are taken over by the moved inode
    /// (generation 0) instead of doomed. A closed, uncommitted file's step moves to the end of the order.
    pub fn finish_rename(&self, intent: IntentId, plan: &RenamePlan) -> Result<Renamed> {
        todo!()
    }
    /// A plan whose native moves failed before anything moved.
    pub fn cancel_rename(&self, intent: IntentId) -> Result<()> {
        todo!()
    }
    /// Intents left by a crash.
    pub fn intents(&self) -> Result<Vec<(IntentId, RenamePlan)>> {
        todo!()
    }
    /// Forgets an inode without names, its xattrs and staged rows; answers the staged keys whose files may be removed.
    pub fn drop_orphan(&self, ino: Ino) -> Result<Vec<Replica>> {
        todo!()
    }
    /// Inodes without names (after a crash).
    pub fn orphans(&self) -> Result<Vec<Ino>> {
        todo!()
    }

    // ---- attributes
    /// Changes attributes (times already resolved by the caller through `now`); bumps `attr_generation`; `domain`: queue a reconcile step
    /// (an existing one keeps its place in the order).
    pub fn set_attr(
        &self,
        ino: Ino,
        change: &AttrChange,
        domain: Option<&str>,
        now: Timestamp,
    ) -> Result<Inode> {
        todo!()
    }
    /// Sets or removes (`None`) an extended attribute; `NoAttribute` when there is none to remove.
    pub fn set_xattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: Option<&[u8]>,
        domain: Option<&str>,
        now: Timestamp,
    ) -> Result<()> {
        todo!()
    }

    // ---- bytes
    /// What an in-place written native file looks like now: after FLUSH or truncate by ourselves.
    pub fn wrote_native(&self, ino: Ino, tier: TierId, content: Content, version: &Version) -> Result<()> {
        todo!()
    }
    /// A write-open of a file whose home is elsewhere. Starts generation + 1 on `stage`. If the newest generation is already staged on `stage`,
    /// the same stage file is taken back under the new generation (the step keeps its place); else a new row is made, named by [`stage_name`].
    /// Answers the staged replica; its file may have to be made.
    pub fn begin_write(&self, ino: Ino, stage: TierId) -> Result<Replica> {
        todo!()
    }
    /// The close row: state `ClosedOpen`, size and times, and a reconcile step at the end of `domain`'s order (an existing step of the inode keeps its place if
    /// it was closed and uncommitted before).
    pub fn close(&self, ino: Ino, content: Content, domain: &str) -> Result<Seq> {
        todo!()
    }
    /// The last write handle is released: `ClosedOpen` → `Closed`. Wakes the mover.
    pub fn released(&self, ino: Ino) -> Result<()> {
        todo!()
    }
    /// A write-open that changed nothing: back to the last generation with a home copy; the staged row is dropped and answered
    /// for removal. Only if some non-staged replica has the generation before.
    pub fn revert_write(&self, ino: Ino) -> Result<Option<Replica>> {
        todo!()
    }
    /// Remembers the size of a file being written (attribute changes by truncate on a staged file).
    pub fn resize(&self, ino: Ino, content: Content) -> Result<()> {
        todo!()
    }

    // ---- mover
    /// Runnable and waiting steps in order, from `after`.
    pub fn steps(&self, after: Seq, limit: usize) -> Result<Vec<Step>> {
        todo!()
    }
    /// Queues a reconcile step for `ino` at the end, or keeps the one there is.
    pub fn queue(&self, ino: Ino, domain: &str) -> Result<Seq> {
        todo!()
    }
    /// The step is done. Only if it is still the same (seq unchanged).
    pub fn finish_step(&self, seq: Seq) -> Result<()> {
        todo!()
    }
    /// The step failed: remembered with its error, tried again after `not_before`, or blocked.
    pub fn fail_step(&self, seq: Seq, error: &str, not_before: Timestamp, blocked: bool) -> Result<()> {
        todo!()
    }
    /// FULL: a commit of `ino` to (place, name) with this write id starts; its outcome must be learned after a crash.
    pub fn begin_commit(&self, ino: Ino, place: PlaceId, name: &[u8], write_id: &str) -> Result<()> {
        todo!()
    }
    /// The tier took it: (place, name) now holds `generation`/`attr_generation` of `ino` in `version`. If `generation` is still the newest and the state is
    /// `Closed`, the state becomes `Clean`. Answers whether it was the newest. FULL.
    pub fn commit_if(
        &self,
        ino: Ino,
        generation: Generation,
        attr_generation: u64,
        place: PlaceId,
        name: &[u8],
        version: &Version,
        native: Option<NativeId>,
    ) -> Result<bool> {
        todo!()
    }
    /// A commit certainly did not happen: clears the write id.
    pub fn abort_commit(&self, place: PlaceId, name: &[u8]) -> Result<()> {
        todo!()
    }
    /// Replicas with a commit of unknown outcome (after a crash).
    pub fn unknown_commits(&self) -> Result<Vec<Replica>> {
        todo!()
    }
    /// Drops a replica row whose bytes may now be removed (FULL before the answer), e.g. a stage file after the commit, or a non-native key
    /// after the native one was written. Refused (`Busy`) if it is the only copy of the newest generation.
    pub fn drop_replica(&self, place: PlaceId, name: &[u8]) -> Result<Replica> {
        todo!()
    }
    /// Dooms a key of a living inode (a leftover of a rename): owner none, delete step queued.
    pub fn doom(&self, place: PlaceId, name: &[u8], domain: &str) -> Result<()> {
        todo!()
    }
    /// The doomed key is gone from the tier: the row is kept as a tombstone until [`Catalog::purge`], the place is dropped with its last row if nobody owns it.
    pub fn deleted(&self, place: PlaceId, name: &[u8]) -> Result<()> {
        todo!()
    }
    /// Forgets tombstones older than `before`.
    pub fn purge(&self, before: Timestamp) -> Result<u64> {
        todo!()
    }
    /// The bytes of `ino` in place `place` moved with their directory, or are now owned elsewhere: changes a place's (parent, name).
    pub fn move_place(&self, place: PlaceId, parent: PlaceId, name: &[u8]) -> Result<()> {
        todo!()
    }
    /// Drops an empty place row.
    pub fn drop_place(&self, place: PlaceId) -> Result<()> {
        todo!()
    }
    /// Nobody owns the place any more; it goes with the last key in it.
    pub fn give_up_place(&self, place: PlaceId) -> Result<()> {
        todo!()
    }
    /// The place of copies that had to make way for another file (`.tierfs/moved`), owned by nobody.
    pub fn moved_place(&self, tier: TierId) -> Result<Place> {
        todo!()
    }
    /// Home changed behind a dirty file: `ino` and its pending generation get the name `aside` in the same directory, and what home has (`found`) is imported
    /// under the old name, or the old name is gone.
    pub fn set_aside(
        &self,
        ino: Ino,
        parent: Ino,
        name: &[u8],
        aside: &[u8],
        place: PlaceId,
        found: Option<&Entry>,
        defaults: Defaults,
    ) -> Result<Observed> {
        todo!()
    }

    // ---- import
    /// Merges what a look at a tier found.
    pub fn observe(&self, observation: &Observation<'_>) -> Result<Observed> {
        todo!()
    }

    // ---- durability
    /// Makes all rows so far durable (one synced commit serves all who wait).
    pub fn sync(&self) -> Result<()> {
        todo!()
    }
}

/// Row id of an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntentId(pub i64);

/// Key of a stage file below the stage place: fan-out by inode, then inode and generation.
pub fn stage_name(ino: Ino, generation: Generation) -> Vec<u8> {
    format!("{:02x}/{}-{}", ino.0 & 0xff, ino.0, generation.0).into_bytes()
}
