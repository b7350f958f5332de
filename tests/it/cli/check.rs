//! `tierfs check` against a Blob service and shares that allow little, and `tierfs debug-bundle`, which tells no secret.

use super::{Place, ran, tierfs};
use crate::support::blob_server::{BlobServer, Effect, WRITES, When};
use crate::support::{Mount, Tiers, container};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A config, not mounted, over a Blob server.
fn over(server: &BlobServer) -> (Tiers, Mount) {
    let tiers = Tiers::with_server(server);
    let mount = Mount::of(&tiers).prepare();
    (tiers, mount)
}

fn check(config: &Path) -> super::Told {
    ran(crate::support::mount::tierfs().arg("check").arg(config))
}

#[test]
fn what_blob_allows_is_tried_and_leaves_nothing() {
    let server = BlobServer::start();
    let (tiers, mount) = over(&server);
    check(mount.config()).prints(&[
        "ok    tier blob: lets this identity write, read and delete (tried)",
        "ok    tier blob: its clock and ours agree",
        "open files: ",
        "privileges: ",
    ]);
    assert_eq!(tiers.blob_names(), [""; 0]);

    server.fault(When::operation(&WRITES), Effect::DENIED);
    let told = check(mount.config());
    let wanted = ["tier blob: does not let this identity write", "Storage Blob Data Contributor", "-o ro"];
    assert!(wanted.iter().all(|part| told.out.contains(part)), "{told:?}");
    assert!(told.out.contains("its clock and ours agree"), "{told:?}");
}

/// A share that takes root for nobody.
struct Squashing(tempfile::TempDir);

impl Squashing {
    fn new() -> Self {
        let dir = tempfile::TempDir::new().expect("a directory");
        for name in ["inner", "share"] {
            fs::create_dir(dir.path().join(name)).expect("mkdir");
        }
        let mut bindfs = Command::new("bindfs");
        bindfs.arg("--create-for-user=65534").args([dir.path().join("inner"), dir.path().join("share")]);
        assert!(bindfs.status().expect("bindfs").success());
        Self(dir)
    }

    fn path(&self) -> String {
        self.0.path().join("share").display().to_string()
    }
}

impl Drop for Squashing {
    fn drop(&mut self) {
        crate::support::mount::detach(&self.0.path().join("share"));
    }
}

#[test]
fn root_squash_is_told_and_the_share_is_left_as_it_was() {
    let share = Squashing::new();
    let place = Place::new();
    place.write_config(&share.path());
    let told = check(&place.path("x.toml"));
    assert!(told.out.contains("takes root for user 65534 (root squash)"), "{told:?}");
    let left: Vec<_> = fs::read_dir(share.path())
        .expect("the share")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert!(left.iter().all(|name| name == ".tierfs"), "{left:?}");
    place.write_config(&place.string("tier"));
    let told = check(&place.path("x.toml"));
    assert!(!told.out.contains("root squash"), "{told:?}");
}

#[test]
fn a_debug_bundle_tells_no_secret() {
    let server = BlobServer::start();
    let (_tiers, mount) = over(&server);
    let dir = mount.config().parent().expect("a directory").to_owned();
    let log = dir.join("daemon.log");
    let (signature, token) = ("c2VjcmV0LXNpZ25hdHVyZQ%3D%3D", "eyJhbGciOi.payload-payload.sig_sig");
    fs::write(&log, format!("GET https://x/c?sv=1&sig={signature}&se=2\nauthorization: Bearer {token}\n"))
        .expect("a log");
    let planted = "correct-horse-battery-staple";
    let output = dir.join("bundle.tar");
    let mut bundle = crate::support::mount::tierfs();
    bundle.args([
        "debug-bundle".as_ref(),
        mount.config().as_os_str(),
        "--output".as_ref(),
        output.as_os_str(),
    ]);
    bundle.args(["--log".as_ref(), log.as_os_str()]);
    bundle.envs([("AZURE_CLIENT_SECRET", planted), ("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=planted-planted")]);
    bundle.env("AZURE_CLIENT_ID", "not-a-secret-id");
    let told = ran(&mut bundle);
    told.prints(&["bundle.tar", "look through it"]);
    assert_eq!(fs::metadata(&output).expect("the bundle").permissions().mode() & 0o777, 0o600);

    let bytes = fs::read(&output).expect("the bundle");
    let text = String::from_utf8_lossy(&bytes);
    for secret in [planted, "planted-planted", signature, token, container::KEY] {
        assert!(!text.contains(secret), "{secret} is in the bundle");
    }
    for part in ["[REDACTED]", "AZURE_CLIENT_SECRET: is set", "not-a-secret-id", "key_file", "tier blob: "] {
        assert!(text.contains(part), "no {part:?} in the bundle");
    }
    let names = ran(Command::new("tar").arg("-tf").arg(&output));
    for name in
        ["/version", "/config.toml", "/config-in-force.toml", "/check", "/mountinfo", "/log", "/status"]
    {
        assert!(names.out.lines().any(|line| line.ends_with(name)), "no {name}: {names:?}");
    }
    // Never over another file.
    ran(&mut bundle).refuses(1, &["bundle.tar", "--output"]);
}

#[test]
fn a_wrong_config_is_bundled_with_what_is_wrong() {
    let place = Place::new();
    fs::write(place.path("x.toml"), "[mount]\nmemroy = \"1GiB\"\n").expect("a config");
    let output = place.string("b.tar");
    tierfs(&["debug-bundle", &place.string("x.toml"), "-o", &output]).prints(&["b.tar"]);
    let bytes = fs::read(&output).expect("the bundle");
    assert!(String::from_utf8_lossy(&bytes).contains("unknown key `memroy`"));
}
