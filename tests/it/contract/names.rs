//! Names that tools and services mangle.

use super::*;

cases![
    odd_names_come_back_as_they_were,
    names_differ_by_bytes,
    names_that_differ_in_case_only,
    dots_spaces_and_control_characters,
];

const ODD: [&str; 40] = [
    "#",
    "%",
    "?",
    "&",
    "+",
    " ",
    "'",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ";",
    "=",
    ",",
    "~",
    "!",
    "@",
    "$",
    "^",
    "*",
    "|",
    "<",
    ">",
    "\"",
    ":",
    "`",
    "foo#bar.txt",
    "%41",
    "a%2fb",
    "a%25b",
    "+ +",
    "é",
    "漢字",
    "🙂",
    " lead",
    "..x",
    "-rf",
    "con",
];

async fn odd_names_come_back_as_they_were(tier: Arc<dyn Tier>) {
    let longest = "n".repeat(255);
    let mut expected: Vec<Vec<u8>> =
        ODD.iter().copied().chain([longest.as_str()]).map(|n| n.into()).collect();
    for name in &expected {
        let key = key("odd").join(name).unwrap();
        tier.put(&key, name.clone().into(), &no_attrs(), &Condition::Absent).await.unwrap();
    }
    expected.sort();
    let found = names(&*tier, "odd", b"", 1_000).await;
    let shown =
        |names: &[Vec<u8>]| names.iter().map(|name| name.escape_ascii().to_string()).collect::<Vec<_>>();
    assert_eq!(shown(&found), shown(&expected));
    for name in &expected {
        let key = key("odd").join(name).unwrap();
        let object = tier.head(&key).await.unwrap();
        let chunks: Vec<_> = tier.read(&key, 0..1_000, &object.version).await.unwrap().collect().await;
        let bytes: Vec<u8> = chunks.into_iter().flat_map(|chunk| chunk.unwrap().to_vec()).collect();
        assert_eq!(bytes, *name);
        tier.delete(&key, &Condition::Matches(object.version)).await.unwrap();
    }
    assert!(names(&*tier, "odd", b"", 1_000).await.is_empty());
}

/// Composed and decomposed é are two names on Linux.
async fn names_differ_by_bytes(tier: Arc<dyn Tier>) {
    put(&*tier, "n/\u{e9}", "composed").await;
    put(&*tier, "n/e\u{301}", "decomposed").await;
    assert_eq!(read(&*tier, "n/\u{e9}").await, b"composed");
    assert_eq!(read(&*tier, "n/e\u{301}").await, b"decomposed");
    assert_eq!(names(&*tier, "n", b"", 10).await.len(), 2);
}

/// Where the store folds case one of them is stored under an escaped name: never is one merged with the other.
async fn names_that_differ_in_case_only(tier: Arc<dyn Tier>) {
    put(&*tier, "c/name", "lower").await;
    assert_kind(tier.head(&key("c/NAME")).await, &[Kind::NotFound]);
    tier.put(&key("c/NAME"), "upper".into(), &no_attrs(), &Condition::Absent).await.unwrap();
    put(&*tier, "C/name", "other directory").await;
    assert_eq!(names(&*tier, "c", b"", 10).await, [&b"NAME"[..], b"name"]);
    assert_eq!(read(&*tier, "c/name").await, b"lower");
    assert_eq!(read(&*tier, "c/NAME").await, b"upper");
    assert_eq!(read(&*tier, "C/name").await, b"other directory");
    tier.delete(&key("c/name"), &Condition::Always).await.unwrap();
    assert_kind(tier.head(&key("c/name")).await, &[Kind::NotFound]);
    assert_eq!(names(&*tier, "c", b"", 10).await, [b"NAME"]);
    put(&*tier, "c/name", "lower again").await;
    assert_eq!(read(&*tier, "c/NAME").await, b"upper");
}

/// Windows and SMB refuse all of these in some place.
async fn dots_spaces_and_control_characters(tier: Arc<dyn Tier>) {
    let odd: [&[u8]; 7] = [b"end.", b"end", b"end ", b"tab\there", b"\x01", b"nul.txt", b"back\\slash"];
    for name in odd {
        let key = key("dir.").join(name).unwrap();
        tier.put(&key, name.to_vec().into(), &no_attrs(), &Condition::Absent).await.unwrap();
    }
    let mut expected = odd.map(<[u8]>::to_vec).to_vec();
    expected.sort();
    assert_eq!(names(&*tier, "dir.", b"", 100).await, expected);
    for name in odd {
        let key = key("dir.").join(name).unwrap();
        let object = tier.head(&key).await.unwrap();
        assert_eq!(object.size, name.len() as u64);
    }
    assert_eq!(names(&*tier, "", b"dir", 100).await, [b"dir."]);
}
