//! Writers wait for room while waiting can help, and never for what nobody can commit.

use crate::support::blob_server::{BlobServer, Effect, WRITES, When};
use crate::support::mount::on_own_server;
use crate::support::{BOTH, Mode, Mount, Over, Tiers, noise, wait};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

/// At most a mebibyte of `blob/**` may be dirty; nothing is committed for an hour unless somebody waits.
const RULES: &str = r#"
[[rule]]
path = "blob/**"
home = "blob"
stage = "scratch"
settle = "1h"
dirty_max = "1MiB"

[[rule]]
path = "other/**"
home = "blob"
stage = "scratch"
settle = "1h"

[[rule]]
path = "**"
home = "scratch"
"#;

fn rig(mode: Mode) -> (BlobServer, Tiers, Mount) {
    on_own_server(RULES, mode, &["blob", "blob/d", "other"])
}

/// The sums that decide may be some milliseconds old, and a close may be on its way: here they are of now.
fn until_known(mount: &Mount, bytes: u64) {
    wait::until("the sums to be of now", || {
        let status = mount.status();
        if status["dirty"]["open_files"] != 0 || !status["over"].as_array().expect("a list").is_empty() {
            return false;
        }
        let blob =
            status["tiers"].as_array().expect("tiers").iter().find(|tier| tier["name"] == "blob").cloned();
        blob.expect("the tier")["dirty_bytes"] == bytes
    });
}

/// A program that writes a file and ends.
fn writer(mount: &Mount, name: &str) -> Child {
    let mut child = Command::new("sh");
    child.args(["-c", "echo text >\"$0\""]).arg(mount.path(name)).stderr(Stdio::null());
    crate::support::mount::end_with_us(&mut child);
    child.spawn().expect("sh")
}

fn waits(mount: &Mount) -> u64 {
    let status = mount.status();
    status["waiting"].as_array().expect("a list").iter().map(|one| one["opens"].as_u64().unwrap_or(0)).sum()
}

#[test]
fn an_open_above_dirty_max_waits_until_there_is_room() {
    for mode in BOTH {
        let (server, tiers, mount) = rig(mode);
        server.fault(When::operation(&WRITES).name("blob/"), Effect::DENIED);
        let bytes = noise(1, 3 << 20);
        fs::write(mount.path("blob/big"), &bytes).expect("the first goes on");
        until_known(&mount, 3 << 20);
        let mut new = writer(&mount, "blob/d/new");
        let mut old = writer(&mount, "blob/big");
        wait::until("both to wait", || waits(&mount) == 2);
        let now = mount.status();
        let why = now["waiting"][0]["why"].as_str().expect("text");
        assert!(why.contains("dirty_max of blob/**") && now["waiting"][0]["since_s"].is_u64(), "{now}");
        assert!(now["attention"].to_string().contains("2 opens for writing wait"), "{now}");
        // Nobody else is held up: readers, other rules, other requests.
        assert!(fs::read(mount.path("blob/big")).expect("a read") == bytes);
        fs::write(mount.path("other/f"), "x").expect("another rule");
        fs::write(mount.path("f"), "x").expect("another home");
        assert!(new.try_wait().expect("a look").is_none() && old.try_wait().expect("a look").is_none());
        let said = mount.log().lines().filter(|line| line.contains("opens for writing wait")).count();
        assert_eq!(said, 1, "{}", mount.log());
        server.clear_faults();
        // It need not settle while somebody waits for it.
        assert!(new.wait().expect("its end").success() && old.wait().expect("its end").success());
        assert_eq!(waits(&mount), 0);
        mount.flush();
        assert_eq!(tiers.expect_blob("blob/d/new"), b"text\n");
        assert_eq!(tiers.expect_blob("blob/big"), b"text\n");
    }
}

/// Whoever gives up gets away, by a signal it takes or by one that kills it.
#[test]
fn a_waiting_open_can_be_interrupted() {
    let (server, _tiers, mount) = rig(Mode::Ordinary);
    server.fault(When::operation(&WRITES).name("blob/"), Effect::DENIED);
    fs::write(mount.path("blob/big"), noise(1, 2 << 20)).expect("the first goes on");
    until_known(&mount, 2 << 20);
    let mut killed = writer(&mount, "blob/d/killed");
    wait::until("it to wait", || waits(&mount) == 1);
    killed.kill().expect("SIGKILL");
    assert_eq!(killed.wait().expect("its end").signal(), Some(9));
    wait::until("its request to be free", || waits(&mount) == 0);

    let script = "import signal, sys\n\
                  def stop(*_): raise KeyboardInterrupt\n\
                  signal.signal(signal.SIGTERM, stop)\n\
                  try: open(sys.argv[1], 'w')\n\
                  except KeyboardInterrupt: sys.exit(7)\n";
    let mut stopped =
        Command::new("python3").args(["-c", script]).arg(mount.path("blob/stopped")).spawn().expect("python");
    wait::until("it to wait", || waits(&mount) == 1);
    rustix::process::kill_process(rustix::process::Pid::from_child(&stopped), rustix::process::Signal::TERM)
        .expect("SIGTERM");
    assert_eq!(stopped.wait().expect("its end").code(), Some(7));
    assert!(!mount.path("blob/stopped").exists());
    server.clear_faults();
}

/// An open file, or one that is refused, and all behind it: nobody waits for those.
#[test]
fn nobody_waits_for_what_nobody_can_commit() {
    let (server, tiers, mount) = rig(Mode::Ordinary);
    // Closed once, and still open: what is closed after it waits for it.
    let mut open = File::create(mount.path("blob/open")).expect("create");
    open.write_all(&noise(1, 2 << 20)).expect("a write");
    drop(File::options().append(true).open(mount.path("blob/open")).expect("open"));
    drop(open.try_clone().expect("dup"));
    fs::write(mount.path("blob/behind"), noise(2, 2 << 20)).expect("it goes on");
    fs::write(mount.path("blob/more"), "more").expect("it goes on");
    wait::until("it to be shouted", || !mount.status()["over"].as_array().expect("a list").is_empty());
    let health = Command::new(env!("CARGO_BIN_EXE_tierstat")).arg("health").arg(mount.root()).output();
    let health = health.expect("tierstat");
    assert_eq!(health.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&health.stdout).contains("nothing of it can be committed"));
    drop(open);
    fs::write(mount.path("blob/after"), "after").expect("it goes on once there is room");
    mount.flush();

    // Its name is to be another soon.
    fs::write(mount.path("blob/held.tmp"), noise(5, 2 << 20)).expect("a write");
    fs::write(mount.path("blob/beside"), "x").expect("it goes on");
    fs::rename(mount.path("blob/held.tmp"), mount.path("blob/held")).expect("a rename");
    mount.flush();

    server.fault(When::operation(&WRITES).name("bad"), Effect::REFUSED);
    fs::write(mount.path("blob/bad"), noise(3, 2 << 20)).expect("a write");
    let late = mount.tierfs_at(&["flush"], &["blob"]);
    assert_eq!(late.status.code(), Some(1));
    fs::write(mount.path("blob/later"), noise(4, 2 << 20)).expect("it goes on");
    fs::write(mount.path("blob/last"), "last").expect("it goes on");
    server.clear_faults();
    mount.flush();
    assert_eq!(tiers.expect_blob("blob/last"), b"last");
}

/// A stage without room for an open is waited for while commits make some, and for no longer than its deadline.
#[test]
fn an_open_on_a_full_stage_waits_while_commits_make_room() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let _stage = Over::small(&tiers.scratch, "24m");
    let old = noise(1, 10 << 20);
    tiers.put_blob("other/old", &old);
    let mount = Mount::of(&tiers).rules(RULES).scratch_key("deadline = \"20s\"").start();
    fs::write(mount.path("other/fills"), noise(2, 18 << 20)).expect("a write");
    // Its old bytes fit only once the others are at home.
    let mut append =
        File::options().append(true).open(mount.path("other/old")).expect("it waits, and then fits");
    append.write_all(b"more").expect("a write");
    drop(append);
    mount.flush();
    assert!(tiers.expect_blob("other/old") == [&old[..], b"more"].concat());
    // What is open can't be committed: no reason to wait.
    let mut open = File::create(mount.path("other/open")).expect("create");
    open.write_all(&noise(3, 18 << 20)).expect("a write");
    let full = File::options().append(true).open(mount.path("other/old")).expect_err("there is no room");
    assert_eq!(full.kind(), ErrorKind::StorageFull);
}
