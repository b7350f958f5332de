//! What Azure refuses until a person has acted: kept, told, and gone on with afterwards.

use super::*;
use crate::support::mount::told;
use std::fs;

/// Snapshots are kept on purpose, so no delete of ours takes them along.
#[test]
fn a_blob_with_snapshots_is_deleted_once_they_are_gone() {
    let (server, tiers, container) = own();
    tiers.put_blob("blob/f", b"text");
    let mount = Mount::of(&tiers).start();
    assert_eq!(fs::read(mount.path("blob/f")).expect("a read"), b"text");
    server.set_snapshots(&container, "blob/f", 1);
    fs::remove_file(mount.path("blob/f")).expect("rm");
    let refused = mount.try_tierfs(&["flush"]);
    assert_eq!(refused.status.code(), Some(1), "{}", told(&refused));
    assert!(told(&refused).contains("the blob has snapshots; delete those first"), "{}", told(&refused));
    assert!(mount.tierstat(&[]).contains("snapshots"), "{}", mount.tierstat(&[]));
    assert_eq!(server.get(&container, "blob/f").as_deref(), Some(&b"text"[..]));
    assert_eq!(errno(fs::metadata(mount.path("blob/f"))), libc::ENOENT);
    server.set_snapshots(&container, "blob/f", 0);
    mount.flush();
    assert_eq!(tiers.blob("blob/f"), None);
}

#[test]
fn an_archived_blob_is_overwritten_once_it_is_back() {
    let (server, tiers, container) = own();
    tiers.put_blob("blob/f", b"old");
    server.set_access_tier(&container, "blob/f", "Archive");
    let mount = Mount::of(&tiers).start();
    fs::write(mount.path("blob/f"), "new").expect("a write");
    assert_eq!(fs::read(mount.path("blob/f")).expect("what was written is there"), b"new");
    let late = mount.try_tierfs(&["flush", "--timeout", "300ms"]);
    assert_eq!(late.status.code(), Some(4), "{}", told(&late));
    assert!(mount.tierstat(&[]).contains("archived"), "{}", mount.tierstat(&[]));
    assert_eq!(server.get(&container, "blob/f").as_deref(), Some(&b"old"[..]));
    let warmed = mount.tierfs_at(&["warm"], &["blob/f"]);
    assert!(told(&warmed).contains("1 file, 3 B in the archive"), "{}", told(&warmed));
    assert_eq!(server.rehydrating(&container, "blob/f").as_deref(), Some("Standard"));
    server.set_access_tier(&container, "blob/f", "Hot");
    mount.flush();
    assert_eq!(server.get(&container, "blob/f").as_deref(), Some(&b"new"[..]));
}

#[test]
fn a_copy_under_way_is_waited_for() {
    let (server, tiers, container) = own();
    for name in ["blob/f", "blob/g"] {
        tiers.put_blob(name, b"copied by others");
        server.set_copying(&container, name, true);
    }
    let mount = Mount::of(&tiers).start();
    fs::write(mount.path("blob/f"), "new").expect("a write");
    fs::remove_file(mount.path("blob/g")).expect("rm");
    let late = mount.try_tierfs(&["flush", "--timeout", "300ms"]);
    assert_eq!(late.status.code(), Some(4), "{}", told(&late));
    for name in ["blob/f", "blob/g"] {
        assert_eq!(server.get(&container, name).as_deref(), Some(&b"copied by others"[..]), "{name}");
        server.set_copying(&container, name, false);
    }
    mount.flush();
    assert_eq!(server.get(&container, "blob/f").as_deref(), Some(&b"new"[..]));
    assert_eq!(tiers.blob("blob/g"), None);
}
