//! How a component of a key is spelled on a file system that can't hold every name. Pure: must not look at any.
//!
//! What the file system refuses is escaped (see `escape`): that is the *plain* spelling. Where case folds, a second
//! name that differs only in case takes its *own* spelling, without a letter that has a case. Both spell one name
//! only, so whatever is found stands for one key, and what neither would write is hidden.

use crate::tier::escape::{ESCAPE, escape_bytes, escape_unless, unescape};
use crate::types::name_is_valid;
use std::cell::Cell;

/// Characters that Windows and SMB refuse.
pub(super) const SUSPECTS: [char; 8] = ['"', '*', ':', '<', '>', '?', '|', '\\'];
/// Names of Windows' devices, with any extension.
const DEVICES: [&str; 7] = ["con", "prn", "aux", "nul", "clock$", "com", "lpt"];

/// What a file system refuses in names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Refused {
    /// Of [`SUSPECTS`].
    pub letters: Vec<char>,
    pub controls: bool,
    /// A dot or a space at the end.
    pub ends: bool,
    pub not_utf8: bool,
    pub devices: bool,
}

/// Whether names that differ in case only are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Kept,
    Folded,
}

/// The names of one file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    pub refused: Refused,
    pub case: Case,
}

impl Names {
    /// Whether each name is spelled as it is.
    pub(super) fn are_free(&self) -> bool {
        self.refused == Refused::default() && self.case == Case::Kept
    }

    /// What `name` is stored as, unless another name has that with other case.
    pub(super) fn plain(&self, name: &[u8]) -> Vec<u8> {
        if !self.refused.not_utf8 && std::str::from_utf8(name).is_err() {
            return self.plain_bytes(name);
        }
        self.spell(name, |letter| self.holds(letter)).into_bytes()
    }

    /// The same without any letter that has a case; one that is in lower case throughout has one letter escaped.
    pub(super) fn own(&self, name: &[u8]) -> Vec<u8> {
        let caseless = |letter: char| letter.is_ascii_lowercase() || !letter.is_alphabetic();
        let own = self.spell(name, |letter| self.holds(letter) && caseless(letter)).into_bytes();
        if own != self.plain(name) {
            return own;
        }
        let marked = Cell::new(false);
        let is_kept = |letter: char| !letter.is_ascii_lowercase() || marked.replace(true);
        self.spell(name, |letter| self.holds(letter) && is_kept(letter)).into_bytes()
    }

    /// The name that is stored as `stored`, if there is one.
    pub(super) fn name(&self, stored: &[u8]) -> Option<Vec<u8>> {
        let name = match std::str::from_utf8(stored) {
            Ok(text) => unescape(text)?,
            Err(_) => stored.to_vec(),
        };
        name_is_valid(&name).ok()?;
        let folds = self.case == Case::Folded;
        (self.plain(&name) == stored || folds && self.own(&name) == stored).then_some(name)
    }

    fn holds(&self, letter: char) -> bool {
        let refused = &self.refused;
        // What cifs.ko stores in place of refused letters would come back as them.
        let is_mapped = matches!(letter, '\u{F000}'..='\u{F0FF}') && !refused.letters.is_empty();
        let is_refused = refused.letters.contains(&letter) || refused.controls && letter.is_ascii_control();
        !(letter == ESCAPE || is_mapped || is_refused)
    }

    fn spell(&self, name: &[u8], keep: impl Fn(char) -> bool) -> String {
        let mut out = String::with_capacity(name.len());
        let first = usize::from(self.refused.devices && is_device(name));
        let last = usize::from(self.refused.ends && matches!(name.last(), Some(b'.' | b' ')));
        let end = (name.len() - last).max(first);
        escape_bytes(&name[..first], &mut out);
        escape_unless(keep, &name[first..end], &mut out);
        escape_bytes(&name[end..], &mut out);
        out
    }

    /// A name that is no UTF-8, where such names are held; the escape sign can't be part of one that is.
    fn plain_bytes(&self, name: &[u8]) -> Vec<u8> {
        let odd = self.spell(name, |letter| self.holds(letter));
        let must = name.utf8_chunks().any(|chunk| chunk.valid().chars().any(|letter| !self.holds(letter)));
        let ends = self.refused.ends && matches!(name.last(), Some(b'.' | b' '));
        if must || ends { odd.into_bytes() } else { name.to_vec() }
    }
}

fn is_device(name: &[u8]) -> bool {
    let base = name.split(|&byte| byte == b'.').next().unwrap_or(name);
    let Ok(base) = std::str::from_utf8(base) else { return false };
    let base = base.trim_end().to_ascii_lowercase();
    let bare = base.strip_suffix(|last: char| last.is_ascii_digit());
    DEVICES.iter().any(|device| match *device {
        "com" | "lpt" => bare == Some(*device),
        device => base == device,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn poor() -> Names {
        let letters = SUSPECTS.to_vec();
        let refused = Refused { letters, controls: true, ends: true, not_utf8: true, devices: true };
        Names { refused, case: Case::Folded }
    }

    fn plain(name: &[u8]) -> String {
        String::from_utf8(poor().plain(name)).unwrap()
    }

    fn own(name: &[u8]) -> String {
        String::from_utf8(poor().own(name)).unwrap()
    }

    #[test]
    fn what_it_holds_is_stored_as_it_is() {
        for name in
            ["README.md", "a b", ".hidden", "é漢🙂", "console", "com", "lpt.x", "con1", "%41", " lead"]
        {
            assert_eq!(plain(name.as_bytes()), name);
        }
    }

    #[test]
    fn what_it_refuses_is_escaped() {
        assert_eq!(plain(b"x:y"), "x␛3ay");
        assert_eq!(plain(b"end."), "end␛2e");
        assert_eq!(plain(b"end "), "end␛20");
        assert_eq!(plain(b"a\\\n"), "a␛5c␛0a");
        assert_eq!(plain(b"\xff"), "␛ff");
        assert_eq!(plain(b"Nul.txt"), "␛4eul.txt");
        assert_eq!(plain(b"com1"), "␛63om1");
        assert_eq!(plain("␛3a".as_bytes()), "␛e2␛90␛9b3a");
    }

    #[test]
    fn a_second_case_has_a_spelling_of_its_own() {
        assert_eq!(own(b"A"), "␛41");
        assert_eq!(own(b"a"), "␛61");
        assert_eq!(own(b"ReadMe"), "␛52ead␛4de");
        assert_eq!(own("É".as_bytes()), "␛c3␛89");
        assert_eq!(own(b"123"), "123");
    }

    #[test]
    fn what_nobody_would_write_has_no_name() {
        for odd in ["x:y", "end.", "␛", "␛3", "␛2f", "␛41␛42c", "nul", "\u{1}"] {
            let found = poor().name(odd.as_bytes());
            assert_eq!(found, (odd == "␛41␛42c").then(|| b"ABc".to_vec()), "{odd:?}");
        }
        assert_eq!(poor().name("a␛62".as_bytes()), None, "needless");
        assert_eq!(poor().name(b"\xff"), None, "not here");
    }

    #[test]
    fn free_names_are_left_alone() {
        let free = Names { refused: Refused::default(), case: Case::Kept };
        assert!(free.are_free() && !poor().are_free());
    }

    fn component() -> impl Strategy<Value = Vec<u8>> {
        let odd = proptest::sample::select(vec![
            "a", "A", "b", "É", "é", ":", ".", " ", "␛", "3a", "\\", "K", "ſ", "nul", "COM1", "\u{f03a}",
            "\n",
        ]);
        let text = proptest::collection::vec(odd, 1..6).prop_map(|parts| parts.concat().into_bytes());
        prop_oneof![4 => text, 1 => proptest::collection::vec(any::<u8>(), 1..6)]
            .prop_filter("valid", |name| name_is_valid(name).is_ok())
    }

    proptest! {
        #[test]
        fn both_spellings_lead_back(name in component(), not_utf8: bool, ends: bool) {
            let mut names = poor();
            names.refused.not_utf8 = not_utf8;
            names.refused.ends = ends;
            prop_assert_eq!(names.name(&names.plain(&name)), Some(name.clone()));
            prop_assert_eq!(names.name(&names.own(&name)), Some(name));
        }

        #[test]
        fn own_spellings_never_fold_into_one(one in component(), other in component()) {
            prop_assume!(one != other);
            let fold = |name: &[u8]| own(name).to_uppercase();
            prop_assert_ne!(fold(&one), fold(&other));
        }
    }
}
