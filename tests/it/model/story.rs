//! Does operations to a world and to a plain tree, and compares.

use super::operations::{After, Operation, SLOTS, Scene, Slot, TOPS};
use super::past::{Found, Past};
use super::tree::{FileId, Seen, Tree, text};
use super::world::{Away, World, key};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;
use tierfs::catalog::WriteState;
use tierfs::error::{Kind, Result};
use tierfs::tier::RenameMode;
use tierfs::types::{Attr, AttrChange, FileKind, Ino, TimeChange, Timestamp};
use tierfs::vfs::{Caller, FileHandle, More, ReadAnswer, SetAttr, Settled, Wait};

const ME: Caller = Caller { uid: 0, gid: 0, pid: 0, wait: Wait::Allowed };
const MODE: u32 = 0o644;
const DIR_MODE: u32 = 0o755;
/// Half of the files are staged in part when they are written.
const PARTIAL_FROM: u64 = 4;
/// How often what moves is given some seconds.
const TRIES: usize = 50;

/// Runs a whole story.
///
/// # Panics
/// As soon as something is not what the plain tree says.
pub fn tell(scenes: &[Scene]) {
    tell_where(Away::Nobody, scenes);
}

/// The same where files on the share go to Blob when nobody uses them.
///
/// # Panics
/// As [`tell`].
pub fn tell_with_cold(scenes: &[Scene]) {
    tell_where(Away::Unused, scenes);
}

/// The same where new files of the share go to Blob while that is full.
///
/// # Panics
/// As [`tell`].
pub fn tell_with_overflow(scenes: &[Scene]) {
    tell_where(Away::New, scenes);
}

fn tell_where(away: Away, scenes: &[Scene]) {
    // What a power loss takes of a partly staged file is what nobody synced, piece by piece: no version of the file.
    let loses_power = scenes.iter().any(|(operation, _)| matches!(operation, Operation::LosePower(_)));
    let mut stage = Stage::new(away, if loses_power { u64::MAX } else { PARTIAL_FROM });
    for (number, (operation, after)) in scenes.iter().enumerate() {
        let at = || format!("after operation {number}: {operation:?}");
        stage.world.clock.advance(Duration::from_millis(1));
        stage.act(*operation);
        stage.past.then(&stage.tree);
        assert_eq!(stage.world.catalog().check().expect("a check"), Vec::<String>::new(), "{}", at());
        if *after == After::Look {
            stage.look(&at());
        }
    }
    stage.look("at the end");
    stage.flush();
    stage.look("at the end, after a flush");
}

struct Held {
    handle: FileHandle,
    file: FileId,
    writes: bool,
}

struct Stage {
    world: World,
    tree: Tree,
    held: BTreeMap<Slot, Held>,
    /// Files that a daemon left open for writing when it died: they are kept, and go home once they are closed again.
    abandoned: BTreeSet<FileId>,
    past: Past,
    /// Files that were emptied as they were opened, and neither closed nor synced since: after a power loss they are that, or what they
    /// were before.
    emptied: BTreeSet<FileId>,
    /// Staged files whose rows a power loss may have taken: they are kept, for a person to look at.
    leftovers: BTreeSet<PathBuf>,
    /// Files that were linked on a tier that is not the home of their new name, before a power loss took the rows: nobody sees them.
    litter: BTreeSet<String>,
}

/// Short bytes that differ.
fn bytes(seed: u8) -> Vec<u8> {
    vec![b'A' + seed; usize::from(seed)]
}

impl Stage {
    fn new(away: Away, partial_from: u64) -> Self {
        let mut stage = Self {
            world: World::new(away, partial_from),
            tree: Tree::default(),
            held: BTreeMap::new(),
            abandoned: BTreeSet::new(),
            past: Past::default(),
            emptied: BTreeSet::new(),
            leftovers: BTreeSet::new(),
            litter: BTreeSet::new(),
        };
        for top in TOPS {
            stage.mkdir(top);
        }
        for (path, seed) in [("s/a/a", 1), ("s/b", 2), ("h/a/a", 3), ("h/b", 4), ("k/a/a", 5), ("k/b", 6)] {
            let (parent, _) = path.rsplit_once('/').expect("a parent");
            if !stage.tree.is_dir(parent) {
                stage.mkdir(parent);
            }
            stage.act(Operation::Create(path, seed));
        }
        stage.flush();
        stage.write_back();
        stage
    }

    fn act(&mut self, operation: Operation) {
        match operation {
            Operation::Create(path, seed) => self.create(path, seed),
            Operation::CreateOpen(slot, path) => self.create_open(slot, path),
            Operation::Open(slot, path) => self.open(slot, path, libc::O_RDWR),
            Operation::OpenEmpty(slot, path) => self.open(slot, path, libc::O_RDWR | libc::O_TRUNC),
            Operation::OpenToRead(slot, path) => self.open(slot, path, libc::O_RDONLY),
            Operation::Write(slot, at, byte) => self.write(slot, at, byte),
            Operation::Cut(slot, size) => self.cut(slot, size),
            Operation::Read(slot) => self.read(slot),
            Operation::Close(slot) => self.close(slot),
            Operation::Truncate(path, size) => self.truncate(path, size),
            Operation::Unlink(path) => self.unlink(path),
            Operation::Mkdir(path) => self.mkdir(path),
            Operation::Rmdir(path) => self.rmdir(path),
            Operation::Rename(from, to, mode) => self.rename(from, to, mode),
            Operation::Link(path, new) => self.link(path, new),
            Operation::Chmod(path, mode) => self.chmod(path, mode),
            Operation::Utimes(path, time) => self.utimes(path, time),
            Operation::OutsidePut(path, seed) => self.outside_put(path, seed),
            Operation::OutsideDelete(path) => self.outside_delete(path),
            Operation::OutsideTree(path) => self.outside_tree(path),
            Operation::Wait => {
                self.world.calls.let_go();
                self.world.wait();
            }
            Operation::Mover(pass, trouble) => {
                self.world.calls.let_go();
                self.world.calls.arm(pass, trouble);
                self.mover_works();
                self.world.calls.disarm();
            }
            Operation::Cool(pass, trouble) => {
                self.world.calls.let_go();
                self.world.calls.arm(pass, trouble);
                self.world.cool();
                self.world.calls.disarm();
            }
            Operation::Fill => self.world.fill(),
            Operation::Room(pass, trouble) => {
                self.world.calls.let_go();
                self.world.calls.arm(pass, trouble);
                self.world.make_room();
                self.world.calls.disarm();
            }
            Operation::Nudge(steps) => self.world.nudge(steps),
            Operation::Flush => self.flush(),
            Operation::DropHot => self.world.drop_hot(),
            Operation::Crash => {
                let held = std::mem::take(&mut self.held);
                self.abandoned.extend(held.values().filter(|held| held.writes).map(|held| held.file));
                self.world.crash();
            }
            Operation::Fsync(slot) => self.fsync(slot),
            Operation::WriteBack => self.write_back(),
            Operation::LosePower(chance) => self.lose_power(chance),
            // Only the catalog knows that names on different tiers are one file.
            Operation::LoseCatalog if self.tree.is_linked_across(TOPS) => {}
            Operation::LoseCatalog => {
                self.flush();
                self.world.lose_catalog();
                // Names are found by looking, so a link count is whole when all directories have been looked at.
                self.list();
            }
        }
    }

    fn write_back(&mut self) {
        self.world.write_back();
        if self.emptied.is_empty() {
            self.past.begin(&self.tree);
        }
    }

    /// What was synced is there; of the rest whatever was there once, whole and under its name.
    fn lose_power(&mut self, chance: u8) {
        self.held.clear();
        self.emptied.clear();
        // A native file that waits to be replaced by another would be taken for a new one of somebody else's, and kept beside that.
        let waits = |path: &str, bytes: &[u8]| {
            self.tree.file(path).is_some_and(|file| self.tree.at(file).bytes != bytes)
        };
        self.world.lose_power(chance, &waits);
        self.leftovers.extend(self.world.staged());
        for (tier, top) in [("scratch", "s"), ("share", "h")] {
            let strange = self.world.directory_layout(tier).into_keys().filter(|path| !path.starts_with(top));
            self.litter.extend(strange.map(|path| format!("{tier}/{path}")));
        }
        self.world.pass_window();
        let mut found = BTreeMap::new();
        let mut known = Vec::new();
        for path in self.list() {
            let ino = self.ino(&path);
            let (attr, _) = self.world.vfs().getattr(&ME, ino).expect("attributes");
            let bytes = (attr.kind != FileKind::Directory).then(|| self.bytes_of(&path, ino));
            let unfinished = self.world.catalog().inode(ino).expect("a row").state == WriteState::Writing;
            let kind = if unfinished { Found::Unfinished } else { Found::File };
            found.insert(path.clone(), bytes.clone().map_or(Found::Directory, kind));
            known.push((path, ino, attr.mode, bytes));
        }
        self.past.check(&found);
        self.tree.adopt(
            known.iter().map(|(path, ino, mode, bytes)| (path.as_str(), ino.0, *mode, bytes.as_deref())),
        );
        self.abandoned.clear();
        for (path, ino, ..) in &known {
            let state = self.world.catalog().inode(*ino).expect("a row").state;
            if let (WriteState::Writing, Some(file)) = (state, self.tree.file(path)) {
                self.abandoned.insert(file);
            }
        }
        self.past.begin(&self.tree);
    }

    fn bytes_of(&self, path: &str, ino: Ino) -> Vec<u8> {
        // Looking at everything is no use of it.
        let onlooker = Caller { pid: std::process::id(), ..ME };
        let handle = self.world.vfs().open(&onlooker, ino, libc::O_RDONLY).expect("an open file").handle;
        let found = self.content(handle).unwrap_or_else(|error| panic!("{path}: {error}"));
        self.end_handle(handle);
        found
    }

    // ---- what programs do

    fn find(&self, path: &str) -> Result<Ino> {
        self.world.vfs().resolve(&ME, &key(path))
    }

    fn ino(&self, path: &str) -> Ino {
        self.find(path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn end<'a>(&self, path: &'a str) -> (Ino, &'a [u8]) {
        match path.rsplit_once('/') {
            Some((parent, name)) => (self.ino(parent), name.as_bytes()),
            None => (Ino::ROOT, path.as_bytes()),
        }
    }

    /// Whether both refused, or neither.
    fn agree<T>(&self, ours: &Result<T>, plain: Result<(), &'static str>) {
        match (ours, plain) {
            (Ok(_), Err(why)) => panic!("should be refused: {why}"),
            (Err(error), Ok(())) => panic!("should not be refused: {error}, {:?}", error.kind()),
            _ => {}
        }
    }

    fn made(&mut self, path: &str) -> Option<FileHandle> {
        if !self.tree.has_parent(path) {
            return None;
        }
        let (parent, name) = self.end(path);
        // The kernel looks the name up first.
        drop(self.find(path));
        let made = self.world.vfs().create(&ME, parent, name, MODE, libc::O_RDWR | libc::O_EXCL);
        let plain = self.tree.create(path, MODE, b"").map(drop);
        self.agree(&made, plain);
        let (entry, opened) = made.ok()?;
        self.world.vfs().forget(entry.attr.ino, 1);
        Some(opened.handle)
    }

    fn create(&mut self, path: &str, seed: u8) {
        let Some(handle) = self.made(path) else { return };
        self.world.vfs().write(handle, 0, &bytes(seed)).expect("a write");
        let id = self.tree.file(path).expect("a file");
        *self.tree.write(id) = bytes(seed);
        self.end_handle(handle);
    }

    fn create_open(&mut self, slot: Slot, path: &str) {
        self.close(slot);
        let Some(handle) = self.made(path) else { return };
        let file = self.tree.file(path).expect("a file");
        self.held.insert(slot, Held { handle, file, writes: true });
    }

    fn open(&mut self, slot: Slot, path: &str, flags: i32) {
        self.close(slot);
        let Some(file) = self.tree.file(path) else { return };
        let handle = self.world.vfs().open(&ME, self.ino(path), flags).expect("an open file").handle;
        if flags & libc::O_TRUNC != 0 {
            self.tree.write(file).clear();
            self.past.cut(file);
            self.emptied.insert(file);
        }
        self.held.insert(slot, Held { handle, file, writes: flags & libc::O_RDWR != 0 });
    }

    fn writer(&self, slot: Slot) -> Option<(FileHandle, FileId)> {
        self.held.get(&slot).filter(|held| held.writes).map(|held| (held.handle, held.file))
    }

    fn write(&mut self, slot: Slot, at: u8, byte: u8) {
        let Some((handle, file)) = self.writer(slot) else { return };
        let at = usize::from(at);
        self.world.vfs().write(handle, at as u64, &[byte]).expect("a write");
        let bytes = self.tree.write(file);
        bytes.resize(bytes.len().max(at + 1), 0);
        bytes[at] = byte;
    }

    fn cut(&mut self, slot: Slot, size: u8) {
        let Some((handle, file)) = self.writer(slot) else { return };
        // Only a file with a name can be told by its number here.
        let Some(path) = self.tree.name_of(file) else { return };
        let wanted = SetAttr { size: Some(size.into()), handle: Some(handle), ..SetAttr::default() };
        self.world.vfs().set_attr(&ME, self.ino(&path), wanted).expect("a cut");
        self.tree.write(file).resize(size.into(), 0);
        self.past.cut(file);
    }

    fn read(&self, slot: Slot) {
        let Some(held) = self.held.get(&slot) else { return };
        let found = self.content(held.handle).expect("bytes");
        assert_eq!(text(&found), text(&self.tree.at(held.file).bytes), "read by handle {slot}");
    }

    fn close(&mut self, slot: Slot) {
        if let Some(held) = self.held.remove(&slot) {
            self.end_handle(held.handle);
            self.emptied.remove(&held.file);
        }
    }

    fn fsync(&mut self, slot: Slot) {
        let Some((handle, file)) = self.writer(slot) else { return };
        self.world.vfs().fsync(handle).expect("an fsync");
        self.emptied.remove(&file);
        self.past.synced(file);
    }

    fn end_handle(&self, handle: FileHandle) {
        self.world.vfs().flush(&ME, handle).expect("a flush");
        if let Some(ino) = self.world.vfs().release(&ME, handle).expect("a release").settle {
            assert_eq!(self.world.vfs().settle(ino), Settled::Done);
        }
    }

    fn content(&self, handle: FileHandle) -> Result<Vec<u8>> {
        let mut buffer = vec![0; 64];
        match self.world.vfs().read(handle, 0, &mut buffer)? {
            ReadAnswer::Ready(count) => buffer.truncate(count),
            ReadAnswer::Patched(file) => {
                buffer = self.world.runtime().block_on(file.read(0, buffer.len()))?.to_vec();
            }
            ReadAnswer::Later(reader) => {
                let read = self.world.runtime().block_on(reader.read(0, buffer.len()));
                let read = match read {
                    // It moved at home: the kernel side follows it.
                    Err(error) if error.kind() == Kind::Stale => {
                        let reader = self.world.vfs().follow(&ME, handle)?;
                        self.world.runtime().block_on(reader.read(0, buffer.len()))?
                    }
                    read => read?,
                };
                buffer = read.to_vec();
            }
        }
        Ok(buffer)
    }

    fn truncate(&mut self, path: &str, size: u8) {
        let Some(file) = self.tree.file(path) else { return };
        let wanted = SetAttr { size: Some(size.into()), ..SetAttr::default() };
        self.world.vfs().set_attr(&ME, self.ino(path), wanted).expect("a truncate");
        self.tree.write(file).resize(size.into(), 0);
        self.past.cut(file);
    }

    fn unlink(&mut self, path: &str) {
        if self.tree.get(path).is_some() {
            let (parent, name) = self.end(path);
            drop(self.find(path));
            let ours = self.world.vfs().unlink(parent, name);
            let plain = self.tree.unlink(path);
            self.agree(&ours, plain);
        }
    }

    fn mkdir(&mut self, path: &str) {
        if !self.tree.has_parent(path) {
            return;
        }
        let (parent, name) = self.end(path);
        drop(self.find(path));
        let ours = self.world.vfs().mkdir(&ME, parent, name, DIR_MODE);
        let plain = self.tree.mkdir(path, DIR_MODE);
        self.agree(&ours, plain);
        if let Ok(entry) = ours {
            self.world.vfs().forget(entry.attr.ino, 1);
        }
    }

    fn rmdir(&mut self, path: &str) {
        if self.tree.get(path).is_some() {
            let (parent, name) = self.end(path);
            drop(self.find(path));
            let ours = self.world.vfs().rmdir(&ME, parent, name);
            let plain = self.tree.rmdir(path);
            self.agree(&ours, plain);
        }
    }

    fn rename(&mut self, from: &str, to: &str, mode: RenameMode) {
        let inside = |path: &str, dir: &str| path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'));
        // What the kernel refuses by itself.
        if from == to
            || inside(from, to)
            || inside(to, from)
            || self.tree.get(from).is_none()
            || !self.tree.has_parent(to)
        {
            return;
        }
        self.ino(from);
        drop(self.find(to));
        let ours = self.world.vfs().rename(&ME, self.end(from), self.end(to), mode);
        let plain = self.tree.rename(from, to, mode);
        self.agree(&ours, plain);
    }

    fn link(&mut self, path: &str, new: &str) {
        if self.tree.file(path).is_none() || !self.tree.has_parent(new) {
            return;
        }
        let (parent, name) = self.end(new);
        drop(self.find(new));
        let ours = self.world.vfs().link(self.ino(path), parent, name);
        let plain = self.tree.link(path, new);
        self.agree(&ours, plain);
        if let Ok(entry) = ours {
            self.world.vfs().forget(entry.attr.ino, 1);
        }
    }

    fn change(&self, path: &str, change: AttrChange) {
        let wanted = SetAttr { change, ..SetAttr::default() };
        self.world.vfs().set_attr(&ME, self.ino(path), wanted).expect("a change");
    }

    fn chmod(&mut self, path: &str, mode: u32) {
        if self.tree.get(path).is_some() {
            self.change(path, AttrChange { mode: Some(mode), ..AttrChange::default() });
            self.tree.change(path, mode);
        }
    }

    fn utimes(&mut self, path: &str, time: i64) {
        let Some(file) = self.tree.file(path) else { return };
        self.change(
            path,
            AttrChange { mtime: Some(TimeChange::To(Timestamp(time))), ..AttrChange::default() },
        );
        self.tree.touch(file, time);
    }

    // ---- what others do on the tiers

    /// Whether the file is at home as it is, closed and with no other name: then others may change it.
    fn is_left_alone(&self, path: &str) -> bool {
        let file = self.tree.file(path);
        let is_written =
            self.held.values().any(|held| Some(held.file) == file && (held.writes || path.starts_with('k')));
        let is_written = is_written || file.is_some_and(|file| self.abandoned.contains(&file));
        // What they do to a file on the share is compared with what becomes of that very file.
        let is_there = !path.starts_with('h') || file.is_none() || self.world.native(path).exists();
        let is_calm = is_there && self.world.is_calm();
        !is_written && is_calm && self.world.is_quiet() && file.is_none_or(|file| self.tree.links(file) == 1)
    }

    fn outside_put(&mut self, path: &str, seed: u8) {
        if self.tree.is_dir(path) || !self.tree.has_parent(path) || !self.is_left_alone(path) {
            return;
        }
        // Others do not know of times that were only remembered, nor of modes.
        let known = self.tree.file(path);
        if path.starts_with('k') {
            self.world.blob_put(path, &bytes(seed), MODE);
            if known.is_some() {
                self.tree.change(path, MODE);
            }
        } else {
            self.world.native_put(path, &bytes(seed));
            if known.is_none() {
                let mode = std::fs::Permissions::from_mode(MODE);
                std::fs::set_permissions(self.world.native(path), mode).expect("chmod");
            }
        }
        match known {
            Some(file) => *self.tree.write(file) = bytes(seed),
            None => drop(self.tree.create(path, MODE, &bytes(seed)).expect("a free name")),
        }
        self.world.pass_window();
    }

    fn outside_delete(&mut self, path: &str) {
        if self.tree.file(path).is_none() || !self.is_left_alone(path) {
            return;
        }
        if path.starts_with('k') {
            self.world.blob_delete(path);
        } else {
            std::fs::remove_file(self.world.native(path)).expect("a removal");
        }
        self.tree.unlink(path).expect("a file");
        self.world.pass_window();
    }

    fn outside_tree(&mut self, path: &str) {
        if self.tree.get(path).is_some() || !self.tree.has_parent(path) || !self.world.is_quiet() {
            return;
        }
        let (file, dir) = (format!("{path}/a"), format!("{path}/b"));
        if path.starts_with('k') {
            self.world.blob_marker(path);
            self.world.blob_put(&file, &bytes(9), MODE);
            self.world.blob_marker(&dir);
        } else {
            std::fs::create_dir(self.world.native(path)).expect("mkdir");
            self.world.native_put(&file, &bytes(9));
            std::fs::create_dir(self.world.native(&dir)).expect("mkdir");
        }
        self.tree.mkdir(path, DIR_MODE).expect("a free name");
        self.tree.create(&file, MODE, &bytes(9)).expect("a free name");
        self.tree.mkdir(&dir, DIR_MODE).expect("a free name");
        self.world.pass_window();
    }

    // ---- what is compared

    /// The mover brings home what it can, as long as no call is held.
    fn mover_works(&self) {
        let Some(report) = self.world.flush() else { return };
        assert_eq!(report.blocked.len(), 0, "{report:?}");
    }

    fn flush(&mut self) {
        for file in std::mem::take(&mut self.abandoned) {
            if let Some(path) = self.tree.name_of(file) {
                self.open(0, &path, libc::O_RDWR);
                self.close(0);
            }
        }
        (0..SLOTS).for_each(|slot| self.close(slot));
        self.world.calls.let_go();
        let report = self.world.flush();
        let report =
            report.unwrap_or_else(|| panic!("a flush does not end: {:?}", self.world.mover_status()));
        assert!(report.complete, "{report:?}");
        // Keys that were left are cleaned up in their own time.
        self.world.wait();
        assert!(self.world.is_quiet(), "{:?}", self.world.catalog().steps(tierfs::types::Seq(0), 100));
        self.come_to_rest();
        let (mut share, mut blob) = (self.world.directory_layout("share"), self.world.blob_layout());
        if self.world.away != Away::Nobody {
            let away: Vec<_> = blob
                .iter()
                .filter(|(path, bytes)| path.starts_with("h/") && bytes.is_some())
                .map(|(path, bytes)| (path.clone(), bytes.clone()))
                .collect();
            blob.retain(|path, bytes| !(path.starts_with("h/") && bytes.is_some()));
            for (path, bytes) in away {
                assert!(share.insert(path.clone(), bytes).is_none(), "{path} is in two places");
            }
        }
        for (tier, top, mut found) in [
            ("scratch", "s", self.world.directory_layout("scratch")),
            ("share", "h", share),
            ("Blob", "k", blob),
        ] {
            let mut plain = self.tree.layout(top);
            plain.insert(top.into(), None);
            // Directories through which something went elsewhere stay, as long as they are empty.
            found.retain(|path, bytes| {
                path.starts_with(top) || bytes.is_some() && !self.litter.contains(&format!("{tier}/{path}"))
            });
            assert_eq!(found, plain, "left: {tier} after a flush, right: what should be there");
        }
        let mut staged = self.world.staged();
        staged.retain(|path| !self.leftovers.contains(path));
        assert_eq!(staged, Vec::<PathBuf>::new(), "left on the stage");
    }

    /// What is on its way where nobody uses it, or back, arrives.
    fn come_to_rest(&self) {
        for _ in 0..TRIES {
            if self.world.is_calm() {
                return;
            }
            self.world.cool();
            self.world.wait();
        }
        panic!("files never arrive where they go: {:#?}", self.world.on_the_way());
    }

    fn look(&self, when: &str) {
        let mut seen = BTreeMap::new();
        let mut times = BTreeMap::new();
        for path in self.list() {
            let (attr, _) = self.world.vfs().getattr(&ME, self.ino(&path)).expect("attributes");
            times.insert(path.clone(), attr.mtime.0);
            seen.insert(path.clone(), self.shown(&path, &attr));
        }
        assert_eq!(seen, self.tree.seen(), "left: what is seen {when}, right: what should be");
        for (path, time) in self.tree.times() {
            assert_eq!(times[path], time, "the time of {path} {when}");
        }
    }

    fn shown(&self, path: &str, attr: &Attr) -> Seen {
        if attr.kind == FileKind::Directory {
            return Seen::Directory { mode: attr.mode };
        }
        let found = self.bytes_of(path, attr.ino);
        assert_eq!(attr.size, found.len() as u64, "{path}");
        Seen::File { bytes: text(&found), mode: attr.mode, nlink: attr.nlink as usize }
    }

    /// All paths.
    fn list(&self) -> Vec<String> {
        let (mut paths, mut dirs) = (Vec::new(), vec![(Ino::ROOT, String::new())]);
        while let Some((dir, prefix)) = dirs.pop() {
            let vfs = self.world.vfs();
            let handle = vfs.open_directory(dir).expect("a directory");
            vfs.refresh_listing(&ME, handle, 0).expect("a listing");
            let mut each = |listed: tierfs::vfs::Listed<'_>| {
                let name = std::str::from_utf8(listed.name).expect("text");
                if name != "." && name != ".." {
                    let path = format!("{prefix}{name}");
                    if listed.kind == FileKind::Directory {
                        dirs.push((listed.ino, format!("{path}/")));
                    }
                    paths.push(path);
                }
                More::Yes
            };
            vfs.list_names(handle, 0, &mut each).expect("names");
            vfs.release_directory(handle);
        }
        paths
    }
}

#[path = "away.rs"]
mod away;
