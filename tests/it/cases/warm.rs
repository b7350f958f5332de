//! `tierfs warm`: hot copies before they are read, and blobs out of the archive.

use super::archive::state;
use super::*;
use crate::support::blob_server::{Effect, Operation, When};
use crate::support::mount::told;
use crate::support::{noise, wait};
use std::fs;
use std::process::Output;
use std::time::Duration;

#[track_caller]
fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", told(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn hot_copies_are_fetched_before_they_are_read() {
    let (server, tiers, _) = own();
    let (big, small) = (noise(1, 30 << 20), noise(2, 70_000));
    tiers.put_blob("hot/d/big", &big);
    tiers.put_blob("hot/d/e/small", &small);
    tiers.put_blob("hot/d/empty", b"");
    tiers.put_blob("blob/far", b"far");
    let rules = crate::support::mount::RULES.replace("promote = \"on-read\"", "promote = \"never\"");
    let mount = Mount::of(&tiers).rules(&rules).start();
    fs::write(mount.path("near"), "on scratch").expect("a write");
    let warm = |paths: &[&str]| mount.tierfs_at(&["warm"], paths);
    let text = said(&warm(&["hot/d", "blob", "near"]));
    assert!(text.contains("2 files, 30 MiB fetched; 2 files near already"), "{text}");
    assert!(text.contains("1 file without a tier for hot copies"), "{text}");
    assert_eq!(tiers.hot_copies().len(), 2);
    server.fault(When::operation(&[Operation::Get]), Effect::Drop);
    assert!(fs::read(mount.path("hot/d/big")).expect("from the hot copy") == big);
    assert!(fs::read(mount.path("hot/d/e/small")).expect("from the hot copy") == small);
    let text = said(&warm(&["hot"]));
    assert!(text.starts_with("0 files, 0 B fetched; 3 files near already"), "{text}");
}

#[test]
fn archived_blobs_are_brought_back() {
    let (server, tiers, container) = own();
    for name in ["blob/f", "hot/g", "hot/h"] {
        tiers.put_blob(name, b"archived");
        server.set_access_tier(&container, name, "Archive");
    }
    tiers.put_blob("hot/i", b"not archived");
    let mount = Mount::of(&tiers).start();
    assert_eq!(
        (errno(fs::read(mount.path("blob/f"))), errno(fs::read(mount.path("hot/g")))),
        (libc::ENODATA, libc::ENODATA)
    );
    // Twice: what is on its way stays on its way.
    for fetched in ["1 file,", "0 files,"] {
        let text = said(&mount.tierfs_at(&["warm"], &["blob", "hot"]));
        assert!(text.starts_with(fetched), "{text}");
        assert!(text.contains("3 files, 24 B in the archive") && text.contains("15 hours"), "{text}");
    }
    for name in ["blob/f", "hot/g", "hot/h"] {
        assert_eq!(server.rehydrating(&container, name).as_deref(), Some("Standard"), "{name}");
        assert_eq!(state(&mount.path(name)), "rehydrating", "{name}");
        assert_eq!(errno(fs::read(mount.path(name))), libc::ENODATA, "{name}");
        server.set_access_tier(&container, name, "Hot");
        assert_eq!(state(&mount.path(name)), "clean", "{name}");
    }
    let text = said(&mount.tierfs_at(&["warm"], &["blob", "hot"]));
    assert!(!text.contains("archive"), "{text}");
    assert_eq!(fs::read(mount.path("blob/f")).expect("a read"), b"archived");
    assert_eq!(tiers.hot_copies().len(), 3);
}

#[test]
fn paths_come_from_a_file_too_and_time_runs_out() {
    let (server, tiers, _) = own();
    tiers.put_blob("hot/a b", b"one");
    tiers.put_blob("hot/c,d", b"two");
    server.put_synthetic(tiers.container().name(), "hot/big", 1 << 30);
    let mount = Mount::of(&tiers).start();
    let list = tiers.workspace().join("list");
    let paths = ["hot/a b", "hot/c,d"].map(|name| mount.path(name).display().to_string());
    fs::write(&list, paths.join("\0")).expect("a list");
    let list = list.display().to_string();
    let text = said(&mount.tierfs_at(&["warm", "-0", "--from-file", &list], &[]));
    assert!(text.starts_with("2 files, 6 B fetched"), "{text}");
    server.fault(When::operation(&[Operation::Get]), Effect::Latency(Duration::from_secs(3600)));
    let late = mount.tierfs_at(&["warm", "--timeout", "300ms"], &["hot"]);
    assert_eq!(late.status.code(), Some(4), "{}", told(&late));
    assert!(told(&late).contains("1 file, 1.0 GiB to go"), "{}", told(&late));
    let missing = mount.tierfs_at(&["warm"], &["hot/none"]);
    assert_eq!(missing.status.code(), Some(1), "{}", told(&missing));
}

#[test]
fn what_can_not_be_fetched_is_told() {
    let (server, tiers, _) = own();
    tiers.put_blob("hot/a", b"one");
    tiers.put_blob("hot/b", b"two");
    let mount = Mount::of(&tiers).blob_key("deadline = \"1s\"").start();
    assert_eq!(fs::read_dir(mount.path("hot")).expect("a directory").count(), 2);
    server.fault(
        When::operation(&[Operation::Get]).name("/b"),
        Effect::Refuse { status: 403, code: "AuthorizationFailure", retry_after: None },
    );
    let failed = mount.tierfs_at(&["warm"], &["hot"]);
    let text = told(&failed);
    assert_eq!(failed.status.code(), Some(1), "{text}");
    assert!(
        text.contains("1 file, 3 B fetched") && text.contains("1 path could not be warmed: hot/b"),
        "{text}"
    );
    wait::until("nothing half-made is left", || tiers.hot_copies().len() == 1);
}
