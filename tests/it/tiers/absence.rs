//! `scratch_can_be_wiped`, as far as the tier sees it: a root that is gone or another's is absent,
//! and nothing is written there.

use crate::support::tiers::options;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tierfs::clock::ManualClock;
use tierfs::error::Kind;
use tierfs::tier::{DirectoryOptions, DirectoryTier, Tier, Writing};
use tierfs::types::{Attrs, Condition, Key, Timestamp};

fn clock() -> ManualClock {
    ManualClock::new(Timestamp(1_700_000_000_000_000_000))
}

fn open(path: &Path, expected: Option<String>, clock: &ManualClock) -> DirectoryTier {
    let options = DirectoryOptions { expected, ..options(path) };
    DirectoryTier::open(options, Arc::new(clock.clone())).expect("a tier, absent or not")
}

async fn put(tier: &DirectoryTier) -> Result<(), Kind> {
    let key = Key::parse("d/f").expect("a key");
    let put = tier.put(&key, "x".into(), &Attrs::default(), &Condition::Always).await;
    put.map(drop).map_err(|error| error.kind())
}

fn is_empty(path: &Path) -> bool {
    std::fs::read_dir(path).expect("a directory").next().is_none()
}

/// A tmpfs over a path for as long as this lives; `None` where mounting is not allowed.
struct Covered<'a>(&'a Path);

impl<'a> Covered<'a> {
    fn new(path: &'a Path) -> Option<Self> {
        match mount("tierfs-test", path, "tmpfs", MountFlags::empty(), None) {
            Ok(()) => Some(Self(path)),
            Err(error) => {
                eprintln!("skipped: mounting is not allowed here ({error})");
                None
            }
        }
    }
}

impl Drop for Covered<'_> {
    fn drop(&mut self) {
        unmount(self.0, UnmountFlags::DETACH).expect("unmount");
    }
}

#[tokio::test]
async fn a_mount_over_the_root_makes_it_absent_until_it_goes_away() {
    let (root, clock) = (tempfile::tempdir().unwrap(), clock());
    let tier = open(root.path(), None, &clock);
    let mark = tier.claim().unwrap();
    assert_eq!(mark.id.as_ref().map(String::len), Some(32));
    put(&tier).await.unwrap();
    let resident = tier.resident().unwrap();
    let Some(covered) = Covered::new(root.path()) else { return };
    clock.advance(Duration::from_secs(2));
    assert_eq!(put(&tier).await, Err(Kind::Absent));
    assert_eq!(resident.stat(&Key::ROOT).unwrap_err().kind(), Kind::Absent);
    assert_eq!(tier.probe().await.unwrap_err().kind(), Kind::Absent);
    assert_eq!(tier.claim().unwrap_err().kind(), Kind::Absent);
    assert!(is_empty(root.path()), "nothing is written to what is not ours");
    drop(covered);
    tier.probe().await.unwrap();
    put(&tier).await.unwrap();
    assert_eq!(tier.claim().unwrap(), mark);
}

#[tokio::test]
async fn a_tier_that_is_not_mounted_yet_opens_absent_and_comes_back() {
    let (mountpoint, clock) = (tempfile::tempdir().unwrap(), clock());
    let Some(covered) = Covered::new(mountpoint.path()) else { return };
    let first = open(mountpoint.path(), None, &clock);
    let mark = first.claim().unwrap();
    assert_eq!(mark.fs_type, "tmpfs");
    let id = mark.id.clone().unwrap();
    // Kept alive below another path, and mounted again later, as a share is.
    let elsewhere = tempfile::tempdir().unwrap();
    rustix::mount::mount_bind(mountpoint.path(), elsewhere.path()).unwrap();
    let kept = Covered(elsewhere.path());
    drop((first, covered));
    let tier = open(mountpoint.path(), mark.id.clone(), &clock);
    assert_eq!(put(&tier).await, Err(Kind::Absent));
    assert!(is_empty(mountpoint.path()));
    assert!(!tier.capabilities().writable, "what was never tried is not promised");
    rustix::mount::mount_bind(kept.0, mountpoint.path()).unwrap();
    let covered = Covered(mountpoint.path());
    assert_eq!(put(&tier).await, Err(Kind::Absent), "believed for a second");
    clock.advance(Duration::from_secs(1));
    put(&tier).await.unwrap();
    assert!(tier.capabilities().writable);
    assert_eq!(tier.claim().unwrap().id, Some(id));
    drop(covered);
}

/// A share that was unmounted and mounted again has another `st_dev`, and the same mark.
#[tokio::test]
async fn the_same_mark_at_the_path_is_the_same_tier() {
    let (root, clock) = (tempfile::tempdir().unwrap(), clock());
    let path = root.path().join("root");
    std::fs::create_dir(&path).unwrap();
    let tier = open(&path, None, &clock);
    let id = tier.claim().unwrap().id.unwrap();
    std::fs::rename(&path, root.path().join("old")).unwrap();
    std::fs::create_dir_all(path.join(".tierfs")).unwrap();
    std::fs::write(path.join(".tierfs/id"), format!("{id}\n")).unwrap();
    tier.probe().await.unwrap();
    put(&tier).await.unwrap();
    assert!(path.join("d/f").exists() && !root.path().join("old/d").exists());
}

#[tokio::test]
async fn what_a_crash_left_in_tmp_is_removed_in_time() {
    let (root, clock) = (tempfile::tempdir().unwrap(), ManualClock::new(std::time::SystemTime::now().into()));
    let tmp = root.path().join(".tierfs/tmp");
    std::fs::create_dir_all(&tmp).unwrap();
    std::fs::write(tmp.join("left"), "x").unwrap();
    open(root.path(), None, &clock);
    assert!(tmp.join("left").exists(), "an upload may still be under way");
    clock.advance(Duration::from_secs(8 * 86_400));
    open(root.path(), None, &clock);
    assert!(!tmp.join("left").exists());
}

#[tokio::test]
async fn another_mark_is_another_tier() {
    let (root, clock) = (tempfile::tempdir().unwrap(), clock());
    let tier = open(root.path(), None, &clock);
    tier.claim().unwrap();
    put(&tier).await.unwrap();
    for found in [Some("somebody else's\n"), Some(""), None] {
        let id = root.path().join(".tierfs/id");
        match found {
            Some(text) => std::fs::write(&id, text).unwrap(),
            None => std::fs::remove_file(&id).unwrap(),
        }
        clock.advance(Duration::from_secs(1));
        assert_eq!(put(&tier).await, Err(Kind::Absent), "{found:?}");
    }
    assert!(!root.path().join(".tierfs/id").exists(), "no new mark on a wiped tier");
    // Accepted again: opened without an expectation.
    let tier = open(root.path(), None, &clock);
    tier.claim().unwrap();
    put(&tier).await.unwrap();
}

#[tokio::test]
async fn a_wiped_root_directory_is_absent() {
    let (root, clock) = (tempfile::tempdir().unwrap(), clock());
    let path = root.path().join("root");
    std::fs::create_dir(&path).unwrap();
    let tier = open(&path, None, &clock);
    tier.claim().unwrap();
    std::fs::remove_dir_all(&path).unwrap();
    assert_eq!(tier.probe().await.unwrap_err().kind(), Kind::Absent);
    std::fs::create_dir(&path).unwrap();
    assert_eq!(tier.probe().await.unwrap_err().kind(), Kind::Absent);
    assert!(is_empty(&path));
}

#[tokio::test]
async fn a_read_only_tier_is_neither_marked_nor_probed_nor_changed() {
    let (root, clock) = (tempfile::tempdir().unwrap(), clock());
    let options = DirectoryOptions { writing: Writing::Never, ..options(root.path()) };
    let tier = DirectoryTier::open(options, Arc::new(clock)).unwrap();
    assert_eq!(tier.claim().unwrap().id, None);
    assert_eq!(put(&tier).await, Err(Kind::ReadOnly));
    let resident = tier.resident().unwrap();
    let key = Key::parse("f").unwrap();
    assert_eq!(resident.create(&key, 0o644).unwrap_err().kind(), Kind::ReadOnly);
    assert!(!tier.capabilities().writable);
    assert!(is_empty(root.path()));
}

#[test]
fn a_root_that_cannot_be_is_said_so() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("file"), "x").unwrap();
    for (name, kind) in [("missing", Kind::NotFound), ("file", Kind::NotDirectory)] {
        let path = root.path().join(name);
        let error = DirectoryTier::open(options(&path), Arc::new(clock())).unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
}

#[tokio::test]
async fn two_first_users_agree_on_one_mark() {
    let (root, clock) = (tempfile::tempdir().unwrap(), clock());
    let claims: Vec<_> = (0..8)
        .map(|_| {
            let (path, clock) = (root.path().to_owned(), clock.clone());
            tokio::task::spawn_blocking(move || open(&path, None, &clock).claim().unwrap())
        })
        .collect();
    let mut marks = std::collections::HashSet::new();
    for claim in claims {
        marks.insert(claim.await.unwrap().id);
    }
    assert_eq!(marks.len(), 1);
    let mut left: Vec<_> = std::fs::read_dir(root.path().join(".tierfs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.retain(|name| name != "id");
    assert!(left.is_empty(), "no drafts, no probes: {left:?}");
}

#[test]
fn a_capacity_limits_what_is_told() {
    let root = tempfile::tempdir().unwrap();
    let options = DirectoryOptions { capacity: Some(1 << 20), ..options(root.path()) };
    let tier = DirectoryTier::open(options, Arc::new(clock())).unwrap();
    let resident = tier.resident().unwrap();
    assert_eq!((resident.usage().unwrap().total, resident.usage().unwrap().free), (1 << 20, 1 << 20));
    resident.note_used(1 << 19);
    assert_eq!(resident.usage().unwrap().free, 1 << 19);
    resident.note_used(1 << 30);
    assert_eq!(resident.usage().unwrap().free, 0);
}
