//! `tierfs flush PATH…`: waits for those paths, all of them and nothing else.

use crate::support::blob_server::{BlobServer, Effect, Operation, WRITES, When};
use crate::support::mount::{on_own_server, told};
use crate::support::{Mode, Mount, Tiers, noise, wait};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// Nothing is committed for an hour unless somebody asks, and nobody waits for others.
const RULES: &str = r#"
[[rule]]
path = "late/**"
home = "blob"
stage = "scratch"
settle = "1h"
order = "none"

[[rule]]
path = "other/**"
home = "blob"
stage = "scratch"
settle = "1h"

[[rule]]
path = "**"
home = "scratch"
"#;

fn rig() -> (BlobServer, Tiers, Mount) {
    on_own_server(RULES, Mode::Ordinary, &["late", "late/d", "other"])
}

#[track_caller]
fn flush(mount: &Mount, options: &[&str], paths: &[&str], code: i32) -> String {
    let output = mount.tierfs_at(&[&["flush"], options].concat(), paths);
    assert_eq!(output.status.code(), Some(code), "flush {options:?} {paths:?}: {}", told(&output));
    told(&output)
}

#[test]
fn a_flush_waits_for_its_paths_and_for_nothing_else() {
    let (server, tiers, mount) = rig();
    server.fault(When::operation(&WRITES).name("stuck"), Effect::busy(0));
    for name in ["late/stuck", "late/d/a", "late/d/b", "late/c", "other/stuck"] {
        fs::write(mount.path(name), name).expect("a write");
    }
    flush(&mount, &[], &["late/d/a"], 0);
    assert_eq!(tiers.blob_file_names(), ["late/d/a"]);
    flush(&mount, &[], &["late/d", "late/c"], 0);
    assert_eq!(tiers.blob_file_names(), ["late/c", "late/d/a", "late/d/b"]);
    flush(&mount, &["--check"], &["late/d"], 0);
    let pending = flush(&mount, &["--check"], &["late", "other/stuck"], 1);
    assert!(pending.contains("2 files, 21 B not home yet"), "{pending}");
    flush(&mount, &["--timeout", "500ms"], &["late"], 4);
}

#[test]
fn names_deletes_and_attributes_are_waited_for() {
    let (server, tiers, mount) = rig();
    let container = tiers.container().name().to_owned();
    for name in ["late/d/a", "late/d/b", "late/d/c", "late/e"] {
        fs::write(mount.path(name), name).expect("a write");
    }
    flush(&mount, &[], &["late"], 0);
    // Slow enough that nothing is done by chance before the flush asks for it.
    let slow = [Operation::Delete, Operation::SetMetadata, Operation::PutBlockFromUrl, Operation::PutBlob];
    server.fault(When::operation(&slow), Effect::Latency(std::time::Duration::from_millis(700)));

    fs::remove_file(mount.path("late/d/a")).expect("rm");
    flush(&mount, &[], &["late/d/a"], 0);
    assert_eq!(tiers.blob("late/d/a"), None, "a path that is gone is gone at home too");
    flush(&mount, &[], &["late/d/a"], 1);

    // Out of the directory: its home has it no more under the old name.
    fs::rename(mount.path("late/d/b"), mount.path("other/b")).expect("a rename");
    flush(&mount, &[], &["late/d"], 0);
    assert_eq!(tiers.blob("late/d/b"), None);
    assert_eq!(tiers.expect_blob("other/b"), b"late/d/b");

    fs::set_permissions(mount.path("late/e"), fs::Permissions::from_mode(0o600)).expect("chmod");
    flush(&mount, &[], &["late/e"], 0);
    let metadata = server.metadata(&container, "late/e").expect("a blob");
    let mode = metadata.iter().find(|(name, _)| name == "permissions").map(|(_, value)| value.as_str());
    assert_eq!(mode, Some("0600"), "{metadata:?}");

    fs::remove_file(mount.path("late/d/c")).expect("rm");
    fs::remove_dir(mount.path("late/d")).expect("rmdir");
    flush(&mount, &[], &["late/d"], 0);
    assert!(!tiers.blob_names().iter().any(|name| name.starts_with("late/d")), "{:?}", tiers.blob_names());
}

/// A program that never closed its file has told nobody that it is whole.
#[test]
fn a_file_that_was_never_closed_or_is_not_there_is_said_to_be() {
    let (_server, tiers, mount) = rig();
    // In a process of its own, which starts no other: each start of one closes what it does not inherit.
    let mut writer = Command::new("python3");
    let script = "import sys; f = open(sys.argv[1], 'wb', 0); f.write(b'half'); print(flush=True); input()";
    writer.args(["-c", script]).arg(mount.path("late/open")).stderr(Stdio::null());
    crate::support::mount::end_with_us(&mut writer);
    let mut writer = writer.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3");
    let mut written = [0];
    writer.stdout.take().expect("a pipe").read_exact(&mut written).expect("a line");
    let said = flush(&mount, &[], &["late/open"], 1);
    assert!(said.contains("1 of them open for writing"), "{said}");
    flush(&mount, &["--check"], &["late/open"], 1);
    drop(writer.stdin.take());
    writer.wait().expect("its end");
    flush(&mount, &[], &["late/open"], 0);
    assert_eq!(tiers.expect_blob("late/open"), b"half");
    let said = flush(&mount, &[], &["late/none"], 1);
    assert!(said.contains("late/none: no such file"), "{said}");
    let outside = crate::support::mount::tierfs().arg("flush").arg(tiers.workspace()).output();
    assert_eq!(outside.expect("tierfs").status.code(), Some(3));
}

/// Without a terminal, a line now and then says how far it is and what keeps it.
#[test]
fn a_long_flush_says_how_far_it_is() {
    let (server, _tiers, mount) = rig();
    let denied = Effect::DENIED;
    server.fault(When::operation(&WRITES), denied);
    fs::write(mount.path("late/f"), noise(1, 3 << 20)).expect("a write");
    let said = flush(&mount, &["--timeout", "6500ms"], &["late/f"], 4);
    let line = said.lines().find(|line| line.starts_with("flushing: ")).expect("a line");
    assert!(line.contains("1 file, ") && line.contains(" to go; tried again: late/f: "), "{said}");
    assert!(line.contains("403") && said.contains("1 file, 3.0 MiB not home yet"), "{said}");
}

/// Whoever ends the daemon in the middle of a drain loses nothing but time.
#[test]
fn a_drain_that_is_cut_short_keeps_everything_for_the_next_mount() {
    for impatient in [true, false] {
        let server = BlobServer::start();
        let tiers = Tiers::with_server(&server);
        let limit = if impatient { "1h" } else { "1s" };
        let rules = "[[rule]]\npath = \"**\"\nhome = \"blob\"\nstage = \"scratch\"\nsettle = \"1h\"\n";
        let mut mount =
            Mount::of(&tiers).rules(rules).mount_key(&format!("drain_timeout = \"{limit}\"")).start();
        server.fault(When::operation(&WRITES), Effect::busy(0));
        let files: Vec<_> = (0..5).map(|i| (format!("f{i}"), noise(i, 1 << 20))).collect();
        for (name, bytes) in &files {
            fs::write(mount.path(name), bytes).expect("a write");
        }
        server.clear_log();
        mount.signal();
        if impatient {
            // The drain has begun: settle ended for it.
            wait::until("the drain to begin", || server.count(Operation::PutBlob) > 0);
            mount.signal();
        }
        let status = mount.wait_for_end();
        assert_eq!(status.code(), Some(4), "{}", mount.log());
        assert!(mount.log().contains("5 dirty files; kept for the next mount"), "{}", mount.log());
        assert_eq!(tiers.blob_file_names(), [""; 0]);
        server.clear_faults();
        mount.remount();
        for (name, bytes) in &files {
            assert!(&fs::read(mount.path(name)).expect("a read") == bytes, "{name}");
        }
        mount.flush();
        for (name, bytes) in &files {
            assert!(&tiers.expect_blob(name) == bytes, "{name}");
        }
    }
}
