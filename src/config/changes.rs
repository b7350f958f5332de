//! What is another in a newer config, key by key.

use super::Config;
use super::keys::{self, Reload, SectionKind};
use super::show::Shown;

/// A key with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key with its section, such as `[mount] memory`; rules are one.
    pub what: String,
    /// Whether the new value can be used without a new mount.
    pub reload: Reload,
}

impl Config {
    /// What is another in `newer`, in its order.
    #[must_use]
    pub fn changes(&self, newer: &Self) -> Vec<Change> {
        let mut changes = Vec::new();
        let named = |sections: &'_ [Shown]| -> Vec<String> {
            let apart = sections.iter().filter(|section| kind(section) != SectionKind::Rule);
            apart.map(|section| section.heading.clone()).collect()
        };
        let mut headings = named(&newer.shown);
        headings.extend(
            named(&self.shown).into_iter().filter(|heading| !headings.contains(heading)).collect::<Vec<_>>(),
        );
        for heading in headings {
            let of =
                |config: &'_ Self| config.shown.iter().find(|section| section.heading == heading).cloned();
            match (of(self), of(newer)) {
                (Some(old), Some(new)) => changes.extend(within(&old, &new)),
                // A tier that came or went.
                _ => changes.push(Change { what: heading, reload: Reload::AtMount }),
            }
        }
        if self.rules != newer.rules {
            changes
                .push(Change { what: SectionKind::Rule.heading().to_owned(), reload: Reload::WhileMounted });
        }
        changes
    }
}

fn kind(section: &Shown) -> SectionKind {
    match section.heading.as_str() {
        heading if heading == SectionKind::Mount.heading() => SectionKind::Mount,
        heading if heading == SectionKind::Rule.heading() => SectionKind::Rule,
        _ => SectionKind::Tier,
    }
}

fn within(old: &Shown, new: &Shown) -> Vec<Change> {
    let all = keys::KEYS.iter().filter(|key| key.section == kind(new));
    let changed = all.filter(|key| old.value(key.name) != new.value(key.name));
    changed
        .map(|key| Change { what: format!("{} {}", new.heading, key.name), reload: key.reload() })
        .collect()
}
