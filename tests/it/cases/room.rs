//! Room on the tiers: what df shows, and what becomes of bytes when it ends.

use super::*;
use crate::support::{BOTH, Over, noise, wait};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::process::Command;

const MIB: usize = 1 << 20;

/// What df(1) shows of a path, in bytes.
fn df(mount: &Mount, name: &str) -> u64 {
    let output = Command::new("df").args(["-B1", "--output=size"]).arg(mount.path(name)).output();
    let text = String::from_utf8(output.expect("df").stdout).expect("text");
    text.lines().last().and_then(|line| line.trim().parse().ok()).expect("a number")
}

/// Writes what there is room for; nothing but a full disk may end it.
fn write_all(file: &mut File, bytes: &[u8]) -> usize {
    let mut written = 0;
    for piece in bytes.chunks(MIB) {
        let mut piece = piece;
        while !piece.is_empty() {
            match file.write(piece) {
                Ok(count) => {
                    written += count;
                    piece = &piece[count..];
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
                    return written;
                }
            }
        }
    }
    written
}

#[test]
fn c211_df_shows_the_tiers_and_writes_may_be_larger_than_the_stage() {
    for mode in BOTH {
        let (_server, tiers, _) = own();
        let _stage = Over::small(&tiers.scratch, "64m");
        let _share = Over::small(&tiers.share, "1g");
        let mount = Mount::of(&tiers).mode(mode).blob_key("capacity = \"10TiB\"").start();
        for directory in ["blob", "share"] {
            fs::create_dir(mount.path(directory)).expect("mkdir");
        }
        assert_eq!(df(&mount, ""), (10 << 40) + (1 << 30) + (64 << 20), "the sum of all");
        assert_eq!((df(&mount, "blob"), df(&mount, "share")), (10 << 40, 1 << 30));

        // At once it does not fit, and says so; what was taken is right.
        let bytes = noise(211, 200 * MIB);
        let mut big = File::create(mount.path("blob/big")).expect("create");
        let written = write_all(&mut big, &bytes);
        drop(big);
        assert!(written > 32 * MIB, "{written} bytes fit");
        assert!(fs::read(mount.path("blob/big")).expect("a read") == bytes[..written]);
        mount.flush();
        assert!(tiers.expect_blob("blob/big") == bytes[..written]);
        let has_room = || wait::until("the stage to have room", || tiers.staged().is_empty());
        has_room();
        // In parts it does: each makes room for the next.
        for (i, part) in bytes.chunks(25 * MIB).enumerate() {
            let name = format!("blob/part{i}");
            let append = || File::options().create(true).append(true).open(mount.path(&name)).expect("open");
            let mut written = write_all(&mut append(), part);
            if written < part.len() {
                mount.flush();
                has_room();
                written += write_all(&mut append(), &part[written..]);
            }
            assert_eq!(written, part.len(), "{name}");
        }
        mount.flush();
        for (i, part) in bytes.chunks(25 * MIB).enumerate() {
            assert!(tiers.expect_blob(&format!("blob/part{i}")) == part, "part {i}");
            assert!(fs::read(mount.path(&format!("blob/part{i}"))).expect("a read") == part, "part {i}");
        }
        // What has to fit somewhere fits where there is room.
        fs::write(mount.path("share/big"), &bytes).expect("the share has room");
        assert!(fs::read(tiers.share.join("share/big")).expect("a read") == bytes);
    }
}

/// Waits for a commit until a file is closed; hot copies on the same tier.
const WAITING: &str = r#"
[[rule]]
path = "blob/**"
home = "blob"
stage = "scratch"
settle = "1h"

[[rule]]
path = "hot/**"
home = "blob"
stage = "share"
hot = "scratch"
promote = "on-read"

[[rule]]
path = "share/**"
home = "share"

[[rule]]
path = "**"
home = "scratch"
"#;

/// Errno of writing a file whole.
fn refused(mount: &Mount, name: &str, bytes: &[u8]) {
    assert_eq!(errno(fs::write(mount.path(name), bytes)), libc::ENOSPC, "{name}");
}

#[test]
fn a_full_stage_and_hot_tier_cost_no_bytes() {
    for mode in BOTH {
        let (_server, tiers, _) = own();
        let disk = Over::small(&tiers.scratch, "24m");
        let (some, more) = (noise(1, 2 * MIB), noise(2, 3 * MIB));
        for name in ["hot/cold", "hot/later"] {
            tiers.put_blob(name, &more);
        }
        tiers.put_blob("blob/clean", &more);
        let mut mount = Mount::of(&tiers).mode(mode).rules(WAITING).start();
        fs::write(mount.path("blob/dirty"), &some).expect("a write");
        fs::write(mount.path("native"), &some).expect("a write");
        let mut open = File::create(mount.path("blob/open")).expect("create");
        open.write_all(&some).expect("a write");
        let ballast = disk.fill();

        refused(&mount, "blob/new", &more);
        refused(&mount, "new", &more);
        assert_eq!(write_all(&mut open, &more), 0, "an open file has no room either");
        let append = File::options().append(true).open(mount.path("blob/clean"));
        assert_eq!(errno(append), libc::ENOSPC, "there is no room for the old bytes");
        let is_right = |mount: &Mount, name: &str, bytes: &[u8]| {
            assert!(fs::read(mount.path(name)).expect("a read") == bytes, "{name}");
        };
        for (name, bytes) in [
            ("blob/dirty", &some),
            ("native", &some),
            ("blob/open", &some),
            ("blob/clean", &more),
            // No hot copy can be made: around it.
            ("hot/cold", &more),
        ] {
            is_right(&mount, name, bytes);
        }
        fs::rename(mount.path("native"), mount.path("renamed")).expect("a rename needs no room");
        assert_eq!(tiers.hot_copies(), [""; 0]);

        drop(ballast);
        open.write_all(&more).expect("a write");
        drop(open);
        for name in ["blob/new", "new"] {
            fs::write(mount.path(name), &more).expect("a write");
        }
        let mut append = File::options().append(true).open(mount.path("blob/clean")).expect("open");
        append.write_all(&some).expect("a write");
        drop(append);
        is_right(&mount, "hot/later", &more);
        wait::until("the hot copy", || tiers.hot_copies().len() == 1);
        mount.flush();
        let (both, clean) = ([&some[..], &more].concat(), [&more[..], &some].concat());
        for (name, bytes) in
            [("blob/dirty", &some), ("blob/open", &both), ("blob/new", &more), ("blob/clean", &clean)]
        {
            is_right(&mount, name, bytes);
            assert!(tiers.expect_blob(name) == *bytes, "{name} at home");
        }
        is_right(&mount, "renamed", &some);
        is_right(&mount, "new", &more);
        fs::remove_file(mount.path("new")).expect("rm");
        assert!(mount.unmount().success(), "{}", mount.log());
    }
}

/// A native file is its own record: made or refused while there is no room for its rows, but truly so.
fn make_natives(mount: &Mount, name: &str, bytes: &[u8]) {
    let made: Vec<_> = (0..20)
        .map(|i| mount.path(&format!("{name}{i}")))
        .filter(|path| match fs::write(path, bytes) {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{}: {error}", path.display());
                false
            }
        })
        .collect();
    for path in made {
        assert!(fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())) == bytes);
    }
}

/// What no row can be written for is refused; what needs none goes on.
#[test]
fn a_full_catalog_disk_costs_no_bytes_and_is_told_once() {
    for mode in BOTH {
        let (_server, tiers, _) = own();
        let place = tiers.workspace().join("catalog");
        fs::create_dir(&place).expect("mkdir");
        let disk = Over::small(&place, "2m");
        let bytes = noise(1, MIB);
        tiers.put_blob("blob/cold", &bytes);
        let mut mount = Mount::of(&tiers).mode(mode).catalog_in(&place).default_revalidate().start();
        for name in ["blob/f", "f"] {
            fs::write(mount.path(name), &bytes).expect("a write");
        }
        assert!(fs::read(mount.path("blob/cold")).expect("a read") == bytes);
        mount.flush();
        let ballast = disk.fill();

        make_natives(&mount, "native", &bytes);
        // The log of the catalog may have some room left in its file.
        let mut made = Vec::new();
        for i in 0..2000 {
            match fs::write(mount.path(&format!("blob/n{i}")), i.to_string()) {
                Ok(()) => made.push(i),
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{error}");
                    break;
                }
            }
        }
        assert!(made.len() < 2000, "the disk never was full");
        make_natives(&mount, "later", &bytes);
        for name in ["blob/f", "f", "blob/cold"] {
            for _ in 0..50 {
                assert!(fs::read(mount.path(name)).expect("a read") == bytes, "{name}");
            }
        }
        let about_rows = mount.log().lines().filter(|line| line.contains("rows can't be written")).count();
        assert!(about_rows <= 1, "told {about_rows} times:\n{}", mount.log());

        drop(ballast);
        fs::write(mount.path("blob/after"), &bytes).expect("a write");
        fs::write(mount.path("after"), &bytes).expect("a write");
        mount.flush();
        for name in ["blob/after", "after", "blob/f", "f", "blob/cold"] {
            assert!(fs::read(mount.path(name)).expect("a read") == bytes, "{name}");
        }
        for i in &made {
            assert_eq!(tiers.expect_blob(&format!("blob/n{i}")), i.to_string().into_bytes());
        }
        assert!(tiers.expect_blob("blob/after") == bytes);
        assert!(mount.unmount().success(), "{}", mount.log());
        mount.remount();
        for name in ["blob/after", "after", "blob/f", "f"] {
            assert!(fs::read(mount.path(name)).expect("a read") == bytes, "{name} after a remount");
        }
    }
}
