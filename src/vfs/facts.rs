//! Where a file is and why: for `user.tierfs.*`, `tierfs path` and `tierstat ls`.

use super::{Caller, Vfs};
use crate::catalog::{DirEntry, Inode, WriteState};
use crate::error::{Kind, Result};
use crate::types::{FileKind, Ino, Key};

/// One line of `tierstat ls`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// Path from the mount's root.
    pub path: Key,
    /// What it is.
    pub kind: FileKind,
    /// Bytes.
    pub size: u64,
    /// Names of the tiers that have the newest bytes.
    pub tiers: Vec<String>,
    /// Of these, the ones that are hot copies.
    pub hot: Vec<String>,
    /// `clean`, `open`, `dirty`, or `pending` (only names or attributes).
    pub state: &'static str,
    /// The rule's pattern.
    pub rule: String,
    /// Name of the home tier.
    pub home: String,
}

impl Vfs {
    /// The inode under a path, asking tiers as a look-up does.
    ///
    /// # Errors
    /// [`Kind::NotFound`].
    pub fn resolve(&self, caller: &Caller, path: &Key) -> Result<Ino> {
        let mut ino = Ino::ROOT;
        for name in path.components() {
            self.refresh_name(caller, &self.nodes.get(ino), name)?;
            ino = self.catalog().lookup(ino, name)?.ok_or(Kind::NotFound)?.attr.ino;
        }
        Ok(ino)
    }

    /// Facts of one inode.
    ///
    /// # Errors
    /// [`Kind::NotFound`].
    pub fn facts_of(&self, ino: Ino) -> Result<FileFacts> {
        let inode = self.catalog().inode(ino)?;
        let path = self.some_path(ino)?;
        self.facts(inode, path)
    }

    fn facts(&self, inode: Inode, path: Key) -> Result<FileFacts> {
        let rule = self.rule(&path);
        let name_of =
            |tier| self.parts.tiers.find(tier).map_or_else(String::new, |tier| tier.name().to_owned());
        let newest = self.newest(&inode)?;
        let mut tiers: Vec<String> = newest.iter().map(|replica| name_of(replica.tier)).collect();
        let mut hot = Vec::new();
        for replica in newest.iter().filter(|replica| self.resident(replica.tier).is_none()) {
            let identity = self.identity(replica)?;
            for tier in &rule.hot {
                if let Some(store) = self.parts.hots.get(tier)
                    && self.resident(*tier).is_some_and(|resident| {
                        store.path_key(&identity).and_then(|key| resident.stat(&key)).is_ok()
                    })
                {
                    hot.push(name_of(*tier));
                }
            }
        }
        tiers.extend(hot.iter().cloned());
        tiers.dedup();
        let pattern = rule.pattern.clone();
        let home = name_of(rule.home);
        let state = match inode.state {
            WriteState::Writing | WriteState::ClosedOpen => "open",
            WriteState::Closed => "dirty",
            WriteState::Clean => "clean",
        };
        let Inode { attr, .. } = inode;
        Ok(FileFacts { path, kind: attr.kind, size: attr.size, tiers, hot, state, rule: pattern, home })
    }

    /// Facts of the entries of a directory after `cookie`, and the cookie of each.
    ///
    /// # Errors
    /// [`Kind::NotDirectory`], or what a tier says.
    pub fn facts_in(
        &self,
        caller: &Caller,
        dir: Ino,
        cookie: u64,
        limit: usize,
    ) -> Result<Vec<(u64, FileFacts)>> {
        self.directory(dir)?;
        if cookie == 0 {
            self.refresh_directory(caller, &self.nodes.get(dir))?;
        }
        let path = self.directory_path(dir)?;
        let entries = self.catalog().entries(dir, cookie, limit)?;
        let facts = |entry: DirEntry| Ok((entry.cookie, self.facts(entry.inode, path.join(&entry.name)?)?));
        entries.into_iter().map(facts).collect()
    }

    /// Native path of the resident copy of a file, for tools that want the bytes without the mount.
    ///
    /// # Errors
    /// [`Kind::NoAttribute`] if no tier of this machine has it.
    pub fn native_path(&self, ino: Ino) -> Result<Vec<u8>> {
        let inode = self.catalog().inode(ino)?;
        if inode.attr.kind == FileKind::Directory {
            for place in self.catalog().places(ino)? {
                if self.resident(place.tier).is_some() {
                    return Ok(joined(&self.parts.tiers.get(place.tier)?.location(), &place.key));
                }
            }
            return Err(Kind::NoAttribute.into());
        }
        let newest = self.newest(&inode)?;
        if let Some(local) = newest.iter().find(|replica| self.resident(replica.tier).is_some()) {
            return Ok(joined(&self.parts.tiers.get(local.tier)?.location(), &local.key));
        }
        let path = self.some_path(ino)?;
        for replica in &newest {
            let identity = self.identity(replica)?;
            for tier in &self.rule(&path).hot {
                let Some(store) = self.parts.hots.get(tier) else { continue };
                let key = store.path_key(&identity)?;
                if self.resident(*tier).is_some_and(|resident| resident.stat(&key).is_ok()) {
                    return Ok(joined(&self.parts.tiers.get(*tier)?.location(), &key));
                }
            }
        }
        Err(Kind::NoAttribute.into())
    }

    /// Value of `user.tierfs.<fact>`.
    pub(super) fn fact(&self, ino: Ino, fact: &[u8]) -> Result<Option<Vec<u8>>> {
        match fact {
            b"control" if ino == Ino::ROOT => return Ok(Some(self.parts.facts.control())),
            b"status" if ino == Ino::ROOT => return Ok(Some(self.parts.facts.status())),
            b"path" => return self.native_path(ino).map(Some),
            _ => {}
        }
        let facts = self.facts_of(ino)?;
        Ok(match fact {
            b"tier" => Some(facts.tiers.first().cloned().unwrap_or(facts.home).into_bytes()),
            b"state" => Some(facts.state.as_bytes().to_vec()),
            b"rule" => Some(facts.rule.into_bytes()),
            b"replicas" => Some(facts.tiers.join(",").into_bytes()),
            _ => None,
        })
    }
}

/// `location` of a directory tier is its root's path.
fn joined(location: &str, key: &Key) -> Vec<u8> {
    let mut path = location.as_bytes().to_vec();
    if !key.is_root() {
        path.push(b'/');
        path.extend_from_slice(key.as_bytes());
    }
    path
}
