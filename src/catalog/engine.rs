//! The SQL engine under the verbs: a thin driver. Knows SQLite; must not know what the rows mean.

mod batch;
mod group;
pub(super) mod ids;
pub(super) mod open;

use super::schema::Schema;
use super::tables::{State, Tx, YoungFile};
use crate::clock::Clock;
use crate::error::{Error, Kind, Result};
use crate::types::Timestamp;
use batch::{Alarm, Commits, VERBS_MAX, Waiting, nested};
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
    queued: Arc<Notify>,
    changes: AtomicU64,
    wal: Option<Wal>,
    // Dropped last: who waits for it finds the file closed.
    _lock: Option<File>,
}

/// What the thread that commits batches shares. Lock order: tables, then state.
struct Shared {
    tables: Mutex<Tables>,
    state: Mutex<RefCell<State>>,
    clock: Arc<dyn Clock>,
    /// The last rows could not be written: the disk is full.
    troubled: AtomicBool,
}

struct Tables {
    connection: Connection,
    /// Verbs in the transaction that is left open; 0: none is.
    batched: Cell<u32>,
    /// Young files whose rows are in it, and in no commit yet.
    uncommitted: RefCell<Vec<YoungFile>>,
}

impl Tables {
    /// A look or a change, over what is remembered in `state`.
    fn tx<'a>(&'a self, state: &'a RefCell<State>, clock: &dyn Clock) -> Tx<'a> {
        Tx::new(&self.connection, state, clock.wall())
    }

    /// Opens the batch if none is.
    fn begin_batch(&self, tx: &Tx<'_>) -> Result<()> {
        if tx.is_idle() {
            tx.execute("BEGIN IMMEDIATE", [])?;
            self.batched.set(0);
        }
        Ok(())
    }

    /// One more verb in the batch, undone alone if it fails; answers how many there are.
    fn in_batch<T>(&self, tx: &Tx<'_>, act: impl FnOnce(&Tx<'_>) -> Result<T>) -> Result<(Result<T>, u32)> {
        self.begin_batch(tx)?;
        let answer = nested(tx, act);
        let verbs = self.batched.get() + 1;
        self.batched.set(verbs);
        Ok((answer, verbs))
    }

    /// The same where nothing else is in the batch: no savepoint, which would copy every page it touches.
    fn in_own_batch<T>(&self, tx: &Tx<'_>, act: impl FnOnce(&Tx<'_>) -> Result<T>) -> Result<T> {
        if !tx.is_idle() {
            return self.in_batch(tx, act)?.0;
        }
        self.begin_batch(tx)?;
        self.batched.set(1);
        act(tx)
    }

    /// Writes young files down, so that the tables say everything.
    fn write_young(&self, tx: &Tx<'_>, state: &RefCell<State>) -> Result<()> {
        let young = state.borrow().young.snapshot();
        if young.is_empty() {
            return Ok(());
        }
        self.in_batch(tx, |tx| tx.write_young(&young))?.0?;
        state.borrow_mut().young.written(&young);
        self.uncommitted.borrow_mut().extend(young);
        Ok(())
    }

    /// The batch is undone: what was written down with it is young again.
    fn undone(&self, state: &RefCell<State>) {
        self.batched.set(0);
        state.borrow_mut().young.restore(self.uncommitted.take());
    }

    /// Commits the open batch. If that fails, all of it is undone: the tiers tell it again.
    fn commit_batch(&self, tx: &Tx<'_>) -> Result<()> {
        if self.batched.replace(0) == 0 || tx.is_idle() {
            return Ok(());
        }
        let committed = tx.execute("COMMIT", []).map(drop).inspect_err(|_| {
            tx.roll_back();
            tx.forget_all();
        });
        if committed.is_ok() {
            self.uncommitted.take();
        }
        committed
    }
}

impl Shared {
    /// Writes young files down and commits, while new ones may come: their directories' state is not held meanwhile.
    fn commit_aside(&self) -> Result<Waiting> {
        let tables = self.tables.lock();
        let young = self.state.lock().borrow().young.snapshot();
        let aside = RefCell::new(State::small());
        let tx = tables.tx(&aside, &*self.clock);
        let written = match young.is_empty() {
            true => Ok(()),
            false => tables.in_own_batch(&tx, |tx| tx.write_young(&young)),
        };
        if let Err(error) = written.and_then(|()| tables.commit_batch(&tx)) {
            tx.roll_back();
            let state = self.state.lock();
            state.borrow_mut().forget();
            tables.undone(&state);
            return Err(error);
        }
        if !young.is_empty() {
            self.tell(None);
        }
        let state = self.state.lock();
        let mut state = state.borrow_mut();
        state.young.written(&young);
        Ok(if state.young.is_empty() { Waiting::Nothing } else { Waiting::Young })
    }
}

impl Shared {
    /// Remembers whether the disk takes rows.
    fn noted<T>(&self, done: Result<T>) -> Result<T> {
        match &done {
            Ok(_) if self.troubled.load(Ordering::Relaxed) => self.tell(None),
            Err(error) if error.kind() == Kind::NoSpace => self.tell(Some(error)),
            _ => {}
        }
        done
    }

    /// Says once that rows can't be written, and once that they can again.
    fn tell(&self, trouble: Option<&Error>) {
        match trouble {
            Some(error) if !self.troubled.swap(true, Ordering::Relaxed) => {
                tracing::error!(%error, "catalog rows can't be written; they are kept in memory, or come back from the tiers");
            }
            None if self.troubled.swap(false, Ordering::Relaxed) => {
                tracing::info!("catalog rows are written again");
            }
            _ => {}
        }
    }
}

impl Commits for Shared {
    fn commit_batch(&self) -> Waiting {
        self.commit_aside().unwrap_or_else(|error| {
            self.tell(Some(&error));
            Waiting::Trouble
        })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        Commits::commit_batch(&*self.shared);
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
        let opened = connection.execute_batch(
            "INSERT INTO meta (key, value) VALUES ('opened', 1)
             ON CONFLICT DO UPDATE SET value = value + 1",
        );
        opened.map_err(|error| open::told(location, error.into()))?;
        let wal = match location {
            Location::Memory => None,
            Location::Sqlite(path) => {
                open::sync_parent(path)?;
                let file = File::open(open::beside(path, "-wal"))?;
                Some(Wal { file, group: Group::default(), suspect: AtomicBool::new(false) })
            }
        };
        let tables =
            Mutex::new(Tables { connection, batched: Cell::new(0), uncommitted: RefCell::default() });
        let shared =
            Arc::new(Shared { tables, state: Mutex::default(), clock, troubled: AtomicBool::new(false) });
        Ok(Self {
            alarm: Alarm::start(Arc::downgrade(&shared))?,
            shared,
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

    /// Looks at what is remembered only; `None` if that does not tell.
    pub(super) fn quick<T>(&self, look: impl FnOnce(&mut State) -> Option<T>) -> Option<T> {
        look(&mut self.shared.state.lock().borrow_mut())
    }

    /// Changes a young file, or makes one: its rows are written down some milliseconds later. `None` if that can't be.
    pub(super) fn quick_change<T>(&self, act: impl FnOnce(&mut State, Timestamp) -> Option<T>) -> Option<T> {
        let state = self.shared.state.lock();
        let first = state.borrow().young.is_empty();
        let answer = act(&mut state.borrow_mut(), self.shared.clock.wall())?;
        drop(state);
        if first {
            self.alarm.set();
        }
        self.changed(false);
        Some(answer)
    }

    /// Until this is dropped no look and no change is made, and no batch is committed: only what is quick.
    #[cfg(test)]
    pub(super) fn hold_tables(&self) -> impl Drop + '_ {
        self.shared.tables.lock()
    }

    /// Runs with both locks held and nothing young left.
    fn locked<T>(&self, act: impl FnOnce(&Tables, &Tx<'_>, Result<()>) -> Result<T>) -> Result<T> {
        let tables = self.shared.tables.lock();
        let state = self.shared.state.lock();
        let tx = tables.tx(&state, &*self.shared.clock);
        let written = tables.write_young(&tx, &state);
        let answer = act(&tables, &tx, written);
        if tx.is_idle() {
            // Committed, or undone.
            tables.undone(&state);
        }
        answer
    }

    /// Looks. The locks make several statements one view.
    pub(super) fn read<T>(&self, act: impl FnOnce(&Tx<'_>) -> Result<T>) -> Result<T> {
        self.locked(|_, tx, written| {
            if let Err(error) = &written {
                self.shared.tell(Some(error));
            }
            act(tx)
        })
    }

    /// One transaction: all of it or nothing, caches included. Relaxed ones before it are committed too.
    pub(super) fn write<T>(&self, act: impl FnOnce(&Tx<'_>) -> Result<T>) -> Result<T> {
        let written = self.locked(|tables, tx, written| {
            written?;
            let answer = if tables.batched.get() > 0 && !tx.is_idle() {
                let answer = nested(tx, act)?;
                tables.commit_batch(tx)?;
                answer
            } else {
                tx.execute("BEGIN IMMEDIATE", [])?;
                let open = Open { tx };
                let answer = act(tx)?;
                tx.execute("COMMIT", [])?;
                std::mem::forget(open);
                answer
            };
            Ok((answer, tx.wakes()))
        });
        let (answer, wake) = self.shared.noted(written)?;
        self.changed(wake);
        Ok(answer)
    }

    /// A transaction whose loss in a crash its tier makes good: it may be committed some milliseconds
    /// later, with others, but in order. One that makes a step runnable is committed at once.
    pub(super) fn relaxed<T>(&self, act: impl FnOnce(&Tx<'_>) -> Result<T>) -> Result<T> {
        // What could not be committed later must be refused now.
        let at_once = self.shared.troubled.load(Ordering::Relaxed);
        let done = self.locked(|tables, tx, written| {
            written?;
            let (answer, verbs) = tables.in_batch(tx, act)?;
            let wake = tx.wakes();
            if wake || at_once || verbs >= VERBS_MAX {
                tables.commit_batch(tx)?;
            }
            Ok((answer, verbs, wake))
        });
        let (answer, verbs, wake) = if at_once { self.shared.noted(done)? } else { done? };
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
        self.locked(|tables, tx, written| written.and_then(|()| tables.commit_batch(tx)))
    }

    /// Copies the WAL into the database and syncs that.
    fn checkpoint(&self) -> Result<()> {
        self.flush_batch()?;
        let tables = self.shared.tables.lock();
        let blocked: i64 =
            tables.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
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
        let code = error.sqlite_error().map(|error| error.extended_code);
        let kind = match error.sqlite_error_code() {
            // The file ends before its last page.
            Some(_) if code == Some(rusqlite::ffi::SQLITE_IOERR_SHORT_READ) => Kind::Corrupt,
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
