//! The one escape of names that a store can't hold: `␛` (U+241B) and two lower-case hexadecimal digits for each
//! byte. Must not know which store refuses what.

use std::fmt::Write;

/// Marks an escaped byte.
pub(super) const ESCAPE: char = '␛';

/// Appends `text`, with each character that `keep` refuses, and all that is not UTF-8, escaped.
pub(super) fn escape_unless(keep: impl Fn(char) -> bool, text: &[u8], out: &mut String) {
    for chunk in text.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if keep(letter) {
                out.push(letter);
            } else {
                escape_bytes(letter.encode_utf8(&mut [0; 4]).as_bytes(), out);
            }
        }
        escape_bytes(chunk.invalid(), out);
    }
}

/// Appends bytes, escaped.
pub(super) fn escape_bytes(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        // Writing to a String can't fail.
        let _ = write!(out, "{ESCAPE}{byte:02x}");
    }
}

/// The bytes that `stored` stands for; `None` for a broken escape. What is escaped needlessly is the caller's to refuse.
pub(super) fn unescape(stored: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(stored.len());
    let mut rest = stored;
    while let Some((plain, escaped)) = rest.split_once(ESCAPE) {
        bytes.extend_from_slice(plain.as_bytes());
        let digits = escaped.get(..2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &escaped[2..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(bytes)
}
