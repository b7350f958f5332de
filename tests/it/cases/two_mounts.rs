//! Two mounts with two catalogs on one container.

use super::*;
use crate::support::{Over, noise, wait};
use std::fs;

#[test]
fn different_files_in_parallel_all_arrive() {
    on_both(|tiers| {
        let mounts = ["one", "two"].map(|name| Mount::of(tiers).named(name).start());
        for mount in &mounts {
            fs::create_dir_all(mount.path("blob/d")).expect("mkdir");
        }
        let content =
            |who: usize, i: u64| noise(i * 2 + who as u64, 1000 + usize::try_from(i).expect("small") * 997);
        std::thread::scope(|scope| {
            for (who, mount) in mounts.iter().enumerate() {
                for part in 0..4 {
                    scope.spawn(move || {
                        for i in (part..40).step_by(4) {
                            let path = mount.path(&format!("blob/d/{who}-{i}"));
                            fs::write(path, content(who, i)).expect("a write");
                        }
                    });
                }
            }
        });
        mounts.iter().for_each(Mount::flush);
        assert_eq!(tiers.blob_file_names().len(), 80, "{:?}", tiers.blob_file_names());
        for mount in &mounts {
            for (who, i) in (0..2).flat_map(|who| (0..40).map(move |i| (who, i))) {
                let path = mount.path(&format!("blob/d/{who}-{i}"));
                wait::until("the other's file", || {
                    fs::read(&path).is_ok_and(|bytes| bytes == content(who, i))
                });
            }
            assert_eq!(fs::read_dir(mount.path("blob/d")).expect("a directory").count(), 80);
        }
    });
}

/// Whoever commits second keeps both; whatever is read is one of the versions that were written, whole.
#[test]
fn one_file_from_both_sides_is_never_a_mix() {
    on_both(|tiers| {
        let size = 9 << 20;
        tiers.put_blob("blob/f", &noise(0, size));
        let mounts = ["one", "two"].map(|name| Mount::of(tiers).named(name).start());
        let mut written = vec![noise(0, size)];
        for round in 0..3 {
            let versions =
                [1, 2].map(|who| noise(round * 2 + who, size + usize::try_from(who).expect("small")));
            std::thread::scope(|scope| {
                for (mount, version) in mounts.iter().zip(&versions) {
                    scope.spawn(move || {
                        fs::write(mount.path("blob/f"), version).expect("a write");
                        mount.flush();
                    });
                }
            });
            written.extend(versions);
            let names = tiers.blob_file_names();
            for name in &names {
                let found = tiers.expect_blob(name);
                assert!(written.contains(&found), "{name} is none of the versions");
            }
            // What lost the race is kept under another name, not lost.
            let kept: Vec<_> = names.iter().map(|name| tiers.expect_blob(name)).collect();
            for version in &written[written.len() - 2..] {
                assert!(kept.contains(version), "round {round}: a version is lost; there are {names:?}");
            }
        }
    });
}

/// Both see that home has room again, and both bring the same files there.
#[test]
fn files_that_home_had_no_room_for_come_home_once() {
    let rules = "[[rule]]\npath = \"models/**\"\nhome = \"share\"\noverflow = \"scratch\"\n\n\
                 [[rule]]\npath = \"**\"\nhome = \"scratch\"\n";
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let _share = Over::small(&tiers.share, "10m");
    let marks = "high_water = \"60%\"\nlow_water = \"40%\"";
    let mounts =
        ["one", "two"].map(|name| Mount::of(&tiers).named(name).rules(rules).share_key(marks).start());
    fs::create_dir(mounts[0].path("models")).expect("mkdir");
    fs::write(mounts[0].path("models/big"), noise(99, 7 << 20)).expect("a write");
    for mount in &mounts {
        let is_full = || mount.tierfs(&["plan"]).contains("overflow: share is too full");
        wait::until("the share to be too full", is_full);
    }
    let name = |at: u64| format!("models/f{at}");
    for at in 0..20 {
        fs::write(mounts[(at % 2) as usize].path(&name(at)), noise(at, 50_000)).expect("a write");
    }
    for mount in &mounts {
        assert_eq!(fs::read_dir(mount.path("models")).expect("a list").count(), 21);
    }
    fs::remove_file(mounts[0].path("models/big")).expect("unlink");
    for at in 0..20 {
        wait::until("all files at home", || {
            tiers.share.join(name(at)).exists() && !tiers.scratch.join(name(at)).exists()
        });
    }
    for mount in &mounts {
        mount.flush();
        for at in 0..20 {
            assert!(fs::read(mount.path(&name(at))).expect("a read") == noise(at, 50_000), "{at}");
        }
        assert_eq!(fs::read_dir(mount.path("models")).expect("a list").count(), 20, "no conflict copy");
        assert_eq!(mount.status()["conflicts"], 0);
    }
    assert_eq!(fs::read_dir(tiers.share.join("models")).expect("a list").count(), 20);
}
