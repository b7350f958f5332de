//! Where a file is and why: for `user.tierfs.*`, `tierfs path` and `tierstat ls`.

use super::{Caller, Vfs};
use crate::catalog::{DirEntry, Inode, Replica, WriteState};
use crate::error::{Error, Kind, Result};
use crate::policy::placement::{Rule, Subject};
use crate::tier::Archive;
use crate::types::{Attr, FileKind, Ino, Key, TierId};

/// State of a file that lives where nobody uses it.
pub(super) const COLD: &str = "cold";

/// Seconds of a day: rates are told as opens a day.
pub(super) const DAY: f64 = 86_400.0;

/// Where a file is and how far its newest bytes are: a line of `tierstat ls`.
#[derive(Clone, Debug, PartialEq)]
pub struct FileFacts {
    /// Path from the mount's root.
    pub path: Key,
    /// Attributes, those of an open file as they are now.
    pub attr: Attr,
    /// Copies of the newest bytes.
    pub copies: Vec<Copy>,
    /// How far they are.
    pub state: WriteState,
    /// It lives on its cold tier.
    pub is_cold: bool,
    /// The rule's pattern.
    pub rule: String,
    /// Name of the home tier.
    pub home: String,
    /// Opens a day; none if it was never opened, as far as is known.
    pub heat: Option<f64>,
}

/// Where a file of this machine has the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativePath {
    /// Name of the tier.
    pub tier: String,
    /// Absolute path.
    pub path: Vec<u8>,
}

/// A copy of the newest bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Name of the tier.
    pub tier: String,
    /// What it is there for.
    pub role: CopyRole,
}

/// What a copy is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyRole {
    /// The durable copy, or one that moves there.
    Home,
    /// The newest bytes before they are home.
    Stage,
    /// Clean and extra.
    Hot,
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

    /// The inode under a path as far as it is known: no tier is asked.
    ///
    /// # Errors
    /// [`Kind::NotFound`].
    pub fn resolve_known(&self, path: &Key) -> Result<Ino> {
        path.components().try_fold(Ino::ROOT, |ino, name| {
            Ok(self.catalog().lookup(ino, name)?.ok_or(Kind::NotFound)?.attr.ino)
        })
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
        let rule = self.rule(&path, inode.opened_as());
        let is_cold = self.rules().is_away(Subject::new(&path, inode.whereabouts()))
            && inode.opened_as().away.is_none();
        let newest = self.newest(&inode)?;
        let mut copies: Vec<Copy> = Vec::new();
        for replica in &newest {
            let role = if replica.staged { CopyRole::Stage } else { CopyRole::Home };
            copies.push(Copy { tier: self.tier_name(replica.tier), role });
        }
        for replica in newest.iter().filter(|replica| !replica.staged) {
            for (tier, _) in self.hot_copies(&rule, replica)? {
                copies.push(Copy { tier: self.tier_name(tier), role: CopyRole::Hot });
            }
        }
        let (rule, home) = (rule.pattern.clone(), self.tier_name(rule.home));
        let state = inode.state;
        let node = self.nodes.get(inode.attr.ino);
        let attr = self.attr_with(&node, inode)?;
        self.nodes.drop_if_unknown(&node);
        let heat = self.heat_per_day(attr.ino);
        Ok(FileFacts { path, attr, copies, state, is_cold, rule, home, heat })
    }

    /// Opens of a file a day.
    fn heat_per_day(&self, ino: Ino) -> Option<f64> {
        self.parts.heat.opens(ino).map(|_| self.parts.heat.rate(ino) * DAY)
    }

    pub(super) fn tier_name(&self, tier: TierId) -> String {
        self.parts.tiers.find(tier).map_or_else(String::new, |tier| tier.name().to_owned())
    }

    /// Hot copies of what `remote` holds: tier and key of each.
    pub(super) fn hot_copies(&self, rule: &Rule, remote: &Replica) -> Result<Vec<(TierId, Key)>> {
        let identity = self.identity(remote)?;
        let mut copies = Vec::new();
        for tier in &rule.hot {
            let (Some(store), Some(resident)) = (self.parts.hots.get(tier), self.resident(*tier)) else {
                continue;
            };
            let key = store.path_key(&identity)?;
            if resident.stat(&key).is_ok() {
                copies.push((*tier, key));
            }
        }
        Ok(copies)
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
    pub fn native_path(&self, ino: Ino) -> Result<NativePath> {
        let inode = self.catalog().inode(ino)?;
        if inode.attr.kind == FileKind::Directory {
            for place in self.catalog().places(ino)?.iter() {
                if self.resident(place.tier).is_some() {
                    return self.on_tier(place.tier, &place.key);
                }
            }
            return Err(Kind::NoAttribute.into());
        }
        let newest = self.newest(&inode)?;
        if let Some(local) =
            newest.iter().find(|replica| self.resident(replica.tier).is_some() && !replica.is_partial())
        {
            return self.on_tier(local.tier, &local.key);
        }
        let path = self.some_path(ino)?;
        for replica in newest.iter().filter(|replica| self.resident(replica.tier).is_none()) {
            if let Some((tier, key)) = self.hot_copies(&self.rule(&path, inode.opened_as()), replica)?.first()
            {
                return self.on_tier(*tier, key);
            }
        }
        Err(Kind::NoAttribute.into())
    }

    fn on_tier(&self, tier: TierId, key: &Key) -> Result<NativePath> {
        let path = self.resident(tier).ok_or(Kind::NoAttribute)?.native_path(key)?;
        Ok(NativePath { tier: self.tier_name(tier), path: path.into_os_string().into_encoded_bytes() })
    }

    /// Value of `user.tierfs.<fact>`.
    pub(super) fn fact(&self, caller: &Caller, ino: Ino, fact: &[u8]) -> Result<Option<Vec<u8>>> {
        match fact {
            b"control" if ino == Ino::ROOT => return Ok(Some(self.parts.facts.control())),
            b"status" if ino == Ino::ROOT => return Ok(Some(self.parts.facts.status())),
            b"explain" => {
                let explained = serde_json::to_vec(&self.explain(ino)?);
                return explained.map(Some).map_err(|error| {
                    Error::new(Kind::Corrupt, "an explanation can't be written").with_source(error)
                });
            }
            b"heat" => {
                return Ok(self.heat_per_day(ino).map(|heat| format!("{heat:.2}").into_bytes()));
            }
            b"path" => return self.native_path(ino).map(|found| Some(found.path)),
            _ => {}
        }
        let facts = self.facts_of(ino)?;
        let tiers = || facts.copies.iter().map(|copy| copy.tier.as_str());
        Ok(match fact {
            b"tier" => Some(tiers().next().unwrap_or(&facts.home).into()),
            b"state" => Some(match self.archive(caller, ino, &facts)? {
                Archive::No if facts.is_cold => COLD.into(),
                Archive::No => word(facts.state).into(),
                Archive::Archived => b"archived".to_vec(),
                Archive::Rehydrating => b"rehydrating".to_vec(),
            }),
            b"replicas" => Some(tiers().collect::<Vec<_>>().join(",").into_bytes()),
            b"rule" => Some(facts.rule.into_bytes()),
            _ => None,
        })
    }
}

impl Vfs {
    /// Whether the only copy is where it can't be read. The tier is asked each time: archiving changes no version.
    fn archive(&self, caller: &Caller, ino: Ino, facts: &FileFacts) -> Result<Archive> {
        let is_far = |copy: &Copy| copy.role == CopyRole::Home;
        if facts.state != WriteState::Clean || !facts.copies.iter().all(is_far) {
            return Ok(Archive::No);
        }
        let newest = self.newest(&self.catalog().inode(ino)?)?;
        let [only] = newest.as_slice() else { return Ok(Archive::No) };
        if self.resident(only.tier).is_some() || facts.attr.kind != FileKind::Regular {
            return Ok(Archive::No);
        }
        let tier = self.parts.tiers.get(only.tier)?;
        match self.wait_for(caller, tier.head(&only.key)) {
            Ok(object) => Ok(object.archive),
            Err(error) if error.kind() == Kind::WouldBlock => Err(error),
            Err(error) => {
                tracing::debug!(path = %facts.path, %error, "whether it is archived is not known now");
                Ok(Archive::No)
            }
        }
    }
}

pub(super) fn word(state: WriteState) -> &'static str {
    match state {
        WriteState::Writing | WriteState::ClosedOpen => "writing",
        WriteState::Closed => "dirty",
        WriteState::Clean => "clean",
    }
}
