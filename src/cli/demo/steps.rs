//! The steps of the demo.

use super::content::{self, Content, Sum};
use super::ground::Ground;
use super::tell::Teller;
use super::tools::Tools;
use crate::cli::failure::Failure;
use crate::cli::text;
use crate::control::REPLICAS_XATTR;
use crate::control::client::Client;
use crate::control::mounts;
use crate::control::status::{IoMode, Status};
use crate::control::target::xattr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const SHARDS: u64 = 40;
const SHARD: u64 = 1;
const CHECKPOINT: Content = Content { seed: 1000, blocks: 256 };
const MODEL: Content = Content { seed: 2000, blocks: 16 };
const LAST_WORDS: Content = Content { seed: 3000, blocks: 32 };

/// How long anything that should happen by itself may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The demo under way.
pub(super) struct Show<'a> {
    pub(super) ground: &'a Ground,
    pub(super) tools: Tools,
    pub(super) tell: Teller,
}

impl Show<'_> {
    pub(super) fn run(&mut self) -> Result<(), Failure> {
        self.opening();
        self.dataset()?;
        self.mount()?;
        self.read_twice()?;
        self.checkpoint()?;
        self.model()?;
        self.placement()?;
        self.crash()?;
        self.plain_files()?;
        self.unmount()
    }

    fn opening(&self) {
        let root = self.ground.root().display();
        self.tell.opening(&[
            "scratch   stands for Lustre          fast, dear".to_owned(),
            "share     stands for Azure Files     shared by many".to_owned(),
            "blob      stands for Blob Storage    durable, cheap".to_owned(),
            String::new(),
            format!("Three directories in {root}"),
        ]);
    }

    fn dataset(&mut self) -> Result<(), Failure> {
        self.tell.step("A dataset lies in the container, put there by some other tool");
        let dir = self.ground.tier("blob").join("datasets/corpus");
        fs::create_dir_all(&dir).map_err(|error| at(&dir, &error))?;
        for shard in 0..SHARDS {
            let path = dir.join(shard_name(shard));
            shard_content(shard).write(&path).map_err(|error| at(&path, &error))?;
        }
        self.tell.line(&format!("blob/datasets/corpus: {SHARDS} files, {}", text::bytes(dataset_size())));
        Ok(())
    }

    fn mount(&mut self) -> Result<(), Failure> {
        self.tell.step("One command mounts all three as one tree; nothing is imported");
        let started = Instant::now();
        self.run_mount()?;
        let status = self.status()?;
        let mode = match status.mode {
            IoMode::Passthrough => "passthrough: resident files at native speed",
            IoMode::Ordinary => "ordinary I/O",
        };
        self.tell.good(&format!("ready in {}, {mode}", text::elapsed(started.elapsed())));
        Ok(())
    }

    fn run_mount(&self) -> Result<(), Failure> {
        self.tell.command("tierfs mount demo.toml train --log demo.log");
        self.tools.tierfs(&["mount", "demo.toml", "train", "--log", "demo.log"]).map(drop)
    }

    fn read_twice(&mut self) -> Result<(), Failure> {
        self.tell.step("Two epochs over the dataset");
        self.epoch("first")?;
        wait_for("hot copies on scratch", || Ok((0..SHARDS).all(|shard| self.is_on_scratch(shard))))?;
        self.epoch("second")?;
        self.tell.line("What an epoch reads stays on scratch: nothing is fetched twice.");
        Ok(())
    }

    fn epoch(&self, which: &str) -> Result<(), Failure> {
        let fetched = blob_bytes(&self.status()?);
        let started = Instant::now();
        let mut size = 0;
        for shard in 0..SHARDS {
            let path = self.corpus().join(shard_name(shard));
            size += content::read(&path).map_err(|error| at(&path, &error))?;
        }
        let took = started.elapsed();
        let fetched = blob_bytes(&self.status()?).saturating_sub(fetched);
        if size != dataset_size() {
            return Err(Failure::failed(format!(
                "the {which} epoch read {size} bytes, not {}",
                dataset_size()
            )));
        }
        self.tell.good(&format!(
            "{which:<6} epoch  {}  {:>6}  {:>9}   {}",
            text::bytes(size),
            text::elapsed(took),
            text::rate(size, took),
            source(fetched)
        ));
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), Failure> {
        self.tell.step("A checkpoint: the training loop waits for scratch, not for Blob");
        let path = self.point("checkpoints/run-1/step-100.pt");
        let started = Instant::now();
        make(&path, CHECKPOINT)?;
        let written = started.elapsed();
        self.tell.good(&format!(
            "{} written and closed in {} ({})",
            text::bytes(CHECKPOINT.size()),
            text::elapsed(written),
            text::rate(CHECKPOINT.size(), written)
        ));
        self.tell.command("tierfs flush train/checkpoints");
        self.tools.tierfs(&["flush", "train/checkpoints"])?;
        self.tell.good(&format!(
            "committed to Blob {} after the close",
            text::elapsed(started.elapsed() - written)
        ));
        same(&self.ground.tier("blob").join("checkpoints/run-1/step-100.pt"), CHECKPOINT, content::sum_of)?;
        self.tell.good("the blob has the same sha256, under its own name");
        Ok(())
    }

    fn model(&mut self) -> Result<(), Failure> {
        self.tell.step("A model: lives on the share, loaded by mmap through the mount");
        let path = self.point("models/tiny.safetensors");
        make(&path, MODEL)?;
        let started = Instant::now();
        same(&path, MODEL, content::sum_of_mapping)?;
        self.tell.good(&format!(
            "{} mapped and summed in {}: sha256 equal",
            text::bytes(MODEL.size()),
            text::elapsed(started.elapsed())
        ));
        Ok(())
    }

    fn placement(&mut self) -> Result<(), Failure> {
        self.tell.step("Where is everything?");
        self.show(&["train"], usize::MAX)?;
        for dir in ["train/datasets/corpus", "train/checkpoints/run-1", "train/models"] {
            self.tell.gap();
            self.show(&["ls", "--sort", "name", dir], 4)?;
        }
        Ok(())
    }

    /// What `tierstat` says, with only the first `lines` and the last one of it.
    fn show(&self, arguments: &[&str], lines: usize) -> Result<(), Failure> {
        let Some(said) = self.tools.tierstat(arguments)? else {
            self.tell.line("(tierstat is not installed beside tierfs)");
            return Ok(());
        };
        self.tell.command(&format!("tierstat {}", arguments.join(" ")));
        self.tell.output(&shortened(&said, lines));
        Ok(())
    }

    fn crash(&mut self) -> Result<(), Failure> {
        self.tell.step("The worst moment: the daemon is killed with data that is not in Blob yet");
        let path = self.point("checkpoints/run-1/step-200.pt");
        make(&path, LAST_WORDS)?;
        let dirty = self.status()?.dirty;
        let Some(pid) = self.ground.kill_daemon() else {
            return Err(Failure::failed("the daemon's process was not found"));
        };
        self.tell.line(&format!(
            "{} written and closed; {} dirty",
            text::bytes(LAST_WORDS.size()),
            text::counted(dirty.files, "file")
        ));
        self.tell.command(&format!("kill -9 {pid}"));
        let point = self.ground.mountpoint();
        wait_for("the mount to die", || Ok(mounts::is_dead(&point)))?;
        self.run_mount()?;
        same(&path, LAST_WORDS, content::sum_of)?;
        self.tell.good("the file is there, sha256 equal");
        self.tell.command("tierfs flush train");
        self.tools.tierfs(&["flush", "train"])?;
        same(&self.ground.tier("blob").join("checkpoints/run-1/step-200.pt"), LAST_WORDS, content::sum_of)?;
        self.tell.good("and it has reached Blob: sha256 equal");
        Ok(())
    }

    fn plain_files(&mut self) -> Result<(), Failure> {
        self.tell.step("No lock-in: on each tier they are plain files under their own names");
        let notes = self.point("notes.txt");
        fs::write(&notes, "scratch is the home of everything else\n").map_err(|error| at(&notes, &error))?;
        for tier in ["scratch", "share", "blob"] {
            let mut files = plain_files(&self.ground.tier(tier), Path::new(tier))?;
            files.sort();
            let more = files.len().saturating_sub(4);
            for (size, path) in files.iter().take(4).map(|(path, size)| (size, path)) {
                self.tell.line(&format!("{:>8}  {}", text::bytes(*size), path.display()));
            }
            if more > 0 {
                self.tell.line(&format!("{:>8}  and {more} more in {tier}", ""));
            }
        }
        Ok(())
    }

    fn unmount(&mut self) -> Result<(), Failure> {
        self.tell.step("Unmount waits until everything is home");
        self.tell.command("tierfs unmount train");
        self.tools.tierfs(&["unmount", "train"])?;
        if self.ground.is_mounted() {
            return Err(Failure::failed("train is still mounted"));
        }
        self.tell.good("unmounted, nothing left behind");
        Ok(())
    }

    fn point(&self, inside: &str) -> PathBuf {
        self.ground.mountpoint().join(inside)
    }

    fn corpus(&self) -> PathBuf {
        self.point("datasets/corpus")
    }

    fn status(&self) -> Result<Status, Failure> {
        Ok(Client::connect(&self.ground.socket())?.status()?)
    }

    fn is_on_scratch(&self, shard: u64) -> bool {
        let tiers = xattr(&self.corpus().join(shard_name(shard)), REPLICAS_XATTR);
        tiers.is_ok_and(|tiers| tiers.split(|byte| *byte == b',').any(|tier| tier == b"scratch"))
    }
}

fn wait_for(what: &str, mut holds: impl FnMut() -> Result<bool, Failure>) -> Result<(), Failure> {
    let started = Instant::now();
    while !holds()? {
        if started.elapsed() > PATIENCE {
            return Err(Failure::failed(format!("waited {} s in vain for {what}", PATIENCE.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn shard_name(shard: u64) -> String {
    format!("shard-{shard:03}.tar")
}

fn shard_content(shard: u64) -> Content {
    Content { seed: shard + 1, blocks: SHARD }
}

fn dataset_size() -> u64 {
    (0..SHARDS).map(|shard| shard_content(shard).size()).sum()
}

fn blob_bytes(status: &Status) -> u64 {
    status.tiers.iter().filter(|tier| tier.name == "blob").map(|tier| tier.bytes_read).sum()
}

fn source(fetched: u64) -> String {
    if fetched == 0 {
        "all from scratch, none from Blob".to_owned()
    } else {
        format!("{} of it from Blob", text::bytes(fetched))
    }
}

fn make(path: &Path, content: Content) -> Result<(), Failure> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|error| at(parent, &error))?;
    }
    content.write(path).map_err(|error| at(path, &error))
}

fn same(path: &Path, content: Content, sum: impl Fn(&Path) -> io::Result<Sum>) -> Result<(), Failure> {
    if sum(path).map_err(|error| at(path, &error))? == content.sum() {
        Ok(())
    } else {
        Err(Failure::failed(format!("{}: its bytes are not what was written", path.display())))
    }
}

/// Files below `root` that are not tierfs's own, as (path under `shown`, size).
fn plain_files(root: &Path, shown: &Path) -> Result<Vec<(PathBuf, u64)>, Failure> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root).map_err(|error| at(root, &error))? {
        let entry = entry.map_err(|error| at(root, &error))?;
        let (path, name) = (entry.path(), entry.file_name());
        let found = entry.metadata().map_err(|error| at(&path, &error))?;
        if name == ".tierfs" {
            continue;
        } else if found.is_dir() {
            files.extend(plain_files(&path, &shown.join(name))?);
        } else {
            files.push((shown.join(name), found.len()));
        }
    }
    Ok(files)
}

/// The first `lines` lines and the last one.
fn shortened(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    if all.len() <= lines.saturating_add(2) {
        return text.to_owned();
    }
    let left_out = all.len() - lines - 1;
    let mut short = all[..lines].join("\n");
    short.push_str(&format!("\n… and {left_out} more\n{}\n", all[all.len() - 1]));
    short
}

fn at(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_is_shortened_in_the_middle() {
        assert_eq!(shortened("a\nb\nc\n", 4), "a\nb\nc\n");
        assert_eq!(shortened("a\nb\nc\nd\ne\nf\n", 2), "a\nb\n… and 3 more\nf\n");
    }

    #[test]
    fn own_files_of_a_tier_are_not_shown() {
        let dir = tempfile::TempDir::new().unwrap();
        fs::create_dir_all(dir.path().join(".tierfs/hot")).unwrap();
        fs::write(dir.path().join(".tierfs/id"), "x").unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("a/b"), "12").unwrap();
        assert_eq!(plain_files(dir.path(), Path::new("blob")).unwrap(), [(PathBuf::from("blob/a/b"), 2)]);
    }
}
