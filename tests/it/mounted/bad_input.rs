//! Wrong input: one clear line that says what to do, the right exit code, nothing touched.

use crate::support::mount::{pidfd, tierfs, told};
use crate::support::site::files_below;
use crate::support::wait::{self, Mounted};
use crate::support::{Mount, Tiers};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};

const FAILED: i32 = 1;
const USAGE: i32 = 2;
const NOT_MOUNTED: i32 = 3;

/// Runs a mount that must be refused: `code`, a last line with all of `says`, no mount, nothing written to the tiers.
fn refused(tiers: &Tiers, mount: &Mount, code: i32, says: &[&str]) {
    let before = [files_below(&tiers.scratch), files_below(&tiers.share)];
    let output = ended(mount);
    assert_eq!(output.status.code(), Some(code), "{}", told(&output));
    // Notes and the log may come before it; what is wrong and what to do stands in the last line.
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = said.lines().last().unwrap_or("");
    for part in says {
        assert!(last.contains(part), "no “{part}” in the last line of: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
    assert_eq!([files_below(&tiers.scratch), files_below(&tiers.share)], before, "something was touched");
}

/// What the mount command says and how it ends; one that mounts instead is a failure, not a wait.
fn ended(mount: &Mount) -> std::process::Output {
    let was_mounted = wait::is_mounted(mount.root());
    let mut command = mount.mount_command();
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("tierfs");
    if !was_mounted
        && wait::for_mount(mount.root(), pidfd(&child)).expect("mountinfo") != Mounted::ProcessEnded
    {
        // It may have ended already.
        let _ = child.kill();
        panic!("it should be refused: {}", told(&child.wait_with_output().expect("its output")));
    }
    child.wait_with_output().expect("its output")
}

fn prepared() -> (Tiers, Mount) {
    let tiers = Tiers::with_directories();
    let mount = Mount::of(&tiers).prepare();
    (tiers, mount)
}

fn edit(mount: &Mount, edit: impl FnOnce(String) -> String) {
    let config = fs::read_to_string(mount.config()).expect("the config");
    fs::write(mount.config(), edit(config)).expect("the config");
}

#[test]
fn a_mount_point_that_is_missing() {
    let (tiers, mount) = prepared();
    fs::remove_dir(mount.root()).expect("rmdir");
    refused(&tiers, &mount, FAILED, &["mnt", "mkdir"]);
}

#[test]
fn a_mount_point_that_is_a_file() {
    let (tiers, mount) = prepared();
    fs::remove_dir(mount.root()).expect("rmdir");
    fs::write(mount.root(), "").expect("a file");
    refused(&tiers, &mount, FAILED, &["mnt", "directory"]);
}

#[test]
fn a_mount_point_that_is_not_empty() {
    let (tiers, mount) = prepared();
    fs::write(mount.path("precious"), "").expect("a file");
    refused(&tiers, &mount, FAILED, &["mnt", "empty"]);
    assert!(mount.path("precious").exists());
}

#[test]
fn a_mount_point_that_is_mounted_already() {
    let tiers = Tiers::with_directories();
    let first = Mount::of(&tiers).start();
    fs::write(first.path("f"), "f").expect("a write");
    refused(&tiers, &first, FAILED, &["mnt", "mounted"]);
    assert_eq!(fs::read(first.path("f")).expect("the first goes on"), b"f");
}

#[test]
fn a_dead_mount_is_cleaned_up() {
    let tiers = Tiers::with_directories();
    let mut mount = Mount::of(&tiers).start();
    fs::write(mount.path("f"), "f").expect("a write");
    mount.kill9();
    assert_eq!(fs::metadata(mount.root()).expect_err("dead").raw_os_error(), Some(libc::ENOTCONN));
    mount.remount();
    assert_eq!(fs::read(mount.path("f")).expect("a read"), b"f");
}

#[test]
fn a_config_with_several_mistakes_reports_each() {
    let (_tiers, mount) = prepared();
    edit(&mount, |config| {
        config.replace("kind = \"lustre\"", "kind = \"lustr\"").replace("home = \"share\"", "home = \"shar\"")
            + "\nunknown_key = 1\n"
    });
    let output = mount.mount_command().output().expect("the tierfs binary");
    assert_eq!(output.status.code(), Some(USAGE), "{}", told(&output));
    let said = String::from_utf8_lossy(&output.stderr);
    for part in ["tierfs.toml:", "lustr", "lustre", "shar", "unknown_key"] {
        assert!(said.contains(part), "no “{part}” in: {said}");
    }
}

#[test]
fn a_config_that_is_missing() {
    let (tiers, mount) = prepared();
    fs::remove_file(mount.config()).expect("rm");
    refused(&tiers, &mount, USAGE, &["tierfs.toml"]);
}

#[test]
fn arguments_that_make_no_sense() {
    for arguments in [&["mount", "only-one"][..], &["no-such-verb"], &["flush"]] {
        let output = tierfs().args(arguments).output().expect("the tierfs binary");
        assert_eq!(output.status.code(), Some(USAGE), "{arguments:?}: {}", told(&output));
    }
}

#[test]
fn a_tier_root_that_is_missing() {
    let (tiers, mount) = prepared();
    fs::remove_dir(&tiers.share).expect("rmdir");
    refused(&tiers, &mount, FAILED, &["share", "mount"]);
    assert!(!tiers.share.exists());
}

#[test]
fn a_tier_root_that_is_read_only() {
    let (tiers, mount) = prepared();
    let bind = |arguments: &[&str]| {
        let status = Command::new("mount").args(arguments).args([&tiers.share, &tiers.share]).status();
        assert!(status.expect("mount").success());
    };
    struct Detached<'a>(&'a Path);
    impl Drop for Detached<'_> {
        fn drop(&mut self) {
            crate::support::mount::detach(self.0);
        }
    }
    bind(&["--bind"]);
    let _detached = Detached(&tiers.share);
    bind(&["-o", "remount,bind,ro"]);
    refused(&tiers, &mount, FAILED, &["share", "read-only"]);
}

#[test]
fn a_tier_root_of_somebody_else() {
    let (tiers, mount) = prepared();
    // Root may write everywhere, so it takes a user who may not.
    chown(&tiers.share, Some(1), Some(1)).expect("chown");
    fs::set_permissions(&tiers.share, fs::Permissions::from_mode(0o755)).expect("chmod");
    let output = as_nobody(&mount);
    assert_ne!(output.status.code(), Some(0));
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{}", told(&output));
    assert_eq!(files_below(&tiers.share), Vec::<String>::new());
}

fn as_nobody(mount: &Mount) -> std::process::Output {
    use std::os::unix::process::CommandExt;
    mount.mount_command().uid(65534).gid(65534).output().expect("the tierfs binary")
}

#[test]
fn tiers_inside_each_other() {
    let (tiers, mount) = prepared();
    let inner = tiers.scratch.join("inner");
    fs::create_dir(&inner).expect("mkdir");
    edit(&mount, |config| config.replace(&quoted(&tiers.share), &quoted(&inner)));
    refused(&tiers, &mount, USAGE, &["share", "scratch", "inside"]);
}

#[test]
fn a_tier_inside_the_mount() {
    let (tiers, mount) = prepared();
    let inner = mount.root().join("tier");
    edit(&mount, |config| config.replace(&quoted(&tiers.share), &quoted(&inner)));
    refused(&tiers, &mount, USAGE, &["share", "mount"]);
}

#[test]
fn wrong_credentials() {
    let tiers = Tiers::with_azurite();
    let mount = Mount::of(&tiers).prepare();
    let wrong = crate::support::container::KEY.replace("Eby8", "AAAA");
    fs::write(mount.config().with_file_name("key"), wrong).expect("a key");
    refused(&tiers, &mount, FAILED, &["blob", "credentials"]);
}

#[test]
fn a_container_that_is_missing() {
    let tiers = Tiers::with_azurite();
    let url = format!("{}/no-such-container", tiers.container().service());
    let mount = Mount::of(&tiers).blob_url(url).prepare();
    refused(&tiers, &mount, FAILED, &["no-such-container", "container"]);
}

#[test]
fn a_catalog_that_is_none() {
    let (tiers, mount) = prepared();
    let catalog = mount.config().with_file_name("catalog.db");
    fs::write(&catalog, "this is no database".repeat(1000)).expect("a file");
    let before = fs::read(&catalog).expect("a read");
    refused(&tiers, &mount, FAILED, &["catalog.db"]);
    assert!(fs::read(&catalog).expect("a read") == before);
}

#[test]
fn a_catalog_of_a_newer_tierfs() {
    let tiers = Tiers::with_directories();
    let mut mount = Mount::of(&tiers).start();
    assert!(mount.unmount().success());
    let catalog = mount.config().with_file_name("catalog.db");
    let database = rusqlite::Connection::open(&catalog).expect("a database");
    let newer = database.execute("UPDATE meta SET value = 1000000 WHERE key = 'schema'", []);
    assert_eq!(newer.expect("an update"), 1);
    drop(database);
    refused(&tiers, &mount, USAGE, &["catalog", "newer"]);
}

#[test]
fn a_catalog_in_use() {
    let tiers = Tiers::with_directories();
    let _first = Mount::of(&tiers).start();
    let second = Mount::of(&tiers).named("second").prepare();
    let first_catalog =
        second.config().parent().and_then(Path::parent).expect("a parent").join("m/catalog.db");
    let own = second.config().with_file_name("catalog.db");
    edit(&second, |config| config.replace(&own.display().to_string(), &first_catalog.display().to_string()));
    refused(&tiers, &second, FAILED, &["catalog"]);
}

#[test]
fn commands_on_what_is_no_mount() {
    let directory = tempfile::tempdir().expect("a directory");
    for verb in ["flush", "unmount", "path"] {
        let output = tierfs().arg(verb).arg(directory.path()).output().expect("the tierfs binary");
        assert_eq!(output.status.code(), Some(NOT_MOUNTED), "{verb}: {}", told(&output));
    }
}

fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.display())
}
