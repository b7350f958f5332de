//! New files go elsewhere while their home is too full, and come home when there is room.

use crate::support::blob_server::BlobServer;
use crate::support::mount::told;
use crate::support::{BOTH, Mode, Mount, Over, Tiers, noise, wait};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};

const MIB: usize = 1 << 20;

/// Of the 10 MiB that the share has.
const MARKS: &str = "high_water = \"60%\"\nlow_water = \"40%\"";

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
    let mount = Mount::of(tiers).mode(mode).rules(&rules(overflow)).share_key(MARKS).start();
    fs::create_dir_all(mount.path("models/d")).expect("mkdir");
    mount
}

/// Whether the file is natively at home.
fn is_home(tiers: &Tiers, name: &str) -> bool {
    tiers.share.join(name).exists()
}

fn is_full(mount: &Mount) -> bool {
    mount.tierfs(&["plan"]).contains("overflow: share is too full")
}

/// Makes the share too full, and waits until that is known.
fn fill(mount: &Mount) {
    fs::write(mount.path("models/big"), noise(1, 7 * MIB)).expect("a write");
    wait::until("the share to be too full", || is_full(mount));
}

fn make_room(mount: &Mount) {
    fs::remove_file(mount.path("models/big")).expect("unlink");
}

fn edit(mount: &Mount, before: &str, after: &str) {
    super::reload::edit_rules(mount, before, after);
    mount.tierfs(&["reload"]);
}

#[test]
fn new_files_go_to_another_directory_while_home_is_full_and_come_home_later() {
    for mode in BOTH {
        let server = BlobServer::start();
        let tiers = Tiers::with_server(&server);
        let _share = Over::small(&tiers.share, "10m");
        let mut mount = start(&tiers, "scratch", mode);
        fill(&mount);
        let bytes = noise(2, MIB);
        fs::write(mount.path("models/d/new"), &bytes).expect("a write");
        assert!(!is_home(&tiers, "models/d/new"));
        assert_eq!(fs::read(tiers.scratch.join("models/d/new")).expect("native"), bytes);
        let said = told(&mount.tierfs_at(&["explain"], &["models/d/new"]));
        assert!(said.contains("over its high water"), "{said}");
        assert_eq!(mount.status()["overflowing"], serde_json::json!(["share"]));
        let summary = mount.tierstat(&[]);
        assert!(summary.contains("share over high water: new files go elsewhere"), "{summary}");
        let plan = mount.tierfs(&["plan"]);
        assert!(plan.contains("overflow: 1 file, 1.0 MiB, for which there was no room at home"), "{plan}");

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
        fs::hard_link(mount.path("models/d/renamed"), mount.path("models/linked")).expect("a link");
        assert_eq!(fs::read(tiers.scratch.join("models/d/renamed")).expect("native"), expected);
        mount.kill9();
        mount.remount();
        assert!(fs::read(mount.path("models/d/renamed")).expect("a read") == expected);
        assert!(fs::read(mount.path("models/linked")).expect("a read") == expected);
        assert!(!is_home(&tiers, "models/d/renamed") && !is_home(&tiers, "models/linked"));

        make_room(&mount);
        for name in ["models/d/renamed", "models/linked"] {
            wait::until("the file at home", || is_home(&tiers, name) && !tiers.scratch.join(name).exists());
            assert!(fs::read(mount.path(name)).expect("a read") == expected);
        }
        wait::until("room to be known", || !is_full(&mount));
        fs::write(mount.path("models/later"), "later").expect("a write");
        assert!(is_home(&tiers, "models/later"), "there is room again");
        mount.flush();
    }
}

#[test]
fn new_files_go_to_blob_while_home_is_full_and_are_found_there_without_the_catalog() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let _share = Over::small(&tiers.share, "10m");
    let mut mount = start(&tiers, "blob", Mode::Ordinary);
    fill(&mount);
    let bytes = noise(2, MIB);
    fs::write(mount.path("models/new"), &bytes).expect("a write");
    fs::write(mount.path("models/half.tmp"), "half").expect("a write");
    mount.flush_path("models/new");
    assert!(!is_home(&tiers, "models/new") && tiers.expect_blob("models/new") == bytes);
    assert!(tiers.blob("models/half.tmp").is_none(), "held until it is renamed");
    fs::rename(mount.path("models/half.tmp"), mount.path("models/half")).expect("a rename");
    assert!(fs::read(mount.path("models/new")).expect("a read") == bytes);
    let mut file = File::options().append(true).open(mount.path("models/new")).expect("open");
    file.write_all(b"more").expect("a write");
    drop(file);
    mount.flush();
    let bytes = [&bytes[..], b"more"].concat();
    assert!(tiers.expect_blob("models/new") == bytes, "it stays where it is while it is written");
    assert_eq!(tiers.expect_blob("models/half"), b"half");
    assert!(mount.unmount().success(), "{}", mount.log());
    mount.lose_catalog();
    mount.remount();
    let mut listed: Vec<_> = fs::read_dir(mount.path("models"))
        .expect("a list")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    listed.sort();
    assert_eq!(listed, ["big", "d", "half", "new"]);
    assert!(fs::read(mount.path("models/new")).expect("a read") == bytes);
    assert!(!is_home(&tiers, "models/new"));
    make_room(&mount);
    for name in ["models/new", "models/half"] {
        wait::until("the file at home", || is_home(&tiers, name) && tiers.blob(name).is_none());
    }
    assert!(fs::read(mount.path("models/new")).expect("a read") == bytes);
}

#[test]
fn a_home_without_any_room_makes_new_files_elsewhere_and_tears_no_old_ones() {
    for mode in BOTH {
        let server = BlobServer::start();
        let tiers = Tiers::with_server(&server);
        let share = Over::small(&tiers.share, "10m");
        let mount = start(&tiers, "scratch", mode);
        let mut expected = noise(1, 100_000);
        fs::write(mount.path("models/old"), &expected).expect("a write");
        // All of it at once, so that nobody can have looked in between.
        let ballast = share.fill();
        // A file at home has no other place to go in the middle of it.
        let mut old = File::options().append(true).open(mount.path("models/old")).expect("open");
        let refused = loop {
            match old.write(&[b'+'; 1 << 16]) {
                Ok(count) => expected.extend(vec![b'+'; count]),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), ErrorKind::StorageFull, "{mode:?}");
        drop(old);
        assert!(fs::read(mount.path("models/old")).expect("a read") == expected, "{mode:?}");
        // What was made at home a moment ago, and found no room, begins anew elsewhere.
        let new = noise(2, MIB);
        wait::until("a new file elsewhere", || fs::write(mount.path("models/new"), &new).is_ok());
        fs::create_dir(mount.path("models/made")).expect("mkdir");
        fs::write(mount.path("models/made/f"), &new).expect("a write");
        mount.flush();
        assert!(fs::read(tiers.scratch.join("models/new")).expect("native") == new, "{mode:?}");
        assert!(fs::read(mount.path("models/new")).expect("a read") == new, "{mode:?}");
        assert!(!is_home(&tiers, "models/new"));
        drop(ballast);
        for name in ["models/new", "models/made/f"] {
            wait::until("the file at home", || is_home(&tiers, name) && !tiers.scratch.join(name).exists());
            assert!(fs::read(mount.path(name)).expect("a read") == new, "{mode:?}");
        }
        assert!(fs::read(mount.path("models/old")).expect("a read") == expected, "{mode:?}");
    }
}

#[test]
fn a_file_that_is_renamed_to_a_home_without_room_goes_where_its_new_files_go() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let share = Over::small(&tiers.share, "10m");
    let mount = start(&tiers, "blob", Mode::Ordinary);
    let bytes = noise(1, MIB);
    fs::write(mount.path("x"), &bytes).expect("a write");
    let ballast = share.fill();
    fs::rename(mount.path("x"), mount.path("models/x")).expect("a rename");
    mount.flush();
    assert!(tiers.expect_blob("models/x") == bytes && !is_home(&tiers, "models/x"));
    assert!(fs::read(mount.path("models/x")).expect("a read") == bytes);
    drop(ballast);
    wait::until("the file at home", || is_home(&tiers, "models/x") && tiers.blob("models/x").is_none());
    assert!(fs::read(mount.path("models/x")).expect("a read") == bytes);
    mount.flush();
}

#[test]
fn the_capacity_of_a_home_counts_and_marks_and_rules_are_reloaded() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let mount = Mount::of(&tiers).rules(&rules("scratch")).share_key(MARKS);
    let mount = mount.share_key("capacity = \"10MiB\"").start();
    fs::create_dir_all(mount.path("models/d")).expect("mkdir");
    fill(&mount);
    for name in ["models/a", "models/d/b"] {
        fs::write(mount.path(name), noise(2, 100_000)).expect("a write");
        assert!(!is_home(&tiers, name) && tiers.scratch.join(name).exists());
    }
    // 7 of 10 MiB are below these marks.
    edit(&mount, MARKS, "high_water = \"90%\"\nlow_water = \"80%\"");
    wait::until("the file at home", || is_home(&tiers, "models/a") && is_home(&tiers, "models/d/b"));
    edit(&mount, "high_water = \"90%\"\nlow_water = \"80%\"", MARKS);
    wait::until("the share to be too full", || is_full(&mount));
    fs::write(mount.path("models/c"), noise(3, 100_000)).expect("a write");
    assert!(!is_home(&tiers, "models/c"));
    // Without the key they all come home, full or not.
    edit(&mount, "overflow = \"scratch\"", "");
    wait::until("the file at home", || {
        is_home(&tiers, "models/c") && !tiers.scratch.join("models/c").exists()
    });
    assert!(fs::read(mount.path("models/c")).expect("a read") == noise(3, 100_000));
    fs::write(mount.path("models/e"), "at home").expect("a write");
    assert!(is_home(&tiers, "models/e"));
    edit(&mount, "home = \"share\"", "home = \"share\"\noverflow = \"blob\"");
    wait::until("the share to be too full", || is_full(&mount));
    fs::write(mount.path("models/g"), "on Blob").expect("a write");
    mount.flush();
    assert_eq!(tiers.expect_blob("models/g"), b"on Blob");
}

#[test]
fn new_files_are_made_at_a_full_home_while_the_overflow_is_away() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let _share = Over::small(&tiers.share, "10m");
    let mount = start(&tiers, "scratch", Mode::Passthrough);
    fill(&mount);
    fs::write(mount.path("models/d/there"), "elsewhere").expect("a write");
    assert!(!is_home(&tiers, "models/d/there"));
    {
        let _empty = Over::tmpfs(&tiers.scratch);
        wait::until("scratch to be found absent", || fs::read(mount.path("models/d/there")).is_err());
        fs::write(mount.path("models/d/here"), "at home").expect("there is room for it at home");
        assert!(is_home(&tiers, "models/d/here"));
        assert_eq!(fs::read_dir(&tiers.scratch).expect("the tmpfs").count(), 0, "nothing is written there");
        make_room(&mount);
    }
    wait::until("the file to be home", || is_home(&tiers, "models/d/there"));
    assert_eq!(fs::read(mount.path("models/d/there")).expect("a read"), b"elsewhere");
    assert_eq!(fs::read(mount.path("models/d/here")).expect("a read"), b"at home");
    assert!(!tiers.scratch.join("models/d/there").exists());
}
