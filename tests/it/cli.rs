//! The commands as a user meets them: what they print and how they end. Needs no daemon: where a
//! mount is needed, a fake one answers.

mod check;
mod demo;
mod fake;
mod mounted;
mod tierstat;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// What a command printed and how it ended.
#[derive(Debug)]
struct Told {
    code: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for Told {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Told {
    /// Ended with `code`, with one line that says `parts`.
    fn refuses(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.err.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{self:?}");
        for part in parts {
            assert!(self.err.contains(part), "no {part:?} in {self:?}");
        }
    }

    /// Ended well, having printed `parts`.
    fn prints(&self, parts: &[&str]) {
        assert_eq!(self.code, Some(0), "{self:?}");
        for part in parts {
            assert!(self.out.contains(part), "no {part:?} in {self:?}");
        }
    }
}

fn tierfs<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Told {
    ran(Command::new(env!("CARGO_BIN_EXE_tierfs")).args(arguments))
}

fn tierstat<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Told {
    ran(Command::new(env!("CARGO_BIN_EXE_tierstat")).args(arguments))
}

fn ran(command: &mut Command) -> Told {
    command.stdin(Stdio::null()).output().expect("the binary").into()
}

/// Reads what `child` says on standard error until `sign` appears, runs `then`, and answers all it said.
fn speak_then(mut child: std::process::Child, sign: &str, then: impl FnOnce()) -> String {
    use std::io::{BufRead, BufReader};
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let mut said = String::new();
    let mut take = |said: &mut String| {
        let line = lines.next().transpose().expect("text");
        line.map(|line| said.push_str(&(line + "\n")))
    };
    while !said.contains(sign) && take(&mut said).is_some() {}
    then();
    while take(&mut said).is_some() {}
    child.wait().expect("its end");
    said
}

/// A config of one tier, its mount point and everything around it.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { dir: TempDir::new().expect("a directory") };
        fs::create_dir(place.path("mnt")).expect("a mount point");
        fs::create_dir(place.path("tier")).expect("a tier");
        place.write_config(&place.string("tier"));
        place
    }

    fn write_config(&self, tier: &str) {
        let root = self.dir.path().display();
        let config = format!(
            "[mount]\ncatalog = \"sqlite://{root}/state/catalog.db\"\ncontrol = \"{root}/control.sock\"\n\
             [tier.disk]\nkind = \"local\"\npath = \"{tier}\"\n[[rule]]\npath = \"**\"\nhome = \"disk\"\n"
        );
        fs::write(self.path("x.toml"), config).expect("a config");
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn string(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn mount(&self) -> Told {
        tierfs(&["mount", &self.string("x.toml"), &self.string("mnt"), "--log", &self.string("log")])
    }

    /// Nothing was touched by a refused mount.
    fn is_untouched(&self) {
        assert!(!self.path("state").exists(), "a catalog was made");
        assert!(!self.path("control.sock").exists(), "a socket was made");
        assert_eq!(fs::read_dir(self.path("tier")).expect("the tier").count(), 0, "the tier was touched");
    }
}

#[test]
fn a_mount_that_cannot_be_says_why_and_touches_nothing() {
    let place = Place::new();
    tierfs(&["mount", "/nowhere/x.toml", &place.string("mnt")])
        .refuses(2, &["/nowhere/x.toml", "No such file"]);

    fs::write(place.path("mnt/precious"), "").expect("a file");
    place.mount().refuses(1, &["is not empty", "-o nonempty"]);
    fs::remove_file(place.path("mnt/precious")).expect("rm");

    fs::remove_dir(place.path("mnt")).expect("rmdir");
    place.mount().refuses(1, &["does not exist", "mkdir -p"]);
    fs::write(place.path("mnt"), "").expect("a file");
    place.mount().refuses(1, &["is not a directory"]);
    place.is_untouched();
}

#[test]
fn a_mount_that_would_hide_or_hold_a_tier_is_refused() {
    let place = Place::new();
    place.write_config(&place.string("mnt/tier"));
    place.mount().refuses(2, &["tier disk", "lies inside the mount point"]);
    std::os::unix::fs::symlink("..", place.path("tier/up")).expect("a link");
    place.write_config(&place.string("tier/up"));
    place.mount().refuses(2, &["tier disk", "holds the mount point"]);
    assert!(!place.path("state").exists() && !place.path("control.sock").exists());
}

#[test]
fn wrong_options_are_told_all_at_once() {
    let place = Place::new();
    let told = tierfs(&["mount", &place.string("x.toml"), &place.string("mnt"), "-o", "alow_other,uid=bob"]);
    told.refuses(2, &["allow_other", "uid=bob"]);
    place.is_untouched();
}

#[test]
fn the_start_of_a_background_daemon_is_reported() {
    let place = Place::new();
    let told = tierfs(&[
        "mount",
        &place.string("x.toml"),
        &place.string("mnt"),
        "--log",
        "/proc/no/such/directory/log",
    ]);
    told.refuses(1, &["/proc/no/such/directory/log", "--log FILE"]);
    let told = tierfs(&["mount", &place.string("x.toml"), &place.string("mnt"), "--ready-fd", "1"]);
    told.refuses(2, &["--ready-fd"]);
    place.is_untouched();
}

#[test]
fn a_config_with_problems_ends_check_and_mount_with_2() {
    let place = Place::new();
    fs::write(place.path("x.toml"), "[mount]\nmemory = \"1 potato\"\n[tier.a]\nkind = \"lokal\"\n")
        .expect("a config");
    for told in [place.mount(), tierfs(&["check", &place.string("x.toml")])] {
        assert_eq!(told.code, Some(2), "{told:?}");
        assert!(told.err.contains("x.toml:2:") && told.err.contains("lokal"), "{told:?}");
    }
    place.is_untouched();
}

#[test]
fn check_says_what_this_machine_allows() {
    let place = Place::new();
    let told = tierfs(&["check", &place.string("x.toml"), &place.string("mnt")]);
    for part in [
        "config: 1 tier, 1 rule",
        "kernel: Linux ",
        "fuse: ",
        "passthrough: ",
        "mount point: ",
        "tier disk: ",
    ] {
        assert!(told.out.contains(part), "no {part:?} in {told:?}");
    }
    assert!(told.out.lines().all(|line| ["ok  ", "warn", "FAIL"].contains(&&line[..4])), "{told:?}");
    assert!(!place.path("state").exists() && !place.path("control.sock").exists());
    // Finding out what a tier can do may leave an empty directory of ours, and nothing else.
    let own = fs::read_dir(place.path("tier/.tierfs")).map_or(0, |entries| entries.count());
    let all = fs::read_dir(place.path("tier")).expect("the tier").count();
    assert!(own == 0 && all <= 1, "the tier was touched");
}

#[test]
fn check_fails_on_a_bad_mount_point_and_goes_on() {
    let place = Place::new();
    let told = tierfs(&["check", &place.string("x.toml"), &place.string("x.toml")]);
    assert_eq!(told.code, Some(1), "{told:?}");
    assert!(told.out.contains("FAIL  mount point: ") && told.out.contains("tier disk: "), "{told:?}");
}

#[test]
fn what_is_not_mounted_ends_with_3() {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().as_os_str();
    for verb in ["flush", "unmount", "umount", "path"] {
        tierfs(&[verb.as_ref(), path]).refuses(3, &["is not in a tierfs mount"]);
    }
    tierstat(&[path]).refuses(3, &["is not in a tierfs mount"]);
    tierstat(&["ls".as_ref(), path]).refuses(3, &["is not in a tierfs mount"]);
}

#[test]
fn wrong_usage_ends_with_2() {
    for arguments in
        [&["mount", "only-one"][..], &["no-such-verb"], &["flush"], &["unmount", "/m", "--timeout", "9"]]
    {
        let told = tierfs(arguments);
        assert_eq!(told.code, Some(2), "{told:?}");
        assert!(told.err.starts_with("error: "), "{told:?}");
    }
    assert_eq!(tierfs(&["--help"]).code, Some(0));
    tierfs(&["--version"]).prints(&[env!("CARGO_PKG_VERSION")]);
}

#[test]
fn a_demo_where_something_is_already_is_refused() {
    let place = Place::new();
    tierfs(&["demo".as_ref(), place.dir.path().as_os_str()]).refuses(2, &["is not empty"]);
    assert!(Path::new(&place.path("x.toml")).exists());
}
