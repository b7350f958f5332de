//! The SQL engine under the verbs: a thin driver. Knows SQLite; must not know what the rows mean.

mod group;
mod open;

use super::schema::Schema;
use super::tables::{State, Tx};
use crate::clock::Clock;
use crate::error::{Error, Kind, Result};
use group::Group;
use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode};
use std::cell::RefCell;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::Notify;

/// Where a catalog lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// Nowhere: forgotten at unmount (tests, read-only mounts).
    Memory,
}

/// One connection, its caches, and what makes its rows durable.
pub(super) struct Engine {
    inner: Mutex<Inner>,
    clock: Arc<dyn Clock>,
    queued: Arc<Notify>,
    changes: AtomicU64,
    wal: Option<Wal>,
    // Dropped last: who waits for it finds the file closed.
    _lock: Option<File>,
}

struct Inner {
    connection: Connection,
    state: RefCell<State>,
}

struct Wal {
    file: File,
    group: Group,
    // A sync of it failed: pages may be clean in memory and missing on disk.
    suspect: AtomicBool,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Engine {
    pub(super) fn open(location: &Location, clock: Arc<dyn Clock>, schema: &Schema) -> Result<Self> {
        let (connection, lock) = match location {
            Location::Memory => {
                let connection = Connection::open_in_memory()?;
                open::configure(&connection)?;
                open::create(&connection, schema)?;
                (connection, None)
            }
            Location::Sqlite(path) => {
                let lock = open::lock(path)?;
                (open::connect(path, schema)?, Some(lock))
            }
        };
        // Also makes the WAL exist, which the first sync needs.
        connection.execute_batch(
            "INSERT INTO meta (key, value) VALUES ('opened', 1)
             ON CONFLICT DO UPDATE SET value = value + 1",
        )?;
        let wal = match location {
            Location::Memory => None,
            Location::Sqlite(path) => {
                open::sync_parent(path)?;
                let file = File::open(open::beside(path, "-wal"))?;
                Some(Wal { file, group: Group::default(), suspect: AtomicBool::new(false) })
            }
        };
        Ok(Self {
            inner: Mutex::new(Inner { connection, state: RefCell::default() }),
            clock,
            queued: Arc::default(),
            changes: AtomicU64::new(0),
            wal,
            _lock: lock,
        })
    }

    /// Wakes whoever waits for steps.
    pub(super) fn queued(&self) -> Arc<Notify> {
        Arc::clone(&self.queued)
    }

    /// How many transactions changed something: equal numbers mean equal rows.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Looks. The lock makes several statements one view.
    pub(super) fn read<T>(&self, act: impl FnOnce(&Tx<'_>) -> Result<T>) -> Result<T> {
        let inner = self.inner.lock();
        act(&Tx::new(&inner.connection, &inner.state, self.clock.wall()))
    }

    /// One transaction: all of it or nothing, caches included.
    pub(super) fn write<T>(&self, act: impl FnOnce(&Tx<'_>) -> Result<T>) -> Result<T> {
        let inner = self.inner.lock();
        let tx = Tx::new(&inner.connection, &inner.state, self.clock.wall());
        tx.execute("BEGIN IMMEDIATE", [])?;
        let open = Open { tx: &tx };
        let answer = act(&tx)?;
        tx.execute("COMMIT", [])?;
        std::mem::forget(open);
        self.changes.fetch_add(1, Ordering::Release);
        let wake = tx.wakes();
        drop(inner);
        if wake {
            self.queued.notify_waiters();
            // Also kept for the one who is not waiting yet.
            self.queued.notify_one();
        }
        Ok(answer)
    }

    /// A transaction that power loss can't undo once this returns.
    pub(super) fn durable<T>(&self, act: impl FnOnce(&Tx<'_>) -> Result<T>) -> Result<T> {
        let answer = self.write(act)?;
        self.sync()?;
        Ok(answer)
    }

    /// Makes all transactions so far durable. Holds no lock over the fsync: commits are in the WAL
    /// when `write` returns, and a checkpoint syncs before it lets the WAL be overwritten.
    pub(super) fn sync(&self) -> Result<()> {
        let Some(wal) = &self.wal else { return Ok(()) };
        wal.group.run(|| {
            if wal.suspect.load(Ordering::Acquire) {
                self.checkpoint()?;
                wal.suspect.store(false, Ordering::Release);
                return Ok(());
            }
            wal.file.sync_data().map_err(|e| {
                wal.suspect.store(true, Ordering::Release);
                Error::from(e).context("can't sync the catalog")
            })
        })
    }

    /// Copies the WAL into the database and syncs that.
    fn checkpoint(&self) -> Result<()> {
        let inner = self.inner.lock();
        let blocked: i64 =
            inner.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if blocked != 0 {
            return Err(Error::new(Kind::Busy, "can't checkpoint the catalog: it is being read"));
        }
        Ok(())
    }
}

/// A transaction that is undone unless forgotten, also when the act panics.
struct Open<'a> {
    tx: &'a Tx<'a>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.tx.roll_back();
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        let kind = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Kind::NoSpace,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Kind::Corrupt,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Kind::Busy,
            Some(ErrorCode::ReadOnly) => Kind::ReadOnly,
            Some(ErrorCode::PermissionDenied) => Kind::Denied,
            Some(ErrorCode::CannotOpen) => Kind::NotFound,
            Some(_) => Kind::Os(libc::EIO),
            // The row is not of the type it should be.
            None => Kind::Corrupt,
        };
        Self::new(kind, "catalog").with_source(error)
    }
}
