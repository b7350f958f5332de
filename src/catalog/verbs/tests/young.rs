//! Native files whose rows are not in the tables yet: nobody can tell them from others.

use super::*;
use crate::catalog::tables::{ReplicaRow, Young, YoungFile};
use crate::tier::RenameMode;

/// A directory made natively, so that new files in it are young.
fn ground(bed: &Bed) -> (Ino, PlaceId) {
    let dir = bed.native_dir(Ino::ROOT, "d");
    // The first file takes inode numbers and places from the tables.
    bed.native(dir, "first", 1);
    bed.catalog.inode(dir).unwrap();
    (dir, bed.catalog.native_place(dir, bed.scratch).unwrap().unwrap().id)
}

/// How many files have no rows yet. The batch may write them at any time.
fn young(bed: &Bed) -> usize {
    bed.catalog.engine.quick(|state| Some(state.young.snapshot().len())).unwrap()
}

/// What `act` made stays young until this returns, as the tables are held.
fn while_young<T>(bed: &Bed, act: impl FnOnce() -> T) -> T {
    let _tables = bed.catalog.engine.hold_tables();
    act()
}

#[test]
fn a_new_file_in_a_remembered_directory_needs_no_table() {
    let bed = Bed::new();
    let (dir, _) = ground(&bed);
    let (ino, before) = while_young(&bed, || (bed.native(dir, "f", 7), young(&bed)));
    assert_eq!(before, 1);
    assert_eq!(bed.catalog.entries(dir, 0, 10).unwrap().len(), 2);
    assert_eq!(young(&bed), 0, "a look at the tables writes it down first");
    assert_eq!(bed.lookup(dir, "f"), Some(ino));
}

#[test]
fn a_young_file_is_what_its_rows_will_say() {
    let bed = Bed::new();
    let (dir, place) = ground(&bed);
    let early = while_young(&bed, || {
        let ino = bed.native(dir, "f", 7);
        let wrote = bed.catalog.wrote_native(ino, bed.scratch, bed.content(9), &version(8)).unwrap();
        assert_eq!(wrote, Wrote { generation: Generation(2), nlink: 1 });
        assert_eq!(bed.lookup(dir, "g"), None);
        (
            bed.catalog.inode(ino).unwrap(),
            bed.catalog.lookup(dir, b"f").unwrap(),
            bed.catalog.names(ino).unwrap(),
            bed.catalog.inode(dir).unwrap(),
        )
    });
    bed.catalog.sync().unwrap();
    assert_eq!(young(&bed), 0);
    let ino = early.0.attr.ino;
    // From the tables: nothing of this is remembered.
    let rows = bed
        .catalog
        .engine
        .read(|tx| Ok((tx.inode(ino)?, tx.find_named(dir, b"f")?, tx.names(ino)?, tx.inode(dir)?)));
    assert_eq!(early, rows.unwrap());
    let replica = bed.replica(place, "f").unwrap();
    assert_eq!((replica.ino, replica.generation, replica.native_ino), (Some(ino), Generation(2), 7));
    assert_eq!(replica.version, Some(version(8)));
}

#[test]
fn a_name_is_taken_by_a_young_file() {
    let bed = Bed::new();
    let (dir, _) = ground(&bed);
    while_young(&bed, || bed.native(dir, "f", 7));
    let again = bed.make(dir, "f", FileKind::Regular, NewBytes::Staged { tier: bed.scratch });
    assert_eq!(kind_of(again), Kind::Exists);
}

#[test]
fn what_was_written_during_the_commit_is_not_lost() {
    let bed = Bed::new();
    let (dir, place) = ground(&bed);
    let mut inode = bed.catalog.inode(bed.native(dir, "model", 6)).unwrap();
    inode.attr.ino = bed.catalog.engine.write(|tx| tx.take_ino()).unwrap();
    let row = ReplicaRow { version: Some(b"7".to_vec()), ..ReplicaRow::new(place.0, b"f", inode.attr.ino.0) };
    let mut young = Young::default();
    young.add(YoungFile::new(dir, b"f", inode.clone(), row, bed.now(), bed.now()));
    let write = |files: &[YoungFile]| bed.catalog.engine.write(|tx| tx.write_young(files)).unwrap();

    let taken = young.snapshot();
    let generation = young.wrote(inode.attr.ino, bed.content(9), &version(8), bed.now()).unwrap();
    write(&taken);
    young.written(&taken);
    let rest = young.snapshot();
    assert_eq!(rest.len(), 1, "its rows are those of before");
    write(&rest);
    young.written(&rest);

    assert!(young.is_empty());
    let replica = bed.replica(place, "f").unwrap();
    assert_eq!((replica.version, replica.generation), (Some(version(8)), generation));
    assert_eq!(bed.catalog.inode(inode.attr.ino).unwrap().attr.size, 9);
}

#[test]
fn every_verb_sees_young_files() {
    let bed = Bed::new();
    let (dir, _) = ground(&bed);
    let [a, b, c] = while_young(&bed, || ["a", "b", "c"].map(|name| bed.native(dir, name, 7)));
    bed.catalog.unlink(dir, b"a", &[bed.scratch], "d", bed.tick()).unwrap();
    assert_eq!(bed.catalog.inode(a).unwrap().attr.nlink, 0);
    let mut plan = rename::plan(&bed, (dir, "b"), (dir, "c"), Some("d"));
    plan.mode = RenameMode::Replace;
    rename::run(&bed, &plan).unwrap();
    assert_eq!(bed.lookup(dir, "c"), Some(b));
    assert_eq!(bed.catalog.inode(c).unwrap().attr.nlink, 0);
    assert_eq!(kind_of(bed.catalog.rmdir(Ino::ROOT, b"d", &[], "d", bed.tick())), Kind::NotEmpty);
}

#[test]
fn many_creators_beside_the_commit() {
    const EACH: u64 = 1500;
    let bed = Bed::new();
    let dirs: Vec<Ino> = (0..4).map(|n| bed.native_dir(Ino::ROOT, &format!("d{n}"))).collect();
    std::thread::scope(|scope| {
        for (n, &dir) in (0..).zip(&dirs) {
            let bed = &bed;
            scope.spawn(move || {
                for i in 0..EACH {
                    bed.native(dir, &format!("f{i}"), n * EACH + i);
                }
            });
        }
    });
    for dir in dirs {
        assert_eq!(bed.catalog.entries(dir, 0, usize::MAX).unwrap().len() as u64, EACH);
    }
}

#[test]
fn names_of_a_directory_found_on_a_tier_are_learned() {
    let bed = Bed::new();
    let dir = bed.dir(Ino::ROOT, "d");
    bed.staged(dir, "there");
    bed.catalog.ensure_place(dir, bed.scratch).unwrap();
    bed.native(dir, "first", 1);
    bed.catalog.sync().unwrap();
    bed.catalog.inode(dir).unwrap();
    bed.catalog.native_place(dir, bed.scratch).unwrap();
    let made = while_young(&bed, || (bed.native(dir, "f", 7), young(&bed)));
    assert_eq!(made.1, 1);
    assert_eq!(kind_of(bed.make(dir, "there", FileKind::Directory, NewBytes::CatalogOnly)), Kind::Exists);
}
