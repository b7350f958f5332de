//! The catalog is a convenience: what matters is on the tiers.

use super::*;
use crate::support::Over;
use rustix::fs::{CWD, FileType, makedev, mknodat};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

/// What is known of a name: kind and mode, owner, size, mtime (not of directories), link count, content, target or device, xattr.
type Facts = (u32, (u32, u32), u64, (i64, i64), u64, Vec<u8>, Option<Vec<u8>>);

fn tree(root: &Path) -> BTreeMap<PathBuf, Facts> {
    let (mut found, mut directories) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            let stat = fs::symlink_metadata(&path).expect("lstat");
            let content = match stat.file_type() {
                kind if kind.is_dir() => {
                    directories.push(path.clone());
                    Vec::new()
                }
                kind if kind.is_symlink() => {
                    fs::read_link(&path).expect("readlink").into_os_string().into_encoded_bytes()
                }
                kind if kind.is_file() => fs::read(&path).expect("a read"),
                _ => stat.rdev().to_le_bytes().to_vec(),
            };
            let (size, mtime, links) = match stat.is_dir() {
                true => (0, (0, 0), 0),
                false => (stat.size(), (stat.mtime(), stat.mtime_nsec()), stat.nlink()),
            };
            let facts = (stat.mode(), (stat.uid(), stat.gid()), size, mtime, links, content, xattr(&path));
            found.insert(path.strip_prefix(root).expect("below").to_owned(), facts);
        }
    }
    found
}

fn xattr(path: &Path) -> Option<Vec<u8>> {
    let mut value = vec![0; 100];
    let length = rustix::fs::lgetxattr(path, "user.note", &mut value).ok()?;
    value.truncate(length);
    Some(value)
}

fn plant(root: &Path) {
    let path = |name: &str| root.join(name);
    let write = |name: &str, bytes: &[u8], mode: u32, owner: (u32, u32), nanos: u32| {
        fs::write(path(name), bytes).expect("a write");
        chown(path(name), Some(owner.0), Some(owner.1)).expect("chown");
        fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).expect("chmod");
        let file = fs::File::open(path(name)).expect("open");
        file.set_modified(UNIX_EPOCH + Duration::new(1_234_567_890, nanos)).expect("utimens");
    };
    for directory in ["d", "d/e", "empty", "empty/inner", "private"] {
        fs::create_dir(path(directory)).expect("mkdir");
    }
    write("plain", b"plain", 0o644, (0, 0), 123_456_789);
    write("none", b"", 0o000, (1000, 1001), 1);
    write("d/setuid", b"#!", 0o6755, (7, 8), 999_999_999);
    write("d/e/big", &crate::support::noise(4, 9 << 20), 0o640, (65_534, 65_534), 0);
    write("d/first", b"linked", 0o600, (5, 5), 5);
    fs::hard_link(path("d/first"), path("d/second")).expect("link");
    fs::hard_link(path("d/first"), path("d/e/third")).expect("link");
    write("twin", b"linked", 0o600, (5, 5), 5);
    symlink("d/e/big", path("link")).expect("symlink");
    symlink("nowhere/é", path("d/dangling")).expect("symlink");
    for name in ["Case", "case", "CASE"] {
        write(name, name.as_bytes(), 0o644, (0, 0), 7);
    }
    for (name, kind, device) in [
        ("fifo", FileType::Fifo, 0),
        ("socket", FileType::Socket, 0),
        ("null", FileType::CharacterDevice, makedev(1, 3)),
        ("disk", FileType::BlockDevice, makedev(7, 99)),
    ] {
        mknodat(CWD, path(name), kind, rustix::fs::Mode::RUSR, device).expect("mknod");
    }
    rustix::fs::setxattr(path("plain"), "user.note", b"a=b&c \xff\n", rustix::fs::XattrFlags::empty())
        .expect("setxattr");
    fs::set_permissions(path("private"), fs::Permissions::from_mode(0o1770)).expect("chmod");
    chown(path("private"), Some(42), Some(43)).expect("chown");
}

#[test]
fn catalog_can_be_lost() {
    on_both(|tiers| {
        let mut mount = Mount::of(tiers).start();
        for home in ["blob", "share", "plain"] {
            fs::create_dir(mount.path(home)).expect("mkdir");
            plant(&mount.path(home));
        }
        mount.flush();
        let before = tree(mount.root());
        assert_eq!(before.len(), 3 * 23, "{:?}", before.keys());
        without_catalog(&mut mount);
        // Names are found by looking, so a link count is whole when all directories have been looked at.
        tree(mount.root());
        let after = tree(mount.root());
        for (path, facts) in &before {
            assert_eq!(after.get(path), Some(facts), "{}", path.display());
        }
        assert_eq!(after.len(), before.len(), "{:?}", after.keys());
        let ino = |name: &str| fs::symlink_metadata(mount.path(name)).expect("stat").ino();
        for home in ["blob", "share", "plain"] {
            let name = |name: &str| format!("{home}/{name}");
            assert_eq!(ino(&name("d/first")), ino(&name("d/second")));
            assert_eq!(ino(&name("d/first")), ino(&name("d/e/third")));
            assert_ne!(ino(&name("d/first")), ino(&name("twin")), "equal content is no link");
            // One file still: what is written by one name is read by the other, here and at home.
            fs::write(mount.path(&name("d/second")), "changed").expect("a write");
            assert_eq!(fs::read(mount.path(&name("d/e/third"))).expect("a read"), b"changed");
        }
        mount.flush();
        for name in ["first", "second", "e/third"] {
            assert_eq!(tiers.expect_blob(&format!("blob/d/{name}")), b"changed");
        }
        assert_eq!(tiers.expect_blob("blob/twin"), b"linked");
    });
}

/// Over NFS a share holds no attributes of users, and neither does this file system.
#[test]
fn a_share_over_nfs_keeps_all_but_extended_attributes_without_the_catalog() {
    let tiers = Tiers::with_directories();
    let _share = Over::ramfs(&tiers.share);
    let mut mount = Mount::of(&tiers).start();
    let share = mount.path("share");
    fs::create_dir(&share).expect("mkdir");
    plant(&share);
    let mut before = tree(&share);
    assert!(before[Path::new("plain")].6.is_some(), "the catalog holds it");
    without_catalog(&mut mount);
    tree(&share);
    let after = tree(&share);
    before.values_mut().for_each(|facts| facts.6 = None);
    for (path, facts) in &before {
        assert_eq!(after.get(path), Some(facts), "{}", path.display());
    }
    assert_eq!(after.len(), before.len(), "{:?}", after.keys());
}
