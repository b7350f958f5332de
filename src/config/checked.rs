//! Sections → useful types, and all that must hold between them.

mod cold;
mod mount;
mod overflow;
mod overlap;
mod rule;
mod tier;
mod url;

pub use cold::ColdConfig;
pub use mount::{Catalog, MountConfig};
pub use overflow::OverflowConfig;
pub use overlap::{Overlap, overlap};
pub use rule::RuleConfig;
#[cfg(test)]
pub(super) use rule::{CONFLICTS, FSYNCS, ORDERS, PROMOTES, WRITES};
pub use tier::{BlobConfig, DirectoryConfig, Storage, TierConfig, TierKind};

use super::expand::Environment;
use super::raw::Document;
use super::report::{Findings, WHOLE_FILE};
use super::show::Shown;
use std::path::{Component, Path, PathBuf};

/// All that a config says.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) mount: MountConfig,
    pub(super) tiers: Vec<TierConfig>,
    pub(super) rules: Vec<RuleConfig>,
    pub(super) shown: Vec<Shown>,
}

/// Checks everything; `None` when something without which there is no config is missing or wrong (then it is reported).
pub(super) fn check(
    file: &Path,
    document: Document,
    environment: Environment<'_>,
    findings: &mut Findings,
) -> Option<Checked> {
    if document.tiers.is_empty() {
        findings.missing(
            WHOLE_FILE,
            "there is no tier; write [tier.NAME] with kind and path or url, one for each",
        );
    }
    let tier_drafts: Vec<_> =
        document.tiers.into_iter().map(|section| tier::read(section, environment, findings)).collect();
    let mount = mount::read(file, document.mount, &tier_drafts, findings);
    overlap::check(&mount.value, &tier_drafts, findings);
    let rules = rule::read_all(document.rules, &tier_drafts, &mount, findings);
    tier::warn_of_unused(&tier_drafts, &rules.drafts, &mount, findings);

    let mut shown = vec![mount.shown];
    shown.extend(tier_drafts.iter().map(|draft| draft.shown.clone()));
    shown.extend(rules.shown);
    Some(Checked {
        mount: mount.value,
        tiers: tier_drafts.into_iter().map(tier::Draft::finish).collect::<Option<_>>()?,
        rules: rules.drafts.into_iter().map(rule::Draft::finish).collect::<Option<_>>()?,
        shown,
    })
}

/// An absolute path, without what makes two spellings of one path.
fn absolute_path(text: &str) -> Result<PathBuf, String> {
    let path = Path::new(text);
    if text.starts_with('~') {
        return Err("starts with `~`, which only shells know; write \"${HOME}/…\"".into());
    }
    if !path.is_absolute() {
        return Err(format!(
            "is relative; write the whole path, such as \"/{}\"",
            text.trim_start_matches("./")
        ));
    }
    if text.contains('\0') {
        return Err("has a NUL character; write a real path".into());
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return Err("has `..` in it; write the path without".into());
    }
    Ok(path.components().collect())
}

/// One of some words.
fn word<T: Copy>(text: &str, options: &[(&str, T)]) -> Result<T, String> {
    let found = options.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words = || options.iter().map(|(word, _)| *word);
        match super::suggest::nearest(text, words()) {
            Some(near) => format!("is unknown; did you mean \"{near}\"?"),
            None => format!("is unknown; write {}", super::suggest::either(words())),
        }
    })
}

/// Any text but none.
fn some_text(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        Err("is empty; write a value, or remove the key".into())
    } else {
        Ok(text.to_owned())
    }
}
