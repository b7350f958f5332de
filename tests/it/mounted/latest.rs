//! Jobs that follow `latest` on Blob find what it names, whatever the trainer does to its files and however the service answers.

use crate::crash::Dice;
use crate::support::blob_server::{BlobServer, Effect, Operation, When};
use crate::support::mount::RULES;
use crate::support::{BOTH, Mode, Mount, Tiers, wait};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SHARDS: usize = 3;
/// A checkpoint is deleted once `latest` names the one that came so many later.
const KEPT: u64 = 3;

fn start_of(step: u64, shard: usize) -> String {
    format!("{step}:{shard}:")
}

/// Writes checkpoints as different programs do.
struct Trainer<'a> {
    run: &'a Path,
    dice: Dice,
}

impl Trainer<'_> {
    fn coin(&mut self) -> bool {
        self.dice.below(2) == 0
    }

    fn shard(&mut self, step: u64, shard: usize) -> Vec<u8> {
        let size = if self.dice.below(6) == 0 { 5 << 20 } else { self.dice.below(200_000) };
        let mut bytes = start_of(step, shard).into_bytes();
        bytes.resize(bytes.len() + size, b'x');
        bytes
    }

    fn checkpoint(&mut self, step: u64) {
        let last = self.run.join(format!("step-{step}"));
        let held = self.coin();
        let dir = if held { self.run.join(format!("tmp-{step}")) } else { last.clone() };
        fs::create_dir(&dir).expect("mkdir");
        for shard in 0..SHARDS {
            let (bytes, path) = (self.shard(step, shard), dir.join(format!("shard-{shard}")));
            if self.coin() {
                let temporary = dir.join(format!("shard-{shard}.tmp"));
                fs::write(&temporary, bytes).expect("a write");
                fs::rename(&temporary, &path).expect("rename");
            } else {
                fs::write(&path, bytes).expect("a write");
            }
            if self.dice.below(3) == 0 {
                let again = self.dice.below(shard + 1);
                self.append(&dir.join(format!("shard-{again}")));
            }
        }
        if held {
            fs::rename(&dir, &last).expect("rename");
        }
        self.name_latest(step);
        if self.coin() {
            // After its name was given away already.
            let shard = self.dice.below(SHARDS);
            let bytes = self.shard(step, shard);
            fs::write(last.join(format!("shard-{shard}")), bytes).expect("a rewrite");
        }
        if let Some(old) = step.checked_sub(KEPT).filter(|old| *old > 0) {
            fs::remove_dir_all(self.run.join(format!("step-{old}"))).expect("rm -r");
        }
    }

    fn append(&mut self, path: &Path) {
        let mut file = OpenOptions::new().append(true).open(path).expect("open");
        file.write_all(b"more").expect("a write");
    }

    fn name_latest(&mut self, step: u64) {
        let latest = self.run.join("latest");
        if self.coin() {
            fs::write(&latest, step.to_string()).expect("a rewrite");
        } else {
            let temporary = self.run.join("latest.tmp");
            fs::write(&temporary, step.to_string()).expect("a write");
            fs::rename(&temporary, &latest).expect("rename");
        }
    }
}

/// Follows `latest` as another machine would.
struct Follower<'a> {
    server: &'a BlobServer,
    mount: &'a Mount,
    container: &'a str,
}

impl Follower<'_> {
    fn latest(&self) -> Option<u64> {
        let text = self.server.get(self.container, "blob/run/latest")?;
        Some(String::from_utf8(text).expect("text").parse().expect("a whole `latest`"))
    }

    /// What still has to come, and the last requests that changed anything.
    fn tell(&self) {
        println!("{}", self.mount.tierfs(&["queue"]));
        let requests = self.server.requests();
        let writes = requests.iter().filter(|request| {
            let reads = [Operation::Get, Operation::Head, Operation::List, Operation::GetBlockList];
            !reads.contains(&request.operation)
        });
        let last: Vec<_> = writes.rev().take(60).collect();
        for request in last.into_iter().rev() {
            println!("{:?} {} {:?}", request.operation, request.name, request.status);
        }
    }

    /// Looks once; answers which checkpoint it found.
    fn look(&self) -> Option<u64> {
        let step = self.latest()?;
        for shard in 0..SHARDS {
            let name = format!("blob/run/step-{step}/shard-{shard}");
            let found = self.server.get(self.container, &name);
            let whole =
                found.as_ref().is_some_and(|bytes| bytes.starts_with(start_of(step, shard).as_bytes()));
            // Who is slow may find what was named a while ago deleted.
            let is_old = || self.latest().is_some_and(|now| now >= step + KEPT);
            if !whole && !is_old() {
                self.tell();
                panic!("`latest` names {step}, and {name} is {:?}", found.map(|bytes| bytes.len()));
            }
        }
        Some(step)
    }
}

fn follow(mode: Mode, order: &str, seed: u64, steps: u64) {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let container = tiers.container().name().to_owned();
    let rules = RULES.replacen(
        "settle = \"0s\"",
        &format!("settle = \"0s\"\norder = \"{order}\"\nrevalidate = \"1h\""),
        1,
    );
    let mount = Mount::of(&tiers).mode(mode).rules(&rules).start();
    let run = mount.path("blob/run");
    fs::create_dir_all(&run).expect("mkdir");
    let mut trainer = Trainer { run: &run, dice: Dice::new(seed) };
    trainer.checkpoint(0);
    mount.flush();
    let writes = [Operation::PutBlob, Operation::PutBlock, Operation::PutBlockList, Operation::Delete];
    for (percent, effect) in
        [(30, Effect::Latency(Duration::from_millis(15))), (10, Effect::busy(0)), (5, Effect::ApplyThenDrop)]
    {
        server.fault(When::operation(&writes).percent(percent), effect);
    }
    let (follower, done) =
        (Follower { server: &server, mount: &mount, container: &container }, AtomicBool::new(false));
    let seen = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut seen = std::collections::BTreeSet::new();
            while !done.load(Ordering::Acquire) {
                seen.extend(follower.look());
                // The server has other things to do.
                std::thread::park_timeout(Duration::from_millis(5));
            }
            seen
        });
        for step in 1..=steps {
            trainer.checkpoint(step);
            // Now and then it trains, so that home comes near.
            if trainer.coin() {
                wait::until("the checkpoint before", || follower.latest() >= Some(step - 1));
            }
        }
        mount.flush();
        done.store(true, Ordering::Release);
        watch.join().expect("`latest` never lies")
    });
    println!("seed {seed}: {} of {steps} checkpoints were named while it ran", seen.len());
    assert_eq!(follower.look(), Some(steps));
    let kept: Vec<String> =
        tiers.blob_file_names().into_iter().filter(|name| !name.contains("/step-")).collect();
    assert_eq!(kept, ["blob/run/latest"], "no temporary name is left");
    for step in 0..=steps {
        for shard in 0..SHARDS {
            let name = format!("run/step-{step}/shard-{shard}");
            let here = fs::read(mount.path(&format!("blob/{name}"))).ok();
            assert!(tiers.blob(&format!("blob/{name}")) == here, "{name} differs");
        }
    }
    wait::until("an empty stage", || tiers.staged().is_empty());
}

fn seed() -> u64 {
    std::env::var("TIERFS_TORTURE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

#[test]
fn latest_never_names_what_is_missing() {
    for (mode, order) in BOTH.into_iter().zip(["strict", "barrier"]) {
        follow(mode, order, seed(), 12);
    }
}

#[test]
fn soak_latest_never_names_what_is_missing() {
    let rounds = std::env::var("TIERFS_SOAK_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    for round in 0..rounds.unwrap_or(10) {
        for mode in BOTH {
            for order in ["strict", "barrier"] {
                follow(mode, order, seed() * 1000 + round, 50);
            }
        }
    }
}

#[test]
fn a_file_that_is_renamed_or_linked_while_a_program_has_it_open_is_there_before_what_names_it() {
    for mode in BOTH {
        let server = BlobServer::start();
        let tiers = Tiers::with_server(&server);
        let mount = Mount::of(&tiers).mode(mode).start();
        let run = mount.path("blob/run");
        fs::create_dir_all(&run).expect("mkdir");
        fs::write(run.join("step.tmp"), "step").expect("a write");
        mount.flush();
        let _open = OpenOptions::new().read(true).write(true).open(run.join("step.tmp")).expect("open");
        let publish = |name: &str| {
            fs::write(run.join("latest"), name).expect("a write");
            let latest = run.join("latest");
            mount.tierfs(&["flush", latest.to_str().expect("a path")]);
            assert_eq!(tiers.blob("blob/run/latest").as_deref(), Some(name.as_bytes()));
            assert_eq!(
                tiers.blob(&format!("blob/run/{name}")).as_deref(),
                Some(&b"step"[..]),
                "{name} {mode:?}"
            );
        };
        fs::hard_link(run.join("step.tmp"), run.join("best")).expect("link");
        publish("best");
        fs::rename(run.join("step.tmp"), run.join("step")).expect("rename");
        publish("step");
        assert_eq!(tiers.blob("blob/run/step.tmp"), None);
    }
}
