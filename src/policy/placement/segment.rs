//! One segment of a glob: what stands between two slashes, and which names it matches.

use globset::{GlobBuilder, GlobMatcher};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// One segment, compiled.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    text: String,
    matcher: Matcher,
}

#[derive(Clone, Debug)]
enum Matcher {
    /// `**`: any number of names, none included.
    Many,
    /// `*`: one name, whichever.
    One,
    /// This name.
    Literal,
    /// Literal pieces with a `*` between each two.
    Pieces(Vec<Vec<u8>>),
    Glob(GlobMatcher),
}

impl Segment {
    /// Compiles `text`, a segment of `glob` without slashes and braces.
    pub(super) fn parse(text: String, glob: &str) -> Result<Self, String> {
        let matcher = match text.as_str() {
            "**" => Matcher::Many,
            "*" => Matcher::One,
            "" => return Err("has an empty name between two slashes".into()),
            "." | ".." => return Err(format!("has `{text}` for a name, which no file has")),
            _ if text.contains("**") => {
                let better = glob.replacen(&text, &apart(&text), 1);
                return Err(format!("has `**` beside other characters; write \"{better}\""));
            }
            _ if !text.contains(['*', '?', '[', '\\']) => Matcher::Literal,
            _ if !text.contains(['?', '[', '\\']) => {
                Matcher::Pieces(text.split('*').map(|piece| piece.as_bytes().to_vec()).collect())
            }
            _ => Matcher::Glob(compile(&text)?),
        };
        Ok(Self { text, matcher })
    }

    /// `**`.
    pub(super) fn is_many(&self) -> bool {
        matches!(self.matcher, Matcher::Many)
    }

    /// `*`.
    pub(super) fn is_one(&self) -> bool {
        matches!(self.matcher, Matcher::One)
    }

    /// The only name it matches, if there is only one.
    pub(super) fn literal(&self) -> Option<&[u8]> {
        matches!(self.matcher, Matcher::Literal).then_some(self.text.as_bytes())
    }

    /// Whether it matches every name that `other`, which is one name too, matches; `false` when in doubt.
    pub(super) fn includes(&self, other: &Self) -> bool {
        match other.literal() {
            Some(name) => self.matches(name),
            None => self.is_one() || self.text == other.text,
        }
    }

    pub(super) fn matches(&self, name: &[u8]) -> bool {
        match &self.matcher {
            Matcher::Many | Matcher::One => true,
            Matcher::Literal => self.text.as_bytes() == name,
            Matcher::Pieces(pieces) => pieces_match(pieces, name),
            Matcher::Glob(glob) => glob.is_match(Path::new(OsStr::from_bytes(name))),
        }
    }
}

fn compile(text: &str) -> Result<GlobMatcher, String> {
    let glob = GlobBuilder::new(text).literal_separator(true).backslash_escape(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| error.kind().to_string())
}

/// `**.pt` → `**/*.pt`, as its writer meant it.
fn apart(text: &str) -> String {
    let (before, after) = text.split_once("**").unwrap_or((text, ""));
    let after = after.trim_start_matches('*');
    let before = if before.is_empty() { String::new() } else { format!("{before}*/") };
    let after = if after.is_empty() { String::new() } else { format!("/*{after}") };
    format!("{before}**{after}")
}

/// Whether `name` is the pieces in this order with anything between them.
fn pieces_match(pieces: &[Vec<u8>], name: &[u8]) -> bool {
    let [first, middle @ .., last] = pieces else { return false };
    let Some(rest) = name.strip_prefix(first.as_slice()) else { return false };
    let Some(mut rest) = rest.strip_suffix(last.as_slice()) else { return false };
    for piece in middle.iter().filter(|piece| !piece.is_empty()) {
        match rest.windows(piece.len()).position(|window| window == piece.as_slice()) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(segment: &str, name: &str) -> bool {
        Segment::parse(segment.into(), segment).unwrap().matches(name.as_bytes())
    }

    #[test]
    fn stars_leave_room_for_every_piece() {
        assert!(matches("a*a", "aa") && matches("a*a", "aba") && !matches("a*a", "a"));
        assert!(matches("*.tar", ".tar") && !matches("*.tar", "tar"));
        assert!(matches("a*b*c", "a-b-b-c") && !matches("a*b*c", "acb"));
    }

    #[test]
    fn two_stars_stand_alone() {
        for (bad, better) in
            [("**.pt", "\"x/**/*.pt\""), ("run**", "\"x/run*/**\""), ("a**b", "\"x/a*/**/*b\"")]
        {
            let said = Segment::parse(bad.into(), &format!("x/{bad}")).unwrap_err();
            assert!(said.contains(better), "{said}");
        }
    }

    #[test]
    fn names_that_are_not_utf8_match_too() {
        for segment in ["a*", "a?", "a[!b]", "*"] {
            assert!(Segment::parse(segment.into(), segment).unwrap().matches(b"a\xff"), "{segment}");
        }
    }
}
