//! A home on a share as Azure Files is over SMB: what it can't hold the catalog does, and every name has its own place.

use crate::support::mount::xattr;
use crate::support::poor::{Attributes, Grain, Manners, PoorShare};
use crate::support::{BOTH, Mode, Mount, Tiers, noise, wait};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

const REFUSING: Manners = Manners { attributes: Attributes::Refused, grain: Grain::Tick, stale_every: 0 };

/// Names that the share would merge, refuse or change.
const NAMES: [&[u8]; 14] = [
    b"a",
    b"A",
    b"README",
    b"readme",
    b"Readme",
    b"x:y",
    b"end.",
    b"end",
    b"end ",
    b"w*?\"<>|",
    b"b\\s",
    b"\xff",
    "␛41".as_bytes(),
    "É".as_bytes(),
];

fn names(directory: &Path) -> BTreeSet<Vec<u8>> {
    let entries = fs::read_dir(directory).expect("a directory");
    entries.map(|entry| entry.expect("an entry").file_name().into_vec()).collect()
}

/// Every name has its own bytes, alone and in directories of such names.
fn hold_their_own(share: &Path) {
    let expected: BTreeSet<Vec<u8>> = NAMES.iter().map(|name| name.to_vec()).collect();
    for directory in ["files", "Dir", "dir", "dir."] {
        let directory = share.join(directory);
        assert_eq!(names(&directory), expected, "{}", directory.display());
        for name in NAMES {
            let bytes = fs::read(directory.join(OsStr::from_bytes(name))).expect("a read");
            assert_eq!(bytes, content(&directory, name), "{}", name.escape_ascii());
        }
    }
    for absent in ["files/aA", "files/ReadMe", "files/X:y", "DIR", "Files"] {
        assert!(share.join(absent).symlink_metadata().is_err(), "{absent}");
    }
}

fn content(directory: &Path, name: &[u8]) -> Vec<u8> {
    [directory.file_name().expect("a name").as_bytes(), b"/", name].concat()
}

#[test]
fn names_that_a_share_can_not_hold_are_stored_under_others() {
    for mode in BOTH {
        let tiers = Tiers::with_directories();
        let poor = PoorShare::at(&tiers.share, Manners::default());
        let mut mount = Mount::of(&tiers).mode(mode).start();
        let share = mount.path("share");
        fs::create_dir(&share).expect("mkdir");
        for directory in ["files", "Dir", "dir", "dir."] {
            let directory = share.join(directory);
            fs::create_dir(&directory).expect("mkdir");
            for name in NAMES {
                fs::write(directory.join(OsStr::from_bytes(name)), content(&directory, name))
                    .expect("a write");
            }
        }
        hold_their_own(&share);
        let stored = poor.stored("share/files");
        for name in ["a", "␛41", "README", "␛72eadme", "␛52eadme", "x␛3ay", "end", "end␛2e", "end␛20"]
        {
            assert!(stored.iter().any(|stored| stored == name), "{name}: {stored:?}");
        }
        let first = fs::read(poor.behind("share/files/README")).expect("a read");
        assert_eq!(first, b"files/README", "the first keeps its name");

        let told = mount.tierfs_at(&["path"], &["share/files/A"]).stdout;
        assert_eq!(
            String::from_utf8_lossy(&told).trim_end(),
            tiers.share.join("share/files/␛41").to_str().expect("a path")
        );

        assert!(mount.unmount().success(), "{}", mount.log());
        mount.remount();
        hold_their_own(&share);
        assert!(mount.unmount().success(), "{}", mount.log());
        mount.lose_catalog();
        mount.remount();
        hold_their_own(&share);

        fs::rename(share.join("files/a"), share.join("files/moved")).expect("a rename");
        fs::rename(share.join("files/A"), share.join("files/a")).expect("a rename");
        assert_eq!(fs::read(share.join("files/a")).expect("a read"), b"files/A");
        assert_eq!(fs::read(share.join("files/moved")).expect("a read"), b"files/a");
        assert!(!names(&share.join("files")).contains(&b"A"[..]));
        fs::remove_file(share.join("files/readme")).expect("unlink");
        assert_eq!(fs::read(share.join("files/README")).expect("a read"), b"files/README");
        fs::remove_dir_all(share.join("dir")).expect("rm -r");
        assert_eq!(names(&share.join("Dir")).len(), NAMES.len());
        assert!(mount.unmount().success(), "{}", mount.log());
    }
}

/// What other programs put there in one case is not found in another.
#[test]
fn a_look_in_other_case_finds_nothing() {
    let tiers = Tiers::with_directories();
    let poor = PoorShare::at(&tiers.share, Manners::default());
    let mount = Mount::of(&tiers).start();
    fs::create_dir_all(tiers.share.join("share/Sub")).expect("mkdir");
    fs::write(tiers.share.join("share/Sub/Data"), "theirs").expect("a write");
    assert_eq!(
        fs::metadata(mount.path("share/sub")).expect_err("another name").raw_os_error(),
        Some(libc::ENOENT)
    );
    assert!(fs::metadata(mount.path("share/Sub/DATA")).is_err());
    assert_eq!(fs::read(mount.path("share/Sub/Data")).expect("a read"), b"theirs");
    // Another case by another program: one name less, one more.
    fs::rename(poor.behind("share/Sub/Data"), poor.behind("share/Sub/dATA")).expect("a rename");
    wait::until("the new case", || names(&mount.path("share/Sub")) == BTreeSet::from([b"dATA".to_vec()]));
    assert!(fs::metadata(mount.path("share/Sub/Data")).is_err());
    assert_eq!(fs::read(mount.path("share/Sub/dATA")).expect("a read"), b"theirs");
    fs::write(mount.path("share/Sub/DATA"), "ours").expect("a write");
    assert_eq!(fs::read(tiers.share.join("share/Sub/Data")).expect("a read"), b"theirs");
    assert_eq!(names(&mount.path("share/Sub")).len(), 2);
}

/// Everything that a close or a call was answered for.
fn fill(share: &Path) {
    for i in 0..20_u32 {
        let file = share.join(format!("f{i}"));
        fs::write(&file, noise(u64::from(i), 3000 + i as usize)).expect("a write");
        fs::set_permissions(&file, Permissions::from_mode(0o600 + i)).expect("chmod");
        std::os::unix::fs::chown(&file, Some(1000 + i), Some(2000 + i)).expect("chown");
    }
    fs::write(share.join("F0"), "in capitals").expect("a write");
    fs::hard_link(share.join("f1"), share.join("linked")).expect("a hard link");
    std::os::unix::fs::symlink("f2", share.join("pointer")).expect("a symlink");
    std::os::unix::fs::lchown(share.join("pointer"), Some(31), Some(32)).expect("lchown");
    rustix::fs::setxattr(share.join("f3"), "user.colour", b"blue", rustix::fs::XattrFlags::empty())
        .expect("setxattr");
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, share.join("fifo"), fifo, 0o640.into(), 0).expect("mkfifo");
    fs::create_dir(share.join("d:")).expect("mkdir");
    fs::set_permissions(share.join("d:"), Permissions::from_mode(0o2750)).expect("chmod");
}

fn holds(share: &Path) {
    for i in 0..20_u32 {
        let file = share.join(format!("f{i}"));
        let stat = fs::metadata(&file).expect("a file");
        assert_eq!(fs::read(&file).expect("a read"), noise(u64::from(i), 3000 + i as usize), "f{i}");
        assert_eq!((stat.mode() & 0o7777, stat.uid(), stat.gid()), (0o600 + i, 1000 + i, 2000 + i), "f{i}");
    }
    assert_eq!(fs::read(share.join("F0")).expect("a read"), b"in capitals");
    let (one, other) =
        (fs::metadata(share.join("f1")).expect("stat"), fs::metadata(share.join("linked")).expect("stat"));
    assert_eq!((one.ino(), one.nlink(), other.nlink()), (other.ino(), 2, 2));
    assert_eq!(fs::read_link(share.join("pointer")).expect("a link"), Path::new("f2"));
    let pointer = fs::symlink_metadata(share.join("pointer")).expect("stat");
    assert_eq!((pointer.uid(), pointer.gid()), (31, 32));
    assert_eq!(xattr(&share.join("f3"), "user.colour"), b"blue");
    let fifo = fs::metadata(share.join("fifo")).expect("stat");
    assert_eq!(fifo.mode(), libc::S_IFIFO | 0o640);
    assert_eq!(fs::metadata(share.join("d:")).expect("stat").mode() & 0o7777, 0o2750);
    assert_eq!(names(share).len(), 20 + 5);
}

#[test]
fn what_a_poor_share_can_not_hold_survives_kill_9() {
    for manners in [Manners::default(), REFUSING] {
        for mode in BOTH {
            let tiers = Tiers::with_directories();
            let _poor = PoorShare::at(&tiers.share, manners);
            let mut mount = Mount::of(&tiers).mode(mode).start();
            let share = mount.path("share");
            fs::create_dir(&share).expect("mkdir");
            fill(&share);
            holds(&share);
            mount.kill9();
            mount.remount();
            holds(&share);
            mount.flush();
            holds(&share);
            assert!(mount.unmount().success(), "{}", mount.log());
        }
    }
}

/// A handle that the server forgot now and then costs one more look, not an error. In passthrough mode the kernel opens
/// the file once more by itself, and makes EIO of whatever that says.
#[test]
fn a_stale_handle_now_and_then_is_nobodys_error() {
    for stale_every in [7, 11, 13] {
        let tiers = Tiers::with_directories();
        let _poor = PoorShare::at(&tiers.share, Manners { stale_every, ..Manners::default() });
        let mut mount = Mount::of(&tiers).mode(Mode::Ordinary).start();
        let share = mount.path("share");
        fs::create_dir(&share).expect("mkdir");
        fill(&share);
        holds(&share);
        assert!(mount.unmount().success(), "{}", mount.log());
        mount.remount();
        holds(&share);
    }
}

/// What is on the share itself: bytes, names, symlinks and times to its grain.
#[test]
fn a_share_over_smb_keeps_bytes_and_names_without_the_catalog() {
    let tiers = Tiers::with_directories();
    let _poor = PoorShare::at(&tiers.share, REFUSING);
    let mut mount = Mount::of(&tiers).start();
    let share = mount.path("share");
    fs::create_dir(&share).expect("mkdir");
    fill(&share);
    let times = |name: &str| {
        let stat = fs::symlink_metadata(share.join(name)).expect("stat");
        (stat.mtime(), stat.mtime_nsec() / 100)
    };
    let before: Vec<_> = (0..20).map(|i| times(&format!("f{i}"))).collect();
    assert!(mount.unmount().success(), "{}", mount.log());
    mount.lose_catalog();
    mount.remount();
    for (i, before) in (0..20_u32).zip(before) {
        let name = format!("f{i}");
        assert_eq!(
            fs::read(share.join(&name)).expect("a read"),
            noise(u64::from(i), 3000 + i as usize),
            "{name}"
        );
        assert_eq!(times(&name), before, "{name}");
    }
    assert_eq!(fs::read(share.join("F0")).expect("a read"), b"in capitals");
    assert_eq!(fs::read_link(share.join("pointer")).expect("a link"), Path::new("f2"));
    assert!(share.join("d:").is_dir());
    // The rest was the catalog's alone: it is gone, or as the share has it, and never another file's.
    let owner = |name: &str| fs::symlink_metadata(share.join(name)).map(|stat| stat.uid()).ok();
    assert!((0..20).all(|i| owner(&format!("f{i}")) == owner("f0")), "one owner for all");
    let mut value = [0; 10];
    assert!(rustix::fs::getxattr(share.join("f3"), "user.colour", &mut value[..]).is_err());
    assert_eq!(owner("fifo"), None);
    // Each name of a file is a file of its own.
    assert_eq!(fs::read(share.join("linked")).expect("a read"), noise(1, 3001));
    assert_eq!(fs::metadata(share.join("f1")).expect("stat").nlink(), 1);
    assert_eq!(names(&share).len(), 20 + 4);
}
