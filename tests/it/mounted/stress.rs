//! stress-ng's stressors of file systems, each a small fixed number of operations, with its own verification
//! (`tools/test.sh --full`): what works on a plain directory works on a mount.

use super::full::on;
use crate::support::Mode;
use Until::{Operations, Seconds};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Stressor, operations, further arguments: what counts as one operation differs a lot. FIEMAP is none of them: FUSE can't have it.
const STRESSORS: [(&str, Until, &str); 48] = [
    ("access", Operations(30), ""),
    ("aio", Operations(100), ""),
    ("aiol", Operations(100), ""),
    ("chattr", Operations(5), ""),
    ("chdir", Seconds(2), ""),
    ("chmod", Operations(30), ""),
    ("chown", Operations(30), ""),
    ("copy-file", Operations(30), "--copy-file-bytes 128M"),
    ("dentry", Operations(500), ""),
    ("dir", Operations(200), ""),
    ("dirdeep", Operations(100), ""),
    ("dirmany", Operations(500), ""),
    ("dnotify", Operations(20), ""),
    ("dup", Operations(20), ""),
    ("fallocate", Operations(20), "--fallocate-bytes 4M"),
    ("fcntl", Operations(100), ""),
    ("file-ioctl", Operations(50), ""),
    ("filename", Operations(50), ""),
    ("flock", Operations(200), ""),
    ("fpunch", Seconds(2), ""),
    ("fsize", Operations(20), ""),
    ("fstat", Operations(100), ""),
    ("getdent", Operations(100), ""),
    ("handle", Operations(50), ""),
    ("hdd", Operations(100), "--hdd-bytes 8M"),
    ("inotify", Operations(3), ""),
    ("io", Operations(10), ""),
    ("iomix", Operations(100), "--iomix-bytes 8M"),
    ("lease", Operations(50), ""),
    ("link", Seconds(2), ""),
    ("locka", Operations(100), ""),
    ("lockf", Operations(100), ""),
    ("lockofd", Operations(100), ""),
    ("mknod", Operations(50), ""),
    ("mmapmany", Operations(5), ""),
    ("msync", Operations(100), ""),
    ("open", Operations(100), ""),
    ("readahead", Operations(100), "--readahead-bytes 8M"),
    ("rename", Operations(300), ""),
    ("revio", Operations(100), "--revio-bytes 8M"),
    ("seek", Operations(200), "--seek-size 8M"),
    ("sendfile", Operations(30), ""),
    ("splice", Operations(100), ""),
    ("symlink", Seconds(2), ""),
    ("sync-file", Operations(20), "--sync-file-bytes 8M"),
    ("touch", Operations(100), ""),
    ("utime", Operations(100), ""),
    ("xattr", Operations(1), ""),
];

/// When a stressor has done enough.
#[derive(Clone, Copy)]
enum Until {
    Operations(u32),
    /// It is slow to notice that its operations are done.
    Seconds(u32),
}

/// Seconds within which a stressor ends.
const PATIENCE: &str = "120";

/// Operations that were done and found right, or what was said instead.
fn stress(directory: &Path, (stressor, until, further): (&str, Until, &str)) -> Result<u64, String> {
    let figures = tempfile::NamedTempFile::new().expect("a temporary file");
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", PATIENCE, "stress-ng", "--verify", "--no-rand-seed", "--metrics"]);
    command.arg("--yaml").arg(figures.path()).arg("--temp-path").arg(directory);
    command.args([&format!("--{stressor}"), "1"]).args(further.split_whitespace());
    match until {
        Operations(count) => command.args([format!("--{stressor}-ops"), count.to_string()]),
        Seconds(count) => command.args(["--timeout".to_owned(), format!("{count}s")]),
    };
    let output = command.stdin(Stdio::null()).output().expect("timeout and stress-ng");
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        return Err(format!("{}\n{}", output.status, String::from_utf8_lossy(&said)));
    }
    let figures = fs::read_to_string(figures.path()).expect("its figures");
    let done = figures.lines().find_map(|line| line.trim().strip_prefix("bogo-ops:")?.trim().parse().ok());
    Ok(done.unwrap_or(0))
}

/// Some find nothing to do now and then, wherever they are.
fn twice(directory: &Path, stressor: (&str, Until, &str)) -> Result<u64, String> {
    for _ in 0..2 {
        match stress(directory, stressor)? {
            0 => continue,
            done => return Ok(done),
        }
    }
    Err("no operation was done".to_owned())
}

fn stressors(directory: &Path) {
    let plain = tempfile::tempdir().expect("a temporary directory");
    let (mut failed, mut skipped) = (Vec::new(), Vec::new());
    for stressor in STRESSORS {
        let name = stressor.0;
        if let Err(why) = twice(plain.path(), stressor) {
            println!("{name}: skipped, a plain directory can't: {why}");
            skipped.push(name);
            continue;
        }
        let start = Instant::now();
        match twice(directory, stressor) {
            Ok(done) => println!("{name}: {done} operations in {:.1?}", start.elapsed()),
            Err(why) => failed.push(format!("{name}: {why}")),
        }
    }
    println!("skipped: {skipped:?}");
    assert!(skipped.len() < STRESSORS.len() / 4, "this is not the program that was meant: {skipped:?}");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    let left: Vec<_> =
        fs::read_dir(directory).expect("a listing").map(|entry| entry.expect("an entry").path()).collect();
    assert!(left.is_empty(), "the stressors removed what they made: {left:?}");
}

macro_rules! everywhere {
    ($($test:ident: $mode:ident, $home:literal;)*) => {
        $(#[test] fn $test() { on(Mode::$mode, $home, stressors); })*
    };
}

everywhere! {
    full_stress_scratch_passthrough: Passthrough, "scratch";
    full_stress_scratch_ordinary: Ordinary, "scratch";
    full_stress_share_passthrough: Passthrough, "share";
    full_stress_share_ordinary: Ordinary, "share";
    full_stress_blob_passthrough: Passthrough, "blob";
    full_stress_blob_ordinary: Ordinary, "blob";
}
