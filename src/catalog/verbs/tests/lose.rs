//! Loss, and taking over what others left.

use super::*;
use crate::catalog::Replacement;
use std::path::Path;

/// Gives up every key of `ino` on scratch.
fn lose(bed: &Bed, inodes: &[Ino]) -> Losses {
    let gone: Vec<Replica> = inodes
        .iter()
        .flat_map(|ino| bed.catalog.replicas(*ino).unwrap())
        .filter(|replica| replica.tier == bed.scratch)
        .collect();
    bed.tick();
    bed.catalog.lose(&gone).unwrap()
}

fn paths(lost: &[LostFile]) -> Vec<(String, LostBytes)> {
    lost.iter().map(|lost| (lost.path.to_string(), lost.bytes)).collect()
}

#[test]
fn what_was_nowhere_else_is_lost_and_listed() {
    let bed = Bed::new();
    let dir = bed.native_dir(Ino::ROOT, "d");
    let homed = bed.native(dir, "homed", 7);
    let dirty = bed.closed(dir, "dirty");
    let losses = lose(&bed, &[homed, dirty]);
    assert_eq!(paths(&losses.lost), [("d/homed".into(), LostBytes::All), ("d/dirty".into(), LostBytes::All)]);
    assert_eq!((losses.observed.entries.len(), losses.spared.len()), (2, 0));
    assert_eq!((bed.lookup(dir, "homed"), bed.lookup(dir, "dirty")), (None, None));
    assert!(bed.steps().is_empty(), "nobody commits what is gone");
    let first = bed.catalog.lost(0, 1).unwrap();
    assert_eq!(first, losses.lost[..1]);
    assert_eq!(bed.catalog.lost(first[0].id, 9).unwrap(), losses.lost[1..]);
    assert_eq!((bed.catalog.lost_count().unwrap(), bed.catalog.last_lost().unwrap()), (2, losses.lost[1].id));
    assert_eq!(bed.catalog.forget_lost(first[0].id).unwrap(), 1);
    assert_eq!(bed.catalog.lost(0, 9).unwrap(), losses.lost[1..]);
    assert_eq!(bed.catalog.drop_orphan(dirty).unwrap(), vec![], "no row speaks of a wiped stage");
    bed.catalog.drop_orphan(homed).unwrap();
}

#[test]
fn a_copy_that_is_not_the_only_one_costs_nothing() {
    let bed = Bed::new();
    let ino = bed.closed(Ino::ROOT, "f");
    let staged = bed.catalog.replicas(ino).unwrap();
    let place = bed.catalog.ensure_place(Ino::ROOT, bed.blob).unwrap().id;
    bed.catalog.begin_commit(ino, place, b"f", "w").unwrap();
    bed.catalog.commit_if(ino, Generation(1), 1, place, b"f", &version(5), None).unwrap();
    let losses = bed.catalog.lose(&staged).unwrap();
    assert_eq!((losses.spared, losses.lost.len()), (vec![ino], 0));
    assert_eq!((bed.lookup(Ino::ROOT, "f"), bed.keys(ino)), (Some(ino), vec!["f".to_owned()]));
}

#[test]
fn an_older_version_at_home_is_nobodys_until_the_next_look() {
    let bed = Bed::new();
    let ino = bed.closed(Ino::ROOT, "f");
    bed.commit(ino, 5);
    bed.catalog.begin_write(ino, bed.scratch).unwrap();
    bed.catalog.close(ino, bed.content(20), "d").unwrap();
    let losses = lose(&bed, &[ino]);
    assert_eq!(paths(&losses.lost), [("f".into(), LostBytes::Newest)]);
    assert_eq!((losses.lost[0].size, bed.lookup(Ino::ROOT, "f")), (20, None));
    bed.tick();
    let entry = file("f", 5);
    let found = vec![Found { entry: &entry, standing: Standing::Home }];
    let place = bed.root(bed.blob);
    bed.catalog
        .observe(&Observation {
            place,
            began: bed.tick(),
            found,
            scope: Scope::Found,
            defaults: DEFAULTS,
            holds_owner_and_mode: true,
            markers: true,
        })
        .unwrap();
    let again = bed.lookup(Ino::ROOT, "f").unwrap();
    assert!(again != ino && bed.catalog.inode(again).unwrap().attr.size == 5);
    bed.catalog.drop_orphan(ino).unwrap();
}

#[test]
fn of_several_names_the_last_one_counts() {
    let bed = Bed::new();
    let ino = bed.native(Ino::ROOT, "a", 7);
    bed.catalog.link(ino, Ino::ROOT, b"b", Some(bed.scratch), None, bed.tick()).unwrap();
    let keys = bed.catalog.replicas(ino).unwrap();
    assert_eq!(keys.len(), 2);
    bed.tick();
    let one = bed.catalog.lose(&keys[..1]).unwrap();
    assert_eq!((one.spared, one.lost.len()), (vec![ino], 0));
    let both = bed.catalog.lose(&keys[1..]).unwrap();
    assert_eq!(both.lost.len(), 2, "each name is named");
    bed.catalog.drop_orphan(ino).unwrap();
}

#[test]
fn a_row_that_changed_since_the_look_is_left_alone() {
    let bed = Bed::new();
    let ino = bed.closed(Ino::ROOT, "f");
    let seen = bed.catalog.replicas(ino).unwrap();
    bed.catalog.begin_write(ino, bed.scratch).unwrap();
    assert_eq!(bed.catalog.lose(&seen).unwrap().lost.len(), 0);
    assert_eq!(bed.lookup(Ino::ROOT, "f"), Some(ino));
}

#[test]
fn directories_go_if_nothing_else_is_in_them() {
    let bed = Bed::new();
    let (empty, kept) = (bed.native_dir(Ino::ROOT, "empty"), bed.native_dir(Ino::ROOT, "kept"));
    let inner = bed.native_dir(empty, "inner");
    let file = bed.closed(kept, "f");
    bed.commit(file, 3);
    let mut places = bed.catalog.places_on(bed.scratch, PlaceId(i64::MAX), 100).unwrap();
    places.sort_by_key(|place| std::cmp::Reverse(place.key.components().count()));
    let ids: Vec<PlaceId> = places.iter().map(|place| place.id).collect();
    let observed = bed.catalog.lose_places(&ids).unwrap();
    let gone: Vec<Ino> = observed.entries.iter().map(|(_, _, ino)| *ino).collect();
    assert_eq!(gone, [inner, empty]);
    assert_eq!(bed.lookup(Ino::ROOT, "kept"), Some(kept), "home has a file in it");
    assert!(bed.catalog.native_place(kept, bed.scratch).unwrap().is_none());
}

#[test]
fn numbers_of_others_are_not_given_out_again() {
    let bed = Bed::new();
    let before = bed.closed(Ino::ROOT, "a");
    bed.catalog.number_above(Ino(1_000_000), Seq(2_000_000)).unwrap();
    let after = bed.closed(Ino::ROOT, "b");
    assert!(before < Ino(1_000_000) && after > Ino(1_000_000));
    assert!(bed.catalog.step_of(after).unwrap() > Some(Seq(2_000_000)));
    bed.catalog.number_above(Ino(5), Seq(5)).unwrap();
    assert!(bed.closed(Ino::ROOT, "c") > after, "numbers never go back");
}

fn open(path: &Path) -> Catalog {
    Catalog::open(&Location::Sqlite(path.to_owned()), Arc::new(ManualClock::new(Timestamp(5)))).unwrap()
}

/// What the second version had not.
const SECOND: &str = "DROP INDEX inode_away; ALTER TABLE inode DROP COLUMN away_tier; ALTER TABLE inode DROP COLUMN away_why;
    ALTER TABLE inode DROP COLUMN away_since; DROP TABLE heat; DROP TABLE heat_group; DROP TABLE pin; DROP INDEX step_ino; DROP INDEX step_domain; ALTER TABLE step DROP COLUMN generation;
    ALTER TABLE step DROP COLUMN renewed_at; ALTER TABLE step DROP COLUMN moved; ALTER TABLE step DROP COLUMN follows;
    CREATE UNIQUE INDEX step_ino ON step (ino) WHERE ino <> 0; UPDATE meta SET value = 2 WHERE key = 'schema';";
/// What the first had not either.
const FIRST: &str = "DROP TABLE lost; UPDATE meta SET value = 1 WHERE key = 'schema'";

/// Tables with their columns, and indices.
fn shape(path: &Path) -> Vec<String> {
    let raw = rusqlite::Connection::open(path).unwrap();
    let sql = "SELECT m.type || ' ' || m.name || ' ' || coalesce(group_concat(c.name || ' ' || c.type), '')
         FROM sqlite_master m LEFT JOIN pragma_table_info(m.name) c GROUP BY m.name ORDER BY 1";
    let mut statement = raw.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn catalogs_of_earlier_versions_become_like_new_ones() {
    let dir = tempfile::tempdir().unwrap();
    let new = dir.path().join("new.db");
    drop(open(&new));
    for (version, undo) in [(1, [SECOND, FIRST].concat()), (2, SECOND.to_owned())] {
        let path = dir.path().join(format!("{version}.db"));
        let catalog = open(&path);
        let id = catalog.id().to_owned();
        drop(catalog);
        rusqlite::Connection::open(&path).unwrap().execute_batch(&undo).unwrap();
        let catalog = open(&path);
        assert_eq!((catalog.id(), catalog.lost_count().unwrap()), (&id[..], 0));
        drop(catalog);
        assert!(dir.path().join(format!("{version}.db.v{version}.bak")).exists());
        assert_eq!(shape(&path), shape(&new));
    }
}

#[test]
fn a_replacement_takes_its_place_in_one_step() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.db");
    let clock = || Arc::new(ManualClock::new(Timestamp(5)));
    let old = open(&path).id().to_owned();
    let damaged = b"damaged".to_vec();
    std::fs::write(&path, &damaged).unwrap();
    // One that dies.
    let (replacement, catalog, former) = Replacement::begin(&path, clock()).unwrap();
    let died = catalog.id().to_owned();
    assert_eq!(former, std::slice::from_ref(&old));
    assert_eq!(kind_of(Replacement::begin(&path, clock())), Kind::Busy, "one at a time");
    drop((replacement, catalog));
    assert_eq!(std::fs::read(&path).unwrap(), damaged);

    let (replacement, catalog, former) = Replacement::begin(&path, clock()).unwrap();
    assert_eq!(former, [old.clone(), died.clone()], "its stage may hold something");
    let id = catalog.id().to_owned();
    catalog.register_tier("t", "/t").unwrap();
    drop(catalog);
    let aside = replacement.finish("now").unwrap().unwrap();
    assert_eq!(
        (aside.file_name().unwrap().to_str(), std::fs::read(&aside).unwrap()),
        (Some("c.db.damaged-now"), damaged)
    );
    let catalog = open(&path);
    assert_eq!((catalog.id(), catalog.tiers().unwrap().len()), (&id[..], 1));
    assert_eq!(Catalog::former_ids(&path).unwrap(), [old.clone(), died]);
    Catalog::forget_id(&path, &old).unwrap();
    assert_eq!(Catalog::former_ids(&path).unwrap().len(), 1);
    let left = |name: &str| dir.path().join(name).exists();
    assert!(!left("c.db.new") && !left("c.db.new.lock") && !left("c.db.new.id") && !left("c.db.new-wal"));
}

#[test]
fn an_emptied_catalog_is_damaged_and_a_new_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.db");
    std::fs::write(&path, "").unwrap();
    drop(open(&path));
    std::fs::write(&path, "").unwrap();
    let location = Location::Sqlite(path.clone());
    let error = Catalog::open(&location, Arc::new(ManualClock::new(Timestamp(5)))).unwrap_err();
    assert!(error.kind() == Kind::Corrupt && error.to_string().contains("it is empty"), "{error}");
}
