//! What catalog and tiers disagree on, and what can be done about it.
//!
//! A look changes nothing. Each finding says whether it can be mended without losing a byte; what can is collected as an [`Action`],
//! and done once everything was looked at.

mod mend;
mod rows;
mod stage;

pub use mend::mend;

use crate::catalog::{Catalog, PlaceId, Replica};
use crate::data::{HotStore, StageStore, Staged};
use crate::error::{Kind, Result};
use crate::policy::placement::Rules;
use crate::tier::Tier;
use crate::types::{Ino, Key, Seq, TierId};
use std::collections::HashMap;
use std::sync::Arc;

/// Most actions of one run; more are for the next.
const ACTIONS_MAX: usize = 100_000;
/// Steps read at a time.
const PAGE: usize = 512;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The tables contradict each other.
    Catalog,
    /// A tier can't be looked at.
    Unreachable,
    /// A staged file that no row knows.
    Orphan,
    /// What a fill or a copy that died has left.
    Litter,
    /// A key that should be deleted, and no step does it.
    Delete,
    /// A file that is not where its row says.
    Missing,
    /// A file of another size.
    Size,
    /// A file of another version.
    Version,
    /// A key that two inodes answer for.
    OwnedTwice,
    /// Something was begun and not ended.
    Unfinished,
    /// Dirty bytes that are gone.
    Lost,
    /// A tier refuses for good what has to be done there.
    Blocked,
}

impl What {
    /// In one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Catalog => "catalog",
            Self::Unreachable => "unreachable",
            Self::Orphan => "orphan",
            Self::Litter => "litter",
            Self::Delete => "delete",
            Self::Missing => "missing",
            Self::Size => "size",
            Self::Version => "version",
            Self::OwnedTwice => "owned-twice",
            Self::Unfinished => "unfinished",
            Self::Lost => "lost",
            Self::Blocked => "blocked",
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What.
    pub what: What,
    /// On which tier.
    pub tier: Option<String>,
    /// Path in the mount, if it has one.
    pub path: Option<Key>,
    /// Key on the tier.
    pub key: Option<Key>,
    /// In a few words.
    pub detail: String,
    /// What a person must decide; none if it can be mended.
    pub decide: Option<&'static str>,
}

/// How to mend something without losing a byte.
#[derive(Debug)]
pub enum Action {
    /// Do what the next mount would do first.
    Recover,
    /// Take over a staged file.
    TakeOver(TierId, Box<Staged>),
    /// Remove what dead fills left.
    Sweep(TierId),
    /// Queue the delete of a doomed key.
    Delete(PlaceId, Vec<u8>),
    /// Bring home in line with an inode.
    Reconcile(Ino),
    /// Commit a closed file.
    Commit(Ino),
    /// Take in what lies under a key now.
    Observe(PlaceId, Vec<u8>),
    /// Give up a copy that is gone.
    GiveUp(Replica),
}

/// What is looked at.
pub struct Scene<'a> {
    /// The catalog.
    pub catalog: &'a Catalog,
    /// Where files belong.
    pub rules: &'a Rules,
    /// All tiers.
    pub tiers: &'a HashMap<TierId, Arc<dyn Tier>>,
    /// The stage of the catalog on each directory tier.
    pub stages: &'a HashMap<TierId, Arc<StageStore>>,
    /// Hot copies.
    pub hots: &'a HashMap<TierId, Arc<HotStore>>,
}

impl std::fmt::Debug for Scene<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scene").finish_non_exhaustive()
    }
}

/// Who hears of findings.
pub(super) struct Report<'a> {
    tell: &'a mut (dyn FnMut(&Finding) + Send),
    checked: Checked,
    actions: Vec<Action>,
}

/// What a look came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Keys on tiers that were compared.
    pub keys: u64,
    /// Findings.
    pub found: u64,
    /// Of these, a person must decide.
    pub decide: u64,
    /// Steps that the next mount goes on with; that is no fault.
    pub pending: u64,
}

impl Report<'_> {
    fn find(&mut self, finding: &Finding, action: Option<Action>) {
        self.checked.found += 1;
        self.checked.decide += u64::from(finding.decide.is_some());
        (self.tell)(finding);
        if let Some(action) = action.filter(|_| self.actions.len() < ACTIONS_MAX) {
            self.actions.push(action);
        }
    }
}

/// Compares everything; answers what was found, and how to mend what can be mended.
///
/// # Errors
/// Only if the catalog can't be read: a tier that can't be looked at is a finding.
pub async fn check(
    scene: &Scene<'_>,
    tell: &mut (dyn FnMut(&Finding) + Send),
) -> Result<(Checked, Vec<Action>)> {
    let mut report = Report { tell, checked: Checked::default(), actions: Vec::new() };
    scene.tables(&mut report)?;
    scene.unfinished(&mut report)?;
    for (id, tier) in scene.tiers {
        let looked = match tier.probe().await {
            Ok(()) => scene.rows_on(*id, tier, &mut report).await,
            Err(error) => Err(error),
        };
        let looked = match looked {
            Ok(()) => scene.stage_on(*id, &mut report).and_then(|()| scene.litter_on(*id, &mut report)),
            failed => failed,
        };
        match looked {
            Err(error) if error.kind() == Kind::Corrupt => return Err(error),
            Err(error) => scene.unreachable(tier.name(), &error, &mut report),
            Ok(()) => {}
        }
    }
    Ok((report.checked, report.actions))
}

impl Scene<'_> {
    fn finding(&self, what: What, tier: TierId, detail: impl Into<String>) -> Finding {
        let tier = self.tiers.get(&tier).map(|tier| tier.name().to_owned());
        Finding { what, tier, path: None, key: None, detail: detail.into(), decide: None }
    }

    /// The same about a key.
    fn about(&self, what: What, replica: &Replica, detail: impl Into<String>) -> Result<Finding> {
        let path = replica.ino.map_or(Ok(None), |ino| self.catalog.path(ino))?;
        Ok(Finding { path, key: Some(replica.key.clone()), ..self.finding(what, replica.tier, detail) })
    }

    fn unreachable(&self, tier: &str, error: &crate::error::Error, report: &mut Report<'_>) {
        let finding = Finding {
            what: What::Unreachable,
            tier: Some(tier.to_owned()),
            path: None,
            key: None,
            detail: error.to_string(),
            decide: Some("nothing was compared there: mount or reach it, and check again"),
        };
        report.find(&finding, None);
    }

    fn tables(&self, report: &mut Report<'_>) -> Result<()> {
        let plain =
            |what, detail, decide| Finding { what, tier: None, path: None, key: None, detail, decide };
        for wrong in self.catalog.contradictions()? {
            let decide = Some("`tierfs rebuild --force` makes a new catalog from the tiers");
            report.find(&plain(What::Catalog, wrong, decide), None);
        }
        for (replica, place) in self.catalog.owned_twice()? {
            let finding = Finding {
                decide: Some("rename or delete one of the two"),
                ..self.about(
                    What::OwnedTwice,
                    &replica,
                    format!("{} is a file's and a directory's", place.key),
                )?
            };
            report.find(&finding, None);
        }
        let mut after = Ino(0);
        loop {
            let page = self.catalog.without_bytes(after, PAGE)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.attr.ino;
            for inode in &page {
                let mut finding = plain(
                    What::Missing,
                    format!("no tier has the {} bytes of inode {}", inode.attr.size, inode.attr.ino),
                    Some("delete it, or write it again"),
                );
                finding.path = self.catalog.path(inode.attr.ino)?;
                report.find(&finding, None);
            }
        }
    }

    /// What an earlier daemon began, and what waits for a person.
    fn unfinished(&self, report: &mut Report<'_>) -> Result<()> {
        let plain = |detail: String| Finding {
            what: What::Unfinished,
            tier: None,
            path: None,
            key: None,
            detail,
            decide: None,
        };
        for (_, plan) in self.catalog.intents()? {
            let (from, to) = (String::from_utf8_lossy(&plan.name), String::from_utf8_lossy(&plan.new_name));
            report.find(
                &plain(format!("the rename of {from} to {to} was not finished")),
                Some(Action::Recover),
            );
        }
        for ino in self.catalog.orphans()? {
            report.find(&plain(format!("inode {ino} was deleted while it was open")), Some(Action::Recover));
        }
        for replica in self.catalog.unknown_commits()? {
            let finding = self.about(What::Unfinished, &replica, "nobody learned how its commit ended")?;
            report.find(&finding, Some(Action::Recover));
        }
        let mut after = Seq(0);
        loop {
            let page = self.catalog.steps(after, PAGE)?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            for step in &page {
                report.checked.pending += 1;
                if !step.blocked {
                    continue;
                }
                let mut finding = plain(step.error.clone().unwrap_or_default());
                finding.what = What::Blocked;
                finding.decide = Some("the tier refuses this for good: see what it says");
                if let Some(ino) = step.what.ino() {
                    finding.path = self.catalog.path(ino)?;
                }
                report.find(&finding, None);
            }
        }
        for inode in self.catalog.dirty()? {
            let ino = inode.attr.ino;
            let stepless = inode.state == crate::catalog::WriteState::Closed && inode.attr.nlink > 0;
            if stepless && self.catalog.step_of(ino)?.is_none() {
                let mut finding = plain("closed, and no step commits it".to_owned());
                finding.path = self.catalog.path(ino)?;
                report.find(&finding, Some(Action::Commit(ino)));
            }
        }
        Ok(())
    }

    fn litter_on(&self, tier: TierId, report: &mut Report<'_>) -> Result<()> {
        let Some(hot) = self.hots.get(&tier) else { return Ok(()) };
        hot.dead_fills(&mut |key| {
            let finding = self.finding(What::Litter, tier, "a fill of a hot copy died, or its machine did");
            report.find(&Finding { key: Some(key.clone()), ..finding }, Some(Action::Sweep(tier)));
        })
    }
}
