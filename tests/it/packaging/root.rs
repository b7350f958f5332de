//! A machine of its own: this one's root below an overlay, so that packages can be installed and every path of theirs is as it
//! will be, and nothing of it stays.

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::ffi::CString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A root in a mount namespace that ends with the test's thread.
pub struct Root {
    dir: TempDir,
}

impl Root {
    /// An empty machine: this one without what tests installed.
    pub fn new() -> Self {
        // SAFETY: only this thread's view of the mounts changes, and nobody else is to see what is mounted below.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.expect("a mount namespace");
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change("/", private).expect("mounts of its own");
        let dir = TempDir::new().expect("a directory");
        // The upper layer of an overlay can't be inside its lower one.
        mount_as("tmpfs", dir.path(), "tmpfs", "size=2g,mode=755");
        let root = Self { dir };
        for name in ["upper", "work", "root"] {
            fs::create_dir(root.dir.path().join(name)).expect("mkdir");
        }
        let at = |name: &str| root.dir.path().join(name).display().to_string();
        let layers = format!("lowerdir=/,upperdir={},workdir={}", at("upper"), at("work"));
        mount_as("overlay", &root.dir.path().join("root"), "overlay", &layers);
        for name in ["dev", "proc", "sys"] {
            mount_bind(format!("/{name}"), root.path(name)).expect("a bind mount");
        }
        // Passthrough needs another file system than an overlay; so do tiers of a real machine.
        for name in ["srv", "tmp", "run", "var/lib"] {
            fs::create_dir_all(root.path(name)).expect("mkdir");
        }
        mount_as("tmpfs", &root.path("srv"), "tmpfs", "mode=755");
        mount_as("tmpfs", &root.path("run"), "tmpfs", "mode=755");
        root
    }

    /// A path on it, from outside.
    pub fn path(&self, inside: &str) -> PathBuf {
        self.dir.path().join("root").join(inside.trim_start_matches('/'))
    }

    /// The programs and units where the package puts them.
    pub fn install(&self) {
        let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging");
        for (program, name) in [
            (env!("CARGO_BIN_EXE_tierfs"), "usr/bin/tierfs"),
            (env!("CARGO_BIN_EXE_tierstat"), "usr/bin/tierstat"),
        ] {
            fs::copy(program, self.path(name)).expect("a copy");
        }
        for entry in fs::read_dir(packaging.join("sbin")).expect("helpers") {
            let entry = entry.expect("an entry");
            let target = fs::read_link(entry.path()).expect("a link");
            symlink(target, self.path("usr/sbin").join(entry.file_name())).expect("a link");
        }
        fs::create_dir_all(self.path("etc/tierfs")).expect("mkdir");
    }

    /// A config `/etc/tierfs/NAME.toml` with directories as tiers, and its mount point.
    pub fn configure(&self, name: &str) {
        for directory in [format!("srv/{name}/scratch"), format!("srv/{name}/blob"), format!("mnt/{name}")] {
            fs::create_dir_all(self.path(&directory)).expect("mkdir");
        }
        fs::create_dir_all(self.path("etc/tierfs")).expect("mkdir");
        let config = format!(
            "[mount]\nstage = \"scratch\"\ncatalog = \"sqlite:///srv/{name}/catalog/{name}.db\"\n\
             [tier.scratch]\nkind = \"local\"\npath = \"/srv/{name}/scratch\"\n\
             [tier.blob]\nkind = \"blob\"\nurl = \"file:///srv/{name}/blob\"\n\
             [[rule]]\npath = \"blob/**\"\nhome = \"blob\"\n[[rule]]\npath = \"**\"\nhome = \"scratch\"\n"
        );
        fs::write(self.path(&format!("etc/tierfs/{name}.toml")), config).expect("a config");
    }

    /// `line`, in a shell on it, not started yet.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new("chroot");
        command.arg(self.path("")).args(["/bin/sh", "-c", line]);
        command
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LC_ALL", "C")
            .env("HOME", "/root");
        command.stdin(Stdio::null());
        command
    }

    /// Runs `line`, whatever comes of it.
    pub fn try_run(&self, line: &str) -> Output {
        self.command(line).output().expect("chroot")
    }

    /// Runs `line`, which must succeed; what it printed.
    #[track_caller]
    pub fn run(&self, line: &str) -> String {
        let output = self.try_run(line);
        assert!(output.status.success(), "{line}: {}", crate::support::mount::told(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Process id of the daemon of the mount at `/mnt/NAME`.
    pub fn pid(&self, name: &str) -> String {
        let status = self.run(&format!("tierstat --json /mnt/{name}"));
        let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
        status["pid"].to_string()
    }

    /// Makes a file executable.
    pub fn chmod(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).expect("chmod");
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        // Ends the daemons of mounts that a failed test has left; the namespace takes the rest along.
        for entry in fs::read_dir(self.path("mnt")).into_iter().flatten().flatten() {
            while unmount(entry.path(), UnmountFlags::DETACH).is_ok() {}
        }
        for name in ["srv", "run", "dev", "proc", "sys", ""] {
            let _gone = unmount(self.path(name), UnmountFlags::DETACH);
        }
        let _gone = unmount(self.dir.path(), UnmountFlags::DETACH);
    }
}

fn mount_as(source: &str, target: &Path, kind: &str, data: &str) {
    let data = CString::new(data).expect("no NUL");
    mount(source, target, kind, MountFlags::empty(), Some(data.as_c_str()))
        .unwrap_or_else(|error| panic!("mount {kind} on {}: {error}", target.display()));
}
