//! The Debian package: installed on a machine of its own, used, and installed again under a live mount.

use super::root::Root;
use crate::support::tool;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packs the programs under test.
fn packed() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tools = tool("cargo-deb");
    let path = std::env::var("PATH").expect("a path");
    let path = format!("{}:{path}", tools.parent().expect("a folder").display());
    let profile =
        Path::new(env!("CARGO_BIN_EXE_tierfs")).parent().and_then(Path::file_name).expect("a profile");
    let profile = if profile == "debug" { "dev".as_ref() } else { profile };
    let mut build = Command::new(here.join("packaging/build-deb.sh"));
    let output =
        build.args(["--no-build".as_ref(), profile]).env("PATH", path).output().expect("build-deb.sh");
    assert!(output.status.success(), "{}", crate::support::mount::told(&output));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    PathBuf::from(said.lines().last().expect("the package's name"))
}

#[test]
fn full_deb_installs_mounts_and_never_restarts_a_live_mount() {
    let package = packed();
    let root = Root::new();
    fs::copy(&package, root.path("tmp/tierfs.deb")).expect("a copy");
    let install = "dpkg -i --force-depends /tmp/tierfs.deb";
    root.run(install);
    for file in [
        "usr/share/man/man1/tierfs-mount.1.gz",
        "usr/share/man/man1/tierstat.1.gz",
        "usr/share/bash-completion/completions/tierfs",
        "usr/share/zsh/vendor-completions/_tierstat",
        "usr/share/fish/vendor_completions.d/tierfs.fish",
        "usr/lib/systemd/system/tierfs@.service",
        "usr/share/doc/tierfs/examples/train.toml",
        "usr/share/tierfs/grafana/tierfs.json",
    ] {
        assert!(root.path(file).exists(), "{file}");
    }
    assert_eq!(root.run("stat -c %a /run/tierfs /var/lib/tierfs /etc/tierfs"), "755\n700\n755\n");
    root.run("id tierfs");

    root.configure("t");
    root.run("mount -t fuse.tierfs -o allow_other /etc/tierfs/t.toml /mnt/t");
    root.run("mkdir /mnt/t/blob && echo text > /mnt/t/blob/file");
    let pid = root.pid("t");
    root.run(install);
    assert_eq!(root.pid("t"), pid, "an upgrade has restarted the mount");
    root.run("dpkg -r tierfs && grep -q text /mnt/t/blob/file");
    root.run(install);
    assert_eq!(root.pid("t"), pid, "a removal has ended the mount");
    root.run("umount /mnt/t");
    assert_eq!(fs::read_to_string(root.path("srv/t/blob/blob/file")).expect("home"), "text\n");
    root.run("dpkg -P tierfs && test -e /etc/tierfs/t.toml && test -d /var/lib/tierfs");
}

#[test]
fn the_packages_scripts_touch_no_mount() {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/debian");
    let mut seen = 0;
    for entry in fs::read_dir(scripts).expect("scripts") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("a script");
        let checked = Command::new("sh").arg("-n").arg(&path).status().expect("sh");
        assert!(checked.success(), "{}", path.display());
        for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
            for word in ["restart", "stop", "umount", "unmount", "kill"] {
                assert!(!line.contains(word), "{}: {line}", path.display());
            }
            assert!(!line.contains("systemctl") || line.contains("systemctl daemon-reload"), "{line}");
        }
        seen += 1;
    }
    assert_eq!(seen, 2);
}
