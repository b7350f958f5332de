//! Renames across rules and tiers: one answer at once, one copy in the end.

use crate::support::{Mode, Mount, Tiers, noise};
use std::fs;

const RULES: &str = r#"
[[rule]]
path = "archive/**"
home = "blob"
stage = "scratch"
settle = "0s"

[[rule]]
path = "share/**"
home = "share"

[[rule]]
path = "**"
home = "scratch"
"#;

fn copies(tiers: &Tiers, name: &str) -> usize {
    let everywhere = [tiers.blob_file_names(), tiers.scratch_names(), tiers.share_names()].concat();
    everywhere.iter().filter(|path| path.rsplit('/').next() == Some(name)).count()
}

#[test]
fn rename_is_atomic() {
    for mode in [Mode::Passthrough, Mode::Ordinary] {
        let tiers = Tiers::with_azurite();
        let mount = Mount::of(&tiers).mode(mode).rules(RULES).start();
        let bytes = noise(1, 16 << 20);
        for directory in ["archive", "scratch", "share"] {
            fs::create_dir(mount.path(directory)).expect("mkdir");
        }
        fs::write(mount.path("scratch/c.pt"), &bytes).expect("a write");
        for (from, to) in [
            ("scratch/c.pt", "archive/c.pt"),
            ("archive/c.pt", "share/c.pt"),
            ("share/c.pt", "scratch/c.pt"),
            ("scratch/c.pt", "archive/c.pt"),
        ] {
            fs::rename(mount.path(from), mount.path(to)).expect("never EXDEV");
            assert!(!mount.path(from).exists());
            assert!(fs::read(mount.path(to)).expect("a read") == bytes, "{to} at once");
            mount.flush();
            assert!(fs::read(mount.path(to)).expect("a read") == bytes, "{to} after the move");
            assert_eq!(copies(&tiers, "c.pt"), 1, "after {from} → {to}");
        }
        assert!(tiers.expect_blob("archive/c.pt") == bytes);
    }
}

#[test]
fn a_directory_moves_between_tiers_with_all_in_it() {
    let tiers = Tiers::with_azurite();
    let mount = Mount::of(&tiers).rules(RULES).start();
    fs::create_dir_all(mount.path("run/deep/er")).expect("mkdir");
    fs::create_dir(mount.path("archive")).expect("mkdir");
    let names: Vec<String> =
        (0..20).map(|i| format!("{}f{i}", if i % 2 == 0 { "" } else { "deep/er/" })).collect();
    for name in &names {
        fs::write(mount.path("run").join(name), name).expect("a write");
    }
    fs::rename(mount.path("run"), mount.path("archive/run")).expect("rename");
    for name in &names {
        assert_eq!(fs::read_to_string(mount.path("archive/run").join(name)).expect("a read"), *name);
    }
    mount.flush();
    let mut expected: Vec<String> = names.iter().map(|name| format!("archive/run/{name}")).collect();
    expected.sort();
    assert_eq!(tiers.blob_file_names(), expected);
    assert_eq!(tiers.scratch_names(), Vec::<String>::new());
    fs::rename(mount.path("archive/run"), mount.path("back")).expect("rename");
    mount.flush();
    assert_eq!(tiers.blob_file_names(), Vec::<String>::new());
    for name in &names {
        assert_eq!(fs::read_to_string(tiers.scratch.join("back").join(name)).expect("a native file"), *name);
    }
}

#[test]
fn a_directory_nobody_listed_comes_along() {
    let tiers = Tiers::with_azurite();
    for i in 0..5 {
        tiers.put_blob(&format!("archive/old/d{i}/f"), format!("{i}").as_bytes());
    }
    let mount = Mount::of(&tiers).rules(RULES).start();
    fs::rename(mount.path("archive/old"), mount.path("archive/new")).expect("rename");
    assert_eq!(fs::read(mount.path("archive/new/d3/f")).expect("a read"), b"3");
    assert!(!mount.path("archive/old").exists());
    mount.flush();
    assert_eq!(tiers.blob_file_names(), (0..5).map(|i| format!("archive/new/d{i}/f")).collect::<Vec<_>>());
}

#[test]
fn a_kill_in_the_middle_of_a_move_leaves_the_file() {
    let tiers = Tiers::with_azurite();
    let mut mount = Mount::of(&tiers).rules(RULES).start();
    fs::create_dir(mount.path("archive")).expect("mkdir");
    fs::create_dir(mount.path("dir")).expect("mkdir");
    let bytes = noise(9, 32 << 20);
    fs::write(mount.path("c.pt"), &bytes).expect("a write");
    for i in 0..20 {
        fs::write(mount.path(&format!("dir/f{i}")), format!("{i}")).expect("a write");
    }
    fs::rename(mount.path("c.pt"), mount.path("archive/c.pt")).expect("rename");
    fs::rename(mount.path("dir"), mount.path("archive/dir")).expect("rename");
    mount.kill9();
    mount.remount();
    assert!(fs::read(mount.path("archive/c.pt")).expect("a read") == bytes);
    assert!(!mount.path("c.pt").exists() && !mount.path("dir").exists());
    mount.flush();
    assert!(tiers.expect_blob("archive/c.pt") == bytes);
    assert_eq!((tiers.blob_file_names().len(), tiers.scratch_names().len()), (21, 0));
}

#[test]
fn odd_names_are_renamed_at_home() {
    let tiers = Tiers::with_azurite();
    let mount = Mount::of(&tiers).rules(RULES).start();
    fs::create_dir(mount.path("archive")).expect("mkdir");
    for odd in
        ["#", "%", "?", "&", "+", " ", "'", "(", ")", "[", "]", "{", "}", ";", "=", ",", "~", "é", "漢", "🦀"]
    {
        let from = mount.path(&format!("archive/foo{odd}bar.txt"));
        fs::write(&from, "foo\n").expect("a write");
        mount.flush();
        fs::rename(&from, mount.path("archive/bar.txt")).expect("rename");
        mount.flush();
        assert_eq!(tiers.blob_file_names(), ["archive/bar.txt"], "{odd}");
        assert_eq!(tiers.expect_blob("archive/bar.txt"), b"foo\n");
    }
}
