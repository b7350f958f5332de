//! Tiers whose bytes are files of this machine.

use super::*;
use std::io::{Read, Write};
use tierfs::tier::{Access, RenameMode, Resident, Special};
use tierfs::types::{AttrChange, FileKind, TimeChange, Timestamp};

cases![
    create_open_and_stat,
    directories_are_made_and_removed,
    renames,
    links,
    unlink_and_what_is_not_there,
    attributes,
    symlinks_are_never_followed,
    extended_attributes,
    pages,
    only_regular_files_open,
];

fn native(tier: &Arc<dyn Tier>) -> &dyn Resident {
    tier.resident().expect("a resident tier")
}

fn write(tier: &Arc<dyn Tier>, path: &str, text: &str) {
    let mut file = native(tier).create(&key(path), 0o644).expect("create");
    file.write_all(text.as_bytes()).expect("write");
}

fn text(tier: &Arc<dyn Tier>, path: &str) -> String {
    let mut text = String::new();
    native(tier).open(&key(path), Access::Read).expect("open").read_to_string(&mut text).expect("read");
    text
}

async fn create_open_and_stat(tier: Arc<dyn Tier>) {
    let native = native(&tier);
    write(&tier, "f", "hello");
    assert_kind(native.create(&key("f"), 0o600), &[Kind::Exists]);
    assert_kind(native.create(&key("no/f"), 0o600), &[Kind::NotFound]);
    let mut file = native.open(&key("f"), Access::ReadWrite).unwrap();
    let (by_name, by_file) = (native.stat(&key("f")).unwrap(), native.stat_open(&file).unwrap());
    assert_eq!(by_name, by_file);
    assert_eq!((by_name.kind, by_name.size), (FileKind::Regular, 5));
    assert_eq!(by_name.version, head(&*tier, "f").await.version);
    file.write_all(b"HELLO!").unwrap();
    assert_ne!(native.stat_open(&file).unwrap().version, by_name.version);
    assert_eq!(text(&tier, "f"), "HELLO!");
    assert_eq!(native.stat(&Key::ROOT).unwrap().kind, FileKind::Directory);
    assert_ne!(native.device(), 0);
    assert!(native.usage().unwrap().total > 0);
    native.sync_directory(&Key::ROOT).unwrap();
}

async fn directories_are_made_and_removed(tier: Arc<dyn Tier>) {
    let native = native(&tier);
    native.mkdir(&key("d"), 0o755).unwrap();
    assert_kind(native.mkdir(&key("d"), 0o755), &[Kind::Exists]);
    assert_kind(native.mkdir(&key("no/d"), 0o755), &[Kind::NotFound]);
    native.ensure_directory(&key("a/b/c")).unwrap();
    native.ensure_directory(&key("a/b/c")).unwrap();
    assert_eq!(native.stat(&key("a/b")).unwrap().kind, FileKind::Directory);
    assert_kind(native.rmdir(&key("a/b")), &[Kind::NotEmpty]);
    assert_kind(native.unlink(&key("a/b")), &[Kind::IsDirectory]);
    native.rmdir(&key("a/b/c")).unwrap();
    assert_kind(native.rmdir(&key("a/b/c")), &[Kind::NotFound]);
    write(&tier, "file", "x");
    assert_kind(native.ensure_directory(&key("file/x")), &[Kind::NotDirectory]);
    assert_kind(native.ensure_directory(&key("file")), &[Kind::NotDirectory]);
    assert_kind(native.rmdir(&key("file")), &[Kind::NotDirectory]);
}

async fn renames(tier: Arc<dyn Tier>) {
    let native = native(&tier);
    native.mkdir(&key("d"), 0o755).unwrap();
    write(&tier, "a", "A");
    write(&tier, "b", "B");
    assert_kind(native.rename(&key("a"), &key("b"), RenameMode::NoReplace), &[Kind::Exists]);
    match native.rename(&key("a"), &key("b"), RenameMode::Exchange) {
        Ok(()) => {
            assert_eq!((text(&tier, "a"), text(&tier, "b")), ("B".into(), "A".into()));
            native.rename(&key("a"), &key("b"), RenameMode::Exchange).unwrap();
        }
        Err(error) => assert_eq!(error.kind(), Kind::Unsupported),
    }
    native.rename(&key("a"), &key("d/a"), RenameMode::NoReplace).unwrap();
    native.rename(&key("d/a"), &key("b"), RenameMode::Replace).unwrap();
    assert_eq!(text(&tier, "b"), "A");
    assert_kind(native.stat(&key("a")), &[Kind::NotFound]);
    assert_kind(native.rename(&key("gone"), &key("b"), RenameMode::Replace), &[Kind::NotFound]);
    assert_kind(native.rename(&key("d"), &key("d/x"), RenameMode::Replace), &[Kind::Invalid]);
    native.rename(&key("d"), &key("e"), RenameMode::NoReplace).unwrap();
    assert_eq!(native.stat(&key("e")).unwrap().kind, FileKind::Directory);
}

async fn links(tier: Arc<dyn Tier>) {
    let native = native(&tier);
    write(&tier, "a", "A");
    let linked = native.link(&key("a"), &key("b"));
    if !tier.capabilities().hard_links {
        return assert_kind(linked, &[Kind::Unsupported]);
    }
    linked.unwrap();
    let (a, b) = (native.stat(&key("a")).unwrap().native.unwrap(), native.stat(&key("b")).unwrap());
    assert_eq!((a, a.nlink), (b.native.unwrap(), 2));
    assert_kind(native.link(&key("a"), &key("b")), &[Kind::Exists]);
    native.unlink(&key("a")).unwrap();
    assert_eq!(text(&tier, "b"), "A");
}

async fn unlink_and_what_is_not_there(tier: Arc<dyn Tier>) {
    let native = native(&tier);
    write(&tier, "f", "x");
    let file = native.open(&key("f"), Access::Read).unwrap();
    native.unlink(&key("f")).unwrap();
    assert_eq!(native.stat_open(&file).unwrap().native.unwrap().nlink, 0, "an open file lives on");
    assert_kind(native.unlink(&key("f")), &[Kind::NotFound]);
    assert_kind(native.open(&key("f"), Access::Read), &[Kind::NotFound]);
    assert_kind(native.stat(&key("f")), &[Kind::NotFound]);
    assert_kind(native.read_directory(&key("f"), None, 10), &[Kind::NotFound]);
    assert_kind(native.set_attr(&key("f"), &AttrChange::default()), &[Kind::NotFound]);
}

async fn attributes(tier: Arc<dyn Tier>) {
    let native = native(&tier);
    write(&tier, "f", "x");
    let moment = Timestamp(1_580_608_923_123_456_700);
    let change = AttrChange {
        mode: Some(0o4711),
        uid: Some(99),
        gid: Some(98),
        atime: None,
        mtime: Some(TimeChange::To(moment)),
    };
    let file = native.open(&key("f"), Access::Read).unwrap();
    for by_file in [false, true] {
        if by_file {
            let change = AttrChange { uid: Some(97), ..change.clone() };
            native.set_attr_open(&file, &change).unwrap();
        } else {
            native.set_attr(&key("f"), &change).unwrap();
        }
        let attrs = native.stat(&key("f")).unwrap().attrs;
        if tier.capabilities().owner_and_mode {
            let uid = if by_file { 97 } else { 99 };
            assert_eq!((attrs.mode, attrs.uid, attrs.gid), (Some(0o4711), Some(uid), Some(98)));
        } else {
            assert_eq!((attrs.mode, attrs.uid, attrs.gid), (None, None, None));
        }
        let grain = tier.capabilities().mtime_grain.unwrap().as_nanos() as i64;
        assert_eq!(attrs.mtime, Some(Timestamp(moment.0 - moment.0 % grain)));
    }
    native
        .set_attr(&key("f"), &AttrChange { mtime: Some(TimeChange::Now), ..AttrChange::default() })
        .unwrap();
    assert!(native.stat(&key("f")).unwrap().attrs.mtime > Some(moment));
}

/// Whoever can write on the tier can plant symlinks; none of them leads anywhere.
async fn symlinks_are_never_followed(tier: Arc<dyn Tier>) {
    let native = native(&tier);
    if !tier.capabilities().symlinks {
        return;
    }
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    std::fs::create_dir(outside.path().join("empty")).unwrap();
    let link = |name: &str, target: &std::path::Path| {
        let special = Special::Symlink(target.as_os_str().as_encoded_bytes().to_vec());
        native.make(&key(name), &special, 0o777).unwrap();
    };
    link("dir", outside.path());
    link("file", &outside.path().join("secret"));
    link("up", std::path::Path::new(".."));
    write(&tier, "inside", "x");
    let before = snapshot(outside.path());
    let denied = &[Kind::Loop, Kind::NotDirectory, Kind::NotFound, Kind::Outside];
    for path in ["dir/secret", "dir/empty", "dir/new", "up/new", "dir/empty/new"] {
        let key = key(path);
        assert_kind(native.create(&key, 0o644), denied);
        assert_kind(native.open(&key, Access::ReadWrite), denied);
        assert_kind(native.stat(&key), denied);
        assert_kind(native.mkdir(&key, 0o755), denied);
        assert_kind(native.ensure_directory(&key), denied);
        assert_kind(native.make(&key, &Special::Symlink(b"x".to_vec()), 0), denied);
        assert_kind(native.rename(&self::key("inside"), &key, RenameMode::Replace), denied);
        assert_kind(native.rename(&key, &self::key("stolen"), RenameMode::Replace), denied);
        assert_kind(native.unlink(&key), denied);
        assert_kind(native.rmdir(&key), denied);
        assert_kind(native.read_directory(&key, None, 10), denied);
        assert_kind(native.sync_directory(&key), denied);
        assert_kind(native.set_attr(&key, &AttrChange { mode: Some(0), ..AttrChange::default() }), denied);
        assert_kind(native.xattrs(&key), denied);
        assert_kind(tier.head(&key).await, denied);
        assert_kind(tier.delete(&key, &Condition::Always).await, denied);
        assert_kind(tier.put(&key, "x".into(), &no_attrs(), &Condition::Always).await, denied);
        let made = tier.put_special(&key, &Special::Directory, &no_attrs(), &Condition::Always).await;
        assert_kind(made, denied);
        assert_kind(tier.list(&key, b"", None, 10).await, denied);
        if tier.capabilities().hard_links {
            assert_kind(native.link(&self::key("inside"), &key), denied);
            assert_kind(native.link(&key, &self::key("stolen")), denied);
        }
    }
    for path in ["file", "dir", "up"] {
        let key = key(path);
        assert_kind(native.open(&key, Access::Read), denied);
        assert_kind(native.create(&key, 0o644), &[Kind::Exists]);
        assert_kind(native.read_directory(&key, None, 10), denied);
        assert_kind(native.ensure_directory(&key), denied);
        assert_eq!(native.stat(&key).unwrap().kind, FileKind::Symlink);
        let version = native.stat(&key).unwrap().version;
        assert_kind(read_range(&*tier, path, 0..10, &version).await, denied);
        let change = AttrChange {
            mode: Some(0o777),
            uid: Some(77),
            gid: Some(77),
            atime: Some(TimeChange::To(Timestamp(1))),
            mtime: Some(TimeChange::To(Timestamp(1))),
        };
        native.set_attr(&key, &change).unwrap();
        assert_kind(native.set_xattr(&key, b"user.x", Some(b"1")), &[Kind::NotPermitted, Kind::Unsupported]);
        assert_eq!(native.xattrs(&key).unwrap(), []);
    }
    put(&*tier, "file", "replaces the link").await;
    native.unlink(&key("dir")).unwrap();
    assert_eq!(snapshot(outside.path()), before, "nothing outside was touched");
}

/// Everything an access through a link could have changed.
fn snapshot(path: &std::path::Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    let mut seen = Vec::new();
    let names = ["", "secret", "empty"];
    for name in names {
        let path = path.join(name);
        let stat = std::fs::symlink_metadata(&path).unwrap();
        seen.push(format!("{name} {:o} {} {} {}", stat.mode(), stat.uid(), stat.ctime(), stat.ctime_nsec()));
        if stat.is_dir() {
            let mut names: Vec<_> =
                std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            seen.push(format!("{names:?}"));
        }
    }
    seen.push(std::fs::read_to_string(path.join("secret")).unwrap());
    seen
}

async fn extended_attributes(tier: Arc<dyn Tier>) {
    let native = native(&tier);
    write(&tier, "f", "x");
    let set = native.set_xattr(&key("f"), b"user.a", Some(b"1"));
    if !tier.capabilities().xattrs {
        assert_kind(set, &[Kind::Unsupported]);
        return assert_eq!(native.xattrs(&key("f")).unwrap_or_default(), []);
    }
    set.unwrap();
    native.set_xattr(&key("f"), b"user.a", Some(b"2")).unwrap();
    assert_eq!(native.xattrs(&key("f")).unwrap(), [(b"user.a".to_vec(), b"2".to_vec())]);
    let large = vec![b'v'; 3_000];
    native.set_xattr(&key("f"), b"user.large", Some(&large)).unwrap();
    assert!(native.xattrs(&key("f")).unwrap().contains(&(b"user.large".to_vec(), large)));
    native.set_xattr(&key("f"), b"user.large", None).unwrap();
    native.set_xattr(&key("f"), b"user.a", None).unwrap();
    assert_kind(native.set_xattr(&key("f"), b"user.a", None), &[Kind::NoAttribute]);
    assert_kind(native.set_xattr(&key("f"), b"user.tierfs.write_id", Some(b"x")), &[Kind::NotPermitted]);
    let acl = native.set_xattr(&key("f"), b"system.posix_acl_access", Some(b"x"));
    assert_kind(acl, &[Kind::Unsupported]);
    tier.put(&key("g"), "x".into(), &write_id("w"), &Condition::Always).await.unwrap();
    assert_eq!(native.xattrs(&key("g")).unwrap(), [], "our own are not told");
}

async fn pages(tier: Arc<dyn Tier>) {
    let native = native(&tier);
    native.mkdir(&key("d"), 0o755).unwrap();
    for i in 0..500 {
        write(&tier, &format!("d/{i}"), "x");
    }
    let (mut seen, mut from) = (0, None);
    loop {
        let page = native.read_directory(&key("d"), from, 50).unwrap();
        seen += page.entries.len();
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(seen, 500);
    assert_kind(native.read_directory(&key("d/1"), None, 50), &[Kind::NotDirectory]);
}

async fn only_regular_files_open(tier: Arc<dyn Tier>) {
    let native = native(&tier);
    native.mkdir(&key("d"), 0o755).unwrap();
    for access in [Access::Read, Access::ReadWrite] {
        assert_kind(native.open(&key("d"), access), &[Kind::IsDirectory]);
    }
    for kind in [FileKind::Fifo, FileKind::Socket] {
        let path = format!("{kind:?}");
        let made = native.make(&key(&path), &Special::Node { kind, rdev: 0 }, 0o600);
        if !tier.capabilities().special_files {
            assert_kind(made, &[Kind::Unsupported]);
            continue;
        }
        made.unwrap();
        for access in [Access::Read, Access::ReadWrite] {
            assert_kind(native.open(&key(&path), access), &[Kind::Unsupported]);
        }
    }
}
