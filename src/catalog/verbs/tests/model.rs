//! Random names against a plain tree.

use super::*;
use crate::tier::RenameMode;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};

/// What the catalog should say: directories by inode, and what kind each inode is.
#[derive(Default)]
struct Model {
    dirs: HashMap<Ino, BTreeMap<String, Ino>>,
    kinds: HashMap<Ino, FileKind>,
}

#[derive(Clone, Debug)]
enum Op {
    Create { dir: usize, name: u8, directory: bool, bytes: u8 },
    Link { file: usize, dir: usize, name: u8 },
    Unlink { dir: usize, name: u8 },
    Rmdir { dir: usize, name: u8 },
    Rename { from: (usize, u8), to: (usize, u8), mode: RenameMode, step: bool },
}

fn op() -> impl Strategy<Value = Op> {
    let (dir, name) = (0_usize..6, 0_u8..5);
    let mode = prop_oneof![
        3 => Just(RenameMode::Replace),
        1 => Just(RenameMode::NoReplace),
        2 => Just(RenameMode::Exchange)
    ];
    prop_oneof![
        4 => (dir.clone(), name.clone(), any::<bool>(), 0_u8..4)
            .prop_map(|(dir, name, directory, bytes)| Op::Create { dir, name, directory, bytes }),
        2 => (0_usize..8, dir.clone(), name.clone())
            .prop_map(|(file, dir, name)| Op::Link { file, dir, name }),
        2 => (dir.clone(), name.clone()).prop_map(|(dir, name)| Op::Unlink { dir, name }),
        2 => (dir.clone(), name.clone()).prop_map(|(dir, name)| Op::Rmdir { dir, name }),
        6 => ((dir.clone(), name.clone()), (dir, name), mode, any::<bool>())
            .prop_map(|(from, to, mode, step)| Op::Rename { from, to, mode, step }),
    ]
}

impl Model {
    fn new() -> Self {
        let mut model = Self::default();
        model.add(Ino::ROOT, FileKind::Directory);
        model
    }

    fn add(&mut self, ino: Ino, kind: FileKind) {
        self.kinds.insert(ino, kind);
        if kind == FileKind::Directory {
            self.dirs.insert(ino, BTreeMap::new());
        }
    }

    fn dir(&self, n: usize) -> Ino {
        let mut all: Vec<_> = self.dirs.keys().copied().collect();
        all.sort();
        all[n % all.len()]
    }

    fn file(&self, n: usize) -> Option<Ino> {
        let mut all: Vec<_> = self
            .dirs
            .values()
            .flat_map(BTreeMap::values)
            .copied()
            .filter(|ino| self.kinds[ino] != FileKind::Directory)
            .collect();
        all.sort();
        (!all.is_empty()).then(|| all[n % all.len()])
    }

    fn get(&self, dir: Ino, name: &str) -> Option<Ino> {
        self.dirs[&dir].get(name).copied()
    }

    fn is_dir(&self, ino: Ino) -> bool {
        self.kinds[&ino] == FileKind::Directory
    }

    fn contains(&self, dir: Ino, other: Ino) -> bool {
        dir == other
            || self.dirs[&dir].values().any(|child| self.is_dir(*child) && self.contains(*child, other))
    }

    /// What a removal of (dir, name) as `directory` should answer.
    fn remove(&mut self, dir: Ino, name: &str, directory: bool) -> std::result::Result<(), Kind> {
        let ino = self.get(dir, name).ok_or(Kind::NotFound)?;
        match (directory, self.is_dir(ino)) {
            (false, true) => return Err(Kind::IsDirectory),
            (true, false) => return Err(Kind::NotDirectory),
            (true, true) if !self.dirs[&ino].is_empty() => return Err(Kind::NotEmpty),
            _ => {}
        }
        self.dirs.get_mut(&dir).unwrap().remove(name);
        self.dirs.remove(&ino);
        Ok(())
    }

    fn rename(
        &mut self,
        from: (Ino, &str),
        to: (Ino, &str),
        mode: RenameMode,
    ) -> std::result::Result<(), Kind> {
        let moved = self.get(from.0, from.1).ok_or(Kind::NotFound)?;
        let there = self.get(to.0, to.1);
        if self.is_dir(moved) && self.contains(moved, to.0) {
            return Err(Kind::Invalid);
        }
        match (mode, there) {
            (RenameMode::Exchange, None) => return Err(Kind::NotFound),
            (RenameMode::Exchange, Some(there)) => {
                if self.is_dir(there) && self.contains(there, from.0) {
                    return Err(Kind::Invalid);
                }
                self.dirs.get_mut(&from.0).unwrap().insert(from.1.into(), there);
                self.dirs.get_mut(&to.0).unwrap().insert(to.1.into(), moved);
                return Ok(());
            }
            (RenameMode::NoReplace, Some(_)) => return Err(Kind::Exists),
            (RenameMode::Replace, Some(there)) if there == moved => return Ok(()),
            (RenameMode::Replace, Some(there)) => match (self.is_dir(moved), self.is_dir(there)) {
                (true, false) => return Err(Kind::NotDirectory),
                (false, true) => return Err(Kind::IsDirectory),
                (true, true) if !self.dirs[&there].is_empty() => return Err(Kind::NotEmpty),
                _ => drop(self.dirs.remove(&there)),
            },
            _ => {}
        }
        self.dirs.get_mut(&from.0).unwrap().remove(from.1);
        self.dirs.get_mut(&to.0).unwrap().insert(to.1.into(), moved);
        Ok(())
    }
}

fn kind<T: std::fmt::Debug>(result: Result<T>) -> std::result::Result<(), Kind> {
    result.map(drop).map_err(|error| error.kind())
}

fn apply(bed: &Bed, model: &mut Model, op: &Op, number: u64) {
    let text = |name: u8| format!("n{name}");
    match op {
        Op::Create { dir, name, directory, bytes } => {
            let (dir, name) = (model.dir(*dir), text(*name));
            let file_kind = if *directory { FileKind::Directory } else { FileKind::Regular };
            let native = NativeId { ino: number, nlink: 1, blocks: 0, changed: Timestamp(0) };
            let bytes = match (bytes, directory) {
                (0, _) => {
                    NewBytes::Native { tier: bed.scratch, version: version(number), native, mtime: bed.now() }
                }
                (1, false) => NewBytes::Staged { tier: bed.scratch },
                (2, _) => NewBytes::Deferred { domain: "d".into() },
                _ => NewBytes::CatalogOnly,
            };
            if matches!(bytes, NewBytes::Native { .. }) && *directory && model.get(dir, &name).is_some() {
                // mkdir(2) on the tier would have refused.
                return;
            }
            match (bed.make(dir, &name, file_kind, bytes), model.get(dir, &name)) {
                (Ok(inode), None) => {
                    model.add(inode.attr.ino, file_kind);
                    model.dirs.get_mut(&dir).unwrap().insert(name, inode.attr.ino);
                }
                (Err(error), Some(_)) => assert_eq!(error.kind(), Kind::Exists),
                // A prefix that another directory has left behind: the vfs would not get this far.
                (Err(error), None) => assert_eq!(error.kind(), Kind::Busy),
                (Ok(_), Some(_)) => panic!("{op:?} made a name twice"),
            }
        }
        Op::Link { file, dir, name } => {
            let (Some(file), dir, name) = (model.file(*file), model.dir(*dir), text(*name)) else { return };
            let result = bed.catalog.link(file, dir, name.as_bytes(), None, Some("d"), bed.tick());
            match model.get(dir, &name) {
                Some(_) => assert_eq!(kind(result), Err(Kind::Exists)),
                None => {
                    result.unwrap();
                    model.dirs.get_mut(&dir).unwrap().insert(name, file);
                }
            }
        }
        Op::Unlink { dir, name } => {
            let (dir, name) = (model.dir(*dir), text(*name));
            let result = bed.catalog.unlink(dir, name.as_bytes(), &[], "d", bed.tick());
            assert_eq!(kind(result), model.remove(dir, &name, false));
        }
        Op::Rmdir { dir, name } => {
            let (dir, name) = (model.dir(*dir), text(*name));
            let result = bed.catalog.rmdir(dir, name.as_bytes(), &[], "d", bed.tick());
            assert_eq!(kind(result), model.remove(dir, &name, true));
        }
        Op::Rename { from, to, mode, step } => {
            let (from_name, to_name) = (text(from.1), text(to.1));
            let (from, to) = ((model.dir(from.0), &from_name[..]), (model.dir(to.0), &to_name[..]));
            let mut plan = rename::plan(bed, from, to, step.then_some("d"));
            plan.mode = *mode;
            assert_eq!(kind(rename::run(bed, &plan)), model.rename(from, to, *mode), "{op:?}");
        }
    }
}

fn compare(bed: &Bed, model: &Model, limit: usize) {
    bed.sound();
    let mut links: HashMap<Ino, u32> = HashMap::new();
    for (dir, names) in &model.dirs {
        let (mut found, mut after) = (BTreeMap::new(), 0);
        loop {
            let page = bed.catalog.entries(*dir, after, limit).unwrap();
            let Some(last) = page.last() else { break };
            after = last.cookie;
            for entry in page {
                let name = String::from_utf8(entry.name).unwrap();
                assert_eq!(bed.lookup(*dir, &name), Some(entry.inode.attr.ino));
                found.insert(name, entry.inode.attr.ino);
            }
        }
        assert_eq!(&found, names);
        for ino in names.values() {
            *links.entry(*ino).or_default() += 1;
        }
    }
    for (ino, count) in links {
        if !model.is_dir(ino) {
            assert_eq!(bed.catalog.inode(ino).unwrap().attr.nlink, count);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn names_are_those_of_a_plain_tree(ops in prop::collection::vec(op(), 1..60), limit in 1_usize..4) {
        let bed = Bed::new();
        let mut model = Model::new();
        for (number, op) in (1..).zip(&ops) {
            apply(&bed, &mut model, op, number);
        }
        compare(&bed, &model, limit);
    }
}
