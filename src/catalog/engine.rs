//! The SQL engine under the verbs: a thin driver. Knows SQLite; must not know what the rows mean.

mod batch;
mod group;
mod open;

use super::schema::Schema;
use super::tables::{State, Tx};
use crate::clock::Clock;
use crate::error::{Error, Kind, Result};
use crate::types::Timestamp;
use batch::{Alarm, Commits, VERBS_MAX, nested};
use group::Group;
use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode};
use std::cell::{Cell, RefCell};
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

/// What tells a change again if its rows are lost in a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Basis {
    /// A directory tier, on which it was made first.
    Tier,
    /// Nothing but the rows.
    Rows,
}

impl Basis {
    /// The tier, if it was told; else the rows.
    pub(super) fn told(tier: bool) -> Self {
        if tier { Self::Tier } else { Self::Rows }
    }
}

/// One connection, its caches, and what makes its rows durable.
pub(super) struct Engine {
    shared: Arc<Shared>,
    alarm: Alarm,
    clock: Arc<dyn Clock>,
    queued: Arc<Notify>,
    changes: AtomicU64,
    wal: Option<Wal>,
    // Dropped last: who waits for it finds the file closed.
    _lock: Option<File>,
}

/// What the thread that commits batches shares.
struct Shared {
    inner: Mutex<Inner>,
}

struct Inner {
    connection: Connection,
    state: RefCell<State>,
    /// Verbs in the transaction that is left open; 0: none is.
    batched: Cell<u32>,
}

impl Inner {
    fn begin(&self, clock: &dyn Clock) -> Tx<'_> {
        Tx::new(&self.connection, &self.state, clock.wall())
    }

    /// Commits the open batch. If that fails, all of it is undone: the tiers tell it again.
    fn commit_batch(&self, tx: &Tx<'_>) -> Result<()> {
        if self.batched.replace(0) == 0 || tx.is_idle() {
            return Ok(());
        }
        tx.execute("COMMIT", []).map(drop).inspect_err(|_| {
            tx.roll_back();
            tx.forget_all();
        })
    }
}

impl Commits for Shared {
    fn commit_batch(&self) {
        let inner = self.inner.lock();
        // Commits make no row of their own, so no clock is needed.
        let tx = Tx::new(&inner.connection, &inner.state, Timestamp::default());
        if let Err(error) = inner.commit_batch(&tx) {
            tracing::error!(%error, "catalog rows were not written; they come back from the tiers");
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.commit_batch();
    }
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
        let inner = Inner { connection, state: RefCell::default(), batched: Cell::new(0) };
        let shared = Arc::new(Shared { inner: Mutex::new(inner) });
        Ok(Self {
            alarm: Alarm::start(Arc::downgrade(&shared))?,
            shared,
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
        let inner = self.shared.inner.lock();
        act(&inner.begin(&*self.clock))
    }

    /// One transaction: all of it or nothing, caches included. Relaxed ones before it are committed too.
    pub(super) fn write<T>(&self, act: impl FnOnce(&Tx<'_>) -> Result<T>) -> Result<T> {
        let inner = self.shared.inner.lock();
        let tx = inner.begin(&*self.clock);
        let answer = if inner.batched.get() > 0 && !tx.is_idle() {
            let answer = nested(&tx, act)?;
            inner.commit_batch(&tx)?;
            answer
        } else {
            tx.execute("BEGIN IMMEDIATE", [])?;
            let open = Open { tx: &tx };
            let answer = act(&tx)?;
            tx.execute("COMMIT", [])?;
            std::mem::forget(open);
            answer
        };
        let wake = tx.wakes();
        drop(inner);
        self.changed(wake);
        Ok(answer)
    }

    /// A transaction whose loss in a crash its tier makes good: it may be committed some milliseconds
    /// later, with others, but in order. One that makes a step runnable is committed at once.
    pub(super) fn relaxed<T>(&self, act: impl FnOnce(&Tx<'_>) -> Result<T>) -> Result<T> {
        let inner = self.shared.inner.lock();
        let tx = inner.begin(&*self.clock);
        if tx.is_idle() {
            tx.execute("BEGIN IMMEDIATE", [])?;
            inner.batched.set(0);
        }
        let answer = nested(&tx, act);
        let verbs = inner.batched.get() + 1;
        inner.batched.set(verbs);
        let wake = tx.wakes();
        if wake || verbs >= VERBS_MAX {
            inner.commit_batch(&tx)?;
        }
        drop(inner);
        if verbs == 1 {
            self.alarm.set();
        }
        let answer = answer?;
        self.changed(wake);
        Ok(answer)
    }

    /// As `basis` says: see [`Basis`].
    pub(super) fn apply<T>(&self, basis: Basis, act: impl FnOnce(&Tx<'_>) -> Result<T>) -> Result<T> {
        match basis {
            Basis::Tier => self.relaxed(act),
            Basis::Rows => self.write(act),
        }
    }

    fn changed(&self, wake: bool) {
        self.changes.fetch_add(1, Ordering::Release);
        if wake {
            self.queued.notify_waiters();
            // Also kept for the one who is not waiting yet.
            self.queued.notify_one();
        }
    }

    /// A transaction that power loss can't undo once this returns.
    pub(super) fn durable<T>(&self, act: impl FnOnce(&Tx<'_>) -> Result<T>) -> Result<T> {
        let answer = self.write(act)?;
        self.sync()?;
        Ok(answer)
    }

    /// Makes all transactions so far durable. Holds no lock over the fsync: commits are in the WAL
    /// when this begins, and a checkpoint syncs before it lets the WAL be overwritten.
    pub(super) fn sync(&self) -> Result<()> {
        self.flush_batch()?;
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

    /// Commits what relaxed transactions left open.
    pub(super) fn flush_batch(&self) -> Result<()> {
        let inner = self.shared.inner.lock();
        inner.commit_batch(&inner.begin(&*self.clock))
    }

    /// Copies the WAL into the database and syncs that.
    fn checkpoint(&self) -> Result<()> {
        self.flush_batch()?;
        let inner = self.shared.inner.lock();
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
            // Never ENOENT: the catalog's own trouble says nothing of a file.
            Some(_) => Kind::Os(libc::EIO),
            // The row is not of the type it should be.
            None => Kind::Corrupt,
        };
        Self::new(kind, "catalog").with_source(error)
    }
}
