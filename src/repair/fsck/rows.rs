//! Rows of keys against what lies under them.

use super::{Action, Finding, Report, Scene, What};
use crate::catalog::{Inode, PlaceId, Replica, WriteState};
use crate::error::{Kind, Result};
use crate::tier::{Object, Tier};
use crate::types::{FileKind, Ino, TierId};
use std::collections::HashMap;
use std::sync::Arc;

/// Rows read at a time, and names of a page of a tier.
const PAGE: usize = 5000;
/// Deeper trees are a circle, which the tables' own check finds.
const DEEPEST: usize = 4096;

/// One directory of a tier as it is now.
type Listing = HashMap<Vec<u8>, Object>;

/// What was seen of a tier so far.
#[derive(Default)]
struct Seen {
    place: Option<PlaceId>,
    listing: Listing,
    /// Files with several names: who answers for them.
    linked: HashMap<u64, Ino>,
}

impl Scene<'_> {
    /// Compares every key the catalog knows on a tier with what is there.
    pub(super) async fn rows_on(
        &self,
        id: TierId,
        tier: &Arc<dyn Tier>,
        report: &mut Report<'_>,
    ) -> Result<()> {
        let mut seen = Seen::default();
        let mut after = (PlaceId(0), Vec::new());
        loop {
            let replicas = self.catalog.replicas_on(id, &after, PAGE)?;
            let Some(last) = replicas.last() else { return Ok(()) };
            after = (last.place, last.name.clone());
            for replica in replicas.iter().filter(|replica| !replica.staged) {
                if seen.place != Some(replica.place) {
                    let dir = self.catalog.place(replica.place)?.key;
                    seen.listing = list(tier.as_ref(), &dir).await?;
                    seen.place = Some(replica.place);
                }
                report.checked.keys += 1;
                let object = seen.listing.get(&replica.name);
                match replica.ino {
                    None => self.doomed(replica, report)?,
                    Some(ino) => {
                        self.answered(tier.as_ref(), replica, ino, object, &mut seen.linked, report)?
                    }
                }
            }
        }
    }

    fn doomed(&self, replica: &Replica, report: &mut Report<'_>) -> Result<()> {
        if !replica.is_doomed() || replica.write_id.is_some() {
            return Ok(());
        }
        if self.catalog.delete_of(replica.place, &replica.name)?.is_none() {
            let finding = self.about(What::Delete, replica, "it is to be deleted, and no step does it")?;
            report.find(&finding, Some(Action::Delete(replica.place, replica.name.clone())));
        }
        Ok(())
    }

    fn answered(
        &self,
        tier: &dyn Tier,
        replica: &Replica,
        ino: Ino,
        object: Option<&Object>,
        linked: &mut HashMap<u64, Ino>,
        report: &mut Report<'_>,
    ) -> Result<()> {
        let inode = match self.catalog.inode(ino) {
            // The tables' own check says so.
            Err(error) if error.kind() == Kind::NotFound => return Ok(()),
            inode => inode?,
        };
        // What has no version is yet to come; an unknown commit has been told.
        if replica.version.is_none() || replica.write_id.is_some() || inode.attr.nlink == 0 {
            return Ok(());
        }
        let newest = replica.generation == inode.generation;
        let Some(object) = object else {
            // What is to be replaced may be gone: the commit finds that.
            return if newest { self.missing(replica, &inode, report) } else { Ok(()) };
        };
        if let Some(other) = owner_of_links(object, ino, linked) {
            let text = format!("the same file as a name of inode {other}, which is another here");
            let finding = self.about(What::OwnedTwice, replica, text)?;
            let decide = Some("copy it to a new name and delete one of the two");
            report.find(&Finding { decide, ..finding }, None);
            return Ok(());
        }
        if !newest || inode.state != WriteState::Clean {
            return Ok(());
        }
        if let Some((what, detail)) = difference(tier, replica, &inode, object) {
            let finding = self.about(what, replica, detail)?;
            report.find(&finding, Some(Action::Observe(replica.place, replica.name.clone())));
            return Ok(());
        }
        self.astray(replica, &inode, report)
    }

    fn missing(&self, replica: &Replica, inode: &Inode, report: &mut Report<'_>) -> Result<()> {
        if inode.attr.kind == FileKind::Directory {
            let finding = self.about(What::Missing, replica, "the marker of a directory is not there")?;
            report.find(&finding, Some(Action::Observe(replica.place, replica.name.clone())));
            return Ok(());
        }
        let elsewhere = self.catalog.replicas(inode.attr.ino)?.into_iter().any(|other| {
            (other.place, &other.name) != (replica.place, &replica.name)
                && other.generation == inode.generation
                && (other.version.is_some() || other.staged)
        });
        let detail = if elsewhere {
            "it is not there; another tier or name has it"
        } else {
            "it is not there, and nowhere else: deleted by others, or lost"
        };
        let finding = self.about(What::Missing, replica, detail)?;
        report.find(&finding, Some(Action::GiveUp(replica.clone())));
        Ok(())
    }

    /// A key that is not that of the file's name, with nobody on his way to move it.
    fn astray(&self, replica: &Replica, inode: &Inode, report: &mut Report<'_>) -> Result<()> {
        let ino = inode.attr.ino;
        if inode.attr.kind == FileKind::Directory || self.catalog.step_of(ino)?.is_some() {
            return Ok(());
        }
        let place = self.catalog.place(replica.place)?;
        for (parent, name) in self.catalog.names(ino)? {
            if name == replica.name && place.ino == Some(parent) {
                return self.is_moving(parent).map(drop);
            }
            if self.is_moving(parent)? {
                return Ok(());
            }
        }
        let finding = self.about(
            What::Unfinished,
            replica,
            "it lies under the key of an old name, and no step moves it",
        )?;
        report.find(&finding, Some(Action::Reconcile(ino)));
        Ok(())
    }

    fn is_moving(&self, dir: Ino) -> Result<bool> {
        let mut at = dir;
        for _ in 0..DEEPEST {
            if self.catalog.step_of(at)?.is_some() {
                return Ok(true);
            }
            match self.catalog.names(at)?.first() {
                Some((parent, _)) if at != Ino::ROOT => at = *parent,
                _ => return Ok(false),
            }
        }
        Ok(false)
    }
}

async fn list(tier: &dyn Tier, dir: &crate::types::Key) -> Result<Listing> {
    let mut listing = Listing::new();
    let mut from = None;
    loop {
        let page = match tier.list(dir, b"", from, PAGE).await {
            Err(error) if matches!(error.kind(), Kind::NotFound | Kind::NotDirectory) => return Ok(listing),
            page => page?,
        };
        listing.extend(page.entries.into_iter().map(|entry| (entry.name, entry.object)));
        from = page.next;
        if from.is_none() {
            return Ok(listing);
        }
    }
}

/// Another inode that answers for the file of which `object` is one of several names.
fn owner_of_links(object: &Object, ino: Ino, linked: &mut HashMap<u64, Ino>) -> Option<Ino> {
    let native = object.native.filter(|native| native.nlink > 1 && object.kind != FileKind::Directory)?;
    let owner = *linked.entry(native.ino).or_insert(ino);
    (owner != ino).then_some(owner)
}

/// How what is there differs from what the catalog says.
fn difference(tier: &dyn Tier, replica: &Replica, inode: &Inode, object: &Object) -> Option<(What, String)> {
    let kind = inode.attr.kind;
    if kind == FileKind::Directory {
        return None;
    }
    if kind != object.kind {
        return Some((What::Version, format!("it is a {:?} there and a {kind:?} here", object.kind)));
    }
    if replica.version.as_ref() == Some(&object.version) {
        return None;
    }
    let size = object.target.as_ref().map_or(object.size, |target| target.len() as u64);
    if size != inode.attr.size && kind == FileKind::Regular {
        return Some((What::Size, format!("{size} bytes there, {} here", inode.attr.size)));
    }
    // A rename and a chmod give a native file another version too: what counts is what was written.
    let same_time = object.modified == inode.attr.mtime;
    (tier.resident().is_none() || !same_time)
        .then(|| (What::Version, "it was changed behind the catalog's back".to_owned()))
}
