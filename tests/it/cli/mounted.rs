//! The commands against a fake mount.

use super::fake::{DeadMount, FakeMount, PID, Socket};
use super::{Place, tierfs, tierstat};
use std::fs::File;
use std::process::{Command, Stdio};
use tierfs::control::protocol::{Drained, Phase, QueueRow, Warmed};

fn left(files_left: u64, open_left: u64) -> Drained {
    Drained { files_left, bytes_left: files_left << 20, open_left, timed_out: true, ..Drained::default() }
}

#[test]
fn tierstat_shows_a_mount_with_or_without_its_socket() {
    for socket in [Socket::InSight, Socket::OutOfSight] {
        let mount = FakeMount::new(socket);
        let point = mount.path("mnt");
        tierstat(&[&point]).prints(&["! the fake needs a person", "ordinary I/O: a fake", "scratch", "blob"]);
        let json = tierstat(&["--json".as_ref(), point.as_os_str()]);
        let status: serde_json::Value = serde_json::from_str(&json.out).expect("JSON");
        assert_eq!((&status["schema"], &status["version"]), (&1.into(), &"fake".into()));
        tierstat(&["ls".as_ref(), point.as_os_str()]).prints(&[
            "sB     clean      2.5/d",
            "5 B  file\n",
            "capital: home",
        ]);
        let json = tierstat(&["ls".as_ref(), "--json".as_ref(), "-R".as_ref(), point.as_os_str()]);
        let row: serde_json::Value = serde_json::from_str(&json.out).expect("one line of JSON");
        assert_eq!(row["path"], "file");
    }
}

#[test]
fn tierstat_implies_the_mount_around_it() {
    let mount = FakeMount::new(Socket::InSight);
    let output = Command::new(env!("CARGO_BIN_EXE_tierstat"))
        .current_dir(mount.path("mnt"))
        .output()
        .expect("the binary");
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("a fake"));
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let mount = FakeMount::new(Socket::InSight);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_tierstat"))
        .arg(mount.path("mnt"))
        .stdout(Stdio::from(writer))
        .stderr(Stdio::piped())
        .output()
        .expect("the binary");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn a_path_that_is_not_there_is_said_to_be() {
    let mount = FakeMount::new(Socket::InSight);
    tierstat(&["ls".as_ref(), mount.path("mnt/nothing").as_os_str()])
        .refuses(1, &["nothing", "no such file"]);
    tierfs(&["flush".as_ref(), mount.path("mnt/nothing").as_os_str()]).refuses(1, &["nothing"]);
}

#[test]
fn the_queue_is_shown_page_by_page_by_both_programs() {
    let mount = FakeMount::new(Socket::InSight);
    let point = mount.path("mnt");
    let arguments = ["queue".as_ref(), point.as_os_str()];
    tierfs(&arguments).prints(&["nothing: all is home"]);
    let step = |seq: u64| -> QueueRow {
        serde_json::from_value(serde_json::json!({
            "seq": seq, "domain": "rule0", "what": "write", "path": format!("f{seq}"), "age_s": 3,
            "state": if seq == 1 { "blocked" } else { "frozen" }, "error": "says no",
        }))
        .expect("a row, also of a newer daemon")
    };
    mount.daemon.script.lock().queue = (1..=5).map(step).collect();
    let listed = tierfs(&arguments);
    listed.prints(&["  PATH\n", "f1: says no; needs a person\n", "f5"]);
    assert_eq!(listed.out.lines().count(), 6);
    assert_eq!(tierstat(&arguments).out, listed.out);
    let json = tierstat(&["queue".as_ref(), "--json".as_ref(), point.as_os_str()]);
    assert_eq!(json.out.lines().count(), 5);
    tierfs(&["queue".as_ref(), "retry".as_ref(), mount.path("mnt/file").as_os_str()])
        .prints(&["file: 1 step tried again now"]);
    tierfs(&["queue".as_ref(), "retry".as_ref(), mount.path("mnt/none").as_os_str()])
        .refuses(1, &["not in the queue"]);
    let none = FakeMount::new(Socket::OutOfSight);
    tierfs(&["queue".as_ref(), none.path("mnt").as_os_str()]).refuses(1, &["no daemon answers"]);
}

#[test]
fn path_prints_where_the_bytes_are() {
    let mount = FakeMount::new(Socket::InSight);
    let told = tierfs(&["path".as_ref(), mount.path("mnt/file").as_os_str()]);
    assert_eq!((told.code, told.out.as_str()), (Some(0), "/native/file\n"), "{told:?}");
    tierfs(&["path".as_ref(), mount.path("mnt").as_os_str()]).refuses(1, &["no copy of it"]);
}

#[test]
fn flush_takes_paths_and_says_what_is_left() {
    let mount = FakeMount::new(Socket::InSight);
    let (point, file) = (mount.path("mnt"), mount.path("mnt/file"));
    let flush = || tierfs(&["flush".as_ref(), point.as_os_str(), file.as_os_str()]);
    flush().prints(&[]);
    assert_eq!(*mount.daemon.flushed.lock(), ["", "file"]);
    mount.daemon.script.lock().drained = left(3, 1);
    flush().refuses(4, &["3 files, 3.0 MiB not home yet", "1 of them open"]);
    mount.daemon.script.lock().drained = left(1, 1);
    flush().refuses(1, &["1 file"]);
    mount.daemon.flushed.lock().clear();
    let check = || tierfs(&["flush".as_ref(), "--check".as_ref(), point.as_os_str()]);
    check().refuses(1, &["1 file"]);
    mount.daemon.script.lock().drained = left(0, 0);
    check().prints(&[]);
    assert!(mount.daemon.flushed.lock().is_empty(), "--check flushes nothing");
}

#[test]
fn warm_takes_paths_and_says_what_came_of_it() {
    let mount = FakeMount::new(Socket::InSight);
    let (point, file) = (mount.path("mnt"), mount.path("mnt/file"));
    let warm = || tierfs(&["warm".as_ref(), point.as_os_str(), file.as_os_str()]);
    let warmed = Warmed { fetched_files: 1, rehydrating_files: 2, ..Warmed::default() };
    mount.daemon.script.lock().warmed = warmed.clone();
    warm().prints(&["1 file, 0 B fetched", "2 files, 0 B in the archive", "15 hours"]);
    assert_eq!(*mount.daemon.flushed.lock(), ["", "file"]);
    mount.daemon.script.lock().warmed = Warmed { timed_out: true, files_left: 3, ..warmed.clone() };
    warm().refuses(4, &["3 files", "out of time"]);
    mount.daemon.script.lock().warmed =
        Warmed { failed_files: 1, reason: Some("disk full".into()), ..warmed };
    warm().refuses(1, &["could not be warmed: disk full"]);
}

#[test]
fn unmount_drains_and_sees_the_daemon_off() {
    let mut mount = FakeMount::new(Socket::InSight);
    let point = mount.path("mnt");
    mount.daemon.script.lock().drained = Drained { files_done: 2, bytes_done: 2 << 20, ..Drained::default() };
    let told = mount.until_the_end(|| tierfs(&["unmount".as_ref(), point.as_os_str()]));
    told.prints(&["unmounted, 2 files, 2.0 MiB committed"]);
    assert!(!mount.is_mounted());
    tierfs(&["unmount".as_ref(), point.as_os_str()]).refuses(3, &["is not in a tierfs mount"]);
}

#[test]
fn unmount_that_runs_out_of_time_keeps_everything() {
    let mut mount = FakeMount::new(Socket::InSight);
    let point = mount.path("mnt");
    mount.daemon.script.lock().drained = left(2, 0);
    let arguments = ["unmount".as_ref(), point.as_os_str(), "--timeout".as_ref(), "1s".as_ref()];
    let told = mount.until_the_end(|| tierfs(&arguments));
    told.refuses(4, &["2 files, 2.0 MiB not home yet", "stays mounted"]);
    assert!(mount.is_mounted());
}

#[test]
fn unmount_of_a_mount_in_use_says_so() {
    let mut mount = FakeMount::new(Socket::InSight);
    let point = mount.path("mnt");
    let user = File::open(&point).expect("the root");
    let told = mount.until_the_end(|| tierfs(&["unmount".as_ref(), point.as_os_str()]));
    told.refuses(1, &["is in use", "fuser -vm"]);
    assert!(mount.is_mounted());
    drop(user);
}

#[test]
fn unmount_without_a_socket_in_sight_unmounts() {
    let mount = FakeMount::new(Socket::OutOfSight);
    tierfs(&["unmount".as_ref(), mount.path("mnt").as_os_str()]).prints(&["unmounted", "out of reach"]);
}

#[test]
fn unmount_wants_the_mount_point_itself() {
    let mount = FakeMount::new(Socket::InSight);
    tierfs(&["unmount".as_ref(), mount.path("mnt/file").as_os_str()]).refuses(2, &["lies inside the mount"]);
    assert!(mount.is_mounted());
}

#[test]
fn a_dead_mount_is_named_and_taken_away() {
    let dead = DeadMount::new();
    let point = dead.point();
    tierstat(&[&point]).refuses(1, &["is gone", "tierfs unmount"]);
    tierfs(&["flush".as_ref(), point.as_os_str()]).refuses(1, &["is gone"]);
    tierfs(&["mount"]).prints(&["dead: its daemon is gone"]);
    tierfs(&["unmount".as_ref(), point.as_os_str()]).prints(&["the dead mount is taken away"]);
    assert!(std::fs::metadata(&point).is_ok_and(|found| found.is_dir()));
}

#[test]
fn mount_cleans_a_dead_mount_up_and_goes_on() {
    let dead = DeadMount::new();
    let place = Place::new();
    place.write_config(&place.string("no-such-tier"));
    let arguments = ["mount", &place.string("x.toml"), &dead.point().display().to_string(), "--foreground"];
    let told = tierfs(&arguments);
    told.refuses(1, &["took away the dead mount"]);
    assert!(std::fs::metadata(dead.point()).is_ok());
}

#[test]
fn mount_over_a_mount_names_it() {
    let mount = FakeMount::new(Socket::InSight);
    let place = Place::new();
    let told = tierfs(&["mount", &place.string("x.toml"), &mount.path("mnt").display().to_string()]);
    told.refuses(1, &["is already mounted", &format!("pid {PID}")]);
    place.is_untouched();
}

#[test]
fn a_config_that_is_mounted_elsewhere_is_named() {
    let mount = FakeMount::new(Socket::InSight);
    let place = Place::new();
    use_socket_of(&place, &mount);
    place.mount().refuses(1, &["this config is mounted already", "mnt"]);
    place.is_untouched();
}

#[test]
fn a_mount_waits_for_a_daemon_that_drains() {
    let mut mount = FakeMount::new(Socket::InSight);
    mount.daemon.script.lock().phase = Phase::Draining;
    let place = Place::new();
    use_socket_of(&place, &mount);
    let point = mount.path("mnt");
    let told = mount.until_the_end(|| {
        let waiting = Command::new(env!("CARGO_BIN_EXE_tierfs"))
            .args(["mount", &place.string("x.toml"), &place.string("mnt"), "--foreground"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary");
        // The old daemon ends only after the new mount has said that it waits.
        super::speak_then(waiting, "waiting for it", || {
            rustix::mount::unmount(&point, rustix::mount::UnmountFlags::DETACH).expect("an unmount");
        })
    });
    assert!(told.contains("waiting for it"), "{told}");
    assert!(told.contains("error: "), "without a tier it fails after the wait: {told}");
}

/// The config of `place`, with a tier that is not there and the control socket of `mount`.
fn use_socket_of(place: &Place, mount: &FakeMount) {
    place.write_config(&place.string("no-such-tier"));
    let config = std::fs::read_to_string(place.path("x.toml")).expect("a config");
    let config =
        config.replace(&place.string("control.sock"), &mount.path("control.sock").display().to_string());
    std::fs::write(place.path("x.toml"), config).expect("a config");
}
