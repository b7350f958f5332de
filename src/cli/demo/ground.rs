//! Where the demo happens, and how it is cleared: never through a mount that still stands.

use crate::cli::detach::{Manner, detach};
use crate::cli::failure::Failure;
use crate::cli::say;
use crate::cli::text;
use crate::control::client::Client;
use crate::control::mounts;
use rustix::process::{Pid, Signal};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// What all files of the demo take on all tiers together.
const SPACE: u64 = 1 << 30;

/// The directory of the demo.
#[derive(Debug)]
pub(super) struct Ground {
    root: PathBuf,
    keep: Keep,
    cleared: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    Kept,
    Removed,
}

impl Ground {
    pub(super) fn lay(dir: Option<PathBuf>) -> Result<Self, Failure> {
        let (root, keep) = match dir {
            Some(dir) => (own(&dir)?, Keep::Kept),
            None => (temporary()?, Keep::Removed),
        };
        let ground = Self { root, keep, cleared: AtomicBool::new(false) };
        enough_space(&ground.root)?;
        for dir in [ground.mountpoint(), ground.tier("scratch"), ground.tier("share"), ground.tier("blob")] {
            fs::create_dir(&dir).map_err(|error| failed(&dir, &error))?;
        }
        let config = ground.config();
        fs::write(&config, ground.config_text()).map_err(|error| failed(&config, &error))?;
        Ok(ground)
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Where the tree is mounted.
    pub(super) fn mountpoint(&self) -> PathBuf {
        self.root.join("train")
    }

    pub(super) fn tier(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn config(&self) -> PathBuf {
        self.root.join("demo.toml")
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.root.join("demo.sock")
    }

    fn config_text(&self) -> String {
        let root = self.root.display();
        format!(
            r#"# Three directories stand for the three tiers; everything else is as in production.
[mount]
catalog = "sqlite://{root}/catalog.db"
control = "{root}/demo.sock"
stage = "scratch"

[tier.scratch]   # stands for Lustre
kind = "local"
path = "{root}/scratch"

[tier.share]     # stands for Azure Files
kind = "local"
path = "{root}/share"

[tier.blob]      # stands for a Blob container
kind = "blob"
url = "file://{root}/blob"

[[rule]]         # a checkpoint is closed at scratch speed and committed to Blob behind it
path = "checkpoints/**"
home = "blob"
hot = "scratch"

[[rule]]         # a dataset lives in Blob; what is read is kept on scratch
path = "datasets/**"
home = "blob"
hot = "scratch"
promote = "on-read"

[[rule]]         # models are served from the share
path = "models/**"
home = "share"

[[rule]]
path = "**"
home = "scratch"
"#
        )
    }

    /// Unmounts what stands, by force if need be, and removes what is temporary. Once.
    pub(super) fn clear(&self) {
        if self.cleared.swap(true, Ordering::SeqCst) {
            return;
        }
        let point = self.mountpoint();
        if self.is_mounted() {
            self.kill_daemon();
            if let Err(error) = detach(&point, Manner::Lazy) {
                say::err(format_args!("demo: {error}"));
            }
        }
        if self.keep == Keep::Removed
            && !self.is_mounted()
            && let Err(error) = fs::remove_dir_all(&self.root)
        {
            say::err(format_args!("demo: {} stays behind: {error}", self.root.display()));
        }
    }

    pub(super) fn is_mounted(&self) -> bool {
        let point = self.mountpoint();
        // Not knowing counts as mounted: nothing may be removed through a mount.
        mounts::all().map_or(true, |mounts| mounts.iter().any(|mount| mount.point == point))
    }

    /// `failure`, with where the daemon's log is.
    pub(super) fn with_log(&self, failure: Failure) -> Failure {
        match self.keep {
            Keep::Removed => Failure {
                message: format!(
                    "{failure}\n(`tierfs demo DIR` keeps everything, with the daemon's log in DIR/demo.log)"
                ),
                ..failure
            },
            Keep::Kept => Failure {
                message: format!("{failure}\n(the daemon's log: {}/demo.log)", self.root.display()),
                ..failure
            },
        }
    }

    /// Kills the daemon as a crash would.
    pub(super) fn kill_daemon(&self) -> Option<u32> {
        let pid = Client::connect(&self.socket()).ok()?.hello().ok()?.pid;
        let process = Pid::from_raw(i32::try_from(pid).ok()?)?;
        rustix::process::kill_process(process, Signal::KILL).ok()?;
        Some(pid)
    }

    pub(super) fn farewell(&self) -> String {
        match self.keep {
            Keep::Removed => {
                "Everything is cleaned up. `tierfs demo DIR` keeps it for a closer look.".to_owned()
            }
            Keep::Kept => format!(
                "All of it stays in {0}.\nGo on with: tierfs mount {0}/demo.toml {0}/train",
                self.root.display()
            ),
        }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.clear();
    }
}

fn own(dir: &Path) -> Result<PathBuf, Failure> {
    fs::create_dir_all(dir).map_err(|error| failed(dir, &error))?;
    let real = dir.canonicalize().map_err(|error| failed(dir, &error))?;
    let mut entries = fs::read_dir(&real).map_err(|error| failed(dir, &error))?;
    if entries.next().is_some() {
        return Err(Failure::usage(format!("{} is not empty: name a new directory", dir.display())));
    }
    if real.to_str().is_none_or(|text| text.contains(['"', '\\', '$', '%', '#', '?'])) {
        return Err(Failure::usage(format!(
            "{}: name a directory without special characters",
            dir.display()
        )));
    }
    Ok(real)
}

fn temporary() -> Result<PathBuf, Failure> {
    let base = std::env::temp_dir();
    let base = base.canonicalize().map_err(|error| failed(&base, &error))?;
    for attempt in 0..100_u32 {
        let dir = base.join(format!("tierfs-demo-{}-{attempt}", std::process::id()));
        match fs::create_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(&dir, &error)),
        }
    }
    Err(Failure::failed(format!("{}: full of earlier demos; name a directory", base.display())))
}

fn enough_space(root: &Path) -> Result<(), Failure> {
    let found = rustix::fs::statvfs(root).map_err(|errno| failed(root, &errno.into()))?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    if free >= SPACE {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "the demo needs {} free, {} has {}: name a directory on another disk",
        text::bytes(SPACE),
        root.display(),
        text::bytes(free)
    )))
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_ground_stays_and_a_temporary_one_goes() {
        let dir = tempfile::TempDir::new().unwrap();
        let kept = dir.path().join("kept");
        drop(Ground::lay(Some(kept.clone())).unwrap());
        assert!(kept.join("demo.toml").exists() && kept.join("train").is_dir());
        assert!(Ground::lay(Some(kept)).unwrap_err().message.contains("not empty"));
        let temporary = Ground::lay(None).unwrap();
        let root = temporary.root().to_owned();
        drop(temporary);
        assert!(!root.exists());
    }
}
