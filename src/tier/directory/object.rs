//! From stat(2) to [`Object`], and what a [`Version`] of a native file is made of.

use crate::tier::{Archive, NativeId, Object};
use crate::types::{Attrs, FileKind, Timestamp, Version};
use rustix::fs::Stat;

/// Inode number, size, mtime and ctime: an overwrite of equal size whose mtime was set back
/// still changes the ctime, and a replaced file the inode number.
pub(super) fn version(stat: &Stat) -> Version {
    let mut bytes = [0_u8; 32];
    let parts = [
        stat.st_ino,
        u64::try_from(stat.st_size).unwrap_or(0),
        modified(stat).0.cast_unsigned(),
        changed(stat).0.cast_unsigned(),
    ];
    for (slot, part) in bytes.chunks_exact_mut(8).zip(parts) {
        slot.copy_from_slice(&part.to_be_bytes());
    }
    Version::new(bytes)
}

/// What stat says, as far as the tier's word counts: owner and mode only where they survive.
pub(super) fn object(stat: &Stat, owner_and_mode: bool) -> Option<Object> {
    let kind = FileKind::from_mode(stat.st_mode)?;
    let is_device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
    let has_bytes = matches!(kind, FileKind::Regular | FileKind::Symlink | FileKind::Directory);
    Some(Object {
        kind,
        size: if has_bytes { u64::try_from(stat.st_size).unwrap_or(0) } else { 0 },
        version: version(stat),
        modified: modified(stat),
        attrs: Attrs {
            mode: owner_and_mode.then_some(stat.st_mode & 0o7777),
            uid: owner_and_mode.then_some(stat.st_uid),
            gid: owner_and_mode.then_some(stat.st_gid),
            mtime: Some(modified(stat)),
            ..Attrs::default()
        },
        target: None,
        // The kernel's own 32-bit form of a device number.
        rdev: if is_device { (stat.st_rdev & 0xffff_ffff) as u32 } else { 0 },
        native: Some(NativeId {
            ino: stat.st_ino,
            nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
            blocks: u64::try_from(stat.st_blocks).unwrap_or(0),
            changed: changed(stat),
        }),
        archive: Archive::No,
    })
}

fn modified(stat: &Stat) -> Timestamp {
    Timestamp::from_parts(stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or(0))
}

fn changed(stat: &Stat) -> Timestamp {
    Timestamp::from_parts(stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or(0))
}
