//! What reaches home, when, and in which order.

use super::world::{HOUR, World, tree};
use std::time::Duration;
use tierfs::catalog::WriteState;
use tierfs::error::Kind;
use tierfs::mover::FlushScope;
use tierfs::tier::{Fault, Gate, Operation, RenameMode};
use tierfs::types::{AttrChange, FileKind, Key};

#[tokio::test(start_paused = true)]
async fn a_closed_file_reaches_home_after_it_settled() {
    let world = World::new().await;
    let before = tokio::time::Instant::now();
    world.write("dir/a", b"one");
    while world.lookup("dir/a").unwrap().state != WriteState::Clean {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let took = before.elapsed();
    assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(4), "{took:?}");
    world.flush().await;
    assert_eq!(world.blobs().await, tree([("dir/", b""), ("dir/a", b"one")]));
    world.assert_clean("dir/a");
    assert!(world.stage_files().is_empty());
    let object = world.blob.head(&Key::parse("dir/a").unwrap()).await.unwrap();
    assert_eq!((object.attrs.mode, object.attrs.uid, object.attrs.gid), (Some(0o640), Some(7), Some(8)));
}

#[tokio::test(start_paused = true)]
async fn a_flush_ends_settling() {
    let world = World::new().await;
    let before = tokio::time::Instant::now();
    world.write("a", b"one");
    let report = world.flush().await;
    assert!(before.elapsed() < Duration::from_secs(1));
    assert_eq!((report.progress.files_total, report.progress.files_done), (1, 1));
    assert_eq!((report.progress.bytes_total, report.progress.bytes_done), (3, 3));
    world.assert_clean("a");
}

#[tokio::test(start_paused = true)]
async fn a_flush_waits_for_its_scope_only() {
    let world = World::new().await;
    let gate = Gate::default();
    world.write("other/slow", b"x");
    let (mine, slow) = (world.write("mine/a", b"y"), world.ino("other"));
    // Nothing of the other rule may be waited for.
    world.faults.once(Operation::PutSpecial, Fault::Hang(gate.clone()));
    let report = world.mover().flush(FlushScope::Under(vec![slow]), Duration::from_secs(1));
    let report = report.await.unwrap();
    assert!(report.timed_out && !report.complete);
    let report = world.mover().flush(FlushScope::Inodes(vec![mine]), HOUR).await.unwrap();
    assert!(report.complete);
    world.assert_clean("mine/a");
    gate.open();
    world.flush().await;
    world.assert_clean("other/slow");
}

#[tokio::test(start_paused = true)]
async fn every_kind_reaches_home() {
    let world = World::new().await;
    world.write("empty", b"");
    let big: Vec<u8> = (0..5_000_000_u32).map(|i| (i / 7) as u8).collect();
    world.write("big", &big);
    world.symlink("link", "big");
    world.fifo("pipe");
    world.mkdir("d/e");
    world.flush().await;
    let files = world.files().await;
    assert_eq!(files["big"], big);
    assert_eq!(files["empty"], b"");
    let link = world.blob.head(&Key::parse("link").unwrap()).await.unwrap();
    assert_eq!((link.kind, link.target), (FileKind::Symlink, Some(b"big".to_vec())));
    assert!(world.blobs().await.contains_key("d/e/"));
    for path in ["empty", "big", "link"] {
        world.assert_clean(path);
    }
    assert!(world.lookup("pipe").is_some(), "a fifo lives in the catalog where the tier has none");
}

#[tokio::test(start_paused = true)]
async fn attributes_alone_are_told_without_the_bytes() {
    let world = World::new().await;
    let ino = world.write("a", b"one");
    world.flush().await;
    let change = AttrChange { mode: Some(0o600), ..AttrChange::default() };
    world.catalog.set_attr(ino, &change, Some(&world.domain("a")), world.clock.wall()).unwrap();
    world
        .catalog
        .set_xattr(ino, b"user.k", Some(b"v"), Some(&world.domain("a")), world.clock.wall())
        .unwrap();
    world.flush().await;
    let object = world.blob.head(&Key::parse("a").unwrap()).await.unwrap();
    assert_eq!(object.attrs.mode, Some(0o600));
    assert_eq!(object.attrs.xattrs, [(b"user.k".to_vec(), b"v".to_vec())]);
    assert_eq!(world.log().iter().filter(|(operation, _)| *operation == Operation::Put).count(), 1);
    world.assert_clean("a");
}

#[tokio::test(start_paused = true)]
async fn commits_keep_close_order() {
    for seed in 0..12 {
        let world = World::new().await;
        world.faults.seeded(seed, 0.3, Kind::Unavailable);
        let mut expected = Vec::new();
        for index in 0..12 {
            let name = format!("shard-{index}");
            world.write(&name, format!("{seed}-{index}").as_bytes());
            expected.push(name);
        }
        world.write("latest", b"all");
        expected.push("latest".into());
        world.rename("shard-0", "shard-first", RenameMode::NoReplace);
        world.flush().await;
        let mut seen: Vec<String> = world
            .log()
            .into_iter()
            .filter(|(operation, _)| *operation != Operation::Delete)
            .map(|(_, key)| key)
            .collect();
        seen.dedup();
        expected.remove(0);
        expected.push("shard-first".into());
        assert_eq!(seen, expected, "seed {seed}");
        assert_eq!(world.files().await.len(), 13, "seed {seed}");
        assert!(world.mover().status().unwrap().conflicts == 0, "seed {seed}: no conflict with ourselves");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_is_recognised() {
    let world = World::new().await;
    world.faults.once(Operation::Put, Fault::FailAfter(Kind::TimedOut));
    world.write("a", b"one");
    world.flush().await;
    assert_eq!(world.log(), [(Operation::Put, "a".to_owned())], "sent once, believed once");
    world.assert_clean("a");
}

#[tokio::test(start_paused = true)]
async fn no_silent_overwrite() {
    let world = World::new().await;
    world.write("dir/f", b"ours, first");
    world.flush().await;
    world.outside_put("dir/f", b"theirs").await;
    let ino = world.write("dir/f", b"ours, second");
    world.flush().await;
    let files = world.files().await;
    assert_eq!(files.len(), 2, "{:?}", files.keys());
    assert_eq!(files["dir/f"], b"theirs");
    let (aside, bytes) = files.iter().find(|(key, _)| *key != "dir/f").unwrap();
    assert!(aside.starts_with("dir/f.conflict-vm1-20231114T"), "{aside}");
    assert_eq!(bytes, b"ours, second");
    assert_eq!(world.ino(aside), ino, "the inode went with our bytes");
    assert_ne!(world.ino("dir/f"), ino);
    world.assert_clean(aside);
    world.assert_clean("dir/f");
    assert_eq!(world.mover().status().unwrap().conflicts, 1);
    assert!(!world.told.lock().is_empty(), "the kernel was told");
}

#[tokio::test(start_paused = true)]
async fn a_new_file_does_not_hide_one_that_came_from_outside() {
    let world = World::new().await;
    world.outside_put("f", b"theirs").await;
    world.write("f", b"ours");
    world.flush().await;
    let files = world.files().await;
    assert_eq!((files.len(), &files["f"][..]), (2, &b"theirs"[..]));
}

#[tokio::test(start_paused = true)]
async fn what_was_deleted_outside_is_written_again() {
    let world = World::new().await;
    world.write("f", b"one");
    world.flush().await;
    let key = Key::parse("f").unwrap();
    world.blob.delete(&key, &tierfs::types::Condition::Always).await.unwrap();
    world.write("f", b"two");
    world.flush().await;
    assert_eq!(world.files().await, tree([("f", b"two")]));
    world.assert_clean("f");
}

#[tokio::test(start_paused = true)]
async fn a_file_reopened_during_its_upload_is_not_torn() {
    let world = World::new().await;
    let gate = Gate::default();
    let old = vec![b'a'; 5 << 20];
    let ino = world.write("f", &old);
    world.faults.script(Operation::PutBlock, 3, 1, Fault::Hang(gate.clone()));
    world.write("g", b"closed later");
    let flush = world.mover().flush(FlushScope::All, Duration::from_secs(20));
    let meanwhile = async {
        gate.reached(1).await;
        world.open_again(ino, &vec![b'b'; 5 << 20]);
        gate.open();
    };
    let (report, ()) = tokio::join!(flush, meanwhile);
    assert!(report.unwrap().timed_out, "it is open");
    assert!(world.files().await.is_empty(), "neither a mix, nor what was closed after it");
    world.close("f");
    world.release("f");
    world.flush().await;
    assert_eq!(world.files().await, tree([("f", &vec![b'b'; 5 << 20]), ("g", b"closed later")]));
    assert_eq!(world.log().first().unwrap().1, "f", "it kept its place in the order");
}

#[tokio::test(start_paused = true)]
async fn a_mapped_file_that_changes_is_not_torn() {
    let world = World::new().await;
    let gate = Gate::default();
    let ino = world.write("f", &vec![b'a'; 5 << 20]);
    world.faults.script(Operation::PutBlock, 3, 1, Fault::Hang(gate.clone()));
    let path = world.staged_path(ino);
    let meanwhile = async {
        gate.reached(1).await;
        std::fs::write(&path, vec![b'b'; 5 << 20]).unwrap();
        gate.open();
    };
    let (report, ()) = tokio::join!(world.flush(), meanwhile);
    assert!(report.complete);
    assert_eq!(world.files().await, tree([("f", &vec![b'b'; 5 << 20])]));
    assert_eq!(world.log().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_blocks_its_domain_only() {
    let world = World::new().await;
    world.faults.once(Operation::Put, Fault::FailBefore(Kind::Refused));
    world.write("bad", b"x");
    world.write("behind", b"y");
    let report = world.mover().flush(FlushScope::All, HOUR).await.unwrap();
    assert!(!report.complete && !report.timed_out);
    assert_eq!((report.blocked.len(), &report.blocked[0].about[..]), (1, "bad"));
    world.write("other/fine", b"z");
    let ino = world.ino("other/fine");
    assert!(world.mover().flush(FlushScope::Inodes(vec![ino]), HOUR).await.unwrap().complete);
    assert_eq!(world.mover().status().unwrap().blocked.len(), 1);
    // A person mended it: a flush tries again.
    world.flush().await;
    assert_eq!(world.files().await.len(), 3);
    assert!(world.mover().status().unwrap().blocked.is_empty());
}

#[tokio::test(start_paused = true)]
async fn names_of_one_file_are_full_blobs_with_one_mark() {
    let world = World::new().await;
    let ino = world.write("a", b"one");
    let (parent, name) = world.parent("b");
    world.catalog.link(ino, parent, &name, None, Some(&world.domain("b")), world.clock.wall()).unwrap();
    world.flush().await;
    assert_eq!(world.files().await, tree([("a", b"one"), ("b", b"one")]));
    let head = async |key: &str| world.blob.head(&Key::parse(key).unwrap()).await.unwrap().attrs.link;
    assert!(head("a").await.is_some() && head("a").await == head("b").await);
    world.assert_clean("a");
    world.unlink("a");
    world.flush().await;
    assert_eq!(world.files().await, tree([("b", b"one")]));
}

#[tokio::test(start_paused = true)]
async fn a_file_homed_on_its_stage_is_renamed_into_place() {
    let world = World::new().await;
    let ino = world.write("native/f", b"bytes");
    let inode_number =
        |path: &std::path::Path| std::os::unix::fs::MetadataExt::ino(&path.metadata().unwrap());
    let before = inode_number(&world.staged_path(ino));
    world.flush().await;
    let path = world.root.join("native/f");
    assert_eq!((std::fs::read(&path).unwrap(), inode_number(&path)), (b"bytes".to_vec(), before));
    world.assert_clean("native/f");
    assert!(world.stage_files().is_empty() && world.blobs().await.is_empty());
}
