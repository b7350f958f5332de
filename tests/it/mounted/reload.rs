//! A changed config while mounted: checked whole, then used; files whose home changed move there.

use crate::support::blob_server::BlobServer;
use crate::support::mount::told;
use crate::support::{Mount, Tiers, noise, wait};
use std::fs;

const BEFORE: &str = r#"
[[rule]]
path = "data/**"
home = "scratch"

[[rule]]
path = "**"
home = "blob"
stage = "scratch"
settle = "0s"
"#;

const AFTER: &str = r#"
[[rule]]
path = "data/**"
home = "blob"
stage = "scratch"
settle = "0s"

[[rule]]
path = "**"
home = "blob"
stage = "scratch"
settle = "0s"
"#;

fn edit(mount: &Mount, change: impl Fn(String) -> String) {
    let text = fs::read_to_string(mount.config()).expect("the config");
    fs::write(mount.config(), change(text)).expect("a new config");
}

pub(super) fn edit_rules(mount: &Mount, before: &str, after: &str) {
    edit(mount, |text| {
        assert!(text.contains(before), "{text}");
        text.replace(before, after)
    });
}

#[test]
fn files_whose_home_changed_move_there_and_stay_readable() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let mut mount = Mount::of(&tiers).rules(BEFORE).start();
    fs::create_dir_all(mount.path("data/deep")).expect("mkdir");
    fs::write(mount.path("data/deep/a"), noise(1, 100_000)).expect("a write");
    fs::write(mount.path("data/open"), "written in place").expect("a write");
    // Put there by others, and never looked at here.
    fs::create_dir_all(tiers.scratch.join("data/unseen")).expect("mkdir");
    fs::write(tiers.scratch.join("data/unseen/b"), "theirs").expect("a write");
    let open = fs::OpenOptions::new().append(true).open(mount.path("data/open")).expect("open");
    edit_rules(&mount, BEFORE, AFTER);
    let said = mount.tierfs(&["reload"]);
    assert!(said.contains("in force: [[rule]]") && said.contains("move there"), "{said}");
    // At once, wherever they are.
    assert_eq!(fs::read(mount.path("data/unseen/b")).expect("a read"), b"theirs");
    assert_eq!(fs::read(mount.path("data/deep/a")).expect("a read"), noise(1, 100_000));
    wait::until("the files on Blob", || {
        tiers.blob("data/deep/a").is_some() && tiers.blob("data/unseen/b").is_some()
    });
    wait::until("nothing of them on scratch", || {
        !tiers.scratch.join("data/deep").exists() && !tiers.scratch.join("data/unseen").exists()
    });
    // Who writes in place goes on writing there.
    assert!(tiers.blob("data/open").is_none() && tiers.scratch.join("data/open").exists());
    drop(open);
    assert_eq!(fs::read(mount.path("data/deep/a")).expect("a read"), noise(1, 100_000));
    assert_eq!(fs::read(mount.path("data/unseen/b")).expect("a read"), b"theirs");
    // What is written now goes to the new home.
    fs::write(mount.path("data/new"), "new").expect("a write");
    mount.flush();
    assert!(tiers.blob("data/new").is_some(), "{:?}", tiers.blob_names());
    wait::until("the last file on Blob", || tiers.blob("data/open").is_some());
    assert!(mount.unmount().success(), "{}", mount.log());
    mount.lose_catalog();
    mount.remount();
    assert_eq!(fs::read(mount.path("data/deep/a")).expect("a read"), noise(1, 100_000));
    assert_eq!(fs::read(mount.path("data/open")).expect("a read"), b"written in place");
}

#[test]
fn a_walk_that_a_crash_cut_short_goes_on() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let mut mount = Mount::of(&tiers).rules(BEFORE).start();
    fs::create_dir(mount.path("data")).expect("mkdir");
    for at in 0..40 {
        fs::write(mount.path(&format!("data/f{at}")), noise(at, 10_000)).expect("a write");
    }
    edit_rules(&mount, BEFORE, AFTER);
    mount.tierfs(&["reload"]);
    mount.kill9();
    mount.remount();
    wait::until("all files on Blob", || (0..40).all(|at| tiers.blob(&format!("data/f{at}")).is_some()));
    wait::until("none of them on scratch", || {
        (0..40).all(|at| !tiers.scratch.join(format!("data/f{at}")).exists())
    });
    for at in 0..40 {
        assert!(fs::read(mount.path(&format!("data/f{at}"))).expect("a read") == noise(at, 10_000), "f{at}");
    }
}

#[test]
fn files_come_from_blob_to_a_directory_and_a_config_changed_between_mounts_counts_too() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let mut mount = Mount::of(&tiers).rules(AFTER).start();
    fs::create_dir(mount.path("data")).expect("mkdir");
    fs::write(mount.path("data/a"), noise(1, 50_000)).expect("a write");
    assert!(mount.unmount().success(), "{}", mount.log());
    tiers.put_blob("data/unseen/b", b"theirs");
    edit_rules(&mount, AFTER, BEFORE);
    mount.remount();
    assert_eq!(fs::read(mount.path("data/unseen/b")).expect("a read"), b"theirs");
    wait::until("the files on scratch", || {
        fs::read(tiers.scratch.join("data/a")).is_ok_and(|bytes| bytes == noise(1, 50_000))
            && fs::read(tiers.scratch.join("data/unseen/b")).is_ok_and(|bytes| bytes == b"theirs")
    });
    wait::until("none of them on Blob", || {
        !tiers.blob_file_names().iter().any(|name| name.starts_with("data/"))
    });
    assert_eq!(fs::read(mount.path("data/a")).expect("a read"), noise(1, 50_000));
}

#[test]
fn what_is_wrong_changes_nothing_and_what_needs_a_new_mount_is_named() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let mount = Mount::of(&tiers).rules(BEFORE).start();
    fs::create_dir(mount.path("data")).expect("mkdir");
    assert_eq!(mount.tierfs(&["reload"]).trim(), "nothing in the config has changed");
    let good = fs::read_to_string(mount.config()).expect("the config");
    edit_rules(&mount, "home = \"scratch\"", "home = \"scratsh\"");
    let refused = mount.try_tierfs(&["reload"]);
    assert_eq!(refused.status.code(), Some(2), "{}", told(&refused));
    assert!(told(&refused).contains("\"scratsh\""), "{}", told(&refused));
    fs::write(mount.path("data/a"), "a").expect("a write");
    assert!(tiers.scratch.join("data/a").exists());

    // A tier that was not there when it was mounted.
    fs::write(mount.config(), format!("{good}\n").replace("[tier.share]", "[tier.other]")).expect("a config");
    let refused = mount.try_tierfs(&["reload"]);
    assert!(told(&refused).contains("tier share is not in the config any more"), "{}", told(&refused));
    assert!(told(&refused).contains("unmount and mount again"), "{}", told(&refused));

    let changed = good.replace("[mount]\n", "[mount]\nmemory = \"128MiB\"\ndrain_timeout = \"1m\"\n");
    fs::write(mount.config(), changed).expect("a config");
    for _ in 0..2 {
        let said = mount.tierfs(&["reload"]);
        assert!(said.contains("unmount and mount again: [mount] memory\n"), "{said}");
        assert!(!said.contains("[[rule]]"), "{said}");
    }
}

#[test]
fn sighup_reloads_too() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let mount = Mount::of(&tiers).rules(BEFORE).start();
    fs::create_dir(mount.path("data")).expect("mkdir");
    edit_rules(&mount, "home = \"scratch\"", "home = \"nowhere\"");
    mount.hang_up();
    wait::until("the refusal", || mount.log().contains("the config was not reloaded"));
    edit(&mount, |text| text.replace("home = \"nowhere\"", "home = \"share\""));
    mount.hang_up();
    wait::until("the new config", || mount.log().contains("the config was reloaded"));
    fs::write(mount.path("data/a"), "a").expect("a write");
    assert!(tiers.share.join("data/a").exists(), "{}", mount.log());
}
