use super::*;
use crate::catalog::Waiting;
use std::time::Duration;

#[test]
fn a_step_that_failed_is_remembered_and_finished_by_its_number() {
    let bed = Bed::new();
    let ino = bed.closed(Ino::ROOT, "f");
    let seq = bed.steps()[0].seq;
    bed.catalog.fail_step(seq, "503", Timestamp(77), true).unwrap();
    let step = bed.steps().remove(0);
    assert_eq!((step.attempts, step.error.as_deref(), step.not_before), (1, Some("503"), Timestamp(77)));
    assert!(step.blocked && step.queued_at <= bed.now());
    bed.catalog.finish_step(Seq(seq.0 + 100)).unwrap();
    assert_eq!(bed.steps().len(), 1);
    bed.catalog.queue(ino, "d").unwrap();
    assert!(!bed.steps()[0].blocked && bed.steps()[0].seq == seq);
}

#[test]
fn what_changed_while_a_step_ran_runs_it_again() {
    let bed = Bed::new();
    let ino = bed.native(Ino::ROOT, "f", 1);
    let seq = bed.catalog.queue(ino, "d").unwrap();
    bed.catalog.set_attr(ino, &AttrChange::default(), Some("d"), bed.now()).unwrap();
    bed.catalog.finish_step(seq).unwrap();
    assert_eq!(bed.steps()[0].seq, seq);
    bed.catalog.finish_step(seq).unwrap();
    assert!(bed.steps().is_empty());
}

#[test]
fn a_closes_step_stays_until_the_content_is_clean() {
    let bed = Bed::new();
    let ino = bed.closed(Ino::ROOT, "f");
    let seq = bed.steps()[0].seq;
    bed.catalog.finish_step(seq).unwrap();
    assert_eq!(bed.steps()[0].seq, seq);
    bed.commit(ino, 1);
    assert!(bed.steps().is_empty());
}

#[test]
fn steps_come_in_order_from_anywhere() {
    let bed = Bed::new();
    let files: Vec<_> = (0..5).map(|n| bed.closed(Ino::ROOT, &format!("f{n}"))).collect();
    let steps = bed.steps();
    let order: Vec<_> = steps.iter().map(|step| step.what.clone()).collect();
    assert_eq!(order, files.iter().map(|&ino| StepKind::Reconcile(ino)).collect::<Vec<_>>());
    assert_eq!(bed.catalog.steps(steps[1].seq, 2).unwrap(), steps[2..4]);
}

#[tokio::test]
async fn whoever_waits_is_woken() {
    let bed = Bed::new();
    let queued = bed.catalog.queued();
    let ino = bed.staged(Ino::ROOT, "f");
    let woken = queued.notified();
    bed.catalog.close(ino, bed.content(1), "d").unwrap();
    woken.await;
    bed.catalog.released(ino).unwrap();
    queued.notified().await;
}

#[test]
fn a_refused_verb_changes_nothing() {
    let bed = Bed::new();
    let ino = bed.native(Ino::ROOT, "f", 1);
    let dir = bed.dir(Ino::ROOT, "d");
    // The native place of `d` is made and rolled back with the rest.
    let refused = bed.catalog.link(ino, dir, b"x", Some(bed.blob), None, bed.now());
    assert_eq!(kind_of(refused), Kind::Invalid);
    assert_eq!(bed.catalog.native_place(dir, bed.blob).unwrap(), None);
    assert_eq!((bed.catalog.inode(ino).unwrap().attr.nlink, bed.lookup(dir, "x")), (1, None));
    let place = bed.catalog.ensure_place(dir, bed.blob).unwrap();
    assert_eq!((place.key.to_string(), place.ino), ("d".to_owned(), Some(dir)));
}

#[test]
fn the_backlog_tells_what_each_domain_waits_for() {
    let bed = Bed::new();
    let is_held = |path: &Key, _| path.as_bytes().ends_with(b".tmp");
    bed.closed(Ino::ROOT, "ready");
    let again = bed.closed(Ino::ROOT, "written again");
    bed.closed(Ino::ROOT, "ready too");
    bed.closed(Ino::ROOT, "held.tmp");
    let blocked = bed.closed(Ino::ROOT, "blocked");
    bed.closed(Ino::ROOT, "after");
    bed.catalog.begin_write(again, bed.scratch).unwrap();
    bed.catalog.fail_step(bed.catalog.step_of(blocked).unwrap().unwrap(), "no", Timestamp(0), true).unwrap();
    let found = bed.catalog.backlog(Duration::ZERO, &is_held).unwrap();
    let seen: Vec<_> = found.iter().map(|part| (part.waiting, part.steps, part.files, part.bytes)).collect();
    assert_eq!(
        seen,
        [
            (Waiting::ForMover, 2, 2, 20),
            (Waiting::Behind, 1, 1, 10),
            (Waiting::ForName, 1, 1, 10),
            (Waiting::ForClose, 1, 1, 10),
            (Waiting::ForPerson, 1, 1, 10),
        ]
    );
    assert!(found.iter().all(|part| part.oldest.is_some_and(|oldest| oldest <= bed.now())));
    // What may be old is not added up again, what must be new is.
    bed.closed(Ino::ROOT, "more");
    assert_eq!(bed.catalog.backlog(Duration::from_secs(3600), &is_held).unwrap(), found);
    let now = bed.catalog.backlog(Duration::ZERO, &is_held).unwrap();
    assert_eq!((now[1].waiting, now[1].steps), (Waiting::Behind, 2));
}

#[test]
fn a_blocked_step_that_is_retried_waits_for_its_turn_and_still_says_why() {
    let bed = Bed::new();
    bed.closed(Ino::ROOT, "f");
    let seq = bed.steps()[0].seq;
    bed.catalog.fail_step(seq, "503", Timestamp(77), true).unwrap();
    bed.catalog.retry_step(seq).unwrap();
    let step = bed.steps().remove(0);
    assert_eq!((step.blocked, step.attempts, step.not_before), (false, 0, Timestamp(0)));
    assert_eq!(step.error.as_deref(), Some("503"));
}
