//! What a reconcile step is about: the inode, its names with their rules, its replicas, and the keys
//! that are native to it.

use crate::catalog::{Inode, Place, Replica};
use crate::error::{Result, found};
use crate::mover::context::Context;
use crate::mover::jobs::{Flow, prefix};
use crate::policy::placement::{self, Rules};
use crate::tier::Tier;
use crate::types::{Ino, Key, TierId};
use std::sync::Arc;

/// An inode as one job sees it.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) inode: Inode,
    pub(crate) names: Vec<Name>,
    pub(crate) replicas: Vec<Replica>,
}

/// One name of an inode, and what its rule says.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) parent: Ino,
    pub(crate) name: Vec<u8>,
    pub(crate) path: Key,
    pub(crate) home: TierId,
    /// That is where it was sent, not the home that its rule names.
    pub(crate) is_away: bool,
    /// Where hot copies may be, for a file of its size.
    pub(crate) hot: Vec<TierId>,
}

/// A key where the home of one name must have the file.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) tier: Arc<dyn Tier>,
    pub(crate) place: Place,
    pub(crate) name: Vec<u8>,
    pub(crate) key: Key,
    pub(crate) row: Option<Replica>,
}

impl Subject {
    /// Looks at `ino`; `None` if it is gone or has no name any more.
    pub(crate) fn look(context: &Context, ino: Ino) -> Result<Option<Self>> {
        let Some(inode) = found(context.catalog.inode(ino))? else { return Ok(None) };
        let rules = context.rules();
        let mut names = Vec::new();
        for (parent, name) in context.catalog.names(ino)? {
            names.extend(Name::new(context, &rules, &inode, parent, name)?);
        }
        if names.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self { inode, names, replicas: context.catalog.replicas(ino)? }))
    }

    pub(crate) fn ino(&self) -> Ino {
        self.inode.attr.ino
    }

    /// Copies of the newest content, best source for a write to `tier` first: one on the tier itself (no bytes
    /// pass through here), one with all its bytes, a staged one, one that is files of this machine, any.
    pub(crate) fn sources(&self, context: &Context, tier: TierId) -> Vec<Replica> {
        let mut sources: Vec<Replica> = self
            .replicas
            .iter()
            .filter(|replica| replica.generation == self.inode.generation)
            .filter(|replica| replica.staged || replica.version.is_some())
            .cloned()
            .collect();
        sources.sort_by_key(|replica| {
            let resident = context.tiers.get(&replica.tier).is_some_and(|tier| tier.resident().is_some());
            (replica.tier != tier, replica.is_partial(), !replica.staged, !resident)
        });
        sources
    }

    /// Whether `replica` lies where one of the names wants it.
    pub(crate) fn is_native(&self, context: &Context, replica: &Replica) -> Result<bool> {
        for name in self.names.iter().filter(|name| name.home == replica.tier && name.name == replica.name) {
            let place = context.catalog.native_place(name.parent, name.home)?;
            if place.is_some_and(|place| place.id == replica.place) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Name {
    fn new(
        context: &Context,
        rules: &Rules,
        inode: &Inode,
        parent: Ino,
        name: Vec<u8>,
    ) -> Result<Option<Self>> {
        // A directory that was removed with the name still in it can't be: then the name is about to go.
        let Some(dir) = context.catalog.path(parent)? else { return Ok(None) };
        let path = dir.join(&name)?;
        let subject = placement::Subject::new(&path, inode.whereabouts());
        let (rule, is_away) = (rules.rule(subject), rules.is_away(subject));
        let hot = if rule.sizes.contains(&inode.attr.size) { rule.hot.clone() } else { Vec::new() };
        Ok(Some(Self { parent, name, home: rule.home, is_away, hot, path }))
    }

    /// The key at home that is native to this name; makes the rows of its directory.
    pub(crate) async fn target(&self, context: &Arc<Context>, domain: &str) -> Flow<Target> {
        let tier = context.tier(self.home)?;
        let place = prefix::native(context, self.parent, self.home, domain).await?;
        let row = context.catalog.replica_at(place.id, &self.name)?;
        let key = place.key.join(&self.name)?;
        Ok(Target { tier, place, name: self.name.clone(), key, row })
    }
}

impl Target {
    /// Reads the row again.
    pub(crate) fn refresh(&mut self, context: &Context) -> Result<()> {
        self.row = context.catalog.replica_at(self.place.id, &self.name)?;
        Ok(())
    }

    /// Whether the newest content of `inode` lies here.
    pub(crate) fn holds_content(&self, inode: &Inode) -> bool {
        self.row.as_ref().is_some_and(|row| {
            row.ino == Some(inode.attr.ino)
                && row.generation == inode.generation
                && row.version.is_some()
                && row.write_id.is_none()
        })
    }

    /// Whether the newest attributes lie here too.
    pub(crate) fn holds_attributes(&self, inode: &Inode) -> bool {
        self.row.as_ref().is_some_and(|row| row.attr_generation >= inode.attr_generation)
    }
}
