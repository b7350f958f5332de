use super::root::Root;
use super::*;
use crate::clock::SystemClock;
use crate::tier::{Access, RenameMode};
use proptest::prelude::*;
use rustix::fs::{Mode, OFlags, RenameFlags};
use std::os::fd::AsRawFd;
use std::path::{Component, Path};
use std::sync::atomic::AtomicBool;

fn options(path: &Path) -> DirectoryOptions {
    DirectoryOptions {
        name: "tried".into(),
        kind: DirectoryKind::Local,
        path: path.to_owned(),
        capacity: None,
        expected: None,
        writing: Writing::Allowed,
        deadline: Duration::from_secs(60),
    }
}

/// A root full of traps, beside the secret they lead to: `d/d` and `d/f` are real.
fn trapped() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    std::fs::create_dir_all(root.join("d/d")).unwrap();
    std::fs::write(root.join("d/f"), "inside").unwrap();
    std::fs::create_dir(place.path().join("secret")).unwrap();
    std::fs::write(place.path().join("secret/f"), "outside").unwrap();
    for (name, target) in [("up", ".."), ("out", "../secret"), ("abs", "/"), ("loop", "loop"), ("in", "d")] {
        std::os::unix::fs::symlink(target, root.join(name)).unwrap();
        std::os::unix::fs::symlink(target, root.join("d").join(name)).unwrap();
    }
    place
}

/// Where a descriptor leads, as the kernel says.
fn leads_to(fd: &impl AsRawFd) -> PathBuf {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap()
}

#[test]
fn both_resolvers_stay_inside_and_agree() {
    let place = trapped();
    let path = place.path().canonicalize().unwrap().join("root");
    let roots = [Root::pin(&path).unwrap(), Root::pin(&path).unwrap().walking()];
    let component =
        proptest::sample::select(vec!["d", "f", "up", "out", "abs", "loop", "in", "secret", "gone"]);
    let keys = proptest::collection::vec(component, 0..5).prop_map(|parts| parts.join("/"));
    let flags =
        proptest::sample::select(vec![OFlags::PATH, OFlags::RDONLY, OFlags::RDONLY | OFlags::DIRECTORY]);
    proptest!(ProptestConfig::with_cases(2_000), |(key in keys, flags in flags)| {
        let key = Key::parse(key).unwrap();
        let opened = roots.each_ref().map(|root| root.open(&key, flags, Mode::empty()));
        prop_assert_eq!(opened[0].is_ok(), opened[1].is_ok(), "{:?}: {:?}", key, opened);
        for fd in opened.iter().flatten() {
            prop_assert_eq!(leads_to(fd), path.join(key.as_path()).components().collect::<PathBuf>());
        }
    });
}

proptest! {
    /// Whatever bytes a tier or a program calls a name: a key has normal components only.
    #[test]
    fn a_key_never_escapes(bytes in proptest::collection::vec(
        prop_oneof![Just(b'/'), Just(b'.'), Just(0), any::<u8>()], 0..40,
    )) {
        if let Ok(key) = Key::parse(&bytes) {
            let parts: Vec<_> = Path::new(key.as_path()).components().collect();
            let fine = |part: &Component<'_>| matches!(part, Component::Normal(_));
            prop_assert!(key.is_root() || parts.iter().all(fine), "{parts:?}");
            prop_assert_eq!(key.components().count(), if key.is_root() { 0 } else { parts.len() });
        }
    }
}

#[test]
fn keys_longer_than_one_path_resolve() {
    let place = tempfile::tempdir().unwrap();
    let root = Root::pin(place.path()).unwrap();
    let deep = Key::parse(vec!["n".repeat(200); 30].join("/")).unwrap();
    assert_eq!(root.ensure_directory(&deep, 0o755).unwrap(), 30);
    let stat = root.stat(&deep).unwrap();
    let fd = root.open(&deep, OFlags::PATH, Mode::empty()).unwrap();
    assert_eq!(rustix::fs::fstat(fd).unwrap().st_ino, stat.st_ino);
}

/// Somebody swaps a directory with a symlink to the outside, again and again, while we write in it.
#[test]
fn a_race_with_a_symlink_stays_inside() {
    let place = tempfile::tempdir().unwrap();
    let (root, outside) = (place.path().join("root"), place.path().join("outside"));
    std::fs::create_dir_all(root.join("d")).unwrap();
    std::fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, root.join("trap")).unwrap();
    let tier = DirectoryTier::open(options(&root), Arc::new(SystemClock::default())).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (d, trap, cwd) = (root.join("d"), root.join("trap"), rustix::fs::CWD);
            while !done.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(cwd, &d, cwd, &trap, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let (from, to) = (Key::parse("d/a").unwrap(), Key::parse("d/b").unwrap());
        for _ in 0..2_000 {
            // Each may fail, none may leave the root.
            let _ = Resident::create(&tier, &from, 0o644);
            let _ = Resident::rename(&tier, &from, &to, RenameMode::Replace);
            let _ = Resident::mkdir(&tier, &Key::parse("d/c").unwrap(), 0o755);
            let _ = Resident::open(&tier, &to, Access::ReadWrite).map(|file| {
                assert!(!leads_to(&file).starts_with(&outside));
            });
            let _ = Resident::unlink(&tier, &to);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(std::fs::read_dir(&outside).unwrap().next().is_none());
}

#[test]
fn what_the_temporary_directory_can_do_is_found() {
    let place = tempfile::tempdir().unwrap();
    let (found, names) = probe::try_out(&Root::pin(place.path()).unwrap(), DirectoryKind::Local).unwrap();
    // Any file system that tests run on can do these.
    assert!(found.writable && found.symlinks && found.case_sensitive && found.mtime_grain.is_some());
    assert!(found.owner_and_mode);
    assert!(found.any_name && names.are_free());
    let own = place.path().join(OWN_DIRECTORY);
    assert!(std::fs::read_dir(own).unwrap().next().is_none(), "cleaned up");
}

/// A user's daemon sees and keeps modes, and may carry over what belongs to others.
#[test]
fn without_root_modes_are_kept_and_owners_are_left_alone() {
    use crate::types::Attrs;
    use rustix::thread::{set_thread_res_gid, set_thread_res_uid};
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (uid, gid) = (rustix::fs::Uid::from_raw(4_321), rustix::fs::Gid::from_raw(4_321));
    rustix::fs::chown(place.path(), Some(uid), Some(gid)).unwrap();
    let as_user = || {
        // Of this thread only: the system calls, unlike libc's functions, know nothing of the others.
        set_thread_res_gid(gid, gid, gid).unwrap();
        set_thread_res_uid(uid, uid, uid).unwrap();
        let tier = DirectoryTier::open(options(place.path()), Arc::new(SystemClock::default())).unwrap();
        assert!(tier.capabilities().owner_and_mode);
        let attrs = Attrs { mode: Some(0o751), uid: Some(0), gid: Some(0), ..Attrs::default() };
        let key = Key::parse("f").unwrap();
        tier.inner.put(&key, b"x", &attrs, &Condition::Absent).unwrap();
        let kept = Resident::stat(&tier, &key).unwrap().attrs;
        assert_eq!((kept.mode, kept.uid), (Some(0o751), Some(4_321)));
        let change = crate::types::AttrChange { uid: Some(0), ..Default::default() };
        let refused = Resident::set_attr(&tier, &key, &change).unwrap_err();
        assert_eq!(refused.kind(), Kind::NotPermitted);
    };
    std::thread::scope(|scope| scope.spawn(as_user).join().unwrap());
}

#[test]
fn a_rename_that_never_replaces_needs_no_flag() {
    let place = tempfile::tempdir().unwrap();
    let root = Root::pin(place.path()).unwrap();
    let key = |name| Key::parse(name).unwrap();
    for (name, text) in [("a", "A"), ("b", "B")] {
        std::fs::write(place.path().join(name), text).unwrap();
    }
    std::fs::create_dir(place.path().join("dir")).unwrap();
    assert_eq!(write::link_or_look(&root, &key("a"), &key("b")), Err(rustix::io::Errno::EXIST));
    write::link_or_look(&root, &key("a"), &key("c")).unwrap();
    assert!(!place.path().join("a").exists());
    assert_eq!(std::fs::read(place.path().join("c")).unwrap(), b"A");
    assert_eq!(write::link_or_look(&root, &key("dir"), &key("b")), Err(rustix::io::Errno::EXIST));
    write::link_or_look(&root, &key("dir"), &key("moved")).unwrap();
    assert!(place.path().join("moved").is_dir());
}
