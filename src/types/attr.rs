//! What stat shows of a file, and what a tier can carry of it.

use crate::types::{Ino, TierId};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Nanoseconds since the Unix epoch; reaches from 1677 to 2262.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize, serde::Deserialize,
)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// From stat's seconds and nanoseconds, clamped to what fits.
    #[must_use]
    pub fn from_parts(seconds: i64, nanos: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
    }

    /// Whole seconds (rounded down) and the nanoseconds after them.
    #[must_use]
    pub fn parts(self) -> (i64, i64) {
        (self.0.div_euclid(1_000_000_000), self.0.rem_euclid(1_000_000_000))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self(i64::try_from(after.as_nanos()).unwrap_or(i64::MAX)),
            Err(before) => Self(i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos)),
        }
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        let distance = Duration::from_nanos(time.0.unsigned_abs());
        if time.0 >= 0 { UNIX_EPOCH + distance } else { UNIX_EPOCH - distance }
    }
}

/// What a directory entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FileKind {
    /// A regular file.
    Regular = 1,
    /// A directory.
    Directory = 2,
    /// A symbolic link.
    Symlink = 3,
    /// A named pipe.
    Fifo = 4,
    /// A Unix socket.
    Socket = 5,
    /// A character device.
    CharDevice = 6,
    /// A block device.
    BlockDevice = 7,
}

impl FileKind {
    const ALL: [(Self, u32); 7] = [
        (Self::Regular, libc::S_IFREG),
        (Self::Directory, libc::S_IFDIR),
        (Self::Symlink, libc::S_IFLNK),
        (Self::Fifo, libc::S_IFIFO),
        (Self::Socket, libc::S_IFSOCK),
        (Self::CharDevice, libc::S_IFCHR),
        (Self::BlockDevice, libc::S_IFBLK),
    ];

    /// From the type bits of `st_mode`.
    #[must_use]
    pub fn from_mode(mode: u32) -> Option<Self> {
        Self::ALL.iter().find(|(_, bits)| mode & libc::S_IFMT == *bits).map(|(kind, _)| *kind)
    }

    /// The type bits of `st_mode`.
    #[must_use]
    pub fn mode_bits(self) -> u32 {
        Self::ALL[self as usize - 1].1
    }

    /// From its number in the catalog.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.iter().map(|(kind, _)| *kind).find(|kind| *kind as u8 == number)
    }
}

/// Whose something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ids {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// What chooses the rule of a file beside its path: who owns it, and to which tier it was sent away, if it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whereabouts {
    /// The owner.
    pub ids: Ids,
    /// Where it lives now instead of its home, if its rule still says so.
    pub away: Option<TierId>,
}

impl From<Ids> for Whereabouts {
    fn from(ids: Ids) -> Self {
        Self { ids, away: None }
    }
}

impl Attr {
    /// Whose it is.
    #[must_use]
    pub fn ids(&self) -> Ids {
        Ids { uid: self.uid, gid: self.gid }
    }
}

/// What stat shows of an inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Inode number.
    pub ino: Ino,
    /// What it is.
    pub kind: FileKind,
    /// The twelve permission bits (07777).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names (directories: 2 + subdirectories).
    pub nlink: u32,
    /// Bytes.
    pub size: u64,
    /// 512-byte units in use.
    pub blocks: u64,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of content or attributes.
    pub ctime: Timestamp,
    /// Birth.
    pub btime: Timestamp,
    /// Device number of a device node.
    pub rdev: u32,
}

/// What a tier can carry beside the bytes. `None`: the tier does not say; the catalog or the
/// mount's defaults supply it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Attrs {
    /// The twelve permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Last change of content.
    pub mtime: Option<Timestamp>,
    /// Extended attributes (full names, `user.*` and `security.*`).
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Marks the names of one hard-linked inode on a tier without hard links.
    pub link: Option<String>,
    /// Identifies who wrote this copy: lets a commit with a lost reply recognise itself.
    pub write_id: Option<String>,
}

/// One time of a `utimensat` call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeChange {
    /// The moment of the call.
    Now,
    /// This moment.
    To(Timestamp),
}

/// What a `setattr` call changes; size is not among it, for it changes bytes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AttrChange {
    /// New permission bits.
    pub mode: Option<u32>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New access time.
    pub atime: Option<TimeChange>,
    /// New modification time.
    pub mtime: Option<TimeChange>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_the_epoch_round_trip() {
        for (seconds, nanos) in [(0, 0), (-1, 1), (-86_401, 999_999_999), (4_294_967_296, 5)] {
            let time = Timestamp::from_parts(seconds, nanos);
            assert_eq!(time.parts(), (seconds, nanos));
            assert_eq!(Timestamp::from(SystemTime::from(time)), time);
        }
    }

    #[test]
    fn kinds_round_trip() {
        for (kind, bits) in FileKind::ALL {
            assert_eq!(FileKind::from_mode(bits | 0o644), Some(kind));
            assert_eq!((kind.mode_bits(), FileKind::from_number(kind as u8)), (bits, Some(kind)));
        }
        assert_eq!(FileKind::from_mode(0), None);
        assert_eq!(FileKind::from_number(0), None);
    }
}
