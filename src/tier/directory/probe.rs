//! What the file system under a writable root really does, found by trying it in
//! `.tierfs/probe-<random>/`: a share's protocol says little, its mount options decide.

use super::names::{Case, Names, Refused, SUSPECTS};
use super::root::Root;
use super::{DirectoryKind, attributes, filesystem, write};
use crate::error::{Kind, Result};
use crate::tier::{Capabilities, Special};
use crate::types::{FileKind, Key, TimeChange, Timestamp};
use rustix::fs::{AtFlags, Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// A moment with odd seconds (FAT keeps even ones) and all nine digits.
const MOMENT: Timestamp = Timestamp(1_580_608_923_123_456_789);
/// Grains of file systems, finest first.
const GRAINS_NS: [u64; 5] = [1, 100, 1_000, 1_000_000_000, 2_000_000_000];
/// A control character, a dot and a space at the end, no UTF-8, a device of Windows.
const ODD: [&[u8]; 5] = [b"p\x01p", b"dot.", b"space ", b"p\xffp", b"nul"];
/// Another owner than root's, for those who may change it.
const OTHER: u32 = 12_345;

/// What is believed where nothing can be tried.
pub(super) fn assumed(root: Option<&Root>, kind: DirectoryKind) -> Capabilities {
    let fs_type = root.map_or_else(|| "unknown".to_owned(), filesystem::name);
    let poor = filesystem::is_smb(&fs_type);
    Capabilities {
        conditional: false,
        owner_and_mode: !poor,
        mtime_grain: Some(Duration::from_nanos(if poor { 100 } else { 1 })),
        symlinks: true,
        hard_links: !poor,
        xattrs: !poor && kind != DirectoryKind::AzureFiles,
        special_files: !poor,
        case_sensitive: !poor,
        any_name: true,
        empty_directories: true,
        writable: false,
        networked: filesystem::is_networked(&fs_type),
    }
}

/// The same with the names that go with it.
pub(super) fn untried(root: &Root, kind: DirectoryKind) -> (Capabilities, Names) {
    let assumed = assumed(Some(root), kind);
    let names = Names { refused: Refused::default(), case: case(&assumed) };
    (assumed, names)
}

fn case(can: &Capabilities) -> Case {
    if can.case_sensitive { Case::Kept } else { Case::Folded }
}

/// Tries everything; a root that takes no writes is not writable, whatever the reason.
pub(super) fn try_out(root: &Root, kind: DirectoryKind) -> Result<(Capabilities, Names)> {
    let own = Key::parse(super::OWN_DIRECTORY)?;
    let place = own.join(format!("probe-{}", super::random_name()))?;
    match root.ensure_directory(&own, 0o755).and_then(|_| root.ensure_directory(&place, 0o700)) {
        Ok(_) => {}
        Err(Errno::ROFS | Errno::ACCESS | Errno::PERM) => return Ok(untried(root, kind)),
        Err(Errno::NOSPC | Errno::DQUOT) => return Ok(full(root, kind)),
        Err(errno) => return Err(errno.into()),
    }
    let found = attempt(root, &place);
    clean(root, &place);
    match found {
        Err(error) if error.kind() == Kind::NoSpace => Ok(full(root, kind)),
        other => other,
    }
}

/// Full is not read-only: what is there can still be read and deleted.
fn full(root: &Root, kind: DirectoryKind) -> (Capabilities, Names) {
    let (assumed, names) = untried(root, kind);
    (Capabilities { writable: true, ..assumed }, names)
}

fn attempt(root: &Root, place: &Key) -> Result<(Capabilities, Names)> {
    let key = place.join("CaSe")?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    let file = root.open(&key, flags, Mode::from_raw_mode(0o600))?;
    let fifo = Special::Node { kind: FileKind::Fifo, rdev: 0 };
    let refused = refused(root, place)?;
    let can = Capabilities {
        conditional: false,
        owner_and_mode: keeps_owner_and_mode(&file)?,
        mtime_grain: grain(&file)?,
        symlinks: write::make(root, &place.join("symlink")?, &Special::Symlink(b"CaSe".to_vec()), 0o777)
            .is_ok(),
        hard_links: write::link(root, &key, &place.join("link")?).is_ok(),
        xattrs: rustix::fs::fsetxattr(&file, "user.tierfs.probe", b"1", XattrFlags::empty()).is_ok(),
        special_files: write::make(root, &place.join("fifo")?, &fifo, 0o600).is_ok(),
        case_sensitive: root.stat(&place.join("case")?).is_err(),
        any_name: refused == Refused::default(),
        empty_directories: true,
        writable: true,
        networked: filesystem::is_networked(&filesystem::name(&file)),
    };
    let case = case(&can);
    Ok((can, Names { refused, case }))
}

/// Which names are refused, or come back as others.
fn refused(root: &Root, place: &Key) -> Result<Refused> {
    let mut tried: Vec<Vec<u8>> = ODD.iter().map(|name| name.to_vec()).collect();
    tried.extend(SUSPECTS.map(|letter| format!("p{letter}p").into_bytes()));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    for name in &tried {
        match root.open(&place.join(name)?, flags, Mode::from_raw_mode(0o600)) {
            Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => return Err(errno.into()),
            // The listing tells.
            _made_or_not => {}
        }
    }
    let kept = names_in(root, place)?;
    let lacks = |name: &[u8]| !kept.iter().any(|kept| kept == name);
    let [control, dot, space, not_utf8, device] = ODD;
    Ok(Refused {
        letters: SUSPECTS.into_iter().filter(|letter| lacks(format!("p{letter}p").as_bytes())).collect(),
        controls: lacks(control),
        ends: lacks(dot) || lacks(space),
        not_utf8: lacks(not_utf8),
        devices: lacks(device),
    })
}

fn names_in(root: &Root, place: &Key) -> Result<Vec<Vec<u8>>> {
    let fd = root.open(place, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::new(fd)? {
        names.push(entry?.file_name().to_bytes().to_vec());
    }
    names.retain(|name| name != b"." && name != b"..");
    Ok(names)
}

/// Some shares answer success and keep what they had.
fn keeps_owner_and_mode(file: &OwnedFd) -> Result<bool> {
    use rustix::fs::{Gid, Uid, fchmod, fchown, fstat};
    let was = fstat(file)?;
    if fchmod(file, Mode::from_raw_mode(0o640)).is_err() || fstat(file)?.st_mode & 0o7777 != 0o640 {
        return Ok(false);
    }
    match fchown(file, Some(Uid::from_raw(OTHER)), Some(Gid::from_raw(OTHER))) {
        Ok(()) => {
            let now = fstat(file)?;
            // Back, so that the rest of the probe runs on a file of our own.
            fchown(file, Some(Uid::from_raw(was.st_uid)), Some(Gid::from_raw(was.st_gid)))?;
            Ok((now.st_uid, now.st_gid) == (OTHER, OTHER))
        }
        // Not ours to give away; but a file that we made and that is not ours says it all (a
        // squashed root, a share with one fixed owner).
        Err(_) => Ok(was.st_uid == rustix::process::geteuid().as_raw()),
    }
}

fn grain(file: &OwnedFd) -> Result<Option<Duration>> {
    let times = rustix::fs::Timestamps {
        last_access: attributes::timespec(Some(TimeChange::To(MOMENT))),
        last_modification: attributes::timespec(Some(TimeChange::To(MOMENT))),
    };
    if rustix::fs::futimens(file, &times).is_err() {
        return Ok(None);
    }
    let stat = rustix::fs::fstat(file)?;
    let kept = Timestamp::from_parts(stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or(0));
    let grains = GRAINS_NS.iter().map(|&nanos| Duration::from_nanos(nanos));
    Ok(grains.into_iter().find(|&grain| attributes::rounded(MOMENT, grain) == kept))
}

fn clean(root: &Root, place: &Key) {
    let cleaned = names_in(root, place).and_then(|names| {
        for name in names {
            write::remove(root, &place.join(name)?)?;
        }
        Ok(root.removing(place, AtFlags::REMOVEDIR)?)
    });
    if let Err(error) = cleaned {
        tracing::warn!(%place, %error, "the probe directory stays behind; it can be removed");
    }
}
