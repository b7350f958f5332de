//! The daemon dies at a bad moment; the next one finishes.

use super::world::{HOUR, World, tree};
use tierfs::catalog::{RenamePlan, WriteState, Writers};
use tierfs::error::Kind;
use tierfs::mover::FlushScope;
use tierfs::tier::{Fault, Gate, Operation, RenameMode};

/// The mover runs until a call of `operation` hangs, then dies.
async fn die_at(world: &mut World, operation: Operation, skip: u64) {
    let gate = Gate::default();
    world.faults.script(operation, skip, 1, Fault::Hang(gate.clone()));
    {
        let flush = world.mover().flush(FlushScope::All, HOUR);
        tokio::select! {
            report = flush => panic!("it did not get there: {report:?}"),
            () = gate.reached(1) => {}
        }
    }
    world.die().await;
    world.faults.clear();
}

#[tokio::test(start_paused = true)]
async fn a_commit_without_its_row_is_recognised_at_the_next_start() {
    let mut world = World::new().await;
    world.write("f", b"one");
    // The tier takes it, the reply is lost, and the daemon dies before it can ask.
    world.faults.once(Operation::Put, Fault::FailAfter(Kind::TimedOut));
    die_at(&mut world, Operation::Head, 0).await;
    assert_eq!(world.lookup("f").unwrap().state, WriteState::Closed);
    let recovered = world.start().await;
    assert_eq!((recovered.commits, recovered.dirty), (1, 1));
    assert_eq!(world.lookup("f").unwrap().state, WriteState::Clean);
    world.flush().await;
    assert_eq!(world.log(), [(Operation::Put, "f".to_owned())]);
    world.assert_clean("f");
    assert!(world.stage_files().is_empty());
}

#[tokio::test(start_paused = true)]
async fn death_at_any_call_is_finished_by_the_next_daemon() {
    use Operation::{Commit, Copy, Delete, List, Put, PutBlock, PutSpecial};
    for operation in [Put, PutBlock, Commit, Copy, Delete, PutSpecial, List] {
        for skip in 0..3 {
            let mut world = World::new().await;
            let big = vec![7; 5 << 20];
            world.write("a", b"was a");
            world.write("d/x", b"x");
            world.write("d/y", b"y");
            world.flush().await;
            world.outside_put("d/z", b"z").await;
            world.outside_put("d/sub/z", b"z").await;
            world.write("big", &big);
            world.write("a", b"now a");
            world.write("big2", &big);
            world.rename("d", "e", RenameMode::NoReplace);
            world.rename("a", "b", RenameMode::NoReplace);
            world.mkdir("m1");
            world.mkdir("m2");
            let gate = Gate::default();
            world.faults.script(operation, skip, 1, Fault::Hang(gate.clone()));
            {
                let flush = world.mover().flush(FlushScope::All, HOUR);
                tokio::select! { _ = flush => {} () = gate.reached(1) => {} }
            }
            world.die().await;
            world.faults.clear();
            world.start().await;
            world.flush().await;
            let expected = tree([
                ("b", b"now a"),
                ("big", &big),
                ("big2", &big),
                ("e/sub/z", b"z"),
                ("e/x", b"x"),
                ("e/y", b"y"),
                ("e/z", b"z"),
            ]);
            assert_eq!(world.files().await, expected, "{operation:?} {skip}");
            for path in ["b", "big", "big2", "e/x", "e/z", "e/sub/z"] {
                world.assert_clean(path);
            }
            assert!(world.stage_files().is_empty(), "{operation:?} {skip}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_never_closed_is_kept_and_not_committed_until_told() {
    let mut world = World::new().await;
    let ino = world.open_new("half", b"half a file");
    world.die().await;
    let recovered = world.start().await;
    assert_eq!((recovered.dirty, recovered.open), (1, 1));
    world.flush().await;
    assert!(world.files().await.is_empty() && world.stage_files().len() == 1);
    let report = world.mover().flush(FlushScope::Inodes(vec![ino]), HOUR).await.unwrap();
    assert!(report.complete);
    assert_eq!(world.files().await, tree([("half", b"half a file")]));
    world.assert_clean("half");
}

#[tokio::test(start_paused = true)]
async fn a_closed_file_whose_writer_died_with_the_daemon_is_committed() {
    let mut world = World::new().await;
    world.open_new("f", b"one");
    world.close("f");
    world.die().await;
    world.start().await;
    world.flush().await;
    assert_eq!(world.files().await, tree([("f", b"one")]));
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_outlives_the_daemon_is_waited_for() {
    use std::io::Write;
    let mut world = World::new().await;
    let ino = world.open_new("f", b"one");
    world.close("f");
    let path = world.staged_path(ino);
    let mut writer = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    world.die().await;
    world.start().await;
    let report = world.mover().flush(FlushScope::All, HOUR).await.unwrap();
    assert!(report.timed_out && report.open == [ino], "{report:?}");
    assert!(world.files().await.is_empty());
    writer.write_all(b" and two").unwrap();
    drop(writer);
    world.flush().await;
    assert_eq!(world.files().await, tree([("f", b"one and two")]));
    assert_eq!(world.lookup("f").unwrap().attr.size, 11, "stat says what was committed");
}

#[tokio::test(start_paused = true)]
async fn a_staged_file_that_vanished_is_named_and_never_looks_empty() {
    let mut world = World::new().await;
    let ino = world.write("f", b"precious");
    world.die().await;
    std::fs::remove_file(world.staged_path(ino)).unwrap();
    let recovered = world.start().await;
    assert_eq!(recovered.lost, 1);
    let report = world.mover().flush(FlushScope::All, HOUR).await.unwrap();
    assert!(!report.complete && report.blocked.len() == 1, "{report:?}");
    let status = world.mover().status().unwrap();
    assert_eq!((status.lost.len(), status.lost[0].ino), (1, ino));
    assert!(world.files().await.is_empty());
    assert!(world.staged(ino).is_some(), "the row stays, so that reads fail");
    // Written again, all is well, and nobody needs to ask.
    world.write("f", b"again");
    while world.lookup("f").unwrap().state != WriteState::Clean {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    world.flush().await;
    assert_eq!(world.files().await, tree([("f", b"again")]));
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_was_not_renamed_yet_is_completed() {
    let mut world = World::new().await;
    let ino = world.write("f", b"one");
    world.die().await;
    let path = world.staged_path(ino);
    let mut copy = path.clone().into_os_string();
    copy.push(".copy");
    std::fs::rename(&path, copy).unwrap();
    assert_eq!(world.start().await.lost, 0);
    world.flush().await;
    assert_eq!(world.files().await, tree([("f", b"one")]));
}

#[tokio::test(start_paused = true)]
async fn a_native_rename_is_redone_from_its_row() {
    use tierfs::catalog::{MoveEffect, NativeMove};
    use tierfs::types::Key;
    for done in [false, true] {
        let mut world = World::new().await;
        world.write("native/a", b"one");
        world.flush().await;
        world.die().await;
        let (parent, name) = world.parent("native/a");
        let native_ino = world.catalog.replicas(world.ino("native/a")).unwrap()[0].native_ino;
        let plan = RenamePlan {
            parent,
            name,
            new_parent: parent,
            new_name: b"b".to_vec(),
            mode: RenameMode::Replace,
            moves: vec![NativeMove {
                tier: world.scratch_id,
                from: Key::parse("native/a").unwrap(),
                to: Key::parse("native/b").unwrap(),
                exchange: false,
                native_ino,
                effect: MoveEffect::ReplicaToName,
            }],
            domain: None,
            follows: None,
            preserve: None,
            writers: Writers::Maybe,
            now: world.clock.wall(),
        };
        world.catalog.begin_rename(&plan).unwrap();
        if done {
            std::fs::rename(world.root.join("native/a"), world.root.join("native/b")).unwrap();
        }
        assert_eq!(world.start().await.renames, 1);
        assert!(world.lookup("native/a").is_none() && world.lookup("native/b").is_some());
        assert_eq!(std::fs::read(world.root.join("native/b")).unwrap(), b"one");
        assert!(!world.root.join("native/a").exists());
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_of_files_without_names_are_removed_at_start() {
    let mut world = World::new().await;
    let ino = world.open_new("f", b"gone");
    let (parent, name) = world.parent("f");
    world.catalog.unlink(parent, &name, &[], &world.domain("f"), world.clock.wall()).unwrap();
    assert!(world.staged(ino).is_some());
    world.die().await;
    assert_eq!(world.start().await.orphans, 1);
    assert!(world.stage_files().is_empty());
}
