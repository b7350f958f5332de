//! Takes the keys of one section as useful types, fills in defaults, and notes where each came from.

use super::expand::escape;
use super::keys::{self, DefaultValue};
use super::raw::{Given, Section, Text};
use super::report::Findings;
use super::show::{Origin, Setting, Shown};

/// A value and the line to blame for it.
#[derive(Clone, Debug)]
pub(super) struct Located<T> {
    pub(super) value: T,
    pub(super) line: usize,
}

/// How the text of a value becomes a useful type; the error goes on after the value.
pub(super) type Parse<'a, T> = &'a dyn Fn(&str) -> Result<T, String>;

/// Reads one section.
pub(super) struct Reader<'a> {
    section: Section,
    findings: &'a mut Findings,
    settings: Vec<Setting>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(section: Section, findings: &'a mut Findings) -> Self {
        Self { section, findings, settings: Vec::new() }
    }

    pub(super) fn line(&self) -> usize {
        self.section.line
    }

    pub(super) fn name(&self) -> &str {
        &self.section.name
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.section.given.contains_key(key) || self.section.unreadable.contains(&key)
    }

    /// Whether a list without values is given.
    pub(super) fn is_empty_list(&self, key: &str) -> bool {
        matches!(self.section.given.get(key), Some(Given::List(texts, _)) if texts.is_empty())
    }

    pub(super) fn line_of(&self, key: &str) -> usize {
        match self.section.given.get(key) {
            Some(Given::One(text)) => text.line,
            Some(Given::List(_, line) | Given::Table(_, line)) => *line,
            None => self.section.line,
        }
    }

    pub(super) fn problem(&mut self, line: usize, message: impl Into<String>) {
        self.findings.problem(line, message);
    }

    /// Names the section in a complaint that something is not there.
    pub(super) fn missing(&mut self, message: &str) {
        let message = format!("{} {message}", self.section.heading);
        self.findings.missing(self.section.line, message);
    }

    /// The value, if it is given and right.
    pub(super) fn given<T>(&mut self, key: &'static str, parse: Parse<'_, T>) -> Option<Located<T>> {
        let text = match self.section.given.get(key)? {
            Given::One(text) => text.clone(),
            Given::List(texts, _) => texts.first()?.clone(),
            Given::Table(..) => return None,
        };
        let value = self.parsed(key, &text, parse)?;
        self.note(key, quoted(&text.value), Origin::Line { line: text.line, names: text.names });
        Some(Located { value, line: text.line })
    }

    /// The names and values of a key that is a table, with its line.
    pub(super) fn table(&mut self, key: &'static str) -> Option<Located<Vec<(String, Text)>>> {
        match self.section.given.get(key)? {
            Given::Table(entries, line) => Some(Located { value: entries.clone(), line: *line }),
            Given::One(text) => {
                let (line, example) = (text.line, keys::find(self.section.kind, key)?.unit.example());
                self.findings.problem(line, format!("{key} is text; write {key} = {example}"));
                None
            }
            Given::List(..) => None,
        }
    }

    /// The values of a key that may be a list.
    pub(super) fn list<T>(&mut self, key: &'static str, parse: Parse<'_, T>) -> Vec<Located<T>> {
        let (texts, line, is_list) = match self.section.given.get(key) {
            None | Some(Given::Table(..)) => return Vec::new(),
            Some(Given::One(text)) => (vec![text.clone()], text.line, false),
            Some(Given::List(texts, line)) => (texts.clone(), *line, true),
        };
        let shown: Vec<_> = texts.iter().map(|text| quoted(&text.value)).collect();
        let shown = if is_list { format!("[{}]", shown.join(", ")) } else { shown.concat() };
        let names = texts.iter().flat_map(|text| text.names.clone()).collect();
        self.note(key, shown, Origin::Line { line, names });
        let parsed = texts.iter().filter_map(|text| {
            let value = self.parsed(key, text, parse)?;
            Some(Located { value, line: text.line })
        });
        parsed.collect()
    }

    /// The value, or the table's default.
    pub(super) fn value<T>(&mut self, key: &'static str, parse: Parse<'_, T>) -> Located<T> {
        let default = match keys::find(self.section.kind, key).map(|key| key.default) {
            Some(DefaultValue::Text(text)) => text,
            other => unreachable!("{key} has no fixed default but {other:?}"),
        };
        self.value_or(key, default, Origin::Default, parse)
    }

    /// The value, or `default`, which is always right.
    pub(super) fn value_or<T>(
        &mut self,
        key: &'static str,
        default: &str,
        origin: Origin,
        parse: Parse<'_, T>,
    ) -> Located<T> {
        if let Some(given) = self.given(key, parse) {
            return given;
        }
        self.note(key, quoted(default), origin);
        let value = parse(default).unwrap_or_else(|wrong| unreachable!("the default of {key} {wrong}"));
        Located { value, line: self.section.line }
    }

    /// Notes that `name` of the environment decides too what `key` means.
    pub(super) fn note_name(&mut self, key: &str, name: &str) {
        let setting = self.settings.iter_mut().find(|setting| setting.key == key);
        if let Some(Setting { origin: Origin::Line { names, .. }, .. }) = setting {
            names.push(name.to_owned());
        }
    }

    /// Notes a value that was found by other means.
    pub(super) fn note(&mut self, key: &'static str, value: String, origin: Origin) {
        self.settings.retain(|setting| setting.key != key);
        self.settings.push(Setting { key, value, origin });
    }

    /// The settings in the order of the table of keys.
    pub(super) fn finish(mut self) -> Shown {
        let place = |setting: &Setting| {
            keys::KEYS.iter().position(|key| key.section == self.section.kind && key.name == setting.key)
        };
        self.settings.sort_by_key(place);
        Shown { heading: self.section.heading, settings: self.settings }
    }

    fn parsed<T>(&mut self, key: &str, text: &Text, parse: Parse<'_, T>) -> Option<T> {
        match parse(&text.value) {
            Ok(value) => Some(value),
            Err(wrong) => {
                // A URL may hold a secret where none belongs.
                let what =
                    if key == "url" { key.to_owned() } else { format!("{key} = {}", quoted(&text.value)) };
                self.findings.problem(text.line, format!("{what} {wrong}"));
                None
            }
        }
    }
}

/// As a TOML string that expansion leaves as it is.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(escape(text)).to_string()
}
