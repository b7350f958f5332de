//! The tables as functions: one row in, one row out, plus the caches over them. Knows SQL; the
//! verbs above decide, this only keeps rows and caches true.

mod dentries;
mod directories;
mod inodes;
mod names;
mod places;
mod replicas;
mod steps;
mod young;

use crate::catalog::Place;
use crate::error::{Error, Kind, Result};
use crate::types::{Timestamp, Version};
use directories::Directories;
use lru::LruCache;
use names::Names;
use rusqlite::{Connection, OptionalExtension, Params, Row};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

pub(super) use inodes::InodeFilter;
pub(super) use places::PlaceRow;
pub(super) use replicas::ReplicaRow;
pub(super) use steps::{Order, ReconcileStep, Why};
pub(super) use young::{Young, YoungFile};

/// Cached places and native places; one is about 150 bytes.
const CACHED: NonZeroUsize = NonZeroUsize::new(16_384).unwrap();
/// Numbers taken from `meta` at once; those left over at exit are never used.
const RESERVED: i64 = 1024;

/// What is remembered between transactions.
#[derive(Debug)]
pub(super) struct State {
    places: LruCache<i64, Arc<PlaceRow>>,
    /// (directory, tier) → its native place.
    natives: LruCache<(u64, u32), i64>,
    /// Directory → its places, oldest first.
    owned: LruCache<u64, Owned>,
    tiers: Option<Arc<[TierPlaces]>>,
    names: Names,
    directories: Directories,
    /// The one thing here that the tables do not say yet.
    pub(super) young: Young,
    counters: HashMap<Counter, (i64, i64)>,
    /// The current transaction changed what is cached above.
    touched: bool,
}

/// The places of a directory.
#[derive(Debug)]
struct Owned {
    rows: Arc<[PlaceRow]>,
    /// With their keys, once somebody asked.
    places: Option<Arc<[Place]>>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            places: LruCache::new(CACHED),
            natives: LruCache::new(CACHED),
            owned: LruCache::new(CACHED),
            ..Self::small()
        }
    }
}

impl State {
    /// For one transaction: made in no time, and never large.
    pub(super) fn small() -> Self {
        Self {
            places: LruCache::unbounded(),
            natives: LruCache::unbounded(),
            owned: LruCache::unbounded(),
            names: Names::default(),
            directories: Directories::default(),
            young: Young::default(),
            tiers: None,
            counters: HashMap::new(),
            touched: false,
        }
    }

    /// Forgets what the tables say. Numbers that were given out stay so, though their reservation may be undone.
    pub(super) fn forget(&mut self) {
        let used = self.counters.iter().map(|(&counter, &(next, _))| (counter, (next, next)));
        let counters = used.collect();
        *self = Self { young: std::mem::take(&mut self.young), counters, ..Self::default() };
    }
}

/// The two places every tier has.
#[derive(Clone, Copy, Debug)]
pub(super) struct TierPlaces {
    pub tier: u32,
    pub root: i64,
    pub stage: i64,
}

/// Numbers that are never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Counter {
    Ino,
    Seq,
    Place,
    Intent,
}

impl Counter {
    fn key(self) -> &'static str {
        match self {
            Self::Ino => "next_ino",
            Self::Seq => "next_seq",
            Self::Place => "next_place",
            Self::Intent => "next_intent",
        }
    }
}

/// A transaction, or a look at the tables.
#[derive(Debug)]
pub(super) struct Tx<'a> {
    connection: &'a Connection,
    state: &'a RefCell<State>,
    now: Timestamp,
    wake: Cell<bool>,
}

impl<'a> Tx<'a> {
    pub(super) fn new(connection: &'a Connection, state: &'a RefCell<State>, now: Timestamp) -> Self {
        state.borrow_mut().touched = false;
        Self { connection, state, now, wake: Cell::new(false) }
    }

    /// Wall time when it began: `changed_at` of all it changes.
    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// A step became runnable.
    pub(super) fn wake(&self) {
        self.wake.set(true);
    }

    pub(super) fn wakes(&self) -> bool {
        self.wake.get()
    }

    /// Undoes the verb of a batch, in the caches too.
    pub(super) fn undo_verb(&self) {
        if self.connection.is_autocommit() {
            // After some errors SQLite has rolled the whole batch back by itself.
            self.forget_all();
        } else if let Err(error) = self.connection.execute_batch("ROLLBACK TO verb; RELEASE verb") {
            tracing::error!(%error, "can't undo a part of a catalog transaction");
        }
        self.forget_changed();
    }

    /// Whether no transaction is open.
    pub(super) fn is_idle(&self) -> bool {
        self.connection.is_autocommit()
    }

    /// Undoes everything, in the caches too.
    pub(super) fn roll_back(&self) {
        // After some errors SQLite has rolled back by itself.
        if !self.connection.is_autocommit()
            && let Err(error) = self.execute("ROLLBACK", [])
        {
            tracing::error!(%error, "can't roll a catalog transaction back");
        }
        self.forget_changed();
    }

    fn forget_changed(&self) {
        if let Ok(mut state) = self.state.try_borrow_mut()
            && state.touched
        {
            state.forget();
        }
    }

    /// Forgets all that is cached, when more than this transaction's changes were undone.
    pub(super) fn forget_all(&self) {
        if let Ok(mut state) = self.state.try_borrow_mut() {
            state.forget();
        }
    }

    pub(super) fn execute(&self, sql: &str, params: impl Params) -> Result<usize> {
        Ok(self.connection.prepare_cached(sql)?.execute(params)?)
    }

    pub(super) fn first<T>(
        &self,
        sql: &str,
        params: impl Params,
        row: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        Ok(self.connection.prepare_cached(sql)?.query_row(params, row).optional()?)
    }

    pub(super) fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map(params, row)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    pub(super) fn exists(&self, sql: &str, params: impl Params) -> Result<bool> {
        Ok(self.connection.prepare_cached(sql)?.exists(params)?)
    }

    /// A number nobody has had.
    pub(super) fn take(&self, counter: Counter) -> Result<i64> {
        let known = self.state.borrow().counters.get(&counter).copied();
        let (next, limit) = match known {
            Some(range) => range,
            None => {
                let limit = self.meta(counter.key())?.unwrap_or(FIRST_NUMBER);
                (limit, limit)
            }
        };
        let limit = if next < limit { limit } else { self.reserve(counter, next)? };
        self.state.borrow_mut().counters.insert(counter, (next + 1, limit));
        Ok(next)
    }

    /// From now on only numbers above `last` are given out.
    pub(super) fn skip_to(&self, counter: Counter, last: u64) -> Result<()> {
        let first = i64::try_from(last).unwrap_or(i64::MAX - RESERVED).min(i64::MAX - 2 * RESERVED) + 1;
        let known = self.state.borrow_mut().counters.remove(&counter).map(|(_, limit)| limit);
        let known = known.map_or_else(|| self.meta(counter.key()), |limit| Ok(Some(limit)))?;
        if first > known.unwrap_or(FIRST_NUMBER) {
            self.reserve(counter, first - RESERVED)?;
        }
        Ok(())
    }

    fn reserve(&self, counter: Counter, next: i64) -> Result<i64> {
        let limit = next + RESERVED;
        self.execute(
            "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)",
            rusqlite::params![counter.key(), limit],
        )?;
        self.state.borrow_mut().touched = true;
        Ok(limit)
    }

    fn meta(&self, key: &str) -> Result<Option<i64>> {
        self.first("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0))
    }

    /// Root and stage place of every tier.
    pub(super) fn tiers(&self) -> Result<Arc<[TierPlaces]>> {
        if let Some(tiers) = &self.state.borrow().tiers {
            return Ok(Arc::clone(tiers));
        }
        let rows = self.all("SELECT id, root, stage FROM tier ORDER BY id", [], |row| {
            Ok(TierPlaces { tier: row.get(0)?, root: row.get(1)?, stage: row.get(2)? })
        })?;
        let tiers: Arc<[TierPlaces]> = rows.into();
        self.state.borrow_mut().tiers = Some(Arc::clone(&tiers));
        Ok(tiers)
    }

    /// The two places of one tier.
    pub(super) fn tier(&self, tier: u32) -> Result<TierPlaces> {
        let tiers = self.tiers()?;
        tiers
            .iter()
            .find(|row| row.tier == tier)
            .copied()
            .ok_or_else(|| Error::new(Kind::NotFound, format!("the catalog knows no tier {tier}")))
    }

    /// The tiers changed.
    pub(super) fn forget_tiers(&self) {
        let mut state = self.state.borrow_mut();
        state.tiers = None;
        state.touched = true;
    }
}

/// 1 is the root's inode number; the others simply start there too.
const FIRST_NUMBER: i64 = 2;

/// A version column.
pub(super) fn version(bytes: Option<Vec<u8>>) -> Option<Version> {
    bytes.map(|bytes| Version(bytes.into()))
}

/// A row says what cannot be.
pub(super) fn corrupt(what: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(Kind::Corrupt, what)
}
