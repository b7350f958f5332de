//! `config show`: the effective values and where each came from, as TOML that can be read back.

use std::fmt;
use std::path::Path;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// This line, with these environment variables put in.
    Line { line: usize, names: Vec<String> },
    /// Nobody said anything.
    Default,
    /// Another key decided.
    Inherited { from: String },
}

/// An effective value.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) key: &'static str,
    /// As TOML.
    pub(super) value: String,
    pub(super) origin: Origin,
}

/// The effective values of one section.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) heading: String,
    pub(super) settings: Vec<Setting>,
}

impl Shown {
    /// The value of `key` as TOML.
    pub(super) fn value(&self, key: &str) -> Option<&str> {
        let setting = self.settings.iter().find(|setting| setting.key == key);
        setting.map(|setting| setting.value.as_str())
    }
}

/// All sections, ready to print.
pub(super) struct Page<'a> {
    pub(super) file: &'a Path,
    pub(super) sections: &'a [Shown],
}

/// Comments beyond this column start right after the value.
const MAX_COLUMN: usize = 64;

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |setting: &Setting| setting.key.len() + " = ".len() + setting.value.chars().count();
        let settings = self.sections.iter().flat_map(|section| &section.settings);
        let column = settings.map(width).filter(|width| *width <= MAX_COLUMN).max().unwrap_or(0);
        for (at, section) in self.sections.iter().enumerate() {
            let gap = if at > 0 { "\n" } else { "" };
            writeln!(f, "{gap}{}", section.heading)?;
            for setting in &section.settings {
                let padding = " ".repeat(column.saturating_sub(width(setting)));
                let Setting { key, value, origin } = setting;
                write!(f, "{key} = {value}{padding}  # ")?;
                self.origin(f, origin)?;
            }
        }
        Ok(())
    }
}

impl Page<'_> {
    fn origin(&self, f: &mut fmt::Formatter<'_>, origin: &Origin) -> fmt::Result {
        match origin {
            Origin::Default => writeln!(f, "default"),
            Origin::Inherited { from } => writeln!(f, "from {from}"),
            Origin::Line { line, names } => {
                write!(f, "{}:{line}", self.file.display())?;
                let mut names = names.clone();
                names.sort();
                names.dedup();
                if !names.is_empty() {
                    write!(f, ", environment {}", names.join(", "))?;
                }
                writeln!(f)
            }
        }
    }
}
