//! A program that works in the mount until its daemon dies, remembers what was acknowledged, and compares.

use super::mapped::{Mapped, map_and_write};
use super::tree::{Tree, is_between};
use crate::support::noise;
use rustix::fs::XattrFlags;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::IntoRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The daemon is gone.
#[derive(Debug)]
pub struct Dead;

type Step<T = ()> = Result<T, Dead>;

/// A reproducible source of choices.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() { None } else { from.get(self.below(from.len())) }
    }
}

/// A descriptor that stays open over other operations, and over the daemon's death.
#[derive(Debug)]
struct Held {
    file: File,
    node: usize,
}

/// One program in the directories `roots`.
#[derive(Debug)]
pub struct Worker {
    mount: PathBuf,
    roots: Vec<String>,
    dice: Dice,
    tree: Tree,
    /// What the tree was before the call that was cut off.
    before: Option<Tree>,
    written: Vec<Held>,
    mapped: Vec<Mapped>,
    read: Vec<File>,
    serial: u64,
    history: Vec<String>,
}

const DIRS: [&str; 2] = ["d0", "d1"];
const FILES: [&str; 4] = ["f0", "f1", "f2", "f3"];
const HELD_MAX: usize = 3;
/// Calls kept for the message of a failure.
const HISTORY: usize = 1_000;

impl Worker {
    /// A worker in `<root>/<name>` of each root, which are made.
    pub fn new(mount: &Path, roots: &[&str], name: &str, seed: u64) -> Self {
        let roots: Vec<String> = roots
            .iter()
            .map(|root| if root.is_empty() { name.to_owned() } else { format!("{root}/{name}") })
            .collect();
        let mut tree = Tree::default();
        for root in &roots {
            fs::create_dir_all(mount.join(root)).expect("mkdir");
            tree.dirs.insert(root.clone());
        }
        Self {
            mount: mount.to_owned(),
            roots,
            dice: Dice::new(seed),
            tree,
            before: None,
            written: Vec::new(),
            mapped: Vec::new(),
            read: Vec::new(),
            serial: seed << 20,
            history: Vec::new(),
        }
    }

    /// A file that somebody else has put there.
    pub fn knows(&mut self, path: &str, bytes: Vec<u8>) {
        let node = self.tree.add(path);
        self.tree.write(node, 0, &bytes);
    }

    /// Works until the daemon dies, for at most `calls` operations; whether it died.
    pub fn work(&mut self, calls: usize) -> bool {
        (0..calls).any(|_| self.any().is_err())
    }

    /// What went on lately, for messages.
    pub fn history(&self) -> String {
        self.history.join("\n")
    }

    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    pub fn roots(&self) -> &[String] {
        &self.roots
    }

    fn at(&self, path: &str) -> PathBuf {
        self.mount.join(path)
    }

    /// One call: `change` is what it means, if it is acknowledged.
    fn call<T>(
        &mut self,
        what: String,
        change: impl FnOnce(&mut Tree),
        call: impl FnOnce() -> io::Result<T>,
    ) -> Step<T> {
        let before = self.tree.clone();
        change(&mut self.tree);
        let result = call();
        let end = result.as_ref().err().map(|error| format!(" → {error}")).unwrap_or_default();
        self.history.push(what + &end);
        if self.history.len() > HISTORY {
            self.history.remove(0);
        }
        match result {
            Ok(value) => Ok(value),
            // statfs is never answered from the kernel's memory.
            Err(_) if rustix::fs::statvfs(&self.mount).is_err() => {
                self.before = Some(before);
                Err(Dead)
            }
            Err(error) => panic!("{error}; the last calls were:\n{}", self.history()),
        }
    }

    fn bytes(&mut self) -> Vec<u8> {
        self.serial += 1;
        let size = match self.dice.below(12) {
            0 => 5 << 20,
            1 => 0,
            2..=4 => 200_000,
            _ => 3_000,
        };
        let size = size - if size == 0 { 0 } else { self.dice.below(1_000) };
        noise(self.serial, size)
    }

    fn some_dir(&mut self) -> String {
        let dirs: Vec<String> = self.tree.dirs.iter().cloned().collect();
        self.dice.pick(&dirs).expect("roots are there").clone()
    }

    fn some_path(&mut self) -> String {
        format!("{}/{}", self.some_dir(), self.dice.pick(&FILES).expect("names"))
    }

    fn some_file(&mut self) -> Option<String> {
        let files: Vec<String> = self.tree.files.keys().cloned().collect();
        self.dice.pick(&files).cloned()
    }

    /// Names of one file under two homes are another matter: only the name that was written follows at once.
    fn root_of(&self, path: &str) -> Option<usize> {
        self.roots.iter().position(|root| path.starts_with(&format!("{root}/")))
    }

    fn any(&mut self) -> Step {
        match self.dice.below(33) {
            0..=5 => self.rewrite(),
            6..=8 => self.checkpoint(),
            9 | 10 => self.append(),
            11 => self.overwrite(),
            12 => self.truncate(),
            13 | 14 => self.map(),
            15 => self.directory(),
            16..=18 => self.rename(),
            19 => self.rename_directory(),
            20 => self.link(),
            21 => self.unlink(),
            22..=24 => self.hold(),
            25 => self.attributes(),
            26 => self.hold_for_reading(),
            27 | 28 => self.hold_mapping(),
            29 => self.write_mapping(),
            _ => self.look(),
        }
    }

    fn create(&mut self, path: &str) -> Step<(File, usize)> {
        let at = self.at(path);
        let open =
            || patiently(|| OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&at));
        let change = |tree: &mut Tree| match tree.files.get(path) {
            Some(node) => tree.resize(*node, 0),
            None => drop(tree.add(path)),
        };
        let file = self.call(format!("create {path}"), change, open)?;
        Ok((file, self.tree.files[path]))
    }

    fn open(&mut self, path: &str) -> Step<(File, usize)> {
        let at = self.at(path);
        let open = || patiently(|| OpenOptions::new().read(true).write(true).open(&at));
        let file = self.call(format!("open {path}"), |_| {}, open)?;
        Ok((file, self.tree.files[path]))
    }

    fn put(&mut self, file: &File, node: usize, offset: usize, bytes: &[u8]) -> Step {
        let change = |tree: &mut Tree| tree.write(node, offset, bytes);
        let what = format!("write {} bytes at {offset} of node {node}", bytes.len());
        self.call(what, change, || file.write_all_at(bytes, offset as u64))
    }

    fn close(&mut self, file: File) -> Step {
        let close = || {
            let fd = file.into_raw_fd();
            // SAFETY: the descriptor was owned by `file`, which gave it up.
            if unsafe { libc::close(fd) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        };
        self.call("close".into(), |_| {}, close)
    }

    fn fsync(&mut self, file: &File) -> Step {
        self.call("fsync".into(), |_| {}, || file.sync_all())
    }

    fn rewrite(&mut self) -> Step {
        let (path, bytes) = (self.some_path(), self.bytes());
        let (file, node) = self.create(&path)?;
        self.put(&file, node, 0, &bytes)?;
        if self.dice.below(3) == 0 {
            self.fsync(&file)?;
        }
        self.close(file)
    }

    fn checkpoint(&mut self) -> Step {
        let (path, bytes) = (self.some_path(), self.bytes());
        let tmp = format!("{path}.tmp");
        let (file, node) = self.create(&tmp)?;
        self.put(&file, node, 0, &bytes)?;
        self.fsync(&file)?;
        self.close(file)?;
        self.rename_to(&tmp, &path)
    }

    fn append(&mut self) -> Step {
        let Some(path) = self.some_file() else { return Ok(()) };
        let bytes = self.bytes();
        let (file, node) = self.open(&path)?;
        let end = self.tree.nodes[node].len();
        self.put(&file, node, end, &bytes)?;
        self.close(file)
    }

    fn overwrite(&mut self) -> Step {
        let Some(path) = self.some_file() else { return Ok(()) };
        let (file, node) = self.open(&path)?;
        let size = self.tree.nodes[node].len();
        let offset = self.dice.below(size + 1);
        let bytes = noise(self.serial ^ 77, 700);
        self.put(&file, node, offset, &bytes)?;
        self.close(file)
    }

    fn truncate(&mut self) -> Step {
        let Some(path) = self.some_file() else { return Ok(()) };
        let node = self.tree.files[&path];
        let size = self.dice.below(2 * self.tree.nodes[node].len() + 10);
        let at = self.at(&path);
        let open = || patiently(|| File::options().write(true).open(&at));
        let truncate = || Ok(rustix::fs::ftruncate(open()?, size as u64)?);
        self.call(format!("truncate {path} to {size}"), |tree| tree.resize(node, size), truncate)
    }

    /// Written through a shared mapping by a child, which a dead daemon may end by SIGBUS.
    fn map(&mut self) -> Step {
        let Some(path) = self.some_file() else { return Ok(()) };
        if self.tree.bytes(&path).is_empty() {
            return Ok(());
        }
        let (file, node) = self.open(&path)?;
        let size = self.tree.nodes[node].len();
        let offset = self.dice.below(size);
        let bytes = noise(self.serial ^ 99, 500.min(size - offset));
        let change = |tree: &mut Tree| tree.write(node, offset, &bytes);
        self.call(format!("map {path} and write {} bytes at {offset}", bytes.len()), change, || {
            map_and_write(&file, size, offset, &bytes)
        })?;
        self.close(file)
    }

    fn directory(&mut self) -> Step {
        let root = self.roots[self.dice.below(self.roots.len())].clone();
        let dir = format!("{root}/{}", self.dice.pick(&DIRS).expect("names"));
        let at = self.at(&dir);
        if !self.tree.dirs.contains(&dir) {
            let change = |tree: &mut Tree| tree.insert_dir(&dir);
            self.call(format!("mkdir {dir}"), change, || fs::create_dir(&at))?;
            // Later it is hardly ever empty.
            if self.dice.below(2) == 0 {
                return Ok(());
            }
        }
        if self.tree.is_empty_dir(&dir) {
            let change = |tree: &mut Tree| tree.remove_dir(&dir);
            return self.call(format!("rmdir {dir}"), change, || fs::remove_dir(at));
        }
        Ok(())
    }

    fn rename_to(&mut self, from: &str, to: &str) -> Step {
        if self.root_of(from) != self.root_of(to) {
            self.read.clear();
        }
        let (source, target) = (self.at(from), self.at(to));
        let same = self.tree.files.get(from) == self.tree.files.get(to) && self.tree.files.contains_key(from);
        let change = |tree: &mut Tree| {
            if !same {
                tree.rename(from, to);
            }
        };
        self.call(format!("rename {from} → {to}"), change, || fs::rename(source, target))
    }

    fn rename(&mut self) -> Step {
        let Some(from) = self.some_file() else { return Ok(()) };
        let to = self.some_path();
        if self.tree.is_linked(&from) && self.root_of(&from) != self.root_of(&to) {
            return Ok(());
        }
        self.rename_to(&from, &to)
    }

    fn rename_directory(&mut self) -> Step {
        let dirs: Vec<String> =
            self.tree.dirs.iter().filter(|dir| !self.roots.contains(dir)).cloned().collect();
        let Some(from) = self.dice.pick(&dirs).cloned() else { return Ok(()) };
        let root = self.roots[self.dice.below(self.roots.len())].clone();
        let to = format!("{root}/{}", self.dice.pick(&DIRS).expect("names"));
        let linked = self.tree.below(&from).any(|(path, _)| self.tree.is_linked(path));
        if linked || from == to || (self.tree.dirs.contains(&to) && !self.tree.is_empty_dir(&to)) {
            return Ok(());
        }
        self.rename_to(&from, &to)
    }

    fn link(&mut self) -> Step {
        let Some(from) = self.some_file() else { return Ok(()) };
        let to = self.some_path();
        if self.tree.files.contains_key(&to) || self.root_of(&from) != self.root_of(&to) {
            return Ok(());
        }
        let node = self.tree.files[&from];
        let change = |tree: &mut Tree| tree.link(&to, node);
        let (source, target) = (self.at(&from), self.at(&to));
        self.call(format!("link {from} → {to}"), change, || fs::hard_link(source, target))
    }

    fn unlink(&mut self) -> Step {
        let Some(path) = self.some_file() else { return Ok(()) };
        let at = self.at(&path);
        let change = |tree: &mut Tree| tree.unlink(&path);
        self.call(format!("unlink {path}"), change, || fs::remove_file(at))
    }

    fn hold(&mut self) -> Step {
        if self.written.len() < HELD_MAX && self.dice.below(2) == 0 {
            let (file, node) = match self.some_file().filter(|_| self.dice.below(2) == 0) {
                Some(path) => self.open(&path)?,
                None => {
                    let path = self.some_path();
                    self.create(&path)?
                }
            };
            self.written.push(Held { file, node });
            return Ok(());
        }
        if self.written.is_empty() {
            return Ok(());
        }
        let held = self.written.swap_remove(self.dice.below(self.written.len()));
        if self.dice.below(3) == 0 {
            return self.close(held.file);
        }
        let bytes = noise(self.serial ^ 55, 2_000);
        let end = self.tree.nodes[held.node].len();
        let done = self.put(&held.file, held.node, end, &bytes);
        self.written.push(held);
        done
    }

    fn hold_for_reading(&mut self) -> Step {
        if self.read.len() >= HELD_MAX {
            self.read.remove(0);
        }
        let Some(path) = self.some_file() else { return Ok(()) };
        let at = self.at(&path);
        let file = self.call(format!("open {path} for reading"), |_| {}, || File::open(at))?;
        self.read.push(file);
        Ok(())
    }

    fn hold_mapping(&mut self) -> Step {
        if self.mapped.len() >= HELD_MAX {
            self.mapped.remove(0);
        }
        let Some(path) = self.some_file() else { return Ok(()) };
        let size = self.tree.bytes(&path).len();
        if size == 0 {
            return Ok(());
        }
        let (file, node) = self.open(&path)?;
        let mapped =
            self.call(format!("map {path} to go on with"), |_| {}, || Mapped::new(&file, size, node))?;
        self.mapped.push(mapped);
        self.close(file)?;
        self.write_mapping()
    }

    fn write_mapping(&mut self) -> Step {
        if self.mapped.is_empty() {
            return Ok(());
        }
        let mapped = self.mapped.swap_remove(self.dice.below(self.mapped.len()));
        let Some((offset, bytes)) = self.for_mapping(&mapped) else {
            self.mapped.push(mapped);
            return Ok(());
        };
        let what = format!("write {} bytes at {offset} of node {} by its mapping", bytes.len(), mapped.node);
        let node = mapped.node;
        let done = self.call(what, |tree| tree.write(node, offset, &bytes), || mapped.write(offset, &bytes));
        self.mapped.push(mapped);
        done
    }

    /// Some bytes for a mapping, where the file still is.
    fn for_mapping(&mut self, mapped: &Mapped) -> Option<(usize, Vec<u8>)> {
        let ends = [Some(&self.tree), self.before.as_ref()].into_iter().flatten();
        let ends = ends.filter_map(|tree| tree.nodes.get(mapped.node)).map(|bytes| bytes.len());
        let end = ends.min().unwrap_or(0).min(mapped.size);
        if end == 0 {
            return None;
        }
        let offset = self.dice.below(end);
        self.serial += 1;
        Some((offset, noise(self.serial, (end - offset).min(700))))
    }

    fn attributes(&mut self) -> Step {
        let Some(path) = self.some_file() else { return Ok(()) };
        let at = self.at(&path);
        let mode = if self.dice.below(2) == 0 { 0o600 } else { 0o644 };
        self.call(
            format!("chmod {path}"),
            |_| {},
            || {
                fs::set_permissions(&at, fs::Permissions::from_mode(mode))?;
                rustix::fs::setxattr(&at, "user.k", mode.to_string().as_bytes(), XattrFlags::empty())?;
                Ok(())
            },
        )
    }

    fn look(&mut self) -> Step {
        let Some(path) = self.some_file() else { return Ok(()) };
        let at = self.at(&path);
        let found = self.call(format!("read {path}"), |_| {}, || fs::read(at))?;
        let expected = self.tree.bytes(&path);
        assert!(
            found == expected,
            "{path} of node {}: {}; the last calls were:\n{}",
            self.tree.files[&path],
            super::tree::unlike(&found, expected),
            self.history()
        );
        Ok(())
    }

    /// Goes on writing to what is open though the daemon is gone: by passthrough the kernel takes it.
    pub fn go_on(&mut self) {
        let bytes = noise(self.serial ^ 33, 1_500);
        for held in &self.written {
            // A write that was cut off may have made it longer than this program knows.
            let end = [Some(&self.tree), self.before.as_ref()].into_iter().flatten();
            let end = end.map(|tree| tree.nodes.get(held.node).map_or(0, |bytes| bytes.len())).max();
            let end = end.unwrap_or(0);
            if held.file.write_all_at(&bytes, end as u64).is_ok() {
                self.history.push(format!("went on: {} bytes at {end} of node {}", bytes.len(), held.node));
                self.tree.write(held.node, end, &bytes);
                if let Some(before) = self.before.as_mut().filter(|tree| tree.nodes.len() > held.node) {
                    before.write(held.node, end, &bytes);
                }
            }
        }
        for mapped in std::mem::take(&mut self.mapped) {
            if let Some((offset, bytes)) = self.for_mapping(&mapped)
                && mapped.write(offset, &bytes).is_ok()
            {
                let (node, length) = (mapped.node, bytes.len());
                self.history.push(format!("went on by a mapping: {length} bytes at {offset} of node {node}"));
                let trees = [Some(&mut self.tree), self.before.as_mut()].into_iter().flatten();
                trees.for_each(|tree| tree.write(node, offset, &bytes));
            }
            self.mapped.push(mapped);
        }
    }

    /// Compares with a mount that stands again. A call that was cut off happened or did not.
    pub fn verify(&mut self) {
        let Some(after) = self.tree.difference(&self.mount, &self.roots) else {
            self.before = None;
            return;
        };
        let Some(before) = self.before.take() else {
            panic!("{after}; the last calls were:\n{}", self.history());
        };
        let Some(other) = before.difference(&self.mount, &self.roots) else {
            self.tree = before;
            return;
        };
        if !self.was_cut_off(&before) {
            panic!("{after} (after), {other} (before); the last calls were:\n{}", self.history());
        }
    }

    /// Whether all is explained by a write that was cut off in the middle; takes over what is there then.
    fn was_cut_off(&mut self, before: &Tree) -> bool {
        if before.files != self.tree.files || before.dirs != self.tree.dirs {
            return false;
        }
        let mut found = self.tree.clone();
        for (path, node) in &self.tree.files {
            if before.nodes[*node] == self.tree.nodes[*node] {
                continue;
            }
            let Ok(bytes) = fs::read(self.mount.join(path)) else { return false };
            if !is_between(&bytes, &before.nodes[*node], &self.tree.nodes[*node]) {
                return false;
            }
            found.nodes[*node] = bytes.into();
        }
        self.tree = found;
        self.tree.difference(&self.mount, &self.roots).is_none()
    }

    /// Lets go of all that is open.
    pub fn let_go(&mut self) {
        self.written.clear();
        self.mapped.clear();
        self.read.clear();
    }

    /// Closes once more, through the mount, what no close has finished.
    pub fn finish_what_was_open(&self) {
        for path in self.tree.files.keys() {
            let at = self.at(path);
            let mut state = [0; 32];
            let size = rustix::fs::getxattr(&at, "user.tierfs.state", &mut state[..]).expect("the state");
            if &state[..size] == b"writing" {
                drop(File::options().append(true).open(&at).expect("open"));
            }
        }
    }
}

/// The kernel allows one backing file an inode: a writer is refused while a reader holds a copy on a tier that the file has left. The
/// workers let go of those, but the kernel tells of that later.
fn patiently<T>(open: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        match open() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline => {
                std::thread::park_timeout(Duration::from_millis(20));
            }
            answer => return answer,
        }
    }
}
