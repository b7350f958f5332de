//! What other sections may say of a tier.

use super::{Draft, TierKind};
use crate::config::checked::{mount, rule};
use crate::config::report::Findings;
use crate::config::suggest;

/// What is wrong with `name` as a directory tier, after the key and value; `None` if nothing is.
pub(in crate::config::checked) fn must_be_directory(
    name: &str,
    tiers: &[Draft],
    role: &str,
) -> Option<String> {
    let Some(tier) = tiers.iter().find(|tier| tier.name == name) else {
        return Some(unknown(name, tiers));
    };
    let kind = tier.kind.filter(|kind| !kind.is_directory())?;
    let directories = tiers.iter().filter(|tier| tier.kind.is_some_and(TierKind::is_directory));
    let directories: Vec<_> = directories.map(|tier| tier.name.as_str()).collect();
    Some(match directories.as_slice() {
        [] => format!(
            "is a {} tier, but {role} must be a directory; add a tier of kind lustre, azure-files or local",
            kind.word()
        ),
        some => format!(
            "is a {} tier, but {role} must be a directory; write {}",
            kind.word(),
            suggest::either(some.iter().copied())
        ),
    })
}

/// That there is no such tier.
pub(in crate::config::checked) fn unknown(name: &str, tiers: &[Draft]) -> String {
    let names = || tiers.iter().map(|tier| tier.name.as_str());
    match suggest::nearest(name, names()) {
        Some(near) => format!("is no tier; did you mean \"{near}\"?"),
        None if tiers.is_empty() => format!("is no tier; add [tier.{name}]"),
        None => format!("is no tier; write {}, or add [tier.{name}]", suggest::either(names())),
    }
}

pub(in crate::config::checked) fn warn_of_unused(
    tiers: &[Draft],
    rules: &[rule::Draft],
    mount: &mount::Draft,
    findings: &mut Findings,
) {
    let staged = mount.stage.as_ref().map(|stage| stage.value.as_str());
    for tier in tiers {
        if staged != Some(tier.name.as_str()) && !rules.iter().any(|rule| rule.uses(&tier.name)) {
            findings.warning(
                tier.line,
                format!("no rule uses tier {}; name it in a rule, or remove it", tier.name),
            );
        }
    }
}
