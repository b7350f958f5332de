//! What a power loss may leave, as the plain trees tell it that were there since everything was durable.

use super::tree::{FileId, Node, Tree, text};
use std::collections::{BTreeMap, BTreeSet};

/// All trees since everything was durable, and what was synced meanwhile.
#[derive(Default)]
pub struct Past {
    trees: Vec<Tree>,
    /// File → the first of the trees in which its bytes and its name were durable.
    synced: BTreeMap<FileId, usize>,
}

/// What is found under a name.
#[derive(Debug)]
pub enum Found {
    Directory,
    /// Finished by a close, or by a commit.
    File(Vec<u8>),
    /// What no close has finished is shown as it is, and does not go home by itself.
    Unfinished(Vec<u8>),
}

impl Found {
    /// Whether this is one of `versions`: all of it, or as much as was there when power was lost, where that may be.
    fn is_one_of(&self, versions: &BTreeSet<&[u8]>, in_place: bool) -> bool {
        match self {
            Self::Directory => false,
            Self::File(bytes) if !in_place => versions.contains(bytes.as_slice()),
            Self::File(bytes) | Self::Unfinished(bytes) => {
                versions.iter().any(|whole| whole.starts_with(bytes))
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Directory => 0,
            Self::File(bytes) | Self::Unfinished(bytes) => bytes.len(),
        }
    }
}

impl Past {
    /// Everything is durable.
    pub fn begin(&mut self, tree: &Tree) {
        self.trees = vec![tree.clone()];
        self.synced = tree.paths().filter_map(|path| Some((tree.file(path)?, 0))).collect();
    }

    /// An operation led to this.
    pub fn then(&mut self, tree: &Tree) {
        self.trees.push(tree.clone());
    }

    /// Fsync returned.
    pub fn synced(&mut self, file: FileId) {
        self.synced.insert(file, self.trees.len());
    }

    /// It was made shorter: what is left may be that, or what it was before it was opened.
    pub fn cut(&mut self, file: FileId) {
        self.synced.remove(&file);
    }

    /// The versions a file had from tree `since` on.
    fn versions(&self, file: FileId, since: usize) -> BTreeSet<&[u8]> {
        self.trees[since..]
            .iter()
            .filter_map(|tree| tree.find(file))
            .map(|file| file.bytes.as_slice())
            .collect()
    }

    /// Whether a file was ever at home on a directory tier: there it is written in place, and a new one may lose all it has.
    fn was_native(&self, file: FileId) -> bool {
        let native = |tree: &Tree| tree.names_of(file).any(|name| !name.starts_with("k/"));
        self.trees.iter().any(native)
    }

    /// # Panics
    /// If something is there that never was, or something is missing that must be there.
    pub fn check(&self, found: &BTreeMap<String, Found>) {
        let known: BTreeSet<&str> = self.trees.iter().flat_map(Tree::paths).collect();
        for path in found.keys() {
            assert!(known.contains(path.as_str()), "{path} never was there: {found:?}");
        }
        for path in known {
            self.check_name(path, found.get(path));
        }
        for (file, since) in &self.synced {
            self.check_synced(*file, *since, found);
        }
    }

    fn check_name(&self, path: &str, found: Option<&Found>) {
        let nodes: Vec<Option<Node>> = self.trees.iter().map(|tree| tree.get(path)).collect();
        let files = nodes.iter().filter_map(|node| match node {
            Some(Node::File(file)) => Some(*file),
            _ => None,
        });
        let fits = match found {
            // What was never synced may be gone with its bytes.
            None => nodes.contains(&None) || files.clone().any(|file| self.is_new(file)),
            Some(Found::Directory) => nodes.iter().any(|node| matches!(node, Some(Node::Directory { .. }))),
            Some(found) => {
                files.clone().any(|file| found.is_one_of(&self.versions(file, 0), self.was_native(file)))
            }
        };
        let versions: Vec<_> = files.flat_map(|file| self.versions(file, 0)).map(text).collect();
        assert!(fits, "{path} after a power loss: {found:?}; it was {nodes:?} with one of {versions:?}");
    }

    /// Whether a file was made since everything was durable, and no fsync asked for it.
    fn is_new(&self, file: FileId) -> bool {
        self.trees[0].names_of(file).next().is_none() && !self.synced.contains_key(&file)
    }

    fn check_synced(&self, file: FileId, since: usize, found: &BTreeMap<String, Found>) {
        let since = since.min(self.trees.len() - 1);
        let after = &self.trees[since..];
        if after.iter().any(|tree| tree.names_of(file).next().is_none()) {
            return;
        }
        let versions = self.versions(file, since);
        let names: BTreeSet<&str> = after.iter().flat_map(|tree| tree.names_of(file)).collect();
        let synced = versions.iter().map(|bytes| bytes.len()).min().unwrap_or(0);
        let is_whole =
            |found: &Found| found.len() >= synced && found.is_one_of(&versions, self.was_native(file));
        let is_there = |name: &&str| found.get(*name).is_some_and(is_whole);
        let is_there = names.iter().any(is_there);
        let versions: Vec<_> = versions.iter().map(|bytes| text(bytes)).collect();
        assert!(is_there, "synced, and gone: one of {names:?} with one of {versions:?}; there is {found:?}");
    }
}
