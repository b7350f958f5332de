//! New files go elsewhere while their home is too full, and come home when there is room.

use crate::support::blob_server::BlobServer;
use crate::support::mount::told;
use crate::support::{BOTH, Mode, Mount, Over, Tiers, noise, wait};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};

const MIB: usize = 1 << 20;

/// New files of the share go to scratch, or to Blob by way of scratch.
fn rules(overflow: &str) -> String {
    format!(
        r#"
[[rule]]
path = "models/**"
home = "share"
overflow = "{overflow}"

[[rule]]
path = "**"
home = "scratch"
"#
    )
}

fn start(tiers: &Tiers, overflow: &str, mode: Mode) -> Mount {
    let mount = Mount::of(tiers).mode(mode).rules(&rules(overflow));
    mount.share_key("high_water = \"60%\"\nlow_water = \"40%\"").start()
}

/// Where the file is: on the share, and elsewhere.
fn is_on_share(tiers: &Tiers, name: &str) -> bool {
    tiers.share.join(name).exists()
}

/// Makes the share too full, and waits until that is known: new files go elsewhere.
fn fill(mount: &Mount, tiers: &Tiers) {
    fs::write(mount.path("models/big"), noise(1, 7 * MIB)).expect("a write");
    let mut at = 0;
    wait::until("a new file to go elsewhere", || {
        at += 1;
        let name = format!("models/probe{at}");
        fs::write(mount.path(&name), "probe").expect("a write");
        let is_here = is_on_share(tiers, &name);
        fs::remove_file(mount.path(&name)).expect("unlink");
        !is_here
    });
}

#[test]
fn new_files_go_to_another_directory_while_home_is_full_and_come_home_later() {
    for mode in BOTH {
        let server = BlobServer::start();
        let tiers = Tiers::with_server(&server);
        let _share = Over::small(&tiers.share, "10m");
        let mut mount = start(&tiers, "scratch", mode);
        fs::create_dir_all(mount.path("models/d")).expect("mkdir");
        fill(&mount, &tiers);
        let bytes = noise(2, MIB);
        fs::write(mount.path("models/d/new"), &bytes).expect("a write");
        assert!(!is_on_share(&tiers, "models/d/new"));
        assert_eq!(fs::read(tiers.scratch.join("models/d/new")).expect("native"), bytes);
        let said = told(&mount.tierfs_at(&["explain"], &["models/d/new"]));
        assert!(said.contains("over its high water"), "{said}");

        // It is a file as any other: written in place, renamed, linked, read again after a crash.
        let mut file = File::options().read(true).write(true).open(mount.path("models/d/new")).expect("open");
        file.seek(SeekFrom::Start(10)).expect("a seek");
        file.write_all(b"changed").expect("a write");
        let mut expected = bytes;
        expected[10..17].copy_from_slice(b"changed");
        let mut found = Vec::new();
        file.rewind().expect("a seek");
        file.read_to_end(&mut found).expect("a read");
        assert!(found == expected, "{mode:?}");
        drop(file);
        fs::rename(mount.path("models/d/new"), mount.path("models/d/renamed")).expect("a rename");
        assert_eq!(fs::read(tiers.scratch.join("models/d/renamed")).expect("native"), expected);
        mount.kill9();
        mount.remount();
        assert!(fs::read(mount.path("models/d/renamed")).expect("a read") == expected);
        assert!(!is_on_share(&tiers, "models/d/renamed"));

        fs::remove_file(mount.path("models/big")).expect("unlink");
        wait::until("the file at home", || {
            is_on_share(&tiers, "models/d/renamed") && !tiers.scratch.join("models/d/renamed").exists()
        });
        assert!(fs::read(mount.path("models/d/renamed")).expect("a read") == expected);
        fs::write(mount.path("models/later"), "later").expect("a write");
        assert!(is_on_share(&tiers, "models/later"), "there is room again");
        mount.flush();
    }
}

#[test]
fn new_files_go_to_blob_while_home_is_full_and_are_found_there_without_the_catalog() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let _share = Over::small(&tiers.share, "10m");
    let mut mount = start(&tiers, "blob", Mode::Ordinary);
    fs::create_dir_all(mount.path("models")).expect("mkdir");
    fill(&mount, &tiers);
    let bytes = noise(2, MIB);
    fs::write(mount.path("models/new"), &bytes).expect("a write");
    mount.flush();
    assert!(!is_on_share(&tiers, "models/new") && tiers.expect_blob("models/new") == bytes);
    assert!(fs::read(mount.path("models/new")).expect("a read") == bytes);
    let mut file = File::options().append(true).open(mount.path("models/new")).expect("open");
    file.write_all(b"more").expect("a write");
    drop(file);
    mount.flush();
    let bytes = [&bytes[..], b"more"].concat();
    assert!(tiers.expect_blob("models/new") == bytes, "it stays where it is while it is written");
    assert!(mount.unmount().success(), "{}", mount.log());
    mount.lose_catalog();
    mount.remount();
    assert!(fs::read(mount.path("models/new")).expect("a read") == bytes);
    assert!(!is_on_share(&tiers, "models/new"));
    fs::remove_file(mount.path("models/big")).expect("unlink");
    wait::until("the file at home", || {
        is_on_share(&tiers, "models/new") && tiers.blob("models/new").is_none()
    });
    assert!(fs::read(mount.path("models/new")).expect("a read") == bytes);
}

#[test]
fn a_home_without_any_room_makes_new_files_elsewhere_at_once() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let share = Over::small(&tiers.share, "10m");
    let mount = start(&tiers, "scratch", Mode::Ordinary);
    fs::create_dir_all(mount.path("models")).expect("mkdir");
    fs::write(mount.path("models/first"), "first").expect("a write");
    // All of it at once, so that nobody can have looked in between.
    let ballast = share.fill();
    let made = fs::write(mount.path("models/second"), "second");
    // A name may still have found room where its bytes did not.
    if made.is_err() {
        drop(fs::remove_file(mount.path("models/second")));
    }
    wait::until("new files elsewhere", || {
        fs::write(mount.path("models/third"), "third").is_ok()
            && fs::read(mount.path("models/third")).is_ok_and(|bytes| bytes == b"third")
    });
    drop(ballast);
    wait::until("the file at home", || is_on_share(&tiers, "models/third"));
    assert_eq!(fs::read(mount.path("models/third")).expect("a read"), b"third");
}
