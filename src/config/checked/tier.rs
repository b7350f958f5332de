//! `[tier.NAME]`

use super::url::{self, BlobLocation};
use super::{absolute_path, mount, rule, some_text, word};
use crate::config::expand::Environment;
use crate::config::keys::{self, Scope, SectionKind};
use crate::config::raw::Section;
use crate::config::report::Findings;
use crate::config::section::{Located, Reader};
use crate::config::show::{Origin, Shown};
use crate::config::suggest;
use crate::config::units::{self, Percent};
use std::path::PathBuf;
use std::time::Duration;

/// `[tier.NAME]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierConfig {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: TierKind,
    /// Where its bytes are.
    pub storage: Storage,
    /// What may be used here, in bytes; `None`: what the file system says.
    pub capacity: Option<u64>,
    /// How long changes by other tools may stay unseen; `None`: for ever.
    pub revalidate: Option<Duration>,
    /// How long a caller waits for it, retries included.
    pub deadline: Duration,
}

impl TierConfig {
    /// The directory, if the tier is one by kind.
    #[must_use]
    pub fn directory(&self) -> Option<&DirectoryConfig> {
        match &self.storage {
            Storage::Directory(directory) => Some(directory),
            Storage::Blob(_) => None,
        }
    }
}

/// What a tier is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TierKind {
    /// A directory on a Lustre file system.
    Lustre,
    /// A directory on a mounted Azure Files share.
    AzureFiles,
    /// A plain directory.
    Local,
    /// A container or prefix of Azure Blob Storage.
    Blob,
}

impl TierKind {
    const WORDS: [(&'static str, Self); 4] = [
        ("lustre", Self::Lustre),
        ("azure-files", Self::AzureFiles),
        ("local", Self::Local),
        ("blob", Self::Blob),
    ];

    /// Whether its bytes are files of this machine.
    #[must_use]
    pub fn is_directory(self) -> bool {
        self != Self::Blob
    }

    /// As in the config.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize].0
    }

    fn revalidate(self) -> &'static str {
        match self {
            Self::Lustre | Self::Local => "1s",
            Self::AzureFiles => "30s",
            Self::Blob => "60s",
        }
    }
}

/// Where a tier's bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In a directory.
    Directory(DirectoryConfig),
    /// In Blob Storage.
    Blob(BlobConfig),
}

/// A directory tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryConfig {
    /// The root.
    pub path: PathBuf,
    /// Above it hot copies are dropped…
    pub high_water: Percent,
    /// …to this.
    pub low_water: Percent,
}

/// A blob tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobConfig {
    /// Where.
    pub location: BlobLocation,
    /// How to sign in.
    pub auth: Auth,
    /// Which managed identity or service principal.
    pub client_id: Option<String>,
    /// A file with the SAS token.
    pub sas_file: Option<PathBuf>,
    /// A file with the account key.
    pub key_file: Option<PathBuf>,
}

/// How to sign in to Azure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// Whatever is there.
    Auto,
    /// Managed identity.
    Msi,
    /// Workload identity.
    Workload,
    /// Service principal.
    Spn,
    /// Shared access signature.
    Sas,
    /// Account key.
    Key,
    /// The az CLI's login.
    Cli,
}

impl Auth {
    const WORDS: [(&'static str, Self); 7] = [
        ("auto", Self::Auto),
        ("msi", Self::Msi),
        ("workload", Self::Workload),
        ("spn", Self::Spn),
        ("sas", Self::Sas),
        ("key", Self::Key),
        ("cli", Self::Cli),
    ];
}

/// What is known of a tier while the rest is checked.
pub(super) struct Draft {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) kind: Option<TierKind>,
    pub(super) storage: Option<Storage>,
    pub(super) revalidate: Located<Option<Duration>>,
    pub(super) revalidate_text: String,
    capacity: Option<u64>,
    deadline: Duration,
    pub(super) shown: Shown,
}

impl Draft {
    pub(super) fn finish(self) -> Option<TierConfig> {
        let Self { name, capacity, deadline, .. } = self;
        let (kind, storage, revalidate) = (self.kind?, self.storage?, self.revalidate.value);
        Some(TierConfig { name, kind, storage, capacity, revalidate, deadline })
    }
}

pub(super) fn read(section: Section, environment: Environment<'_>, findings: &mut Findings) -> Draft {
    let mut reader = Reader::new(section, findings);
    let kind = read_kind(&mut reader);
    if let Some(kind) = kind {
        refuse_keys_of_other_kinds(&mut reader, kind);
    }
    let directory = read_directory(&mut reader, kind);
    let blob = read_blob(&mut reader, kind, environment);
    let capacity = reader.value("capacity", &units::size_or_unlimited).value;
    let default = kind.map_or("1s", TierKind::revalidate);
    let revalidate = reader.value_or("revalidate", default, Origin::Default, &units::duration_or_never);
    let deadline = reader.value("deadline", &units::duration_above_zero).value;
    let (name, line) = (reader.name().to_owned(), reader.line());
    let shown = reader.finish();
    let revalidate_text = shown.settings.iter().find(|setting| setting.key == "revalidate");
    let revalidate_text = revalidate_text.map_or_else(String::new, |setting| setting.value.clone());
    Draft {
        name,
        line,
        kind,
        storage: directory.or(blob),
        revalidate,
        revalidate_text,
        capacity,
        deadline,
        shown,
    }
}

fn read_kind(reader: &mut Reader<'_>) -> Option<TierKind> {
    if !reader.has("kind") {
        let likely = match (reader.has("url"), reader.has("path")) {
            (true, false) => "\"blob\"",
            (false, true) => "\"lustre\", \"azure-files\" or \"local\"",
            _ => "\"lustre\", \"azure-files\", \"local\" or \"blob\"",
        };
        reader.missing(&format!("has no `kind`; write kind = {likely}"));
    }
    Some(reader.given("kind", &kind)?.value)
}

fn kind(text: &str) -> Result<TierKind, String> {
    // What people call these things elsewhere.
    let meant = match text.to_lowercase().as_str() {
        "nfs" | "smb" | "cifs" | "files" | "share" | "azurefile" | "afs" => "azure-files",
        "amlfs" | "scratch" => "lustre",
        "dir" | "directory" | "nvme" | "posix" | "disk" | "file" => "local",
        "azure" | "az" | "azblob" | "container" | "adls" | "abfs" | "azure-blob" => "blob",
        _ => return word(text, &TierKind::WORDS),
    };
    Err(format!("is unknown; did you mean \"{meant}\"?"))
}

fn refuse_keys_of_other_kinds(reader: &mut Reader<'_>, kind: TierKind) {
    let (other, hint) = match kind.is_directory() {
        true => (Scope::BlobTiers, "write path = \"/its/directory\""),
        false => {
            (Scope::DirectoryTiers, "write url = \"https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX\"")
        }
    };
    let foreign = keys::KEYS.iter().filter(|key| key.section == SectionKind::Tier && key.scope == other);
    for key in foreign.filter(|key| reader.has(key.name)).collect::<Vec<_>>() {
        let needs_place = !reader.has(if kind.is_directory() { "path" } else { "url" });
        let better = match key.name {
            "url" | "path" if needs_place => hint,
            _ => "remove it",
        };
        let message = format!("`{}` means nothing to a tier of kind {}; {better}", key.name, kind.word());
        reader.problem(reader.line_of(key.name), message);
    }
}

fn read_directory(reader: &mut Reader<'_>, kind: Option<TierKind>) -> Option<Storage> {
    if kind.is_some_and(|kind| !kind.is_directory()) {
        return None;
    }
    if kind.is_some() && !reader.has("path") && !reader.has("url") {
        reader.missing("has no `path`; write path = \"/its/directory\"");
    }
    let path = reader.given("path", &tier_path);
    kind?;
    let high_water = reader.value("high_water", &units::percent);
    let low_water = reader.value("low_water", &units::percent);
    if low_water.value >= high_water.value {
        let (low, high) = (low_water.value.value(), high_water.value.value());
        let (line, said) =
            if reader.has("low_water") { (low_water.line, "") } else { (high_water.line, "default ") };
        let better =
            format!("write less than \"{high}%\" for low_water, or more than \"{low}%\" for high_water");
        reader.problem(line, format!("low_water ({said}{low}%) is not below high_water ({high}%); {better}"));
    }
    let (high_water, low_water) = (high_water.value, low_water.value);
    Some(Storage::Directory(DirectoryConfig { path: path?.value, high_water, low_water }))
}

fn tier_path(text: &str) -> Result<PathBuf, String> {
    match absolute_path(text)? {
        root if root.parent().is_none() => {
            Err("is the root of the machine; write a directory of its own".into())
        }
        path => Ok(path),
    }
}

fn read_blob(
    reader: &mut Reader<'_>,
    kind: Option<TierKind>,
    environment: Environment<'_>,
) -> Option<Storage> {
    if kind.is_some_and(TierKind::is_directory) {
        return None;
    }
    if kind.is_some() && !reader.has("url") && !reader.has("path") {
        reader
            .missing("has no `url`; write url = \"https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX\"");
    }
    let location = reader.given("url", &|text| url::parse(text, environment));
    let client_id = reader.given("client_id", &some_text).map(|given| given.value);
    let sas_file = reader.given("sas_file", &absolute_path).map(|given| given.value);
    let key_file = reader.given("key_file", &absolute_path).map(|given| given.value);
    kind?;
    let auth = reader.value("auth", &|text| word(text, &Auth::WORDS));
    let location = location?.value;
    check_auth(reader, &auth, &location, environment);
    Some(Storage::Blob(BlobConfig { location, auth: auth.value, client_id, sas_file, key_file }))
}

fn check_auth(
    reader: &mut Reader<'_>,
    auth: &Located<Auth>,
    location: &BlobLocation,
    environment: Environment<'_>,
) {
    if reader.has("sas_file") && reader.has("key_file") {
        let line = reader.line_of("key_file");
        reader.problem(line, "`key_file` and `sas_file` exclude each other; keep one");
    }
    let wrong_for = |key: &str| match (key, auth.value) {
        (_, Auth::Auto) | ("sas_file", Auth::Sas) | ("key_file", Auth::Key) => None,
        ("client_id", Auth::Msi | Auth::Workload | Auth::Spn) => None,
        ("sas_file", _) => Some("sas"),
        ("key_file", _) => Some("key"),
        _ => Some("msi"),
    };
    for key in ["sas_file", "key_file", "client_id"] {
        if let Some(right) = wrong_for(key).filter(|_| reader.has(key)) {
            let line = reader.line_of(key);
            reader.problem(
                line,
                format!(
                    "`{key}` is not used with this `auth`; write auth = \"{right}\" or \"auto\", or remove it"
                ),
            );
        }
    }
    let (key, names): (_, &[&str]) = match auth.value {
        Auth::Sas => ("sas_file", &["AZURE_STORAGE_SAS_TOKEN"]),
        Auth::Key => {
            ("key_file", &["AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY"])
        }
        _ => return,
    };
    let has_secret = reader.has(key) || environment.first_of(names).is_some();
    if !has_secret && !location.is_emulator() && !matches!(location, BlobLocation::Directory(_)) {
        let message =
            format!("this `auth` needs a secret; write {key} = \"/path/of/a/file\", or set {}", names[0]);
        reader.problem(auth.line, message);
    }
}

/// What is wrong with `name` as a directory tier, after the key and value; `None` if nothing is.
pub(super) fn must_be_directory(name: &str, tiers: &[Draft], role: &str) -> Option<String> {
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
pub(super) fn unknown(name: &str, tiers: &[Draft]) -> String {
    let names = || tiers.iter().map(|tier| tier.name.as_str());
    match suggest::nearest(name, names()) {
        Some(near) => format!("is no tier; did you mean \"{near}\"?"),
        None if tiers.is_empty() => format!("is no tier; add [tier.{name}]"),
        None => format!("is no tier; write {}, or add [tier.{name}]", suggest::either(names())),
    }
}

pub(super) fn warn_of_unused(
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
