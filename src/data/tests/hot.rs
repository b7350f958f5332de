//! The layout of hot copies, their look-up and eviction.

use super::support::*;
use crate::clock::{Clock, ManualClock, SystemClock};
use crate::data::{HotStore, Identity};
use crate::types::{Key, Version};
use std::fs;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const HOUR: Duration = Duration::from_secs(3600);

fn identity(key: &str) -> Identity {
    Identity {
        location: "https://account.blob.core.windows.net/training/prefix".into(),
        key: Key::parse(key).unwrap(),
        version: Version::new("\"0x8DC5A1\""),
    }
}

fn rig() -> (Arc<Directory>, HotStore, ManualClock) {
    let directory = Directory::new();
    let clock = ManualClock::new(SystemClock::default().wall());
    let hot = HotStore::new(Arc::clone(&directory) as _, Arc::new(clock.clone())).unwrap();
    (directory, hot, clock)
}

/// Puts a copy of `len` bytes in place by way of the stage.
fn put(directory: &Directory, hot: &HotStore, key: &str, len: usize) -> Key {
    let staged = Key::parse("staged").unwrap();
    fs::write(directory.path(&staged), vec![b'x'; len]).unwrap();
    hot.adopt_staged(&staged, &identity(key)).unwrap();
    hot.path_key(&identity(key)).unwrap()
}

#[test]
fn the_layout_is_a_disk_format() {
    let (_directory, hot, _) = rig();
    assert_eq!(
        hot.path_key(&identity("datasets/a.tar")).unwrap().to_string(),
        concat!(
            ".tierfs/hot/d4/",
            "d4ac71e1a24fa9cca00c72263976700e8e406ab2e1a5b883237f945078a086a4/",
            "bacb1a21027729d6c50863f76a8afe1a9209185d3d7d2c49bbc88e91395b508d"
        )
    );
}

#[test]
fn a_copy_is_found_by_identity_and_size() {
    let (directory, hot, _) = rig();
    assert!(hot.find(&identity("a"), 5).unwrap().is_none());
    put(&directory, &hot, "a", 5);
    assert!(hot.find(&identity("a"), 5).unwrap().is_some());
    assert!(hot.find(&identity("b"), 5).unwrap().is_none());
    let other = Identity { version: Version::new("other"), ..identity("a") };
    assert!(hot.find(&other, 5).unwrap().is_none());
    assert!(hot.find(&identity("a"), 6).unwrap().is_none(), "cut or grown: not a copy");
    assert!(hot.find(&identity("a"), 5).unwrap().is_none(), "and removed");
}

#[test]
fn last_use_moves_once_an_hour() {
    let (directory, hot, clock) = rig();
    let path = directory.path(&put(&directory, &hot, "a", 1));
    let mtime = || fs::metadata(&path).unwrap().modified().unwrap();
    let first = mtime();
    assert_eq!(first, SystemTime::from(clock.wall()), "adopted: used now");
    clock.advance(HOUR / 2);
    hot.find(&identity("a"), 1).unwrap();
    assert_eq!(mtime(), first);
    clock.advance(HOUR);
    hot.find(&identity("a"), 1).unwrap();
    assert_eq!(mtime(), SystemTime::from(clock.wall()));
}

#[test]
fn closed_copies_are_found_and_dropped() {
    let (directory, hot, _) = rig();
    let keys: Vec<Key> = ["a", "b"].iter().map(|name| put(&directory, &hot, name, 100)).collect();
    assert_eq!(hot.space().copies(), 200);
    let copies = || {
        let mut copies = Vec::new();
        hot.scan(&mut |copy| {
            copies.push(copy);
            ControlFlow::Continue(())
        })
        .unwrap();
        copies
    };
    let found = |key: &Key| copies().into_iter().find(|copy| copy.key == *key).unwrap();
    let (open, closed) = (found(&keys[0]), found(&keys[1]));
    let reader = fs::File::open(directory.path(&keys[0])).unwrap();
    assert!(!hot.evict(&open).unwrap() && hot.evict(&closed).unwrap());
    assert_eq!((copies(), hot.space().copies()), (vec![open.clone()], 100));
    let parent = directory.path(&keys[1].split().unwrap().0);
    assert!(!parent.exists(), "an empty directory goes too");
    assert!(hot.evict(&closed).unwrap(), "gone is gone");
    drop(reader);
    assert!(hot.evict(&open).unwrap() && copies().is_empty());
}
