use super::*;
use crate::catalog::copied_name;

/// Two closed files, the first of which is followed by the second.
fn followed() -> (Bed, Ino) {
    let bed = Bed::new();
    let ino = bed.closed(Ino::ROOT, "f");
    assert!(!bed.catalog.is_followed(ino).unwrap());
    assert_eq!(bed.catalog.begin_apart(ino, bed.scratch).unwrap(), None);
    bed.closed(Ino::ROOT, "g");
    assert!(bed.catalog.is_followed(ino).unwrap());
    (bed, ino)
}

fn staged(bed: &Bed, ino: Ino) -> Vec<(Vec<u8>, Generation)> {
    let mut rows: Vec<_> = bed.catalog.replicas(ino).unwrap();
    rows.retain(|row| row.staged);
    rows.sort_by_key(|row| row.generation);
    rows.into_iter().map(|row| (row.name, row.generation)).collect()
}

fn kinds(bed: &Bed) -> Vec<StepKind> {
    bed.steps().into_iter().map(|step| step.what).collect()
}

#[test]
fn a_closed_generation_keeps_its_place_when_the_file_is_written_anew() {
    let (bed, ino) = followed();
    let g = bed.lookup(Ino::ROOT, "g").unwrap();
    let next = bed.catalog.begin_apart(ino, bed.scratch).unwrap().unwrap();
    assert_eq!((next.generation, &next.name), (Generation(2), &stage_name(ino, Generation(2))));
    let names = [1, 2].map(|number| (stage_name(ino, Generation(number)), Generation(number)));
    assert_eq!(staged(&bed, ino), names);
    let preserved = StepKind::Preserved(ino, Generation(1));
    assert_eq!(kinds(&bed), [preserved.clone(), StepKind::Reconcile(g)]);
    bed.catalog.close(ino, bed.content(5), "d").unwrap();
    bed.catalog.released(ino).unwrap();
    assert_eq!(kinds(&bed), [preserved, StepKind::Reconcile(g), StepKind::Reconcile(ino)]);
    assert!(bed.catalog.check().unwrap().is_empty());
    let step = bed.steps().remove(0);
    let done = bed.catalog.preserved_done(&step).unwrap().unwrap();
    assert_eq!(done.name, names[0].0);
    assert_eq!(kinds(&bed), [StepKind::Reconcile(g), StepKind::Reconcile(ino)]);
    assert_eq!(bed.catalog.preserved_done(&step).unwrap(), None);
    assert_eq!(bed.catalog.inode(ino).unwrap().state, WriteState::Closed);
}

#[test]
fn an_open_stage_file_goes_on_and_a_copy_stays_closed() {
    let (bed, ino) = followed();
    let copy = bed.catalog.begin_over_copy(ino).unwrap().unwrap();
    assert_eq!((copy.generation, &copy.name), (Generation(1), &copied_name(ino, Generation(1))));
    let rows = [(copy.name, Generation(1)), (stage_name(ino, Generation(1)), Generation(2))];
    assert_eq!(staged(&bed, ino), rows);
    assert_eq!(bed.catalog.inode(ino).unwrap().state, WriteState::Writing);
}

#[test]
fn a_write_that_changed_nothing_gives_the_preserved_generation_its_step_back() {
    let (bed, ino) = followed();
    let before = bed.steps();
    bed.catalog.begin_apart(ino, bed.scratch).unwrap().unwrap();
    let dropped = bed.catalog.revert_write(ino, "d").unwrap().unwrap();
    assert_eq!(dropped.generation, Generation(2));
    let inode = bed.catalog.inode(ino).unwrap();
    assert_eq!((inode.generation, inode.state), (Generation(1), WriteState::Closed));
    assert_eq!(bed.steps(), before);
}

/// The commit came through, and the open that preserved it changed nothing, before its step was told.
#[test]
fn a_write_open_that_wrote_nothing_leaves_no_step_for_what_is_at_home() {
    let (bed, ino) = followed();
    bed.catalog.begin_apart(ino, bed.scratch).unwrap().unwrap();
    let place = bed.root(bed.blob);
    bed.catalog.begin_commit(ino, place, b"f", "w").unwrap();
    let newest = bed.catalog.commit_if(ino, Generation(1), 1, place, b"f", &version(1), None).unwrap();
    assert!(!newest);
    bed.catalog.revert_write(ino, "d").unwrap().unwrap();
    let inode = bed.catalog.inode(ino).unwrap();
    assert_eq!((inode.generation, inode.state), (Generation(1), WriteState::Clean));
    let step = bed.steps().into_iter().find(|step| step.what == StepKind::Reconcile(ino)).unwrap();
    bed.catalog.finish_step(step.seq).unwrap();
    assert!(bed.steps().iter().all(|left| left.seq != step.seq));
    assert!(bed.catalog.check().unwrap().is_empty());
}

#[test]
fn a_rename_meanwhile_gives_it_a_new_place() {
    let (bed, ino) = followed();
    let g = bed.lookup(Ino::ROOT, "g").unwrap();
    bed.catalog.begin_apart(ino, bed.scratch).unwrap().unwrap();
    rename::run(&bed, &rename::plan(&bed, (Ino::ROOT, "f"), (Ino::ROOT, "h"), Some("d"))).unwrap();
    bed.catalog.revert_write(ino, "d").unwrap().unwrap();
    assert_eq!(kinds(&bed), [StepKind::Reconcile(g), StepKind::Reconcile(ino)]);
    assert!(bed.steps()[1].moved);
    bed.catalog.finish_step(bed.steps()[1].seq).unwrap();
    assert_eq!(bed.steps().len(), 2, "it stands for a close now");
}

/// It was renamed while it was open, and what was closed of it came home under its new name, in the turn of the rename.
#[test]
fn a_renamed_file_that_is_reverted_leaves_its_old_key() {
    let (bed, ino) = followed();
    bed.commit(ino, 1);
    bed.catalog.begin_write(ino, bed.scratch).unwrap();
    rename::run(&bed, &rename::plan(&bed, (Ino::ROOT, "f"), (Ino::ROOT, "h"), Some("d"))).unwrap();
    bed.catalog.close(ino, bed.content(5), "d").unwrap();
    bed.catalog.released(ino).unwrap();
    bed.closed(Ino::ROOT, "i");
    bed.catalog.begin_apart(ino, bed.scratch).unwrap().unwrap();
    let place = bed.root(bed.blob);
    bed.catalog.begin_commit(ino, place, b"h", "w").unwrap();
    bed.catalog.commit_if(ino, Generation(2), 1, place, b"h", &version(2), None).unwrap();
    let is_its = |step: &&Step| step.what == StepKind::Preserved(ino, Generation(2));
    bed.catalog.preserved_done(bed.steps().iter().find(is_its).unwrap()).unwrap().unwrap();
    bed.catalog.revert_write(ino, "d").unwrap().unwrap();
    assert_eq!(bed.catalog.inode(ino).unwrap().state, WriteState::Clean);
    assert!(kinds(&bed).contains(&StepKind::Reconcile(ino)), "who else would delete what lies under f?");
}

#[test]
fn a_deleted_file_leaves_no_step() {
    let (bed, ino) = followed();
    bed.catalog.begin_apart(ino, bed.scratch).unwrap().unwrap();
    bed.catalog.unlink(Ino::ROOT, b"f", &[], "d", bed.tick()).unwrap();
    assert_eq!(bed.steps().len(), 1);
    assert_eq!(bed.catalog.drop_orphan(ino).unwrap().len(), 2);
}

#[test]
fn a_deleted_file_that_others_wait_for_is_shown_before_its_delete() {
    let (bed, ino) = followed();
    let step = bed.steps().remove(0);
    bed.catalog.begin_apart(ino, bed.scratch).unwrap().unwrap();
    let preserved = bed.steps().remove(0);
    let now = bed.tick();
    bed.catalog.unlink_in_turn(Ino::ROOT, b"f", bed.blob, Duration::ZERO, "d", now).unwrap();
    let place = bed.root(bed.blob);
    let replaced = StepKind::Replaced { ino, generation: Generation(1), place, name: b"f".to_vec() };
    let g = bed.lookup(Ino::ROOT, "g").unwrap();
    let delete = StepKind::Delete { place, name: b"f".to_vec() };
    assert_eq!(kinds(&bed), [replaced, StepKind::Reconcile(g), delete]);
    assert_eq!(bed.steps()[0].seq, step.seq, "in its turn");
    assert_eq!(bed.catalog.preserved_done(&preserved).unwrap(), None, "it is another step now");
    assert!(bed.catalog.drop_orphan(ino).unwrap().is_empty() && bed.catalog.orphans().unwrap().is_empty());
    assert!(bed.catalog.is_awaited(step.seq).unwrap());
    assert!(bed.catalog.begin_replaced(place, b"f", "w").unwrap());
    assert!(!bed.catalog.begin_replaced(place, b"f", "x").unwrap(), "one at a time");
    bed.catalog.preserved_done(&bed.steps()[0]).unwrap().unwrap();
    assert_eq!(bed.catalog.drop_orphan(ino).unwrap().len(), 1);
}

#[test]
fn what_is_at_home_already_has_no_place_any_more() {
    let (bed, ino) = followed();
    let step = bed.steps().remove(0);
    let place = bed.root(bed.blob);
    bed.catalog.begin_commit(ino, place, b"f", "w").unwrap();
    let version = Version::new(vec![1]);
    bed.catalog.commit_if(ino, Generation(1), 0, place, b"f", &version, None).unwrap();
    bed.catalog.begin_write(ino, bed.scratch).unwrap();
    bed.catalog.finish_step(step.seq).unwrap();
    let last = bed.steps().last().unwrap().seq;
    assert!(bed.catalog.close(ino, bed.content(2), "d").unwrap() > last);
}
