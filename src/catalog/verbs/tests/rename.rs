use super::*;
use crate::tier::RenameMode;

type Name<'a> = (Ino, &'a str);

pub(super) fn plan(bed: &Bed, from: Name<'_>, to: Name<'_>, domain: Option<&str>) -> RenamePlan {
    RenamePlan {
        parent: from.0,
        name: from.1.into(),
        new_parent: to.0,
        new_name: to.1.into(),
        mode: RenameMode::Replace,
        moves: Vec::new(),
        follows: None,
        preserve: None,
        domain: domain.map(str::to_owned),
        writers: Writers::Maybe,
        now: bed.tick(),
    }
}

pub(super) fn run(bed: &Bed, plan: &RenamePlan) -> Result<Renamed> {
    let intent = bed.catalog.begin_rename(plan)?;
    assert_eq!(bed.catalog.intents()?, [(intent, plan.clone())]);
    let renamed = bed.catalog.finish_rename(intent, plan)?;
    assert!(bed.catalog.intents()?.is_empty());
    bed.sound();
    Ok(renamed)
}

pub(super) fn rename(bed: &Bed, from: Name<'_>, to: Name<'_>, domain: Option<&str>) -> Renamed {
    run(bed, &plan(bed, from, to, domain)).unwrap()
}

fn native(bed: &Bed, from: &str, to: &str, effect: MoveEffect) -> NativeMove {
    NativeMove {
        tier: bed.scratch,
        from: Key::parse(from).unwrap(),
        to: Key::parse(to).unwrap(),
        exchange: false,
        native_ino: 0,
        effect,
    }
}

#[test]
fn a_native_file_takes_its_key_along_and_leaves_a_tombstone() {
    let bed = Bed::new();
    let dir = bed.native_dir(Ino::ROOT, "d");
    let ino = bed.native(Ino::ROOT, "f", 5);
    let mut plan = plan(&bed, (Ino::ROOT, "f"), (dir, "g"), None);
    plan.moves.push(native(&bed, "f", "d/g", MoveEffect::ReplicaToName));
    assert_eq!(run(&bed, &plan).unwrap().replaced, None);
    assert_eq!((bed.keys(ino), bed.lookup(dir, "g")), (vec!["d/g".to_owned()], Some(ino)));
    assert_eq!(bed.replica(bed.root(bed.scratch), "f").unwrap().ino, None);
    assert_eq!(bed.catalog.inode(ino).unwrap().attr.ctime, plan.now);
    assert_eq!(bed.catalog.inode(dir).unwrap().attr.mtime, plan.now);
    assert!(bed.steps().is_empty());
}

#[test]
fn a_replaced_native_file_is_gone_with_its_key() {
    let bed = Bed::new();
    let (a, b) = (bed.native(Ino::ROOT, "a", 1), bed.native(Ino::ROOT, "b", 2));
    let mut plan = plan(&bed, (Ino::ROOT, "a"), (Ino::ROOT, "b"), None);
    plan.moves.push(native(&bed, "a", "b", MoveEffect::ReplicaToName));
    assert_eq!(run(&bed, &plan).unwrap().replaced, Some(Unlinked { ino: b, nlink: 0, hid_older: false }));
    assert_eq!((bed.keys(a), bed.keys(b)), (vec!["b".to_owned()], vec![]));
    assert!(bed.steps().is_empty());
}

#[test]
fn a_replaced_blob_is_taken_over_not_deleted() {
    let bed = Bed::new();
    let old = bed.closed(Ino::ROOT, "f");
    let place = bed.commit(old, 1);
    let new = bed.closed(Ino::ROOT, "f.tmp");
    let first = bed.steps()[0].seq;
    rename(&bed, (Ino::ROOT, "f.tmp"), (Ino::ROOT, "f"), Some("d"));
    let row = bed.replica(place, "f").unwrap();
    assert_eq!((row.ino, row.generation, row.version), (Some(new), Generation(0), Some(version(1))));
    let steps = bed.steps();
    assert!(steps.len() == 1 && steps[0].what == StepKind::Reconcile(new) && steps[0].seq > first);
    bed.commit(new, 2);
    assert_eq!(bed.keys(new), ["f"]);
}

#[test]
fn a_closed_files_step_goes_to_the_end() {
    let bed = Bed::new();
    let a = bed.closed(Ino::ROOT, "a");
    let b = bed.closed(Ino::ROOT, "b");
    rename(&bed, (Ino::ROOT, "a"), (Ino::ROOT, "c"), None);
    let steps = bed.steps();
    assert_eq!(
        steps.iter().map(|step| &step.what).collect::<Vec<_>>(),
        [&StepKind::Reconcile(b), &StepKind::Reconcile(a)]
    );
    assert_eq!(steps[1].domain, "d");
}

#[test]
fn a_renamed_blob_keeps_its_key_until_the_mover_comes() {
    let bed = Bed::new();
    let ino = bed.closed(Ino::ROOT, "a");
    bed.commit(ino, 1);
    rename(&bed, (Ino::ROOT, "a"), (Ino::ROOT, "b"), Some("d"));
    assert_eq!((bed.keys(ino), bed.steps().len()), (vec!["a".to_owned()], 1));
    bed.commit(ino, 2);
    let stray = bed.replica(bed.root(bed.blob), "a").unwrap();
    let doom = |name: &str| bed.catalog.doom(&stray, &[(Ino::ROOT, name.into())], None, Writers::None, "d");
    assert_eq!(kind_of(doom("a")), Kind::Changed, "it was looked at before the rename");
    doom("b").unwrap();
    assert_eq!(bed.keys(ino), ["b"]);
}

#[test]
fn a_file_that_leaves_for_a_blob_home_becomes_staged() {
    let bed = Bed::new();
    let ino = bed.native(Ino::ROOT, "a", 5);
    let mut plan = plan(&bed, (Ino::ROOT, "a"), (Ino::ROOT, "b"), Some("d"));
    plan.moves.push(native(&bed, "a", "ignored", MoveEffect::ReplicaToStage));
    run(&bed, &plan).unwrap();
    let replica = bed.catalog.replicas(ino).unwrap().remove(0);
    assert!(replica.staged && replica.name == crate::catalog::stage_name(ino, Generation(1)));
    assert_eq!((replica.native_ino, bed.catalog.inode(ino).unwrap().state), (5, WriteState::Closed));
    assert_eq!(bed.steps().len(), 1);
    bed.commit(ino, 3);
}

#[test]
fn what_an_exchange_sends_to_the_stage_stays_its_own() {
    let bed = Bed::new();
    let staged = bed.closed(Ino::ROOT, "a");
    let ino = bed.native(Ino::ROOT, "b", 5);
    let mut plan = plan(&bed, (Ino::ROOT, "a"), (Ino::ROOT, "b"), Some("d"));
    plan.mode = RenameMode::Exchange;
    plan.moves.push(native(&bed, "b", "ignored", MoveEffect::ReplicaToStage));
    run(&bed, &plan).unwrap();
    let replica = bed.catalog.replicas(ino).unwrap().remove(0);
    assert!(replica.staged && replica.name == crate::catalog::stage_name(ino, Generation(1)));
    assert_eq!(bed.catalog.inode(ino).unwrap().state, WriteState::Closed);
    assert_eq!((bed.lookup(Ino::ROOT, "a"), bed.lookup(Ino::ROOT, "b")), (Some(ino), Some(staged)));
}

#[test]
fn a_directory_takes_unlisted_children_along_in_one_row() {
    let bed = Bed::new();
    let (a, b) = (bed.native_dir(Ino::ROOT, "a"), bed.native_dir(Ino::ROOT, "b"));
    let sub = bed.native_dir(a, "sub");
    let ino = bed.native(sub, "f", 1);
    let mut plan = plan(&bed, (Ino::ROOT, "a"), (b, "c"), None);
    plan.moves.push(native(&bed, "a", "b/c", MoveEffect::PlaceToName));
    run(&bed, &plan).unwrap();
    assert_eq!(bed.keys(ino), ["b/c/sub/f"]);
    assert_eq!(bed.catalog.path(ino).unwrap().unwrap().to_string(), "b/c/sub/f");
    let nlink = |ino| bed.catalog.inode(ino).unwrap().attr.nlink;
    assert_eq!((nlink(Ino::ROOT), nlink(b), nlink(a)), (3, 3, 3));
    assert_eq!(bed.catalog.native_place(sub, bed.scratch).unwrap().unwrap().key.to_string(), "b/c/sub");
    bed.native_dir(Ino::ROOT, "a");
}

#[test]
fn a_directory_replaces_an_empty_one_and_inherits_its_prefix() {
    let bed = Bed::new();
    let (a, b) = (bed.native_dir(Ino::ROOT, "a"), bed.dir(Ino::ROOT, "b"));
    let place = bed.catalog.ensure_place(b, bed.blob).unwrap().id;
    let mut plan = plan(&bed, (Ino::ROOT, "a"), (Ino::ROOT, "b"), Some("d"));
    plan.moves.push(native(&bed, "a", "b", MoveEffect::PlaceToName));
    assert_eq!(run(&bed, &plan).unwrap().replaced, Some(Unlinked { ino: b, nlink: 0, hid_older: false }));
    assert_eq!(bed.catalog.place(place).unwrap().ino, Some(a));
    assert_eq!(bed.catalog.places(a).unwrap().len(), 2);
    assert_eq!(bed.catalog.inode(Ino::ROOT).unwrap().attr.nlink, 3);
}

#[test]
fn refusals_are_those_of_rename() {
    let bed = Bed::new();
    let (a, b) = (bed.dir(Ino::ROOT, "a"), bed.dir(Ino::ROOT, "b"));
    bed.native(Ino::ROOT, "f", 1);
    let sub = bed.dir(b, "sub");
    let refused = |from, to| kind_of(run(&bed, &plan(&bed, from, to, None)));
    assert_eq!(refused((Ino::ROOT, "x"), (Ino::ROOT, "y")), Kind::NotFound);
    assert_eq!(refused((Ino::ROOT, "a"), (Ino::ROOT, "b")), Kind::NotEmpty);
    assert_eq!(refused((Ino::ROOT, "a"), (Ino::ROOT, "f")), Kind::NotDirectory);
    assert_eq!(refused((Ino::ROOT, "f"), (Ino::ROOT, "a")), Kind::IsDirectory);
    assert_eq!(refused((Ino::ROOT, "b"), (sub, "c")), Kind::Invalid);
    let mut keep = plan(&bed, (Ino::ROOT, "f"), (Ino::ROOT, "a"), None);
    keep.mode = RenameMode::NoReplace;
    assert_eq!(kind_of(run(&bed, &keep)), Kind::Exists);
    keep.mode = RenameMode::Exchange;
    keep.new_name = b"x".to_vec();
    assert_eq!(kind_of(run(&bed, &keep)), Kind::NotFound);
    let intent = bed.catalog.begin_rename(&plan(&bed, (Ino::ROOT, "a"), (Ino::ROOT, "z"), None)).unwrap();
    bed.catalog.cancel_rename(intent).unwrap();
    assert!(bed.catalog.intents().unwrap().is_empty() && bed.lookup(Ino::ROOT, "a") == Some(a));
}

#[test]
fn an_exchange_swaps_names_keys_and_places() {
    let bed = Bed::new();
    let (d, e) = (bed.native_dir(Ino::ROOT, "d"), bed.native_dir(Ino::ROOT, "e"));
    let (file, sub) = (bed.native(d, "x", 1), bed.native_dir(e, "y"));
    let inner = bed.native(sub, "in", 2);
    let mut plan = plan(&bed, (d, "x"), (e, "y"), None);
    plan.mode = RenameMode::Exchange;
    let mut swap = native(&bed, "d/x", "e/y", MoveEffect::ReplicaToName);
    swap.exchange = true;
    plan.moves.push(swap);
    assert_eq!(run(&bed, &plan).unwrap().replaced, None);
    assert_eq!((bed.lookup(d, "x"), bed.lookup(e, "y")), (Some(sub), Some(file)));
    assert_eq!((bed.keys(file), bed.keys(inner)), (vec!["e/y".to_owned()], vec!["d/x/in".to_owned()]));
    let nlink = |ino| bed.catalog.inode(ino).unwrap().attr.nlink;
    assert_eq!((nlink(d), nlink(e)), (3, 2));
}

#[test]
fn one_inode_under_both_names_stays_as_it_is() {
    let bed = Bed::new();
    let ino = bed.native(Ino::ROOT, "a", 1);
    bed.catalog.link(ino, Ino::ROOT, b"b", Some(bed.scratch), None, bed.now()).unwrap();
    assert_eq!(rename(&bed, (Ino::ROOT, "a"), (Ino::ROOT, "b"), None).replaced, None);
    assert_eq!((bed.lookup(Ino::ROOT, "a"), bed.lookup(Ino::ROOT, "b")), (Some(ino), Some(ino)));
}

#[test]
fn a_new_directory_of_an_old_name_waits_for_the_prefix() {
    let bed = Bed::new();
    let a = bed.dir(Ino::ROOT, "a");
    let old = bed.catalog.ensure_place(a, bed.blob).unwrap().id;
    rename(&bed, (Ino::ROOT, "a"), (Ino::ROOT, "b"), Some("d"));
    let new = bed.dir(Ino::ROOT, "a");
    assert_eq!(kind_of(bed.catalog.ensure_place(new, bed.blob)), Kind::Busy);
    assert_eq!(bed.catalog.native_place(new, bed.blob).unwrap(), None);
    bed.catalog.move_place(old, bed.root(bed.blob), b"b").unwrap();
    assert_eq!(bed.catalog.native_place(a, bed.blob).unwrap().unwrap().id, old);
    let made = bed.catalog.ensure_place(new, bed.blob).unwrap().id;
    assert_eq!(kind_of(bed.catalog.move_place(made, bed.root(bed.blob), b"b")), Kind::Busy);
    assert_eq!(kind_of(bed.catalog.move_place(made, made, b"x")), Kind::Invalid);
    bed.catalog.drop_place(made).unwrap();
    assert_eq!(kind_of(bed.catalog.drop_place(bed.root(bed.blob))), Kind::Invalid);
}
