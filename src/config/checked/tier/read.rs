//! Reads a tier's section and checks what can be checked without the others.

use super::{BlobConfig, DirectoryConfig, Storage, TierConfig, TierKind};
use crate::config::checked::url;
use crate::config::checked::{absolute_path, some_text, word};
use crate::config::expand::Environment;
use crate::config::keys::{self, Scope, SectionKind};
use crate::config::raw::Section;
use crate::config::report::Findings;
use crate::config::section::{Located, Reader};
use crate::config::show::{Origin, Shown};
use crate::config::units;
use crate::types::blob::{AccessTier, Auth, BlobLocation, KEY_NAMES, SAS_NAMES};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

/// What is known of a tier while the rest is checked.
pub(in crate::config::checked) struct Draft {
    pub(in crate::config::checked) name: String,
    pub(in crate::config::checked) line: usize,
    pub(in crate::config::checked) kind: Option<TierKind>,
    pub(in crate::config::checked) storage: Option<Storage>,
    pub(in crate::config::checked) revalidate: Located<Option<Duration>>,
    capacity: Option<u64>,
    deadline: Duration,
    price_micros: u64,
    move_max: Option<NonZeroU64>,
    move_calls_max: Option<NonZeroU64>,
    pub(in crate::config::checked) shown: Shown,
}

impl Draft {
    pub(in crate::config::checked) fn finish(self) -> Option<TierConfig> {
        let Self { name, capacity, deadline, price_micros, move_max, move_calls_max, .. } = self;
        let (kind, storage, revalidate) = (self.kind?, self.storage?, self.revalidate.value);
        Some(TierConfig {
            name,
            kind,
            storage,
            capacity,
            revalidate,
            deadline,
            price_micros,
            move_max,
            move_calls_max,
        })
    }
}

pub(in crate::config::checked) fn read(
    section: Section,
    environment: Environment<'_>,
    findings: &mut Findings,
) -> Draft {
    let mut reader = Reader::new(section, findings);
    let kind = read_kind(&mut reader);
    if let Some(kind) = kind {
        refuse_keys_of_other_kinds(&mut reader, kind);
    }
    let directory = read_directory(&mut reader, kind);
    let blob = read_blob(&mut reader, kind, environment);
    let capacity = reader.value("capacity", &units::size_or_unlimited).value;
    let default = kind.map_or("1s", TierKind::default_revalidate);
    let revalidate = reader.value_or("revalidate", default, Origin::Default, &units::duration_or_never);
    let deadline = reader.value("deadline", &units::duration_above_zero).value;
    let stored = match &blob {
        Some(Storage::Blob(blob)) => blob.access_tier,
        _ => None,
    };
    let default = kind.map_or("0", |kind| kind.default_price(stored));
    let price_micros = reader.value_or("price", default, Origin::Default, &units::price).value;
    let move_max = reader.value("move_max", &units::size_or_unlimited).value.and_then(NonZeroU64::new);
    let move_calls_max =
        reader.value("move_calls_max", &units::count_or_unlimited).value.and_then(NonZeroU64::new);
    let (name, line) = (reader.name().to_owned(), reader.line());
    let shown = reader.finish();
    let storage = directory.or(blob);
    Draft {
        name,
        line,
        kind,
        storage,
        revalidate,
        capacity,
        deadline,
        price_micros,
        move_max,
        move_calls_max,
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
    let location = reader.given("url", &|text| Ok((url::parse(text, environment)?, text.starts_with("az:"))));
    if location.as_ref().is_some_and(|location| location.value.1) {
        reader.note_name("url", url::ACCOUNT_NAMES[0]);
    }
    let client_id = reader.given("client_id", &some_text).map(|given| given.value);
    let sas_file = reader.given("sas_file", &absolute_path).map(|given| given.value);
    let key_file = reader.given("key_file", &absolute_path).map(|given| given.value);
    let resource_id = reader.given("resource_id", &some_text).map(|given| given.value);
    let access_tier = reader.given("access_tier", &access_tier).map(|given| given.value);
    kind?;
    let upload_max = reader.value("upload_max", &units::size_or_unlimited).value.and_then(NonZeroU64::new);
    let auth = reader.value("auth", &|text| word(text, &Auth::WORDS));
    let (location, _) = location?.value;
    check_auth(reader, &auth, &location, environment);
    let auth = auth.value;
    Some(Storage::Blob(BlobConfig {
        location,
        auth,
        client_id,
        sas_file,
        key_file,
        resource_id,
        access_tier,
        upload_max,
    }))
}

fn access_tier(text: &str) -> Result<AccessTier, String> {
    let text = text.to_lowercase();
    match text.as_str() {
        "archive" => {
            Err("can't be read back for hours; write \"cold\", or archive by a rule of the account".into())
        }
        _ => word(&text, &AccessTier::WORDS),
    }
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
        ("client_id", Auth::Msi | Auth::Workload | Auth::Spn) | ("resource_id", Auth::Msi) => None,
        ("sas_file", _) => Some("sas"),
        ("key_file", _) => Some("key"),
        _ => Some("msi"),
    };
    for key in ["sas_file", "key_file", "client_id", "resource_id"] {
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
        Auth::Sas => ("sas_file", &SAS_NAMES),
        Auth::Key => ("key_file", &KEY_NAMES),
        _ => return,
    };
    let has_secret = reader.has(key) || environment.first_of(names).is_some();
    if !has_secret && !location.is_emulator() && !matches!(location, BlobLocation::Directory(_)) {
        let message =
            format!("this `auth` needs a secret; write {key} = \"/path/of/a/file\", or set {}", names[0]);
        reader.problem(auth.line, message);
    }
}
