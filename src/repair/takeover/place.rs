//! Where a taken file belongs: its directories, as the tiers have them, and what is under its name already.

use super::{Heir, LOST_AND_FOUND};
use crate::catalog::{Found, NewBytes, NewInode, Observation, Observed, Place, PlaceId, Scope, Standing};
use crate::data::Sidecar;
use crate::error::{Error, Kind, Result};
use crate::policy::aside::conflict_name;
use crate::policy::placement::{Role, Subject};
use crate::repair::forget_nameless;
use crate::tier::{Entry, Object, Tier};
use crate::types::{FileKind, Ids, Ino, Key, TierId, Version};
use std::sync::Arc;

/// Where a file goes.
pub(super) struct Spot {
    pub parent: Ino,
    pub name: Vec<u8>,
    /// What it replaces at home.
    pub base: Option<(PlaceId, Version)>,
    /// Extended attributes of that, which no sidecar holds.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Heir<'_> {
    /// Where `sidecar` says; under another name if that is taken, or if the file is `outdone` by a later one. None if something other
    /// than a directory is where one should be.
    pub(super) async fn find_place(&self, sidecar: &Sidecar, outdone: bool) -> Result<Option<Spot>> {
        let Some((directory, name)) = sidecar.path.split() else { return Ok(None) };
        let reserved = sidecar.path.components().next() == Some(b".tierfs");
        let Some(parent) = self.directory(&directory).await?.filter(|_| !reserved) else { return Ok(None) };
        if outdone || self.catalog.lookup(parent, name)?.is_some() {
            return Ok(Some(Spot {
                parent,
                name: self.free_name(parent, name)?,
                base: None,
                xattrs: Vec::new(),
            }));
        }
        let ids = Ids { uid: sidecar.uid, gid: sidecar.gid };
        let home = self.rules.rule(Subject::new(&sidecar.path, ids)).home;
        let place = self.catalog.ensure_place(parent, home)?;
        match self.head(home, &place.key.join(name)?).await? {
            Some(object) if object.kind == FileKind::Directory => Ok(None),
            Some(object) if replaces(sidecar, &object) => {
                let base = Some((place.id, object.version));
                Ok(Some(Spot { parent, name: name.to_vec(), base, xattrs: object.attrs.xattrs }))
            }
            // Something else lies there by now: the commit finds it, and both are kept.
            _ => Ok(Some(Spot { parent, name: name.to_vec(), base: None, xattrs: Vec::new() })),
        }
    }

    /// A free name in `lost+found`.
    pub(super) async fn lost_and_found(&self, name: &[u8]) -> Result<Spot> {
        let mut attempt = 0_u32;
        loop {
            let again = if attempt == 0 { String::new() } else { format!("-{attempt}") };
            let directory = Key::parse(format!("{LOST_AND_FOUND}{again}"))?;
            attempt += 1;
            // A file may have the name.
            let Some(parent) = self.directory(&directory).await? else { continue };
            let is_free = self.catalog.lookup(parent, name)?.is_none();
            let name = if is_free { name.to_vec() } else { self.free_name(parent, name)? };
            return Ok(Spot { parent, name, base: None, xattrs: Vec::new() });
        }
    }

    fn free_name(&self, parent: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let mut attempt = 0;
        loop {
            let aside = conflict_name(name, self.host, self.now(), attempt);
            if self.catalog.lookup(parent, &aside)?.is_none() {
                return Ok(aside);
            }
            attempt += 1;
        }
    }

    /// The directory at `path`, found on the tiers or made; none if something else is in the way.
    async fn directory(&self, path: &Key) -> Result<Option<Ino>> {
        let (mut dir, mut at) = (Ino::ROOT, Key::ROOT);
        for name in path.components() {
            at = at.join(name)?;
            if self.catalog.lookup(dir, name)?.is_none() {
                self.look(dir, name, &at).await?;
            }
            dir = match self.catalog.lookup(dir, name)? {
                Some(inode) if inode.attr.kind == FileKind::Directory => inode.attr.ino,
                Some(_) => return Ok(None),
                None => self.make_directory(dir, name, &at)?,
            };
        }
        Ok(Some(dir))
    }

    /// Looks for a name on every tier that may have it.
    async fn look(&self, dir: Ino, name: &[u8], path: &Key) -> Result<()> {
        for tier in self.rules.tiers_under(path) {
            let Some(place) = self.catalog.native_place(dir, tier)? else { continue };
            let began = self.now();
            let Some(object) = self.head(tier, &place.key.join(name)?).await? else { continue };
            self.observe(&place, name, path, Some(object), began)?;
        }
        Ok(())
    }

    /// Takes in what lies under a key now, or that nothing does.
    pub(in crate::repair) async fn look_again(&self, place: PlaceId, name: &[u8]) -> Result<()> {
        let place = self.catalog.place(place)?;
        let Some(dir) = place.ino else { return Ok(()) };
        let Some(path) = self.catalog.path(dir)? else { return Ok(()) };
        let began = self.now();
        let object = self.head(place.tier, &place.key.join(name)?).await?;
        let observed = self.observe(&place, name, &path.join(name)?, object, began)?;
        forget_nameless(self.catalog, &observed)
    }

    fn observe(
        &self,
        place: &Place,
        name: &[u8],
        path: &Key,
        object: Option<Object>,
        began: crate::types::Timestamp,
    ) -> Result<Observed> {
        let tier = self.tier(place.tier)?;
        let standing = |object: &Object| {
            let subject = Subject::new(path, self.defaults.ids_of(object));
            match self.rules.role(object.kind, subject, place.tier) {
                _ if object.kind == FileKind::Directory => Standing::Home,
                Role::Home => Standing::Home,
                Role::Cold => Standing::Cold,
                Role::Overflow => Standing::Overflow,
                Role::Former | Role::None => Standing::Foreign,
            }
        };
        let entry = object.map(|object| Entry { name: name.to_vec(), object });
        self.catalog.observe(&Observation {
            place: place.id,
            began,
            found: entry.iter().map(|entry| Found { entry, standing: standing(&entry.object) }).collect(),
            scope: Scope::Name(name),
            defaults: self.defaults,
            holds_owner_and_mode: tier.capabilities().owner_and_mode,
            markers: tier.resident().is_none(),
        })
    }

    fn make_directory(&self, parent: Ino, name: &[u8], path: &Key) -> Result<Ino> {
        let ids = Ids { uid: self.defaults.uid, gid: self.defaults.gid };
        let home = self.tier(self.rules.rule(Subject::new(path, ids)).home)?;
        // Other directories come with their first file.
        let bytes = match home.resident() {
            Some(_) => NewBytes::CatalogOnly,
            None => NewBytes::Deferred { domain: self.rules.directory_domain(Subject::new(path, ids)) },
        };
        let inode = self.catalog.create(&NewInode {
            parent,
            name,
            kind: FileKind::Directory,
            mode: self.defaults.dir_mode,
            uid: self.defaults.uid,
            gid: self.defaults.gid,
            rdev: 0,
            target: None,
            bytes,
            overflow: None,
            now: self.now(),
        })?;
        Ok(inode.attr.ino)
    }

    /// What is under a key; nothing only if the tier says so.
    async fn head(&self, tier: TierId, key: &Key) -> Result<Option<Object>> {
        match self.tier(tier)?.head(key).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if matches!(error.kind(), Kind::NotFound | Kind::NotDirectory) => Ok(None),
            Err(error) => Err(error.context(format!("look for {key} at its home"))),
        }
    }

    fn tier(&self, id: TierId) -> Result<&Arc<dyn Tier>> {
        let tier = self.tiers.get(&id);
        tier.ok_or_else(|| Error::new(Kind::Invalid, format!("tier number {} is not in the config", id.0)))
    }
}

/// Whether staged bytes may go over what lies at home: it is what they were to replace, or what they became
/// in a commit that nobody lived to write down.
fn replaces(sidecar: &Sidecar, object: &Object) -> bool {
    let same =
        object.size == sidecar.size && object.attrs.mtime.is_some_and(|mtime| mtime.0 == sidecar.mtime_ns);
    sidecar.base.as_ref() == Some(&object.version) || same
}
