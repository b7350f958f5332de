//! Real containers, made of a directory with the programs under test and what they link.

use crate::support::mount::told;
use crate::support::wait;
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_bind, mount_change, unmount};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Programs that a container needs besides ours.
const PROGRAMS: [&str; 6] = ["sh", "cat", "grep", "mkdir", "unshare", "fusermount3"];

/// A container's root, what it keeps, and a directory of this machine where its mount is to be seen.
struct Place {
    dir: TempDir,
    name: String,
}

impl Place {
    fn new() -> Self {
        let dir = TempDir::new().expect("a directory");
        let name = dir.path().file_name().expect("a name").to_string_lossy().replace('.', "t");
        let place = Self { dir, name };
        for directory in
            ["root/bin", "root/etc", "root/tmp", "root/mnt", "root/srv", "srv/scratch", "srv/blob", "mnt"]
        {
            fs::create_dir_all(place.path(directory)).expect("mkdir");
        }
        for name in ["proc", "sys", "dev", "run"] {
            fs::create_dir(place.path("root").join(name)).expect("mkdir");
        }
        fs::write(place.path("root/etc/passwd"), "root:x:0:0::/:/bin/sh\n").expect("passwd");
        let mut programs: Vec<PathBuf> = PROGRAMS.iter().map(|name| found(name)).collect();
        programs.extend([env!("CARGO_BIN_EXE_tierfs"), env!("CARGO_BIN_EXE_tierstat")].map(PathBuf::from));
        for program in &programs {
            let name = program.file_name().expect("a name");
            fs::copy(program, place.path("root/bin").join(name)).expect("a copy");
        }
        for library in libraries(&programs) {
            let to = place.path("root").join(library.strip_prefix("/").expect("absolute"));
            fs::create_dir_all(to.parent().expect("a parent")).expect("mkdir");
            fs::copy(&library, to).expect("a copy");
        }
        fs::write(place.path("srv/t.toml"), CONFIG).expect("a config");
        // What is mounted below it in the container is to be seen here.
        mount_bind(place.path("mnt"), place.path("mnt")).expect("a bind mount");
        mount_change(place.path("mnt"), MountPropagationFlags::SHARED).expect("a shared mount");
        fs::create_dir(place.path("mnt/t")).expect("mkdir");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `podman VERB… `
    fn podman(&self, arguments: &[&str]) -> Output {
        Command::new("podman").args(arguments).stdin(Stdio::null()).output().expect("podman")
    }

    /// A container with these options that runs `command`.
    fn run(&self, options: &[&str], command: &[&str]) -> Output {
        let volumes = [format!("{}:/srv", self.path("srv").display()), self.shared()];
        let root = self.path("root").display().to_string();
        let mut all = vec!["run", "--runtime=runc", "--rm", "--net=none", "--name", &self.name];
        all.extend(["--ulimit=nofile=10000:10000", "--ulimit=nproc=1000:1000", "--device=/dev/fuse"]);
        all.extend(["-v", &volumes[0], "-v", &volumes[1]]);
        all.extend(options);
        all.extend(["--rootfs", &root]);
        all.extend(command);
        self.podman(&all)
    }

    fn shared(&self) -> String {
        format!("{}:/mnt:rshared", self.path("mnt").display())
    }

    /// Starts the daemon in a container that may mount for all, as the README says, and waits until it is seen here.
    fn start(&self) {
        let options = ["--detach", "--cap-add=SYS_ADMIN", "--security-opt=apparmor=unconfined"];
        let started = self.run(
            &options,
            &["tierfs", "mount", "--foreground", "-o", "allow_other", "/srv/t.toml", "/mnt/t"],
        );
        assert!(started.status.success(), "{}", told(&started));
        wait::until("the mount to be seen", || {
            wait::is_mounted(&self.path("mnt/t")) && fs::metadata(self.path("mnt/t")).is_ok()
        });
    }

    /// SIGTERM, with a minute to drain.
    fn stop(&self) {
        let stopped = self.podman(&["stop", "--time=60", &self.name]);
        assert!(stopped.status.success(), "{}", told(&stopped));
        self.gone();
    }

    /// Waits until the container is removed, which `--rm` does after its end.
    fn gone(&self) {
        wait::until("the container to be gone", || {
            !self.podman(&["container", "exists", &self.name]).status.success()
        });
    }

    fn told(&self) -> String {
        told(&self.podman(&["logs", &self.name]))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- {} ---\n{}", self.name, self.told());
        }
        let _gone = self.podman(&["rm", "--force", "--time=0", &self.name]);
        for name in ["mnt/t", "mnt"] {
            while unmount(self.path(name), UnmountFlags::DETACH).is_ok() {}
        }
    }
}

const CONFIG: &str = r#"
[mount]
catalog = "sqlite:///srv/state/t.db"
control = "/run/tierfs/t.sock"
stage = "scratch"
[tier.scratch]
kind = "local"
path = "/srv/scratch"
[tier.blob]
kind = "blob"
url = "file:///srv/blob"
[[rule]]
path = "blob/**"
home = "blob"
[[rule]]
path = "**"
home = "scratch"
"#;

fn found(name: &str) -> PathBuf {
    let places = ["/bin", "/usr/bin"].map(|place| Path::new(place).join(name));
    places.into_iter().find(|path| path.exists()).unwrap_or_else(|| panic!("no {name} on this machine"))
}

/// All libraries that these programs load.
fn libraries(programs: &[PathBuf]) -> BTreeSet<PathBuf> {
    let output = Command::new("ldd").args(programs).output().expect("ldd");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = text.lines().filter(|line| line.starts_with('\t')).flat_map(str::split_whitespace);
    words.filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

#[test]
fn full_container_is_seen_outside_drains_on_stop_and_comes_back_after_a_kill() {
    let place = Place::new();
    let (mount, home) = (place.path("mnt/t"), place.path("srv/blob/blob"));
    place.start();
    fs::create_dir(mount.join("blob")).expect("mkdir");
    fs::write(mount.join("blob/first"), "first").expect("a write");
    assert_eq!(fs::read_to_string(mount.join("blob/first")).expect("a read"), "first");
    let inside = place.podman(&["exec", &place.name, "cat", "/mnt/t/blob/first"]);
    assert_eq!(inside.stdout, b"first", "{}", told(&inside));
    let health = place.podman(&["exec", &place.name, "tierstat", "health", "/mnt/t"]);
    assert_eq!(health.stdout, b"fine\n", "{}", told(&health));

    place.stop();
    assert_eq!(fs::read_to_string(home.join("first")).expect("home"), "first");
    wait::until("the mount to be gone", || !wait::is_mounted(&mount));

    place.start();
    fs::write(mount.join("blob/second"), "second").expect("a write");
    let killed = place.podman(&["kill", "--signal=KILL", &place.name]);
    assert!(killed.status.success(), "{}", told(&killed));
    place.gone();
    // What the kernel knew it tells a little longer.
    wait::until("the mount to be dead", || {
        fs::metadata(&mount).is_err_and(|error| error.raw_os_error() == Some(libc::ENOTCONN))
    });

    place.start();
    for (name, text) in [("first", "first"), ("second", "second")] {
        assert_eq!(fs::read_to_string(mount.join("blob").join(name)).expect("a read"), text);
    }
    place.stop();
    assert_eq!(fs::read_to_string(home.join("second")).expect("home"), "second");
}

#[test]
fn full_container_without_sys_admin_mounts_for_itself_in_ordinary_mode() {
    let place = Place::new();
    let refused = place.run(&[], &["tierfs", "mount", "/srv/t.toml", "/mnt/t", "--log", "/tmp/log"]);
    let said = told(&refused);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("--cap-add SYS_ADMIN") && said.contains("unshare"), "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{said}");

    // A user namespace of its own may mount, for what runs in it.
    let script = "tierfs mount /srv/t.toml /mnt/t --log /tmp/log && mkdir /mnt/t/blob && echo text >/mnt/t/blob/file && \
                  cat /mnt/t/blob/file && tierfs unmount /mnt/t";
    let job = ["unshare", "--map-root-user", "--mount", "sh", "-c", script];
    let ran = place.run(&["--security-opt=seccomp=unconfined", "--security-opt=apparmor=unconfined"], &job);
    let said = told(&ran);
    assert!(ran.status.success() && said.contains("\ntext\n"), "{said}");
    assert!(said.contains("ordinary mode") && said.contains("user namespace"), "{said}");
    assert_eq!(fs::read_to_string(place.path("srv/blob/blob/file")).expect("home"), "text\n");
    assert!(!wait::is_mounted(&place.path("mnt/t")), "what a user namespace mounts is its own");
}
