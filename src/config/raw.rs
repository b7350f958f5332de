//! TOML → sections of known keys with expanded strings and their lines. Knows which keys exist,
//! not what their values mean.

use super::expand::{self, Environment};
use super::keys::{self, Key, SectionKind};
use super::report::Findings;
use super::suggest::{did_you_mean, either_of};
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// A string with its line.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) value: String,
    pub(super) line: usize,
    /// Environment variables in it.
    pub(super) names: Vec<String>,
}

/// What was given for a key.
#[derive(Clone, Debug)]
pub(super) enum Given {
    One(Text),
    List(Vec<Text>, usize),
}

/// One section with the keys given in it.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) kind: SectionKind,
    /// As it is written in the file.
    pub(super) heading: String,
    /// Name of a tier.
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) given: BTreeMap<&'static str, Given>,
    /// Keys whose value could not be read; so they are not missing.
    pub(super) unreadable: Vec<&'static str>,
}

/// The whole file.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) mount: Section,
    pub(super) tiers: Vec<Section>,
    pub(super) rules: Vec<Section>,
}

/// Reads all that can be read and reports the rest.
pub(super) fn read(text: &str, environment: Environment<'_>, findings: &mut Findings) -> Document {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader { text, environment, findings };
    reader.report_syntax(&errors);
    reader.document(table.into_inner())
}

struct Reader<'a> {
    text: &'a str,
    environment: Environment<'a>,
    findings: &'a mut Findings,
}

type Entry<'i> = (Spanned<DeString<'i>>, Spanned<DeValue<'i>>);

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

impl Reader<'_> {
    fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.as_bytes().get(..span.start).unwrap_or(self.text.as_bytes());
        1 + before.iter().filter(|&&byte| byte == b'\n').count()
    }

    fn report_syntax(&mut self, errors: &[toml::de::Error]) {
        let mut last_line = 0;
        for error in errors {
            let span = error.span().unwrap_or(0..0);
            let line = self.line(&span);
            let written = self.text.get(span).unwrap_or("");
            let message = error.message();
            // The parser goes on with what such a value would be in quotes.
            let unquoted = message.starts_with("string values must be quoted");
            if !unquoted {
                self.findings.set_incomplete();
            }
            if line == last_line {
                continue;
            }
            last_line = line;
            self.findings.problem(
                line,
                match (unquoted, message) {
                    (true, _) => format!("`{written}` is not in quotes; write \"{written}\""),
                    (false, "duplicate key") => format!("`{written}` is given twice; keep one"),
                    (false, _) => format!("not TOML: {message}"),
                },
            );
        }
    }

    fn document(&mut self, table: DeTable<'_>) -> Document {
        let mut document = Document {
            mount: Section::new(SectionKind::Mount, "[mount]".into(), String::new(), 0),
            tiers: Vec::new(),
            rules: Vec::new(),
        };
        for (key, value) in in_file_order(table) {
            let line = self.line(&key.span());
            match (key.get_ref().as_ref(), value.into_inner()) {
                ("mount", DeValue::Table(entries)) => {
                    document.mount.line = line;
                    self.entries(&mut document.mount, entries);
                }
                ("tier", DeValue::Table(tiers)) => document.tiers = self.tiers(tiers),
                ("rule", DeValue::Array(rules)) => document.rules = self.rules(rules.into_iter()),
                (name, value) => self.misplaced(name, line, &value),
            }
        }
        document
    }

    fn misplaced(&mut self, name: &str, line: usize, value: &DeValue<'_>) {
        let heading = match value {
            DeValue::Table(_) => format!("[{name}]"),
            DeValue::Array(list) if list.iter().all(|item| matches!(item.get_ref(), DeValue::Table(_))) => {
                format!("[[{name}]]")
            }
            _ => {
                let sections =
                    SectionKind::ALL.into_iter().filter(|section| keys::find(*section, name).is_some());
                let sections: Vec<_> = sections.map(SectionKind::heading).collect();
                return self.findings.problem(
                    line,
                    if sections.is_empty() {
                        format!("unknown key `{name}` outside any section{}", mount_key(name))
                    } else {
                        format!("`{name}` stands outside any section; write it below {}", either_of(sections))
                    },
                );
            }
        };
        let better = match name {
            "mount" => "; write [mount]".to_owned(),
            "tier" => "; write [tier.NAME], one section for each tier".to_owned(),
            "rule" => "; write [[rule]], one for each rule".to_owned(),
            _ => did_you_mean(name, ["mount", "tier", "rule"]),
        };
        let better = if better.is_empty() {
            "; sections are [mount], [tier.NAME] and [[rule]]".to_owned()
        } else {
            better
                .replace("`mount`", "[mount]")
                .replace("`tier`", "[tier.NAME]")
                .replace("`rule`", "[[rule]]")
        };
        let what = if matches!(name, "mount" | "tier" | "rule") {
            "is not a section as it stands"
        } else {
            "is unknown"
        };
        // What stands below a wrong heading was meant for a right one.
        self.findings.problem(line, format!("section {heading} {what}{better}"));
        self.findings.set_incomplete();
    }

    fn tiers(&mut self, table: DeTable<'_>) -> Vec<Section> {
        let mut tiers = Vec::new();
        for (key, value) in in_file_order(table) {
            let (line, name) = (self.line(&key.span()), key.into_inner().into_owned());
            let DeValue::Table(entries) = value.into_inner() else {
                self.findings.problem(
                    line,
                    format!(
                        "`{name}` stands in [tier]; write it below [tier.NAME], one section for each tier"
                    ),
                );
                continue;
            };
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
                self.findings.problem(
                    line,
                    format!("tier name {name:?} is not plain; write letters, digits, - and _"),
                );
            }
            let mut section = Section::new(SectionKind::Tier, format!("[tier.{name}]"), name, line);
            self.entries(&mut section, entries);
            tiers.push(section);
        }
        tiers
    }

    fn rules<'i>(&mut self, rules: impl Iterator<Item = Spanned<DeValue<'i>>>) -> Vec<Section> {
        let mut sections = Vec::new();
        for rule in rules {
            let line = self.line(&rule.span());
            let DeValue::Table(entries) = rule.into_inner() else {
                self.findings.problem(line, "a rule must be a section; write [[rule]] and its keys below");
                continue;
            };
            let mut section = Section::new(SectionKind::Rule, "[[rule]]".into(), String::new(), line);
            self.entries(&mut section, entries);
            sections.push(section);
        }
        sections
    }

    fn entries(&mut self, section: &mut Section, entries: DeTable<'_>) {
        for (key, value) in in_file_order(entries) {
            let line = self.line(&key.span());
            let Some(known) = keys::find(section.kind, key.get_ref()) else {
                self.unknown_key(section, key.get_ref(), line);
                continue;
            };
            match self.value(known, value, line) {
                Some(given) => _ = section.given.insert(known.name, given),
                None => section.unreadable.push(known.name),
            }
        }
    }

    /// Never says the value: it may be a secret.
    fn unknown_key(&mut self, section: &Section, name: &str, line: usize) {
        let heading = &section.heading;
        let here = keys::KEYS.iter().filter(|key| key.section == section.kind).map(|key| key.name);
        let elsewhere = SectionKind::ALL.into_iter().find(|other| keys::find(*other, name).is_some());
        let message = if SECRETS.contains(&name.to_lowercase().as_str()) {
            format!("secrets don't belong in a config; {}", instead_of_secret(name))
        } else if let Some(better) = super::suggest::nearest(name, here.clone()) {
            format!("unknown key `{name}` in {heading}; did you mean `{better}`?")
        } else if let Some(other) = elsewhere {
            format!("`{name}` is no key of {heading}; write it below {}", other.heading())
        } else {
            format!("unknown key `{name}` in {heading}; keys are {}", here.collect::<Vec<_>>().join(", "))
        };
        self.findings.problem(line, message);
    }

    fn value(&mut self, key: &Key, value: Spanned<DeValue<'_>>, line: usize) -> Option<Given> {
        match value.into_inner() {
            DeValue::String(text) => self.text(key, &text, line).map(Given::One),
            DeValue::Array(items) if key.unit == keys::Unit::Tiers => {
                let mut texts = Vec::new();
                for item in items {
                    let line = self.line(&item.span());
                    match item.into_inner() {
                        DeValue::String(text) => texts.push(self.text(key, &text, line)?),
                        other => return self.wrong_type(key, &other, line),
                    }
                }
                Some(Given::List(texts, line))
            }
            other => self.wrong_type(key, &other, line),
        }
    }

    fn wrong_type(&mut self, key: &Key, value: &DeValue<'_>, line: usize) -> Option<Given> {
        let (name, example) = (key.name, key.unit.example());
        let what = match value {
            DeValue::Integer(_) | DeValue::Float(_) => "a bare number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
            _ => "a date",
        };
        self.findings
            .problem(line, format!("`{name}` is {what}; write text in quotes, such as {name} = {example}"));
        None
    }

    fn text(&mut self, key: &Key, text: &str, line: usize) -> Option<Text> {
        match expand::expand(text, self.environment) {
            Ok(expanded) => Some(Text { value: expanded.value, line, names: expanded.names }),
            Err(wrong) => {
                self.findings.problem(line, format!("`{}` {wrong}", key.name));
                None
            }
        }
    }
}

impl Section {
    fn new(kind: SectionKind, heading: String, name: String, line: usize) -> Self {
        Self { kind, heading, name, line, given: BTreeMap::new(), unreadable: Vec::new() }
    }
}

fn in_file_order(table: DeTable<'_>) -> Vec<Entry<'_>> {
    let mut entries: Vec<_> = table.into_iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

fn mount_key(name: &str) -> String {
    let here = keys::KEYS.iter().filter(|key| key.section == SectionKind::Mount).map(|key| key.name);
    did_you_mean(name, here)
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
