//! `${NAME}` in strings: from the environment, `${HOSTNAME}` from the kernel; `$${` is a literal `${`.

/// Where names get their values.
#[derive(Clone, Copy)]
pub struct Environment<'a>(&'a dyn Fn(&str) -> Option<String>);

impl std::fmt::Debug for Environment<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Environment")
    }
}

impl<'a> Environment<'a> {
    /// Values from `lookup`.
    pub fn new(lookup: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self(lookup)
    }

    /// The value of `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        (self.0)(name)
    }

    /// The value of the first of `names` that has one.
    #[must_use]
    pub fn first_of(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.get(name).filter(|value| !value.is_empty()))
    }
}

/// The environment of this process; HOSTNAME is the kernel's, for shells rarely export theirs.
#[must_use]
pub(super) fn of_process(name: &str) -> Option<String> {
    match name {
        "HOSTNAME" => {
            let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
            Some(name.trim_end().to_owned())
        }
        _ => std::env::var(name).ok(),
    }
}

/// A string after expansion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Expanded {
    pub(super) value: String,
    /// The names that were put in.
    pub(super) names: Vec<String>,
}

/// Puts values for names.
pub(super) fn expand(text: &str, environment: Environment<'_>) -> Result<Expanded, String> {
    let mut expanded = Expanded::default();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if let Some(before) = rest[..at].strip_suffix('$') {
            expanded.value.push_str(before);
            expanded.value.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        expanded.value.push_str(&rest[..at]);
        let after = &rest[at + 2..];
        let end = after.find('}').ok_or("has `${` without `}`; write `$${` for the characters themselves")?;
        let name = &after[..end];
        check_name(name)?;
        let value = environment.get(name);
        expanded.value.push_str(&value.ok_or_else(|| unset(name))?);
        expanded.names.push(name.to_owned());
        rest = &after[end + 1..];
    }
    expanded.value.push_str(rest);
    Ok(expanded)
}

fn check_name(name: &str) -> Result<(), String> {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if starts_well && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Ok(());
    }
    Err(format!(
        "has `${{{name}}}`, which is no environment variable; write `${{NAME}}` without defaults or operators"
    ))
}

fn unset(name: &str) -> String {
    format!("needs the environment variable {name}, which is not set; set it, or write the value here")
}

/// `text` as it must be written so that expansion gives it back.
pub(super) fn escape(text: &str) -> String {
    text.replace("${", "$${")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<Expanded, String> {
        expand(text, Environment::new(&|name| (name == "TEAM").then(|| "blue".to_owned())))
    }

    #[test]
    fn names_are_replaced_and_remembered() {
        let found = expanded("/scratch/${TEAM}/$HOME/${TEAM}").unwrap();
        assert_eq!(found.value, "/scratch/blue/$HOME/blue");
        assert_eq!(found.names, ["TEAM", "TEAM"]);
    }

    #[test]
    fn escapes_round_trip() {
        assert_eq!(expanded("a$${TEAM}").unwrap().value, "a${TEAM}");
        for text in ["${A}", "$${A}", "x${", "$", "a$b"] {
            assert_eq!(expanded(&escape(text)).unwrap().value, text);
        }
    }

    #[test]
    fn what_cannot_be_expanded_is_told() {
        assert!(expanded("${NOBODY}").unwrap_err().contains("NOBODY, which is not set"));
        assert!(expanded("${TEAM:-x}").unwrap_err().contains("without defaults"));
        assert!(expanded("${TEAM").unwrap_err().contains("without `}`"));
    }

    #[test]
    fn the_host_has_a_name() {
        assert!(of_process("HOSTNAME").is_some_and(|name| !name.is_empty()));
    }
}
