//! Reading every dialect, nearest first. Metadata is anybody's: what makes no sense is as good as absent.

use super::text::{decode, parse_modtime, parse_rfc3339, parse_symbolic};
use super::{KINDS, Metadata};
use crate::types::{Attrs, FileKind, Timestamp};

/// Longest target of a symlink (PATH_MAX without its NUL).
const TARGET_MAX: u64 = 4095;

/// The keys that [`object`] makes attributes of: replaced with them.
pub(super) fn carries_attributes(key: &str) -> bool {
    const KEYS: [&str; 14] = [
        "owner",
        "group",
        "permissions",
        "modtime",
        "mtime",
        "mode",
        "posix_owner",
        "posix_group",
        "hdi_permission",
        "tierfs_mode",
        "tierfs_mtime",
        "tierfs_xattrs",
        "tierfs_link",
        "tierfs_write_id",
    ];
    KEYS.contains(&key)
}

/// What kind of file a blob of `size` bytes with `metadata` is, its target and its device number.
///
/// A marker or link that has bytes it should not have is shown as a regular file: no bytes are lost from sight.
pub(in super::super) fn kind(metadata: &Metadata, size: u64) -> (FileKind, Option<Vec<u8>>, u32) {
    let is =
        |key: &str, value: &str| metadata.get(key).is_some_and(|found| found.eq_ignore_ascii_case(value));
    if size == 0 {
        if is("hdi_isfolder", "true") || is("ftype", "DIR") {
            return (FileKind::Directory, None, 0);
        }
        if let Some((_, kind)) = KINDS.iter().find(|(name, _)| is("tierfs_kind", name)) {
            return (*kind, None, number(metadata, "tierfs_rdev").unwrap_or(0));
        }
    } else if size <= TARGET_MAX && (is("is_symlink", "true") || is("ftype", "LNK")) {
        let target = metadata.get("tierfs_target").map(|text| decode(text));
        return (FileKind::Symlink, target.filter(|target| target.len() as u64 == size), 0);
    }
    (FileKind::Regular, None, 0)
}

/// The attributes that `metadata` carries, in whatever dialect.
pub(in super::super) fn object(metadata: &Metadata) -> Attrs {
    let hdi = metadata.get("hdi_permission").and_then(|text| serde_json::from_str::<Hdi>(text).ok());
    let hdi = hdi.unwrap_or_default();
    let hdi_number = |text: Option<String>| text.and_then(|text| text.parse().ok());
    Attrs {
        mode: octal(metadata, "tierfs_mode")
            .or_else(|| permissions(metadata))
            .or_else(|| octal(metadata, "mode"))
            .or_else(|| hdi.permissions.as_deref().and_then(parse_symbolic)),
        uid: number(metadata, "owner")
            .or_else(|| number(metadata, "posix_owner"))
            .or_else(|| hdi_number(hdi.owner)),
        gid: number(metadata, "group")
            .or_else(|| number(metadata, "posix_group"))
            .or_else(|| hdi_number(hdi.group)),
        mtime: mtime(metadata),
        xattrs: metadata.get("tierfs_xattrs").map(|text| xattrs(text)).unwrap_or_default(),
        link: text(metadata, "tierfs_link"),
        write_id: text(metadata, "tierfs_write_id"),
    }
}

/// WASB's one JSON value.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Hdi {
    owner: Option<String>,
    group: Option<String>,
    permissions: Option<String>,
}

fn text(metadata: &Metadata, key: &str) -> Option<String> {
    metadata.get(key).and_then(|text| String::from_utf8(decode(text)).ok())
}

fn number(metadata: &Metadata, key: &str) -> Option<u32> {
    metadata.get(key)?.parse().ok()
}

fn octal(metadata: &Metadata, key: &str) -> Option<u32> {
    parse_octal(metadata.get(key)?)
}

fn parse_octal(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 8).ok().map(|mode| mode & 0o7777)
}

/// AMLFS and AzCopy use one key for octal permission bits and for a decimal `st_mode`.
fn permissions(metadata: &Metadata) -> Option<u32> {
    let text = metadata.get("permissions")?;
    let is_octal = text.starts_with('0') || metadata.contains_key("owner") || metadata.contains_key("group");
    if is_octal {
        return parse_octal(text);
    }
    text.parse::<u32>().ok().map(|mode| mode & 0o7777)
}

fn mtime(metadata: &Metadata) -> Option<Timestamp> {
    let nanos = |key: &str| metadata.get(key).and_then(|text| text.parse().ok());
    nanos("tierfs_mtime")
        .or_else(|| metadata.get("modtime").and_then(|text| parse_modtime(text)))
        .or_else(|| nanos("modtime"))
        .or_else(|| metadata.get("mtime").and_then(|text| parse_rfc3339(text)))
        .map(Timestamp)
}

fn xattrs(text: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    text.split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (decode(name), decode(value)))
        .filter(|(name, _)| !name.is_empty() && name.len() <= 255 && !name.contains(&0))
        .collect()
}
