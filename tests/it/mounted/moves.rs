//! Files move between all tiers while programs read, map and write them.

use crate::support::{BOTH, Map, Mode, Mount, Tiers, noise, tool};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A home each on Blob with hot copies, on the share with hot copies, and on scratch.
const RULES: &str = r#"
[[rule]]
path = "blob/**"
home = "blob"
hot = "scratch"
settle = "0s"

[[rule]]
path = "share/**"
home = "share"
hot = "scratch"

[[rule]]
path = "**"
home = "scratch"
"#;

const HOMES: [&str; 3] = ["blob", "share", "other"];

/// Files that are only read, and the size of each.
const FILES: u64 = 8;
const SIZE: usize = 300_000;

/// Reopens by a name that follows the directory: it runs inside it.
const FSX: &str =
    "flen = 262144\n[opsize]\nmax = 65536\n[weights]\nclose_open = 3.0\ninvalidate = 1.0\nfsync = 0.1\n";

/// The directory is renamed meanwhile, so it is entered by its descriptor.
fn fsx(directory: &OwnedFd, seed: u64) -> Output {
    let own = tempfile::tempdir().expect("a temporary directory");
    let config = own.path().join("fsx.toml");
    fs::write(&config, FSX).expect("a config");
    let mut command = Command::new(tool("fsx"));
    command.args(["-N", "3000", "-S", &seed.to_string(), "-P"]).arg(own.path()).arg("-f").arg(&config);
    let entered = format!("/proc/{}/fd/{}", std::process::id(), directory.as_raw_fd());
    command.arg("fsx").current_dir(entered).stdin(Stdio::null()).output().expect("fsx")
}

fn open(directory: &OwnedFd, name: &str) -> File {
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    let opened = rustix::fs::openat(directory.as_fd(), name, flags, rustix::fs::Mode::empty());
    File::from(opened.expect("an open"))
}

/// One file after another, whole; every other one also as a mapping that is looked at again after the next move.
fn read_all(directory: &OwnedFd, done: &AtomicBool, rounds: &AtomicU64) {
    let mut maps: Vec<(u64, Map)> = Vec::new();
    let mut numbers = BTreeMap::new();
    while !done.load(Ordering::Relaxed) {
        for at in 0..FILES {
            let mut file = open(directory, &format!("f{at}"));
            let number = file.metadata().expect("stat").ino();
            assert_eq!(*numbers.entry(at).or_insert(number), number, "f{at} has another inode number");
            let mut bytes = Vec::with_capacity(SIZE);
            file.read_to_end(&mut bytes).expect("a read");
            assert!(bytes == noise(at, SIZE), "f{at} is something else");
            if at % 2 == 0 {
                maps.push((at, Map::new(&file, SIZE, libc::PROT_READ, libc::MAP_SHARED)));
            }
        }
        for (at, map) in maps.drain(..) {
            assert!(map.bytes() == noise(at, SIZE), "the mapping of f{at} shows something else");
        }
        rounds.fetch_add(1, Ordering::Relaxed);
    }
}

/// How often a file is under a native key of any home on any tier.
fn copies(tiers: &Tiers, name: &str) -> usize {
    let keys = || HOMES.iter().map(|home| format!("{home}/{name}"));
    let native = |root: &Path| keys().filter(|key| root.join(key).exists()).count();
    keys().filter(|key| tiers.blob(key).is_some()).count() + native(&tiers.share) + native(&tiers.scratch)
}

/// The readers end with the loop, also when that fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn moves_under_load(mode: Mode) {
    let tiers = Tiers::with_azurite();
    let mount = Mount::of(&tiers).mode(mode).rules(RULES).default_revalidate().start();
    HOMES.iter().for_each(|home| fs::create_dir_all(mount.path(home)).expect("mkdir"));
    let mut at = mount.path("other/work");
    fs::create_dir(&at).expect("mkdir");
    (0..FILES).for_each(|file| fs::write(at.join(format!("f{file}")), noise(file, SIZE)).expect("a write"));
    let directory = OwnedFd::from(File::open(&at).expect("the directory"));
    let (done, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut moved = 0;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| read_all(&directory, &done, &rounds));
        }
        let _end = Ends(&done);
        let mut writer = Some(scope.spawn(|| fsx(&directory, 1)));
        let mut runs = 1;
        loop {
            let next = mount.path(HOMES[moved % HOMES.len()]).join("work");
            if next != at {
                fs::rename(&at, &next).expect("a rename");
                at = next;
            }
            moved += 1;
            // What is open moves when it is closed: the flush names it, and comes back.
            mount.tierfs_at(&["flush", "--timeout", "2s"], &[""]);
            mount.tierfs_at(&["evict"], &["blob", "share"]);
            if writer.as_ref().is_some_and(|writer| writer.is_finished()) {
                let output = writer.take().map(|writer| writer.join().expect("a thread")).expect("it ran");
                let text = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{mode:?}, run {runs}: {text}\n{}", mount.log());
                if runs == 4 {
                    break;
                }
                runs += 1;
                let (directory, seed) = (&directory, runs);
                writer = Some(scope.spawn(move || fsx(directory, seed)));
            }
        }
    });
    assert!(moved > 3 && rounds.load(Ordering::Relaxed) > 3, "{moved} moves, {rounds:?} rounds");
    println!(
        "{mode:?}: {moved} moves between three homes, {rounds:?} rounds of {FILES} files by each of two readers"
    );
    drop(directory);
    mount.flush();
    for file in 0..FILES {
        assert!(fs::read(at.join(format!("f{file}"))).expect("a read") == noise(file, SIZE));
        assert_eq!(copies(&tiers, &format!("work/f{file}")), 1, "copies of f{file} over all tiers");
    }
}

#[test]
fn full_files_move_between_all_tiers_under_fsx_readers_and_mappers() {
    BOTH.into_iter().for_each(moves_under_load);
}
