//! Names: every character that Azure allows, and what it does not.

use super::*;
use std::fs;

const LETTERS: [&str; 24] = [
    "#", "%", "?", "&", "+", " ", "'", "(", ")", "[", "]", "{", "}", ";", "=", ",", "~", "%41", "é",
    "e\u{301}", "漢字", "🦀", "\"", ":*<>|",
];

/// C020
#[test]
fn a_rename_of_any_name_does_something() {
    on_both(|tiers| {
        let mount = Mount::of(tiers).start();
        let path = |name: &str| mount.path(&format!("blob/{name}"));
        fs::create_dir(mount.path("blob")).expect("mkdir");
        for (at, letter) in LETTERS.iter().enumerate() {
            // One is renamed after it reached home, the other before.
            for early in ["early", "late"] {
                fs::create_dir(path(&format!("{early}{at}"))).expect("mkdir");
                fs::write(path(&format!("{early}{at}/foo{letter}bar.txt")), "foo\n").expect("a write");
            }
        }
        mount.flush();
        let both = ["early", "late"];
        for (at, letter) in LETTERS.iter().enumerate() {
            let native = format!("blob/early{at}/foo{letter}bar.txt");
            assert_eq!(tiers.expect_blob(&native), b"foo\n", "its own name in Blob");
        }
        for (at, letter) in LETTERS.iter().enumerate() {
            fs::write(path(&format!("late{at}/foo{letter}bar.txt")), "foo\n").expect("a write");
            for early in both {
                let old = path(&format!("{early}{at}/foo{letter}bar.txt"));
                fs::rename(&old, path(&format!("{early}{at}/bar.txt"))).expect("a rename");
                assert_eq!(errno(fs::metadata(&old)), libc::ENOENT, "{letter}");
            }
        }
        mount.flush();
        let expected: Vec<_> =
            (0..LETTERS.len()).flat_map(|at| both.map(|early| format!("blob/{early}{at}/bar.txt"))).collect();
        let mut names = tiers.blob_file_names();
        names.sort_by_key(|name| expected.iter().position(|known| known == name));
        assert_eq!(names, expected, "exactly one blob each");
        for name in expected {
            assert_eq!(fs::read(mount.path(&name)).expect("a read"), b"foo\n");
            assert_eq!(tiers.expect_blob(&name), b"foo\n");
        }
    });
}

#[test]
fn names_that_azure_would_change_round_trip_without_the_catalog() {
    use std::os::unix::ffi::OsStrExt;
    on_both(|tiers| {
        let mut mount = Mount::of(tiers).start();
        let names: [&[u8]; 7] =
            [b"dot.", b"back\\slash", b"new\nline", b"\xff\xfe", "␛41".as_bytes(), b"...", b"tab\t."];
        fs::create_dir(mount.path("blob")).expect("mkdir");
        for name in names {
            let path = mount.path("blob").join(std::ffi::OsStr::from_bytes(name));
            fs::write(&path, name).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        mount.flush();
        without_catalog(&mut mount);
        let mut shown: Vec<_> = fs::read_dir(mount.path("blob"))
            .expect("a directory")
            .map(|entry| entry.expect("an entry").file_name().as_bytes().to_vec())
            .collect();
        shown.sort();
        let mut expected = names.map(<[u8]>::to_vec);
        expected.sort();
        assert_eq!(shown, expected);
        for name in names {
            let path = mount.path("blob").join(std::ffi::OsStr::from_bytes(name));
            assert_eq!(fs::read(path).expect("a read"), name);
        }
    });
}

#[test]
fn a_name_that_blob_can_not_hold_is_refused_at_create() {
    let (_server, tiers, _) = own();
    let mount = Mount::of(&tiers).start();
    let deep = std::iter::repeat_n("d".repeat(200), 6).collect::<Vec<_>>().join("/");
    let refused = fs::create_dir_all(mount.path("blob").join(&deep))
        .and_then(|()| fs::write(mount.path("blob").join(&deep).join("f"), "x"));
    assert_eq!(errno(refused), libc::ENAMETOOLONG);
    mount.flush();
}

/// Names that others made and no file can have: told, left alone, and no trouble for their neighbours.
#[test]
fn names_that_can_not_be_shown_are_counted() {
    let (server, tiers, container) = own();
    let odd = ["d//x", "d/tail.", "d/./x", "d/e/../x"].map(ToOwned::to_owned);
    let long = format!("d/{}", "x".repeat(300));
    for name in odd.iter().chain([&long]) {
        server.put_synthetic(&container, &format!("blob/{name}"), 5);
    }
    server.put_synthetic(&container, "blob/d/fine", 5);
    server.put_synthetic(&container, "blob/both", 5);
    server.put_synthetic(&container, "blob/both/f", 5);
    let mount = Mount::of(&tiers).start();
    let shown = |directory: &str| {
        let mut names: Vec<_> = fs::read_dir(mount.path(directory))
            .expect("a directory")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    };
    let hidden = || {
        let status: serde_json::Value = serde_json::from_str(&mount.tierstat(&["--json"])).expect("JSON");
        status["hidden"].as_u64().expect("a number")
    };
    assert_eq!(hidden(), 0);
    assert_eq!(
        (shown("blob"), shown("blob/d"), shown("blob/both")),
        (vec!["both".into(), "d".into()], vec!["e".into(), "fine".into()], vec!["f".into()])
    );
    // In `blob` the file `both`; in `d` two prefixes and two names. What is in `e` is not known yet.
    assert_eq!(hidden(), 5);
    assert_eq!(shown("blob/d/e"), [""; 0]);
    assert_eq!(hidden(), 6);
    assert!(mount.tierstat(&[]).contains("6 that can't be shown"), "{}", mount.tierstat(&[]));
    assert_eq!(errno(fs::remove_dir(mount.path("blob/d/e"))), libc::ENOTEMPTY);
    for _ in 0..2 {
        assert_eq!(fs::read(mount.path("blob/d/fine")).expect("a read"), server.bytes_at(0..5));
        assert_eq!(shown("blob/d").len(), 2);
    }
    assert_eq!(hidden(), 6, "each counts once, however often it is looked at");
}
