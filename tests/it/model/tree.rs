//! A plain tree: what should be seen.

use std::collections::{BTreeMap, BTreeSet};
use tierfs::tier::RenameMode;

pub type FileId = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    Directory { mode: u32 },
    File(FileId),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    pub bytes: Vec<u8>,
    pub mode: u32,
    /// If it was set, and nothing was written since.
    pub mtime: Option<i64>,
}

/// What a name shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Directory { mode: u32 },
    File { bytes: String, mode: u32, nlink: usize },
}

#[derive(Clone, Debug, Default)]
pub struct Tree {
    names: BTreeMap<String, Node>,
    files: Vec<File>,
}

/// Why the plain tree refuses.
pub type Refused = &'static str;

impl Tree {
    pub fn get(&self, path: &str) -> Option<Node> {
        self.names.get(path).copied()
    }

    pub fn file(&self, path: &str) -> Option<FileId> {
        match self.get(path) {
            Some(Node::File(id)) => Some(id),
            _ => None,
        }
    }

    pub fn is_dir(&self, path: &str) -> bool {
        matches!(self.get(path), Some(Node::Directory { .. }))
    }

    /// Whether a name may be made, if it is free.
    pub fn has_parent(&self, path: &str) -> bool {
        path.rsplit_once('/').is_none_or(|(parent, _)| self.is_dir(parent))
    }

    pub fn at(&self, id: FileId) -> &File {
        &self.files[id]
    }

    /// If there was one of that number already.
    pub fn find(&self, id: FileId) -> Option<&File> {
        self.files.get(id)
    }

    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    pub fn names_of(&self, id: FileId) -> impl Iterator<Item = &str> {
        let names = self.names.iter().filter(move |(_, node)| **node == Node::File(id));
        names.map(|(path, _)| path.as_str())
    }

    /// Takes over what is there. Files of one `ino` are one file.
    pub fn adopt<'a>(&mut self, found: impl Iterator<Item = (&'a str, u64, u32, Option<&'a [u8]>)>) {
        let mut files = BTreeMap::new();
        self.names.clear();
        for (path, ino, mode, bytes) in found {
            let node = match bytes {
                None => Node::Directory { mode },
                Some(bytes) => Node::File(*files.entry(ino).or_insert_with(|| {
                    self.files.push(File { bytes: bytes.to_vec(), mode, mtime: None });
                    self.files.len() - 1
                })),
            };
            self.names.insert(path.to_owned(), node);
        }
    }

    /// For a write.
    pub fn write(&mut self, id: FileId) -> &mut Vec<u8> {
        self.files[id].mtime = None;
        &mut self.files[id].bytes
    }

    pub fn change(&mut self, path: &str, mode: u32) {
        match self.names.get_mut(path) {
            Some(Node::Directory { mode: now }) => *now = mode,
            Some(Node::File(id)) => self.files[*id].mode = mode,
            None => {}
        }
    }

    pub fn touch(&mut self, id: FileId, mtime: i64) {
        self.files[id].mtime = Some(mtime);
    }

    pub fn links(&self, id: FileId) -> usize {
        self.names.values().filter(|node| **node == Node::File(id)).count()
    }

    /// One of a file's names.
    pub fn name_of(&self, id: FileId) -> Option<String> {
        self.names.iter().find(|(_, node)| **node == Node::File(id)).map(|(path, _)| path.clone())
    }

    /// Whether a file has names below several of these directories.
    pub fn is_linked_across<const N: usize>(&self, dirs: [&str; N]) -> bool {
        let mut seen = BTreeSet::new();
        let files = dirs.iter().flat_map(|dir| {
            let files = self.under(dir).filter_map(|(path, _)| self.file(path));
            files.collect::<BTreeSet<_>>()
        });
        files.into_iter().any(|file| !seen.insert(file))
    }

    pub fn under<'a>(&'a self, dir: &str) -> impl Iterator<Item = (&'a str, Node)> {
        let prefix = format!("{dir}/");
        let below = self.names.iter().filter(move |(path, _)| path.starts_with(&prefix));
        below.map(|(path, node)| (path.as_str(), *node))
    }

    fn is_empty(&self, dir: &str) -> bool {
        self.under(dir).next().is_none()
    }

    // ---- changes

    pub fn mkdir(&mut self, path: &str, mode: u32) -> Result<(), Refused> {
        self.free(path)?;
        self.names.insert(path.into(), Node::Directory { mode });
        Ok(())
    }

    pub fn create(&mut self, path: &str, mode: u32, bytes: &[u8]) -> Result<FileId, Refused> {
        self.free(path)?;
        self.files.push(File { bytes: bytes.to_vec(), mode, mtime: None });
        self.names.insert(path.into(), Node::File(self.files.len() - 1));
        Ok(self.files.len() - 1)
    }

    pub fn link(&mut self, path: &str, new: &str) -> Result<(), Refused> {
        let id = self.file(path).ok_or("no file")?;
        self.free(new)?;
        self.names.insert(new.into(), Node::File(id));
        Ok(())
    }

    fn free(&self, path: &str) -> Result<(), Refused> {
        if self.names.contains_key(path) { Err("it is there") } else { Ok(()) }
    }

    pub fn unlink(&mut self, path: &str) -> Result<(), Refused> {
        self.file(path).ok_or("no file")?;
        self.names.remove(path);
        Ok(())
    }

    pub fn rmdir(&mut self, path: &str) -> Result<(), Refused> {
        match self.get(path) {
            Some(Node::Directory { .. }) if self.is_empty(path) => drop(self.names.remove(path)),
            Some(Node::Directory { .. }) => return Err("not empty"),
            _ => return Err("no directory"),
        }
        Ok(())
    }

    pub fn rename(&mut self, from: &str, to: &str, mode: RenameMode) -> Result<(), Refused> {
        let moved = self.get(from).ok_or("no source")?;
        let there = self.get(to);
        let is_dir = |node| matches!(node, Node::Directory { .. });
        match (mode, there) {
            (RenameMode::Exchange, None) => return Err("no target"),
            (RenameMode::NoReplace, Some(_)) => return Err("a target"),
            (RenameMode::Exchange, Some(_)) => {
                let (here, there) = (self.take(from), self.take(to));
                self.put(to, here);
                self.put(from, there);
                return Ok(());
            }
            (RenameMode::Replace, Some(there)) => match (is_dir(moved), is_dir(there)) {
                _ if from == to => return Ok(()),
                (false, false) if there == moved => return Ok(()),
                (true, true) if self.is_empty(to) => {}
                (true, true) => return Err("a full target"),
                (false, false) => {}
                _ => return Err("another kind"),
            },
            _ => {}
        }
        let taken = self.take(from);
        self.names.remove(to);
        self.put(to, taken);
        Ok(())
    }

    /// A name with all below, without its own path.
    fn take(&mut self, path: &str) -> Vec<(String, Node)> {
        let mut below: Vec<String> = self.under(path).map(|(path, _)| path.to_owned()).collect();
        below.push(path.to_owned());
        below
            .into_iter()
            .map(|name| (name[path.len()..].to_owned(), self.names.remove(&name).expect("a name")))
            .collect()
    }

    fn put(&mut self, path: &str, taken: Vec<(String, Node)>) {
        self.names.extend(taken.into_iter().map(|(rest, node)| (format!("{path}{rest}"), node)));
    }

    /// All that should be seen.
    pub fn seen(&self) -> BTreeMap<String, Seen> {
        self.names.iter().map(|(path, node)| (path.clone(), self.shown(*node))).collect()
    }

    fn shown(&self, node: Node) -> Seen {
        match node {
            Node::Directory { mode } => Seen::Directory { mode },
            Node::File(id) => {
                let file = &self.files[id];
                Seen::File { bytes: text(&file.bytes), mode: file.mode, nlink: self.links(id) }
            }
        }
    }

    /// The times that should be seen.
    pub fn times(&self) -> impl Iterator<Item = (&str, i64)> {
        let time = |node: &Node| match node {
            Node::File(id) => self.files[*id].mtime,
            Node::Directory { .. } => None,
        };
        self.names.iter().filter_map(move |(path, node)| Some((path.as_str(), time(node)?)))
    }

    /// What lies below a directory on its tier: bytes of files, nothing of directories.
    pub fn layout(&self, dir: &str) -> BTreeMap<String, Option<String>> {
        let bytes = |node| match node {
            Node::File(id) => Some(text(&self.at(id).bytes)),
            Node::Directory { .. } => None,
        };
        self.under(dir).map(|(path, node)| (path.to_owned(), bytes(node))).collect()
    }
}

/// Bytes as a person reads them.
pub fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
