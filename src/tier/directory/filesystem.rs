//! Which file system lies under a path: its name, and what is known of it before any probe.

use std::os::fd::AsFd;

/// Magic numbers of statfs(2) (linux/magic.h, lustre, xfs, zfs, ceph, gpfs, beegfs).
const NAMES: [(u64, &str); 20] = [
    (0x0BD0_0BD0, "lustre"),
    (0x6969, "nfs"),
    (0xFE53_4D42, "smb2"),
    (0xFF53_4D42, "cifs"),
    (0x517B, "smb"),
    (0xEF53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58F6, "ramfs"),
    (0x9123_683E, "btrfs"),
    (0x794C_7630, "overlayfs"),
    (0x6573_5546, "fuse"),
    (0x2FC1_2FC1, "zfs"),
    (0xF2F5_2010, "f2fs"),
    (0x4D44, "vfat"),
    (0x2011_BAB0, "exfat"),
    (0x00C3_6400, "ceph"),
    (0x4750_4653, "gpfs"),
    (0x1983_0326, "beegfs"),
    (0x0102_1997, "9p"),
];

/// Its name, or its magic number in hex.
pub(super) fn name(fd: impl AsFd) -> String {
    match rustix::fs::fstatfs(fd) {
        Ok(found) => name_of(magic(&found)),
        Err(_) => "unknown".to_owned(),
    }
}

fn magic(found: &rustix::fs::StatFs) -> u64 {
    // Signed or not, 32 or 64 bits: by architecture; the numbers have 32 bits everywhere.
    (found.f_type as u64) & 0xffff_ffff
}

fn name_of(magic: u64) -> String {
    let known = NAMES.iter().find(|(number, _)| *number == magic);
    known.map_or_else(|| format!("{magic:#x}"), |(_, name)| (*name).to_owned())
}

/// Whether a server stands behind it, for all we know.
pub(super) fn is_networked(name: &str) -> bool {
    !matches!(name, "ext4" | "xfs" | "btrfs" | "zfs" | "f2fs" | "tmpfs" | "ramfs" | "vfat" | "exfat")
}

/// Whether it is Windows' protocol: no case, no owners, no links.
pub(super) fn is_smb(name: &str) -> bool {
    matches!(name, "smb" | "smb2" | "cifs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_or_hex() {
        assert_eq!(name_of(0x0BD0_0BD0), "lustre");
        assert_eq!(name_of(0x1234_5678), "0x12345678");
        assert!(is_smb(&name_of(0xFF53_4D42)));
        assert!(is_networked("nfs") && is_networked("0x12345678") && !is_networked("xfs"));
    }
}
