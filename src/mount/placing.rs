//! The rules of a config as they are used: with the numbers that the catalog remembers, and with the homes of before.

use super::tiers::{self, Built};
use crate::catalog::Catalog;
use crate::config::Config;
use crate::error::{Error, Kind, Result};
use crate::mover::FORMER;
use crate::policy::placement::{Ledger, Rules};
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// The note with what is remembered of the rules in force.
const RULES: &str = "rules";

/// Rules ready to be used, and what must be noted before.
pub struct Placing {
    pub rules: Arc<Rules>,
    pub notes: Vec<(&'static str, Option<String>)>,
    /// How many configs of before have files at homes of theirs.
    pub former: usize,
    /// Whether files have another home than by the rules before.
    pub moves: bool,
}

impl Placing {
    /// The rules of `config`.
    ///
    /// # Errors
    /// If the catalog can't be read.
    pub fn of(config: &Config, built: &[Built], catalog: &Catalog) -> Result<Self> {
        for tier in &config.tiers {
            tiers::id_of(built, &tier.name)?;
        }
        let first = built.first().map(|one| one.row.id);
        let first = first.ok_or_else(|| Error::new(Kind::Invalid, "the config has no tier"))?;
        let known: Ledger = remembered(catalog, RULES)?;
        let mut former: Vec<Ledger> = remembered(catalog, FORMER)?;
        let rules = config.rules(|name| tiers::id_of(built, name).unwrap_or(first), &known);
        let now = known.of(&rules);
        let moves = known.places_otherwise(&now);
        if moves && !former.contains(&known) {
            former.push(known.clone());
        }
        let mut notes = Vec::new();
        if now != known {
            notes.push((RULES, Some(text(&now)?)));
        }
        if moves {
            notes.push((FORMER, Some(text(&former)?)));
        }
        Ok(Self { rules: Arc::new(rules.after(&former)), notes, former: former.len(), moves })
    }

    /// The same for a mount that moves nothing.
    #[must_use]
    pub fn at_rest(self) -> Arc<Rules> {
        Arc::new(self.rules.at_rest())
    }
}

/// What can't be read any more is as if it had not been noted.
fn remembered<T: DeserializeOwned + Default>(catalog: &Catalog, name: &str) -> Result<T> {
    let Some(text) = catalog.note(name)? else { return Ok(T::default()) };
    Ok(serde_json::from_str(&text).unwrap_or_else(|error| {
        tracing::warn!(name, %error, "a note in the catalog can't be read");
        T::default()
    }))
}

fn text(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Error::new(Kind::Corrupt, "a note can't be written").with_source(error))
}
