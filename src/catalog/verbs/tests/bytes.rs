use super::*;

#[test]
fn a_write_goes_through_its_states() {
    let bed = Bed::new();
    let ino = bed.staged(Ino::ROOT, "f");
    let state = || bed.catalog.inode(ino).unwrap().state;
    let seq = bed.catalog.close(ino, bed.content(10), "d").unwrap();
    assert_eq!((state(), bed.catalog.inode(ino).unwrap().attr.size), (WriteState::ClosedOpen, 10));
    assert_eq!(bed.catalog.close(ino, bed.content(11), "d").unwrap(), seq);
    bed.catalog.released(ino).unwrap();
    assert_eq!(state(), WriteState::Closed);
    bed.commit(ino, 1);
    assert_eq!((state(), bed.keys(ino)), (WriteState::Clean, vec!["f".to_owned()]));
    assert!(bed.catalog.dirty().unwrap().is_empty() && bed.steps().is_empty());
}

#[test]
fn a_closed_file_is_taken_back_under_the_same_stage_file_and_step() {
    let bed = Bed::new();
    let ino = bed.closed(Ino::ROOT, "f");
    let before = bed.catalog.replicas(ino).unwrap().remove(0);
    let seq = bed.steps()[0].seq;
    let back = bed.catalog.begin_write(ino, bed.scratch).unwrap();
    assert_eq!((&back.key, back.generation), (&before.key, Generation(2)));
    assert_eq!(bed.catalog.begin_write(ino, bed.scratch).unwrap(), back);
    bed.closed(Ino::ROOT, "g");
    let last = bed.steps().last().unwrap().seq;
    let now = bed.catalog.close(ino, bed.content(2), "d").unwrap();
    assert!(seq < last && last < now, "what is closed now may speak of what was closed meanwhile");
    bed.closed(Ino::ROOT, "h");
    let last = bed.steps().last().unwrap().seq;
    assert!(
        bed.catalog.close(ino, bed.content(3), "d").unwrap() > last,
        "so may a later close of the same open"
    );
    bed.catalog.released(ino).unwrap();
    bed.closed(Ino::ROOT, "i");
    let seq = bed.catalog.step_of(ino).unwrap().unwrap();
    bed.catalog.begin_write(ino, bed.scratch).unwrap();
    assert_eq!(bed.catalog.close(ino, bed.content(4), "d").unwrap(), seq, "others wait for it");
    assert_eq!(bed.steps().len(), 4);
}

#[test]
fn a_commit_of_an_older_generation_does_not_clean() {
    let bed = Bed::new();
    let ino = bed.closed(Ino::ROOT, "f");
    let place = bed.root(bed.blob);
    bed.catalog.begin_commit(ino, place, b"f", "w").unwrap();
    assert_eq!(bed.catalog.unknown_commits().unwrap()[0].write_id.as_deref(), Some("w"));
    bed.catalog.begin_write(ino, bed.scratch).unwrap();
    bed.catalog.close(ino, bed.content(3), "d").unwrap();
    bed.catalog.released(ino).unwrap();
    let newest = bed.catalog.commit_if(ino, Generation(1), 1, place, b"f", &version(1), None).unwrap();
    assert!(!newest && bed.catalog.unknown_commits().unwrap().is_empty());
    assert_eq!(bed.catalog.inode(ino).unwrap().state, WriteState::Closed);
    let stage = bed.catalog.replicas(ino).unwrap().into_iter().find(|replica| replica.staged).unwrap();
    assert_eq!(kind_of(bed.catalog.drop_replica(stage.place, &stage.name)), Kind::Busy);
}

#[test]
fn a_close_after_an_attribute_step_takes_its_own_place() {
    let bed = Bed::new();
    let ino = bed.staged(Ino::ROOT, "f");
    bed.catalog.set_attr(ino, &AttrChange::default(), Some("d"), bed.now()).unwrap();
    let other = bed.closed(Ino::ROOT, "g");
    bed.catalog.close(ino, bed.content(1), "d").unwrap();
    let order: Vec<_> = bed.steps().into_iter().map(|step| step.what).collect();
    assert_eq!(order, [StepKind::Reconcile(other), StepKind::Reconcile(ino)]);
}

#[test]
fn a_write_open_that_wrote_nothing_is_reverted() {
    let bed = Bed::new();
    let ino = bed.closed(Ino::ROOT, "f");
    assert_eq!(bed.catalog.revert_write(ino, "d").unwrap(), None);
    bed.commit(ino, 1);
    let staged = bed.catalog.begin_write(ino, bed.scratch).unwrap();
    assert_eq!(staged.name, crate::catalog::stage_name(ino, Generation(2)));
    assert_eq!(bed.catalog.revert_write(ino, "d").unwrap().unwrap().key, staged.key);
    let inode = bed.catalog.inode(ino).unwrap();
    assert_eq!((inode.generation, inode.state), (Generation(1), WriteState::Clean));
    assert_eq!(bed.catalog.revert_write(ino, "d").unwrap(), None);
}

#[test]
fn a_new_file_cant_be_reverted() {
    let bed = Bed::new();
    let ino = bed.staged(Ino::ROOT, "f");
    assert_eq!(bed.catalog.revert_write(ino, "d").unwrap(), None);
}

#[test]
fn writing_in_place_is_a_new_generation_of_all_native_names() {
    let bed = Bed::new();
    let ino = bed.native(Ino::ROOT, "f", 5);
    bed.catalog.link(ino, Ino::ROOT, b"g", Some(bed.scratch), None, bed.now()).unwrap();
    bed.tick();
    bed.catalog.wrote_native(ino, bed.scratch, bed.content(9), &version(50)).unwrap();
    let inode = bed.catalog.inode(ino).unwrap();
    assert_eq!((inode.generation, inode.attr.size), (Generation(2), 9));
    for replica in bed.catalog.replicas(ino).unwrap() {
        assert_eq!((replica.generation, replica.version), (Generation(2), Some(version(50))));
    }
    bed.catalog.wrote_native(ino, bed.scratch, bed.content(9), &version(51)).unwrap();
    assert_eq!(bed.catalog.inode(ino).unwrap().generation, Generation(2));
}

#[test]
fn a_commit_in_flight_over_an_unlink_is_remembered_for_the_delete() {
    let bed = Bed::new();
    let ino = bed.closed(Ino::ROOT, "f");
    let place = bed.root(bed.blob);
    bed.catalog.begin_commit(ino, place, b"f", "w").unwrap();
    bed.catalog.unlink(Ino::ROOT, b"f", &[], "d", bed.now()).unwrap();
    assert_eq!(bed.steps().len(), 1);
    assert_eq!(bed.catalog.unknown_commits().unwrap()[0].ino, None);
    bed.catalog.drop_orphan(ino).unwrap();
    assert!(!bed.catalog.commit_if(ino, Generation(1), 1, place, b"f", &version(9), None).unwrap());
    let doomed = bed.replica(place, "f").unwrap();
    assert_eq!((doomed.ino, doomed.version, doomed.write_id), (None, Some(version(9)), None));
}

#[test]
fn a_commit_takes_a_doomed_key_over_with_its_version() {
    let bed = Bed::new();
    let old = bed.closed(Ino::ROOT, "f");
    let place = bed.commit(old, 1);
    bed.catalog.unlink(Ino::ROOT, b"f", &[], "d", bed.now()).unwrap();
    let new = bed.closed(Ino::ROOT, "f");
    bed.catalog.begin_commit(new, place, b"f", "w").unwrap();
    let row = bed.replica(place, "f").unwrap();
    assert_eq!((row.ino, row.version, row.generation), (Some(new), Some(version(1)), Generation(0)));
    assert!(bed.steps().iter().all(|step| step.what == StepKind::Reconcile(new)));
    bed.catalog.abort_commit(place, b"f").unwrap();
    assert!(bed.catalog.unknown_commits().unwrap().is_empty());
}

#[test]
fn a_commit_never_overwrites_the_only_copy_of_another_file() {
    let bed = Bed::new();
    let a = bed.closed(Ino::ROOT, "a");
    let place = bed.commit(a, 1);
    rename::rename(&bed, (Ino::ROOT, "a"), (Ino::ROOT, "b"), Some("d"));
    let new = bed.closed(Ino::ROOT, "a");
    assert_eq!(kind_of(bed.catalog.begin_commit(new, place, b"a", "w")), Kind::Busy);
    let again = bed.commit(a, 2);
    assert_eq!(bed.keys(a), ["a", "b"]);
    bed.catalog.begin_commit(new, again, b"a", "w").unwrap();
    assert_eq!(bed.keys(a), ["b"]);
}

#[test]
fn a_conflict_keeps_both() {
    let bed = Bed::new();
    let ino = bed.closed(Ino::ROOT, "f");
    let place = bed.root(bed.blob);
    let theirs = file("f", 8);
    let told = bed
        .catalog
        .set_aside(ino, Ino::ROOT, b"f", b"f.conflict-h-t", place, Some(&theirs), DEFAULTS)
        .unwrap();
    assert_eq!(told.entries, [(Ino::ROOT, b"f".to_vec(), ino)]);
    assert_eq!(bed.lookup(Ino::ROOT, "f.conflict-h-t"), Some(ino));
    let new = bed.lookup(Ino::ROOT, "f").unwrap();
    assert_eq!((bed.catalog.inode(new).unwrap().attr.size, bed.keys(new)), (8, vec!["f".to_owned()]));
    assert_eq!(bed.steps()[0].what, StepKind::Reconcile(ino));
    bed.catalog.set_aside(new, Ino::ROOT, b"f", b"g", place, None, DEFAULTS).unwrap();
    assert_eq!((bed.lookup(Ino::ROOT, "f"), bed.lookup(Ino::ROOT, "g")), (None, Some(new)));
}

#[test]
fn counts_add_up_per_tier() {
    let bed = Bed::new();
    bed.native(Ino::ROOT, "n", 1);
    bed.native_dir(Ino::ROOT, "d");
    let blob = bed.closed(Ino::ROOT, "b");
    bed.commit(blob, 1);
    bed.closed(Ino::ROOT, "s");
    let counts = bed.catalog.counts().unwrap();
    let scratch = TierCounts {
        files: 1,
        staged_files: 1,
        staged_bytes: 10,
        dirty_files: 1,
        dirty_bytes: 10,
        ..TierCounts::default()
    };
    let home = TierCounts { files: 1, bytes: 10, ..TierCounts::default() };
    assert_eq!(counts, [(bed.scratch, scratch), (bed.blob, home)]);
    assert_eq!(bed.catalog.counts().unwrap(), counts);
}

#[test]
fn an_unlinked_file_is_written_and_closed_without_a_step() {
    let bed = Bed::new();
    let ino = bed.staged(Ino::ROOT, "f");
    bed.catalog.unlink(Ino::ROOT, b"f", &[], "d", bed.now()).unwrap();
    assert_eq!(bed.catalog.close(ino, bed.content(3), "d").unwrap(), Seq(0));
    bed.catalog.set_attr(ino, &AttrChange::default(), Some("d"), bed.now()).unwrap();
    bed.catalog.released(ino).unwrap();
    assert!(bed.steps().is_empty());
    bed.sound();
    assert_eq!(bed.catalog.drop_orphan(ino).unwrap().len(), 1);
}
