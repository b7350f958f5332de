use super::*;
use crate::types::Timestamp;
use proptest::prelude::*;

fn metadata(pairs: &[(&str, &str)]) -> Metadata {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn some(mode: u32, uid: u32, gid: u32, mtime: i64) -> Attrs {
    Attrs {
        mode: Some(mode),
        uid: Some(uid),
        gid: Some(gid),
        mtime: Some(Timestamp(mtime)),
        ..Attrs::default()
    }
}

#[test]
fn written_is_the_dialect_of_amlfs() {
    let written = regular(&some(0o644, 1000, 100, 1_769_867_100_000_000_000)).unwrap();
    let expected = [
        ("group", "100"),
        ("modtime", "2026-01-31 13:45:00 +0000"),
        ("owner", "1000"),
        ("permissions", "0644"),
    ];
    assert_eq!(written, metadata(&expected));
    let folder = special(&Special::Directory, &some(0o1777, 0, 0, 0)).unwrap();
    assert_eq!((folder["hdi_isfolder"].as_str(), folder["permissions"].as_str()), ("true", "1777"));
    assert!(!folder.contains_key("tierfs_mode") && !folder.contains_key("tierfs_mtime"));
    let link = special(&Special::Symlink(b"../a b".to_vec()), &Attrs::default()).unwrap();
    let expected = [("is_symlink", "true"), ("ftype", "LNK"), ("tierfs_target", "../a%20b")];
    assert_eq!(link, metadata(&expected));
}

#[test]
fn what_amlfs_can_not_hold_is_kept() {
    let mut attrs = some(0o6755, 1, 2, 1_580_608_922_123_456_789);
    attrs.xattrs = vec![
        (b"user.comment".to_vec(), "é & = % \n".as_bytes().to_vec()),
        (b"security.capability".to_vec(), vec![0, 255]),
        (b"user.empty".to_vec(), vec![]),
    ];
    attrs.link = Some("g-1".into());
    attrs.write_id = Some("w-1".into());
    let written = regular(&attrs).unwrap();
    assert_eq!(written["permissions"], "0755");
    assert!(written.values().all(|value| value.bytes().all(|byte| (b' '..=b'~').contains(&byte))));
    assert_eq!(object(&written), attrs);
}

#[test]
fn a_sticky_mode_without_owner_is_not_taken_for_decimal() {
    for attrs in
        [Attrs { mode: Some(0o1777), ..Attrs::default() }, Attrs { mode: Some(0), ..Attrs::default() }]
    {
        assert_eq!(object(&regular(&attrs).unwrap()), attrs);
    }
}

#[test]
fn our_own_keys_win() {
    let found = object(&metadata(&[
        ("tierfs_mode", "4755"),
        ("tierfs_mtime", "5"),
        ("permissions", "0600"),
        ("owner", "3"),
        ("posix_owner", "4"),
        ("modtime", "2026-01-31 13:45:00 +0000"),
    ]));
    assert_eq!((found.mode, found.mtime, found.uid), (Some(0o4755), Some(Timestamp(5)), Some(3)));
}

#[test]
fn azcopy_is_read() {
    let found = object(&metadata(&[
        ("permissions", "33188"),
        ("modtime", "1580608922123456789"),
        ("posix_owner", "1000"),
        ("posix_group", "1001"),
    ]));
    assert_eq!(found, some(0o644, 1000, 1001, 1_580_608_922_123_456_789));
    let octal = [("permissions", "0640"), ("posix_owner", "7")];
    assert_eq!(object(&metadata(&octal)).mode, Some(0o640));
    assert_eq!(object(&metadata(&[("permissions", "1755"), ("owner", "0")])).mode, Some(0o1755));
    assert_eq!(object(&metadata(&[("permissions", "16877")])).mode, Some(0o755));
}

#[test]
fn rclone_is_read() {
    let found = object(&metadata(&[("mtime", "2020-02-02T03:02:02.123456789+01:00"), ("mode", "0100664")]));
    let expected =
        Attrs { mode: Some(0o664), mtime: Some(Timestamp(1_580_608_922_123_456_789)), ..Attrs::default() };
    assert_eq!(found, expected);
}

#[test]
fn wasb_is_read() {
    let json = r#"{"owner":"12","group":"hadoop","permissions":"rwxr-x--T"}"#;
    let found = object(&metadata(&[("hdi_permission", json), ("hdi_isfolder", "true")]));
    assert_eq!((found.mode, found.uid, found.gid), (Some(0o1750), Some(12), None));
}

#[test]
fn kinds_are_read() {
    let of = |pairs: &[(&str, &str)], size| kind(&metadata(pairs), size);
    assert_eq!(of(&[("hdi_isfolder", "True")], 0).0, FileKind::Directory);
    assert_eq!(of(&[("hdi_isfolder", "true")], 1).0, FileKind::Regular);
    assert_eq!(of(&[("is_symlink", "true")], 3), (FileKind::Symlink, None, 0));
    assert_eq!(of(&[("ftype", "LNK"), ("tierfs_target", "a%2fb")], 3).1, Some(b"a/b".to_vec()));
    // Somebody wrote other bytes and kept the metadata.
    assert_eq!(of(&[("ftype", "LNK"), ("tierfs_target", "a%2fb")], 4), (FileKind::Symlink, None, 0));
    assert_eq!(of(&[("is_symlink", "true")], 1 << 20).0, FileKind::Regular);
    assert_eq!(of(&[("tierfs_kind", "char"), ("tierfs_rdev", "259")], 0), (FileKind::CharDevice, None, 259));
    assert_eq!(of(&[], 0).0, FileKind::Regular);
    for (_, kind_of) in KINDS {
        let made = special(&Special::Node { kind: kind_of, rdev: 7 }, &Attrs::default()).unwrap();
        assert_eq!(kind(&made, 0), (kind_of, None, 7));
    }
}

#[test]
fn too_much_is_no_space() {
    let with = |length| Attrs {
        xattrs: vec![(b"user.x".to_vec(), vec![b'x'; length])],
        write_id: Some("w".repeat(32)),
        ..Attrs::default()
    };
    assert!(fits(&with(8000)) && regular(&with(8000)).is_ok());
    assert!(!fits(&with(8192)));
    assert_eq!(regular(&with(8192)).unwrap_err().kind(), Kind::NoSpace);
    // A long target leaves the metadata before an attribute does.
    let link = Special::Symlink(vec![b't'; 1500]);
    let made = special(&link, &with(7000)).unwrap();
    assert!(!made.contains_key("tierfs_target") && made.contains_key("tierfs_xattrs"));
}

#[test]
fn replacing_attributes_keeps_what_the_blob_is() {
    let old =
        metadata(&[("ftype", "LNK"), ("project", "x"), ("mtime", "2020-01-01T00:00:00Z"), ("owner", "1")]);
    let new = replaced(&old, &Attrs { mode: Some(0o600), ..Attrs::default() }).unwrap();
    assert_eq!(new, metadata(&[("ftype", "LNK"), ("project", "x"), ("permissions", "0600")]));
}

proptest! {
    #[test]
    fn attributes_round_trip(
        mode in proptest::option::of(0u32..0o10000),
        uid: Option<u32>, gid: Option<u32>, mtime: Option<i64>,
        xattrs in proptest::collection::vec(("[^\0]{1,20}", proptest::collection::vec(any::<u8>(), 0..50)), 0..4),
        link in proptest::option::of("[a-z0-9é-]{1,20}"),
    ) {
        let attrs = Attrs {
            mode, uid, gid, link,
            mtime: mtime.map(Timestamp),
            xattrs: xattrs.into_iter().map(|(name, value)| (name.into_bytes(), value)).collect(),
            write_id: None,
        };
        prop_assert_eq!(object(&regular(&attrs).unwrap()), attrs);
    }

    #[test]
    fn any_of_our_own_keys_is_survived(
        xattrs in "([a-z.]{0,300}|%00|%|=|&|user\\.x=%ff){0,20}", kind_of in "[a-zA-Z]{0,8}|fifo|char",
        number in "-?[0-9]{0,30}", json in "[{\\[\"]{0,2000}", size in 0u64..3,
    ) {
        let found = metadata(&[
            ("tierfs_xattrs", &xattrs), ("tierfs_kind", &kind_of), ("tierfs_rdev", &number), ("tierfs_mtime", &number),
            ("tierfs_mode", &number), ("permissions", &number), ("modtime", &number), ("hdi_permission", &json),
        ]);
        let attrs = object(&found);
        prop_assert!(attrs.mode.is_none_or(|mode| mode <= 0o7777));
        let is_name = |name: &[u8]| !name.is_empty() && name.len() <= 255 && !name.contains(&0);
        prop_assert!(attrs.xattrs.iter().all(|(name, _)| is_name(name)));
        let _ = kind(&found, size);
    }

    #[test]
    fn any_metadata_is_survived(values in proptest::collection::vec(".{0,40}", 17), size: u64) {
        let keys = [
            "owner", "group", "permissions", "modtime", "mtime", "mode", "posix_owner", "hdi_permission", "tierfs_mode",
            "tierfs_mtime", "tierfs_xattrs", "tierfs_link", "tierfs_kind", "tierfs_rdev", "ftype", "hdi_isfolder", "tierfs_target",
        ];
        let found: Metadata = keys.iter().map(|key| (*key).to_owned()).zip(values).collect();
        let _ = (kind(&found, size), object(&found));
    }
}
