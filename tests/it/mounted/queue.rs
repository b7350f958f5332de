//! What still has to reach home: listed, tried again, copied out.

use crate::support::blob_server::{BlobServer, Effect, WRITES, When};
use crate::support::mount::{on_own_server, tierfs, told};
use crate::support::{Mode, Mount, Tiers, noise, wait};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

/// Two order domains: one commits at once, one only when asked.
const RULES: &str = r#"
[[rule]]
path = "soon/**"
home = "blob"
stage = "scratch"
settle = "0s"

[[rule]]
path = "late/**"
home = "blob"
stage = "scratch"
settle = "1h"

[[rule]]
path = "**"
home = "scratch"
"#;

fn rig() -> (BlobServer, Tiers, Mount) {
    on_own_server(RULES, Mode::Ordinary, &["soon", "late"])
}

/// `tierfs queue --json`: a value a line.
fn rows(mount: &Mount) -> Vec<Value> {
    let listed = mount.tierfs(&["queue", "--json"]);
    listed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn state_of(mount: &Mount, path: &str) -> Option<String> {
    let row = rows(mount).into_iter().find(|row| row["path"] == path)?;
    Some(row["state"].as_str().expect("a word").to_owned())
}

fn wait_for(mount: &Mount, path: &str, state: &str) {
    wait::until(&format!("{path} to be {state}"), || state_of(mount, path).as_deref() == Some(state));
}

fn export(from: &Path, to: &Path) -> Output {
    tierfs().args(["queue", "export"]).arg(from).arg(to).output().expect("the tierfs binary")
}

#[track_caller]
fn refused(output: &Output, code: i32, words: &str) {
    assert_eq!(output.status.code(), Some(code), "{}", told(output));
    assert!(told(output).contains(words), "{}", told(output));
}

#[test]
fn the_queue_says_of_each_step_where_it_stands() {
    let (server, _tiers, mount) = rig();
    assert_eq!(mount.tierfs(&["queue"]), "nothing: all is home\n");
    server.fault(When::operation(&WRITES).name("bad"), Effect::REFUSED);
    server.fault(When::operation(&WRITES).name("late"), Effect::DENIED);
    fs::write(mount.path("soon/bad"), noise(1, 5000)).expect("a write");
    fs::write(mount.path("soon/behind"), "behind").expect("a write");
    fs::write(mount.path("late/settles"), noise(2, 3000)).expect("a write");
    let mut open = File::create(mount.path("late/open")).expect("create");
    open.write_all(b"half").expect("a write");
    drop(File::options().append(true).open(mount.path("late/open")).expect("open"));
    fs::create_dir(mount.path("late/d")).expect("mkdir");
    wait_for(&mount, "soon/bad", "blocked");

    let rows = rows(&mount);
    let found: Vec<(&str, &str, &str, u64)> = rows
        .iter()
        .map(|row| {
            let text = |key: &str| row[key].as_str().expect("text");
            (text("path"), text("what"), text("state"), row["bytes"].as_u64().expect("a number"))
        })
        .collect();
    assert_eq!(
        found,
        [
            ("soon/bad", "write", "blocked", 5000),
            ("soon/behind", "write", "waiting", 6),
            ("late/settles", "write", "settling", 3000),
            ("late/open", "write", "open", 4),
            ("late/d", "directory", "waiting", 0),
        ]
    );
    let seqs: Vec<u64> = rows.iter().map(|row| row["seq"].as_u64().expect("a number")).collect();
    assert!(seqs.is_sorted() && rows[0]["domain"] != rows[2]["domain"], "{rows:?}");
    assert!(rows[0]["error"].as_str().expect("a reason").contains("InvalidMetadata"));

    let listed = mount.tierfs(&["queue"]);
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 6, "{listed}");
    assert!(lines[1].contains("blocked") && lines[1].contains("needs a person"), "{listed}");
    let shown = Command::new(env!("CARGO_BIN_EXE_tierstat")).arg("queue").arg(mount.root()).output();
    let shown = String::from_utf8(shown.expect("the tierstat binary").stdout).expect("text");
    let without_ages = |text: &str| text.split_whitespace().filter(|word| !word.ends_with('s')).count();
    assert_eq!(without_ages(&shown), without_ages(&listed), "{shown}");

    // What is denied is tried again, and says when.
    drop(open);
    let late = mount.tierfs_at(&["flush", "--timeout", "500ms"], &["late"]);
    assert_eq!(late.status.code(), Some(4), "{}", told(&late));
    wait_for(&mount, "late/settles", "retrying");
    let listed = mount.tierfs(&["queue"]);
    assert!(listed.contains("late/settles: ") && listed.contains("; again "), "{listed}");
}

/// Under a name that is to be another soon, nothing is committed: that is said, and holds up nobody.
#[test]
fn a_held_name_is_listed_as_held() {
    let (_server, tiers, mount) = rig();
    fs::write(mount.path("soon/ckpt.tmp"), noise(1, 4000)).expect("a write");
    fs::write(mount.path("soon/after"), "after").expect("a write");
    wait::until("what came after it", || tiers.blob_file_names() == ["soon/after"]);
    wait_for(&mount, "soon/ckpt.tmp", "held");
    let listed = mount.tierfs(&["queue"]);
    assert!(
        listed.contains("soon/ckpt.tmp: until it has another name or is flushed, at most for 23h"),
        "{listed}"
    );
    fs::rename(mount.path("soon/ckpt.tmp"), mount.path("soon/ckpt")).expect("a rename");
    wait::until("it to be home", || tiers.blob_file_names() == ["soon/after", "soon/ckpt"]);
}

#[test]
fn a_failed_step_is_tried_again_at_once_when_told() {
    let (server, tiers, mount) = rig();
    server.fault(When::operation(&WRITES).name("bad"), Effect::REFUSED);
    for name in ["soon/bad", "soon/behind", "late/settles"] {
        fs::write(mount.path(name), name).expect("a write");
    }
    wait_for(&mount, "soon/bad", "blocked");
    let retry = |path: &str| mount.tierfs_at(&["queue", "retry"], &[path]);
    let again = retry("soon/bad");
    assert!(again.status.success() && told(&again).contains("1 step tried again now"), "{}", told(&again));
    wait_for(&mount, "soon/bad", "blocked");
    assert_eq!(tiers.blob_file_names(), [""; 0]);
    server.clear_faults();
    // A directory means all below; what was behind goes on too.
    let again = retry("soon");
    assert!(again.status.success(), "{}", told(&again));
    wait::until("both to be home", || tiers.blob_file_names() == ["soon/bad", "soon/behind"]);

    let idle = retry("late/settles");
    assert!(idle.status.success() && told(&idle).contains("nothing of it has failed"), "{}", told(&idle));
    wait::until("the queue to know", || state_of(&mount, "soon/bad").is_none());
    refused(&retry("soon/bad"), 1, "not in the queue");
    refused(&retry("soon/nothing"), 1, "soon/nothing");
    let outside = tierfs().args(["queue", "retry"]).arg(tiers.workspace()).output().expect("tierfs");
    refused(&outside, 3, "is not in a tierfs mount");
    let nobody = tierfs().arg("queue").arg(tiers.workspace()).output().expect("tierfs");
    refused(&nobody, 3, "is not in a tierfs mount");
}

/// A delete has no path any more, only the one it had.
#[test]
fn a_refused_delete_is_listed_and_tried_again() {
    let (server, tiers, mount) = rig();
    let container = tiers.container().name().to_owned();
    fs::write(mount.path("soon/f"), "text").expect("a write");
    mount.flush();
    server.set_snapshots(&container, "soon/f", 1);
    fs::remove_file(mount.path("soon/f")).expect("rm");
    wait_for(&mount, "soon/f", "blocked");
    assert_eq!(rows(&mount)[0]["what"], "delete");
    server.set_snapshots(&container, "soon/f", 0);
    let again = mount.tierfs_at(&["queue", "retry"], &["soon/f"]);
    assert!(again.status.success() && told(&again).contains("1 step tried again now"), "{}", told(&again));
    wait::until("the blob to go", || tiers.blob("soon/f").is_none());
}

#[test]
fn dirty_bytes_are_copied_out_and_nothing_is_overwritten() {
    let (server, tiers, mount) = rig();
    server.fault(When::operation(&WRITES).name("bad"), Effect::REFUSED);
    let bytes = noise(3, 3 << 20);
    fs::write(mount.path("soon/bad"), &bytes).expect("a write");
    wait_for(&mount, "soon/bad", "blocked");
    let out = tiers.workspace().join("out");
    fs::create_dir(&out).expect("mkdir");
    let from = mount.path("soon/bad");
    let copied = export(&from, &out);
    assert!(copied.status.success() && told(&copied).contains("3.0 MiB copied"), "{}", told(&copied));
    assert!(fs::read(out.join("bad")).expect("the copy") == bytes);
    refused(&export(&from, &out), 1, "is there already");
    refused(&export(&from, &out.join("bad")), 1, "is there already");
    assert!(export(&from, &out.join("other")).status.success());
    refused(&export(&from, &mount.path("late/copy")), 2, "is in a tierfs mount");
    refused(&export(&mount.path("soon"), &out.join("d")), 2, "not a regular file");
    refused(&export(&mount.path("soon/none"), &out.join("n")), 1, "soon/none");
    fs::write(mount.path("late/home"), "home").expect("a write");
    mount.flush_path("late/home");
    refused(&export(&mount.path("late/home"), &out.join("h")), 1, "it is at home");
    refused(&export(&out.join("bad"), &out.join("x")), 3, "is not in a tierfs mount");
    let names: Vec<_> = crate::support::site::files_below(&out);
    assert_eq!(names, ["bad", "other"], "nothing half is left");
}

/// Thousands of steps come a page at a time, each once and in order.
#[test]
fn a_long_queue_is_listed_whole() {
    let (_server, _tiers, mount) = rig();
    let count = 1050;
    for i in 0..count {
        fs::write(mount.path(&format!("late/f{i:04}")), "x").expect("a write");
    }
    let rows = rows(&mount);
    assert_eq!(rows.len(), count);
    for (i, row) in rows.iter().enumerate() {
        assert_eq!(row["path"], format!("late/f{i:04}"));
        assert_eq!(row["state"], "settling");
    }
}
