//! What may become visible at home before what: bytes ahead of their turn, barriers, runs, names that are held.

use super::world::{HOUR, World, tree};
use std::time::Duration;
use tierfs::mover::FlushScope;
use tierfs::tier::{Fault, Gate, Operation, RenameMode};

/// What became visible, names alone.
fn shown(world: &World) -> Vec<String> {
    world.log().into_iter().map(|(_, key)| key).collect()
}

async fn until(what: impl Fn() -> bool) {
    tokio::time::timeout(HOUR, async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("it never came");
}

const BIG: usize = 5 << 20;

#[tokio::test(start_paused = true)]
async fn blocks_of_all_go_ahead_and_commits_keep_their_order() {
    let world = World::new().await;
    let gate = Gate::default();
    world.faults.once(Operation::Commit, Fault::Hang(gate.clone()));
    for name in ["a", "b", "c"] {
        world.write(name, &vec![name.as_bytes()[0]; BIG]);
    }
    let flush = world.mover().flush(FlushScope::All, HOUR);
    let meanwhile = async {
        gate.reached(1).await;
        until(|| world.mover().status().unwrap().sent_bytes == 3 * BIG as u64).await;
        assert!(shown(&world).is_empty(), "they have to wait for the first");
        gate.open();
    };
    let (report, ()) = tokio::join!(flush, meanwhile);
    assert!(report.unwrap().complete);
    assert_eq!(shown(&world), ["a", "b", "c"]);
    assert_eq!(world.mover().status().unwrap().sent_bytes, 3 * BIG as u64, "nothing was sent twice");
    for name in ["a", "b", "c"] {
        assert_eq!(world.files().await[name], vec![name.as_bytes()[0]; BIG]);
        world.assert_clean(name);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_ahead_of_a_rewrite_is_not_shown() {
    let world = World::new().await;
    let gate = Gate::default();
    world.faults.once(Operation::Commit, Fault::Hang(gate.clone()));
    world.write("a", &vec![b'a'; BIG]);
    let b = world.write("b", &vec![b'b'; BIG]);
    let flush = world.mover().flush(FlushScope::All, HOUR);
    let meanwhile = async {
        gate.reached(1).await;
        until(|| world.mover().status().unwrap().sent_bytes == 2 * BIG as u64).await;
        world.open_again(b, &vec![b'B'; BIG]);
        world.close("b");
        world.release("b");
        gate.open();
    };
    let (report, ()) = tokio::join!(flush, meanwhile);
    report.unwrap();
    world.flush().await;
    assert_eq!(world.files().await, tree([("a", &vec![b'a'; BIG]), ("b", &vec![b'B'; BIG])]));
}

#[tokio::test(start_paused = true)]
async fn new_names_pass_each_other_and_an_overwrite_passes_nobody() {
    let world = World::new().await;
    world.write("barrier/latest", b"0");
    world.flush().await;
    let gate = Gate::default();
    world.faults.once(Operation::Put, Fault::Hang(gate.clone()));
    world.write("barrier/1", b"one");
    world.write("barrier/2", b"two");
    world.write("barrier/latest", b"2");
    world.write("barrier/3", b"three");
    let flush = world.mover().flush(FlushScope::All, HOUR);
    let meanwhile = async {
        gate.reached(1).await;
        until(|| shown(&world).len() == 3).await;
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let last = shown(&world).pop().unwrap();
        assert!(["barrier/1", "barrier/2"].contains(&&last[..]), "{last}");
        gate.open();
    };
    let (report, ()) = tokio::join!(flush, meanwhile);
    assert!(report.unwrap().complete);
    let mut order = shown(&world).split_off(2);
    order[..2].sort();
    assert_eq!(order, ["barrier/1", "barrier/2", "barrier/latest", "barrier/3"]);
}

#[tokio::test(start_paused = true)]
async fn runs_do_not_wait_for_each_other() {
    let world = World::new().await;
    let gate = Gate::default();
    world.faults.once(Operation::Put, Fault::Hang(gate.clone()));
    world.write("runs/a/1", b"one");
    world.write("runs/a/2", b"two");
    let flush = world.mover().flush(FlushScope::All, HOUR);
    let meanwhile = async {
        gate.reached(1).await;
        world.write("runs/b/1", b"other");
        until(|| shown(&world).contains(&"runs/b/1".to_owned())).await;
        gate.open();
    };
    let (report, ()) = tokio::join!(flush, meanwhile);
    assert!(report.unwrap().complete);
    let files: Vec<String> = shown(&world).into_iter().filter(|key| key.matches('/').count() == 2).collect();
    assert_eq!(files, ["runs/b/1", "runs/a/1", "runs/a/2"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_gets_another_name_goes_before_what_is_written_below_that() {
    let world = World::new().await;
    let gate = Gate::default();
    world.faults.once(Operation::Put, Fault::Hang(gate.clone()));
    world.write("runs/a/shard", b"bytes");
    world.rename("runs/a", "runs/b", RenameMode::NoReplace);
    world.write("runs/b/latest", b"shard");
    let flush = world.mover().flush(FlushScope::All, HOUR);
    let meanwhile = async {
        gate.reached(1).await;
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(!shown(&world).contains(&"runs/b/latest".to_owned()));
        gate.open();
    };
    let (report, ()) = tokio::join!(flush, meanwhile);
    assert!(report.unwrap().complete);
    let files: Vec<String> = shown(&world).into_iter().filter(|key| key.matches('/').count() == 2).collect();
    assert_eq!(files, ["runs/b/shard", "runs/b/latest"]);
}

#[tokio::test(start_paused = true)]
async fn a_held_name_waits_for_its_rename_and_nobody_for_it() {
    let world = World::new().await;
    let before = tokio::time::Instant::now();
    world.write("runs/a/x.tmp", b"half");
    world.write("runs/a/tmp-1/shard", b"bytes");
    world.write("runs/a/other", b"done");
    until(|| shown(&world).contains(&"runs/a/other".to_owned())).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let is_held = |key: &String| key.contains("tmp");
    assert!(!shown(&world).iter().any(is_held), "{:?}", shown(&world));
    world.rename("runs/a/tmp-1", "runs/a/1", RenameMode::NoReplace);
    world.rename("runs/a/x.tmp", "runs/a/x", RenameMode::NoReplace);
    until(|| shown(&world).contains(&"runs/a/x".to_owned())).await;
    assert!(before.elapsed() < Duration::from_secs(120));
    assert!(!shown(&world).iter().any(is_held), "{:?}", shown(&world));
    let files: Vec<String> = shown(&world).into_iter().filter(|key| key.matches('/').count() >= 2).collect();
    assert_eq!(files, ["runs/a/other", "runs/a/1/shard", "runs/a/1", "runs/a/x"]);
}

#[tokio::test(start_paused = true)]
async fn a_name_is_held_no_longer_than_it_may_be() {
    let world = World::new().await;
    world.write("runs/a/x.tmp", b"left");
    tokio::time::sleep(HOUR - Duration::from_secs(10)).await;
    assert!(!shown(&world).contains(&"runs/a/x.tmp".to_owned()));
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(shown(&world).contains(&"runs/a/x.tmp".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_flush_ends_the_hold_of_what_it_names() {
    let world = World::new().await;
    let mine = world.write("runs/a/x.tmp", b"mine");
    world.write("runs/a/y.tmp", b"not asked for");
    let pending = world.mover().pending(FlushScope::Inodes(vec![mine])).await.unwrap();
    assert!(!pending.complete);
    let report = world.mover().flush(FlushScope::Inodes(vec![mine]), HOUR).await.unwrap();
    assert!(report.complete);
    let files: Vec<String> = shown(&world).into_iter().filter(|key| key.contains("tmp")).collect();
    assert_eq!(files, ["runs/a/x.tmp"]);
    world.flush().await;
    world.assert_clean("runs/a/y.tmp");
}
