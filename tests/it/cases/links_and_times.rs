//! Symlinks and times come back as they were.

use super::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

/// C190
#[test]
fn symlinks_come_back_as_links() {
    on_both(|tiers| {
        let mut mount = Mount::of(tiers).start();
        fs::create_dir_all(mount.path("blob/models/blobs")).expect("mkdir");
        fs::create_dir_all(mount.path("blob/models/snapshots/rev")).expect("mkdir");
        fs::write(mount.path("blob/models/blobs/abc"), "weights").expect("a write");
        let long = format!("{}é", "x/".repeat(499));
        let links = [
            ("rel", "models/blobs/abc"),
            ("abs", "/etc/hostname"),
            ("dangling", "no/such/file"),
            ("dir", "models"),
            ("long", long.as_str()),
            ("models/snapshots/rev/model.bin", "../../blobs/abc"),
        ];
        for (name, target) in links {
            symlink(target, mount.path(&format!("blob/{name}"))).expect("symlink");
        }
        mount.flush();
        let check = |mount: &Mount| {
            for (name, target) in links {
                let path = mount.path(&format!("blob/{name}"));
                assert_eq!(fs::read_link(&path).expect("readlink"), PathBuf::from(target));
                let stat = fs::symlink_metadata(&path).expect("lstat");
                assert!(stat.is_symlink() && stat.size() == target.len() as u64, "{name}: {stat:?}");
            }
            let listed = fs::read_dir(mount.path("blob")).expect("a directory").count();
            assert_eq!(listed, 6, "the dangling one is listed too");
            let read = |name: &str| fs::read_to_string(mount.path(&format!("blob/{name}"))).expect("a read");
            assert_eq!(
                (read("rel"), read("models/snapshots/rev/model.bin")),
                ("weights".into(), "weights".into())
            );
        };
        check(&mount);
        without_catalog(&mut mount);
        check(&mount);
        let copied = std::process::Command::new("cp")
            .arg("-a")
            .args([mount.path("blob/models"), mount.path("blob/copy")])
            .status();
        assert!(copied.expect("cp").success());
        assert_eq!(
            fs::read_link(mount.path("blob/copy/snapshots/rev/model.bin")).expect("readlink"),
            PathBuf::from("../../blobs/abc")
        );
    });
}

/// C200
#[test]
fn a_modification_time_stays_to_the_nanosecond() {
    on_both(|tiers| {
        let mut mount = Mount::of(tiers).start();
        let time = UNIX_EPOCH + Duration::new(1_580_608_922, 123_456_789);
        let source = tiers.workspace().join("source");
        fs::write(&source, "old").expect("a write");
        fs::File::options().write(true).open(&source).and_then(|f| f.set_modified(time)).expect("utimens");
        for directory in ["blob", "share"] {
            fs::create_dir(mount.path(directory)).expect("mkdir");
        }
        let copied =
            std::process::Command::new("cp").arg("-p").arg(&source).arg(mount.path("blob/f")).status();
        assert!(copied.expect("cp").success());
        let mtime = |mount: &Mount, name: &str| {
            fs::metadata(mount.path(name)).expect("stat").modified().expect("a time")
        };
        assert_eq!(mtime(&mount, "blob/f"), time, "at once");
        mount.flush();
        assert_eq!(mtime(&mount, "blob/f"), time, "after upload");
        mount.unmount();
        mount.remount();
        assert_eq!(mtime(&mount, "blob/f"), time, "after remount");
        without_catalog(&mut mount);
        assert_eq!(mtime(&mount, "blob/f"), time, "without the catalog");
        for (from, to) in [("blob/f", "share/f"), ("share/f", "blob/g")] {
            fs::rename(mount.path(from), mount.path(to)).expect("a rename");
            mount.flush();
            assert_eq!(mtime(&mount, to), time, "after migration to {to}");
        }
        assert_eq!(tiers.expect_blob("blob/g"), b"old");
        without_catalog(&mut mount);
        assert_eq!(mtime(&mount, "blob/g"), time, "after migration and loss of the catalog");
    });
}
