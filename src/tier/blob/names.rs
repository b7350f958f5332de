//! Keys to blob names and back: native wherever the store can hold the name, and a reversible
//! escape where it can't. Knows no requests.
//!
//! A component is stored as it is, except for what the store refuses or changes. Each byte of that becomes
//! `␛` (U+241B) and two lower-case hexadecimal digits:
//!
//! * bytes that are not UTF-8,
//! * control characters (U+0000-001F, U+007F-009F), U+E000-F8FF, U+FFFE and U+FFFF,
//! * `\` (Azure makes it `/`), and a dot at the end of a component,
//! * `␛` itself, so that nothing collides with the escape.
//!
//! Both ways are total on their sets and inverse to each other: a stored segment that is not exactly what
//! the escape makes of some component (empty, `.`, `..`, over 255 bytes, a needless or broken escape)
//! has no key. It is hidden and counted, so nothing is ever shown under another's name.

use crate::error::{Error, Kind, Result};
use crate::tier::escape::{ESCAPE, escape_bytes, escape_unless, unescape};
use crate::types::{Key, name_is_valid};

/// Longest blob name, in UTF-16 units as the service counts.
const NAME_UNITS_MAX: usize = 1024;

/// Most segments of a blob name.
const SEGMENTS_MAX: usize = 254;

/// The names below one prefix of a container.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// Empty, or ends with `/`.
    prefix: String,
}

impl Names {
    /// Names below `prefix` (without slashes at its ends; may be empty).
    pub(super) fn new(prefix: &str) -> Self {
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Self { prefix }
    }

    /// The name of the blob at `key`; the root has none.
    ///
    /// # Errors
    /// [`Kind::NameTooLong`] if the store can't hold it, [`Kind::IsDirectory`] for the root.
    pub(super) fn blob(&self, key: &Key) -> Result<String> {
        if key.is_root() {
            return Err(Error::new(Kind::IsDirectory, "the root of a container is no blob"));
        }
        let mut name = self.directory(key)?;
        name.pop();
        check_length(&name)?;
        Ok(name)
    }

    /// What every name below the directory `key` starts with: empty or ends with `/`.
    ///
    /// # Errors
    /// [`Kind::NameTooLong`].
    pub(super) fn directory(&self, key: &Key) -> Result<String> {
        let mut name = self.prefix.clone();
        for component in key.components() {
            encode_into(component, &mut name);
            name.push('/');
        }
        check_length(name.trim_end_matches('/'))?;
        Ok(name)
    }

    /// The longest name prefix that all names in `directory` share whose component starts with `start`.
    pub(super) fn starts_with(&self, directory: &str, start: &[u8]) -> String {
        // What is cut inside a character, or a dot that more may follow, is not known to be stored so.
        let cut = start.utf8_chunks().last().map_or(0, |chunk| chunk.invalid().len());
        let whole = &start[..start.len() - cut];
        let dots = whole.iter().rev().take_while(|&&byte| byte == b'.').count();
        let mut name = directory.to_owned();
        encode_into(&whole[..whole.len() - dots], &mut name);
        name
    }

    /// The component that is stored as `segment`, if there is one.
    pub(super) fn component(&self, segment: &str) -> Option<Vec<u8>> {
        let bytes = unescape(segment)?;
        name_is_valid(&bytes).ok()?;
        // Only the one canonical form counts: two segments never are one component.
        let mut canonical = String::with_capacity(segment.len());
        encode_into(&bytes, &mut canonical);
        (canonical == segment).then_some(bytes)
    }
}

fn encode_into(component: &[u8], out: &mut String) {
    let kept = component.len() - usize::from(component.last() == Some(&b'.'));
    escape_unless(is_native, &component[..kept], out);
    escape_bytes(&component[kept..], out);
}

fn is_native(letter: char) -> bool {
    !(letter == '\\'
        || letter == ESCAPE
        || letter.is_control()
        || matches!(letter, '\u{E000}'..='\u{F8FF}' | '\u{FFFE}' | '\u{FFFF}'))
}

fn check_length(name: &str) -> Result<()> {
    let units = name.chars().map(char::len_utf16).sum::<usize>();
    if units > NAME_UNITS_MAX || name.split('/').count() > SEGMENTS_MAX {
        return Err(Error::new(
            Kind::NameTooLong,
            format!("a blob's name has at most {NAME_UNITS_MAX} characters and {SEGMENTS_MAX} segments"),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn azure() -> Names {
        Names::new("p")
    }

    fn stored(component: impl AsRef<[u8]>) -> String {
        azure().blob(&Key::ROOT.join(component).unwrap()).unwrap()[2..].to_owned()
    }

    #[test]
    fn what_azure_allows_is_native() {
        for name in [
            "#", "%", "%41", "?", "&", "+", " ", "'", "()", "[]", "{}", ";", "=", ",", "~", ".hidden",
            "a..b", "é", "e\u{301}", "漢字", "🦀", "*", ":", "\"", "<>|", " lead", "trail ",
        ] {
            assert_eq!(stored(name), name);
        }
    }

    #[test]
    fn what_it_can_not_hold_is_escaped() {
        assert_eq!(stored(b"a\\b"), "a␛5cb");
        assert_eq!(stored(b"a\n"), "a␛0a");
        assert_eq!(stored(b"a.."), "a.␛2e");
        assert_eq!(stored(b"\xff\xfe"), "␛ff␛fe");
        assert_eq!(stored("␛5c"), "␛e2␛90␛9b5c");
        assert_eq!(stored("\u{85}\u{e000}"), "␛c2␛85␛ee␛80␛80");
    }

    #[test]
    fn odd_segments_have_no_key() {
        for odd in ["", ".", "..", "a.", "a\\b", "␛", "␛5", "␛5C", "␛41", "␛2f", "␛00", "\u{7f}", "␛é", "␛+5"]
        {
            assert_eq!(azure().component(odd), None, "{odd:?}");
        }
        assert_eq!(azure().component(&"x".repeat(256)), None);
        assert_eq!(azure().component(&"␛ff".repeat(255)).map(|name| name.len()), Some(255));
    }

    #[test]
    fn over_long_names_are_refused() {
        let deep = |count, name: &str| Key::parse(vec![name; count].join("/")).unwrap();
        assert!(azure().blob(&deep(4, &"x".repeat(254))).is_ok());
        for key in [deep(4, &"x".repeat(255)), deep(254, "x"), deep(3, &"\u{1}".repeat(255))] {
            assert_eq!(azure().blob(&key).unwrap_err().kind(), Kind::NameTooLong);
        }
        // An emoji counts two.
        assert!(azure().blob(&deep(8, &"🦀".repeat(63))).is_ok());
        assert!(azure().blob(&deep(9, &"🦀".repeat(63))).is_err());
    }

    #[test]
    fn directories_end_with_a_slash() {
        let names = Names::new("");
        assert_eq!(names.directory(&Key::ROOT).unwrap(), "");
        assert_eq!(names.directory(&Key::parse("a/b").unwrap()).unwrap(), "a/b/");
        assert_eq!(azure().blob(&Key::ROOT).unwrap_err().kind(), Kind::IsDirectory);
    }

    proptest! {
        #[test]
        fn components_round_trip(bytes in proptest::collection::vec(any::<u8>(), 1..80)) {
            prop_assume!(name_is_valid(&bytes).is_ok());
            let names = Names::new("");
            let blob = names.blob(&Key::ROOT.join(&bytes).unwrap()).unwrap();
            prop_assert!(!blob.ends_with('.') && !blob.chars().any(char::is_control) && !blob.contains('\\'));
            prop_assert_eq!(names.component(&blob), Some(bytes));
        }

        #[test]
        fn segments_round_trip(segment in "[a-z./%\u{7f}\\\\]{0,3}(␛[0-9a-fA-F]{1,2}|[^/]){0,9}") {
            prop_assume!(!segment.contains('/'));
            if let Some(component) = azure().component(&segment) {
                prop_assert_eq!(stored(component), segment);
            }
        }

        #[test]
        fn a_prefix_finds_all_that_start_with_it(bytes in proptest::collection::vec(any::<u8>(), 1..40), cut in 0usize..40) {
            prop_assume!(name_is_valid(&bytes).is_ok());
            let start = &bytes[..cut.min(bytes.len())];
            let blob = azure().blob(&Key::ROOT.join(&bytes).unwrap()).unwrap();
            prop_assert!(blob.starts_with(&azure().starts_with("p/", start)), "{} {:?}", blob, start);
        }
    }
}
