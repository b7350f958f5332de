//! Programs of their own that work in a mount and live on when its daemon is killed: fsx, and a job that writes checkpoints.

use super::tree::{is_between, unlike};
use crate::support::mount::{end_with_us, xattr};
use crate::support::site::files_below;
use crate::support::{Mode, Tiers, tool, wait};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The directory of each root that is theirs.
pub const PLACE: &str = "programs";

/// What the kernel does by passthrough without a daemon: only sizes and some calls need one.
const FSX_LIVES_ON: &str = "
flen = 524288
nosizechecks = true
[opsize]
max = 65536
[weights]
truncate = 0.1
fsync = 0.05
close_open = 0.05
invalidate = 0.0
";

const FSX: &str = "
flen = 524288
[opsize]
max = 65536
[weights]
truncate = 1.0
fsync = 0.2
close_open = 0.5
";

/// fsx on a file. What it must have left is known from the same run on a plain directory.
#[derive(Debug)]
pub struct Fsx {
    path: String,
    seed: u64,
    own: TempDir,
    child: Child,
}

impl Fsx {
    /// Below `root` of the mount.
    pub fn start(mount: &Path, root: &str, seed: u64, mode: Mode) -> Self {
        let own = tempfile::tempdir().expect("a temporary directory");
        let config = if mode == Mode::Passthrough { FSX_LIVES_ON } else { FSX };
        fs::write(own.path().join("config"), config).expect("a config");
        let place = Path::new(root).join(PLACE);
        fs::create_dir_all(mount.join(&place)).expect("mkdir");
        let path = place.join(format!("fsx-{seed}")).to_string_lossy().into_owned();
        let log = File::create(own.path().join("log")).expect("a log");
        let mut command = fsx(own.path(), seed);
        command.arg("-v").arg(mount.join(&path)).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().expect("fsx");
        Self { path, seed, own, child }
    }

    /// The mount is fine, so it works.
    pub fn works(&mut self) {
        let ended = self.child.try_wait().expect("its state");
        assert!(ended.is_none(), "fsx on {} ended: {ended:?}\n{}", self.path, self.log());
    }

    /// Ends it, if it has not ended with the mount.
    pub fn stop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).expect("its end");
        // A call that was under way when the daemon died may have done a part.
        let log = self.log();
        let found = log.lines().find_map(|line| line.strip_prefix("[ERROR fsx] "));
        assert!(found.is_none_or(|found| found.starts_with("short ")), "{}: {log}", self.path);
    }

    fn log(&self) -> String {
        fs::read_to_string(self.own.path().join("log")).expect("its log")
    }

    /// The last call it began.
    fn calls(&self) -> u64 {
        let log = self.log();
        let numbers =
            log.lines().filter_map(|line| line.strip_prefix("[INFO  fsx]")?.split_whitespace().next());
        numbers.filter_map(|number| number.parse().ok()).next_back().unwrap_or(0)
    }

    /// The file after so many calls.
    fn after(&self, calls: u64) -> Vec<u8> {
        if calls == 0 {
            return Vec::new();
        }
        let plain = self.own.path().join("plain");
        let mut command = fsx(self.own.path(), self.seed);
        let output = command.args(["-q", "-N", &calls.to_string()]).arg(&plain).output().expect("fsx");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::read(plain).expect("its file")
    }

    /// The call under way when it ended was done, was not, or was cut off.
    pub fn verify(&self, mount: &Path) {
        let calls = self.calls();
        if calls == 0 {
            return;
        }
        let found = fs::read(mount.join(&self.path)).unwrap_or_else(|error| panic!("{}: {error}", self.path));
        let (before, after) = (self.after(calls - 1), self.after(calls));
        let path = &self.path;
        assert!(
            is_between(&found, &before, &after),
            "{path} after {calls} calls: {} (after the last), {} (before it)\n{}",
            unlike(&found, &after),
            unlike(&found, &before),
            self.log()
        );
    }

    /// Closes the file through the mount, so that it goes home.
    pub fn close(&self, mount: &Path) {
        let path = mount.join(&self.path);
        if path.exists() && xattr(&path, "user.tierfs.state") == b"writing" {
            drop(File::options().append(true).open(&path).expect("open"));
        }
    }

    /// It is at home as it is here; removes it.
    pub fn leave(&self, mount: &Path, tiers: &Tiers) {
        let Ok(here) = fs::read(mount.join(&self.path)) else { return };
        let there = match self.path.split('/').next() {
            Some("blob" | "hot") => tiers.blob(&self.path),
            Some("share") => fs::read(tiers.share.join(&self.path)).ok(),
            _ => fs::read(tiers.scratch.join(&self.path)).ok(),
        };
        assert!(there.as_ref() == Some(&here), "{}: other bytes at home", self.path);
        fs::remove_file(mount.join(&self.path)).expect("unlink");
    }
}

fn fsx(own: &Path, seed: u64) -> Command {
    let mut command = Command::new(tool("fsx"));
    command.arg("-f").arg(own.join("config")).args(["-S", &seed.to_string(), "-P"]).arg(own);
    command.stdin(Stdio::null());
    end_with_us(&mut command);
    command
}

/// A job that writes checkpoints and a `latest` that names the newest: tests/checks/checkpoints.py.
#[derive(Debug)]
pub struct Checkpoints {
    directory: String,
    journal: PathBuf,
    child: Child,
    deaths: usize,
    _own: TempDir,
}

/// What must be there, as the journal tells it.
#[derive(Debug, Default)]
struct Expected {
    /// Checkpoint → whether it certainly is there; not listed: it certainly is not.
    steps: BTreeMap<u64, bool>,
    latest: Option<u64>,
    /// What `latest` is just being made to name.
    pointing: Option<u64>,
}

fn content(step: u64) -> Vec<u8> {
    let lines = (1000 + step * 7919 % 20_000) * if step.is_multiple_of(10) { 20 } else { 1 };
    format!("{step:08}\n").repeat(usize::try_from(lines).expect("small")).into_bytes()
}

impl Checkpoints {
    /// Below `root` of the mount.
    pub fn start(mount: &Path, root: &str) -> Self {
        let own = tempfile::tempdir().expect("a temporary directory");
        let directory = Path::new(root).join(PLACE).join("run").to_string_lossy().into_owned();
        fs::create_dir_all(mount.join(&directory)).expect("mkdir");
        let journal = own.path().join("journal");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/checks/checkpoints.py");
        let mut command = Command::new("python3");
        command.arg(script).arg(mount.join(&directory)).arg(&journal).stdin(Stdio::null());
        end_with_us(&mut command);
        let child = command.spawn().expect("python3");
        let job = Self { directory, journal, child, deaths: 0, _own: own };
        // From then on it understands signals.
        wait::until("the job to start", || job.journal().starts_with("started"));
        job
    }

    fn journal(&self) -> String {
        fs::read_to_string(&self.journal).unwrap_or_default()
    }

    fn tell(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a signal");
    }

    /// The mount is fine, or has died once more than before, so it works.
    fn works(&self) {
        let journal = self.journal();
        let died = journal.lines().filter(|line| line.starts_with("died")).count();
        let failed = journal.lines().any(|line| line.starts_with("failed"));
        assert!(!failed && died <= self.deaths, "{}: {journal}", self.directory);
    }

    /// After a death: it stands still, with nothing open.
    pub fn pause(&mut self) {
        self.deaths += 1;
        self.tell(Signal::USR1);
        wait::until("the job to pause", || {
            let journal = self.journal();
            journal.ends_with("paused\n") || journal.contains("failed")
        });
        self.works();
    }

    pub fn resume(&self) {
        self.tell(Signal::USR2);
    }

    /// Lets it end in order.
    pub fn finish(&mut self) {
        self.tell(Signal::TERM);
        let status = self.child.wait().expect("its end");
        assert!(status.success(), "{status}: {}", self.journal());
        self.works();
    }

    fn expected(&self) -> Expected {
        let mut expected = Expected::default();
        for line in self.journal().lines() {
            let (word, step) = line.split_once(' ').unwrap_or((line, ""));
            let Ok(step) = step.parse() else { continue };
            match word {
                // A second time it only replaces itself.
                "rename" => _ = expected.steps.entry(step).or_insert(false),
                "renamed" => _ = expected.steps.insert(step, true),
                "remove" => _ = expected.steps.entry(step).and_modify(|certain| *certain = false),
                "removed" => _ = expected.steps.remove(&step),
                "point" => expected.pointing = Some(step),
                "pointed" => (expected.latest, expected.pointing) = (Some(step), None),
                _ => panic!("{line}"),
            }
        }
        expected
    }

    /// What was acknowledged is there, whole; what was not is whole or not there.
    pub fn verify(&self, mount: &Path) {
        let (expected, directory) = (self.expected(), mount.join(&self.directory));
        let journal = || self.journal();
        for entry in fs::read_dir(&directory).expect("a listing") {
            let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
            let step = name.strip_prefix("step-").and_then(|step| step.parse::<u64>().ok());
            let known = step.is_none_or(|step| expected.steps.contains_key(&step));
            assert!(known, "{name} is there; {}", journal());
        }
        for (step, certain) in &expected.steps {
            let found = fs::read(directory.join(format!("step-{step}")));
            match found {
                Ok(found) => assert!(
                    found == content(*step),
                    "step-{step}: {}; {}",
                    unlike(&found, &content(*step)),
                    journal()
                ),
                Err(error) => assert!(!certain, "step-{step}: {error}; {}", journal()),
            }
        }
        let latest = fs::read_to_string(directory.join("latest")).ok();
        let names = |step: Option<u64>| latest == step.map(|step| step.to_string());
        match expected.pointing {
            None => assert!(names(expected.latest), "latest: {latest:?}; {}", journal()),
            Some(step) => {
                // It was being written in place.
                let begun =
                    latest.as_ref().is_some_and(|latest| step.to_string().starts_with(latest.as_str()));
                assert!(begun || names(expected.latest), "latest: {latest:?}; {}", journal());
            }
        }
    }

    /// Whoever reads Blob, at any moment: what `latest` names is there, whole.
    pub fn verify_order(&self, tiers: &Tiers) {
        let Some(latest) = tiers.blob(&format!("{}/latest", self.directory)) else { return };
        let latest = String::from_utf8(latest).expect("a number");
        // One that was made empty to be written, and closed so by a death.
        let Ok(step) = latest.parse::<u64>() else { return assert!(latest.is_empty(), "{latest}") };
        let found = tiers.blob(&format!("{}/step-{step}", self.directory));
        // A killed daemon's last request may still arrive between the two looks.
        let gone_on = tiers.blob(&format!("{}/latest", self.directory)) != Some(latest.into_bytes());
        let whole = content(step);
        let there = || found.as_ref().map_or("missing".to_owned(), |found| unlike(found, &whole));
        assert!(
            gone_on || found.as_ref() == Some(&whole),
            "latest on Blob names step {step}: {}; {}",
            there(),
            self.journal()
        );
    }

    /// All that is here is at home, and nothing else.
    pub fn verify_home(&self, mount: &Path, tiers: &Tiers) {
        let directory = format!("{}/", self.directory);
        let mut there = tiers.blob_file_names();
        there.retain(|name| name.starts_with(&directory));
        let mut here = files_below(&mount.join(&self.directory));
        here.iter_mut().for_each(|name| name.insert_str(0, &directory));
        assert_eq!(there, here, "{}", self.journal());
        for name in here {
            let bytes = fs::read(mount.join(&name)).expect("a read");
            assert!(tiers.blob(&name) == Some(bytes), "{name}: other bytes on Blob; {}", self.journal());
        }
    }
}
