//! Tables and migrations. Knows SQL text only.
//!
//! Disk format: change it by a new migration step, never in place. Column conventions: ids and
//! times are integers (ns since the epoch), names, keys and versions are blobs, `ino` 0 is nobody.

use crate::error::Result;
use rusqlite::Connection;

/// One step from a version to the next.
pub(super) type Migration = fn(&Connection) -> Result<()>;

/// What a catalog of the current version looks like and how older ones get there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schema {
    /// Makes all tables of the current version.
    pub create: &'static str,
    /// Step `i` leads from version `i + 1` to `i + 2`.
    pub steps: &'static [Migration],
}

impl Schema {
    /// The version that `create` makes.
    pub(super) fn version(&self) -> i64 {
        i64::try_from(self.steps.len()).unwrap_or(i64::MAX).saturating_add(1)
    }
}

/// The catalog's schema.
pub(super) const CURRENT: Schema = Schema {
    create: CREATE,
    steps: &[
        remember_what_is_lost,
        order_generations,
        remember_heat,
        remember_pins,
        stage_in_part,
        send_away,
    ],
};

/// To version 2.
fn remember_what_is_lost(connection: &Connection) -> Result<()> {
    Ok(connection.execute_batch(LOST)?)
}

/// To version 3.
fn order_generations(connection: &Connection) -> Result<()> {
    Ok(connection.execute_batch(
        "ALTER TABLE step ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
         ALTER TABLE step ADD COLUMN renewed_at INTEGER NOT NULL DEFAULT 0;
         ALTER TABLE step ADD COLUMN moved INTEGER NOT NULL DEFAULT 0;
         ALTER TABLE step ADD COLUMN follows TEXT;
         UPDATE step SET renewed_at = queued_at;
         DROP INDEX step_ino;
         CREATE UNIQUE INDEX step_ino ON step (ino, generation) WHERE ino <> 0;
         CREATE INDEX step_domain ON step (domain, seq);",
    )?)
}

/// To version 4.
fn remember_heat(connection: &Connection) -> Result<()> {
    Ok(connection.execute_batch(HEAT)?)
}

/// To version 5.
fn remember_pins(connection: &Connection) -> Result<()> {
    Ok(connection.execute_batch(PINS)?)
}

/// To version 6: nothing is other than before, but a stage file whose name ends in `.partial` has only some of its bytes, which an
/// older program would take for all.
fn stage_in_part(_: &Connection) -> Result<()> {
    Ok(())
}

macro_rules! away_index {
    () => {
        "CREATE INDEX inode_away ON inode (away_why, ino) WHERE away_why <> 0;"
    };
}

/// To version 7.
fn send_away(connection: &Connection) -> Result<()> {
    Ok(connection.execute_batch(concat!(
        "ALTER TABLE inode ADD COLUMN away_tier INTEGER NOT NULL DEFAULT 0;
         ALTER TABLE inode ADD COLUMN away_why INTEGER NOT NULL DEFAULT 0;
         ALTER TABLE inode ADD COLUMN away_since INTEGER NOT NULL DEFAULT 0;",
        away_index!()
    ))?)
}

macro_rules! pins {
    () => {
        "CREATE TABLE pin (ino INTEGER PRIMARY KEY, until INTEGER NOT NULL);"
    };
}

const PINS: &str = pins!();

macro_rules! heat {
    () => {
        "CREATE TABLE heat (
            ino INTEGER PRIMARY KEY, dir INTEGER NOT NULL, opens REAL NOT NULL, at REAL NOT NULL);
         CREATE TABLE heat_group (
            dir INTEGER PRIMARY KEY, run_opens REAL NOT NULL, run_time REAL NOT NULL, last REAL NOT NULL,
            silence REAL NOT NULL, opens REAL NOT NULL, at REAL NOT NULL, files INTEGER NOT NULL,
            counted INTEGER NOT NULL);"
    };
}

const HEAT: &str = heat!();

macro_rules! lost {
    () => {
        "CREATE TABLE lost (
            id INTEGER PRIMARY KEY, path BLOB NOT NULL, tier TEXT NOT NULL, newest INTEGER NOT NULL,
            size INTEGER NOT NULL, mtime INTEGER NOT NULL, lost_at INTEGER NOT NULL);"
    };
}

const LOST: &str = lost!();

/// `step.kind` of a reconcile step.
pub(super) const RECONCILE: i64 = 1;
/// `step.kind` of a delete step.
pub(super) const DELETE: i64 = 2;
/// `step.kind` of a step for a generation that newer ones followed before its turn; `step.generation` says which.
pub(super) const PRESERVED: i64 = 3;
/// The same where the file lost its name to another: `step.place` and `step.name` say under which key.
pub(super) const REPLACED: i64 = 4;

const CREATE: &str = concat!(
    "
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;

CREATE TABLE tier (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, location TEXT NOT NULL, mark TEXT, fs_type TEXT,
    root INTEGER NOT NULL, stage INTEGER NOT NULL);

CREATE TABLE inode (
    ino INTEGER PRIMARY KEY, kind INTEGER NOT NULL, mode INTEGER NOT NULL, uid INTEGER NOT NULL,
    gid INTEGER NOT NULL, nlink INTEGER NOT NULL, size INTEGER NOT NULL, blocks INTEGER NOT NULL,
    atime INTEGER NOT NULL, mtime INTEGER NOT NULL, ctime INTEGER NOT NULL, btime INTEGER NOT NULL,
    rdev INTEGER NOT NULL, target BLOB, generation INTEGER NOT NULL, attr_generation INTEGER NOT NULL,
    state INTEGER NOT NULL, away_tier INTEGER NOT NULL DEFAULT 0, away_why INTEGER NOT NULL DEFAULT 0,
    away_since INTEGER NOT NULL DEFAULT 0);
CREATE INDEX inode_dirty ON inode (ino) WHERE state <> 0;
CREATE INDEX inode_orphan ON inode (ino) WHERE nlink = 0;

CREATE TABLE dentry (
    parent INTEGER NOT NULL, hash INTEGER NOT NULL, name BLOB NOT NULL, ino INTEGER NOT NULL,
    PRIMARY KEY (parent, hash, name)) WITHOUT ROWID;
CREATE INDEX dentry_ino ON dentry (ino);

CREATE TABLE xattr (
    ino INTEGER NOT NULL, name BLOB NOT NULL, value BLOB NOT NULL, PRIMARY KEY (ino, name)) WITHOUT ROWID;

CREATE TABLE place (
    id INTEGER PRIMARY KEY, tier INTEGER NOT NULL, parent INTEGER NOT NULL, name BLOB NOT NULL,
    ino INTEGER NOT NULL, listed INTEGER NOT NULL, version BLOB, changed_at INTEGER NOT NULL);
CREATE UNIQUE INDEX place_key ON place (parent, name, tier);
CREATE INDEX place_ino ON place (ino) WHERE ino <> 0;

CREATE TABLE replica (
    place INTEGER NOT NULL, name BLOB NOT NULL, ino INTEGER NOT NULL, generation INTEGER NOT NULL,
    attr_generation INTEGER NOT NULL, version BLOB, native_ino INTEGER NOT NULL, linked INTEGER NOT NULL,
    write_id TEXT, changed_at INTEGER NOT NULL, PRIMARY KEY (place, name)) WITHOUT ROWID;
CREATE INDEX replica_ino ON replica (ino) WHERE ino <> 0;
CREATE INDEX replica_gone ON replica (changed_at) WHERE ino = 0;
CREATE INDEX replica_linked ON replica (native_ino) WHERE linked <> 0;
CREATE INDEX replica_commit ON replica (write_id) WHERE write_id IS NOT NULL;

CREATE TABLE step (
    seq INTEGER PRIMARY KEY, kind INTEGER NOT NULL, ino INTEGER NOT NULL, place INTEGER NOT NULL,
    name BLOB NOT NULL, domain TEXT NOT NULL, content INTEGER NOT NULL, again INTEGER NOT NULL,
    queued_at INTEGER NOT NULL, attempts INTEGER NOT NULL, not_before INTEGER NOT NULL, error TEXT,
    blocked INTEGER NOT NULL, generation INTEGER NOT NULL DEFAULT 0, renewed_at INTEGER NOT NULL DEFAULT 0,
    moved INTEGER NOT NULL DEFAULT 0, follows TEXT);
CREATE UNIQUE INDEX step_ino ON step (ino, generation) WHERE ino <> 0;
CREATE INDEX step_domain ON step (domain, seq);
CREATE UNIQUE INDEX step_key ON step (place, name) WHERE ino = 0;

CREATE TABLE intent (id INTEGER PRIMARY KEY, plan TEXT NOT NULL);
",
    lost!(),
    heat!(),
    pins!(),
    away_index!()
);
