//! Directories: markers, and prefixes that follow a rename.

use super::world::{World, tree};
use std::collections::BTreeMap;
use tierfs::error::Kind;
use tierfs::tier::{Operation, RenameMode};
use tierfs::types::Ino;

#[tokio::test(start_paused = true)]
async fn a_renamed_directory_takes_all_along_listed_or_not() {
    for fault in [0.0, 0.2] {
        let world = World::new().await;
        let mut expected = BTreeMap::new();
        for index in 0..25 {
            world.write(&format!("old/mine-{index}"), format!("{index}").as_bytes());
            expected.insert(format!("new/mine-{index}"), format!("{index}").into_bytes());
        }
        world.write("old/sub/deep", b"deep");
        expected.insert("new/sub/deep".into(), b"deep".to_vec());
        world.flush().await;
        // Nobody has ever listed these.
        for index in 0..25 {
            world.outside_put(&format!("old/theirs-{index}"), b"t").await;
            world.outside_put(&format!("old/theirs/{index}/x"), b"u").await;
            expected.insert(format!("new/theirs-{index}"), b"t".to_vec());
            expected.insert(format!("new/theirs/{index}/x"), b"u".to_vec());
        }
        world.outside_marker("old/empty").await;
        world.faults.seeded(1, fault, Kind::Unavailable);
        world.rename("old", "new", RenameMode::NoReplace);
        world.flush().await;
        assert_eq!(world.files().await, expected);
        let markers: Vec<String> = world.blobs().await.into_keys().filter(|key| key.ends_with('/')).collect();
        assert!(markers.iter().all(|key| key.starts_with("new/")), "{markers:?}");
        assert!(markers.contains(&"new/".into()) && markers.contains(&"new/empty/".into()), "{markers:?}");
        let dir = world.ino("new");
        assert_eq!(world.catalog.places(dir).unwrap().len(), 1, "the old prefix is given up");
        world.assert_clean("new/mine-3");
        world.assert_clean("new/theirs/3/x");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_directory_under_the_old_name_waits_for_the_prefix() {
    let world = World::new().await;
    world.write("d/a", b"one");
    world.flush().await;
    world.rename("d", "e", RenameMode::NoReplace);
    world.write("d/b", b"two");
    world.unlink("e/a");
    world.flush().await;
    assert_eq!(world.files().await, tree([("d/b", b"two")]));
    world.assert_clean("d/b");
}

#[tokio::test(start_paused = true)]
async fn dirty_children_are_committed_in_their_own_turn() {
    let world = World::new().await;
    world.write("d/first", b"1");
    world.flush().await;
    world.write("d/z-earlier", b"2");
    world.write("d/a-later", b"3");
    world.write("d/first", b"1 again");
    world.rename("d", "e", RenameMode::NoReplace);
    world.flush().await;
    assert_eq!(
        world.files().await,
        tree([("e/first", b"1 again"), ("e/z-earlier", b"2"), ("e/a-later", b"3")])
    );
    let puts: Vec<String> = world
        .log()
        .into_iter()
        .filter(|(operation, key)| *operation == Operation::Put && key.starts_with("e/"))
        .map(|(_, key)| key)
        .collect();
    assert_eq!(puts, ["e/z-earlier", "e/a-later", "e/first"]);
}

#[tokio::test(start_paused = true)]
async fn two_directories_swap() {
    let world = World::new().await;
    world.write("a/f", b"was a");
    world.write("b/f", b"was b");
    world.write("b/only", b"b only");
    world.flush().await;
    world.rename("a", "b", RenameMode::Exchange);
    world.flush().await;
    assert_eq!(world.files().await, tree([("a/f", b"was b"), ("a/only", b"b only"), ("b/f", b"was a")]));
    world.assert_clean("a/f");
    world.assert_clean("b/f");
}

#[tokio::test(start_paused = true)]
async fn a_directory_crosses_tiers_with_its_files() {
    let world = World::new().await;
    world.write("d/f", b"one");
    world.write("d/s/g", b"two");
    world.flush().await;
    world.rename("d", "native/d", RenameMode::NoReplace);
    world.flush().await;
    assert!(world.files().await.is_empty());
    assert_eq!(std::fs::read(world.root.join("native/d/s/g")).unwrap(), b"two");
    world.rename("native/d", "back", RenameMode::NoReplace);
    world.flush().await;
    assert_eq!(world.files().await, tree([("back/f", b"one"), ("back/s/g", b"two")]));
    assert!(!world.root.join("native/d").exists(), "nothing is left behind");
    world.assert_clean("back/s/g");
}

#[tokio::test(start_paused = true)]
async fn a_directory_on_scratch_is_renamed_natively() {
    let world = World::new().await;
    world.write("native/d/f", b"one");
    world.flush().await;
    std::fs::write(world.root.join("native/d/unlisted"), b"two").unwrap();
    world.rename("native/d", "native/e", RenameMode::NoReplace);
    world.flush().await;
    assert_eq!(std::fs::read(world.root.join("native/e/f")).unwrap(), b"one");
    assert_eq!(std::fs::read(world.root.join("native/e/unlisted")).unwrap(), b"two");
    assert!(!world.root.join("native/d").exists());
    world.assert_clean("native/e/f");
}

#[tokio::test(start_paused = true)]
async fn a_removed_directory_takes_its_marker_along() {
    let world = World::new().await;
    world.mkdir("d");
    world.flush().await;
    assert_eq!(world.blobs().await, tree([("d/", b"")]));
    world.catalog.rmdir(Ino::ROOT, b"d", &[], &world.domain("d"), world.clock.wall()).unwrap();
    world.flush().await;
    assert_eq!(world.blobs().await, tree([]));
}
