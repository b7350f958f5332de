//! TOML → sections of known keys with expanded strings and their lines. Knows which keys exist,
//! not what their values mean.

mod complaints;

use super::expand::{self, Environment};
use super::keys::{self, KeyInfo, SectionKind};
use super::report::Findings;
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
    /// Names and their values; numbers as they are written.
    Table(Vec<(String, Text)>, usize),
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

impl Section {
    fn new(kind: SectionKind, heading: String, name: String, line: usize) -> Self {
        Self { kind, heading, name, line, given: BTreeMap::new(), unreadable: Vec::new() }
    }
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
    let line_ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect();
    let mut reader = Reader { text, line_ends, environment, findings };
    reader.report_syntax(&errors);
    reader.document(table.into_inner())
}

struct Reader<'a> {
    text: &'a str,
    line_ends: Vec<usize>,
    environment: Environment<'a>,
    findings: &'a mut Findings,
}

type Entry<'i> = (Spanned<DeString<'i>>, Spanned<DeValue<'i>>);

impl Reader<'_> {
    fn line(&self, span: &Range<usize>) -> usize {
        1 + self.line_ends.partition_point(|end| *end < span.start)
    }

    fn report_syntax(&mut self, errors: &[toml::de::Error]) {
        let mut last_line = 0;
        for error in errors {
            let span = error.span().unwrap_or(0..0);
            let line = self.line(&span);
            let written = self.text.get(span).unwrap_or("").escape_debug();
            let message = error.message();
            // The parser goes on with what such a value would be in quotes.
            let unquoted = message.starts_with("string values must be quoted");
            if !unquoted {
                self.findings.set_incomplete();
            }
            // What follows an error on its line is rarely another.
            if line == last_line {
                continue;
            }
            last_line = line;
            let complaint = match message {
                _ if unquoted => format!("`{written}` is not in quotes; write \"{written}\""),
                "duplicate key" => format!("`{written}` is given twice; keep one"),
                _ => format!("not TOML: {message}"),
            };
            self.findings.problem(line, complaint);
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
        let is_table = |value: &DeValue<'_>| matches!(value, DeValue::Table(_));
        let is_list =
            matches!(value, DeValue::Array(list) if list.iter().all(|item| is_table(item.get_ref())));
        if is_list || is_table(value) {
            // What stands below a wrong heading was meant for a right one.
            self.findings.set_incomplete();
            self.findings.problem(line, complaints::wrong_section(name, is_list));
        } else {
            self.findings.problem(line, complaints::stray_key(name));
        }
    }

    fn tiers(&mut self, table: DeTable<'_>) -> Vec<Section> {
        let mut tiers = Vec::new();
        for (key, value) in in_file_order(table) {
            let (line, name) = (self.line(&key.span()), key.into_inner().into_owned());
            let DeValue::Table(entries) = value.into_inner() else {
                let message = "stands in [tier]; write it below [tier.NAME], one section for each tier";
                self.findings.problem(line, format!("`{}` {message}", name.escape_debug()));
                continue;
            };
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
                let message = "is not a plain word; write letters, digits, - and _";
                self.findings.problem(line, format!("tier name {name:?} {message}"));
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
                self.findings.problem(line, complaints::unknown_key(section, key.get_ref()));
                continue;
            };
            match self.value(known, value, line) {
                Some(given) => _ = section.given.insert(known.name, given),
                None => section.unreadable.push(known.name),
            }
        }
    }

    fn value(&mut self, key: &KeyInfo, value: Spanned<DeValue<'_>>, line: usize) -> Option<Given> {
        match value.into_inner() {
            DeValue::String(text) => self.text(key, &text, line).map(Given::One),
            DeValue::Array(items) if key.unit.is_list(items.len()) => {
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
            DeValue::Table(entries) if matches!(key.unit, keys::Unit::Group | keys::Unit::Cold) => {
                self.table(key, entries, line)
            }
            other => self.wrong_type(key, &other, line),
        }
    }

    fn table(&mut self, key: &KeyInfo, entries: DeTable<'_>, line: usize) -> Option<Given> {
        let mut texts = Vec::new();
        for (name, value) in in_file_order(entries) {
            let at = self.line(&name.span());
            let text = match value.into_inner() {
                DeValue::String(text) => self.text(key, &text, at)?,
                DeValue::Integer(number) => {
                    Text { value: number.as_str().to_owned(), line: at, names: Vec::new() }
                }
                other => return self.wrong_type(key, &other, at),
            };
            texts.push((name.into_inner().into_owned(), text));
        }
        Some(Given::Table(texts, line))
    }

    fn wrong_type(&mut self, key: &KeyInfo, value: &DeValue<'_>, line: usize) -> Option<Given> {
        self.findings.problem(line, complaints::wrong_type(key, value));
        None
    }

    fn text(&mut self, key: &KeyInfo, text: &str, line: usize) -> Option<Text> {
        match expand::expand(text, self.environment) {
            Ok(expanded) => Some(Text { value: expanded.value, line, names: expanded.names }),
            Err(wrong) => {
                self.findings.problem(line, format!("`{}` {wrong}", key.name));
                None
            }
        }
    }
}

fn in_file_order(table: DeTable<'_>) -> Vec<Entry<'_>> {
    let mut entries: Vec<_> = table.into_iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}
