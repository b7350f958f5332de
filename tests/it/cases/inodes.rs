//! Inode numbers: the same for as long as a file lives, wherever its bytes are.

use super::*;
use crate::support::{BOTH, noise, wait};
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::unix::fs::{DirEntryExt, MetadataExt};

/// Lets the kernel forget every name of the mount that is not in use, and nothing of other file systems.
fn drop_dentries(mount: &Mount) {
    use rustix::mount::{MountFlags, mount_remount};
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::RELATIME;
    mount_remount(mount.root(), flags, "").expect("a remount of what is mounted");
}

/// Its number by stat, by the directory, and by a descriptor.
#[track_caller]
fn has_number(mount: &Mount, name: &str, open: &File, expected: u64) {
    let path = mount.path(name);
    assert_eq!(fs::metadata(&path).expect("stat").ino(), expected, "stat {name}");
    assert_eq!(open.metadata().expect("fstat").ino(), expected, "fstat {name}");
    let mut entries = fs::read_dir(path.parent().expect("a parent")).expect("a directory");
    let listed = entries.find_map(|entry| {
        let entry = entry.expect("an entry");
        (entry.path() == path).then(|| entry.ino())
    });
    assert_eq!(listed, Some(expected), "readdir {name}");
}

#[test]
fn c231_an_inode_number_stays_while_its_bytes_move() {
    for mode in BOTH {
        let tiers = Tiers::with_azurite();
        let mut mount = Mount::of(&tiers).mode(mode).start();
        for directory in ["blob", "share", "hot"] {
            fs::create_dir(mount.path(directory)).expect("mkdir");
        }
        let bytes = noise(231, 3 << 20);
        fs::write(mount.path("f"), &bytes).expect("a write");
        let mut open = File::open(mount.path("f")).expect("open");
        let ino = open.metadata().expect("fstat").ino();
        let reads = |open: &mut File, at: &str| {
            open.rewind().expect("lseek");
            let mut read = Vec::new();
            open.read_to_end(&mut read).expect("the descriptor goes on");
            assert!(read == bytes, "the descriptor's bytes at {at}");
        };
        let mut at = "f";
        for to in ["share/f", "blob/f", "hot/f", "share/f", "f", "blob/f", "f"] {
            fs::rename(mount.path(at), mount.path(to)).expect("a rename");
            has_number(&mount, to, &open, ino);
            if !at.contains("blob") && !at.contains("hot") {
                // A native file is moved once nobody has it open: a program could begin to write it in place.
                reads(&mut open, to);
                drop(open);
                mount.flush();
                open = File::open(mount.path(to)).expect("open");
            }
            mount.flush();
            has_number(&mount, to, &open, ino);
            drop_dentries(&mount);
            has_number(&mount, to, &open, ino);
            reads(&mut open, to);
            at = to;
        }
        drop(open);
        assert!(mount.unmount().success(), "{}", mount.log());
        mount.remount();
        has_number(&mount, at, &File::open(mount.path(at)).expect("open"), ino);
    }
}

/// From the stage to Blob, to a hot copy by a read, and back to the stage by a write.
#[test]
fn c231_an_inode_number_stays_through_upload_and_hot_copy() {
    for mode in BOTH {
        let tiers = Tiers::with_azurite();
        let bytes = noise(232, 3 << 20);
        tiers.put_blob("hot/f", &bytes);
        let mount = Mount::of(&tiers).mode(mode).start();
        let stat = || fs::metadata(mount.path("hot/f")).expect("stat").ino();
        let ino = stat();
        assert!(fs::read(mount.path("hot/f")).expect("a read") == bytes);
        wait::until("the hot copy", || tiers.hot_copies().len() == 1);
        drop_dentries(&mount);
        let open = File::open(mount.path("hot/f")).expect("open");
        has_number(&mount, "hot/f", &open, ino);
        drop(open);
        for round in 0..2 {
            // From the hot copy, which becomes the staged file, or beside it.
            let append = File::options().append(true).open(mount.path("hot/f")).expect("open");
            std::io::Write::write_all(&mut &append, b"more").expect("a write");
            has_number(&mount, "hot/f", &append, ino);
            drop(append);
            assert_eq!(stat(), ino, "closed");
            mount.flush();
            drop_dentries(&mount);
            assert_eq!(stat(), ino, "uploaded");
            let now = [&bytes[..], b"more".repeat(round + 1).as_slice()].concat();
            assert!(fs::read(mount.path("hot/f")).expect("a read") == now);
        }
    }
}
