//! The config: TOML → raw sections → checked, useful types; every problem at once, each with its line
//! and what to write instead. Knows types and policy; nothing below imports it.

mod changes;
mod checked;
mod example;
mod expand;
pub mod keys;
mod raw;
mod report;
mod section;
mod show;
mod suggest;
#[cfg(test)]
mod tests;
mod units;

pub use changes::Change;
pub use checked::{
    BlobConfig, Catalog, ColdConfig, DirectoryConfig, MountConfig, OverflowConfig, Overlap, RuleConfig,
    Storage, TierConfig, TierKind, overlap,
};
pub use example::Example;
pub use expand::Environment;
pub use report::{Problem, Problems, Warning};
pub(crate) use suggest::did_you_mean;
pub use units::{Percent, duration};

use crate::policy::placement::{Cold, Ledger, Overflow, RuleSpec, Rules};
use crate::types::TierId;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// No config is larger.
const MAX_BYTES: usize = 1 << 20;

/// A config in which everything is right.
#[derive(Debug)]
pub struct Config {
    /// The file it came from.
    pub file: PathBuf,
    /// `[mount]`
    pub mount: MountConfig,
    /// `[tier.NAME]`, in the order of the file.
    pub tiers: Vec<TierConfig>,
    /// `[[rule]]`, in the order of the file; the last one matches everything.
    pub rules: Vec<RuleConfig>,
    shown: Vec<show::Shown>,
}

impl Config {
    /// Reads and checks `file`, with this process's environment.
    ///
    /// # Errors
    /// All problems, in the order of the file.
    pub fn load(file: &Path) -> Result<(Self, Vec<Warning>), Problems> {
        let whole = |message| Problem { file: file.to_owned(), line: report::WHOLE_FILE, message };
        let text = read_file(file).map_err(|error| whole(format!("can't read the config: {error}")))?;
        if text.len() > MAX_BYTES {
            return Err(whole("is larger than 1 MiB; no config is".into()).into());
        }
        let text = String::from_utf8(text).map_err(|error| {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = 1 + valid.iter().filter(|&&byte| byte == b'\n').count();
            Problem { file: file.to_owned(), line, message: "not UTF-8; save the file as UTF-8 text".into() }
        })?;
        Self::parse(file, &text, Environment::new(&expand::of_process))
    }

    /// Checks `text` as if it were in `file`.
    ///
    /// # Errors
    /// All problems, in the order of the file.
    pub fn parse(
        file: &Path,
        text: &str,
        environment: Environment<'_>,
    ) -> Result<(Self, Vec<Warning>), Problems> {
        let mut findings = report::Findings::new(file);
        let document = raw::read(text, environment, &mut findings);
        let checked = checked::check(file, document, environment, &mut findings);
        let warnings = findings.finish()?;
        let Some(checked::Checked { mount, tiers, rules, shown }) = checked else {
            let message = "something in this config is missing that no check names".into();
            return Err(Problem { file: file.to_owned(), line: report::WHOLE_FILE, message }.into());
        };
        Ok((Self { file: file.to_owned(), mount, tiers, rules, shown }, warnings))
    }

    /// The tier of this name.
    #[must_use]
    pub fn tier(&self, name: &str) -> Option<&TierConfig> {
        self.tiers.iter().find(|tier| tier.name == name)
    }

    /// The rules, compiled, with the catalog's ids for tiers and the numbers that it remembers of rules.
    #[must_use]
    pub fn rules(&self, tier_id: impl Fn(&str) -> TierId, known: &Ledger) -> Rules {
        let specs = self.rules.iter().enumerate().map(|(index, rule)| RuleSpec {
            index,
            pattern: rule.path.clone(),
            owners: rule.owners.clone(),
            home: tier_id(&rule.home),
            cold: rule.cold.as_ref().map(|cold| Cold {
                tier: tier_id(&cold.tier),
                idle: cold.idle,
                revalidate: cold.revalidate,
            }),
            overflow: rule.overflow.as_ref().map(|over| Overflow {
                tier: tier_id(&over.tier),
                stage: tier_id(&over.stage),
                revalidate: over.revalidate,
            }),
            stage: tier_id(&rule.stage),
            hot: rule.hot.iter().map(|name| tier_id(name)).collect(),
            promote: rule.promote,
            sizes: rule.sizes.clone(),
            revalidate: rule.revalidate,
            settle: rule.settle,
            write: rule.write,
            fsync: rule.fsync,
            open_upload: rule.open_upload,
            order: rule.order,
            order_by: rule.order_by.clone(),
            hold: rule.hold.clone(),
            hold_max: rule.hold_max,
            conflict: rule.conflict,
            dirty_max: rule.dirty_max,
            keep_hot: rule.keep_hot.clone(),
        });
        Rules::new(known.number(specs.collect()))
            .unwrap_or_else(|(at, wrong)| unreachable!("rule {at} was checked, but {wrong}"))
    }

    /// Whether a mount at `mountpoint` (absolute, symlinks resolved) leaves the tiers alone.
    ///
    /// # Errors
    /// That it lies in a tier, or a tier in it.
    pub fn check_mountpoint(&self, mountpoint: &Path) -> Result<(), Problems> {
        let mountpoint: PathBuf = mountpoint.components().collect();
        let mut findings = report::Findings::new(&self.file);
        for tier in &self.tiers {
            let Some(root) = tier.storage.root() else { continue };
            let (name, shown, root_shown) = (&tier.name, mountpoint.display(), root.display());
            match overlap(&mountpoint, root) {
                None => {}
                Some(Overlap::Same | Overlap::Inside) => findings.problem(
                    report::WHOLE_FILE,
                    format!("mount point {shown} lies in tier {name} ({root_shown}), so the mount would hold itself; mount elsewhere"),
                ),
                Some(Overlap::Around) => findings.problem(
                    report::WHOLE_FILE,
                    format!("tier {name} ({root_shown}) lies below mount point {shown}, so the mount would hide it; mount elsewhere"),
                ),
            }
        }
        findings.finish().map(|_| ())
    }

    /// The effective values and where each came from, as TOML.
    #[must_use]
    pub fn show(&self) -> impl fmt::Display + '_ {
        show::Page { file: &self.file, sections: &self.shown }
    }
}

/// The file's bytes, or the first of them when there are too many.
fn read_file(file: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(file)?.take(MAX_BYTES as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}
