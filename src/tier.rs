//! A tier: a place bytes live. One small trait, honest [`Capabilities`], one contract suite.
//!
//! Every tier and every decorator behaves the same under this trait; what a tier can't do it says
//! in its capabilities, and policy reads those, never the tier's kind. Tiers know nothing of the
//! catalog, of rules or of FUSE.

pub mod blob;
mod content_id;
mod directory;
mod escape;
mod fault;
mod layer;
mod limit;
mod memory;
mod meter;
mod pace;
mod patience;
mod rate;
mod restricted;
mod retry;
mod table;

pub use content_id::ContentId;
pub use directory::{DirectoryKind, DirectoryOptions, DirectoryTier, Mark, Writing};
pub use fault::{Fault, FaultLayer, Faults, Gate};
pub use layer::{Attempt, Call, Layer, Layered, Operation, Reopen, Repeat, Turn};
pub use limit::{Limit, Limits};
pub use memory::MemoryTier;
pub use meter::{BUCKETS, Meter, OperationCounts, TierMeter};
pub use pace::{Pace, Paced, Piece};
pub use patience::Patience;
pub use rate::Rate;
pub use restricted::Restricted;
pub use retry::{Breaker, Retry, RetryPolicy};
pub use table::Tiers;

use crate::error::{Error, Kind, Result};
use crate::types::{AttrChange, Attrs, Condition, FileKind, Key, Timestamp, Version};
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What a tier can hold and do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Writes, deletes and copies take a [`Condition`] that the tier itself checks atomically.
    pub conditional: bool,
    /// Mode, owner and group survive on the tier.
    pub owner_and_mode: bool,
    /// Grain of the modification times it keeps; `None` if it keeps none that we set.
    pub mtime_grain: Option<Duration>,
    /// Symbolic links.
    pub symlinks: bool,
    /// Several names for one file.
    pub hard_links: bool,
    /// `user.*` extended attributes.
    pub xattrs: bool,
    /// Fifos, sockets and device nodes.
    pub special_files: bool,
    /// Names that differ only in case are different names; elsewhere the second of them is stored under an escaped one.
    pub case_sensitive: bool,
    /// Every name is stored as it is; elsewhere what the store refuses is escaped.
    pub any_name: bool,
    /// An empty directory survives on the tier.
    pub empty_directories: bool,
    /// The tier takes writes at all.
    pub writable: bool,
    /// Its files are not of this machine (NFS, SMB, Lustre, or who knows): written bytes, and what is wrong with them, may wait
    /// here until close(2), and any call may hang.
    pub networked: bool,
}

/// One object or file on a tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// What it is.
    pub kind: FileKind,
    /// Bytes (0 for what has none).
    pub size: u64,
    /// Which copy this is.
    pub version: Version,
    /// When the tier last saw it change.
    pub modified: Timestamp,
    /// What else the tier carries.
    pub attrs: Attrs,
    /// Target of a symlink, where the tier says it without another request.
    pub target: Option<Vec<u8>>,
    /// Device number of a device node.
    pub rdev: u32,
    /// Inode number and link count on the tier itself, where files can have several names.
    pub native: Option<NativeId>,
    /// Whether its bytes can be read.
    pub archive: Archive,
}

/// Whether the bytes of an object can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Archive {
    /// At once.
    #[default]
    No,
    /// Not before it is rehydrated.
    Archived,
    /// Not yet: that is under way.
    Rehydrating,
}

/// Identity of a file on a directory tier: two keys with equal ids are one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NativeId {
    /// `st_ino`.
    pub ino: u64,
    /// `st_nlink`.
    pub nlink: u32,
    /// 512-byte units in use.
    pub blocks: u64,
    /// `st_ctime`.
    pub changed: Timestamp,
}

/// One name in a directory of a tier.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The last component of its key.
    pub name: Vec<u8>,
    /// What is there: an object, or only names below it ([`FileKind::Directory`] with
    /// `version` empty), when no marker or real directory carries attributes.
    pub object: Object,
}

/// Where the next page of a listing starts; opaque.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub String);

/// One page of a directory's entries.
#[derive(Debug, Default)]
pub struct Page {
    /// The entries, each name once over all pages, in no promised order.
    pub entries: Vec<Entry>,
    /// Where to go on; `None` after the last page.
    pub next: Option<Cursor>,
    /// Names that can't be shown (see the tier's documentation); their siblings are fine.
    pub hidden: u64,
}

/// How full a tier is, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All that can be stored here.
    pub total: u64,
    /// What is free for us.
    pub free: u64,
    /// Files that can be stored, and how many of them are free (0: no limit known).
    pub files: u64,
    /// Free of `files`.
    pub files_free: u64,
}

/// Bytes as they arrive.
pub type ByteStream = BoxStream<'static, Result<Bytes>>;

/// A place bytes live.
///
/// Keys name files and directories; a directory listing has one level. No call creates missing
/// parent directories on its own except the writing ones ([`Tier::put`], [`Tier::upload`],
/// [`Tier::copy`]), which do, and never anything under `.tierfs/` unless the key says so.
/// Listings never show `.tierfs` at the root.
#[async_trait]
pub trait Tier: Send + Sync + std::fmt::Debug {
    /// Its name in the config.
    fn name(&self) -> &str;

    /// Where it is, for people and for the identity of hot copies: stable, without secrets.
    fn location(&self) -> String;

    /// What it can hold and do.
    fn capabilities(&self) -> Capabilities;

    /// Whether a copy can carry `attrs` beside its bytes; what is not kept at all costs nothing.
    fn can_carry(&self, attrs: &Attrs) -> bool {
        let _unlimited = attrs;
        true
    }

    /// Asks whether it is there and ours to use.
    ///
    /// # Errors
    /// [`Kind::Absent`] if the root is gone or another's, [`Kind::Denied`], [`Kind::NotFound`] (container missing),
    /// [`Kind::Unavailable`].
    async fn probe(&self) -> Result<()>;

    /// What is under `key`.
    ///
    /// # Errors
    /// [`Kind::NotFound`] only if the tier said so.
    async fn head(&self, key: &Key) -> Result<Object>;

    /// A page of the entries of directory `dir`, at most about `limit`. With `prefix`, only names that start with it.
    ///
    /// # Errors
    /// [`Kind::NotFound`] if a tier with real directories has no such directory; blob tiers answer with an empty page.
    async fn list(&self, dir: &Key, prefix: &[u8], from: Option<Cursor>, limit: usize) -> Result<Page>;

    /// Streams `range` of the bytes of `key`, which must be in version `version`. What of the range
    /// lies beyond the end is left out. A change while it streams ends it with [`Kind::Changed`].
    ///
    /// # Errors
    /// [`Kind::Changed`] if it is another version now, [`Kind::NotFound`] if it is gone, [`Kind::Archived`].
    async fn read(&self, key: &Key, range: Range<u64>, version: &Version) -> Result<ByteStream>;

    /// Makes `key` a file with `bytes` in one atomic step.
    ///
    /// # Errors
    /// [`Kind::Exists`] / [`Kind::Changed`] if `condition` does not hold; then nothing changed.
    async fn put(&self, key: &Key, bytes: Bytes, attrs: &Attrs, condition: &Condition) -> Result<Version>;

    /// Makes `key` a directory, a symlink (`target`) or a special file (`rdev`), as `kind` says.
    ///
    /// # Errors
    /// [`Kind::Exists`], [`Kind::Unsupported`].
    async fn put_special(
        &self,
        key: &Key,
        special: &Special,
        attrs: &Attrs,
        condition: &Condition,
    ) -> Result<Version>;

    /// Starts an upload to `key` of about `size` bytes; invisible until [`Upload::commit`].
    ///
    /// # Errors
    /// As the tier says.
    async fn upload(&self, key: &Key, size: u64) -> Result<Box<dyn Upload>>;

    /// Removes a file, a symlink, an empty directory, or a directory marker.
    ///
    /// # Errors
    /// [`Kind::NotFound`], [`Kind::Changed`], [`Kind::NotEmpty`] (real directories only).
    async fn delete(&self, key: &Key, condition: &Condition) -> Result<()>;

    /// Copies inside the tier without bytes passing through here; atomic at `to`.
    ///
    /// # Errors
    /// [`Kind::Changed`] if `from` is not in `version` or `condition` fails at `to`; [`Kind::Unsupported`].
    async fn copy(
        &self,
        from: &Key,
        version: &Version,
        to: &Key,
        attrs: &Attrs,
        condition: &Condition,
    ) -> Result<Version>;

    /// Replaces the attributes of `key`, which must be in `version`; answers the new version.
    ///
    /// # Errors
    /// [`Kind::Changed`], [`Kind::NotFound`], [`Kind::Unsupported`].
    async fn set_attrs(&self, key: &Key, version: &Version, attrs: &Attrs) -> Result<Version>;

    /// Asks for an archived object to be made readable again, which takes hours; one that is on its way already is fine.
    ///
    /// # Errors
    /// [`Kind::NotFound`]; [`Kind::Unsupported`] where nothing is ever archived.
    async fn rehydrate(&self, key: &Key) -> Result<()> {
        Err(Error::new(Kind::Unsupported, format!("{}: nothing is archived there: {key}", self.name())))
    }

    /// How full it is.
    ///
    /// # Errors
    /// As the tier says.
    async fn usage(&self) -> Result<Usage>;

    /// The same tier as files of this machine, if it is one.
    fn resident(&self) -> Option<&dyn Resident>;

    /// The pace of background work on it, if it has one.
    fn pace(&self) -> Option<&Arc<Pace>> {
        None
    }
}

impl dyn Tier {
    /// Waits until a piece of background work may begin that moves so many bytes with one call.
    pub async fn begin_piece(&self, bytes: u64) -> Option<Piece> {
        match self.pace() {
            Some(pace) => Some(pace.begin(bytes).await),
            None => None,
        }
    }
}

/// What [`Tier::put_special`] makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Special {
    /// A directory (on a blob tier its marker).
    Directory,
    /// A symbolic link to these bytes.
    Symlink(Vec<u8>),
    /// A fifo, socket or device node.
    Node {
        /// Which of them.
        kind: FileKind,
        /// Device number.
        rdev: u32,
    },
}

/// Most blocks that an upload may have.
pub const BLOCKS_MAX: u64 = 50_000;

/// Bytes on their way to a tier, invisible until committed. Dropped uncommitted, it leaves nothing visible.
#[async_trait]
pub trait Upload: Send + Sync {
    /// How many bytes each block but the last should have.
    fn block_size(&self) -> u64;

    /// Takes up what an earlier upload of `content` to the same key left behind: the blocks that are there already, each with
    /// its size. Called before the first block; a tier that keeps nothing has none.
    ///
    /// # Errors
    /// As the tier says.
    async fn resume(&self, content: ContentId) -> Result<BTreeMap<u64, u64>> {
        let _ = content;
        Ok(BTreeMap::new())
    }

    /// The sizes of the blocks that make up what lies under the key in `version`, in order, where an upload can take them over from
    /// there; none elsewhere. Called before anything else.
    ///
    /// # Errors
    /// As the tier says.
    async fn blocks_there(&self, version: &Version) -> Result<Vec<u64>> {
        let _ = version;
        Ok(Vec::new())
    }

    /// Block number `index` is block number `there` of those, as it is, and not sent. The commit then needs the condition that `version` is
    /// still there.
    fn keep_block(&self, index: u64, there: usize) {
        let _ = (index, there);
    }

    /// Sends block number `index` (from 0); blocks may go in parallel and in any order.
    ///
    /// # Errors
    /// As the tier says; a block can be sent again.
    async fn put_block(&self, index: u64, bytes: Bytes) -> Result<()>;

    /// Makes what was sent durable, so that little is left for `commit`, during which others may wait. A tier where what was
    /// sent is durable has nothing to do.
    ///
    /// # Errors
    /// As the tier says.
    async fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// Makes blocks `0..blocks` the content of the key in one atomic step. A retry after a lost
    /// reply recognises its own earlier success by `attrs.write_id`.
    ///
    /// # Errors
    /// [`Kind::Exists`] / [`Kind::Changed`] if `condition` does not hold; then nothing changed.
    async fn commit(&self, blocks: u64, attrs: &Attrs, condition: &Condition) -> Result<Version>;
}

/// How a native rename treats its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum RenameMode {
    /// Over whatever is there, as rename(2).
    Replace,
    /// Fails with [`Kind::Exists`] if something is there.
    NoReplace,
    /// Swaps the two.
    Exchange,
}

/// How a native file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// `O_RDONLY`.
    Read,
    /// `O_RDWR`.
    ReadWrite,
}

/// A tier whose bytes are files of this machine: everything is a short system call, relative to
/// the root's descriptor and resolved beneath it without following any symlink.
pub trait Resident: Send + Sync {
    /// Makes a new file and opens it for reading and writing. Parents must exist.
    ///
    /// # Errors
    /// [`Kind::Exists`], [`Kind::NotFound`] (no parent), [`Kind::NoSpace`].
    fn create(&self, key: &Key, mode: u32) -> Result<File>;

    /// Opens an existing regular file (never a symlink, fifo or device).
    ///
    /// # Errors
    /// [`Kind::NotFound`], [`Kind::Denied`].
    fn open(&self, key: &Key, access: Access) -> Result<File>;

    /// What is under `key`, without following a symlink.
    ///
    /// # Errors
    /// [`Kind::NotFound`].
    fn stat(&self, key: &Key) -> Result<Object>;

    /// What `file`, opened here, is now.
    ///
    /// # Errors
    /// As fstat(2).
    fn stat_open(&self, file: &File) -> Result<Object>;

    /// What close(2) says of the writes so far, on a tier with [`Capabilities::networked`]. It may take
    /// as long as they take to arrive.
    ///
    /// # Errors
    /// As close(2): what went wrong with writes that had been taken.
    fn report_writes(&self, file: &File) -> Result<()>;

    /// Makes a directory. Its parent must exist.
    ///
    /// # Errors
    /// [`Kind::Exists`], [`Kind::NotFound`].
    fn mkdir(&self, key: &Key, mode: u32) -> Result<()>;

    /// Makes a directory and the missing ones above it (mode 0755); fine if it is there.
    ///
    /// # Errors
    /// [`Kind::NotDirectory`] if something else is in the way.
    fn ensure_directory(&self, key: &Key) -> Result<()>;

    /// Makes a symlink, fifo, socket or device node.
    ///
    /// # Errors
    /// [`Kind::Exists`], [`Kind::Unsupported`].
    fn make(&self, key: &Key, special: &Special, mode: u32) -> Result<()>;

    /// Gives the file at `from` a second name.
    ///
    /// # Errors
    /// [`Kind::Exists`], [`Kind::Unsupported`].
    fn link(&self, from: &Key, to: &Key) -> Result<()>;

    /// rename(2) inside the tier.
    ///
    /// # Errors
    /// As renameat2(2).
    fn rename(&self, from: &Key, to: &Key, mode: RenameMode) -> Result<()>;

    /// unlink(2): anything but a directory.
    ///
    /// # Errors
    /// [`Kind::NotFound`].
    fn unlink(&self, key: &Key) -> Result<()>;

    /// rmdir(2).
    ///
    /// # Errors
    /// [`Kind::NotEmpty`], [`Kind::NotFound`].
    fn rmdir(&self, key: &Key) -> Result<()>;

    /// Changes attributes of what is under `key` as far as the tier can hold them.
    ///
    /// # Errors
    /// [`Kind::NotPermitted`] where the tier refuses a change it should be able to hold.
    fn set_attr(&self, key: &Key, change: &AttrChange) -> Result<()>;

    /// The same on an open file.
    ///
    /// # Errors
    /// As [`Resident::set_attr`].
    fn set_attr_open(&self, file: &File, change: &AttrChange) -> Result<()>;

    /// Sets (`Some`) or removes (`None`) an extended attribute. Symlinks and special files refuse `user.*`.
    ///
    /// # Errors
    /// [`Kind::Unsupported`], [`Kind::NoAttribute`].
    fn set_xattr(&self, key: &Key, name: &[u8], value: Option<&[u8]>) -> Result<()>;

    /// All extended attributes that programs may see.
    ///
    /// # Errors
    /// [`Kind::Unsupported`].
    fn xattrs(&self, key: &Key) -> Result<Vec<(Vec<u8>, Vec<u8>)>>;

    /// Makes the directory's entries durable (fsync of the directory).
    ///
    /// # Errors
    /// As fsync(2).
    fn sync_directory(&self, key: &Key) -> Result<()>;

    /// A page of a directory, as [`Tier::list`]; the sync twin for callers that must not wait.
    ///
    /// # Errors
    /// [`Kind::NotFound`], [`Kind::NotDirectory`].
    fn read_directory(&self, dir: &Key, from: Option<Cursor>, limit: usize) -> Result<Page>;

    /// Which file system this is, so that two tiers on one are known: `st_dev` of the root
    /// when it was last there, 0 if it never was.
    fn device(&self) -> u64;

    /// Path of `key` for other programs of this machine.
    ///
    /// # Errors
    /// Where names have other spellings: what a look at them says.
    fn native_path(&self, key: &Key) -> Result<PathBuf>;

    /// How full it is, within the configured capacity.
    ///
    /// # Errors
    /// As statfs(2).
    fn usage(&self) -> Result<Usage>;

    /// Tells how many bytes tierfs itself has stored here, so that a configured capacity is
    /// counted against them; 0 (never told) counts nothing.
    fn note_used(&self, bytes: u64);
}

/// The answer of a tier that lost its root.
pub(crate) fn absent(name: &str) -> crate::error::Error {
    crate::error::Error::new(
        Kind::Absent,
        format!(
            "tier {name} is absent: its root is not the one known (not mounted?); nothing is written there"
        ),
    )
}
