//! Names go to the container as they are and come back as they were.

use super::*;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};

const NATIVE: [&str; 29] = [
    "#", "%", "?", "&", "+", " ", "'", "(", ")", "[", "]", "{", "}", ";", "=", ",", "~", "é", "e\u{301}",
    "漢字", "🦀", "%41", "*", ":", "\"", "<>|", "@", "$", "^`!",
];

#[tokio::test]
async fn special_characters_are_native() {
    let container = Container::create().await;
    let tier = container.tier("p q");
    for odd in NATIVE {
        let path = format!("d{odd}/foo{odd}bar.txt");
        put(&*tier, &path, odd).await;
        assert_eq!(content(&*tier, &path).await, odd.as_bytes(), "{path}");
        let stored = percent_encode(format!("p q/{path}").as_bytes(), NON_ALPHANUMERIC).to_string();
        let seen = container.get(&stored.replace("%2F", "/")).await.expect("the same name");
        assert_eq!(seen.body, odd.as_bytes());
        let (entries, hidden) = list(&*tier, &format!("d{odd}"), 100).await;
        assert_eq!((names(&entries), hidden), (vec![format!("foo{odd}bar.txt")], 0));
    }
    assert_eq!(list(&*tier, "", 7).await.0.len(), NATIVE.len());
    // Renames are copies and deletes: the old name is gone, the new one is the only one.
    for odd in NATIVE {
        let (from, to) = (key(format!("d{odd}/foo{odd}bar.txt")), key(format!("d{odd}/bar.txt")));
        let version = tier.head(&from).await.unwrap().version;
        tier.copy(&from, &version, &to, &Attrs::default(), &Condition::Absent).await.unwrap();
        tier.delete(&from, &Condition::Matches(version)).await.unwrap();
        assert_eq!(kind(tier.head(&from).await), Kind::NotFound);
        assert_eq!(names(&list(&*tier, &format!("d{odd}"), 9).await.0), ["bar.txt"]);
        assert_eq!(content(&*tier, &format!("d{odd}/bar.txt")).await, odd.as_bytes());
    }
}

#[tokio::test]
async fn what_azure_can_not_hold_comes_back_too() {
    let container = Container::create().await;
    let tier = container.tier("");
    let odd: [&[u8]; 8] = [
        b"a\\b",
        b"dot.",
        b"dots..",
        b"\xff\xfe",
        b"new\nline",
        "␛5c".as_bytes(),
        "\u{85}".as_bytes(),
        b"\x7f",
    ];
    for name in odd {
        let path = [b"dir./".as_slice(), name].concat();
        tier.put(&key(&path), Bytes::from(name.to_vec()), &Attrs::default(), &Condition::Absent)
            .await
            .unwrap();
        assert_eq!(tier.head(&key(&path)).await.unwrap().size, name.len() as u64);
    }
    let (entries, hidden) = list(&*tier, "dir.", 3).await;
    let mut expected: Vec<_> = odd.iter().map(|name| name.to_vec()).collect();
    expected.sort();
    assert_eq!((entries.into_iter().map(|entry| entry.name).collect::<Vec<_>>(), hidden), (expected, 0));
    assert_eq!(names(&list(&*tier, "", 3).await.0), ["dir."]);
    assert!(container.get("dir%E2%90%9B2e/a%E2%90%9B5cb").await.is_some());
}

#[tokio::test]
async fn over_long_names_are_refused_at_once() {
    let tier = Container::create().await.tier("");
    let long = key(vec!["x".repeat(255); 5].join("/"));
    let refused = tier.put(&long, Bytes::new(), &Attrs::default(), &Condition::Always).await;
    assert_eq!(kind(refused), Kind::NameTooLong);
    assert_eq!(kind(tier.upload(&long, 1).await), Kind::NameTooLong);
    let fits = vec!["x".repeat(203); 5].join("/");
    put(&*tier, &fits, "x").await;
    assert_eq!(content(&*tier, &fits).await, b"x");
}

#[tokio::test]
async fn a_listing_can_be_narrowed() {
    let tier = Container::create().await.tier("p");
    for path in ["d/abc", "d/abd", "d/ac/x", "d/b", "d/é1", "d/é2", "d/.", "d/.."]
        .iter()
        .filter(|path| !path.ends_with('.'))
    {
        put(&*tier, path, "x").await;
    }
    for (start, expected) in [
        (&b"ab"[..], vec!["abc", "abd"]),
        (b"a", vec!["abc", "abd", "ac"]),
        (b"z", vec![]),
        (b"\xc3", vec!["é1", "é2"]),
        (b"", vec!["abc", "abd", "ac", "b", "é1", "é2"]),
    ] {
        let mut entries = tier.list(&key("d"), start, None, 100).await.unwrap().entries;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(names(&entries), expected);
    }
}
