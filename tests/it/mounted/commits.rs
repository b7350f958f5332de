//! What fsync and close say where they wait for the commit at home.

use crate::support::blob_server::{BlobServer, Effect, Operation, WRITES, When};
use crate::support::mount::{end_with_us, on_own_server};
use crate::support::{BOTH, Mode, Mount, Tiers, noise, wait};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Nothing is committed for an hour unless somebody waits for it.
const RULES: &str = r#"
[[rule]]
path = "home/**"
home = "blob"
stage = "scratch"
fsync = "home"
settle = "1h"

[[rule]]
path = "through/**"
home = "blob"
stage = "scratch"
write = "through"
settle = "1h"

[[rule]]
path = "open/**"
home = "blob"
stage = "scratch"
open_upload = "1s"
settle = "0s"

[[rule]]
path = "run/**"
home = "blob"
stage = "scratch"
settle = "0s"

[[rule]]
path = "**"
home = "scratch"
"#;

fn rig(mode: Mode) -> (BlobServer, Tiers, Mount) {
    on_own_server(RULES, mode, &["home", "through", "open", "run"])
}

/// close(2), which the standard library does not ask for its answer.
fn close(file: File) -> io::Result<()> {
    // SAFETY: the descriptor is ours, and nobody uses it afterwards.
    match unsafe { libc::close(file.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Writes a file and tells what close says.
fn write(mount: &Mount, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(mount.path(name))?;
    file.write_all(bytes)?;
    close(file)
}

fn errno(result: io::Result<()>) -> i32 {
    result.expect_err("a failure").raw_os_error().expect("an errno")
}

/// How often bytes were made visible.
fn commits(server: &BlobServer) -> usize {
    server.count(Operation::PutBlob) + server.count(Operation::PutBlockList)
}

#[test]
fn fsync_returns_after_the_commit_at_home() {
    for mode in BOTH {
        let (server, tiers, mount) = rig(mode);
        server.clear_log();
        let (first, more) = (noise(1, 9 << 20), noise(2, 1 << 20));
        let mut file = File::create(mount.path("home/f")).expect("create");
        file.write_all(&first).expect("a write");
        assert_eq!(tiers.blob("home/f"), None);
        file.sync_all().expect("fsync");
        assert!(tiers.blob("home/f").as_deref() == Some(&first[..]), "what was synced is at home");
        file.write_all(&more).expect("a write");
        assert!(tiers.expect_blob("home/f") == first, "and a whole version of it");
        file.sync_data().expect("fdatasync");
        let both = [&first[..], &more].concat();
        assert!(tiers.expect_blob("home/f") == both);
        // Nothing is new.
        file.sync_all().expect("fsync");
        close(file).expect("close");
        mount.flush();
        assert_eq!(commits(&server), 2, "each version went there once");
        assert!(fs::read(mount.path("home/f")).expect("a read") == both);
        assert_eq!(tiers.staged(), Vec::<String>::new());
    }
}

#[test]
fn close_returns_after_the_commit_where_the_rule_writes_through() {
    for mode in BOTH {
        let (server, tiers, mount) = rig(mode);
        server.clear_log();
        let bytes = noise(1, 9 << 20);
        write(&mount, "through/f", &bytes).expect("close");
        assert!(tiers.blob("through/f").as_deref() == Some(&bytes[..]), "at home before close returned");
        write(&mount, "through/empty", b"").expect("close");
        assert_eq!(tiers.blob("through/empty"), Some(Vec::new()));
        // The end of the writes is known.
        mount.flush();
        // A descriptor that only reads, and one that changes nothing, have nothing to wait for.
        close(File::open(mount.path("through/f")).expect("open")).expect("close");
        close(File::options().write(true).open(mount.path("through/f")).expect("open")).expect("close");
        mount.flush();
        assert_eq!(commits(&server), 2);
        let file = File::options().write(true).open(mount.path("through/f")).expect("open");
        file.write_all_at(b"changed", 5).expect("a write");
        close(file).expect("close");
        let now = fs::read(mount.path("through/f")).expect("a read");
        assert!(now[5..12] == *b"changed" && tiers.expect_blob("through/f") == now);
    }
}

#[test]
fn every_descriptor_of_a_file_written_through_waits_for_what_it_closed() {
    for mode in BOTH {
        let (_server, tiers, mount) = rig(mode);
        let one = File::create(mount.path("through/f")).expect("create");
        let two = one.try_clone().expect("dup");
        one.write_all_at(b"one", 0).expect("a write");
        close(one).expect("close");
        assert_eq!(tiers.expect_blob("through/f"), b"one", "though it is still open");
        two.write_all_at(b"two!", 0).expect("a write");
        assert_eq!(tiers.expect_blob("through/f"), b"one");
        close(two).expect("close");
        assert_eq!(tiers.expect_blob("through/f"), b"two!");
    }
}

#[test]
fn what_passes_by_itself_is_waited_for() {
    for mode in BOTH {
        let (server, tiers, mount) = rig(mode);
        for (name, effect) in
            [("busy", Effect::busy(0)), ("cut", Effect::Drop), ("lost", Effect::ApplyThenDrop)]
        {
            server.fault(When::operation(&WRITES).name(name).times(6), effect);
            let bytes = noise(7, 9 << 20);
            write(&mount, &format!("through/{name}"), &bytes).expect(name);
            assert!(tiers.expect_blob(&format!("through/{name}")) == bytes);
            let file = File::create(mount.path(&format!("home/{name}"))).expect("create");
            file.write_all_at(&bytes, 0).expect("a write");
            file.sync_all().expect(name);
            assert!(tiers.expect_blob(&format!("home/{name}")) == bytes);
            server.clear_faults();
        }
        assert_eq!(fs::read_dir(mount.path("through")).expect("a listing").count(), 3, "no conflict copies");
    }
}

#[test]
fn a_refusal_is_told_and_nothing_is_lost() {
    for mode in BOTH {
        let (server, tiers, mount) = rig(mode);
        for (name, effect, expected) in
            [("denied", Effect::DENIED, libc::EACCES), ("refused", Effect::REFUSED, libc::EIO)]
        {
            server.fault(When::operation(&WRITES), effect);
            assert_eq!(errno(write(&mount, &format!("through/{name}"), b"text")), expected, "close, {name}");
            let mut file = File::create(mount.path(&format!("home/{name}"))).expect("create");
            file.write_all(b"text").expect("a write");
            assert_eq!(errno(file.sync_all()), expected, "fsync, {name}");
            server.clear_faults();
            file.sync_all().expect("fsync once it is allowed");
            assert_eq!(tiers.expect_blob(&format!("home/{name}")), b"text");
            drop(file);
            mount.flush();
            assert_eq!(tiers.expect_blob(&format!("through/{name}")), b"text");
        }
    }
}

#[test]
fn a_home_that_stays_busy_is_waited_for_to_its_deadline() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let mount = Mount::of(&tiers).rules(RULES).default_revalidate().blob_key("deadline = \"2s\"").start();
    fs::create_dir(mount.path("through")).expect("mkdir");
    mount.flush();
    server.fault(When::operation(&WRITES), Effect::busy(0));
    let told = errno(write(&mount, "through/f", b"text"));
    assert!([libc::EIO, libc::ETIMEDOUT].contains(&told), "{told}");
    server.clear_faults();
    wait::until("the commit all the same", || tiers.blob("through/f").as_deref() == Some(b"text"));
}

#[test]
fn a_conflict_is_told_and_both_versions_are_kept() {
    for mode in BOTH {
        let (_server, tiers, mount) = rig(mode);
        write(&mount, "through/f", b"first").expect("close");
        let file = File::options().write(true).open(mount.path("through/f")).expect("open");
        tiers.put_blob("through/f", b"theirs");
        file.write_all_at(b"ours!", 0).expect("a write");
        assert_eq!(errno(close(file)), libc::ESTALE);
        assert_eq!(tiers.expect_blob("through/f"), b"theirs");
        let names = tiers.blob_file_names();
        let copy =
            names.iter().find(|name| name.starts_with("through/f.conflict-")).expect("a conflict copy");
        assert_eq!(tiers.expect_blob(copy), b"ours!");
    }
}

#[test]
fn what_was_closed_before_goes_first() {
    for mode in BOTH {
        let (server, tiers, mount) = rig(mode);
        server.clear_log();
        let names: Vec<String> = (0..5).map(|i| format!("home/shard-{i}")).collect();
        for name in &names {
            fs::write(mount.path(name), name).expect("a write");
        }
        let mut latest = File::create(mount.path("home/latest")).expect("create");
        latest.write_all(b"shards").expect("a write");
        latest.sync_all().expect("fsync");
        for name in &names {
            assert_eq!(tiers.expect_blob(name), name.as_bytes(), "before what speaks of it");
        }
        let put = server.requests();
        let put: Vec<_> =
            put.iter().filter(|one| one.operation == Operation::PutBlob).map(|one| &one.name).collect();
        assert!(put.last().is_some_and(|name| name.ends_with("home/latest")), "{put:?}");
    }
}

#[test]
fn fsync_of_a_directory_waits_for_the_names_in_it() {
    for mode in BOTH {
        let (_server, tiers, mount) = rig(mode);
        fs::create_dir(mount.path("home/d")).expect("mkdir");
        // Held as long as it has that name: there is nothing to wait for yet.
        let mut file = File::create(mount.path("home/d/f.tmp")).expect("create");
        file.write_all(b"text").expect("a write");
        file.sync_all().expect("fsync");
        assert_eq!(tiers.blob("home/d/f.tmp"), None);
        close(file).expect("close");
        fs::rename(mount.path("home/d/f.tmp"), mount.path("home/d/f")).expect("rename");
        fs::write(mount.path("home/d/g"), "closed").expect("a write");
        File::open(mount.path("home/d")).expect("open").sync_all().expect("fsync");
        assert_eq!(tiers.blob_file_names(), ["home/d/f", "home/d/g"]);
        fs::remove_file(mount.path("home/d/g")).expect("unlink");
        File::open(mount.path("home/d")).expect("open").sync_all().expect("fsync");
        assert_eq!(tiers.blob_file_names(), ["home/d/f"]);
    }
}

/// A program that waits for its commit.
fn waiter(mount: &Mount, name: &str) -> Child {
    let script = "import os, sys, signal
signal.signal(signal.SIGUSR1, lambda *_: (_ for _ in ()).throw(InterruptedError('told')))
f = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
os.write(f, b'text')
print('written', flush=True)
try:
    os.fsync(f) if '/home/' in sys.argv[1] else os.close(f)
except OSError as error:
    print(error.errno or 4, flush=True)
    os._exit(3)
print('done', flush=True)";
    let mut child = Command::new("python3");
    child.args(["-c", script]).arg(mount.path(name)).stdout(Stdio::piped());
    end_with_us(&mut child);
    child.spawn().expect("python3")
}

#[test]
fn a_home_that_never_answers_can_be_interrupted_and_holds_up_nothing_else() {
    for mode in BOTH {
        let (server, tiers, mount) = rig(mode);
        server.fault(When::operation(&WRITES), Effect::Latency(Duration::from_secs(3600)));
        let mut waiters: Vec<Child> = (0..24)
            .map(|i| waiter(&mount, &format!("{}/f{i}", if i % 2 == 0 { "home" } else { "through" })))
            .collect();
        // What is open, and a copy of what was closed.
        wait::until("all of them to wait", || tiers.staged().len() == 48);
        // The daemon serves others meanwhile, on all its threads.
        for i in 0..8 {
            fs::write(mount.path(&format!("other-{i}")), "text").expect("a write elsewhere");
            assert_eq!(fs::metadata(mount.path(&format!("home/f{}", 2 * i))).expect("stat").len(), 4);
        }
        for (i, waiter) in waiters.iter_mut().enumerate() {
            assert!(waiter.try_wait().expect("a look").is_none(), "it waits");
            let signal = if i % 4 < 2 { libc::SIGUSR1 } else { libc::SIGKILL };
            // SAFETY: a child that was not waited for yet.
            assert_eq!(unsafe { libc::kill(waiter.id().cast_signed(), signal) }, 0);
        }
        for (i, waiter) in waiters.into_iter().enumerate() {
            let output = waiter.wait_with_output().expect("an end");
            let killed = output.status.signal() == Some(libc::SIGKILL);
            assert!(killed == (i % 4 >= 2) && !output.stdout.ends_with(b"done\n"), "{i}: {output:?}");
        }
        assert_eq!(tiers.blob_file_names(), Vec::<String>::new());
    }
}

#[test]
fn many_who_sync_the_same_bytes_share_a_commit() {
    for mode in BOTH {
        let (server, tiers, mount) = rig(mode);
        server.clear_log();
        let file = File::create(mount.path("home/f")).expect("create");
        file.write_all_at(&noise(3, 1 << 20), 0).expect("a write");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| file.sync_all().expect("fsync"));
            }
        });
        assert!(tiers.expect_blob("home/f") == noise(3, 1 << 20));
        assert_eq!(commits(&server), 1);
    }
}

#[test]
fn a_mount_where_calls_wait_for_home_survives_a_kill() {
    for mode in BOTH {
        let (server, tiers, mut mount) = rig(mode);
        let file = File::create(mount.path("home/f")).expect("create");
        file.write_all_at(b"synced", 0).expect("a write");
        file.sync_all().expect("fsync");
        server.fault(When::operation(&WRITES), Effect::Latency(Duration::from_secs(3600)));
        let waiting = waiter(&mount, "through/g");
        wait::until("the close to wait", || tiers.staged().len() >= 3);
        mount.kill9();
        server.clear_faults();
        let output = waiting.wait_with_output().expect("an end");
        assert!(!output.stdout.ends_with(b"done\n"), "nobody said that it is at home: {output:?}");
        drop(file);
        mount.remount();
        assert_eq!(fs::read(mount.path("home/f")).expect("a read"), b"synced");
        assert_eq!(fs::read(mount.path("through/g")).expect("a read"), b"text");
        mount.flush_path("through");
        mount.flush_path("home");
        assert_eq!(tiers.expect_blob("through/g"), b"text");
        assert_eq!(tiers.expect_blob("home/f"), b"synced");
    }
}

#[test]
fn a_file_that_is_gone_before_its_commit_keeps_nobody_waiting() {
    for mode in BOTH {
        let (server, tiers, mount) = rig(mode);
        server.fault(When::operation(&WRITES), Effect::Latency(Duration::from_secs(3600)));
        let waiting = waiter(&mount, "through/f");
        wait::until("it to wait", || tiers.staged().len() >= 2);
        fs::remove_file(mount.path("through/f")).expect("unlink");
        let output = waiting.wait_with_output().expect("an end");
        assert!(output.stdout.ends_with(b"done\n"), "{output:?}");
        let gone = fs::metadata(mount.path("through/f")).expect_err("it is gone").kind();
        assert_eq!(gone, ErrorKind::NotFound);
    }
}

#[test]
fn what_stays_open_goes_home_every_so_often() {
    for mode in BOTH {
        let (server, tiers, mount) = rig(mode);
        server.clear_log();
        let mut log = File::create(mount.path("open/log")).expect("create");
        log.write_all(b"one").expect("a write");
        wait::until("the first version", || tiers.blob("open/log").as_deref() == Some(b"one"));
        log.write_all(b" two").expect("a write");
        wait::until("the second", || tiers.blob("open/log").as_deref() == Some(b"one two"));
        assert_eq!(commits(&server), 2);
        // By now what did not change was looked at several times more.
        let mut other = File::create(mount.path("open/other")).expect("create");
        other.write_all(b"text").expect("a write");
        wait::until("another file", || tiers.blob("open/other").is_some());
        assert_eq!(commits(&server), 3, "what did not change stays as it is");
        close(log).expect("close");
        close(other).expect("close");
        mount.flush();
        assert_eq!(commits(&server), 3);
        assert_eq!(fs::read(mount.path("open/log")).expect("a read"), b"one two");
    }
}

#[test]
fn a_file_that_was_closed_and_stays_open_elsewhere_holds_nobody_up() {
    for mode in BOTH {
        let (server, tiers, mount) = rig(mode);
        server.clear_log();
        // As after a fork: the child has the descriptor too.
        let parent = File::create(mount.path("run/shard")).expect("create");
        let child = parent.try_clone().expect("dup");
        parent.write_all_at(b"shard", 0).expect("a write");
        close(parent).expect("close");
        fs::write(mount.path("run/latest"), "shard").expect("a write");
        wait::until("what was closed after it", || tiers.blob("run/latest").is_some());
        assert_eq!(tiers.expect_blob("run/shard"), b"shard", "it went first, as it was closed");
        assert_eq!(commits(&server), 2);
        child.write_all_at(b"again", 0).expect("a write");
        close(child).expect("close");
        wait::until("its second version", || tiers.expect_blob("run/shard") == b"again");
        assert_eq!(fs::read(mount.path("run/shard")).expect("a read"), b"again");
    }
}

#[test]
fn a_flush_takes_what_was_closed_of_a_file_that_stays_open() {
    for mode in BOTH {
        let (_server, tiers, mount) = rig(mode);
        let parent = File::create(mount.path("home/shard")).expect("create");
        let child = parent.try_clone().expect("dup");
        parent.write_all_at(b"shard", 0).expect("a write");
        close(parent).expect("close");
        mount.flush_path("home/shard");
        assert_eq!(tiers.expect_blob("home/shard"), b"shard");
        close(child).expect("close");
        mount.flush();
        assert_eq!(tiers.staged(), Vec::<String>::new());
    }
}

#[test]
fn what_mkdir_and_rename_answered_is_there_after_a_kill() {
    for mode in BOTH {
        let (_server, _tiers, mut mount) = rig(mode);
        for round in 0..4 {
            let made = ["home", "through", "."].map(|place| format!("{place}/d{round}"));
            for name in &made {
                fs::create_dir(mount.path(&format!("{name}-old"))).expect("mkdir");
                fs::rename(mount.path(&format!("{name}-old")), mount.path(name)).expect("rename");
                fs::create_dir(mount.path(&format!("{name}/in"))).expect("mkdir");
                if round % 2 == 1 {
                    File::open(mount.path(name)).expect("open").sync_all().expect("fsync");
                }
            }
            mount.kill9();
            mount.remount();
            for name in &made {
                assert!(fs::metadata(mount.path(&format!("{name}/in"))).expect(name).is_dir());
                let old = fs::metadata(mount.path(&format!("{name}-old"))).expect_err(name);
                assert_eq!(old.kind(), ErrorKind::NotFound);
            }
        }
    }
}

#[test]
fn a_kill_between_a_close_and_its_release_leaves_nothing_open() {
    for mode in BOTH {
        let (_server, tiers, mut mount) = rig(mode);
        // Closed and at home, and still open for the daemon.
        let one = File::create(mount.path("through/f")).expect("create");
        let two = one.try_clone().expect("dup");
        one.write_all_at(b"text", 0).expect("a write");
        close(one).expect("close");
        mount.kill9();
        drop(two);
        mount.remount();
        fs::rename(mount.path("through/f"), mount.path("through/g")).expect("rename");
        mount.flush();
        assert_eq!(tiers.blob_file_names(), ["through/g"]);
        assert_eq!(tiers.staged(), Vec::<String>::new());
        assert_eq!(fs::read(mount.path("through/g")).expect("a read"), b"text");
    }
}

#[test]
fn a_rename_before_a_file_is_written_again_takes_its_old_name_from_home() {
    for mode in BOTH {
        let (_server, tiers, mount) = rig(mode);
        fs::write(mount.path("home/f"), "one").expect("a write");
        mount.flush();
        let mut file = File::options().append(true).open(mount.path("home/f")).expect("open");
        file.write_all(b" two").expect("a write");
        let other = file.try_clone().expect("dup");
        close(other).expect("close");
        fs::rename(mount.path("home/f"), mount.path("home/g")).expect("rename");
        file.sync_all().expect("fsync");
        assert_eq!(tiers.expect_blob("home/g"), b"one two");
        close(file).expect("close");
        mount.flush();
        assert_eq!(tiers.blob_file_names(), ["home/g"]);
    }
}

#[test]
fn what_was_synced_of_an_open_file_is_there_after_a_kill() {
    for mode in BOTH {
        let (_server, tiers, mut mount) = rig(mode);
        for place in ["run", "through"] {
            fs::write(mount.path(&format!("{place}/f")), "before").expect("a write");
        }
        mount.flush();
        let mut open = Vec::new();
        // The sizes are the same, and the times may be set to what they were.
        for place in ["run", "through"] {
            let path = mount.path(&format!("{place}/f"));
            let times = fs::metadata(&path).expect("stat").modified().expect("a time");
            let file = File::options().write(true).open(&path).expect("open");
            file.write_all_at(b"after!", 0).expect("a write");
            if place == "run" {
                file.sync_all().expect("fsync");
            } else {
                file.set_modified(times).expect("utimes");
            }
            open.push(file);
        }
        mount.kill9();
        drop(open);
        mount.remount();
        for place in ["run", "through"] {
            let path = mount.path(&format!("{place}/f"));
            assert_eq!(fs::read(&path).expect("a read"), b"after!", "kept and shown");
            drop(File::options().append(true).open(&path).expect("open"));
        }
        mount.flush();
        assert_eq!(tiers.expect_blob("run/f"), b"after!");
        assert_eq!(tiers.expect_blob("through/f"), b"after!");
    }
}
