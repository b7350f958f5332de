//! Opens a catalog file: lock, examination, migration. Nothing is written before all checks passed.

use super::super::schema::Schema;
use super::ids;
use crate::error::{Error, Kind, Result};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use rustix::fs::{FlockOperation, flock};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Up to this size the whole file is checked at every open; a larger one would delay the mount.
const CHECKED_WHOLE: u64 = 32 << 20;

/// `path` with `suffix` behind its name.
pub(in crate::catalog) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// Takes the catalog for this process; the kernel gives it back when the process dies.
pub(in crate::catalog) fn lock(path: &Path) -> Result<File> {
    let at = beside(path, ".lock");
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&at)
        .map_err(|e| Error::from(e).context(format_args!("can't make {}", at.display())))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::new(
            Kind::Busy,
            format!("catalog {} is in use by another tierfs daemon; unmount that one first", path.display()),
        )),
        Err(errno) => Err(Error::from(errno).context(format_args!("can't lock {}", at.display()))),
    }
}

/// The connection to a checked, current catalog at `path`.
pub(super) fn connect(path: &Path, schema: &Schema) -> Result<Connection> {
    let found = examine(path, schema)?;
    if found.is_none() {
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    }
    enter(path, schema, found).map_err(|error| damage(path, error))
}

fn enter(path: &Path, schema: &Schema, found: Option<i64>) -> Result<Connection> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | NO_MUTEX)?;
    configure(&connection)?;
    match found {
        None => create(&connection, schema)?,
        Some(version) if version < schema.version() => migrate(&connection, path, schema, version)?,
        Some(_) => {}
    }
    Ok(connection)
}

// The engine's own mutex already keeps threads apart.
const NO_MUTEX: OpenFlags = OpenFlags::SQLITE_OPEN_NO_MUTEX;

/// Settings of every connection.
pub(super) fn configure(connection: &Connection) -> Result<()> {
    connection.set_prepared_statement_cache_capacity(256);
    // Plans that do not look at bound values: else every look through a partial index is compiled
    // anew whenever its parameter changes.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // EXCLUSIVE: the lock file keeps others out, so SQLite need not take and drop its own locks
    // for every statement, and the index of the WAL stays in the heap.
    connection.execute_batch(
        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
         PRAGMA cache_size = -8192; PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY;
         PRAGMA wal_autocheckpoint = 4000; PRAGMA journal_size_limit = 67108864;
         PRAGMA trusted_schema = OFF;",
    )?;
    Ok(())
}

/// Makes the tables of a new catalog.
pub(super) fn create(connection: &Connection, schema: &Schema) -> Result<()> {
    in_transaction(connection, |connection| {
        connection.execute_batch(schema.create)?;
        set_version(connection, schema.version())
    })
}

/// The version of the catalog at `path`, `None` if there is none yet; changes nothing.
fn examine(path: &Path, schema: &Schema) -> Result<Option<i64>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::from(e).context(format_args!("can't open catalog {}", path.display()))),
    };
    let was_ours = !ids::known(path)?.is_empty();
    let size = file.metadata()?.len();
    if size == 0 && was_ours {
        return Err(damaged(path, "it is empty"));
    }
    if size == 0 {
        return Ok(None);
    }
    let mut header = [0; HEADER];
    if file.read_exact(&mut header).is_err() || &header[..16] != b"SQLite format 3\0" {
        return Err(damaged(path, "it is not an SQLite file"));
    }
    drop(file);
    if is_cut(path, size, &header) {
        return Err(damaged(path, "it is shorter than it says"));
    }
    let version = read_version(path, size).map_err(|e| match e.kind() {
        Kind::Corrupt => damaged(path, "its check fails").with_source(e),
        Kind::Invalid if was_ours => damaged(path, "another database lies in its place").with_source(e),
        _ => e.context(format_args!("can't read catalog {}", path.display())),
    })?;
    if version.is_none() && was_ours {
        return Err(damaged(path, "it has no tables"));
    }
    match version {
        Some(version) if version > schema.version() => Err(Error::new(
            Kind::Invalid,
            format!(
                "catalog {} has schema {version}, this tierfs knows up to {}: use the newer tierfs, or another catalog",
                path.display(),
                schema.version()
            ),
        )),
        other => Ok(other),
    }
}

/// Bytes of an SQLite header that are looked at.
const HEADER: usize = 100;

/// Whether the file ends before the page that its header calls the last. Pages may still be in a write-ahead log only.
fn is_cut(path: &Path, size: u64, header: &[u8; HEADER]) -> bool {
    let number = |at: usize| {
        u64::from(u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]))
    };
    let page = match u64::from(u16::from_be_bytes([header[16], header[17]])) {
        1 => 65_536,
        page => page,
    };
    let log = std::fs::metadata(beside(path, "-wal")).map_or(0, |log| log.len());
    // The count is valid only if the change counter beside it is that of the last change.
    number(24) == number(92) && log == 0 && size < number(28).saturating_mul(page)
}

/// What went wrong with the catalog's own tables, with what to do about damage.
pub(in crate::catalog) fn told(location: &super::Location, error: Error) -> Error {
    match location {
        super::Location::Sqlite(path) => damage(path, error),
        super::Location::Memory => error,
    }
}

fn damage(path: &Path, error: Error) -> Error {
    match error.kind() {
        Kind::Corrupt => damaged(path, "its tables can't be read").with_source(error),
        _ => error,
    }
}

/// Reads through a read-only connection, which never checkpoints the WAL of whoever wrote it.
fn read_version(path: &Path, size: u64) -> Result<Option<i64>> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | NO_MUTEX)?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if tables == 0 {
        return Ok(None);
    }
    let ours: Option<i64> = connection
        .query_row("SELECT 1 FROM sqlite_schema WHERE name = 'meta'", [], |row| row.get(0))
        .optional()?;
    let version: Option<i64> = match ours {
        Some(_) => connection
            .query_row("SELECT value FROM meta WHERE key = 'schema'", [], |row| row.get(0))
            .optional()?,
        None => None,
    };
    let Some(version) = version else {
        return Err(Error::new(
            Kind::Invalid,
            "it is an SQLite file, but not a tierfs catalog: name another one",
        ));
    };
    if size <= CHECKED_WHOLE {
        let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if verdict != "ok" {
            let verdict: Vec<&str> = verdict.lines().map(|line| line.trim_matches(['*', ' '])).collect();
            return Err(Error::new(Kind::Corrupt, verdict.join("; ")));
        }
    }
    Ok(Some(version))
}

fn damaged(path: &Path, what: &str) -> Error {
    Error::new(
        Kind::Corrupt,
        format!(
            "catalog {} is damaged ({what}); it was left as it is: `tierfs rebuild CONFIG` makes a new one from the tiers and takes over what is staged",
            path.display()
        ),
    )
}

fn migrate(connection: &Connection, path: &Path, schema: &Schema, from: i64) -> Result<()> {
    let first = usize::try_from(from - 1).unwrap_or(usize::MAX);
    let Some(steps) = schema.steps.get(first..) else {
        return Err(Error::new(
            Kind::Invalid,
            format!("catalog {} has unknown schema {from}", path.display()),
        ));
    };
    keep_copy(connection, path, from)?;
    in_transaction(connection, |connection| {
        steps.iter().try_for_each(|step| step(connection))?;
        set_version(connection, schema.version())
    })
}

/// Writes `<path>.v<old>.bak`, whole or not at all.
fn keep_copy(connection: &Connection, path: &Path, version: i64) -> Result<()> {
    let copy = beside(path, &format!(".v{version}.bak"));
    let part = beside(&copy, ".part");
    match std::fs::remove_file(&part) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e.into()),
        _ => {}
    }
    let text = part.to_str().ok_or_else(|| {
        Error::new(Kind::Invalid, format!("the path of catalog {} must be UTF-8", path.display()))
    })?;
    connection.execute("VACUUM INTO ?1", [text])?;
    File::open(&part)?.sync_all()?;
    std::fs::rename(&part, &copy)?;
    sync_parent(path)
}

/// Makes the names beside `path` durable.
pub(in crate::catalog) fn sync_parent(path: &Path) -> Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()?;
    Ok(())
}

fn in_transaction(connection: &Connection, act: impl FnOnce(&Connection) -> Result<()>) -> Result<()> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    match act(connection).and_then(|()| Ok(connection.execute_batch("COMMIT")?)) {
        Ok(()) => Ok(()),
        Err(error) => {
            if !connection.is_autocommit() {
                connection.execute_batch("ROLLBACK")?;
            }
            Err(error)
        }
    }
}

fn set_version(connection: &Connection, version: i64) -> Result<()> {
    connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('schema', ?1)", [version])?;
    Ok(())
}
