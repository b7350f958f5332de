//! POSIX attributes as blob metadata: one dialect written, all that are in use read. Pure functions.
//!
//! Written is what Azure Managed Lustre's blob integration reads: `owner`, `group`, `permissions` (four octal
//! digits), `modtime` (to the second), `hdi_isfolder`, `is_symlink`, `ftype`. What that can't hold stands in keys of
//! our own, only where it is needed:
//!
//! | key | value |
//! | --- | --- |
//! | `tierfs_mode` | permission bits in octal, where there is set-uid or set-gid, or no owner to tell octal from decimal |
//! | `tierfs_mtime` | nanoseconds since the epoch, where `modtime` would lose some |
//! | `tierfs_xattrs` | `name=value&…`, both percent-encoded |
//! | `tierfs_kind`, `tierfs_rdev` | `fifo`, `socket`, `char` or `block`, and the device number |
//! | `tierfs_target` | a symlink's target again (the content is the truth), so that a listing shows it |
//! | `tierfs_link` | which names are one hard-linked file |
//! | `tierfs_write_id` | who wrote this version |

mod read;
mod text;

pub(super) use read::{kind, object};

use crate::error::{Error, Kind, Result};
use crate::tier::Special;
use crate::types::{Attrs, FileKind};
use std::collections::BTreeMap;
use text::encode;

/// Metadata of a blob: lower-case names, ASCII values.
pub(super) type Metadata = BTreeMap<String, String>;

/// Most bytes of names and values together.
const METADATA_MAX: usize = 8 * 1024;

/// Longest encoded target that is worth its place among the metadata.
const TARGET_MAX: usize = 2 * 1024;

/// The names of special kinds in `tierfs_kind`.
const KINDS: [(&str, FileKind); 4] = [
    ("fifo", FileKind::Fifo),
    ("socket", FileKind::Socket),
    ("char", FileKind::CharDevice),
    ("block", FileKind::BlockDevice),
];

/// Whether `attrs` fit into a blob's metadata, so that `setxattr` can say ENOSPC before an upload fails.
#[must_use]
pub(super) fn fits(attrs: &Attrs) -> bool {
    // A write id comes with the commit.
    let reserve = "tierfs_write_id".len() + 64;
    size(&of_attrs(attrs)) + reserve <= METADATA_MAX
}

/// The metadata of a regular file with `attrs`.
///
/// # Errors
/// [`Kind::NoSpace`] if it is more than a blob can carry.
pub(super) fn regular(attrs: &Attrs) -> Result<Metadata> {
    checked(of_attrs(attrs))
}

/// The metadata of `special` with `attrs`.
///
/// # Errors
/// [`Kind::NoSpace`] as above, [`Kind::Invalid`] for a node that is none.
pub(super) fn special(special: &Special, attrs: &Attrs) -> Result<Metadata> {
    let mut metadata = of_attrs(attrs);
    let mut put = |key: &str, value: String| metadata.insert(key.into(), value);
    match special {
        Special::Directory => {
            put("hdi_isfolder", "true".into());
        }
        Special::Symlink(target) => {
            put("is_symlink", "true".into());
            put("ftype", "LNK".into());
            let target = encode(target);
            if target.len() <= TARGET_MAX {
                put("tierfs_target", target);
            }
        }
        Special::Node { kind, rdev } => {
            let name = KINDS
                .iter()
                .find(|(_, known)| known == kind)
                .ok_or_else(|| Error::new(Kind::Invalid, "not a fifo, socket or device"))?;
            put("tierfs_kind", name.0.into());
            put("tierfs_rdev", rdev.to_string());
        }
    }
    // The second copy of a long target must not cost somebody an extended attribute.
    if size(&metadata) > METADATA_MAX {
        metadata.remove("tierfs_target");
    }
    checked(metadata)
}

/// `attrs` in place of those in `old`, keeping what says what the blob is and what is not ours.
///
/// # Errors
/// [`Kind::NoSpace`] if it is more than a blob can carry.
pub(super) fn replaced(old: &Metadata, attrs: &Attrs) -> Result<Metadata> {
    let mut metadata = old.clone();
    // Who wrote the bytes does not change with their attributes.
    metadata.retain(|key, _| key == "tierfs_write_id" || !read::carries_attributes(key));
    metadata.extend(of_attrs(attrs));
    checked(metadata)
}

fn of_attrs(attrs: &Attrs) -> Metadata {
    let mut metadata = Metadata::new();
    let mut put = |key: &str, value: String| metadata.insert(key.into(), value);
    if let Some(uid) = attrs.uid {
        put("owner", uid.to_string());
    }
    if let Some(gid) = attrs.gid {
        put("group", gid.to_string());
    }
    if let Some(mode) = attrs.mode {
        put("permissions", format!("{:04o}", mode & 0o1777));
        let looks_decimal = attrs.uid.is_none() && attrs.gid.is_none() && mode & 0o1000 != 0;
        if mode & 0o6000 != 0 || looks_decimal {
            put("tierfs_mode", format!("{:04o}", mode & 0o7777));
        }
    }
    if let Some(mtime) = attrs.mtime {
        let (seconds, nanos) = mtime.parts();
        if let Some(modtime) = text::modtime(seconds) {
            put("modtime", modtime);
        }
        if nanos != 0 || text::modtime(seconds).is_none() {
            put("tierfs_mtime", mtime.0.to_string());
        }
    }
    if !attrs.xattrs.is_empty() {
        let pairs = attrs.xattrs.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value)));
        put("tierfs_xattrs", pairs.collect::<Vec<_>>().join("&"));
    }
    if let Some(link) = &attrs.link {
        put("tierfs_link", encode(link.as_bytes()));
    }
    if let Some(write_id) = &attrs.write_id {
        put("tierfs_write_id", encode(write_id.as_bytes()));
    }
    metadata
}

fn size(metadata: &Metadata) -> usize {
    metadata.iter().map(|(key, value)| key.len() + value.len()).sum()
}

fn checked(metadata: Metadata) -> Result<Metadata> {
    if size(&metadata) > METADATA_MAX {
        return Err(Error::new(
            Kind::NoSpace,
            format!("extended attributes and the rest exceed the {METADATA_MAX} bytes a blob can carry"),
        ));
    }
    Ok(metadata)
}

#[cfg(test)]
mod tests;
