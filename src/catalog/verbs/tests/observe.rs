use super::*;
use std::collections::HashSet;

pub(super) struct Seen<'a> {
    pub place: PlaceId,
    pub began: Timestamp,
    pub standing: Standing,
    pub markers: bool,
    pub entries: &'a [&'a Entry],
}

pub(super) fn merge(bed: &Bed, seen: &Seen<'_>, scope: Scope<'_>) -> Observed {
    let found = seen.entries.iter().map(|entry| Found { entry, standing: seen.standing }).collect();
    let observed = bed.catalog.observe(&Observation {
        place: seen.place,
        began: seen.began,
        found,
        scope,
        defaults: DEFAULTS,
        holds_owner_and_mode: !seen.markers,
        markers: seen.markers,
    });
    bed.sound();
    observed.unwrap()
}

/// A look at home, now.
pub(super) fn look(bed: &Bed, place: PlaceId, entries: &[&Entry], scope: Scope<'_>) -> Observed {
    let markers = bed.catalog.place(place).unwrap().tier == bed.blob;
    let seen = Seen { place, began: bed.tick(), standing: Standing::Home, markers, entries };
    merge(bed, &seen, scope)
}

fn everything(bed: &Bed, place: PlaceId, entries: &[&Entry]) -> Observed {
    let seen: HashSet<Vec<u8>> = entries.iter().map(|entry| entry.name.clone()).collect();
    look(bed, place, entries, Scope::All { seen: &seen, version: Some(version(99)) })
}

#[test]
fn foreign_names_are_imported_with_what_the_tier_says_of_them() {
    let bed = Bed::new();
    let mut known = file("known", 5);
    known.object.attrs = Attrs {
        mode: Some(0o600),
        uid: Some(70),
        mtime: Some(Timestamp(3)),
        xattrs: vec![(b"user.a".to_vec(), b"1".to_vec())],
        ..Attrs::default()
    };
    let mut link = file("link", 6);
    link.object.kind = FileKind::Symlink;
    link.object.target = Some(b"to/there".to_vec());
    let observed = everything(&bed, bed.root(bed.blob), &[&known, &link, &file("bare", 7), &prefix("dir")]);
    assert_eq!(observed, Observed::default());
    let inode = |name| bed.catalog.lookup(Ino::ROOT, name).unwrap().unwrap();
    let attr = inode(b"known").attr;
    assert_eq!((attr.mode, attr.uid, attr.gid, attr.size, attr.mtime), (0o600, 70, 8, 5, Timestamp(3)));
    assert_eq!(bed.catalog.xattrs(attr.ino).unwrap().len(), 1);
    assert_eq!((inode(b"link").target.unwrap(), inode(b"link").attr.size), (b"to/there".to_vec(), 8));
    assert_eq!((inode(b"bare").attr.mode, inode(b"bare").attr.uid), (0o640, 7));
    assert_eq!((inode(b"dir").attr.mode, bed.catalog.inode(Ino::ROOT).unwrap().attr.nlink), (0o750, 3));
    let place = bed.catalog.places(inode(b"dir").attr.ino).unwrap()[0].clone();
    assert_eq!((place.key.to_string(), place.listed), ("dir".to_owned(), false));
    let root = bed.catalog.place(bed.root(bed.blob)).unwrap();
    assert!(root.listed && root.version == Some(version(99)));
}

#[test]
fn reserved_and_impossible_names_are_not_imported() {
    let bed = Bed::new();
    everything(&bed, bed.root(bed.scratch), &[&prefix(".tierfs"), &file("..", 1), &file("a/b", 2)]);
    assert!(bed.catalog.is_empty(Ino::ROOT).unwrap());
}

#[test]
fn a_listing_says_nothing_of_what_was_moved_out_of_the_way() {
    let bed = Bed::new();
    let root = bed.root(bed.scratch);
    let moved = bed.catalog.moved_place(bed.scratch).unwrap();
    let dir = bed.native_dir(Ino::ROOT, "dir");
    let file = bed.native(dir, "f", 5);
    let place = bed.catalog.native_place(dir, bed.scratch).unwrap().unwrap();
    bed.catalog.move_place(place.id, moved.id, b"7").unwrap();
    everything(&bed, root, &[]);
    assert_eq!(bed.catalog.places(dir).unwrap()[0].key.to_string(), ".tierfs/moved/7");
    assert_eq!(bed.lookup(dir, "f"), Some(file));
}

#[test]
fn the_same_look_twice_changes_nothing() {
    let bed = Bed::new();
    let place = bed.root(bed.blob);
    let (f, d) = (file("f", 5), prefix("d"));
    everything(&bed, place, &[&f, &d]);
    let before = (bed.lookup(Ino::ROOT, "f"), bed.lookup(Ino::ROOT, "d"));
    assert_eq!(everything(&bed, place, &[&f, &d]), Observed::default());
    assert_eq!((bed.lookup(Ino::ROOT, "f"), bed.lookup(Ino::ROOT, "d")), before);
}

#[test]
fn outside_content_is_a_new_generation() {
    let bed = Bed::new();
    let place = bed.root(bed.blob);
    everything(&bed, place, &[&file("f", 5)]);
    let ino = bed.lookup(Ino::ROOT, "f").unwrap();
    assert_eq!(everything(&bed, place, &[&file("f", 6)]).contents, [ino]);
    let inode = bed.catalog.inode(ino).unwrap();
    assert_eq!((inode.generation, inode.attr.size), (Generation(2), 6));
    let row = bed.replica(place, "f").unwrap();
    assert_eq!((row.generation, row.version), (Generation(2), Some(version(6))));
}

#[test]
fn an_older_look_says_nothing() {
    let bed = Bed::new();
    let began = bed.now();
    let ino = bed.native(Ino::ROOT, "f", 1);
    bed.native(Ino::ROOT, "g", 2);
    bed.catalog.unlink(Ino::ROOT, b"g", &[bed.scratch], "", bed.tick()).unwrap();
    let (f, g) = (file("f", 50), file("g", 2));
    let place = bed.root(bed.scratch);
    let seen = Seen { place, began, standing: Standing::Home, markers: false, entries: &[&f, &g] };
    assert_eq!(merge(&bed, &seen, Scope::Found), Observed::default());
    let nothing = Seen { entries: &[], ..seen };
    let names = HashSet::new();
    assert_eq!(merge(&bed, &nothing, Scope::All { seen: &names, version: None }), Observed::default());
    assert_eq!((bed.lookup(Ino::ROOT, "f"), bed.lookup(Ino::ROOT, "g")), (Some(ino), None));
    look(&bed, place, &[&g], Scope::Found);
    assert!(bed.lookup(Ino::ROOT, "g").is_some());
}

#[test]
fn a_pending_delete_is_not_imported_again() {
    let bed = Bed::new();
    let ino = bed.closed(Ino::ROOT, "f");
    let place = bed.commit(ino, 1);
    bed.catalog.unlink(Ino::ROOT, b"f", &[], "d", bed.tick()).unwrap();
    everything(&bed, place, &[&file("f", 1)]);
    assert_eq!(bed.lookup(Ino::ROOT, "f"), None);
    everything(&bed, place, &[]);
    assert_eq!(bed.steps().len(), 1);
}

#[test]
fn a_dirty_file_is_left_to_its_commit() {
    let bed = Bed::new();
    let ino = bed.closed(Ino::ROOT, "f");
    let place = bed.commit(ino, 1);
    bed.catalog.begin_write(ino, bed.scratch).unwrap();
    assert_eq!(everything(&bed, place, &[&file("f", 9)]), Observed::default());
    assert_eq!(bed.replica(place, "f").unwrap().version, Some(version(1)));
    assert_eq!(everything(&bed, place, &[]), Observed::default());
    assert_eq!(bed.lookup(Ino::ROOT, "f"), Some(ino));
}

#[test]
fn a_new_dirty_file_hides_a_foreign_one_of_its_name() {
    let bed = Bed::new();
    let ino = bed.closed(Ino::ROOT, "f");
    let observed = everything(&bed, bed.root(bed.blob), &[&file("f", 9)]);
    assert_eq!((observed.shadowed, bed.lookup(Ino::ROOT, "f")), (1, Some(ino)));
    assert_eq!(bed.replica(bed.root(bed.blob), "f"), None);
}

#[test]
fn what_is_gone_from_its_only_tier_is_gone() {
    let bed = Bed::new();
    let place = bed.root(bed.blob);
    everything(&bed, place, &[&file("f", 5), &file("g", 6)]);
    let ino = bed.lookup(Ino::ROOT, "f").unwrap();
    let observed = everything(&bed, place, &[&file("g", 6)]);
    assert_eq!(observed.entries, [(Ino::ROOT, b"f".to_vec(), ino)]);
    assert_eq!((bed.lookup(Ino::ROOT, "f"), bed.catalog.orphans().unwrap()), (None, vec![ino]));
    let other = bed.lookup(Ino::ROOT, "g").unwrap();
    assert_eq!(look(&bed, place, &[], Scope::Name(b"x")), Observed::default());
    assert_eq!(look(&bed, place, &[], Scope::Name(b"g")).entries, [(Ino::ROOT, b"g".to_vec(), other)]);
    bed.catalog.drop_orphan(ino).unwrap();
    everything(&bed, place, &[&file("f", 5)]);
    assert!(bed.lookup(Ino::ROOT, "f").is_some_and(|new| new != ino));
}

#[test]
fn a_file_that_a_commit_may_have_taken_elsewhere_stays() {
    let bed = Bed::new();
    let place = bed.root(bed.blob);
    everything(&bed, place, &[&file("f", 5)]);
    let ino = bed.lookup(Ino::ROOT, "f").unwrap();
    let moved = bed.catalog.moved_place(bed.blob).unwrap().id;
    bed.catalog.begin_commit(ino, moved, b"1", "w").unwrap();
    assert_eq!(everything(&bed, place, &[]), Observed::default());
    assert_eq!(bed.lookup(Ino::ROOT, "f"), Some(ino));
    bed.catalog.abort_commit(moved, b"1").unwrap();
    assert_eq!(everything(&bed, place, &[]).entries, [(Ino::ROOT, b"f".to_vec(), ino)]);
}

#[test]
fn a_file_with_another_copy_stays() {
    let bed = Bed::new();
    let ino = bed.native(Ino::ROOT, "f", 1);
    let blob = bed.root(bed.blob);
    bed.catalog.commit_if(ino, Generation(1), 1, blob, b"f", &version(4), None).unwrap();
    assert_eq!(everything(&bed, blob, &[]), Observed::default());
    assert_eq!((bed.lookup(Ino::ROOT, "f"), bed.keys(ino)), (Some(ino), vec!["f".to_owned()]));
}

#[test]
fn directories_merge_over_tiers_and_go_with_the_last() {
    let bed = Bed::new();
    let (scratch, blob) = (bed.root(bed.scratch), bed.root(bed.blob));
    everything(&bed, scratch, &[&prefix("d")]);
    let dir = bed.lookup(Ino::ROOT, "d").unwrap();
    everything(&bed, blob, &[&prefix("d")]);
    assert_eq!((bed.lookup(Ino::ROOT, "d"), bed.catalog.places(dir).unwrap().len()), (Some(dir), 2));
    let place = bed.catalog.native_place(dir, bed.blob).unwrap().unwrap().id;
    everything(&bed, place, &[&file("f", 1)]);
    let observed = everything(&bed, blob, &[]);
    assert_eq!(observed.entries.len(), 1);
    assert_eq!(bed.lookup(Ino::ROOT, "d"), Some(dir));
    let observed = everything(&bed, scratch, &[]);
    assert_eq!(observed.entries, [(Ino::ROOT, b"d".to_vec(), dir)]);
    assert_eq!(bed.catalog.inode(Ino::ROOT).unwrap().attr.nlink, 2);
}

#[test]
fn a_directory_that_only_the_catalog_has_stays() {
    let bed = Bed::new();
    let dir = bed.dir(Ino::ROOT, "d");
    everything(&bed, bed.root(bed.scratch), &[]);
    everything(&bed, bed.root(bed.blob), &[]);
    assert_eq!(bed.lookup(Ino::ROOT, "d"), Some(dir));
}

#[test]
fn a_prefix_with_something_dirty_in_it_stays() {
    let bed = Bed::new();
    let blob = bed.root(bed.blob);
    everything(&bed, blob, &[&prefix("d")]);
    let dir = bed.lookup(Ino::ROOT, "d").unwrap();
    let ino = bed.closed(dir, "f");
    everything(&bed, blob, &[]);
    assert_eq!((bed.lookup(Ino::ROOT, "d"), bed.lookup(dir, "f")), (Some(dir), Some(ino)));
}

#[test]
fn home_wins_over_elsewhere() {
    let bed = Bed::new();
    let (scratch, blob) = (bed.root(bed.scratch), bed.root(bed.blob));
    let cold = file("f", 5);
    let at = |place, standing, entries: &[&Entry]| {
        let seen = Seen { place, began: bed.tick(), standing, markers: place == blob, entries };
        merge(&bed, &seen, Scope::Found)
    };
    at(blob, Standing::Elsewhere, &[&cold]);
    let old = bed.lookup(Ino::ROOT, "f").unwrap();
    let observed = at(scratch, Standing::Home, &[&file("f", 7)]);
    assert_eq!(observed.entries, [(Ino::ROOT, b"f".to_vec(), old)]);
    let new = bed.lookup(Ino::ROOT, "f").unwrap();
    assert!(new != old && bed.catalog.inode(new).unwrap().attr.size == 7);
    assert_eq!(at(blob, Standing::Elsewhere, &[&cold]).shadowed, 1);
    assert_eq!(bed.lookup(Ino::ROOT, "f"), Some(new));
}

#[test]
fn what_rules_never_place_there_is_not_shown() {
    let bed = Bed::new();
    let (f, d) = (file("f", 5), prefix("d"));
    let seen = Seen {
        place: bed.root(bed.blob),
        began: bed.tick(),
        standing: Standing::Foreign,
        markers: true,
        entries: &[&f, &d],
    };
    assert_eq!(merge(&bed, &seen, Scope::Found).shadowed, 2);
    assert!(bed.catalog.is_empty(Ino::ROOT).unwrap());
}

#[test]
fn a_prefix_that_moved_away_imports_nothing_under_its_old_name() {
    let bed = Bed::new();
    let blob = bed.root(bed.blob);
    everything(&bed, blob, &[&prefix("a")]);
    let a = bed.lookup(Ino::ROOT, "a").unwrap();
    rename::rename(&bed, (Ino::ROOT, "a"), (Ino::ROOT, "b"), Some("d"));
    everything(&bed, blob, &[&prefix("a")]);
    assert_eq!((bed.lookup(Ino::ROOT, "a"), bed.lookup(Ino::ROOT, "b")), (None, Some(a)));
    let old = bed.catalog.places(a).unwrap()[0].clone();
    everything(&bed, old.id, &[&file("f", 1)]);
    let child = bed.lookup(a, "f").unwrap();
    assert_eq!(bed.keys(child), ["a/f"]);
    assert_eq!(bed.catalog.path(child).unwrap().unwrap().to_string(), "b/f");
}

#[test]
fn native_hard_links_are_one_inode() {
    let bed = Bed::new();
    let scratch = bed.root(bed.scratch);
    let native = Some(NativeId { ino: 40, nlink: 2, blocks: 8, changed: Timestamp(0) });
    let (mut f, mut g) = (file("f", 5), file("g", 5));
    (f.object.native, g.object.native) = (native, native);
    everything(&bed, scratch, &[&f, &g]);
    let ino = bed.lookup(Ino::ROOT, "f").unwrap();
    assert_eq!(bed.lookup(Ino::ROOT, "g"), Some(ino));
    assert_eq!(bed.catalog.inode(ino).unwrap().attr.nlink, 2);
    f.object.version = version(6);
    g.object.version = version(6);
    assert_eq!(everything(&bed, scratch, &[&f, &g]).contents, [ino]);
    assert_eq!(everything(&bed, scratch, &[&f]).entries, [(Ino::ROOT, b"g".to_vec(), ino)]);
    assert_eq!(bed.catalog.inode(ino).unwrap().attr.nlink, 1);
}

#[test]
fn markers_carry_a_directorys_attributes() {
    let bed = Bed::new();
    let blob = bed.root(bed.blob);
    let mut marker = prefix("d");
    marker.object.version = version(3);
    marker.object.attrs.mode = Some(0o700);
    everything(&bed, blob, &[&marker]);
    let dir = bed.lookup(Ino::ROOT, "d").unwrap();
    assert_eq!((bed.catalog.inode(dir).unwrap().attr.mode, bed.keys(dir)), (0o700, vec!["d".to_owned()]));
    marker.object.version = version(4);
    marker.object.attrs.mode = Some(0o711);
    assert_eq!(everything(&bed, blob, &[&marker]).contents, [dir]);
    assert_eq!(bed.catalog.inode(dir).unwrap().attr.mode, 0o711);
    bed.catalog.rmdir(Ino::ROOT, b"d", &[], "d", bed.tick()).unwrap();
    assert_eq!(bed.steps()[0].what, StepKind::Delete { place: blob, name: b"d".to_vec() });
    everything(&bed, blob, &[&marker]);
    assert_eq!(bed.lookup(Ino::ROOT, "d"), None);
}

#[test]
fn the_marker_that_a_renamed_directory_left_stays_its_own() {
    let bed = Bed::new();
    let bytes = NewBytes::Deferred { domain: "d".into() };
    let dir = bed.make(Ino::ROOT, "d", FileKind::Directory, bytes).unwrap().attr.ino;
    let blob = bed.commit(dir, 3);
    rename::run(&bed, &rename::plan(&bed, (Ino::ROOT, "d"), (Ino::ROOT, "e"), Some("d"))).unwrap();
    let mut marker = prefix("d");
    marker.object.version = version(3);
    look(&bed, blob, &[&marker], Scope::Found);
    assert_eq!(bed.lookup(Ino::ROOT, "d"), None);
    let row = bed.replica(blob, "d").unwrap();
    assert_eq!((row.ino, row.version), (Some(dir), Some(version(3))), "or nobody would delete it");
}

#[test]
fn a_file_in_place_of_a_directory_and_back() {
    let bed = Bed::new();
    let scratch = bed.root(bed.scratch);
    everything(&bed, scratch, &[&prefix("x")]);
    let dir = bed.lookup(Ino::ROOT, "x").unwrap();
    let observed = everything(&bed, scratch, &[&file("x", 3)]);
    assert_eq!(observed.entries, [(Ino::ROOT, b"x".to_vec(), dir)]);
    let ino = bed.lookup(Ino::ROOT, "x").unwrap();
    assert_eq!(bed.catalog.inode(ino).unwrap().attr.kind, FileKind::Regular);
    everything(&bed, scratch, &[&prefix("x")]);
    let back = bed.lookup(Ino::ROOT, "x").unwrap();
    assert_eq!(bed.catalog.inode(back).unwrap().attr.kind, FileKind::Directory);
}

#[test]
fn a_taken_over_key_is_not_this_inodes_content() {
    let bed = Bed::new();
    let old = bed.closed(Ino::ROOT, "f");
    let place = bed.commit(old, 1);
    let new = bed.closed(Ino::ROOT, "t");
    rename::rename(&bed, (Ino::ROOT, "t"), (Ino::ROOT, "f"), Some("d"));
    everything(&bed, place, &[]);
    assert_eq!(bed.lookup(Ino::ROOT, "f"), Some(new));
    assert_eq!(bed.replica(place, "f").unwrap().version, Some(version(1)));
}

#[test]
fn objects_with_one_mark_are_one_file_until_one_of_them_changes() {
    let bed = Bed::new();
    let marked = |name: &str, tag: u64, mark: &str| {
        let mut entry = file(name, tag);
        entry.object.size = 10;
        entry.object.attrs.link = Some(mark.into());
        entry
    };
    let root = bed.root(bed.blob);
    let [a, b, c] = ["a", "b", "c"].map(|name| marked(name, 1, "g-1"));
    let other = marked("other", 1, "g-2");
    everything(&bed, root, &[&a, &b, &c, &other]);
    let find = |name: &str| bed.catalog.lookup(Ino::ROOT, name.as_bytes()).unwrap().unwrap();
    let first = find("a").attr.ino;
    assert_eq!((find("b").attr.ino, find("c").attr.ino, find("a").attr.nlink), (first, first, 3));
    assert!(find("other").attr.ino != first && find("other").attr.nlink == 1);

    // Another mount writes by one name: each name follows as its object does.
    let (a, b) = (marked("a", 2, "h-1"), marked("b", 2, "h-1"));
    let observed = everything(&bed, root, &[&a, &marked("b", 1, "g-1"), &c, &other]);
    assert_eq!(observed.entries, [(Ino::ROOT, b"a".to_vec(), first)]);
    assert!(find("a").attr.ino != first && find("b").attr.ino == first && find("c").attr.nlink == 2);
    everything(&bed, root, &[&a, &b, &c, &other]);
    assert_eq!((find("a").attr.ino, find("a").attr.nlink), (find("b").attr.ino, 2));
    assert_eq!((find("c").attr.ino, find("c").attr.nlink), (first, 1));

    // A mark alone is not enough: what is of another size has other bytes.
    let mut longer = marked("d", 5, "h-1");
    longer.object.size = 11;
    everything(&bed, root, &[&a, &b, &c, &other, &longer]);
    assert!(find("d").attr.ino != find("a").attr.ino);
}
