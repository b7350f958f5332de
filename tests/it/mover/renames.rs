//! Renames and deletes before, during and after uploads: in the end exactly one key.

use super::world::{HOUR, World, tree};
use tierfs::catalog::Writers;
use tierfs::error::Kind;
use tierfs::mover::FlushScope;
use tierfs::tier::{Fault, Gate, Operation, RenameMode};

#[tokio::test(start_paused = true)]
async fn a_rename_before_the_upload_costs_none() {
    let world = World::new().await;
    world.write("tmp", b"one");
    world.rename("tmp", "final", RenameMode::Replace);
    world.flush().await;
    assert_eq!(world.files().await, tree([("final", b"one")]));
    assert_eq!(world.log(), [(Operation::Put, "final".to_owned())]);
    world.assert_clean("final");
}

#[tokio::test(start_paused = true)]
async fn a_rename_after_the_upload_copies_inside_the_tier() {
    let world = World::new().await;
    world.write("dir/tmp", b"one");
    world.flush().await;
    world.rename("dir/tmp", "final", RenameMode::Replace);
    world.flush().await;
    assert_eq!(world.files().await, tree([("final", b"one")]));
    assert!(world.log().contains(&(Operation::Copy, "final".to_owned())));
    world.assert_clean("final");
}

#[tokio::test(start_paused = true)]
async fn a_rename_during_the_upload_ends_with_one_key() {
    for operation in [Operation::PutBlock, Operation::Commit] {
        let world = World::new().await;
        let gate = Gate::default();
        let bytes = vec![1; 5 << 20];
        world.write("tmp", &bytes);
        world.faults.once(operation, Fault::Hang(gate.clone()));
        let meanwhile = async {
            gate.reached(1).await;
            world.rename("tmp", "final", RenameMode::Replace);
            world.write("tmp", b"another");
            gate.open();
        };
        tokio::join!(world.mover().flush(FlushScope::All, HOUR), meanwhile).0.unwrap();
        world.flush().await;
        assert_eq!(world.files().await, tree([("final", &bytes), ("tmp", b"another")]), "{operation:?}");
        world.assert_clean("final");
        world.assert_clean("tmp");
        assert_eq!(world.mover().status().unwrap().conflicts, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unlink_during_the_upload_leaves_nothing() {
    for (operation, lost) in
        [(Operation::PutBlock, false), (Operation::Commit, false), (Operation::Commit, true)]
    {
        let world = World::new().await;
        let gate = Gate::default();
        world.write("f", &vec![1; 5 << 20]);
        world.faults.once(operation, Fault::Hang(gate.clone()));
        let meanwhile = async {
            gate.reached(1).await;
            world.unlink("f");
            if lost {
                world.faults.once(Operation::Head, Fault::FailBefore(Kind::Unavailable));
            }
            gate.open();
        };
        tokio::join!(world.mover().flush(FlushScope::All, HOUR), meanwhile).0.unwrap();
        world.flush().await;
        assert_eq!(world.files().await, tree([]), "{operation:?}");
        assert!(world.stage_files().is_empty() && world.lookup("f").is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_rename_over_a_committed_file_replaces_it() {
    let world = World::new().await;
    world.write("final", b"old");
    world.flush().await;
    world.write("tmp", b"new");
    world.rename("tmp", "final", RenameMode::Replace);
    world.flush().await;
    assert_eq!(world.files().await, tree([("final", b"new")]));
    world.assert_clean("final");
    world.write("tmp", b"newer");
    world.flush().await;
    world.rename("tmp", "final", RenameMode::Replace);
    world.flush().await;
    assert_eq!(world.files().await, tree([("final", b"newer")]));
    world.assert_clean("final");
}

#[tokio::test(start_paused = true)]
async fn two_committed_files_swap() {
    let world = World::new().await;
    world.write("a", b"was a");
    world.write("b", b"was b");
    world.flush().await;
    world.rename("a", "b", RenameMode::Exchange);
    world.flush().await;
    assert_eq!(world.blobs().await, tree([("a", b"was b"), ("b", b"was a")]), "and nothing is left aside");
    world.assert_clean("a");
    world.assert_clean("b");
}

#[tokio::test(start_paused = true)]
async fn a_cycle_of_renames_loses_nothing_under_faults() {
    for seed in 0..8 {
        let world = World::new().await;
        for name in ["a", "b", "c"] {
            world.write(name, name.as_bytes());
        }
        world.flush().await;
        world.faults.seeded(seed, 0.3, Kind::TimedOut);
        for (from, to) in [("a", "x"), ("b", "a"), ("c", "b"), ("x", "c")] {
            world.rename(from, to, RenameMode::NoReplace);
        }
        world.flush().await;
        assert_eq!(world.blobs().await, tree([("a", b"b"), ("b", b"c"), ("c", b"a")]), "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_of_what_changed_outside_brings_it_back() {
    let world = World::new().await;
    world.write("f", b"ours");
    world.flush().await;
    world.outside_put("f", b"theirs").await;
    world.unlink("f");
    world.flush().await;
    assert_eq!(world.files().await, tree([("f", b"theirs")]));
    assert!(world.lookup("f").is_some(), "it is seen again");
}

#[tokio::test(start_paused = true)]
async fn a_new_file_takes_over_the_key_of_a_deleted_one() {
    let world = World::new().await;
    world.write("f", b"old");
    world.flush().await;
    world.unlink("f");
    world.write("f", b"new");
    world.flush().await;
    assert_eq!(world.files().await, tree([("f", b"new")]));
    world.assert_clean("f");
    assert_eq!(world.mover().status().unwrap().conflicts, 0);
}

#[tokio::test(start_paused = true)]
async fn a_file_follows_its_home_from_blob_to_scratch_and_back() {
    let world = World::new().await;
    let bytes: Vec<u8> = (0..9_000_000_u32).map(|i| (i / 3) as u8).collect();
    let ino = world.write("f", &bytes);
    world.flush().await;
    world.rename("f", "native/f", RenameMode::Replace);
    world.flush().await;
    assert_eq!(std::fs::read(world.root.join("native/f")).unwrap(), bytes);
    assert_eq!(world.files().await, tree([]));
    world.assert_clean("native/f");
    world.rename("native/f", "g", RenameMode::Replace);
    world.flush().await;
    assert!(!world.root.join("native/f").exists());
    assert_eq!(world.files().await, tree([("g", &bytes)]));
    world.assert_clean("g");
    assert_eq!(world.ino("g"), ino);
}

#[tokio::test(start_paused = true)]
async fn a_file_comes_into_a_directory_that_is_renamed_meanwhile() {
    for size in [3, 9_000_000] {
        let world = World::new().await;
        let (gate, bytes) = (Gate::default(), vec![1; size]);
        world.native("native/old/x", b"there");
        world.write("f", &bytes);
        world.flush().await;
        world.rename("f", "native/old/f", RenameMode::Replace);
        world.faults.once(Operation::Read, Fault::Hang(gate.clone()));
        let meanwhile = async {
            gate.reached(1).await;
            world.rename_natively("native/old", "native/new");
            gate.open();
        };
        tokio::join!(world.mover().flush(FlushScope::All, HOUR), meanwhile).0.unwrap();
        world.flush().await;
        assert!(!world.root.join("native/old").exists(), "the old directory was made again");
        assert_eq!(std::fs::read(world.root.join("native/new/f")).unwrap(), bytes);
        assert_eq!(std::fs::read(world.root.join("native/new/x")).unwrap(), b"there");
        assert_eq!(world.files().await, tree([]));
        world.assert_clean("native/new/f");
    }
}

#[tokio::test(start_paused = true)]
async fn a_replaced_file_that_is_still_written_does_not_come_back() {
    let world = World::new().await;
    world.native("native/f", b"old");
    world.write("g", b"new");
    world.rename("g", "native/f", RenameMode::Replace);
    world.append_natively("native/f", b", written by who had it open");
    world.rename("native/f", "h", RenameMode::Replace);
    world.flush().await;
    assert_eq!(world.files().await, tree([("h", b"new")]));
    assert!(!world.root.join("native/f").exists());
    assert!(world.lookup("native/f").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_replaced_file_that_is_still_written_is_in_nobodys_way() {
    let world = World::new().await;
    for name in ["native/f", "native/g"] {
        world.native(name, b"old");
        world.write("tmp", b"new");
        world.rename("tmp", name, RenameMode::Replace);
        world.append_natively(name, b", written by who had it open");
        world.rename(name, "h", RenameMode::Replace);
        world.write(name, b"newest");
        if name == "native/g" {
            world.append_natively(name, b", and again");
        }
        world.flush().await;
        assert_eq!(std::fs::read(world.root.join(name)).unwrap(), b"newest", "{name}");
        world.assert_clean(name);
        world.assert_clean("h");
        assert_eq!(world.mover().status().unwrap().conflicts, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_replaced_file_that_others_change_is_kept() {
    for left in [false, true] {
        let mut world = World::new().await;
        world.writers = Writers::None;
        world.native("native/f", b"old");
        world.write("g", b"new");
        world.rename("g", "native/f", RenameMode::Replace);
        world.append_natively("native/f", b", changed by others");
        if left {
            world.rename("native/f", "h", RenameMode::Replace);
        }
        world.flush().await;
        assert_eq!(std::fs::read(world.root.join("native/f")).unwrap(), b"old, changed by others");
        assert!(world.lookup("native/f").is_some());
        let ours = if left {
            world.files().await.remove("h").unwrap()
        } else {
            let (parent, _) = world.parent("native/f");
            let names = world.catalog.entries(parent, 0, 10).unwrap();
            let kept = names.iter().find(|entry| entry.name.starts_with(b"f.conflict-")).unwrap();
            let name = String::from_utf8(kept.name.clone()).unwrap();
            std::fs::read(world.root.join("native").join(name)).unwrap()
        };
        assert_eq!(ours, b"new");
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_written_where_its_directory_was_makes_way_whole() {
    let world = World::new().await;
    world.native("native/d/f", b"old");
    world.rename("native/d", "x", RenameMode::Replace);
    world.append_natively("native/d/f", b", written by who had it mapped");
    world.write("native/d/f", b"new");
    world.flush().await;
    assert_eq!(std::fs::read(world.root.join("native/d/f")).unwrap(), b"new");
    assert_eq!(world.files().await, tree([("x/f", b"old, written by who had it mapped")]));
    assert_eq!(world.mover().status().unwrap().conflicts, 0);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_linked_and_then_replaced_loses_nothing() {
    // As an editor keeps a backup: ln f f~; mv new f.
    for unlink in [false, true] {
        let world = World::new().await;
        let ino = world.write("f", b"old");
        world.flush().await;
        world.link("f", "f~");
        world.write("tmp", b"new");
        if unlink {
            world.unlink("f");
        }
        world.rename("tmp", "f", RenameMode::Replace);
        assert!(world.catalog.replicas(ino).unwrap().iter().any(|replica| replica.version.is_some()));
        world.flush().await;
        assert_eq!(world.files().await, tree([("f", b"new"), ("f~", b"old")]), "unlinked: {unlink}");
        world.assert_clean("f");
        world.assert_clean("f~");
        assert_eq!(world.mover().status().unwrap().conflicts, 0);
    }
}
