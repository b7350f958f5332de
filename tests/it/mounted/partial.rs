//! Large files that are on Blob alone, and written in places: only that is staged, fetched and sent.

use crate::support::blob_server::{BlobServer, Operation};
use crate::support::{BOTH, Map, Mode, Mount, Tiers, noise, wait};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

const MIB: usize = 1 << 20;
/// Larger than what is copied to the stage whole.
const SIZE: usize = 72 * MIB;

fn writable(path: &Path) -> File {
    File::options().read(true).write(true).open(path).expect("open for writing")
}

fn appendable(path: &Path) -> File {
    File::options().read(true).append(true).open(path).expect("open for appending")
}

/// A container with a large blob, written by a plain client.
fn with_large(server: &BlobServer) -> (Tiers, Vec<u8>) {
    let tiers = Tiers::with_server(server);
    let bytes = noise(5, SIZE);
    tiers.container().put_in_blocks("blob/large", &bytes, 8 * MIB);
    (tiers, bytes)
}

/// Bytes that blocks brought since the log was cleared.
fn sent_of(server: &BlobServer) -> u64 {
    let is_sent = |operation| matches!(operation, Operation::PutBlock | Operation::PutBlob);
    server.requests().iter().filter(|one| is_sent(one.operation)).map(|one| one.received).sum()
}

fn write_at(model: &mut Vec<u8>, file: &File, at: usize, bytes: &[u8]) {
    file.write_all_at(bytes, at as u64).expect("a write");
    model.resize(model.len().max(at + bytes.len()), 0);
    model[at..at + bytes.len()].copy_from_slice(bytes);
}

#[test]
fn a_large_blob_costs_what_is_written_of_it() {
    for mode in BOTH {
        let server = BlobServer::start();
        let (tiers, mut model) = with_large(&server);
        let mount = Mount::of(&tiers).mode(mode).start();
        let path = mount.path("blob/large");
        fs::metadata(&path).expect("stat");
        server.clear_log();
        let file = writable(&path);
        assert_eq!(server.count(Operation::Get), 0, "an open fetches nothing");
        write_at(&mut model, &file, 50 * MIB + 77, b"ten bytes!");
        drop(file);
        let mut file = appendable(&path);
        file.write_all(b"a line\n").expect("an append");
        model.extend_from_slice(b"a line\n");
        assert_eq!(file.metadata().expect("fstat").len(), model.len() as u64);
        drop(file);
        mount.flush();
        let (fetched, sent) = (server.body_bytes(), sent_of(&server));
        eprintln!("{mode:?}: fetched {fetched}, sent {sent}");
        assert!(fetched < 20 * MIB as u64 && sent < 20 * MIB as u64, "fetched {fetched}, sent {sent}");
        assert!(tiers.expect_blob("blob/large") == model, "other bytes at home");
        assert_eq!(tiers.staged(), Vec::<String>::new(), "nothing stays on the stage");
        assert!(fs::read(&path).expect("a read") == model);
        // What one commit left goes on being taken over by the next.
        server.clear_log();
        let mut file = appendable(&path);
        file.write_all(b"another\n").expect("an append");
        model.extend_from_slice(b"another\n");
        drop(file);
        mount.flush();
        assert!(sent_of(&server) < 10 * MIB as u64);
        assert!(tiers.expect_blob("blob/large") == model, "other bytes at home");
    }
}

#[test]
fn a_blob_in_one_piece_is_fetched_while_it_is_sent() {
    let tiers = Tiers::with_azurite();
    let mut model = noise(6, SIZE);
    tiers.put_blob("blob/large", &model);
    let mount = Mount::of(&tiers).start();
    let file = writable(&mount.path("blob/large"));
    write_at(&mut model, &file, 3, b"start");
    write_at(&mut model, &file, SIZE + 10, b"behind the end");
    drop(file);
    mount.flush();
    assert!(tiers.expect_blob("blob/large") == model, "other bytes at home");
    let file = writable(&mount.path("blob/large"));
    write_at(&mut model, &file, 40 * MIB, b"middle");
    drop(file);
    mount.flush();
    assert!(tiers.expect_blob("blob/large") == model, "blocks of the first commit taken over");
}

#[test]
fn a_killed_daemon_keeps_what_was_written() {
    for mode in BOTH {
        let server = BlobServer::start();
        let (tiers, mut model) = with_large(&server);
        let mut mount = Mount::of(&tiers).mode(mode).start();
        let path = mount.path("blob/large");
        let file = writable(&path);
        write_at(&mut model, &file, 10 * MIB + 5, &noise(8, 300_000));
        file.set_len(60 * MIB as u64).expect("truncate");
        model.truncate(60 * MIB);
        write_at(&mut model, &file, 66 * MIB, b"after a hole");
        mount.kill9();
        // The writer lives on, with a file that answers no more.
        file.write_all_at(b"x", 0).expect_err("the daemon is gone");
        mount.remount();
        assert!(fs::read(&path).expect("a read") == model, "{mode:?}: after kill -9");
        drop(file);
        let file = writable(&path);
        write_at(&mut model, &file, 20 * MIB, b"written again");
        file.sync_all().expect("fsync");
        mount.kill9();
        mount.remount();
        drop(file);
        assert!(fs::read(&path).expect("a read") == model, "{mode:?}: after the second");
        mount.flush_path("blob/large");
        assert!(tiers.expect_blob("blob/large") == model, "{mode:?}: other bytes at home");
        mount.kill9();
        mount.remount();
        assert!(fs::read(&path).expect("a read") == model);
    }
}

#[test]
fn it_is_a_file_like_any_other() {
    for mode in BOTH {
        let server = BlobServer::start();
        let (tiers, mut model) = with_large(&server);
        let mut mount = Mount::of(&tiers).mode(mode).start();
        let path = mount.path("blob/large");
        let reader = File::open(&path).expect("a reader");
        let mut head = vec![0; 4096];
        reader.read_exact_at(&mut head, 0).expect("a read");
        let file = writable(&path);
        write_at(&mut model, &file, 4000, b"across a page");
        reader.read_exact_at(&mut head, 0).expect("a read");
        assert!(head[4000..] == model[4000..4096], "who had it open sees what is written");
        // Holes.
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&file, punch, 20 * MIB as u64 + 9, 100_000).expect("punch");
        model[20 * MIB + 9..20 * MIB + 9 + 100_000].fill(0);
        fallocate(&file, FallocateFlags::ZERO_RANGE, 30 * MIB as u64, 5000).expect("zero");
        model[30 * MIB..30 * MIB + 5000].fill(0);
        fallocate(&file, FallocateFlags::empty(), SIZE as u64, 4096).expect("allocate");
        model.resize(SIZE + 4096, 0);
        assert_eq!(seek(&file, SeekFrom::Data(50 * MIB as u64)), Ok(50 * MIB as u64));
        // Mappings.
        let page = 40 * MIB;
        {
            let mut map = Map::new(&file, model.len(), libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
            assert!(map.bytes()[page..page + 9000] == model[page..page + 9000]);
            map.bytes_mut()[page + 10..page + 14].copy_from_slice(b"mmap");
            map.sync();
            model[page + 10..page + 14].copy_from_slice(b"mmap");
        }
        // Copies from and to it.
        let other = File::create(mount.path("blob/other")).expect("create");
        let mut from = 50 * MIB as u64;
        let copied = rustix::fs::copy_file_range(&file, Some(&mut from), &other, None, 70_000).expect("copy");
        assert!(fs::read(mount.path("blob/other")).expect("a read") == model[50 * MIB..50 * MIB + copied]);
        // Names.
        let renamed = mount.path("blob/renamed");
        fs::hard_link(&path, mount.path("blob/link")).expect("link");
        fs::rename(&path, &renamed).expect("rename");
        write_at(&mut model, &file, 60 * MIB, b"under another name");
        drop((file, reader, other));
        let cut = File::options().write(true).open(&renamed).expect("open");
        cut.set_len(70 * MIB as u64).expect("truncate");
        model.truncate(70 * MIB);
        drop(cut);
        assert!(fs::read(&renamed).expect("a read") == model, "{mode:?}");
        assert!(mount.unmount().success(), "{}", mount.log());
        for name in ["blob/renamed", "blob/link"] {
            assert!(tiers.expect_blob(name) == model, "{mode:?}: {name} at home");
        }
        assert_eq!(tiers.blob("blob/large"), None);
        assert_eq!(tiers.staged(), Vec::<String>::new());
        mount.remount();
        assert_eq!(fs::metadata(&renamed).expect("stat").nlink(), 2);
    }
}

/// The name that a file leaves is another's, while what it was is still read from there.
#[test]
fn a_rotated_log_keeps_what_it_was() {
    let server = BlobServer::start();
    let (tiers, mut model) = with_large(&server);
    let mount = Mount::of(&tiers).start();
    let (path, rotated) = (mount.path("blob/large"), mount.path("blob/large.1"));
    let mut file = appendable(&path);
    file.write_all(b"last line\n").expect("an append");
    model.extend_from_slice(b"last line\n");
    fs::rename(&path, &rotated).expect("rename");
    fs::write(&path, "a new log").expect("a write");
    mount.flush_path("blob/large");
    assert!(fs::read(&rotated).expect("a read") == model);
    file.write_all(b"one more\n").expect("an append");
    model.extend_from_slice(b"one more\n");
    drop(file);
    mount.flush();
    assert!(tiers.expect_blob("blob/large.1") == model, "other bytes at home");
    assert_eq!(tiers.expect_blob("blob/large"), b"a new log");
    assert_eq!(tiers.blob_file_names(), ["blob/large", "blob/large.1"]);
}

#[test]
fn nothing_is_mixed_when_home_changes_behind_it() {
    let server = BlobServer::start();
    let (tiers, model) = with_large(&server);
    let mount = Mount::of(&tiers).default_revalidate().start();
    let path = mount.path("blob/large");
    let file = writable(&path);
    // A page, for that is what the kernel reads.
    file.write_all_at(&b"ours".repeat(1024), 12 * MIB as u64).expect("a write");
    tiers.put_blob("blob/large", b"theirs");
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, 12 * MIB as u64).expect("what is here is read");
    assert_eq!(&bytes, b"ours");
    let stale = file.read_exact_at(&mut bytes, 30 * MIB as u64).expect_err("the rest is gone");
    assert_eq!(stale.raw_os_error(), Some(libc::ESTALE));
    drop(file);
    assert!(!mount.try_tierfs(&["flush", "--timeout", "20s"]).status.success());
    assert_eq!(tiers.expect_blob("blob/large"), b"theirs", "nothing of ours goes over it");
    assert_eq!(fs::read(&path).expect("a read"), b"theirs", "it is shown under its name");
    let names: Vec<_> = fs::read_dir(mount.path("blob"))
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .filter(|name| name.contains("conflict"))
        .collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert_eq!(tiers.blob_file_names(), ["blob/large"], "and ours nowhere at home");
    let ours = File::open(mount.path("blob").join(&names[0])).expect("ours");
    ours.read_exact_at(&mut bytes, 12 * MIB as u64).expect("what was written is still there");
    assert_eq!(&bytes, b"ours");
    let queue = mount.tierfs(&["queue"]);
    assert!(queue.contains("they are gone"), "{queue}");
    assert_eq!(model.len(), SIZE);
}

/// What programs do at random, with crashes, closes and commits in between.
#[test]
fn any_writes_give_the_right_bytes() {
    for (mode, seed) in [(Mode::Ordinary, 1), (Mode::Passthrough, 2)] {
        let server = BlobServer::start();
        let (tiers, mut model) = with_large(&server);
        let mut mount = Mount::of(&tiers).mode(mode).start();
        let path = mount.path("blob/large");
        let mut chance = Chance(seed);
        let mut file = writable(&path);
        for round in 0..400 {
            let at = chance.below(SIZE + MIB);
            match chance.below(20) {
                0..8 => {
                    let length = 1 + chance.below(3 * 4096);
                    write_at(&mut model, &file, at, &noise(round, length));
                }
                8 => {
                    file.set_len(at as u64).expect("truncate");
                    model.resize(at, 0);
                    // Not to be left with nothing.
                    file.set_len(SIZE as u64).expect("truncate");
                    model.resize(SIZE, 0);
                }
                9 => {
                    let end = (at + 70_000).min(model.len());
                    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                    fallocate(&file, punch, at as u64, 70_000).expect("punch");
                    model[at.min(end)..end].fill(0);
                }
                10 => file.sync_all().expect("fsync"),
                11 => {
                    drop(file);
                    file = writable(&path);
                }
                12 if round % 7 == 0 => {
                    drop(file);
                    mount.flush();
                    assert!(tiers.expect_blob("blob/large") == model, "{mode:?} {round}: at home");
                    file = writable(&path);
                }
                13 if round % 5 == 0 => {
                    mount.kill9();
                    drop(file);
                    mount.remount();
                    file = writable(&path);
                }
                _ => {
                    let length = (1 + chance.below(200_000)).min(model.len().saturating_sub(at));
                    let mut bytes = vec![0; length];
                    file.read_exact_at(&mut bytes, at as u64).expect("a read");
                    assert!(bytes == model[at.min(model.len())..][..length], "{mode:?} {round}: at {at}");
                }
            }
        }
        assert!(fs::read(&path).expect("a read") == model, "{mode:?}");
        drop(file);
        mount.flush_path("blob/large");
        assert!(tiers.expect_blob("blob/large") == model, "{mode:?}: at home");
    }
}

/// Numbers that are the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("a number") % end
    }
}

#[test]
fn what_was_only_opened_leaves_nothing() {
    for mode in [Mode::Ordinary, Mode::Passthrough] {
        let server = BlobServer::start();
        let (tiers, model) = with_large(&server);
        let mount = Mount::of(&tiers).mode(mode).start();
        server.clear_log();
        drop(writable(&mount.path("blob/large")));
        wait::until("the stage to be empty", || tiers.staged().is_empty());
        mount.flush();
        assert_eq!(sent_of(&server), 0);
        assert!(fs::read(mount.path("blob/large")).expect("a read") == model);
    }
}

/// Makes what lies on the stage be of an earlier start of the machine.
fn restart_machine(tiers: &Tiers) {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot id");
    let (boot, other) = (boot.trim().as_bytes(), boot.trim().replace(|c: char| c != '-', "0"));
    let stage = tiers.scratch.join(".tierfs/stage");
    for name in crate::support::site::files_below(&stage) {
        let path = stage.join(&name);
        if name.ends_with("owner") || name.ends_with(".map") {
            let mut bytes = fs::read(&path).expect("a file");
            // What is left of a start before that has another.
            let Some(at) = bytes.windows(boot.len()).position(|window| window == boot) else { continue };
            bytes[at..at + boot.len()].copy_from_slice(other.as_bytes());
            fs::write(&path, bytes).expect("a write");
        }
    }
}

#[test]
fn a_power_loss_leaves_what_was_synced_or_what_home_has() {
    let server = BlobServer::start();
    let (tiers, mut model) = with_large(&server);
    let mut mount = Mount::of(&tiers).start();
    let path = mount.path("blob/large");
    let file = writable(&path);
    file.write_all_at(b"never synced", 5 * MIB as u64).expect("a write");
    mount.kill9();
    restart_machine(&tiers);
    mount.remount();
    drop(file);
    assert!(fs::read(&path).expect("a read") == model, "home's version");
    let lost = mount.tierfs(&["tier", "lost"]);
    assert!(lost.contains("blob/large"), "{lost}");
    let file = writable(&path);
    write_at(&mut model, &file, 6 * MIB, b"synced");
    file.sync_all().expect("fsync");
    file.write_all_at(b"not synced", 7 * MIB as u64).expect("a write");
    mount.kill9();
    restart_machine(&tiers);
    mount.remount();
    drop(file);
    assert!(fs::read(&path).expect("a read") == model, "what was synced, the rest as in the base");
    let file = writable(&path);
    write_at(&mut model, &file, 8 * MIB, b"goes on");
    drop(file);
    mount.flush();
    assert!(tiers.expect_blob("blob/large") == model);
}

#[test]
fn an_open_that_dies_half_way_changes_nothing() {
    let server = BlobServer::start();
    let (tiers, model) = with_large(&server);
    let mut mount = Mount::of(&tiers).environment("TIERFS_CRASH_AT", "generation_begun").start();
    File::options().write(true).open(mount.path("blob/large")).expect_err("the daemon dies");
    mount.wait_for_end();
    mount.set_environment("TIERFS_CRASH_AT", "");
    mount.remount();
    assert!(fs::read(mount.path("blob/large")).expect("a read") == model);
    mount.flush();
    wait::until("the stage to be empty", || tiers.staged().is_empty());
    assert!(tiers.expect_blob("blob/large") == model);
}
