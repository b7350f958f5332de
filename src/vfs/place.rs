//! Where a name is: its path, its rule, and its native key on a tier.

use super::node::Node;
use super::{Caller, Vfs};
use crate::catalog::{Inode, Place};
use crate::error::{Error, Kind, Result};
use crate::policy::placement::{Rule, Rules, Subject};
use crate::tier::Resident;
use crate::types::{AttrChange, FileKind, Ids, Ino, Key, TierId, Whereabouts, name_is_valid};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long the kernel believes what never changes.
const FOREVER: Duration = Duration::from_secs(24 * 3600);

/// Name at a tier's root that is ours; reserved at the mount's root.
pub(super) const RESERVED: &[u8] = b".tierfs";

impl Vfs {
    /// Path of a directory from the mount's root.
    pub(super) fn directory_path(&self, dir: Ino) -> Result<Arc<Key>> {
        if dir == Ino::ROOT {
            return Ok(Arc::new(Key::ROOT));
        }
        self.path_of(&self.nodes.get(dir))
    }

    /// The same of a directory in memory.
    pub(super) fn path_of(&self, node: &Node) -> Result<Arc<Key>> {
        if node.ino == Ino::ROOT {
            return Ok(Arc::new(Key::ROOT));
        }
        let epoch = self.path_epoch.load(Ordering::Acquire);
        if let Some((known, path)) = &*node.path.read()
            && *known == epoch
        {
            return Ok(path.clone());
        }
        let path = self.catalog().path(node.ino)?.ok_or(Kind::NotFound)?;
        let path = Arc::new(path);
        *node.path.write() = Some((epoch, path.clone()));
        Ok(path)
    }

    /// Path of `name` in `dir`, if it is a name programs may use there.
    pub(super) fn child_path(&self, dir: Ino, name: &[u8]) -> Result<Key> {
        name_is_valid(name)?;
        Ok(self.directory_path(dir)?.join(name)?)
    }

    /// The same for a name to be made.
    pub(super) fn new_child_path(&self, dir: Ino, name: &[u8]) -> Result<Key> {
        if dir == Ino::ROOT && name == RESERVED {
            return Err(Error::new(Kind::NotPermitted, ".tierfs is reserved at the root"));
        }
        self.child_path(dir, name)
    }

    pub(super) fn rule(&self, path: &Key, whereabouts: impl Into<Whereabouts>) -> Arc<Rule> {
        self.rules.read().rule(Subject::new(path, whereabouts)).clone()
    }

    /// The rules as they are now.
    pub(super) fn rules(&self) -> Arc<Rules> {
        self.rules.read().clone()
    }

    /// Who owns it.
    pub(super) fn ids(&self, ino: Ino) -> Result<Ids> {
        Ok(self.catalog().inode(ino)?.attr.ids())
    }

    /// Order domain of a path that is no directory.
    pub(super) fn domain(&self, path: &Key, ids: Ids) -> String {
        self.rules.read().domain(Subject::new(path, ids))
    }

    /// Whether nothing may be committed under this name.
    pub(super) fn is_held(&self, path: &Key, ids: Ids) -> bool {
        self.rules.read().is_held(Subject::new(path, ids))
    }

    /// Some path of the inode; the root's for one without names.
    pub(super) fn some_path(&self, ino: Ino) -> Result<Key> {
        match self.catalog().names(ino)?.first() {
            Some((parent, name)) => Ok(self.directory_path(*parent)?.join(name)?),
            None => Ok(Key::ROOT),
        }
    }

    pub(super) fn resident(&self, tier: TierId) -> Option<&dyn Resident> {
        self.parts.tiers.resident(tier)
    }

    /// The home of a path as files of this machine, if it is one.
    pub(super) fn resident_home(
        &self,
        path: &Key,
        whereabouts: impl Into<Whereabouts>,
    ) -> Option<(TierId, &dyn Resident)> {
        let home = self.rule(path, whereabouts).home;
        self.resident(home).map(|resident| (home, resident))
    }

    /// Order domain of steps for a path whose home must be told; `None` where home is resident and
    /// was told in the same call.
    pub(super) fn domain_if_remote(&self, path: &Key, whereabouts: Whereabouts) -> Option<String> {
        self.resident_home(path, whereabouts).is_none().then(|| self.domain(path, whereabouts.ids))
    }

    /// How long name and attributes of a path may be believed.
    pub(super) fn ttl(&self, path: &Key) -> Duration {
        self.rules.read().revalidate(path).unwrap_or(FOREVER)
    }

    /// How long any name directly in `dir` may be believed, where that is the same for all.
    pub(super) fn ttl_below(&self, dir: &Key) -> Option<Duration> {
        self.rules.read().revalidate_below(dir).map(|window| window.unwrap_or(FOREVER))
    }

    /// The native place of directory `dir` on a resident tier: rows, and real directories with their
    /// owner and mode, wherever they are missing.
    pub(super) fn make_directory(&self, dir: Ino, tier: TierId) -> Result<Place> {
        let place = self.catalog().ensure_place(dir, tier)?;
        let Some(resident) = self.resident(tier) else {
            return Ok(place);
        };
        match resident.stat(&place.key) {
            Ok(there) if there.kind == FileKind::Directory => return Ok(place),
            Ok(_) => return Err(occupied(&place.key)),
            Err(error) if error.kind() == Kind::NotFound => {}
            Err(error) if error.kind() == Kind::NotDirectory => {
                return Err(occupied(&place.key).with_source(error));
            }
            Err(error) => return Err(error),
        }
        if let Some((parent, _)) = self.catalog().names(dir)?.first() {
            self.make_directory(*parent, tier)?;
        }
        let inode = self.catalog().inode(dir)?;
        match resident.mkdir(&place.key, inode.attr.mode) {
            Err(error) if error.kind() != Kind::Exists => return Err(error),
            Err(_) => {}
            Ok(()) => self.catalog().made_place(place.id)?,
        }
        self.give(resident, &place.key, &inode)?;
        Ok(place)
    }

    /// Runs `make` on the native key of `name`; real parent directories are made if it misses them.
    pub(super) fn with_native_key<T>(
        &self,
        dir: Ino,
        name: &[u8],
        tier: TierId,
        make: impl Fn(&Key) -> Result<T>,
    ) -> Result<(Key, T)> {
        match self.on_native_key(dir, name, tier, &make) {
            Err(error) if error.kind() == Kind::NotFound => {
                self.make_directory(dir, tier)?;
                self.on_native_key(dir, name, tier, make)
            }
            Err(error) if error.kind() == Kind::Exists && self.clear_leftover(dir, name, tier)? => {
                self.on_native_key(dir, name, tier, make)
            }
            Err(error) if error.kind() == Kind::NotDirectory => {
                let key = self.catalog().ensure_place(dir, tier)?.key;
                Err(occupied(&key).with_source(error))
            }
            other => other,
        }
    }

    /// Runs `make` on the native key of `name` while its directory can't be moved away from there.
    fn on_native_key<T>(
        &self,
        dir: Ino,
        name: &[u8],
        tier: TierId,
        make: impl Fn(&Key) -> Result<T>,
    ) -> Result<(Key, T)> {
        self.may_ask(tier)?;
        let _still = self.native_names.stand(tier);
        let key = self.catalog().ensure_place(dir, tier)?.key.join(name)?;
        let made = make(&key)?;
        Ok((key, made))
    }

    /// Waits until nobody is between a native move of a file of `ino`, or of its directory, and the row that tells of it.
    pub(super) fn let_names_settle(&self, ino: Ino) -> Result<()> {
        for replica in self.catalog().replicas(ino)? {
            if self.resident(replica.tier).is_some() {
                self.may_ask(replica.tier)?;
                drop(self.native_names.stand(replica.tier));
            }
        }
        Ok(())
    }

    /// Gives what is under `key` the owner and mode that the catalog has.
    pub(super) fn give(&self, resident: &dyn Resident, key: &Key, inode: &Inode) -> Result<()> {
        let change = AttrChange {
            mode: Some(inode.attr.mode),
            uid: Some(inode.attr.uid),
            gid: Some(inode.attr.gid),
            ..AttrChange::default()
        };
        resident.set_attr(key, &change)
    }

    /// Owner and mode of something new in `parent`: set-gid directories give their group on.
    pub(super) fn ownership(&self, caller: &Caller, parent: &Inode, mode: u32, directory: Inherit) -> Owner {
        let inherits = parent.attr.mode & libc::S_ISGID != 0;
        Owner {
            uid: caller.uid,
            gid: if inherits { parent.attr.gid } else { caller.gid },
            mode: match directory {
                Inherit::GroupAndBit if inherits => mode | libc::S_ISGID,
                _ => mode,
            } & 0o7777,
        }
    }
}

/// What a new inode takes from a set-gid directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inherit {
    /// Files: the group.
    Group,
    /// Directories: the bit too.
    GroupAndBit,
}

/// Owner and mode of something new.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub uid: u32,
    pub gid: u32,
    pub mode: u32,
}

impl Owner {
    /// Whose it is.
    pub fn ids(&self) -> Ids {
        Ids { uid: self.uid, gid: self.gid }
    }

    /// As a change to apply to what the daemon just made with its own ids.
    pub fn change(&self) -> AttrChange {
        AttrChange {
            mode: Some(self.mode),
            uid: Some(self.uid),
            gid: Some(self.gid),
            ..AttrChange::default()
        }
    }
}

/// A file that a rename gave another name may lie where a directory is to be, until the mover has taken it away.
fn occupied(key: &Key) -> Error {
    Error::new(Kind::Busy, format!("a file lies where directory {key} is to be"))
}
