//! Catalogs in files: locks, damage, versions, migration, durability.

use super::*;
use crate::catalog::engine::Engine;
use crate::catalog::schema::{CURRENT, Schema};
use rusqlite::Connection;
use std::path::Path;

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp(1)))
}

fn open(path: &Path) -> Result<Catalog> {
    Catalog::open(&Location::Sqlite(path.to_owned()), clock())
}

#[test]
fn a_catalog_outlives_its_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.db");
    let catalog = open(&path).unwrap();
    let id = catalog.id().to_owned();
    let tier = catalog.register_tier("t", "/t").unwrap().id;
    let native = NativeId { ino: 1, nlink: 1, blocks: 0, changed: Timestamp(0) };
    let new = NewInode {
        parent: Ino::ROOT,
        name: b"f",
        kind: FileKind::Regular,
        mode: 0o600,
        uid: 1,
        gid: 2,
        rdev: 0,
        target: None,
        bytes: NewBytes::Native { tier, version: version(1), native, mtime: Timestamp(5) },
        overflow: None,
        now: Timestamp(5),
    };
    let made = catalog.create(&new).unwrap();
    catalog.sync().unwrap();
    drop(catalog);
    let catalog = open(&path).unwrap();
    assert_eq!(catalog.id(), id);
    assert_eq!(catalog.lookup(Ino::ROOT, b"f").unwrap(), Some(made.clone()));
    let other = catalog.create(&NewInode { name: b"g", ..new }).unwrap();
    assert!(other.attr.ino > made.attr.ino);
    assert_eq!(catalog.check().unwrap(), Vec::<String>::new());
}

#[test]
fn one_daemon_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.db");
    let first = open(&path).unwrap();
    let error = open(&path).unwrap_err();
    assert_eq!(error.kind(), Kind::Busy);
    assert!(error.to_string().contains("unmount"), "{error}");
    drop(first);
    open(&path).unwrap();
}

#[test]
fn a_damaged_catalog_is_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.db");
    drop(open(&path).unwrap());
    let good = std::fs::read(&path).unwrap();
    let mut middle = good.clone();
    middle[4096..8192].fill(0xa5);
    for bytes in [b"not a database at all".to_vec(), middle, good[..5000].to_vec()] {
        std::fs::write(&path, &bytes).unwrap();
        let error = open(&path).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
        assert!(error.to_string().contains("tierfs rebuild"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
}

#[test]
fn a_strangers_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE mine (x)").unwrap();
    let before = std::fs::read(&path).unwrap();
    assert_eq!(kind_of(open(&path)), Kind::Invalid);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_newer_schema_is_refused_untouched() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.db");
    drop(open(&path).unwrap());
    let raw = Connection::open(&path).unwrap();
    raw.execute("UPDATE meta SET value = 99 WHERE key = 'schema'", []).unwrap();
    drop(raw);
    let before = std::fs::read(&path).unwrap();
    let error = open(&path).unwrap_err();
    assert!(error.kind() == Kind::Invalid && error.to_string().contains("schema 99"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

fn add_color(connection: &Connection) -> Result<()> {
    Ok(connection.execute_batch("ALTER TABLE thing ADD COLUMN color TEXT DEFAULT 'red'")?)
}

fn fail(connection: &Connection) -> Result<()> {
    connection.execute_batch("DROP TABLE thing")?;
    Err(Kind::NoSpace.into())
}

const META: &str = "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
    CREATE TABLE thing (x); INSERT INTO thing VALUES (7);";

#[test]
fn an_older_schema_is_migrated_after_a_copy_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.db");
    let location = Location::Sqlite(path.clone());
    let old = Schema { create: META, steps: &[] };
    drop(Engine::open(&location, clock(), &old).unwrap());

    let broken = Schema { create: "", steps: &[add_color, fail] };
    assert_eq!(kind_of(Engine::open(&location, clock(), &broken)), Kind::NoSpace);
    drop(Engine::open(&location, clock(), &old).unwrap());

    let new = Schema { create: "", steps: &[add_color] };
    let engine = Engine::open(&location, clock(), &new).unwrap();
    let row = engine.read(|tx| {
        tx.first("SELECT x, color FROM thing", [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
        })
    });
    assert_eq!(row.unwrap(), Some((7, "red".to_owned())));
    drop(engine);
    drop(Engine::open(&location, clock(), &new).unwrap());
    assert_eq!(kind_of(Engine::open(&location, clock(), &old)), Kind::Invalid);

    let copy = Connection::open(dir.path().join("c.db.v1.bak")).unwrap();
    assert_eq!(copy.query_row("SELECT x FROM thing", [], |row| row.get::<_, i64>(0)).unwrap(), 7);
    assert!(copy.prepare("SELECT color FROM thing").is_err());
}

#[test]
fn a_panic_in_a_verb_is_rolled_back() {
    let engine = Engine::open(&Location::Memory, clock(), &CURRENT).unwrap();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        engine.write(|tx| -> Result<()> {
            tx.execute("INSERT INTO meta (key, value) VALUES ('x', 1)", [])?;
            panic!("on purpose");
        })
    }));
    assert!(outcome.is_err());
    let found = engine.write(|tx| tx.exists("SELECT 1 FROM meta WHERE key = 'x'", []));
    assert!(!found.unwrap());
}

#[test]
fn a_path_nobody_can_make_says_so() {
    let error = open(Path::new("/proc/nowhere/c.db")).unwrap_err();
    assert!(error.to_string().contains("/proc/nowhere"), "{error}");
}
