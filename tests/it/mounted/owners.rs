//! Rules for some owners only, and for files of some sizes.

use crate::support::blob_server::BlobServer;
use crate::support::{Mount, Tiers, noise, wait};
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};

/// Files of user 1234 on Blob, those of group 77 on the share, all others on scratch.
const RULES: &str = r#"
[[rule]]
path = "**"
uid = "1234"
home = "blob"
stage = "scratch"
settle = "0s"

[[rule]]
path = "**"
gid = ["76", "77"]
home = "share"

[[rule]]
path = "**"
home = "scratch"
"#;

#[test]
fn the_owner_chooses_the_home_when_a_file_is_made_given_away_or_renamed() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let mut mount = Mount::of(&tiers).rules(RULES).start();
    fs::create_dir(mount.path("d")).expect("mkdir");
    // As root does that unpacks an archive: made, written, given away.
    fs::write(mount.path("d/a"), noise(1, 50_000)).expect("a write");
    assert!(tiers.scratch.join("d/a").exists());
    chown(mount.path("d/a"), Some(1234), None).expect("chown");
    mount.flush();
    assert_eq!(tiers.expect_blob("d/a"), noise(1, 50_000));
    wait::until("nothing of it on scratch", || !tiers.scratch.join("d/a").exists());
    // Of both conditions the first rule wins.
    chown(mount.path("d/a"), None, Some(77)).expect("chown");
    mount.flush();
    assert!(tiers.blob("d/a").is_some());
    fs::rename(mount.path("d/a"), mount.path("d/b")).expect("a rename");
    mount.flush();
    assert!(tiers.blob("d/a").is_none() && tiers.blob("d/b").is_some());
    chown(mount.path("d/b"), Some(0), None).expect("chown");
    mount.flush();
    assert_eq!(fs::read(tiers.share.join("d/b")).expect("on the share"), noise(1, 50_000));
    wait::until("nothing of it on Blob", || tiers.blob("d/b").is_none());
    // A directory's group is that of what is made in it.
    fs::create_dir(mount.path("team")).expect("mkdir");
    chown(mount.path("team"), None, Some(76)).expect("chown");
    rustix::fs::chmod(mount.path("team"), rustix::fs::Mode::from_raw_mode(0o2775)).expect("chmod");
    fs::write(mount.path("team/c"), "c").expect("a write");
    assert_eq!(fs::metadata(mount.path("team/c")).expect("stat").gid(), 76);
    assert!(tiers.share.join("team/c").exists() && !tiers.scratch.join("team/c").exists());
    assert!(mount.unmount().success(), "{}", mount.log());
    mount.lose_catalog();
    mount.remount();
    assert_eq!(fs::read(mount.path("d/b")).expect("a read"), noise(1, 50_000));
    assert_eq!(fs::read(mount.path("team/c")).expect("a read"), b"c");
}

#[test]
fn files_outside_the_sizes_get_no_hot_copy() {
    let rules = r#"
[[rule]]
path = "**"
home = "blob"
hot = "scratch"
settle = "0s"
min_size = "4KiB"
max_size = "64KiB"
"#;
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    for (name, size) in [("small", 4095), ("least", 4096), ("most", 65_536), ("large", 65_537)] {
        tiers.put_blob(name, &noise(1, size));
    }
    let mount = Mount::of(&tiers).rules(rules).start();
    for name in ["small", "large", "least", "most"] {
        let bytes = fs::read(mount.path(name)).expect("a read");
        assert!(bytes == noise(1, bytes.len()), "{name}");
    }
    wait::until("two hot copies", || tiers.hot_copies().len() == 2);
    let is_hot = |name| mount.tierfs_at(&["path"], &[name]).status.success();
    assert_eq!(["small", "least", "most", "large"].map(is_hot), [false, true, true, false]);
    // What is written leaves its stage in the same way.
    fs::write(mount.path("new"), noise(2, 100_000)).expect("a write");
    fs::write(mount.path("fits"), noise(2, 10_000)).expect("a write");
    mount.flush();
    wait::until("no staged file", || tiers.staged().is_empty());
    assert_eq!(["new", "fits"].map(is_hot), [false, true]);
}
