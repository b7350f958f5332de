//! `tierfs demo` on this machine, from the first line to the last.

use super::ran;
use std::process::Command;
use tempfile::TempDir;

fn demo() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tierfs"));
    command.arg("demo").env("NO_COLOR", "1");
    command
}

#[test]
fn the_demo_shows_it_all_and_leaves_nothing() {
    let temporary = TempDir::new().expect("a directory");
    let told = ran(demo().env("TMPDIR", temporary.path()));
    told.prints(&[
        "all from scratch, none from Blob",
        "the blob has the same sha256",
        "mapped and summed",
        "$ kill -9 ",
        "the file is there, sha256 equal",
        "and it has reached Blob: sha256 equal",
        "scratch/notes.txt",
        "share/models/tiny.safetensors",
        "blob/checkpoints/run-1/step-200.pt",
        "unmounted, nothing left behind",
    ]);
    for line in told.out.lines() {
        assert!(line.chars().count() <= 80, "wider than a screen: {line}");
    }
    assert_eq!(
        std::fs::read_dir(temporary.path()).expect("the directory").count(),
        0,
        "something stays behind"
    );
}

#[test]
fn a_demo_in_a_directory_of_ones_own_can_be_mounted_again() {
    let dir = TempDir::new().expect("a directory");
    ran(demo().arg(dir.path())).prints(&["tierfs mount"]);
    let path = |name: &str| dir.path().join(name).display().to_string();
    super::tierfs(&["mount", &path("demo.toml"), &path("train"), "--log", &path("demo.log")])
        .prints(&["mounted, "]);
    let model = std::fs::metadata(dir.path().join("train/models/tiny.safetensors"));
    let told = super::tierfs(&["unmount", &path("train")]);
    assert_eq!(told.code, Some(0), "{told:?}");
    assert_eq!(model.expect("the model").len(), 16 << 20);
}
