//! Names that tools and services mangle.

use super::*;

cases![odd_names_come_back_as_they_were, names_differ_by_bytes, names_that_differ_in_case_only];

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

async fn names_that_differ_in_case_only(tier: Arc<dyn Tier>) {
    put(&*tier, "c/name", "lower").await;
    let second = tier.put(&key("c/NAME"), "upper".into(), &no_attrs(), &Condition::Absent).await;
    if tier.capabilities().case_sensitive {
        second.unwrap();
        assert_eq!(names(&*tier, "c", b"", 10).await, [&b"NAME"[..], b"name"]);
    } else {
        assert_kind(second, &[Kind::Exists]);
    }
    assert_eq!(read(&*tier, "c/name").await, b"lower");
}
