//! The daemon dies while files go to the cold tier, or come home from it.

use super::rig;
use crate::support::{BOTH, Mode, Mount, Tiers, noise, wait};
use std::fs;

const RULES: &str = r#"
[[rule]]
path = "models/**"
home = "share"
cold = { tier = "blob", idle = "1s" }

[[rule]]
path = "**"
home = "scratch"
"#;

const FILES: u64 = 4;
/// More than one block each.
const SIZE: usize = 5 << 20;

fn name(at: u64) -> String {
    format!("models/deep/f{at}")
}

fn is_cold(tiers: &Tiers, at: u64) -> bool {
    !tiers.share.join(name(at)).exists() && tiers.blob(&name(at)).is_some()
}

fn is_home(tiers: &Tiers, at: u64) -> bool {
    tiers.share.join(name(at)).exists() && tiers.blob(&name(at)).is_none()
}

fn patience(mount: &Mount, from: &str, to: &str) {
    let text = fs::read_to_string(mount.config()).expect("the config");
    assert!(text.contains(from), "{text}");
    fs::write(mount.config(), text.replace(from, to)).expect("a new config");
}

fn crash_at(mount: &mut Mount, point: &str) {
    mount.set_environment("TIERFS_CRASH_AT", point);
}

fn all_there(mount: &Mount) {
    for at in 0..FILES {
        assert!(fs::read(mount.path(&name(at))).expect("a read") == noise(at, SIZE), "{}", name(at));
    }
    assert_eq!(fs::read_dir(mount.path("models/deep")).expect("a list").count() as u64, FILES);
}

fn dies_while_they_go(point: &str, mode: Mode) {
    println!("{point} {mode:?}");
    let tiers = Tiers::with_azurite();
    let mut mount = Mount::of(&tiers).mode(mode).rules(RULES).prepare();
    crash_at(&mut mount, point);
    mount.remount();
    fs::create_dir_all(mount.path("models/deep")).expect("mkdir");
    // It may die before the last of them.
    let write = |mount: &Mount, at| fs::write(mount.path(&name(at)), noise(at, SIZE));
    let written = (0..FILES).take_while(|at| write(&mount, *at).is_ok()).count() as u64;
    assert!(written > 0, "it died too early");
    mount.wait_for_end();
    crash_at(&mut mount, "");
    mount.remount();
    (0..written).for_each(|at| assert!(fs::read(mount.path(&name(at))).expect("a read") == noise(at, SIZE)));
    (written..FILES).for_each(|at| write(&mount, at).expect("a write"));
    for at in 0..FILES {
        wait::until("all files on Blob alone", || is_cold(&tiers, at));
    }
    patience(&mount, "1s", "30d");
    mount.tierfs(&["reload"]);
    all_there(&mount);
    for at in 0..FILES {
        wait::until("all files at home again", || is_home(&tiers, at));
    }
    all_there(&mount);
    rig::flush(&mount);
    rig::check_catalog(&mut mount);
}

fn dies_while_they_return(point: &str, mode: Mode) {
    println!("{point} {mode:?}");
    let tiers = Tiers::with_azurite();
    let mut mount = Mount::of(&tiers).mode(mode).rules(RULES).start();
    fs::create_dir_all(mount.path("models/deep")).expect("mkdir");
    (0..FILES).for_each(|at| fs::write(mount.path(&name(at)), noise(at, SIZE)).expect("a write"));
    for at in 0..FILES {
        wait::until("all files on Blob alone", || is_cold(&tiers, at));
    }
    assert!(mount.unmount().success(), "{}", mount.log());
    patience(&mount, "1s", "30d");
    crash_at(&mut mount, point);
    mount.remount();
    // It may die in the middle of one.
    (0..FILES).for_each(|at| drop(fs::read(mount.path(&name(at)))));
    mount.wait_for_end();
    crash_at(&mut mount, "");
    mount.remount();
    all_there(&mount);
    for at in 0..FILES {
        wait::until("all files at home", || is_home(&tiers, at));
    }
    all_there(&mount);
    rig::flush(&mount);
    rig::check_catalog(&mut mount);
}

#[test]
fn nothing_is_lost_wherever_the_daemon_dies_while_files_go_to_the_cold_tier() {
    let points = [
        "sent_away_not_moved",
        "upload_begun",
        "blocks_sent",
        "commit_begun",
        "committed_not_recorded",
        "doomed_not_deleted:2",
        "delete_sent",
    ];
    points
        .into_iter()
        .zip(BOTH.into_iter().cycle())
        .for_each(|(point, mode)| dies_while_they_go(point, mode));
}

#[test]
fn nothing_is_lost_wherever_the_daemon_dies_while_files_come_home() {
    let points =
        ["upload_begun", "commit_begun:2", "committed_not_recorded", "doomed_not_deleted", "delete_sent:2"];
    points
        .into_iter()
        .zip(BOTH.into_iter().cycle())
        .for_each(|(point, mode)| dies_while_they_return(point, mode));
}
