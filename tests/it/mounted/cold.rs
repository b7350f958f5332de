//! Models that nobody uses move to Blob, and come back when they are read.

use crate::crash::Dice;
use crate::support::blob_server::BlobServer;
use crate::support::mount::{told, xattr};
use crate::support::{BOTH, Map, Mode, Mount, Tiers, noise, wait};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Nobody has used them for a moment.
const RULES: &str = r#"
[[rule]]
path = "models/**"
home = "share"
cold = { tier = "blob", idle = "1s" }

[[rule]]
path = "plain/**"
home = "share"

[[rule]]
path = "**"
home = "scratch"
"#;

fn is_cold(tiers: &Tiers, name: &str) -> bool {
    tiers.blob(name).is_some() && !tiers.share.join(name).exists()
}

fn is_home(tiers: &Tiers, name: &str) -> bool {
    tiers.blob(name).is_none() && tiers.share.join(name).exists()
}

/// It is written down that it is there.
fn rests(mount: &Mount, name: &str) -> bool {
    told(&mount.tierfs_at(&["explain"], &[name])).contains("cold since")
}

fn reload(mount: &Mount, before: &str, after: &str) {
    let text = fs::read_to_string(mount.config()).expect("the config");
    assert!(text.contains(before), "{text}");
    fs::write(mount.config(), text.replace(before, after)).expect("a new config");
    mount.tierfs(&["reload"]);
}

fn facts(path: &Path) -> (u64, u64, u32, (u32, u32), (i64, i64), u64) {
    let stat = fs::metadata(path).expect("stat");
    (
        stat.ino(),
        stat.size(),
        stat.mode(),
        (stat.uid(), stat.gid()),
        (stat.mtime(), stat.mtime_nsec()),
        stat.nlink(),
    )
}

fn state(mount: &Mount, name: &str) -> String {
    String::from_utf8(xattr(&mount.path(name), "user.tierfs.state")).expect("text")
}

/// Files that went to the cold tier; from here on nothing goes there by itself.
fn gone(mount: &Mount, tiers: &Tiers, names: &[&str]) {
    for name in names {
        wait::until(&format!("{name} on Blob alone"), || is_cold(tiers, name) && rests(mount, name));
    }
    reload(mount, "1s", "30d");
}

#[test]
fn unused_files_move_to_blob_and_come_home_when_they_are_read() {
    for mode in BOTH {
        let tiers = Tiers::with_azurite();
        let mount = Mount::of(&tiers).mode(mode).rules(RULES).start();
        let bytes = noise(1, 3 << 20);
        fs::create_dir_all(mount.path("models/a")).expect("mkdir");
        fs::create_dir_all(mount.path("plain")).expect("mkdir");
        fs::write(mount.path("models/a/m"), &bytes).expect("a write");
        fs::set_permissions(mount.path("models/a/m"), fs::Permissions::from_mode(0o640)).expect("chmod");
        fs::write(mount.path("plain/p"), "stays").expect("a write");
        let before = facts(&mount.path("models/a/m"));
        wait::until("the model on Blob alone", || {
            is_cold(&tiers, "models/a/m") && rests(&mount, "models/a/m")
        });
        assert_eq!(tiers.expect_blob("models/a/m"), bytes);
        assert_eq!(facts(&mount.path("models/a/m")), before);
        assert_eq!(state(&mount, "models/a/m"), "cold");
        let said = told(&mount.tierfs_at(&["explain"], &["models/a/m"]));
        assert!(said.contains("comes back when") && said.contains("cold since"), "{said}");

        // What is open does not go, so that it stays for as long as this looks on.
        let mut open = File::open(mount.path("models/a/m")).expect("open");
        let mut first = vec![0; 1 << 20];
        open.read_exact(&mut first).expect("a read");
        wait::until("the model at home", || is_home(&tiers, "models/a/m"));
        let mut rest = Vec::new();
        open.read_to_end(&mut rest).expect("the version that was opened");
        assert!([first, rest].concat() == bytes, "{mode:?}");
        assert_eq!(fs::read(tiers.share.join("models/a/m")).expect("native"), bytes);
        assert_eq!(facts(&mount.path("models/a/m")), before);
        assert_eq!(state(&mount, "models/a/m"), "clean");
        drop(open);
        wait::until("the model on Blob again", || is_cold(&tiers, "models/a/m"));
        assert!(fs::read(mount.path("models/a/m")).expect("a read") == bytes);
        assert!(is_home(&tiers, "plain/p"));
    }
}

#[test]
fn a_cold_file_is_written_renamed_linked_changed_and_removed_as_any_other() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let mount = Mount::of(&tiers).rules(RULES).start();
    let names = ["w", "t", "r", "x", "l", "c", "u", "o", "e"];
    fs::create_dir_all(mount.path("models/d/sub")).expect("mkdir");
    fs::create_dir_all(mount.path("plain")).expect("mkdir");
    for (at, name) in names.iter().enumerate() {
        fs::write(mount.path(&format!("models/{name}")), noise(at as u64, 100_000)).expect("a write");
    }
    fs::write(mount.path("models/d/f"), noise(20, 100_000)).expect("a write");
    fs::write(mount.path("models/d/sub/g"), noise(21, 100_000)).expect("a write");
    let mut all: Vec<String> = names.iter().map(|name| format!("models/{name}")).collect();
    all.extend(["models/d/f".to_owned(), "models/d/sub/g".to_owned()]);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    gone(&mount, &tiers, &all);

    // Appended to, cut, changed.
    let mut append = File::options().append(true).open(mount.path("models/w")).expect("open");
    append.write_all(b"more").expect("a write");
    drop(append);
    let longer = [&noise(0, 100_000)[..], b"more"].concat();
    wait::until("what was written at home", || {
        is_home(&tiers, "models/w")
            && fs::read(tiers.share.join("models/w")).is_ok_and(|bytes| bytes == longer)
    });
    fs::write(mount.path("models/t"), "new").expect("a write");
    wait::until("what was replaced at home", || {
        is_home(&tiers, "models/t")
            && fs::read(tiers.share.join("models/t")).is_ok_and(|bytes| bytes == b"new")
    });
    fs::set_permissions(mount.path("models/c"), fs::Permissions::from_mode(0o600)).expect("chmod");
    mount.flush();
    assert!(is_cold(&tiers, "models/c"), "attributes are no use");
    assert_eq!(facts(&mount.path("models/c")).2 & 0o777, 0o600);

    // Renamed: in the rule they stay cold, out of it they move.
    fs::rename(mount.path("models/r"), mount.path("models/r2")).expect("a rename");
    fs::rename(mount.path("models/x"), mount.path("plain/x")).expect("a rename");
    fs::rename(mount.path("models/o"), mount.path("models/e")).expect("a rename over a file");
    fs::hard_link(mount.path("models/l"), mount.path("models/l2")).expect("a link");
    fs::remove_file(mount.path("models/u")).expect("unlink");
    mount.flush();
    assert!(is_cold(&tiers, "models/r2") && tiers.blob("models/r").is_none());
    assert!(is_cold(&tiers, "models/e") && tiers.blob("models/o").is_none());
    assert!(tiers.blob("models/u").is_none() && !mount.path("models/u").exists());
    wait::until("what was renamed away at its home", || is_home(&tiers, "plain/x"));
    assert_eq!(fs::read(mount.path("plain/x")).expect("a read"), noise(3, 100_000));
    assert_eq!(fs::read(mount.path("models/e")).expect("a read"), noise(7, 100_000));
    assert_eq!(fs::read(mount.path("models/l2")).expect("a read"), noise(4, 100_000));
    wait::until("both names at home", || is_home(&tiers, "models/l") && is_home(&tiers, "models/l2"));
    assert_eq!(facts(&mount.path("models/l")).5, 2);

    // With their directory.
    fs::rename(mount.path("models/d"), mount.path("models/d2")).expect("a rename");
    assert!(!tiers.share.join("models/d2/f").exists());
    mount.flush();
    assert!(is_cold(&tiers, "models/d2/f") && is_cold(&tiers, "models/d2/sub/g"), "{:?}", tiers.blob_names());
    fs::rename(mount.path("models/d2"), mount.path("plain/d2")).expect("a rename to another rule");
    mount.flush();
    wait::until("all of it at its home", || {
        is_home(&tiers, "plain/d2/f") && is_home(&tiers, "plain/d2/sub/g")
    });
    assert_eq!(fs::read(mount.path("plain/d2/sub/g")).expect("a read"), noise(21, 100_000));
    assert_eq!(fs::read(mount.path("plain/d2/f")).expect("a read"), noise(20, 100_000));

    fs::remove_file(mount.path("models/c")).expect("unlink");
    mount.flush();
    assert!(tiers.blob("models/c").is_none(), "{:?}", tiers.blob_names());
}

#[test]
fn an_emptied_directory_of_cold_files_is_removed() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let mount = Mount::of(&tiers).rules(RULES).start();
    fs::create_dir_all(mount.path("models/d")).expect("mkdir");
    fs::write(mount.path("models/d/f"), noise(1, 10_000)).expect("a write");
    gone(&mount, &tiers, &["models/d/f"]);
    assert!(fs::remove_dir(mount.path("models/d")).is_err(), "it is not empty");
    fs::remove_file(mount.path("models/d/f")).expect("unlink");
    fs::remove_dir(mount.path("models/d")).expect("rmdir");
    mount.flush();
    assert!(!tiers.blob_names().iter().any(|name| name.starts_with("models/d")), "{:?}", tiers.blob_names());
    assert!(!tiers.share.join("models/d").exists());
    fs::create_dir(mount.path("models/d")).expect("mkdir");
    assert_eq!(fs::read_dir(mount.path("models/d")).expect("a list").count(), 0);
}

#[test]
fn a_rule_without_cold_any_more_brings_them_home() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let mut mount = Mount::of(&tiers).rules(RULES).start();
    fs::create_dir_all(mount.path("models/deep")).expect("mkdir");
    let name = |at: u64| format!("models/deep/f{at}");
    (0..8).for_each(|at| fs::write(mount.path(&name(at)), noise(at, 50_000)).expect("a write"));
    for at in 0..8 {
        wait::until("all on Blob", || is_cold(&tiers, &name(at)));
    }
    // One that nobody has listed here.
    assert!(mount.unmount().success(), "{}", mount.log());
    mount.lose_catalog();
    mount.remount();
    assert_eq!(fs::read_dir(mount.path("models")).expect("a list").count(), 1);
    reload(&mount, "cold = { tier = \"blob\", idle = \"1s\" }", "");
    for at in 0..8 {
        wait::until("all at home", || is_home(&tiers, &name(at)));
        assert_eq!(fs::read(mount.path(&name(at))).expect("a read"), noise(at, 50_000));
        assert_eq!(state(&mount, &name(at)), "clean");
    }
}

#[test]
fn without_the_catalog_cold_files_are_found_where_they_are() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let mut mount = Mount::of(&tiers).rules(RULES).start();
    fs::create_dir(mount.path("models")).expect("mkdir");
    fs::write(mount.path("models/a"), noise(1, 50_000)).expect("a write");
    fs::write(mount.path("models/b"), noise(2, 50_000)).expect("a write");
    gone(&mount, &tiers, &["models/a", "models/b"]);
    assert!(mount.unmount().success(), "{}", mount.log());
    mount.lose_catalog();
    // Home has the name too by now: it wins.
    fs::write(tiers.share.join("models/b"), "at home").expect("a write");
    mount.remount();
    let mut listed: Vec<_> = fs::read_dir(mount.path("models"))
        .expect("a list")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    listed.sort();
    assert_eq!(listed, ["a", "b"]);
    assert_eq!(state(&mount, "models/a"), "cold");
    assert_eq!(fs::read(mount.path("models/b")).expect("a read"), b"at home");
    assert_eq!(fs::read(mount.path("models/a")).expect("a read"), noise(1, 50_000));
    wait::until("what was read at home", || is_home(&tiers, "models/a"));
    // Nobody's to delete.
    assert_eq!(tiers.expect_blob("models/b"), noise(2, 50_000));
}

#[test]
fn searches_do_not_bring_them_home_and_pins_keep_them_there() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let mount = Mount::of(&tiers).rules(RULES).mode(Mode::Ordinary).start();
    fs::create_dir(mount.path("models")).expect("mkdir");
    fs::write(mount.path("models/cold"), "needle in a haystack\n").expect("a write");
    fs::write(mount.path("models/kept"), "pinned").expect("a write");
    mount.tierfs_at(&["pin"], &["models/kept"]);
    gone(&mount, &tiers, &["models/cold"]);
    assert!(is_home(&tiers, "models/kept"));
    let found = std::process::Command::new("grep").arg("-r").arg("needle").arg(mount.path("models")).output();
    assert!(told(&found.expect("grep")).contains("haystack"));
    mount.flush();
    assert_eq!(state(&mount, "models/cold"), "cold");
    assert!(is_cold(&tiers, "models/cold"));
    assert_eq!(fs::read(mount.path("models/cold")).expect("a read"), b"needle in a haystack\n");
    wait::until("what was read at home", || is_home(&tiers, "models/cold"));
}

#[test]
fn somebody_elses_blob_under_the_key_keeps_the_file_at_home() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    tiers.put_blob("models/f", b"theirs");
    let mount = Mount::of(&tiers).rules(RULES).start();
    fs::create_dir_all(tiers.share.join("models")).expect("mkdir");
    fs::write(tiers.share.join("models/f"), "ours").expect("a write");
    fs::write(mount.path("models/g"), "goes").expect("a write");
    assert_eq!(fs::read(mount.path("models/f")).expect("a read"), b"ours");
    wait::until("a later file to go", || is_cold(&tiers, "models/g"));
    assert_eq!(tiers.expect_blob("models/f"), b"theirs");
    assert_eq!(fs::read(mount.path("models/f")).expect("a read"), b"ours");
    assert_eq!(fs::read_dir(mount.path("models")).expect("a list").count(), 2, "no conflict copy");
}

#[test]
fn nothing_goes_and_nothing_is_lost_while_the_cold_tier_is_away() {
    let tiers = Tiers::with_azurite();
    let proxy = crate::support::Proxy::before(tiers.container().service());
    let url = tiers.container().url_through(&proxy.service());
    let mount = Mount::of(&tiers).rules(RULES).blob_url(url).blob_key("deadline = \"2s\"").start();
    fs::create_dir(mount.path("models")).expect("mkdir");
    fs::write(mount.path("models/before"), noise(1, 50_000)).expect("a write");
    wait::until("the first file on Blob", || is_cold(&tiers, "models/before"));
    // All that is there is known once it was listed.
    assert_eq!(fs::read_dir(mount.path("models")).expect("a list").count(), 1);
    proxy.cut();
    fs::write(mount.path("models/new"), noise(2, 50_000)).expect("a write beside a sick cold tier");
    assert_eq!(fs::read(mount.path("models/new")).expect("a read"), noise(2, 50_000));
    assert_eq!(facts(&mount.path("models/before")).1, 50_000);
    proxy.mend();
    wait::until("the second file on Blob", || is_cold(&tiers, "models/new"));
    wait::until("the first file to be readable", || {
        fs::read(mount.path("models/before")).is_ok_and(|bytes| bytes == noise(1, 50_000))
    });
    assert_eq!(fs::read(mount.path("models/new")).expect("a read"), noise(2, 50_000));
}

/// Files that are only read, and the size of each.
const READ: u64 = 6;
const SIZE: usize = 300_000;

/// One file after another, whole, with pauses in which some go; every other one is mapped too, until after the pause.
fn read_all(root: &Path, seed: u64, done: &AtomicBool) -> u64 {
    let (mut dice, mut reads) = (Dice::new(seed), 0);
    while !done.load(Ordering::Relaxed) {
        let at = dice.below(READ as usize) as u64;
        let mut file = File::open(root.join(format!("f{at}"))).expect("open");
        let mut bytes = Vec::with_capacity(SIZE);
        file.read_to_end(&mut bytes).expect("a read");
        assert!(bytes == noise(at, SIZE), "f{at} is something else");
        let map = at.is_multiple_of(2).then(|| Map::new(&file, SIZE, libc::PROT_READ, libc::MAP_SHARED));
        drop(file);
        std::thread::park_timeout(Duration::from_millis(dice.below(1500) as u64));
        assert!(
            map.is_none_or(|map| map.bytes() == noise(at, SIZE)),
            "the mapping of f{at} shows something else"
        );
        reads += 1;
    }
    reads
}

/// One file after another is appended to, cut or replaced, and read again.
fn write_all(root: &Path, seed: u64, done: &AtomicBool) -> u64 {
    let (mut dice, mut writes) = (Dice::new(seed), 0);
    let mut known: Vec<Vec<u8>> = (0..4).map(|at| noise(50 + at, 10_000)).collect();
    let path = |at: usize| root.join(format!("w{at}"));
    known.iter().enumerate().for_each(|(at, bytes)| fs::write(path(at), bytes).expect("a write"));
    while !done.load(Ordering::Relaxed) {
        let at = dice.below(known.len());
        match dice.below(4) {
            0 => {
                let more = noise(writes, 5000);
                File::options().append(true).open(path(at)).expect("open").write_all(&more).expect("a write");
                known[at].extend(more);
            }
            1 => {
                let size = dice.below(known[at].len() + 1);
                File::options()
                    .write(true)
                    .open(path(at))
                    .expect("open")
                    .set_len(size as u64)
                    .expect("a cut");
                known[at].truncate(size);
            }
            2 => {
                known[at] = noise(writes, 20_000);
                fs::write(root.join("tmp"), &known[at]).expect("a write");
                fs::rename(root.join("tmp"), path(at)).expect("a rename");
            }
            _ => {
                let other = (at + 1) % known.len();
                fs::rename(path(at), root.join("aside")).expect("a rename");
                fs::rename(path(other), path(at)).expect("a rename");
                fs::rename(root.join("aside"), path(other)).expect("a rename");
                known.swap(at, other);
            }
        }
        std::thread::park_timeout(Duration::from_millis(dice.below(1500) as u64));
        let at = dice.below(known.len());
        assert!(
            fs::read(path(at)).expect("a read") == known[at],
            "w{at} is something else after {writes} writes"
        );
        writes += 1;
    }
    for (at, bytes) in known.iter().enumerate() {
        assert!(fs::read(path(at)).expect("a read") == *bytes, "w{at} is something else in the end");
    }
    writes
}

#[test]
fn soak_files_go_and_come_back_under_readers_mappers_and_writers() {
    for mode in BOTH {
        let tiers = Tiers::with_azurite();
        let mount =
            Mount::of(&tiers).mode(mode).rules(&RULES.replace("1s", "500ms")).default_revalidate().start();
        let root = mount.path("models/deep");
        fs::create_dir_all(&root).expect("mkdir");
        (0..READ).for_each(|at| fs::write(root.join(format!("f{at}")), noise(at, SIZE)).expect("a write"));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let readers = [1, 2, 3].map(|seed| {
                scope.spawn({
                    let (root, done) = (&root, &done);
                    move || read_all(root, seed, done)
                })
            });
            let writer = scope.spawn(|| write_all(&root, 9, &done));
            // Any moment will do; what is left of a scope before wakes this one.
            let end = Instant::now() + Duration::from_secs(60);
            while let Some(left) = end.checked_duration_since(Instant::now()) {
                std::thread::park_timeout(left);
            }
            done.store(true, Ordering::Relaxed);
            let reads: u64 = readers.into_iter().map(|reader| reader.join().expect("a reader")).sum();
            let writes = writer.join().expect("a writer");
            println!("{mode:?}: {reads} reads, {writes} writes");
        });
        assert!(
            !mount
                .path("models")
                .read_dir()
                .expect("a list")
                .any(|entry| { entry.expect("an entry").file_name().to_string_lossy().contains("conflict") })
        );
        let moved = mount.log().matches("moved to their cold tier").count();
        assert!(moved > 5, "{moved} walks moved something\n{}", mount.log());
        mount.flush();
    }
}
