//! The catalog: names, attributes and placement of everything the mount has seen. Never bytes.
//!
//! Verbs are named after intentions, each is one transaction, and each leaves the tables true by
//! themselves; what a crash must not forget is a row before the act. Knows SQL; must not know
//! tiers, FUSE or rules: what those decide arrives as arguments.
//!
//! # Model
//! * `inode` + `dentry`: the namespace. `generation` counts contents, `attr_generation` attributes.
//! * `place`: a directory on a tier (tier, parent place, name) and the inode that **owns** that
//!   prefix. A rename changes one row, so unlisted children come along.
//! * `replica`: (place, name) on a tier and the inode answerable for that key, with the
//!   generation stored there. `ino` 0: doomed, a delete is queued, or done and remembered until
//!   older listings are out. `generation` 0: what lies there is not this inode's content (it will be overwritten).
//!   `version` none: nothing lies there (yet). Stage files are replicas under a tier's stage place.
//! * `step`: what the mover still has to do, in the order it must become visible.
//! * `lost`: files whose bytes went with a tier, until a person has seen the list.
//! * `intent`: a native rename under way, redone at the next start if the daemon dies in between.
//!
//! A name on a tier is **foreign** (to be imported) only if no replica and no place owns its key.
//! An observation made at time T says nothing about a row that changed after T.

mod away;
mod check;
mod cookie;
mod engine;
mod leftover;
mod replace;
mod schema;
mod tables;
mod verbs;

use crate::tier::{Entry, NativeId, Object, RenameMode};
use crate::types::{Attr, FileKind, Generation, Ids, Ino, Key, Seq, TierId, Timestamp, Version};
use serde::{Deserialize, Serialize};

pub use away::{Away, Reason};
pub use engine::Location;
pub use replace::Replacement;
pub use verbs::{
    Catalog, IntentId, Wrote, copied_name, copied_partial_name, is_partial, partial_name, stage_name,
};

/// A row of `place`: a directory on a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PlaceId(pub i64);

/// How far the newest generation of a file is from home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WriteState {
    /// Nothing is pending for the content.
    Clean = 0,
    /// Open for writing and never closed since: kept and shown after a crash, never committed.
    Writing = 1,
    /// Closed at least once, but write handles remain.
    ClosedOpen = 2,
    /// Closed and released: the mover may seal it.
    Closed = 3,
}

/// An inode as the catalog knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// What stat shows.
    pub attr: Attr,
    /// Counts contents.
    pub generation: Generation,
    /// Counts changes of attributes that tiers must still be told.
    pub attr_generation: u64,
    /// Write-back state of the newest generation.
    pub state: WriteState,
    /// Target of a symlink.
    pub target: Option<Vec<u8>>,
    /// It lives elsewhere than at home, or did until now.
    pub away: Option<Away>,
}

/// A name in a directory, with its inode.
#[derive(Clone, Debug)]
pub struct DirEntry {
    /// Position in the directory: stable over remounts, at least 16, below 2^63.
    pub cookie: u64,
    /// The name.
    pub name: Vec<u8>,
    /// What it names.
    pub inode: Inode,
}

/// A directory on a tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Row id.
    pub id: PlaceId,
    /// On which tier.
    pub tier: TierId,
    /// Its key there.
    pub key: Key,
    /// The directory inode that owns the prefix; `None` if that is gone and deletes are pending.
    pub ino: Option<Ino>,
    /// All names were imported once.
    pub listed: bool,
    /// Version the tier gave for the directory when it was listed.
    pub version: Option<Version>,
}

/// One key on a tier and the inode answerable for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// On which tier.
    pub tier: TierId,
    /// In which directory.
    pub place: PlaceId,
    /// Last component (stage files: below the stage place, with its fan-out directory).
    pub name: Vec<u8>,
    /// The whole key.
    pub key: Key,
    /// Who answers for it; `None`: doomed.
    pub ino: Option<Ino>,
    /// Which content lies there; 0: not this inode's.
    pub generation: Generation,
    /// Which attributes were written with it.
    pub attr_generation: u64,
    /// What the tier called it; `None`: nothing there yet.
    pub version: Option<Version>,
    /// `st_ino` on a directory tier, 0 elsewhere. Where the key holds nobody's content (any more): of the file that programs may still
    /// write to there, 0 if none can.
    pub native_ino: u64,
    /// A commit under way with this write id; its outcome is unknown after a crash.
    pub write_id: Option<String>,
    /// Lies under the tier's stage place.
    pub staged: bool,
}

impl Replica {
    /// A staged file that has only some of the bytes of its generation; a map beside it says which.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.staged && is_partial(&self.name)
    }
}

/// Where the bytes of a new inode go.
#[derive(Clone, Debug)]
pub enum NewBytes {
    /// Already made on this tier under the native key of its name.
    Native {
        /// The tier.
        tier: TierId,
        /// What the tier says of it now.
        version: Version,
        /// Its identity there.
        native: NativeId,
        /// When it was made, by the tier's clock: a write that follows at once is not older.
        mtime: Timestamp,
    },
    /// Will be made on this tier's stage as generation 1, state `Writing` (regular files).
    Staged {
        /// The stage tier.
        tier: TierId,
    },
    /// Has none to stage (directories, symlinks, nodes at a blob home): a step is queued that
    /// tells the home tier.
    Deferred {
        /// Order domain of the step.
        domain: String,
    },
    /// Lives in the catalog only: a directory that exists on no tier yet.
    CatalogOnly,
}

/// A new inode with its first name.
#[derive(Clone, Debug)]
pub struct NewInode<'a> {
    /// In which directory.
    pub parent: Ino,
    /// Under which name.
    pub name: &'a [u8],
    /// What it is.
    pub kind: FileKind,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a node.
    pub rdev: u32,
    /// Target of a symlink.
    pub target: Option<&'a [u8]>,
    /// Where its bytes go.
    pub bytes: NewBytes,
    /// Where it lives instead of its home, which is too full.
    pub overflow: Option<TierId>,
    /// The moment, for all four times.
    pub now: Timestamp,
}

/// What became of the inode whose name was taken away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unlinked {
    /// The inode.
    pub ino: Ino,
    /// Names left. At 0 the row stays until [`Catalog::drop_orphan`].
    pub nlink: u32,
    /// Its newest bytes are on a stage, and older ones, or those of a file that it replaced, under a key: a power loss that took the row of
    /// this, but not the staged file's end, would show them again.
    pub hid_older: bool,
}

/// One native rename of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NativeMove {
    /// On which tier.
    pub tier: TierId,
    /// From this key.
    pub from: Key,
    /// To this key.
    pub to: Key,
    /// Swap instead of replace.
    pub exchange: bool,
    /// `st_ino` of what moves: tells a redo whether the move was done.
    pub native_ino: u64,
    /// What the move means for the tables.
    pub effect: MoveEffect,
}

/// What a [`NativeMove`] means for the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MoveEffect {
    /// The replica of the moved name goes to the native key of its new name.
    ReplicaToName,
    /// The replica leaves the namespace: it becomes the staged newest generation on the same tier.
    ReplicaToStage,
    /// The place of the moved directory goes to the native place of its new name.
    PlaceToName,
}

/// A rename, whole enough to be redone from its row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenamePlan {
    /// From this directory…
    pub parent: Ino,
    /// …and name,
    pub name: Vec<u8>,
    /// to this directory…
    pub new_parent: Ino,
    /// …and name.
    pub new_name: Vec<u8>,
    /// Replace, keep or swap.
    pub mode: RenameMode,
    /// Native renames that go with it, in order.
    pub moves: Vec<NativeMove>,
    /// Queue a step for the moved inode (and the swapped one) in this order domain, because its keys
    /// at home are not native any more; `None` if they all are.
    pub domain: Option<String>,
    /// A directory comes with files whose steps are in other domains than what is written below its new name will be: rules (as
    /// [`Rules::domains_below`] writes them) whose earlier steps go first.
    ///
    /// [`Rules::domains_below`]: crate::policy::placement::Rules::domains_below
    #[serde(default)]
    pub follows: Option<String>,
    /// What is replaced may be closed and not at home, on this tier, while something that was closed after it waits: it is shown there in its turn.
    #[serde(default)]
    pub preserve: Option<TierId>,
    /// Who may go on writing to the native files of what is replaced.
    #[serde(default)]
    pub writers: Writers,
    /// The moment, for ctime and the directories' mtime.
    pub now: Timestamp,
}

/// Whether anybody may go on writing in place to a native file that lost its name. It lies under its key until the mover comes, and
/// what its own writers do to it meanwhile is no change by others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Writers {
    /// Programs may have it open or mapped, also by an earlier mount: it is known by its identity.
    #[default]
    Maybe,
    /// Nobody, and the version of its row is what it is: another version is a change by others.
    None,
}

/// What a rename did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// The inode that was under the new name and lost it.
    pub replaced: Option<Unlinked>,
}

/// Something that is to stay near.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin {
    /// A file, or a directory with all below it.
    pub ino: Ino,
    /// For how long; `None`: for ever.
    pub until: Option<Timestamp>,
}

/// A step of the mover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its place in the order.
    pub seq: Seq,
    /// What to do.
    pub what: StepKind,
    /// Order domain.
    pub domain: String,
    /// When its content was first closed, or it was queued (wall time).
    pub queued_at: Timestamp,
    /// When it was last queued anew (wall time): settle counts from here.
    pub renewed_at: Timestamp,
    /// It stands for a close: that is its place in the order.
    pub content: bool,
    /// A rename queued it.
    pub moved: bool,
    /// Rules of whose domains all that was queued before must be done first (see [`RenamePlan::follows`]).
    pub follows: Option<String>,
    /// Tries so far.
    pub attempts: u32,
    /// Not before this moment (wall time), after a failed try.
    pub not_before: Timestamp,
    /// What the last try said.
    pub error: Option<String>,
    /// A permanent refusal: waits for a person.
    pub blocked: bool,
}

impl Step {
    /// What is done without having been queued.
    #[must_use]
    pub fn unqueued(ino: Ino, domain: &str) -> Self {
        Self {
            seq: Seq(0),
            what: StepKind::Reconcile(ino),
            domain: domain.to_owned(),
            queued_at: Timestamp(0),
            renewed_at: Timestamp(0),
            content: false,
            moved: false,
            follows: None,
            attempts: 0,
            not_before: Timestamp(0),
            error: None,
            blocked: false,
        }
    }
}

/// What a [`Step`] is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Bring home in line with this inode: content, attributes, names.
    Reconcile(Ino),
    /// Commit this generation of a file, which has newer ones since.
    Preserved(Ino, Generation),
    /// Commit this generation of a file that lost its name to another, before that comes.
    Replaced {
        /// The file.
        ino: Ino,
        /// Its last generation, or one before.
        generation: Generation,
        /// In which directory of a tier it belonged.
        place: PlaceId,
        /// Under which name.
        name: Vec<u8>,
    },
    /// Delete a doomed key.
    Delete {
        /// In which directory of a tier.
        place: PlaceId,
        /// Which name.
        name: Vec<u8>,
    },
}

impl StepKind {
    /// The file or directory it is for; none for a delete.
    #[must_use]
    pub fn ino(&self) -> Option<Ino> {
        match self {
            Self::Reconcile(ino) | Self::Preserved(ino, _) | Self::Replaced { ino, .. } => Some(*ino),
            Self::Delete { .. } => None,
        }
    }
}

/// What the vfs knows of a file's bytes at FLUSH, RELEASE, or after a look at the tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// Bytes.
    pub size: u64,
    /// 512-byte units.
    pub blocks: u64,
    /// Modification time.
    pub mtime: Timestamp,
    /// Change time.
    pub ctime: Timestamp,
}

impl Content {
    /// What the catalog says of a file's content.
    #[must_use]
    pub fn of(attr: &Attr) -> Self {
        Self { size: attr.size, blocks: attr.blocks, mtime: attr.mtime, ctime: attr.ctime }
    }

    /// Whether nobody has written in between. Blocks are counted anew when the file system gets to them.
    #[must_use]
    pub fn is_still(&self, before: Option<&Self>) -> bool {
        before.is_some_and(|before| {
            (self.size, self.mtime, self.ctime) == (before.size, before.mtime, before.ctime)
        })
    }
}

/// What a look at a tier found, to be merged into the tables.
#[derive(Debug)]
pub struct Observation<'a> {
    /// The directory that was looked at.
    pub place: PlaceId,
    /// When the look began (wall time): rows changed later are left alone.
    pub began: Timestamp,
    /// What was found, and whether this tier is where the name belongs.
    pub found: Vec<Found<'a>>,
    /// Which names the look covered: those missing from `found` are gone from the tier.
    pub scope: Scope<'a>,
    /// Owner, group and modes for what carries none.
    pub defaults: Defaults,
    /// Which attributes the tier can hold: only those replace what the catalog knows.
    pub holds_owner_and_mode: bool,
    /// Directories exist there only by a marker object (Blob): a marker with attributes gets a
    /// replica row, and a file may lie beside a directory of the same name. False for tiers with
    /// real directories, where the place row says all.
    pub markers: bool,
}

/// A name found on a tier.
#[derive(Debug)]
pub struct Found<'a> {
    /// Name and object.
    pub entry: &'a Entry,
    /// How it relates to the rules.
    pub standing: Standing,
}

/// Whether a file found on a tier is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// On its home: it wins over any other tier's.
    Home,
    /// On a tier that may hold it (a home of former rules): shown unless home has the name.
    Elsewhere,
    /// On the tier where new files of its rule go while home is too full: the same, and it stays there until home has room.
    Overflow,
    /// On the tier where files of its rule go that nobody uses (`cold`): the same, and it stays there until it is used.
    Cold,
    /// Rules never place this name on this tier: not shown, counted as shadowed.
    Foreign,
}

/// The names an [`Observation`] speaks about.
#[derive(Debug)]
pub enum Scope<'a> {
    /// Only those found (a page of a listing).
    Found,
    /// This one name.
    Name(&'a [u8]),
    /// The whole directory, in `seen` all names of all pages; the tier's version of it then.
    All {
        /// Every name of every page.
        seen: &'a std::collections::HashSet<Vec<u8>>,
        /// The tier's version of the directory.
        version: Option<Version>,
    },
}

/// For what carries no owner or mode.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permission bits of files.
    pub file_mode: u32,
    /// Permission bits of directories.
    pub dir_mode: u32,
}

impl Defaults {
    /// Whose an object is that was found on a tier.
    #[must_use]
    pub fn ids_of(&self, object: &Object) -> Ids {
        Ids { uid: object.attrs.uid.unwrap_or(self.uid), gid: object.attrs.gid.unwrap_or(self.gid) }
    }
}

/// What an [`Observation`] changed, so that caches can be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Names that now mean something else or nothing: (directory, name, inode they named).
    pub entries: Vec<(Ino, Vec<u8>, Ino)>,
    /// Inodes whose content changed on the tier.
    pub contents: Vec<Ino>,
    /// Names not shown because another tier's wins.
    pub shadowed: u64,
}

/// A tier as the catalog remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierRow {
    /// Row id.
    pub id: TierId,
    /// Name in the config.
    pub name: String,
    /// Where it was.
    pub location: String,
    /// Content of `.tierfs/id`, for directory tiers.
    pub mark: Option<String>,
    /// File-system type it had.
    pub fs_type: Option<String>,
}

/// Sums for `tierstat`, per tier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TierCounts {
    /// Files with a replica of their newest generation here (not staged).
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files staged here.
    pub staged_files: u64,
    /// Their bytes.
    pub staged_bytes: u64,
    /// Of the files staged here: not at home yet.
    pub dirty_files: u64,
    /// Their bytes.
    pub dirty_bytes: u64,
    /// Of the dirty files: open for writing, or never closed.
    pub open_files: u64,
}

/// What still has to reach home in one order domain and waits for the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// The domain.
    pub domain: String,
    /// What it waits for.
    pub waiting: Waiting,
    /// Steps.
    pub steps: u64,
    /// Of them files with new content.
    pub files: u64,
    /// The bytes of that.
    pub bytes: u64,
    /// When the oldest of these files was closed.
    pub oldest: Option<Timestamp>,
    /// The last of the steps.
    pub newest: Seq,
}

/// What a step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Waiting {
    /// Its turn.
    ForMover,
    /// The same, but something earlier in its domain waits for a close or a person.
    Behind,
    /// Another name: nothing is committed under the one it has.
    ForName,
    /// A close: the file is open for writing.
    ForClose,
    /// A person: it is refused for good.
    ForPerson,
}

/// A file whose newest bytes went with a tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostFile {
    /// Position in the list.
    pub id: u64,
    /// Where it was.
    pub path: Key,
    /// Name of the tier that was wiped.
    pub tier: String,
    /// What of it is lost.
    pub bytes: LostBytes,
    /// How many bytes the lost content had.
    pub size: u64,
    /// When the lost content was last changed.
    pub mtime: Timestamp,
    /// When the loss was written down.
    pub lost_at: Timestamp,
}

/// What of a file is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostBytes {
    /// All there was.
    All,
    /// Its newest content; an older one is at home, and is shown again after the next look there.
    Newest,
}

/// What [`Catalog::lose`] did.
#[derive(Debug, Default)]
pub struct Losses {
    /// Names that are gone, so that caches can be told.
    pub observed: Observed,
    /// Files that lost their newest bytes, a line a name.
    pub lost: Vec<LostFile>,
    /// Inodes that lost a copy and have their newest content elsewhere: home is to be told again.
    pub spared: Vec<Ino>,
}
