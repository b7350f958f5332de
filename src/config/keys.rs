//! Every key of the config in one table: what the README shows, what errors suggest, what a default is.

use std::fmt::Write as _;

/// A kind of section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionKind {
    /// `[mount]`
    Mount,
    /// `[tier.NAME]`
    Tier,
    /// `[[rule]]`
    Rule,
}

impl SectionKind {
    /// All of them, in the order of the README.
    pub const ALL: [Self; 3] = [Self::Mount, Self::Tier, Self::Rule];

    /// As it is written.
    #[must_use]
    pub fn heading(self) -> &'static str {
        match self {
            Self::Mount => "[mount]",
            Self::Tier => "[tier.NAME]",
            Self::Rule => "[[rule]]",
        }
    }
}

/// For which tiers a key means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everywhere in its section.
    All,
    /// `lustre`, `azure-files` and `local`.
    DirectoryTiers,
    /// `blob`.
    BlobTiers,
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Any text.
    Text,
    /// An absolute path.
    Path,
    /// A URL.
    Url,
    /// An address with a port.
    Address,
    /// Dollars.
    Price,
    /// Bytes with a unit.
    Size,
    /// A number of things.
    Count,
    /// A share of a whole.
    Percent,
    /// A duration with a unit.
    Duration,
    /// The name of a tier.
    Tier,
    /// One tier or a list of them.
    Tiers,
    /// A glob over paths below the mount.
    Glob,
    /// One of them or a list.
    Globs,
    /// A list of names.
    Names,
    /// One number of a user or group, or a list of them.
    Ids,
    /// `{ group = GLOB, last = NUMBER }`.
    Group,
    /// A tier and a time, as a table.
    Cold,
    /// One of these words.
    Words(&'static [&'static str]),
}

impl Unit {
    /// For the table.
    fn describe(self) -> String {
        match self {
            Self::Text => "text".into(),
            Self::Path => "absolute path".into(),
            Self::Url => "URL".into(),
            Self::Address => "port, or address with port (`\"127.0.0.1:9123\"`)".into(),
            Self::Price => "dollars (`\"0.0208\"`)".into(),
            Self::Size => "size (`\"512MiB\"`)".into(),
            Self::Count => "whole number (`\"500\"`)".into(),
            Self::Percent => "percent (`\"85%\"`)".into(),
            Self::Duration => "duration (`\"10m\"`)".into(),
            Self::Tier => "tier".into(),
            Self::Tiers => "tier, or list of tiers".into(),
            Self::Glob => "glob".into(),
            Self::Group | Self::Cold => format!("`{}`", self.example()),
            Self::Globs => "glob, or list of globs".into(),
            Self::Names => "list of names".into(),
            Self::Ids => "id (`\"1000\"`), or list of ids".into(),
            Self::Words(words) => {
                words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// Whether so many values in a list are one value.
    pub(super) fn is_list(self, values: usize) -> bool {
        match self {
            Self::Globs | Self::Names | Self::Ids => true,
            Self::Tiers => values > 0,
            _ => false,
        }
    }

    /// A value that would be right, for errors.
    pub(super) fn example(self) -> &'static str {
        match self {
            Self::Text => "\"some text\"",
            Self::Path => "\"/an/absolute/path\"",
            Self::Url => "\"https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX\"",
            Self::Address => "\"127.0.0.1:9123\"",
            Self::Price => "\"0.0208\"",
            Self::Size => "\"512MiB\"",
            Self::Count => "\"500\"",
            Self::Percent => "\"85%\"",
            Self::Duration => "\"10m\"",
            Self::Tier => "\"scratch\"",
            Self::Tiers => "\"scratch\" or [\"nvme\", \"scratch\"]",
            Self::Glob => "\"datasets/**\"",
            Self::Cold => "{ tier = \"blob\", idle = \"30d\" }",
            Self::Group => "{ group = \"checkpoints/*/*\", last = 3 }",
            Self::Globs => "\"**/*.tmp\" or [\"**/*.tmp\", \"**/*.part\"]",
            Self::Names => "[\"rsync\", \"grep\"]",
            Self::Ids => "\"1000\" or [\"1000\", \"1001\"]",
            Self::Words(_) => "one of its words in quotes",
        }
    }
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct KeyInfo {
    /// Where it stands.
    pub section: SectionKind,
    /// Its name.
    pub name: &'static str,
    /// For which tiers.
    pub scope: Scope,
    /// How its value is written.
    pub unit: Unit,
    /// The default as it would be written, or in words where it depends on other keys.
    pub default: DefaultValue,
    /// One line.
    pub doc: &'static str,
}

/// What holds when a key is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultValue {
    /// The key must be given.
    Required,
    /// This text.
    Text(&'static str),
    /// Something that depends on the rest of the config.
    Depends(&'static str),
    /// Nothing.
    None,
}

/// Whether a changed value is taken up without a new mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// Only a new mount takes it up.
    AtMount,
    /// `tierfs reload` does.
    WhileMounted,
}

/// What `tierfs reload` takes up beside all keys of rules.
const RELOADED: &[(SectionKind, &str)] = &[
    (Mount, "drain_timeout"),
    (Mount, "stage"),
    (Tier, "high_water"),
    (Tier, "low_water"),
    (Tier, "upload_max"),
    (Tier, "move_max"),
    (Tier, "move_calls_max"),
    (Tier, "revalidate"),
];

impl KeyInfo {
    /// Whether a changed value is taken up without a new mount.
    #[must_use]
    pub fn reload(&self) -> Reload {
        let is_listed = || RELOADED.contains(&(self.section, self.name));
        if self.section == Rule || is_listed() { Reload::WhileMounted } else { Reload::AtMount }
    }
}

const fn key(
    section: SectionKind,
    name: &'static str,
    scope: Scope,
    unit: Unit,
    default: DefaultValue,
    doc: &'static str,
) -> KeyInfo {
    KeyInfo { section, name, scope, unit, default, doc }
}

/// The kinds of tiers.
pub(super) const KINDS: &[&str] = &["lustre", "azure-files", "local", "blob"];
/// The ways to sign in.
pub(super) const AUTHS: &[&str] = &["auto", "msi", "workload", "spn", "sas", "key", "cli"];
/// The access tiers that blobs can be read from at once.
pub(super) const ACCESS_TIERS: &[&str] = &["hot", "cool", "cold"];
/// What close waits for.
pub(super) const WRITES: &[&str] = &["back", "through"];
/// What fsync waits for.
pub(super) const FSYNCS: &[&str] = &["stage", "home"];
/// Which commits keep their order.
pub(super) const ORDERS: &[&str] = &["strict", "barrier", "none"];
/// What becomes of both versions of a conflict.
pub(super) const CONFLICTS: &[&str] = &["keep-both", "overwrite"];
/// The ways to promote.
pub(super) const PROMOTES: &[&str] = &["heat", "on-read", "never"];

use DefaultValue::{Depends, None, Required, Text};
use Scope::{All, BlobTiers, DirectoryTiers};
use SectionKind::{Mount, Rule, Tier};

/// The table.
#[rustfmt::skip]
pub const KEYS: &[KeyInfo] = &[
    key(Mount, "catalog", All, Unit::Url, Depends("sqlite:///var/lib/tierfs/<config file's name>.db"),
        "the database of names, attributes and placement; \"memory\" forgets it with the mount"),
    key(Mount, "control", All, Unit::Path, Depends("/run/tierfs/<config file's name>.sock"),
        "the socket for the commands and `tierstat`"),
    key(Mount, "metrics", All, Unit::Address, None,
        "where `/metrics`, `/healthz` and `/livez` answer by HTTP, to anybody who reaches it; a port alone is 127.0.0.1"),
    key(Mount, "memory", All, Unit::Size, Text("512MiB"),
        "block cache, read-ahead and upload buffers together; at least 64MiB"),
    key(Mount, "drain_timeout", All, Unit::Duration, Text("10m"),
        "how long `unmount` and SIGTERM wait for dirty data before they exit non-zero and keep it"),
    key(Mount, "stage", All, Unit::Tier, None,
        "the directory tier where rules without `stage` or `hot` stage"),
    key(Mount, "sweepers", All, Unit::Names, Depends("`[\"find\", \"grep\", \"rg\", \"updatedb\", \"tracker-extract\", \"baloo_file\", \"clamscan\", \"clamd\", \"rsync\", \"rclone\", \"restic\", \"borg\"]`"),
        "programs, by the names that `ps` shows, that read from home without making hot copies or heat: searches and backups"),
    key(Tier, "kind", All, Unit::Words(KINDS), Required,
        "what the tier is; all but `blob` are directories"),
    key(Tier, "path", DirectoryTiers, Unit::Path, Required,
        "the directory on the mounted file system; only `.tierfs/` in it is tierfs's own"),
    key(Tier, "url", BlobTiers, Unit::Url, Required,
        "`https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX`, `az://CONTAINER/PREFIX` (account from AZURE_STORAGE_ACCOUNT), `http://HOST:PORT/ACCOUNT/CONTAINER` (emulators) or `file:///DIR` (demo)"),
    key(Tier, "capacity", All, Unit::Size, Text("unlimited"),
        "what may be used here; \"unlimited\" is what the file system says (Blob: 5PiB, for `df`)"),
    key(Tier, "high_water", DirectoryTiers, Unit::Percent, Text("85%"),
        "of capacity: above it hot copies are dropped, and new files go to the `overflow` of their rule"),
    key(Tier, "low_water", DirectoryTiers, Unit::Percent, Text("75%"),
        "of capacity: where dropping hot copies stops, and files that went to `overflow` come home"),
    key(Tier, "auth", BlobTiers, Unit::Words(AUTHS), Text("auto"),
        "how to sign in: managed identity, workload identity, service principal, SAS, account key, az CLI; \"auto\" takes what is there"),
    key(Tier, "client_id", BlobTiers, Unit::Text, None,
        "which managed identity or service principal"),
    key(Tier, "resource_id", BlobTiers, Unit::Text, None,
        "a managed identity by its resource id"),
    key(Tier, "sas_file", BlobTiers, Unit::Path, None,
        "a file with the SAS token (or AZURE_STORAGE_SAS_TOKEN)"),
    key(Tier, "key_file", BlobTiers, Unit::Path, None,
        "a file with the account key (or AZURE_STORAGE_ACCESS_KEY)"),
    key(Tier, "access_tier", BlobTiers, Unit::Words(ACCESS_TIERS), Depends("the account's"),
        "where new blobs are stored; cool and cold ones cost for at least 30 and 90 days, so not for checkpoints that live shorter"),
    key(Tier, "upload_max", BlobTiers, Unit::Size, Text("unlimited"),
        "bytes a second that are sent there, all uploads of this mount together"),
    key(Tier, "move_max", All, Unit::Size, Text("unlimited"),
        "bytes a second that background work (hot copies, files that change their home) moves from or to the tier; closed files on their way home are not limited by it"),
    key(Tier, "move_calls_max", All, Unit::Count, Text("unlimited"),
        "calls a second that background work makes there"),
    key(Tier, "revalidate", All, Unit::Duration, Depends("local, lustre: 1s; azure-files: 30s; blob: 60s"),
        "how long changes by other tools may stay unseen; \"never\" for immutable data"),
    key(Tier, "deadline", All, Unit::Duration, Text("60s"),
        "how long a caller waits for the tier, retries included, before EIO or ETIMEDOUT (uploads never give up)"),
    key(Tier, "price", All, Unit::Price, Depends("lustre: 0.145; azure-files: 0.16; local: 0; blob: 0.0208, cool 0.0115, cold 0.0045"),
        "what a GiB costs there in a month, for `tierstat cost`; the defaults are typical list prices, yours depend on region and performance"),
    key(Rule, "path", All, Unit::Glob, Required,
        "which paths, relative to the mount; `p/**` is `p` and all below it; the first rule that matches wins"),
    key(Rule, "uid", All, Unit::Ids, None,
        "only for files that one of these users owns; with `gid` both must fit; the owner counts when a file is made, renamed or given to another"),
    key(Rule, "gid", All, Unit::Ids, None,
        "only for files of one of these groups"),
    key(Rule, "home", All, Unit::Tier, Required,
        "the tier that must end up with the durable copy"),
    key(Rule, "stage", All, Unit::Tier, Depends("for a blob home: the first `hot` tier, else [mount] stage"),
        "the directory tier that takes new bytes first"),
    key(Rule, "cold", All, Unit::Cold, None,
        "where files go that nobody has opened or changed for `idle`, from when a mount with this key first looked on; they are found and read there, and come home when they are read (not by `sweepers`) or written"),
    key(Rule, "overflow", All, Unit::Tier, None,
        "where new files go while their home, a directory tier, is over its `high_water` or has no room: they are written and found there, and move home when that is below its `low_water`"),
    key(Rule, "hot", All, Unit::Tiers, None,
        "directory tiers for hot copies, nearest first"),
    key(Rule, "promote", All, Unit::Words(PROMOTES), Depends("heat with `hot`, else never"),
        "when a file that is read from afar gets a hot copy: `heat` while there is room, then only if it is read clearly more often than what leaves for it; `on-read` in place of whatever is worth least"),
    key(Rule, "min_size", All, Unit::Size, None,
        "smaller files get no hot copy by themselves, and do not go to the `cold` tier; says nothing about their home"),
    key(Rule, "max_size", All, Unit::Size, None,
        "nor do larger ones"),
    key(Rule, "keep_hot", All, Unit::Group, None,
        "groups are directories: of each parent the newest `last`, by their last commit, keep their hot copies above the high water; those of older ones leave first"),
    key(Rule, "write", All, Unit::Words(WRITES), Text("back"),
        "what close waits for at a blob home: the stage (the upload comes later), or \"through\": the commit, whose errors it returns"),
    key(Rule, "fsync", All, Unit::Words(FSYNCS), Text("stage"),
        "what fsync waits for at a blob home: the disk of the stage, or \"home\": the commit, whose errors it returns; fsync of a directory waits for what was renamed, made and removed in it"),
    key(Rule, "open_upload", All, Unit::Duration, Text("never"),
        "how often a file that stays open for writing is brought to a blob home as it is then, if it has changed; at least 1s"),
    key(Rule, "order", All, Unit::Words(ORDERS), Depends("strict; with write = \"through\" none"),
        "which commits keep the order in which files were closed: all; \"barrier\": new names go in parallel, and overwrites, renames and deletes wait for all before them and hold all after them; or none but those of one file and one name"),
    key(Rule, "order_by", All, Unit::Glob, None,
        "directories whose files keep an order of their own, like `\"checkpoints/*\"` for one a run; without it all files of the rule keep one"),
    key(Rule, "hold", All, Unit::Globs, Depends("`[\"**/tmp-*/**\", \"**/*.tmp\", \"**/*.incomplete\", \"**/_temporary/**\"]`"),
        "names that are not committed to a blob home until they are renamed to others, flushed or unmounted"),
    key(Rule, "hold_max", All, Unit::Duration, Text("24h"),
        "how long such a name is held at most"),
    key(Rule, "conflict", All, Unit::Words(CONFLICTS), Text("keep-both"),
        "if others changed a file at its home while it was dirty here: keep both versions (`name.conflict-<host>-<time>`), or let ours replace theirs (the last writer wins)"),
    key(Rule, "dirty_max", All, Unit::Size, Text("unlimited"),
        "bytes of files closed under this rule and not at home, on this mount: above it opens for writing wait while any of them can be committed"),
    key(Rule, "settle", All, Unit::Duration, Text("2s"),
        "how long an upload waits after the last close, at most ten times as long after the first: renames, rewrites and deletes within it cost nothing"),
    key(Rule, "revalidate", All, Unit::Duration, Depends("the home tier's"),
        "as in a tier, for these paths"),
];

/// The key of this name in this kind of section.
#[must_use]
pub fn find(section: SectionKind, name: &str) -> Option<&'static KeyInfo> {
    KEYS.iter().find(|key| key.section == section && key.name == name)
}

/// The README's table.
#[must_use]
pub fn markdown() -> String {
    let mut table =
        String::from("| key | value | default | reload | what it is |\n| --- | --- | --- | --- | --- |\n");
    for section in SectionKind::ALL {
        for key in KEYS.iter().filter(|key| key.section == section) {
            let default = match key.default {
                Required => "required".to_owned(),
                Text(text) => format!("`\"{text}\"`"),
                Depends(words) => words.to_owned(),
                None => "none".to_owned(),
            };
            let scope = match key.scope {
                All => "",
                DirectoryTiers => "directory tiers: ",
                BlobTiers => "blob tiers: ",
            };
            let reload = match key.reload() {
                Reload::AtMount => "no",
                Reload::WhileMounted => "yes",
            };
            // Writing to a String can't fail.
            let _ = writeln!(
                table,
                "| `{} {}` | {} | {} | {reload} | {scope}{} |",
                section.heading(),
                key.name,
                key.unit.describe(),
                escaped(&default),
                escaped(key.doc)
            );
        }
    }
    table
}

/// `<name>` outside backticks would be taken for HTML.
fn escaped(text: &str) -> String {
    text.replace('<', "&lt;").replace('>', "&gt;")
}
