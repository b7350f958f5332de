//! Takes secrets out of text: those that are known by value, and what looks like one.

use crate::config::{Config, Storage};
use crate::types::blob::BlobLocation;
use std::collections::BTreeSet;
use std::path::Path;

/// What stands for a secret.
const GONE: &str = "[REDACTED]";

/// A value that is shorter is no secret worth the name, and taking it out would tear words apart.
const SECRET_MIN: usize = 8;

/// Parts of names of variables and keys whose values are secrets.
const SECRET_NAMES: [&str; 8] =
    ["KEY", "SECRET", "PASSWORD", "PASSWD", "TOKEN", "SAS", "CREDENTIAL", "CONNECTION_STRING"];

/// Words after which a secret follows up to the end of the value.
const LEADS: [&str; 7] =
    ["sig=", "AccountKey=", "SharedAccessSignature=", "Bearer ", "SharedKey ", "client_secret=", "password="];

/// Knows what must not leave the machine.
#[derive(Debug, Default)]
pub struct Redactor {
    /// Longest first, so that none is left in half.
    values: Vec<String>,
}

impl Redactor {
    /// Knows the secrets of this process's environment and those that `config` points to.
    pub fn new(config: Option<&Config>) -> Self {
        let mut values = BTreeSet::new();
        for (name, value) in std::env::vars() {
            if is_secret(&name) {
                note(&mut values, &value);
            }
        }
        for tier in config.into_iter().flat_map(|config| &config.tiers) {
            if let Storage::Blob(blob) = &tier.storage {
                for file in [&blob.key_file, &blob.sas_file].into_iter().flatten() {
                    values_of(file, &mut values);
                }
                if let BlobLocation::Azure { endpoint, .. } = &blob.location
                    && let Some((_, rest)) = endpoint.split_once("://")
                    && let Some((login, _)) = rest.split_once('@')
                {
                    note(&mut values, login);
                }
            }
        }
        let mut values: Vec<String> = values.into_iter().collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self { values }
    }

    /// `text` without secrets.
    pub fn clean(&self, text: &str) -> String {
        let mut clean = text.to_owned();
        for value in &self.values {
            clean = clean.replace(value.as_str(), GONE);
        }
        for lead in LEADS {
            clean = without_what_follows(&clean, lead);
        }
        without_keys(&clean)
    }
}

/// Whether a variable or key of this name holds a secret.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_uppercase();
    // Names of files and addresses are none.
    !name.ends_with("_FILE")
        && !name.ends_with("_ENDPOINT")
        && SECRET_NAMES.iter().any(|part| name.contains(part))
}

fn values_of(file: &Path, values: &mut BTreeSet<String>) {
    if let Ok(text) = std::fs::read_to_string(file) {
        note(values, text.trim());
        note(values, text.trim().trim_start_matches('?'));
    }
}

fn note(values: &mut BTreeSet<String>, value: &str) {
    if value.len() >= SECRET_MIN {
        values.insert(value.to_owned());
    }
}

/// Cuts what follows `lead` up to what can't be part of it; upper and lower case are one.
fn without_what_follows(text: &str, lead: &str) -> String {
    let (lower, lead) = (text.to_ascii_lowercase(), lead.to_ascii_lowercase());
    let mut clean = String::with_capacity(text.len());
    let mut from = 0;
    while let Some(at) = lower[from..].find(&lead) {
        let value = from + at + lead.len();
        let length = text[value..].find(|c: char| c.is_whitespace() || "\"'&;,<>".contains(c));
        let end = length.map_or(text.len(), |length| value + length);
        clean.push_str(&text[from..value]);
        clean.push_str(if end > value { GONE } else { "" });
        from = end;
    }
    clean.push_str(&text[from..]);
    clean
}

/// Account keys are 64 bytes in base64; nothing else here looks like that.
fn without_keys(text: &str) -> String {
    const LENGTH: usize = 86;
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || c == '+' || c == '/';
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("==") {
        let before = &rest[..at];
        let start = before
            .rfind(|c: char| !is_base64(c))
            .map_or(0, |c| c + before[c..].chars().next().map_or(1, char::len_utf8));
        if at - start >= LENGTH {
            clean.push_str(&rest[..start]);
            clean.push_str(GONE);
        } else {
            clean.push_str(&rest[..at + 2]);
        }
        rest = &rest[at + 2..];
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_secret_goes() {
        let redactor = Redactor { values: vec!["hunter2hunter2".into()] };
        let key = format!("{}==", "Ab+/".repeat(22).split_at(86).0);
        let text = format!(
            "url https://x/c?sv=1&SIG=abc%2Bdef&se=2 authorization: Bearer eyJ.x-y_z\nkey {key}\npass hunter2hunter2, \
             AccountKey=zzz;EndpointSuffix=x äö== short== sig="
        );
        let clean = redactor.clean(&text);
        let expected = "url https://x/c?sv=1&SIG=[REDACTED]&se=2 authorization: Bearer [REDACTED]\nkey [REDACTED]\npass \
             [REDACTED], AccountKey=[REDACTED];EndpointSuffix=x äö== short== sig=";
        assert_eq!(clean, expected);
    }

    #[test]
    fn names_tell_secrets() {
        for name in
            ["AZURE_STORAGE_ACCESS_KEY", "AZURE_CLIENT_SECRET", "azure_storage_sas_token", "DB_PASSWORD"]
        {
            assert!(is_secret(name), "{name}");
        }
        for name in ["AZURE_FEDERATED_TOKEN_FILE", "PATH", "AZURE_STORAGE_ACCOUNT", "HOME"] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
