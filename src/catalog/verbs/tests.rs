//! Tests of the verbs, a family a file.

mod bytes;
mod files;
mod lose;
mod model;
mod names;
mod observe;
mod pins;
mod preserve;
mod rename;
mod steps;
mod young;

use super::Catalog;
use crate::catalog::*;
use crate::clock::ManualClock;
use crate::error::{Kind, Result};
use crate::tier::{Entry, NativeId, Object};
use crate::types::*;
use std::sync::Arc;
use std::time::Duration;

/// A catalog in memory with a scratch tier (directories) and a blob tier, under a manual clock.
struct Bed {
    catalog: Catalog,
    clock: ManualClock,
    scratch: TierId,
    blob: TierId,
}

const DEFAULTS: Defaults = Defaults { uid: 7, gid: 8, file_mode: 0o640, dir_mode: 0o750 };

impl Bed {
    fn new() -> Self {
        let clock = ManualClock::new(Timestamp(1_000_000_000));
        let catalog = Catalog::open(&Location::Memory, Arc::new(clock.clone())).unwrap();
        let scratch = catalog.register_tier("scratch", "/scratch").unwrap().id;
        let blob = catalog.register_tier("blob", "https://a/c").unwrap().id;
        let bed = Self { catalog, clock, scratch, blob };
        bed.tick();
        bed
    }

    /// A second later; answers the new time.
    fn tick(&self) -> Timestamp {
        self.clock.advance(Duration::from_secs(1));
        self.now()
    }

    fn now(&self) -> Timestamp {
        crate::clock::Clock::wall(&self.clock)
    }

    fn make(&self, parent: Ino, name: &str, kind: FileKind, bytes: NewBytes) -> Result<Inode> {
        // As the vfs does, for owner and mode: so the directory is remembered.
        let _ = self.catalog.inode(parent);
        self.catalog.create(&NewInode {
            parent,
            name: name.as_bytes(),
            kind,
            mode: 0o644,
            uid: 1,
            gid: 2,
            rdev: 0,
            target: (kind == FileKind::Symlink).then_some(b"target"),
            bytes,
            overflow: None,
            now: self.tick(),
        })
    }

    fn native(&self, parent: Ino, name: &str, native_ino: u64) -> Ino {
        let native = NativeId { ino: native_ino, nlink: 1, blocks: 0, changed: Timestamp(0) };
        let bytes =
            NewBytes::Native { tier: self.scratch, version: version(native_ino), native, mtime: self.now() };
        self.make(parent, name, FileKind::Regular, bytes).unwrap().attr.ino
    }

    fn native_dir(&self, parent: Ino, name: &str) -> Ino {
        let native = NativeId { ino: 0, nlink: 2, blocks: 0, changed: Timestamp(0) };
        let bytes = NewBytes::Native { tier: self.scratch, version: version(0), native, mtime: self.now() };
        self.make(parent, name, FileKind::Directory, bytes).unwrap().attr.ino
    }

    fn dir(&self, parent: Ino, name: &str) -> Ino {
        self.make(parent, name, FileKind::Directory, NewBytes::CatalogOnly).unwrap().attr.ino
    }

    fn staged(&self, parent: Ino, name: &str) -> Ino {
        let bytes = NewBytes::Staged { tier: self.scratch };
        self.make(parent, name, FileKind::Regular, bytes).unwrap().attr.ino
    }

    /// A staged file, closed and released.
    fn closed(&self, parent: Ino, name: &str) -> Ino {
        let ino = self.staged(parent, name);
        self.catalog.close(ino, self.content(10), "d").unwrap();
        self.catalog.released(ino).unwrap();
        ino
    }

    /// Commits the newest generation of `ino` to the blob key of its name, and drops the stage row.
    fn commit(&self, ino: Ino, tag: u64) -> PlaceId {
        let (parent, name) = self.catalog.names(ino).unwrap().remove(0);
        let place = self.catalog.ensure_place(parent, self.blob).unwrap().id;
        let generation = self.catalog.inode(ino).unwrap().generation;
        self.catalog.begin_commit(ino, place, &name, "w").unwrap();
        assert!(self.catalog.commit_if(ino, generation, 1, place, &name, &version(tag), None).unwrap());
        for replica in self.catalog.replicas(ino).unwrap() {
            if replica.staged {
                self.catalog.drop_replica(replica.place, &replica.name).unwrap();
            }
        }
        for step in self.steps() {
            if step.what == StepKind::Reconcile(ino) {
                self.catalog.finish_step(step.seq).unwrap();
            }
        }
        place
    }

    fn content(&self, size: u64) -> Content {
        Content { size, blocks: size.div_ceil(512), mtime: self.now(), ctime: self.now() }
    }

    fn lookup(&self, parent: Ino, name: &str) -> Option<Ino> {
        self.catalog.lookup(parent, name.as_bytes()).unwrap().map(|inode| inode.attr.ino)
    }

    fn steps(&self) -> Vec<Step> {
        self.catalog.steps(Seq(0), 1000).unwrap()
    }

    fn root(&self, tier: TierId) -> PlaceId {
        self.catalog.native_place(Ino::ROOT, tier).unwrap().unwrap().id
    }

    fn replica(&self, place: PlaceId, name: &str) -> Option<Replica> {
        self.catalog.replica_at(place, name.as_bytes()).unwrap()
    }

    fn keys(&self, ino: Ino) -> Vec<String> {
        let mut keys: Vec<_> =
            self.catalog.replicas(ino).unwrap().iter().map(|replica| replica.key.to_string()).collect();
        keys.sort();
        keys
    }

    /// The tables are true by themselves.
    fn sound(&self) {
        assert_eq!(self.catalog.check().unwrap(), Vec::<String>::new());
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.sound();
        }
    }
}

fn version(tag: u64) -> Version {
    Version::new(tag.to_string())
}

fn object(kind: FileKind, tag: u64, size: u64) -> Object {
    Object {
        kind,
        size,
        version: version(tag),
        modified: Timestamp(i64::try_from(tag).unwrap()),
        attrs: Attrs::default(),
        target: None,
        rdev: 0,
        native: None,
        archive: Default::default(),
    }
}

fn file(name: &str, tag: u64) -> Entry {
    Entry { name: name.into(), object: object(FileKind::Regular, tag, tag) }
}

/// A directory: without a version it is only a prefix.
fn prefix(name: &str) -> Entry {
    let mut object = object(FileKind::Directory, 0, 0);
    object.version = Version::new("");
    Entry { name: name.into(), object }
}

fn kind_of<T: std::fmt::Debug>(result: Result<T>) -> Kind {
    result.unwrap_err().kind()
}
