//! All tiers of a mount by id, in the order of the config.

use super::{Resident, Tier};
use crate::error::{Error, Kind, Result};
use crate::types::TierId;
use std::sync::Arc;

/// The tiers of a mount.
#[derive(Debug, Default)]
pub struct Tiers(Vec<(TierId, Arc<dyn Tier>)>);

impl Tiers {
    /// From ids and tiers.
    #[must_use]
    pub fn new(tiers: Vec<(TierId, Arc<dyn Tier>)>) -> Self {
        Self(tiers)
    }

    /// The tier with this id.
    ///
    /// # Errors
    /// [`Kind::Absent`] if the config has it no more.
    pub fn get(&self, id: TierId) -> Result<&Arc<dyn Tier>> {
        self.find(id)
            .ok_or_else(|| Error::new(Kind::Absent, "a tier that the catalog knows is not in the config"))
    }

    /// The tier with this id, if the config has it.
    #[must_use]
    pub fn find(&self, id: TierId) -> Option<&Arc<dyn Tier>> {
        self.0.iter().find(|(known, _)| *known == id).map(|(_, tier)| tier)
    }

    /// The tier's files, if they are files of this machine.
    #[must_use]
    pub fn resident(&self, id: TierId) -> Option<&dyn Resident> {
        self.find(id).and_then(|tier| tier.resident())
    }

    /// A program uses the tier: background work there makes room.
    pub fn note_use(&self, id: TierId) {
        if let Some(pace) = self.find(id).and_then(|tier| tier.pace()) {
            pace.note_use();
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (TierId, &Arc<dyn Tier>)> {
        self.0.iter().map(|(id, tier)| (*id, tier))
    }
}
