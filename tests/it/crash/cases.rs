//! Cases that users have lost data over, each by its number.

use super::worker::Dice;
use crate::support::mount::told;
use crate::support::{BOTH, Mode, Mount, Proxy, Tiers, noise, sha256, wait};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Nothing is committed for a minute unless somebody asks.
const DELAYED: &str = r#"
[[rule]]
path = "m/**"
home = "blob"
stage = "scratch"
settle = "60s"

[[rule]]
path = "**"
home = "scratch"
"#;

const AT_ONCE: &str = r#"
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

/// umount(8), which knows nothing of us.
fn plain_umount(mount: &Mount) {
    let output = Command::new("umount").arg(mount.root()).output().expect("umount");
    assert!(output.status.success(), "{}", told(&output));
}

#[test]
fn c001_an_unmount_waits_for_what_was_written() {
    for mode in BOTH {
        let tiers = Tiers::with_azurite();
        let mut mount = Mount::of(&tiers).mode(mode).rules(DELAYED).start();
        let bytes = noise(1, 8 << 20);
        fs::create_dir(mount.path("m")).expect("mkdir");
        fs::write(mount.path("m/f"), &bytes).expect("a write");
        plain_umount(&mount);
        let status = mount.wait_for_end();
        assert_eq!(status.code(), Some(0), "{}", mount.log());
        assert_eq!(sha256(&tiers.expect_blob("m/f")), sha256(&bytes));
    }
}

#[test]
fn c001_a_drain_limit_that_passes_keeps_everything_for_the_next_mount() {
    for mode in BOTH {
        let tiers = Tiers::with_azurite();
        let proxy = Proxy::before(tiers.container().service());
        let url = tiers.container().url_through(&proxy.service());
        let builder = Mount::of(&tiers).mode(mode).rules(DELAYED).blob_url(url);
        let mut mount = builder.mount_key("drain_timeout = \"1s\"").start();
        let bytes = noise(2, 8 << 20);
        fs::create_dir(mount.path("m")).expect("mkdir");
        fs::write(mount.path("m/f"), &bytes).expect("a write");
        proxy.cut();
        plain_umount(&mount);
        let status = mount.wait_for_end();
        assert_eq!(status.code(), Some(4), "{}", mount.log());
        assert_eq!(tiers.staged().len(), 1, "{:?}", tiers.staged());
        proxy.mend();
        mount.remount();
        assert!(fs::read(mount.path("m/f")).expect("a read") == bytes);
        assert!(mount.unmount().success(), "{}", mount.log());
        assert_eq!(sha256(&tiers.expect_blob("m/f")), sha256(&bytes));
    }
}

#[test]
fn c001_a_mount_that_is_asked_for_meanwhile_waits_and_says_so() {
    let tiers = Tiers::with_azurite();
    let proxy = Proxy::before(tiers.container().service());
    let url = tiers.container().url_through(&proxy.service());
    let mut mount = Mount::of(&tiers).rules(DELAYED).blob_url(url).start();
    let bytes = noise(3, 1 << 20);
    fs::create_dir(mount.path("m")).expect("mkdir");
    fs::write(mount.path("m/f"), &bytes).expect("a write");
    proxy.cut();
    plain_umount(&mount);
    let mut second =
        mount.mount_command().stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("tierfs");
    let mut said = BufReader::new(second.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("still committing")), "it waits and says so");
    assert!(!wait::is_mounted(mount.root()));
    proxy.mend();
    assert!(mount.wait_for_end().success(), "{}", mount.log());
    assert!(said.any(|line| line.contains("mounted")), "it goes on by itself");
    assert!(fs::read(mount.path("m/f")).expect("a read") == bytes);
    assert!(tiers.expect_blob("m/f") == bytes);
    mount.tierfs(&["unmount"]);
    assert!(second.wait().expect("the daemon's end").success());
}

#[test]
fn c001_a_second_sigterm_ends_at_once_and_keeps_everything() {
    let tiers = Tiers::with_azurite();
    let proxy = Proxy::before(tiers.container().service());
    let url = tiers.container().url_through(&proxy.service());
    let mut mount = Mount::of(&tiers).rules(DELAYED).blob_url(url).start();
    let bytes = noise(4, 1 << 20);
    fs::create_dir(mount.path("m")).expect("mkdir");
    fs::write(mount.path("m/f"), &bytes).expect("a write");
    proxy.cut();
    let pid = mount.pid();
    let term = || Command::new("kill").args(["-TERM", &pid.to_string()]).status().expect("kill");
    assert!(term().success());
    wait::until("the mount to go", || !wait::is_mounted(mount.root()));
    assert!(term().success());
    assert_eq!(mount.wait_for_end().code(), Some(4), "{}", mount.log());
    proxy.mend();
    mount.remount();
    assert!(fs::read(mount.path("m/f")).expect("a read") == bytes);
    assert!(mount.unmount().success());
    assert!(tiers.expect_blob("m/f") == bytes);
}

#[test]
fn c006_a_mount_after_an_unclean_stop_serves_and_commits_what_was_dirty() {
    for mode in BOTH {
        let tiers = Tiers::with_azurite();
        let mut mount = Mount::of(&tiers).mode(mode).rules(DELAYED).start();
        fs::create_dir(mount.path("m")).expect("mkdir");
        let files: Vec<_> = (0..20).map(|i| (format!("m/f{i}"), noise(i, 1 << 20))).collect();
        for (name, bytes) in &files {
            fs::write(mount.path(name), bytes).expect("a write");
        }
        mount.kill9();
        let began = Instant::now();
        mount.remount();
        assert!(began.elapsed() < Duration::from_secs(10), "mounted after {:?}", began.elapsed());
        for (name, bytes) in &files {
            assert_eq!(sha256(&fs::read(mount.path(name)).expect("a read")), sha256(bytes), "{name} at once");
        }
        mount.flush();
        for (name, bytes) in &files {
            assert_eq!(sha256(&tiers.expect_blob(name)), sha256(bytes), "{name} on Blob");
        }
    }
}

/// Bytes that tell their version in every page.
fn version(of: &mut [u8], k: u64) {
    for page in of.chunks_mut(4096) {
        page[..8].copy_from_slice(&k.to_le_bytes());
    }
}

/// Saves version after version until the mount is gone; the last one that was renamed into place.
fn save(directory: &Path, first: u64, bytes: &mut [u8]) -> u64 {
    let mut done = first - 1;
    while save_one(directory, done + 1, bytes).is_ok() {
        done += 1;
    }
    done
}

fn save_one(directory: &Path, number: u64, bytes: &mut [u8]) -> std::io::Result<()> {
    let (tmp, target) = (directory.join("ckpt.tmp"), directory.join("ckpt.pt"));
    version(bytes, number);
    let mut file = File::create(&tmp)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&tmp, &target)
}

fn c009(mode: Mode, rounds: u64, size: usize) {
    let tiers = Tiers::with_azurite();
    let mut mount = Mount::of(&tiers).mode(mode).rules(AT_ONCE).start();
    let directory = mount.path("archive");
    fs::create_dir(&directory).expect("mkdir");
    let mut dice = Dice::new(rounds);
    let mut bytes = noise(9, size);
    // Kills hit every part of a save, however fast this machine is.
    let begun = Instant::now();
    save_one(&directory, 1, &mut bytes).expect("a save");
    let pace = usize::try_from(begun.elapsed().as_millis()).expect("a short time");
    let mut known = 1;
    for round in 0..rounds {
        let moment = Duration::from_millis(20 + dice.below(4 * pace + 1) as u64);
        let renamed = std::thread::scope(|scope| {
            let saver = scope.spawn(|| save(&directory, known + 1, &mut bytes));
            std::thread::park_timeout(moment);
            mount.kill9();
            saver.join().expect("the saver")
        });
        mount.remount();
        let found = fs::read(directory.join("ckpt.pt"))
            .unwrap_or_else(|error| panic!("round {round}: version {renamed} is gone: {error}"));
        known = u64::from_le_bytes(found[..8].try_into().expect("eight bytes"));
        assert!(
            (renamed..=renamed + 1).contains(&known),
            "round {round}: {known} instead of {renamed} or the next"
        );
        version(&mut bytes, known);
        assert!(found == bytes, "round {round}: not a whole version");
    }
    mount.flush_path("archive");
    assert!(tiers.blob("archive/ckpt.pt").is_none_or(|found| found == bytes));
    assert!(known > 1, "no round saved anything");
}

#[test]
fn full_c009_a_checkpoint_is_always_whole_briefly() {
    BOTH.into_iter().for_each(|mode| c009(mode, 5, 4 << 20));
}

#[test]
fn full_c009_a_checkpoint_is_always_whole_passthrough() {
    c009(Mode::Passthrough, 50, 32 << 20);
}

#[test]
fn full_c009_a_checkpoint_is_always_whole_ordinary() {
    c009(Mode::Ordinary, 50, 32 << 20);
}

static A: [u8; 1 << 20] = [b'A'; 1 << 20];
static B: [u8; 1 << 20] = [b'B'; 1 << 20];

/// Within a rule, into Blob, out of it, and between directory tiers.
const RENAMES: [(&str, &str); 6] = [
    ("archive/tmp", "archive/final"),
    ("tmp", "archive/final"),
    ("archive/tmp", "final"),
    ("share/tmp", "share/final"),
    ("share/tmp", "archive/final"),
    ("tmp", "share/final"),
];

/// Every copy of a file there is on the tiers.
fn copies(tiers: &Tiers) -> Vec<String> {
    [tiers.blob_file_names(), tiers.scratch_names(), tiers.share_names()].concat()
}

#[test]
fn c024_a_file_that_is_written_can_be_renamed() {
    for (tmp, name) in RENAMES {
        for mode in BOTH {
            let tiers = Tiers::with_azurite();
            let mut mount = Mount::of(&tiers).mode(mode).rules(AT_ONCE).start();
            for directory in ["archive", "share"] {
                fs::create_dir(mount.path(directory)).expect("mkdir");
            }
            let fd = File::options().read(true).write(true).create(true).truncate(true).open(mount.path(tmp));
            let mut fd = fd.expect("create");
            fd.write_all(&A).expect("a write");
            fs::rename(mount.path(tmp), mount.path(name)).expect("rename");
            fd.write_all(&B).expect("a write");
            fd.sync_all().expect("fsync");
            drop(fd);
            assert!(mount.unmount().success(), "{}", mount.log());
            mount.remount();
            assert!(
                fs::read(mount.path(name)).expect("a read") == [&A[..], &B[..]].concat(),
                "{tmp} → {name}"
            );
            assert!(!mount.path(tmp).exists());
            assert_eq!(copies(&tiers), [name], "one copy, under its name");
        }
    }
}

#[test]
fn c024_and_the_daemon_may_die_in_the_middle() {
    for (tmp, name) in RENAMES {
        for mode in BOTH {
            let tiers = Tiers::with_azurite();
            let mut mount = Mount::of(&tiers).mode(mode).rules(AT_ONCE).start();
            for directory in ["archive", "share"] {
                fs::create_dir(mount.path(directory)).expect("mkdir");
            }
            let mut fd = File::create(mount.path(tmp)).expect("create");
            fd.write_all(&A).expect("a write");
            fs::rename(mount.path(tmp), mount.path(name)).expect("rename");
            mount.kill9();
            // By passthrough the kernel goes on; otherwise the writer gets an error.
            let whole =
                if fd.write_all_at(&B, 1 << 20).is_ok() { [&A[..], &B[..]].concat() } else { A.to_vec() };
            mount.remount();
            assert!(fs::read(mount.path(name)).expect("a read") == whole, "{tmp} → {name} {mode:?}");
            drop(fd);
            drop(File::options().append(true).open(mount.path(name)).expect("open"));
            mount.flush();
            assert!(fs::read(mount.path(name)).expect("a read") == whole, "{tmp} → {name} {mode:?}, later");
            assert!(!mount.path(tmp).exists());
            assert_eq!(copies(&tiers), [name], "one copy, under its name");
        }
    }
}

/// A writer in a directory that moves to another tier under it.
#[test]
fn c024_a_file_that_is_written_can_move_with_its_directory() {
    for mode in BOTH {
        let tiers = Tiers::with_azurite();
        let mut mount = Mount::of(&tiers).mode(mode).rules(AT_ONCE).start();
        fs::create_dir_all(mount.path("run/deep")).expect("mkdir");
        fs::create_dir(mount.path("archive")).expect("mkdir");
        fs::write(mount.path("run/other"), "other").expect("a write");
        let mut fd = File::create(mount.path("run/deep/log")).expect("create");
        fd.write_all(&A).expect("a write");
        fs::rename(mount.path("run"), mount.path("archive/run")).expect("rename");
        wait::until("what is closed to move", || tiers.blob("archive/run/other").is_some());
        fd.write_all(&B).expect("a write");
        drop(fd);
        assert!(mount.unmount().success(), "{}", mount.log());
        assert!(tiers.expect_blob("archive/run/deep/log") == [&A[..], &B[..]].concat());
        assert_eq!(tiers.scratch_names(), Vec::<String>::new());
    }
}

/// What happens while bytes move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble<'a> {
    No,
    /// SIGKILL at any moment.
    Kill,
    /// At the n-th pass of a point of `failpoint`, as `name:n`.
    At(&'a str),
}

/// A file and a directory of 20 change their tier.
fn c029(mode: Mode, (from, to): (&str, &str), size: usize, trouble: Trouble<'_>) {
    let tiers = Tiers::with_azurite();
    let mut mount = Mount::of(&tiers).mode(mode).rules(AT_ONCE).start();
    for directory in ["scratch", "archive", "share"] {
        fs::create_dir(mount.path(directory)).expect("mkdir");
    }
    let mut files = vec![("c.pt".to_owned(), noise(29, size))];
    files.extend((0..20).map(|i| (format!("run/f{i:02}"), noise(i, 100_000))));
    fs::create_dir(mount.path(from).join("run")).expect("mkdir");
    for (name, bytes) in &files {
        fs::write(mount.path(from).join(name), bytes).expect("a write");
    }
    mount.flush();
    if let Trouble::At(point) = trouble {
        assert!(mount.unmount().success());
        mount.set_environment("TIERFS_CRASH_AT", point);
        mount.remount();
    }
    let rename = |mount: &Mount, name| fs::rename(mount.path(from).join(name), mount.path(to).join(name));
    for name in ["c.pt", "run"] {
        let renamed = rename(&mount, name);
        // The first may be on its way already, and take the daemon along.
        assert!(renamed.is_ok() || matches!(trouble, Trouble::At(_)), "never EXDEV: {renamed:?}");
    }
    match trouble {
        Trouble::No => {}
        Trouble::Kill => {
            wait::until("the move to be under way", || !mount.tierstat(&[]).contains("0 running"));
            mount.kill9();
            mount.remount();
        }
        Trouble::At(point) => {
            let flushed = mount.try_tierfs(&["flush"]);
            assert!(!flushed.status.success(), "{point} was never reached: {}", told(&flushed));
            mount.wait_for_end();
            mount.set_environment("TIERFS_CRASH_AT", "");
            mount.remount();
            for name in ["c.pt", "run"].into_iter().filter(|name| mount.path(from).join(name).exists()) {
                rename(&mount, name).expect("a rename that was not answered can be made");
            }
        }
    }
    let all_there = |mount: &Mount, when: &str| {
        for (name, bytes) in &files {
            assert!(
                fs::read(mount.path(to).join(name)).expect("a read") == *bytes,
                "{name} {when}, {from} → {to} {mode:?} {trouble:?}"
            );
            assert!(
                !mount.path(from).join(name).exists(),
                "{name} {when}, {from} → {to} {mode:?} {trouble:?}"
            );
        }
    };
    all_there(&mount, "at once");
    mount.flush();
    all_there(&mount, "at home");
    let expected: Vec<_> = files.iter().map(|(name, _)| format!("{to}/{name}")).collect();
    assert_eq!(copies(&tiers), expected, "exactly one copy over all tiers");
    for (name, bytes) in expected.iter().zip(files.iter().map(|(_, bytes)| bytes)) {
        let at_home = match to {
            "archive" => tiers.expect_blob(name),
            "share" => fs::read(tiers.share.join(name)).expect("on the share"),
            _ => fs::read(tiers.scratch.join(name)).expect("on scratch"),
        };
        assert!(at_home == *bytes, "{name}: other bytes at home");
    }
}

const SOME_MIB: usize = 9 << 20;

#[test]
fn c029_a_rename_over_tiers_is_one_rename() {
    BOTH.into_iter().for_each(|mode| c029(mode, ("scratch", "archive"), 64 << 20, Trouble::No));
}

#[test]
fn c029_and_the_daemon_may_die_in_the_middle() {
    BOTH.into_iter().for_each(|mode| c029(mode, ("scratch", "archive"), 64 << 20, Trouble::Kill));
}

const WAYS: [(&str, &str); 4] =
    [("archive", "scratch"), ("scratch", "share"), ("share", "archive"), ("archive", "share")];

#[test]
fn full_c029_between_all_tiers() {
    for mode in BOTH {
        for way in WAYS {
            c029(mode, way, SOME_MIB, Trouble::No);
            c029(mode, way, SOME_MIB, Trouble::Kill);
        }
    }
}

/// Also among the files of the directory.
#[test]
fn full_c029_and_the_daemon_may_die_anywhere() {
    for way in [("scratch", "archive")].into_iter().chain(WAYS) {
        for point in [
            "upload_begun",
            "commit_begun:4",
            "committed_not_recorded",
            "committed_not_recorded:12",
            "recorded_not_dropped:5",
        ] {
            c029(Mode::Ordinary, way, SOME_MIB, Trouble::At(point));
        }
    }
}
