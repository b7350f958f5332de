//! Attributes survive as far as the capabilities say, and what is no regular file does too.

use super::*;
use tierfs::tier::{Capabilities, Special};
use tierfs::types::{FileKind, Timestamp};

cases![
    attributes_round_trip_with_put,
    attributes_round_trip_with_commit,
    attributes_round_trip_with_set_attrs,
    attributes_of_another_version_are_changed,
    extended_attributes_are_replaced,
    the_write_id_is_told,
    symlinks,
    directories,
    special_files,
];

/// 2020-02-02 02:02:03.123456789.
const MOMENT: Timestamp = Timestamp(1_580_608_923_123_456_789);

fn some_attrs() -> Attrs {
    Attrs {
        mode: Some(0o4751),
        uid: Some(1234),
        gid: Some(5678),
        mtime: Some(MOMENT),
        xattrs: vec![(b"user.colour".to_vec(), "blau\n\u{fc}\0".as_bytes().to_vec())],
        link: None,
        write_id: Some("w-1".into()),
    }
}

#[track_caller]
fn assert_holds(found: &Attrs, wanted: &Attrs, can: &Capabilities) {
    if can.owner_and_mode {
        assert_eq!((found.mode, found.uid, found.gid), (wanted.mode, wanted.uid, wanted.gid));
    } else {
        assert_eq!((found.mode, found.uid, found.gid), (None, None, None), "what is not kept is not told");
    }
    if let (Some(grain), Some(wanted)) = (can.mtime_grain, wanted.mtime) {
        let off = wanted.0 - found.mtime.expect("an mtime").0;
        assert!((0..grain.as_nanos() as i64).contains(&off), "off by {off} ns, grain {grain:?}");
    }
    if can.xattrs {
        assert_eq!(found.xattrs, wanted.xattrs);
    } else {
        assert!(found.xattrs.is_empty());
    }
}

async fn attributes_round_trip_with_put(tier: Arc<dyn Tier>) {
    tier.put(&key("f"), "x".into(), &some_attrs(), &Condition::Always).await.unwrap();
    assert_holds(&head(&*tier, "f").await.attrs, &some_attrs(), &tier.capabilities());
}

async fn attributes_round_trip_with_commit(tier: Arc<dyn Tier>) {
    let upload = tier.upload(&key("f"), 1).await.unwrap();
    upload.put_block(0, "x".into()).await.unwrap();
    upload.commit(1, &some_attrs(), &Condition::Always).await.unwrap();
    assert_holds(&head(&*tier, "f").await.attrs, &some_attrs(), &tier.capabilities());
}

async fn attributes_round_trip_with_set_attrs(tier: Arc<dyn Tier>) {
    let old = put(&*tier, "f", "text").await;
    match tier.set_attrs(&key("f"), &old, &some_attrs()).await {
        Err(error) => assert_eq!(error.kind(), Kind::Unsupported),
        Ok(new) => {
            let object = head(&*tier, "f").await;
            assert_eq!(object.version, new);
            assert_holds(&object.attrs, &some_attrs(), &tier.capabilities());
            assert_eq!(read(&*tier, "f").await, b"text");
        }
    }
}

async fn attributes_of_another_version_are_changed(tier: Arc<dyn Tier>) {
    let old = put(&*tier, "f", "one").await;
    let new = put(&*tier, "f", "two").await;
    let set = tier.set_attrs(&key("f"), &old, &some_attrs()).await;
    assert_kind(set, &[Kind::Changed, Kind::Unsupported]);
    assert_eq!(head(&*tier, "f").await.version, new);
}

async fn extended_attributes_are_replaced(tier: Arc<dyn Tier>) {
    let old = tier.put(&key("f"), "x".into(), &some_attrs(), &Condition::Always).await.unwrap();
    let wanted = Attrs { xattrs: vec![(b"user.other".to_vec(), vec![])], ..some_attrs() };
    match tier.set_attrs(&key("f"), &old, &wanted).await {
        Err(error) => assert_eq!(error.kind(), Kind::Unsupported),
        Ok(_) => assert_holds(&head(&*tier, "f").await.attrs, &wanted, &tier.capabilities()),
    }
}

async fn the_write_id_is_told(tier: Arc<dyn Tier>) {
    tier.put(&key("f"), "x".into(), &write_id("abc"), &Condition::Always).await.unwrap();
    let attrs = head(&*tier, "f").await.attrs;
    assert!(attrs.xattrs.is_empty(), "never as an attribute that programs see");
    if tier.capabilities().xattrs {
        assert_eq!(attrs.write_id.as_deref(), Some("abc"));
    }
    put(&*tier, "f", "by another").await;
    assert_eq!(head(&*tier, "f").await.attrs.write_id, None);
}

async fn symlinks(tier: Arc<dyn Tier>) {
    let targets = ["rel", "../../up", "/abs/dangling", &"x".repeat(1000), "é 漢"];
    for (i, target) in targets.iter().enumerate() {
        let path = format!("links/{i}");
        let special = Special::Symlink(target.as_bytes().to_vec());
        let made = tier.put_special(&key(&path), &special, &no_attrs(), &Condition::Absent).await;
        if !tier.capabilities().symlinks {
            assert_kind(made, &[Kind::Unsupported]);
            continue;
        }
        let object = head(&*tier, &path).await;
        assert_eq!((object.kind, object.size), (FileKind::Symlink, target.len() as u64));
        assert_eq!(object.target.as_deref(), Some(target.as_bytes()));
        assert_eq!(object.version, made.unwrap());
    }
    if tier.capabilities().symlinks {
        assert_eq!(names(&*tier, "links", b"", 10).await.len(), targets.len());
        tier.delete(&key("links/0"), &Condition::Always).await.unwrap();
        assert_kind(tier.head(&key("links/0")).await, &[Kind::NotFound]);
    }
}

async fn directories(tier: Arc<dyn Tier>) {
    let attrs = Attrs { mode: Some(0o1770), uid: Some(7), gid: Some(8), ..Attrs::default() };
    tier.put_special(&key("p/dir"), &Special::Directory, &attrs, &Condition::Absent).await.unwrap();
    let again = tier.put_special(&key("p/dir"), &Special::Directory, &attrs, &Condition::Absent).await;
    assert_kind(again, &[Kind::Exists]);
    let object = head(&*tier, "p/dir").await;
    assert_eq!(object.kind, FileKind::Directory);
    assert_holds(&object.attrs, &attrs, &Capabilities { mtime_grain: None, ..tier.capabilities() });
    assert_eq!(names(&*tier, "p", b"", 10).await, [b"dir"]);
    assert!(names(&*tier, "p/dir", b"", 10).await.is_empty());
    put(&*tier, "p/dir/f", "x").await;
    assert_eq!(names(&*tier, "p/dir", b"", 10).await, [b"f"]);
    tier.delete(&key("p/dir/f"), &Condition::Always).await.unwrap();
    tier.delete(&key("p/dir"), &Condition::Always).await.unwrap();
    assert_kind(tier.head(&key("p/dir")).await, &[Kind::NotFound]);
}

async fn special_files(tier: Arc<dyn Tier>) {
    let nodes = [(FileKind::Fifo, 0), (FileKind::Socket, 0), (FileKind::CharDevice, 0x103)];
    for (kind, rdev) in nodes {
        let path = format!("{kind:?}");
        let special = Special::Node { kind, rdev };
        let made = tier.put_special(&key(&path), &special, &no_attrs(), &Condition::Absent).await;
        if !tier.capabilities().special_files {
            assert_kind(made, &[Kind::Unsupported]);
            continue;
        }
        match made {
            Ok(_) => {
                let object = head(&*tier, &path).await;
                assert_eq!((object.kind, object.rdev, object.size), (kind, rdev, 0));
            }
            // Device nodes need a privilege.
            Err(error) => assert_eq!((error.kind(), kind), (Kind::NotPermitted, FileKind::CharDevice)),
        }
    }
}
