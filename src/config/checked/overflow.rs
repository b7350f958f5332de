//! `overflow` of a rule: where its new files go while home is too full.

use super::{mount, tier};
use crate::config::section::{Located, Reader};
use std::time::Duration;

/// `overflow` of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverflowConfig {
    /// To which tier new files go.
    pub tier: String,
    /// The directory tier that takes their bytes first; that itself if it is one.
    pub stage: String,
    /// How long changes on that tier by other tools may stay unseen; `None`: for ever.
    pub revalidate: Option<Duration>,
}

impl OverflowConfig {
    /// Whether files go there from a stage.
    pub(super) fn is_staged(&self) -> bool {
        self.stage != self.tier
    }
}

pub(super) fn read(
    reader: &mut Reader<'_>,
    tiers: &[tier::Draft],
    mount: &mount::Draft,
    home: Option<&tier::Draft>,
) -> Option<OverflowConfig> {
    let is_directory = |tier: &tier::Draft| tier.kind.is_some_and(tier::TierKind::is_directory);
    let given = reader.given("overflow", &|name| match tiers.iter().find(|tier| tier.name == name) {
        None => Err(tier::unknown(name, tiers)),
        Some(_) if home.is_some_and(|home| home.name == name) => {
            Err("is the home already; name another tier, or remove it".into())
        }
        Some(_) if home.is_some_and(|home| home.kind.is_some() && !is_directory(home)) => {
            Err("is not used: a blob home has no high water; remove it, and write dirty_max to limit what waits for Blob".into())
        }
        Some(tier) => Ok(tier),
    })?;
    let Located { value: to, line } = given;
    if is_directory(to) {
        return Some(OverflowConfig {
            tier: to.name.clone(),
            stage: to.name.clone(),
            revalidate: to.revalidate.value,
        });
    }
    let stage = mount.stage.as_ref().map(|stage| stage.value.clone());
    match stage.filter(|stage| home.is_none_or(|home| home.name != *stage)) {
        Some(stage) => Some(OverflowConfig { tier: to.name.clone(), stage, revalidate: to.revalidate.value }),
        None => {
            let wrong = format!(
                "overflow = \"{}\" needs a stage that is not the home, for a blob tier takes no bytes until a file is closed; write stage = \"another directory tier\" in [mount], or name a directory tier",
                to.name
            );
            reader.problem(line, wrong);
            None
        }
    }
}
