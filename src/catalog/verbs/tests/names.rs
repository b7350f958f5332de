use super::*;

#[test]
fn a_new_catalog_has_a_root() {
    let bed = Bed::new();
    let root = bed.catalog.inode(Ino::ROOT).unwrap().attr;
    assert_eq!((root.kind, root.mode, root.nlink), (FileKind::Directory, 0o755, 2));
    assert_eq!(bed.catalog.path(Ino::ROOT).unwrap(), Some(Key::ROOT));
    assert_eq!(bed.catalog.id().len(), 32);
}

#[test]
fn a_tier_is_registered_once_and_keeps_its_mark() {
    let bed = Bed::new();
    bed.catalog.set_mark(bed.scratch, "abc", "ext4").unwrap();
    let again = bed.catalog.register_tier("scratch", "/elsewhere").unwrap();
    assert_eq!(
        (again.id, again.mark.as_deref(), &again.location[..]),
        (bed.scratch, Some("abc"), "/scratch")
    );
    assert_eq!(bed.catalog.tiers().unwrap().len(), 2);
    assert_eq!(kind_of(bed.catalog.set_mark(TierId(9), "x", "y")), Kind::NotFound);
}

#[test]
fn create_fills_directory_and_key() {
    let bed = Bed::new();
    let dir = bed.native_dir(Ino::ROOT, "d");
    let ino = bed.native(dir, "f", 5);
    assert_eq!(bed.keys(ino), ["d/f"]);
    assert_eq!(bed.catalog.path(ino).unwrap().unwrap().as_bytes(), b"d/f");
    let replica = bed.catalog.replicas(ino).unwrap().remove(0);
    assert_eq!((replica.generation, replica.native_ino, replica.staged), (Generation(1), 5, false));
    let (root, dir) = (bed.catalog.inode(Ino::ROOT).unwrap(), bed.catalog.inode(dir).unwrap());
    assert_eq!((root.attr.nlink, dir.attr.nlink, dir.attr.mtime), (3, 2, bed.now()));
    let place = bed.catalog.native_place(dir.attr.ino, bed.scratch).unwrap().unwrap();
    assert!(place.listed && place.version.is_none());
}

#[test]
fn create_refuses_what_is_taken_bad_or_nowhere() {
    let bed = Bed::new();
    let ino = bed.native(Ino::ROOT, "f", 5);
    let make = |parent, name: &str| bed.make(parent, name, FileKind::Regular, NewBytes::CatalogOnly);
    assert_eq!(kind_of(make(Ino::ROOT, "f")), Kind::Exists);
    assert_eq!(kind_of(make(Ino::ROOT, "a/b")), Kind::Invalid);
    assert_eq!(kind_of(make(Ino::ROOT, &"x".repeat(256))), Kind::NameTooLong);
    assert_eq!(kind_of(make(ino, "g")), Kind::NotDirectory);
    assert_eq!(kind_of(make(Ino(99), "g")), Kind::NotFound);
    let dir = bed.dir(Ino::ROOT, "d");
    bed.catalog.rmdir(Ino::ROOT, b"d", &[], "", bed.now()).unwrap();
    assert_eq!(kind_of(make(dir, "g")), Kind::NotFound);
}

#[test]
fn staged_bytes_are_a_dirty_row_before_the_first_byte() {
    let bed = Bed::new();
    let ino = bed.staged(Ino::ROOT, "f");
    let replica = bed.catalog.replicas(ino).unwrap().remove(0);
    let stage = format!(".tierfs/stage/{}/{:02x}/{}-1", bed.catalog.id(), ino.0 & 0xff, ino.0);
    assert_eq!((replica.key.to_string(), replica.staged, replica.version), (stage, true, None));
    assert_eq!(bed.catalog.dirty().unwrap()[0].state, WriteState::Writing);
    assert!(bed.steps().is_empty());
}

#[test]
fn deferred_bytes_queue_a_step() {
    let bed = Bed::new();
    let domain = "x".to_owned();
    let ino = bed.make(Ino::ROOT, "l", FileKind::Symlink, NewBytes::Deferred { domain }).unwrap();
    assert_eq!((ino.attr.size, ino.target.as_deref()), (6, Some(&b"target"[..])));
    assert_eq!((&bed.steps()[0].what, &bed.steps()[0].domain[..]), (&StepKind::Reconcile(ino.attr.ino), "x"));
}

#[test]
fn numbers_are_never_used_twice() {
    let bed = Bed::new();
    let first = bed.native(Ino::ROOT, "a", 1);
    bed.catalog.unlink(Ino::ROOT, b"a", &[bed.scratch], "", bed.now()).unwrap();
    bed.catalog.drop_orphan(first).unwrap();
    assert_eq!(kind_of(bed.catalog.inode(first)), Kind::NotFound);
    assert!(bed.native(Ino::ROOT, "a", 2) > first);
}

#[test]
fn a_link_is_one_more_key_of_the_same_file() {
    let bed = Bed::new();
    let dir = bed.native_dir(Ino::ROOT, "d");
    let ino = bed.native(Ino::ROOT, "f", 5);
    let linked = bed.catalog.link(ino, dir, b"g", Some(bed.scratch), None, bed.tick()).unwrap();
    assert_eq!((linked.attr.nlink, linked.attr.ctime), (2, bed.now()));
    assert_eq!(bed.keys(ino), ["d/g", "f"]);
    assert_eq!(kind_of(bed.catalog.link(ino, dir, b"g", None, None, bed.now())), Kind::Exists);
    assert_eq!(kind_of(bed.catalog.link(dir, dir, b"h", None, None, bed.now())), Kind::NotPermitted);
    assert_eq!(kind_of(bed.catalog.link(ino, dir, b"h", Some(bed.blob), None, bed.now())), Kind::Invalid);
    let mut names = bed.catalog.names(ino).unwrap();
    names.sort();
    assert_eq!(names, [(Ino::ROOT, b"f".to_vec()), (dir, b"g".to_vec())]);
}

#[test]
fn unlink_of_a_native_file_leaves_an_orphan_until_dropped() {
    let bed = Bed::new();
    let ino = bed.native(Ino::ROOT, "f", 5);
    bed.catalog.set_xattr(ino, b"user.a", Some(b"1"), None, bed.now()).unwrap();
    let gone = bed.catalog.unlink(Ino::ROOT, b"f", &[bed.scratch], "d", bed.tick()).unwrap();
    assert_eq!(gone, Unlinked { ino, nlink: 0, hid_older: false });
    assert_eq!((bed.lookup(Ino::ROOT, "f"), bed.catalog.orphans().unwrap()), (None, vec![ino]));
    assert!(bed.steps().is_empty() && bed.catalog.replicas(ino).unwrap().is_empty());
    assert_eq!(kind_of(bed.catalog.unlink(Ino::ROOT, b"f", &[], "d", bed.now())), Kind::NotFound);
    assert!(bed.catalog.drop_orphan(ino).unwrap().is_empty());
    assert!(bed.catalog.orphans().unwrap().is_empty());
}

#[test]
fn unlink_of_a_blob_queues_its_delete_in_order() {
    let bed = Bed::new();
    let ino = bed.closed(Ino::ROOT, "f");
    let place = bed.commit(ino, 1);
    bed.catalog.unlink(Ino::ROOT, b"f", &[], "d", bed.tick()).unwrap();
    let doomed = bed.replica(place, "f").unwrap();
    assert_eq!((doomed.ino, doomed.version), (None, Some(version(1))));
    let steps = bed.steps();
    assert_eq!(steps.len(), 1);
    assert_eq!(steps[0].what, StepKind::Delete { place, name: b"f".to_vec() });
    bed.catalog.deleted(place, b"f").unwrap();
    assert!(bed.steps().is_empty());
    assert_eq!(bed.replica(place, "f").unwrap().version, None);
    assert_eq!(bed.catalog.purge(bed.now()).unwrap(), 0);
    assert_eq!(bed.catalog.purge(bed.tick()).unwrap(), 1);
}

#[test]
fn unlink_while_a_commit_is_under_way_deletes_what_that_puts_there() {
    let bed = Bed::new();
    let ino = bed.closed(Ino::ROOT, "f");
    let place = bed.root(bed.scratch);
    bed.catalog.begin_commit(ino, place, b"f", "w").unwrap();
    bed.catalog.unlink(Ino::ROOT, b"f", &[bed.scratch], "d", bed.tick()).unwrap();
    let native = Some(NativeId { ino: 9, nlink: 1, blocks: 0, changed: Timestamp(0) });
    assert!(!bed.catalog.commit_if(ino, Generation(1), 1, place, b"f", &version(9), native).unwrap());
    let doomed = bed.replica(place, "f").unwrap();
    assert_eq!((doomed.ino, doomed.version, doomed.native_ino), (None, Some(version(9)), 9));
    assert_eq!(bed.steps()[0].what, StepKind::Delete { place, name: b"f".to_vec() });
}

#[test]
fn unlink_of_a_dirty_file_keeps_its_stage_row_and_drops_its_step() {
    let bed = Bed::new();
    let ino = bed.closed(Ino::ROOT, "f");
    bed.catalog.unlink(Ino::ROOT, b"f", &[], "d", bed.now()).unwrap();
    assert!(bed.steps().is_empty());
    let staged = bed.catalog.drop_orphan(ino).unwrap();
    assert!(staged.len() == 1 && staged[0].staged);
}

#[test]
fn the_only_copy_of_a_file_with_another_name_is_not_doomed() {
    let bed = Bed::new();
    let ino = bed.closed(Ino::ROOT, "f");
    let place = bed.commit(ino, 1);
    bed.catalog.link(ino, Ino::ROOT, b"g", None, Some("d"), bed.now()).unwrap();
    bed.catalog.unlink(Ino::ROOT, b"f", &[], "d", bed.now()).unwrap();
    assert_eq!(bed.replica(place, "f").unwrap().ino, Some(ino));
    assert_eq!(bed.steps().len(), 1);
    let (stray, names) = (bed.replica(place, "f").unwrap(), bed.catalog.names(ino).unwrap());
    assert_eq!(kind_of(bed.catalog.doom(&stray, &names, None, Writers::None, "d")), Kind::Busy);
    assert_eq!(kind_of(bed.catalog.drop_orphan(ino)), Kind::Busy);
}

#[test]
fn create_takes_a_doomed_key_over() {
    let bed = Bed::new();
    let old = bed.native(Ino::ROOT, "f", 5);
    bed.catalog.unlink(Ino::ROOT, b"f", &[], "d", bed.now()).unwrap();
    assert_eq!(bed.steps().len(), 1);
    let new = bed.native(Ino::ROOT, "f", 6);
    assert!(bed.steps().is_empty() && new != old);
    let replica = bed.replica(bed.root(bed.scratch), "f").unwrap();
    assert_eq!((replica.ino, replica.version), (Some(new), Some(version(6))));
}

#[test]
fn create_adopts_the_import_of_what_it_made() {
    let bed = Bed::new();
    let mut entry = file("f", 5);
    entry.object.native = Some(NativeId { ino: 5, nlink: 1, blocks: 0, changed: Timestamp(0) });
    observe::look(&bed, bed.root(bed.scratch), &[&entry], Scope::Found);
    let imported = bed.lookup(Ino::ROOT, "f").unwrap();
    assert_eq!(bed.native(Ino::ROOT, "f", 5), imported);
    assert_eq!(bed.catalog.inode(imported).unwrap().attr.mode, 0o644);
    let native = NativeId { ino: 77, nlink: 1, blocks: 0, changed: Timestamp(0) };
    let bytes = NewBytes::Native { tier: bed.scratch, version: version(5), native, mtime: bed.now() };
    assert_eq!(kind_of(bed.make(Ino::ROOT, "f", FileKind::Regular, bytes)), Kind::Exists);
}

#[test]
fn rmdir_wants_an_empty_directory() {
    let bed = Bed::new();
    let dir = bed.native_dir(Ino::ROOT, "d");
    bed.native(dir, "f", 1);
    let rmdir = |name: &[u8]| bed.catalog.rmdir(Ino::ROOT, name, &[bed.scratch], "d", bed.now());
    assert_eq!(kind_of(rmdir(b"d")), Kind::NotEmpty);
    assert_eq!(kind_of(rmdir(b"x")), Kind::NotFound);
    assert_eq!(kind_of(bed.catalog.unlink(Ino::ROOT, b"d", &[], "d", bed.now())), Kind::IsDirectory);
    bed.catalog.unlink(dir, b"f", &[bed.scratch], "d", bed.now()).unwrap();
    rmdir(b"d").unwrap();
    assert_eq!(bed.catalog.inode(Ino::ROOT).unwrap().attr.nlink, 2);
    assert!(bed.catalog.places(dir).unwrap().is_empty());
    bed.native(Ino::ROOT, "f", 2);
    assert_eq!(kind_of(rmdir(b"f")), Kind::NotDirectory);
}

#[test]
fn a_given_up_place_goes_with_its_last_doomed_key() {
    let bed = Bed::new();
    let dir = bed.dir(Ino::ROOT, "d");
    let ino = bed.closed(dir, "f");
    let place = bed.commit(ino, 1);
    bed.catalog.unlink(dir, b"f", &[], "d", bed.now()).unwrap();
    bed.catalog.rmdir(Ino::ROOT, b"d", &[], "d", bed.now()).unwrap();
    assert_eq!(bed.catalog.place(place).unwrap().ino, None);
    bed.catalog.deleted(place, b"f").unwrap();
    assert_eq!(kind_of(bed.catalog.place(place)), Kind::NotFound);
}

#[test]
fn pages_by_cookie_show_each_name_once() {
    let bed = Bed::new();
    for n in 0..50 {
        bed.native(Ino::ROOT, &format!("f{n}"), n + 1);
    }
    for limit in [1, 7, 50, 1000] {
        let (mut names, mut after) = (Vec::new(), 0);
        loop {
            let page = bed.catalog.entries(Ino::ROOT, after, limit).unwrap();
            let Some(last) = page.last() else { break };
            assert!(page.len() <= limit && page[0].cookie > after && last.cookie >= 16);
            after = last.cookie;
            names.extend(page.into_iter().map(|entry| entry.name));
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 50);
    }
    assert!(bed.catalog.entries(Ino::ROOT, u64::MAX, 5).unwrap().is_empty());
}

#[test]
fn a_page_never_ends_between_equal_cookies() {
    let bed = Bed::new();
    for n in 1..=3 {
        bed.native(Ino::ROOT, &format!("f{n}"), n);
    }
    bed.catalog.engine.write(|tx| tx.execute("UPDATE dentry SET hash = 100", [])).unwrap();
    assert_eq!(bed.catalog.entries(Ino::ROOT, 0, 1).unwrap().len(), 3);
    assert!(bed.catalog.entries(Ino::ROOT, 100, 1).unwrap().is_empty());
    // Their names can't be found any more, which is not the point here.
}

#[test]
fn attributes_change_with_their_generation() {
    let bed = Bed::new();
    let ino = bed.native(Ino::ROOT, "f", 1);
    let change = AttrChange {
        mode: Some(0o100_600),
        mtime: Some(TimeChange::To(Timestamp(-5))),
        atime: Some(TimeChange::Now),
        ..AttrChange::default()
    };
    let inode = bed.catalog.set_attr(ino, &change, Some("d"), bed.tick()).unwrap();
    let attr = &inode.attr;
    assert_eq!((attr.mode, attr.mtime, attr.atime, attr.ctime), (0o600, Timestamp(-5), bed.now(), bed.now()));
    assert_eq!((attr.uid, inode.attr_generation, bed.steps().len()), (1, 2, 1));
    assert_eq!(bed.catalog.inode(ino).unwrap(), inode);
    assert_eq!(kind_of(bed.catalog.set_attr(Ino(99), &change, None, bed.now())), Kind::NotFound);
}

#[test]
fn xattrs_are_set_read_and_removed() {
    let bed = Bed::new();
    let ino = bed.native(Ino::ROOT, "f", 1);
    for (name, value) in [(b"user.b", b"1"), (b"user.a", b"2"), (b"user.b", b"3")] {
        bed.catalog.set_xattr(ino, name, Some(value), None, bed.now()).unwrap();
    }
    let both = [(b"user.a".to_vec(), b"2".to_vec()), (b"user.b".to_vec(), b"3".to_vec())];
    assert_eq!(bed.catalog.xattrs(ino).unwrap(), both);
    bed.catalog.set_xattr(ino, b"user.a", None, None, bed.now()).unwrap();
    assert_eq!(bed.catalog.xattr(ino, b"user.a").unwrap(), None);
    assert_eq!(kind_of(bed.catalog.set_xattr(ino, b"user.a", None, None, bed.now())), Kind::NoAttribute);
}
