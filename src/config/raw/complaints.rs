//! What is said about keys and sections that are not understood. Never a value: it may be a secret.

use super::Section;
use crate::config::keys::{self, KeyInfo, SectionKind};
use crate::config::suggest::{did_you_mean, either_of, nearest};
use toml::de::DeValue;

/// Names of keys that people try to put secrets under.
const SECRETS: [&str; 12] = [
    "key",
    "account_key",
    "access_key",
    "storage_key",
    "sas",
    "sas_token",
    "token",
    "secret",
    "client_secret",
    "password",
    "connection_string",
    "credential",
];

/// How a value that is no section stands at the top of the file.
pub(super) fn stray_key(name: &str) -> String {
    let homes = SectionKind::ALL.into_iter().filter(|section| keys::find(*section, name).is_some());
    let homes: Vec<_> = homes.map(SectionKind::heading).collect();
    let name = name.escape_debug();
    match homes.as_slice() {
        [] => format!("unknown key `{name}` outside any section; remove it, or write it below its section"),
        _ => format!("`{name}` stands outside any section; write it below {}", either_of(homes)),
    }
}

/// A section that does not exist, or not in this form.
pub(super) fn wrong_section(name: &str, is_list: bool) -> String {
    let shown = name.escape_debug();
    let heading = if is_list { format!("[[{shown}]]") } else { format!("[{shown}]") };
    if let Some(right) = section_named(name) {
        return format!("section {heading} is not written that way; write {right}");
    }
    match nearest(name, ["mount", "tier", "rule"]).and_then(section_named) {
        Some(right) => format!("section {heading} is unknown; did you mean {right}?"),
        None => format!("section {heading} is unknown; sections are [mount], [tier.NAME] and [[rule]]"),
    }
}

fn section_named(name: &str) -> Option<&'static str> {
    match name {
        "mount" => Some(SectionKind::Mount.heading()),
        "tier" => Some(SectionKind::Tier.heading()),
        "rule" => Some(SectionKind::Rule.heading()),
        _ => None,
    }
}

/// A key that is not in this section.
pub(super) fn unknown_key(section: &Section, name: &str) -> String {
    let heading = &section.heading;
    let here = || keys::KEYS.iter().filter(|key| key.section == section.kind).map(|key| key.name);
    if SECRETS.contains(&name.to_lowercase().as_str()) {
        return format!("secrets don't belong in a config; {}", instead_of_secret(name));
    }
    let elsewhere = SectionKind::ALL.into_iter().find(|other| keys::find(*other, name).is_some());
    let shown = name.escape_debug();
    match (nearest(name, here()), elsewhere) {
        (Some(_), _) => format!("unknown key `{shown}` in {heading}{}", did_you_mean(name, here())),
        (None, Some(other)) => {
            format!("`{shown}` is no key of {heading}; write it below {}", other.heading())
        }
        (None, None) => {
            format!("unknown key `{shown}` in {heading}; keys are {}", here().collect::<Vec<_>>().join(", "))
        }
    }
}

fn instead_of_secret(name: &str) -> &'static str {
    let name = name.to_lowercase();
    if name.contains("sas") || name.contains("token") {
        "write sas_file = \"/path/of/a/file\", or set AZURE_STORAGE_SAS_TOKEN"
    } else if name.contains("secret") || name.contains("password") {
        "set AZURE_STORAGE_SPN_CLIENT_SECRET"
    } else {
        "write key_file = \"/path/of/a/file\", or set AZURE_STORAGE_ACCESS_KEY"
    }
}

/// A value of the wrong TOML type.
pub(super) fn wrong_type(key: &KeyInfo, value: &DeValue<'_>) -> String {
    let (name, example) = (key.name, key.unit.example());
    let what = match value {
        DeValue::Integer(_) | DeValue::Float(_) => "a bare number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Array(list) if list.is_empty() => "an empty list",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
        _ => "a date",
    };
    match key.unit {
        keys::Unit::Group | keys::Unit::Cold => {
            format!("`{name}` is or has {what}; write {name} = {example}")
        }
        _ => format!("`{name}` is {what}; write text in quotes, such as {name} = {example}"),
    }
}
