//! Slow tests on real programs and a real model (`tools/test.sh --full`), under every home and in both modes.

use crate::support::poor::{Attributes, Grain, Manners, PoorShare};
use crate::support::{Mode, Mount, Tiers, sha256, tool};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn python() -> PathBuf {
    let python = project("target/venv/bin/python");
    assert!(python.exists(), "no {}: tools/test.sh --full makes it", python.display());
    python
}

/// Runs a check of tests/checks on `directory` and passes on what it prints.
fn check(mut command: Command, directory: &Path) {
    let output = command.arg(directory).stdin(Stdio::null()).output().expect("the check");
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}", said.lines().last().unwrap_or(""));
}

pub fn on(mode: Mode, home: &str, run: impl FnOnce(&Path)) {
    run_on(&Tiers::with_azurite(), mode, home, run);
}

/// The same where the share is a poor one.
fn on_poor(mode: Mode, manners: Manners, run: impl FnOnce(&Path)) {
    let tiers = Tiers::with_directories();
    let _share = PoorShare::at(&tiers.share, manners);
    run_on(&tiers, mode, "share", run);
}

fn run_on(tiers: &Tiers, mode: Mode, home: &str, run: impl FnOnce(&Path)) {
    open_to_all(tiers.workspace());
    let mut mount = Mount::of(tiers).default_revalidate().option("allow_other").mode(mode).start();
    let directory = mount.path(home);
    fs::create_dir_all(&directory).expect("mkdir");
    run(&directory);
    mount.flush();
    if home == "blob" {
        same_as_on_blob(tiers, &mount);
    }
    assert!(mount.unmount().success(), "{}", mount.log());
}

/// Some checks work as other users.
fn open_to_all(directory: &Path) {
    fs::set_permissions(directory, Permissions::from_mode(0o755)).expect("chmod");
}

/// Every regular file below `blob/` has its bytes in Blob under its own name.
fn same_as_on_blob(tiers: &Tiers, mount: &Mount) {
    let names = crate::support::site::files_below(&mount.path("blob"));
    for name in names
        .iter()
        .filter(|name| mount.path("blob").join(name).symlink_metadata().is_ok_and(|s| s.is_file()))
    {
        let here = fs::read(mount.path("blob").join(name)).expect("a read");
        let there = tiers.expect_blob(&format!("blob/{name}"));
        assert!(here == there, "{name}: other bytes on Blob");
    }
}

fn apps(directory: &Path) {
    check(Command::new(project("tests/checks/apps.sh")), directory);
}

fn git(directory: &Path) {
    check(Command::new(project("tests/checks/git.sh")), directory);
}

/// With safetensors (C150) and file locks (C180).
fn ml(directory: &Path) {
    let mut command = Command::new(python());
    command.arg(project("tests/checks/ml.py"));
    check(command, directory);
}

fn pjdfstest(directory: &Path) {
    fs::set_permissions(directory, Permissions::from_mode(0o777)).expect("chmod");
    // A socket's path has at most 107 bytes.
    let short = tempfile::Builder::new().prefix("p").tempdir_in("/tmp").expect("a temporary directory");
    open_to_all(short.path());
    let link = short.path().join("d");
    std::os::unix::fs::symlink(directory, &link).expect("a symlink");
    let mut command = Command::new(tool("pjdfstest"));
    command.arg("-c").arg(project("tests/checks/pjdfstest.toml")).arg("-p");
    check(command, &link);
}

/// Every operation fsx has, on a file that is closed and opened again all the time.
const FSX: &str = "
flen = 1048576
[opsize]
max = 131072
[weights]
close_open = 1.0
invalidate = 1.0
fsync = 0.1
fdatasync = 0.1
posix_fallocate = 0.5
punch_hole = 0.5
sendfile = 0.5
posix_fadvise = 0.5
copy_file_range = 0.5
";

fn fsx(directory: &Path) {
    let own = tempfile::tempdir().expect("a temporary directory");
    let config = own.path().join("fsx.toml");
    fs::write(&config, FSX).expect("a config");
    for seed in ["1", "2"] {
        let mut command = Command::new(tool("fsx"));
        command.args(["-N", "10000", "-S", seed, "-P"]).arg(own.path()).arg("-f").arg(&config);
        check(command, &directory.join(seed));
    }
}

/// Writes at random and checks every block, as each kind of program does it.
fn fio(directory: &Path) {
    // It leaves the state of its verification where it runs.
    let own = tempfile::tempdir().expect("a temporary directory");
    for (engine, direct, block) in
        [("psync", "0", "4k"), ("mmap", "0", "4k"), ("libaio", "1", "4k"), ("libaio", "1", "1m")]
    {
        let mut command = Command::new("fio");
        command.args(["--name=v", "--size=16m", "--rw=randrw", "--iodepth=8", "--numjobs=2"]);
        command.arg(format!("--bs={block}"));
        command.args(["--verify=crc32c", "--verify_fatal=1", "--do_verify=1", "--output-format=terse"]);
        command.arg(format!("--ioengine={engine}")).arg(format!("--direct={direct}")).arg("--directory");
        command.current_dir(own.path());
        check(command, directory);
    }
}

macro_rules! everywhere {
    ($($test:ident: $run:ident, $mode:ident, $home:literal;)*) => {
        $(#[test] fn $test() { on(Mode::$mode, $home, $run); })*
    };
}

everywhere! {
    full_apps_scratch_passthrough: apps, Passthrough, "scratch";
    full_apps_scratch_ordinary: apps, Ordinary, "scratch";
    full_apps_share_passthrough: apps, Passthrough, "share";
    full_apps_share_ordinary: apps, Ordinary, "share";
    full_apps_blob_passthrough: apps, Passthrough, "blob";
    full_apps_blob_ordinary: apps, Ordinary, "blob";
    full_c220_git_scratch_passthrough: git, Passthrough, "scratch";
    full_c220_git_scratch_ordinary: git, Ordinary, "scratch";
    full_c220_git_share_passthrough: git, Passthrough, "share";
    full_c220_git_share_ordinary: git, Ordinary, "share";
    full_c220_git_blob_passthrough: git, Passthrough, "blob";
    full_c220_git_blob_ordinary: git, Ordinary, "blob";
    full_ml_scratch_passthrough: ml, Passthrough, "scratch";
    full_ml_scratch_ordinary: ml, Ordinary, "scratch";
    full_ml_share_passthrough: ml, Passthrough, "share";
    full_ml_share_ordinary: ml, Ordinary, "share";
    full_ml_blob_passthrough: ml, Passthrough, "blob";
    full_ml_blob_ordinary: ml, Ordinary, "blob";
    full_pjdfstest_scratch_passthrough: pjdfstest, Passthrough, "scratch";
    full_pjdfstest_scratch_ordinary: pjdfstest, Ordinary, "scratch";
    full_pjdfstest_share_passthrough: pjdfstest, Passthrough, "share";
    full_pjdfstest_share_ordinary: pjdfstest, Ordinary, "share";
    full_pjdfstest_blob_passthrough: pjdfstest, Passthrough, "blob";
    full_pjdfstest_blob_ordinary: pjdfstest, Ordinary, "blob";
    full_fsx_scratch_passthrough: fsx, Passthrough, "scratch";
    full_fsx_scratch_ordinary: fsx, Ordinary, "scratch";
    full_fsx_share_passthrough: fsx, Passthrough, "share";
    full_fsx_share_ordinary: fsx, Ordinary, "share";
    full_fsx_blob_passthrough: fsx, Passthrough, "blob";
    full_fsx_blob_ordinary: fsx, Ordinary, "blob";
    full_c175_fio_scratch_passthrough: fio, Passthrough, "scratch";
    full_c175_fio_scratch_ordinary: fio, Ordinary, "scratch";
    full_c175_fio_share_passthrough: fio, Passthrough, "share";
    full_c175_fio_share_ordinary: fio, Ordinary, "share";
    full_c175_fio_blob_passthrough: fio, Passthrough, "blob";
    full_c175_fio_blob_ordinary: fio, Ordinary, "blob";
}

#[test]
fn full_apps_poor_share_passthrough() {
    on_poor(Mode::Passthrough, Manners::default(), apps);
}

#[test]
fn full_apps_poor_share_ordinary() {
    let refused = Attributes::Refused;
    on_poor(Mode::Ordinary, Manners { attributes: refused, grain: Grain::Tick, stale_every: 50 }, apps);
}

const MODEL_RULES: &str = r#"
[[rule]]
path = "models/**"
home = "share"

[[rule]]
path = "data/**"
home = "blob"
stage = "scratch"

[[rule]]
path = "**"
home = "scratch"
"#;

/// Uploads a directory with Azure's own client.
const UPLOAD: &str = r#"
import os, sys
from azure.storage.blob import ContainerClient
service, container, key, root, prefix = sys.argv[1:]
client = ContainerClient(service, container, credential={"account_name": "devstoreaccount1", "account_key": key}, api_version="2023-11-03")
for folder, _, names in os.walk(root):
    for name in names:
        path = os.path.join(folder, name)
        with open(path, "rb") as file:
            client.upload_blob(prefix + os.path.relpath(path, root), file)
"#;

/// Loads weights the way serving code does: by mmap.
const LOAD: &str = r#"
import hashlib, sys
from safetensors import safe_open
total = hashlib.sha256()
with safe_open(sys.argv[1], "np") as model:
    for key in sorted(model.keys()):
        total.update(model.get_tensor(key).tobytes())
print(total.hexdigest())
"#;

fn run_python(script: &str, arguments: &[&str]) -> String {
    let output = Command::new(python()).args(["-c", script]).args(arguments).output().expect("python");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn a_real_model(mode: Mode) {
    let source = project("target/model/unpacked");
    let files = crate::support::site::files_below(&source);
    assert!(files.len() > 10, "no model in {}: tools/test.sh --full fetches it", source.display());
    let tiers = Tiers::with_azurite();
    let container = tiers.container();
    let url = container.url();
    let (service, name) = url.rsplit_once('/').expect("a container's address");
    let key = crate::support::container::KEY;
    run_python(UPLOAD, &[service, name, key, source.to_str().expect("a path"), "data/"]);

    let mut mount = Mount::of(&tiers).mode(mode).rules(MODEL_RULES).start();
    for file in &files {
        let expected = sha256(&fs::read(source.join(file)).expect("a source file"));
        assert_eq!(sha256(&fs::read(mount.path("data").join(file)).expect("a read")), expected, "{file}");
    }
    let weights = files.iter().find(|file| file.ends_with("model.safetensors")).expect("weights");
    let tensors = run_python(LOAD, &[source.join(weights).to_str().expect("a path")]);
    let load = |path: PathBuf| run_python(LOAD, &[path.to_str().expect("a path")]);
    assert_eq!(load(mount.path("data").join(weights)), tensors, "weights by mmap out of Blob");

    let model = mount.path("models/minilm");
    fs::create_dir_all(mount.path("models")).expect("mkdir");
    let copied = Command::new("cp").arg("-r").args([mount.path("data"), model.clone()]).status().expect("cp");
    assert!(copied.success());
    for file in &files {
        let native =
            fs::read(tiers.share.join("models/minilm").join(file)).expect("a plain file on the share");
        assert_eq!(sha256(&native), sha256(&fs::read(source.join(file)).expect("a source file")), "{file}");
    }
    assert_eq!(load(model.join(weights)), tensors, "weights by mmap from the share");
    assert!(mount.unmount().success());
}

#[test]
fn full_c150_a_real_model_passthrough() {
    a_real_model(Mode::Passthrough);
}

#[test]
fn full_c150_a_real_model_ordinary() {
    a_real_model(Mode::Ordinary);
}
