//! The verbs. Signatures are the contract with vfs and mover; one family a file.

mod attrs;
mod away;
mod backlog;
mod below;
mod bytes;
mod commit;
mod create;
mod doubt;
mod give_up;
mod heat;
mod import;
mod inherit;
mod link;
mod lose;
mod moved;
mod notes;
mod observe;
mod pins;
mod places;
mod preserve;
mod read;
mod rename;
mod steps;
mod tiers;
mod unlink;
mod vanish;

#[cfg(test)]
mod tests;

pub use bytes::Wrote;
pub use preserve::{copied_name, copied_partial_name};

use super::engine::{Engine, Location, ids, open};
use super::schema;
use crate::catalog::{Inode, WriteState};
use crate::clock::Clock;
use crate::error::Result;
use crate::types::{Attr, FileKind, Generation, Ino, Timestamp};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio::sync::Notify;

/// The catalog. Cheap to share; all verbs are short and synchronous.
#[derive(Debug)]
pub struct Catalog {
    pub(super) engine: Engine,
    id: String,
    clock: Arc<dyn Clock>,
    counted: Mutex<Option<read::Counted>>,
    added: Mutex<Option<backlog::Added>>,
    /// Renames of directories since it was opened.
    directory_moves: AtomicU64,
    /// Told when a file is wanted at home.
    returning: Arc<Notify>,
}

/// Row id of an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntentId(pub i64);

/// Key of a stage file below the stage place: fan-out by inode, then inode and generation.
pub fn stage_name(ino: Ino, generation: Generation) -> Vec<u8> {
    format!("{:02x}/{}-{}", ino.0 & 0xff, ino.0, generation.0).into_bytes()
}

/// End of the name of a stage file that has only some of the bytes of its generation: a map beside it says which, and the
/// others are those of a generation that home has.
const PARTIAL: &[u8] = b".partial";

/// [`stage_name`] of a file that is to be partly staged.
#[must_use]
pub fn partial_name(ino: Ino, generation: Generation) -> Vec<u8> {
    [&stage_name(ino, generation), PARTIAL].concat()
}

/// Bytes that a partly staged file of this size takes.
fn staged_of(size: i64, blocks: i64) -> i64 {
    blocks.saturating_mul(512).min(size)
}

/// Whether the stage file of this name has only some of the bytes of its generation.
#[must_use]
pub fn is_partial(name: &[u8]) -> bool {
    name.ends_with(PARTIAL)
}

impl Catalog {
    /// Opens or makes the catalog at `location`, migrating an older schema after a copy is kept.
    ///
    /// # Errors
    /// `Invalid` if its schema is newer, `Corrupt`, `Busy` if another daemon holds it.
    pub fn open(location: &Location, clock: Arc<dyn Clock>) -> Result<Self> {
        let engine = Engine::open(location, clock.clone(), &schema::CURRENT)?;
        let id = first_rows(&engine).map_err(|error| open::told(location, error))?;
        if let Location::Sqlite(path) = location {
            ids::add(path, &id)?;
        }
        Ok(Self {
            engine,
            id,
            clock,
            counted: Mutex::default(),
            added: Mutex::default(),
            directory_moves: AtomicU64::new(0),
            returning: Arc::default(),
        })
    }

    /// Ids of the catalogs that were at `path` before the last one, oldest first: stages of theirs may be left.
    ///
    /// # Errors
    /// If they can't be read.
    pub fn former_ids(path: &Path) -> Result<Vec<String>> {
        let mut known = ids::known(path)?;
        known.pop();
        Ok(known)
    }

    /// Ids of all catalogs that were at `path`, the last one's last.
    ///
    /// # Errors
    /// If they can't be read.
    pub fn known_ids(path: &Path) -> Result<Vec<String>> {
        ids::known(path)
    }

    /// No stage of the catalog with this id is left.
    ///
    /// # Errors
    /// If that can't be written down.
    pub fn forget_id(path: &Path, id: &str) -> Result<()> {
        ids::remove(path, id)
    }

    /// Random name of this catalog, made once; names its stage directories.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Wakes whoever waits whenever a step is queued or becomes runnable.
    pub fn queued(&self) -> Arc<Notify> {
        self.engine.queued()
    }

    /// Makes all rows so far durable (one fsync serves all who wait).
    ///
    /// # Errors
    /// As the disk under the catalog says.
    pub fn sync(&self) -> Result<()> {
        self.engine.sync()
    }
}

/// The root and the id, made once; answers the id.
fn first_rows(engine: &Engine) -> Result<String> {
    engine.write(|tx| {
        if tx.find_inode(Ino::ROOT)?.is_none() {
            tx.insert_inode(&root(tx.now()))?;
        }
        let fresh = format!("{:032x}", rand::random::<u128>());
        tx.execute("INSERT INTO meta (key, value) VALUES ('id', ?1) ON CONFLICT DO NOTHING", [fresh])?;
        let id = tx.first("SELECT value FROM meta WHERE key = 'id'", [], |row| row.get(0))?;
        id.ok_or_else(|| super::tables::corrupt("the catalog has no id"))
    })
}

fn root(now: Timestamp) -> Inode {
    Inode {
        attr: Attr {
            ino: Ino::ROOT,
            kind: FileKind::Directory,
            mode: 0o755,
            uid: 0,
            gid: 0,
            nlink: 2,
            size: 0,
            blocks: 0,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            rdev: 0,
        },
        generation: Generation(1),
        attr_generation: 1,
        state: WriteState::Clean,
        target: None,
        away: None,
    }
}
