//! The daemon dies while files that their home has no room for are made elsewhere, or come home.

use super::rig;
use crate::support::{BOTH, Mode, Mount, Over, Tiers, noise, wait};
use std::fs;

const FILES: u64 = 4;
/// More than one block each.
const SIZE: usize = 5 << 20;
/// Above the high water of the share, and all files below its low water.
const BIG: usize = 32 << 20;

/// Where new files go meanwhile.
#[derive(Clone, Copy, Debug)]
enum Overflow {
    Scratch,
    Blob,
}

fn rules(overflow: Overflow) -> String {
    let tier = match overflow {
        Overflow::Scratch => "scratch",
        Overflow::Blob => "blob",
    };
    format!(
        "[[rule]]\npath = \"models/**\"\nhome = \"share\"\noverflow = \"{tier}\"\n\n\
         [[rule]]\npath = \"**\"\nhome = \"scratch\"\n"
    )
}

fn name(at: u64) -> String {
    format!("models/deep/f{at}")
}

fn is_elsewhere(tiers: &Tiers, at: u64) -> bool {
    tiers.scratch.join(name(at)).exists() || tiers.blob(&name(at)).is_some()
}

fn write(mount: &Mount, at: u64) -> std::io::Result<()> {
    fs::write(mount.path(&name(at)), noise(at, SIZE))
}

fn all_there(mount: &Mount) {
    for at in 0..FILES {
        assert!(fs::read(mount.path(&name(at))).expect("a read") == noise(at, SIZE), "{}", name(at));
    }
    assert_eq!(fs::read_dir(mount.path("models/deep")).expect("a list").count() as u64, FILES);
}

fn wait_until_full(mount: &Mount) {
    wait::until("the share to be too full", || {
        mount.tierfs(&["plan"]).contains("overflow: share is too full")
    });
}

/// A share that is too full, with nothing else on it.
fn start(tiers: &Tiers, overflow: Overflow, mode: Mode) -> Mount {
    let marks = "high_water = \"60%\"\nlow_water = \"50%\"";
    let mount = Mount::of(tiers).mode(mode).rules(&rules(overflow)).share_key(marks).start();
    fs::create_dir_all(mount.path("models/deep")).expect("mkdir");
    fs::write(mount.path("models/big"), noise(99, BIG)).expect("a write");
    wait_until_full(&mount);
    mount
}

fn remount_to_die(mount: &mut Mount, point: &str) {
    assert!(mount.unmount().success(), "{}", mount.log());
    mount.set_environment("TIERFS_CRASH_AT", point);
    mount.remount();
    mount.set_environment("TIERFS_CRASH_AT", "");
}

fn all_come_home(tiers: &Tiers, mount: &mut Mount) {
    let is_home = |at| tiers.share.join(name(at)).exists() && !is_elsewhere(tiers, at);
    (0..FILES).for_each(|at| wait::until("all files at home", || is_home(at)));
    all_there(mount);
    rig::flush(mount);
    rig::check_catalog(mount);
}

fn dies_while_they_are_made(point: &str, overflow: Overflow, mode: Mode) {
    println!("{point} {overflow:?} {mode:?}");
    let tiers = Tiers::with_azurite();
    let _share = Over::small(&tiers.share, "48m");
    let mut mount = start(&tiers, overflow, mode);
    remount_to_die(&mut mount, point);
    wait_until_full(&mount);
    let written = (0..FILES).take_while(|at| write(&mount, *at).is_ok()).count() as u64;
    mount.wait_for_end();
    mount.remount();
    (0..written).for_each(|at| assert!(fs::read(mount.path(&name(at))).expect("a read") == noise(at, SIZE)));
    wait_until_full(&mount);
    (written..FILES).for_each(|at| write(&mount, at).expect("a write"));
    rig::flush(&mount);
    (0..FILES).for_each(|at| assert!(is_elsewhere(&tiers, at), "{}", name(at)));
    all_there(&mount);
    fs::remove_file(mount.path("models/big")).expect("unlink");
    all_come_home(&tiers, &mut mount);
}

fn dies_while_they_return(point: &str, overflow: Overflow, mode: Mode) {
    println!("{point} {overflow:?} {mode:?}");
    let tiers = Tiers::with_azurite();
    let _share = Over::small(&tiers.share, "48m");
    let mut mount = start(&tiers, overflow, mode);
    (0..FILES).for_each(|at| write(&mount, at).expect("a write"));
    rig::flush(&mount);
    (0..FILES).for_each(|at| assert!(is_elsewhere(&tiers, at), "{}", name(at)));
    remount_to_die(&mut mount, point);
    fs::remove_file(mount.path("models/big")).expect("unlink");
    mount.wait_for_end();
    mount.remount();
    all_there(&mount);
    all_come_home(&tiers, &mut mount);
}

#[test]
fn nothing_is_lost_wherever_the_daemon_dies_while_files_are_made_elsewhere() {
    let points = [
        ("native_file_made:2", Overflow::Scratch),
        ("dirty_row_written:2", Overflow::Blob),
        ("committed_not_recorded:2", Overflow::Blob),
    ];
    points
        .into_iter()
        .zip(BOTH.into_iter().cycle())
        .for_each(|((point, overflow), mode)| dies_while_they_are_made(point, overflow, mode));
}

#[test]
fn nothing_is_lost_wherever_the_daemon_dies_while_they_come_home() {
    let points =
        ["upload_begun", "commit_begun:2", "committed_not_recorded", "doomed_not_deleted", "delete_sent:2"];
    for (at, (point, mode)) in points.into_iter().zip(BOTH.into_iter().cycle()).enumerate() {
        let overflow = if at % 3 == 0 { Overflow::Scratch } else { Overflow::Blob };
        dies_while_they_return(point, overflow, mode);
    }
}
