//! What the trees below some directories must look like, as a program knows it from the calls that returned.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// A plain tree: names and the files behind them.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    pub dirs: BTreeSet<String>,
    /// Which of `nodes` each name means; hard links mean the same.
    pub files: BTreeMap<String, usize>,
    pub nodes: Vec<Arc<Vec<u8>>>,
}

impl Tree {
    pub fn add(&mut self, path: &str) -> usize {
        self.nodes.push(Arc::default());
        self.files.insert(path.to_owned(), self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    pub fn bytes(&self, path: &str) -> &[u8] {
        &self.nodes[self.files[path]]
    }

    pub fn link(&mut self, path: &str, node: usize) {
        self.files.insert(path.to_owned(), node);
    }

    pub fn is_linked(&self, path: &str) -> bool {
        let node = self.files[path];
        self.files.values().filter(|other| **other == node).count() > 1
    }

    pub fn unlink(&mut self, path: &str) {
        self.files.remove(path);
    }

    pub fn insert_dir(&mut self, path: &str) {
        self.dirs.insert(path.to_owned());
    }

    pub fn remove_dir(&mut self, path: &str) {
        self.dirs.remove(path);
    }

    pub fn write(&mut self, node: usize, offset: usize, bytes: &[u8]) {
        let content = Arc::make_mut(&mut self.nodes[node]);
        if content.len() < offset + bytes.len() {
            content.resize(offset + bytes.len(), 0);
        }
        content[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    pub fn resize(&mut self, node: usize, size: usize) {
        Arc::make_mut(&mut self.nodes[node]).resize(size, 0);
    }

    pub fn rename(&mut self, from: &str, to: &str) {
        if let Some(node) = self.files.remove(from) {
            self.files.insert(to.to_owned(), node);
            return;
        }
        let moved = |path: &String| path.strip_prefix(from).map(|rest| format!("{to}{rest}"));
        let inside = |path: &String| path == from || path.starts_with(&format!("{from}/"));
        let dirs: Vec<String> = self.dirs.iter().filter(|path| inside(path)).cloned().collect();
        for dir in dirs {
            self.dirs.remove(&dir);
            self.dirs.extend(moved(&dir));
        }
        let files: Vec<String> = self.files.keys().filter(|path| inside(path)).cloned().collect();
        for file in files {
            if let (Some(node), Some(to)) = (self.files.remove(&file), moved(&file)) {
                self.files.insert(to, node);
            }
        }
    }

    pub fn is_empty_dir(&self, dir: &str) -> bool {
        let prefix = format!("{dir}/");
        self.dirs.contains(dir)
            && !self.dirs.iter().chain(self.files.keys()).any(|path| path.starts_with(&prefix))
    }

    /// Files at or below `root`.
    pub fn below<'a>(&'a self, root: &str) -> impl Iterator<Item = (&'a String, &'a [u8])> {
        let prefix = format!("{root}/");
        self.files
            .iter()
            .filter(move |(path, _)| path.starts_with(&prefix))
            .map(|(path, node)| (path, self.nodes[*node].as_slice()))
    }

    /// The first difference to what is below `roots` in `mount`.
    pub fn difference(&self, mount: &Path, roots: &[String]) -> Option<String> {
        let mut found = Found::default();
        for root in roots {
            if let Err(error) = found.walk(mount, root) {
                return Some(error);
            }
        }
        if found.dirs != self.dirs {
            return Some(format!("directories {:?} instead of {:?}", found.dirs, self.dirs));
        }
        if !found.files.keys().eq(self.files.keys()) {
            let names = |files: Vec<&String>| format!("{files:?}");
            return Some(format!(
                "files {} instead of {}",
                names(found.files.keys().collect()),
                names(self.files.keys().collect())
            ));
        }
        found.files.iter().find_map(|(path, bytes)| {
            let expected = self.bytes(path);
            (bytes != expected).then(|| format!("{path}: {}", unlike(bytes, expected)))
        })
    }
}

#[derive(Debug, Default)]
struct Found {
    dirs: BTreeSet<String>,
    files: BTreeMap<String, Vec<u8>>,
}

impl Found {
    fn walk(&mut self, mount: &Path, dir: &str) -> Result<(), String> {
        self.dirs.insert(dir.to_owned());
        for entry in fs::read_dir(mount.join(dir)).map_err(|error| format!("list {dir}: {error}"))? {
            let entry = entry.map_err(|error| format!("list {dir}: {error}"))?;
            let path = format!("{dir}/{}", entry.file_name().to_string_lossy());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.walk(mount, &path)?;
            } else {
                let bytes = fs::read(mount.join(&path)).map_err(|error| format!("read {path}: {error}"))?;
                self.files.insert(path, bytes);
            }
        }
        Ok(())
    }
}

/// How two contents differ, in few words.
pub fn unlike(found: &[u8], expected: &[u8]) -> String {
    let at = found.iter().zip(expected).position(|(a, b)| a != b);
    format!(
        "{} bytes instead of {}, first difference at {}",
        found.len(),
        expected.len(),
        at.unwrap_or(found.len().min(expected.len()))
    )
}

/// Whether `found` may be what a write between `before` and `after` left when it was cut off.
pub fn is_between(found: &[u8], before: &[u8], after: &[u8]) -> bool {
    let (short, long) = (before.len().min(after.len()), before.len().max(after.len()));
    (short..=long).contains(&found.len())
        && found.iter().enumerate().all(|(at, byte)| {
            [before, after].iter().any(|bytes| bytes.get(at) == Some(byte)) || (*byte == 0 && at >= short)
        })
}
