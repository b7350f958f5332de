//! New bytes for a Blob home: acknowledged, kept through a crash, committed whole and under their own names.

use crate::support::{BOTH, Map, Mode, Mount, Tiers, noise, wait};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::{Command, Stdio};

#[test]
fn native_layout() {
    for mode in BOTH {
        let tiers = Tiers::with_azurite();
        let mount = Mount::of(&tiers).mode(mode).start();
        let big = noise(1, 20 << 20);
        fs::create_dir_all(mount.path("blob/run/step-1")).expect("mkdir");
        fs::write(mount.path("blob/run/step-1/weights.bin"), &big).expect("a write");
        fs::write(mount.path("blob/empty"), "").expect("a write");
        fs::write(mount.path("blob/a b#c%20é.txt"), "odd").expect("a write");
        fs::create_dir_all(mount.path("share/models")).expect("mkdir");
        fs::write(mount.path("share/models/m.bin"), "model").expect("a write");
        fs::write(mount.path("plain"), "scratch").expect("a write");
        mount.flush();
        assert!(tiers.expect_blob("blob/run/step-1/weights.bin") == big, "other bytes on Blob");
        assert_eq!(
            tiers.blob_file_names(),
            ["blob/a b#c%20é.txt", "blob/empty", "blob/run/step-1/weights.bin"]
        );
        assert_eq!(tiers.expect_blob("blob/a b#c%20é.txt"), b"odd");
        assert_eq!(
            (tiers.share_names(), tiers.scratch_names()),
            (vec!["share/models/m.bin".into()], vec!["plain".into()])
        );
        assert_eq!(fs::read(tiers.share.join("share/models/m.bin")).expect("a native file"), b"model");
        assert_eq!(tiers.staged(), Vec::<String>::new(), "committed files leave the stage");
    }
}

#[test]
fn closed_files_reach_blob_by_themselves() {
    let tiers = Tiers::with_azurite();
    let mount = Mount::of(&tiers).start();
    fs::write(mount.path("blob/f"), "bytes").expect_err("no directory yet");
    fs::create_dir(mount.path("blob")).expect("mkdir");
    fs::write(mount.path("blob/f"), "bytes").expect("a write");
    wait::until("the commit", || tiers.blob("blob/f").is_some());
    fs::rename(mount.path("blob/f"), mount.path("blob/g")).expect("rename");
    wait::until("the rename at home", || tiers.blob_file_names() == ["blob/g"]);
    fs::remove_file(mount.path("blob/g")).expect("unlink");
    wait::until("the delete at home", || tiers.blob_file_names().is_empty());
}

#[test]
fn acknowledged_bytes_survive() {
    for mode in BOTH {
        let tiers = Tiers::with_azurite();
        let mut mount = Mount::of(&tiers).mode(mode).start();
        fs::create_dir(mount.path("blob")).expect("mkdir");
        for round in 0..3_u64 {
            let files: Vec<_> =
                (0..20).map(|i| (format!("blob/f{i}"), noise(round * 100 + i, 100_000))).collect();
            for (name, bytes) in &files {
                fs::write(mount.path(name), bytes).expect("a write");
            }
            mount.kill9();
            mount.remount();
            for (name, bytes) in &files {
                assert!(&fs::read(mount.path(name)).expect("a read") == bytes, "{name} after kill -9");
            }
            mount.flush();
            for (name, bytes) in &files {
                assert!(&tiers.expect_blob(name) == bytes, "{name} on Blob");
            }
        }
    }
}

/// The kernel tells of the end of a write after close has returned, and not at all once it is unmounted.
#[test]
fn what_was_closed_just_before_the_end_goes_home() {
    for mode in BOTH {
        let tiers = Tiers::with_directories();
        let mut mount = Mount::of(&tiers).mode(mode).mount_key("drain_timeout = \"20s\"").start();
        fs::create_dir(mount.path("blob")).expect("mkdir");
        for round in 0..5 {
            let names: Vec<_> = (0..20).map(|i| format!("blob/{round}-{i}")).collect();
            let open: Vec<_> =
                names.iter().map(|name| File::create(mount.path(name)).expect("create")).collect();
            for mut file in &open {
                file.write_all(b"text").expect("a write");
            }
            drop(open);
            assert!(mount.terminate().success(), "{}", mount.log());
            for name in &names {
                assert_eq!(tiers.expect_blob(name), b"text", "{name}");
            }
            mount.remount();
        }
    }
}

#[test]
fn unmount_drains() {
    for end in [Mount::unmount, Mount::terminate] {
        let tiers = Tiers::with_azurite();
        // Without the drain, nothing would be uploaded for an hour.
        let rules = "[[rule]]\npath = \"**\"\nhome = \"blob\"\nstage = \"scratch\"\nsettle = \"1h\"\n";
        let mut mount = Mount::of(&tiers).rules(rules).start();
        let bytes = noise(3, 8 << 20);
        fs::write(mount.path("f"), &bytes).expect("a write");
        let status = end(&mut mount);
        assert!(status.success(), "{status}\n{}", mount.log());
        assert!(tiers.expect_blob("f") == bytes);
        mount.remount();
        assert!(fs::read(mount.path("f")).expect("a read") == bytes);
    }
}

#[test]
fn a_writer_that_outlives_the_daemon_gets_no_half_file_committed() {
    for mode in BOTH {
        let tiers = Tiers::with_azurite();
        let mut mount = Mount::of(&tiers).mode(mode).start();
        fs::create_dir(mount.path("blob")).expect("mkdir");
        fs::write(mount.path("blob/before"), "closed before").expect("a write");
        let mut writer = File::create(mount.path("blob/half")).expect("create");
        writer.write_all(&noise(5, 4 << 20)).expect("a write");
        mount.kill9();
        // By passthrough the kernel goes on writing to the stage; otherwise the writer gets an error.
        let goes_on = writer.write_all(&noise(6, 1 << 20)).is_ok();
        mount.remount();
        // What was closed before and after it commits; it does not.
        fs::write(mount.path("blob/later"), "closed after").expect("a write");
        mount.flush_path("blob/before");
        mount.flush_path("blob/later");
        assert_eq!(
            tiers.blob_file_names(),
            ["blob/before", "blob/later"],
            "the writer could go on: {goes_on}"
        );
        assert!(fs::read(mount.path("blob/half")).expect("kept and shown").len() >= 4 << 20);
        drop(writer);
        // Closed again, through the mount, it is whole by its writer's word.
        drop(File::options().append(true).open(mount.path("blob/half")).expect("open"));
        mount.flush_path("blob/half");
        assert!(tiers.expect_blob("blob/half") == fs::read(mount.path("blob/half")).expect("a read"));
    }
}

#[test]
fn a_kill_in_the_middle_of_a_save_leaves_a_whole_version() {
    let tiers = Tiers::with_azurite();
    let mut mount = Mount::of(&tiers).mode(Mode::Passthrough).start();
    fs::create_dir(mount.path("blob")).expect("mkdir");
    let version = |k: u64| noise(k, 2 << 20);
    let mut known = None;
    for k in 0..8_u64 {
        // The saver reports on its pipe after every step, so each round kills after another step.
        let script = "cat >\"$0.tmp\" && echo written && sync \"$0.tmp\" && echo synced && mv \"$0.tmp\" \"$0\" && echo renamed";
        let mut saver = Command::new("sh")
            .args(["-c", script])
            .arg(mount.path("blob/ckpt.pt"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh");
        saver.stdin.take().expect("a pipe").write_all(&version(k)).expect("a pipe");
        let mut reports =
            std::io::BufRead::lines(std::io::BufReader::new(saver.stdout.take().expect("a pipe")));
        let renamed =
            (0..k % 4).map_while(|_| reports.next()).filter_map(Result::ok).any(|line| line == "renamed");
        mount.kill9();
        let renamed = renamed || reports.map_while(Result::ok).any(|line| line == "renamed");
        saver.wait().expect("the saver's end");
        mount.remount();
        let found = fs::read(mount.path("blob/ckpt.pt")).ok();
        let newest = found.as_ref() == Some(&version(k));
        assert!(
            newest || (!renamed && found == known),
            "round {k}: neither the old nor the new version (renamed: {renamed})"
        );
        known = found;
    }
    mount.flush();
    assert_eq!(tiers.blob("blob/ckpt.pt"), known);
}

#[test]
fn an_open_renamed_file_is_committed_once_and_whole() {
    for mode in BOTH {
        let tiers = Tiers::with_azurite();
        let mut mount = Mount::of(&tiers).mode(mode).start();
        fs::create_dir(mount.path("blob")).expect("mkdir");
        let mut open = File::create(mount.path("blob/tmp")).expect("create");
        open.write_all(&[b'A'; 1 << 20]).expect("a write");
        fs::rename(mount.path("blob/tmp"), mount.path("blob/final")).expect("rename");
        open.write_all(&[b'B'; 1 << 20]).expect("a write");
        open.sync_all().expect("fsync");
        drop(open);
        assert!(mount.unmount().success());
        mount.remount();
        let whole = [[b'A'; 1 << 20], [b'B'; 1 << 20]].concat();
        assert!(fs::read(mount.path("blob/final")).expect("a read") == whole);
        assert_eq!(
            fs::metadata(mount.path("blob/tmp")).expect_err("gone").raw_os_error(),
            Some(libc::ENOENT)
        );
        assert_eq!(tiers.blob_file_names(), ["blob/final"]);
        assert!(tiers.expect_blob("blob/final") == whole);
    }
}

#[test]
fn catalog_can_be_lost() {
    let tiers = Tiers::with_azurite();
    let mut mount = Mount::of(&tiers).start();
    fs::create_dir_all(mount.path("blob/d")).expect("mkdir");
    let file = mount.path("blob/d/f");
    fs::write(&file, "bytes").expect("a write");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("chmod");
    std::os::unix::fs::chown(&file, Some(1234), Some(5678)).expect("chown");
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_580_608_922, 123_456_789);
    File::options().write(true).open(&file).and_then(|open| open.set_modified(time)).expect("utimens");
    symlink("d/f", mount.path("blob/link")).expect("symlink");
    fs::create_dir(mount.path("blob/empty")).expect("mkdir");
    mount.flush();
    assert!(mount.unmount().success());
    mount.lose_catalog();
    mount.remount();
    let stat = fs::metadata(&file).expect("stat");
    assert_eq!((stat.mode() & 0o7777, stat.uid(), stat.gid()), (0o640, 1234, 5678));
    assert_eq!((stat.mtime(), stat.mtime_nsec()), (1_580_608_922, 123_456_789));
    assert_eq!(fs::read_link(mount.path("blob/link")).expect("readlink"), std::path::Path::new("d/f"));
    assert_eq!(fs::read(mount.path("blob/link")).expect("a read"), b"bytes");
    assert!(mount.path("blob/empty").is_dir());
}

#[test]
fn what_a_mapping_writes_after_its_file_was_closed_reaches_blob() {
    for mode in BOTH {
        let tiers = Tiers::with_azurite();
        let mount = Mount::of(&tiers).mode(mode).start();
        fs::create_dir_all(mount.path("blob")).expect("mkdir");
        let path = mount.path("blob/mapped");
        fs::write(&path, noise(2, 8192)).expect("a write");
        mount.flush();
        let file = File::options().read(true).write(true).open(&path).expect("open");
        let mut map = Map::new(&file, 8192, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        drop(file);
        let bytes = noise(3, 8192);
        map.bytes_mut().copy_from_slice(&bytes);
        drop(map);
        assert!(fs::read(&path).expect("a read") == bytes, "{mode:?}: what was mapped is lost");
        mount.flush();
        assert!(tiers.expect_blob("blob/mapped") == bytes, "{mode:?}: what was mapped did not reach Blob");
    }
}
