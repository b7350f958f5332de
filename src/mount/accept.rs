//! Accepting a wiped tier: the same on a running mount and where nobody has the catalog.

use super::parts::Assembled;
use super::tiers::Built;
use crate::catalog::{Catalog, Losses, LostBytes, LostFile};
use crate::control::protocol::{self, FileSystem, LostPage, LostRow, TierAccepted, WirePath};
use crate::data::StageStore;
use crate::error::{Error, Kind, Result};
use crate::policy::placement::{Rules, Subject};
use crate::repair::{self, accept::accept};
use crate::tier::DirectoryTier;
use crate::types::TierId;
use std::sync::Arc;

/// Lost files of a page.
const PAGE: usize = 1000;
/// Lost files that the log names one by one; the list in the catalog names all.
const LOGGED: u64 = 1000;

/// All that is needed.
pub struct Accepting {
    catalog: Arc<Catalog>,
    rules: Arc<Rules>,
    tier: TierId,
    directory: DirectoryTier,
    stage: Option<Arc<StageStore>>,
}

impl Accepting {
    /// Of a running mount.
    ///
    /// # Errors
    /// [`Kind::Invalid`] if there is no such directory tier.
    pub fn on(assembled: &Assembled, name: &str) -> Result<Self> {
        let (tier, directory) = find(&assembled.built, name)?;
        Ok(Self {
            catalog: assembled.catalog.clone(),
            rules: assembled.mover.rules(),
            tier,
            directory,
            stage: assembled.stages.get(&tier).cloned(),
        })
    }

    /// Without a mount.
    ///
    /// # Errors
    /// As [`Accepting::on`].
    pub fn offline(catalog: &Arc<Catalog>, rules: &Arc<Rules>, built: &[Built], name: &str) -> Result<Self> {
        let (tier, directory) = find(built, name)?;
        Ok(Self { catalog: catalog.clone(), rules: rules.clone(), tier, directory, stage: None })
    }

    /// Does it; `tell` hears what each portion cost.
    ///
    /// # Errors
    /// As [`accept`].
    pub fn run(
        &self,
        file_system: FileSystem,
        tell: &mut dyn FnMut(&Losses) -> Result<()>,
    ) -> Result<TierAccepted> {
        let row = self.catalog.tiers()?.into_iter().find(|row| row.id == self.tier);
        let row = row.ok_or_else(|| Error::new(Kind::NotFound, "the catalog does not know the tier"))?;
        let listed_after = self.catalog.last_lost()?;
        let file_system = match file_system {
            FileSystem::AsKnown => repair::FileSystem::AsKnown,
            FileSystem::Any => repair::FileSystem::Any,
        };
        let mut logged = 0;
        let accepted = accept(&self.catalog, &row, &self.directory, file_system, &mut |losses| {
            for lost in &losses.lost {
                logged += 1;
                if logged <= LOGGED {
                    log(lost);
                }
            }
            tell(losses)?;
            losses.spared.iter().try_for_each(|ino| self.go_on(*ino))
        })?;
        if let Some(stage) = &self.stage {
            stage.claim_again()?;
        }
        tracing::warn!(tier = %row.name, lost = accepted.lost, found = accepted.found, "a wiped tier was accepted");
        Ok(TierAccepted { lost: accepted.lost, found: accepted.found, listed_after })
    }

    /// A copy is gone, the content is not: home is brought in line again.
    fn go_on(&self, ino: crate::types::Ino) -> Result<()> {
        if let Some(path) = self.catalog.path(ino)? {
            let subject = Subject::new(&path, self.catalog.inode(ino)?.attr.ids());
            self.catalog.queue(ino, &self.rules.domain(subject))?;
        }
        Ok(())
    }
}

fn find(built: &[Built], name: &str) -> Result<(TierId, DirectoryTier)> {
    let one = built.iter().find(|one| one.row.name == name);
    let one = one.ok_or_else(|| {
        let names: Vec<&str> = built.iter().map(|one| &one.row.name[..]).collect();
        Error::new(Kind::Invalid, format!("there is no tier {name}; there are {}", names.join(", ")))
    })?;
    let directory = one.directory.clone().ok_or_else(|| {
        Error::new(Kind::Invalid, format!("tier {name} is no directory: it is never taken for wiped"))
    })?;
    Ok((one.row.id, directory))
}

fn log(lost: &LostFile) {
    match lost.bytes {
        LostBytes::All => tracing::error!(path = %lost.path, tier = %lost.tier, size = lost.size, "LOST"),
        LostBytes::Newest => {
            tracing::error!(path = %lost.path, tier = %lost.tier, size = lost.size, "LOST: its newest content; home has an older one");
        }
    }
}

/// A part of the list of lost files.
///
/// # Errors
/// If the catalog can't be read.
pub fn lost_page(catalog: &Catalog, after: u64) -> Result<LostPage> {
    let files = catalog.lost(after, PAGE)?.into_iter().map(|lost| LostRow {
        id: lost.id,
        path: WirePath(lost.path.as_bytes().to_vec()),
        tier: lost.tier,
        size: lost.size,
        mtime_ns: lost.mtime.0,
        lost_at_ns: lost.lost_at.0,
        bytes: match lost.bytes {
            LostBytes::All => protocol::LostBytes::All,
            LostBytes::Newest => protocol::LostBytes::Newest,
        },
    });
    Ok(LostPage { files: files.collect() })
}
