//! Doing what a check found can be done.

use super::{Action, Scene};
use crate::catalog::Losses;
use crate::error::{Kind, Result};
use crate::policy::placement::Subject;
use crate::repair::forget_nameless;
use crate::repair::takeover::{Estate, Heir, Taken, take_over};
use crate::types::{Ino, TierId};
use std::collections::{HashMap, HashSet};

/// Does `actions`, but for [`Action::Recover`], which comes before and is the caller's; answers what turned out to be gone for good.
///
/// # Errors
/// As catalog and tiers say; what was done is done, and the next check finds the rest.
pub async fn mend(
    scene: &Scene<'_>,
    heir: &Heir<'_>,
    actions: Vec<Action>,
    tell: &mut (dyn FnMut(&Taken) + Send),
) -> Result<Losses> {
    let mut orphans: HashMap<TierId, Vec<_>> = HashMap::new();
    let mut swept = HashSet::new();
    let mut losses = Losses::default();
    for action in actions {
        match action {
            Action::Recover => {}
            Action::TakeOver(tier, staged) => orphans.entry(tier).or_default().push(*staged),
            Action::Sweep(tier) if swept.insert(tier) => sweep(scene, tier)?,
            Action::Sweep(_) => {}
            Action::Delete(place, name) => drop(scene.catalog.delete_again(place, &name, "")?),
            Action::Reconcile(ino) => scene.reconcile(ino)?,
            Action::Commit(ino) => {
                if let Some(path) = scene.catalog.path(ino)? {
                    scene.catalog.commit_again(
                        ino,
                        &scene.rules.domain(Subject::new(&path, scene.catalog.inode(ino)?.attr.ids())),
                    )?;
                }
            }
            Action::Observe(place, name) => heir.look_again(place, &name).await?,
            Action::GiveUp(replica) => {
                let lost = scene.catalog.lose(&[replica])?;
                lost.spared.iter().try_for_each(|ino| scene.reconcile(*ino))?;
                forget_nameless(scene.catalog, &lost.observed)?;
                losses.lost.extend(lost.lost);
            }
        }
    }
    let mut estates = Vec::new();
    for (tier, staged) in orphans {
        if let Some(stage) = scene.stages.get(&tier) {
            estates.push(Estate { tier, from: stage, to: stage, staged });
        }
    }
    if !estates.is_empty() {
        take_over(heir, &estates, tell).await?;
    }
    Ok(losses)
}

fn sweep(scene: &Scene<'_>, tier: TierId) -> Result<()> {
    match scene.hots.get(&tier) {
        // Looking through the copies removes what is dead.
        Some(hot) => hot.remove_dead_fills(),
        None => Ok(()),
    }
}

impl Scene<'_> {
    fn reconcile(&self, ino: Ino) -> Result<()> {
        match self.catalog.path(ino) {
            Ok(Some(path)) => {
                let subject = Subject::new(&path, self.catalog.inode(ino)?.attr.ids());
                self.catalog.queue(ino, &self.rules.domain(subject)).map(drop)
            }
            Err(error) if error.kind() != Kind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
