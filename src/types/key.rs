//! Keys: where bytes are on a tier, relative to its root.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Longest name of one component, in bytes (Linux NAME_MAX).
const NAME_MAX: usize = 255;

/// A relative path of valid components joined by `/`; empty for the root.
///
/// By construction it has no empty component, no `.`, no `..` and no NUL, so it can't leave
/// the root it is used under (symlinks are the tier's business).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize, serde::Deserialize)]
pub struct Key(Vec<u8>);

/// Why some bytes are not a [`Key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// An empty component, `.`, `..`, or one with `/` or NUL.
    #[error("not a valid file name")]
    Invalid,
    /// A component over 255 bytes.
    #[error("a name is longer than 255 bytes")]
    TooLong,
}

/// Whether `name` can be one component of a [`Key`].
///
/// # Errors
/// [`KeyError`] says what is wrong with it.
pub fn name_is_valid(name: &[u8]) -> Result<(), KeyError> {
    if name.is_empty() || name == b"." || name == b".." || name.iter().any(|&b| b == b'/' || b == 0) {
        return Err(KeyError::Invalid);
    }
    if name.len() > NAME_MAX {
        return Err(KeyError::TooLong);
    }
    Ok(())
}

impl Key {
    /// The tier's root.
    pub const ROOT: Self = Self(Vec::new());

    /// Checks and takes `path`.
    ///
    /// # Errors
    /// [`KeyError`] if any component is not a valid name.
    pub fn parse(path: impl AsRef<[u8]>) -> Result<Self, KeyError> {
        let path = path.as_ref();
        if !path.is_empty() {
            path.split(|&b| b == b'/').try_for_each(name_is_valid)?;
        }
        Ok(Self(path.to_vec()))
    }

    /// This key with one more component.
    ///
    /// # Errors
    /// [`KeyError`] if `name` is not a valid name.
    pub fn join(&self, name: impl AsRef<[u8]>) -> Result<Self, KeyError> {
        let name = name.as_ref();
        name_is_valid(name)?;
        let mut path = Vec::with_capacity(self.0.len() + 1 + name.len());
        path.extend_from_slice(&self.0);
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        Ok(Self(path))
    }

    /// The key without its last component, and that component; `None` for the root.
    #[must_use]
    pub fn split(&self) -> Option<(Self, &[u8])> {
        if self.is_root() {
            return None;
        }
        match self.0.iter().rposition(|&b| b == b'/') {
            Some(at) => Some((Self(self.0[..at].to_vec()), &self.0[at + 1..])),
            None => Some((Self::ROOT, &self.0)),
        }
    }

    /// The components, first to last.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|&b| b == b'/').filter(|name| !name.is_empty())
    }

    /// Whether `self` is `other` or lies below it.
    #[must_use]
    pub fn is_under(&self, other: &Self) -> bool {
        other.is_root()
            || (self.0.starts_with(&other.0)
                && (self.0.len() == other.0.len() || self.0[other.0.len()] == b'/'))
    }

    /// Whether this is the tier's root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes, without a leading slash.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As a relative path; the root is `.`.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        if self.is_root() { Path::new(".") } else { Path::new(OsStr::from_bytes(&self.0)) }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stay_inside() {
        for bad in ["/a", "a//b", "a/", "..", "a/../b", ".", "a/./b", "a\0"] {
            assert_eq!(Key::parse(bad), Err(KeyError::Invalid), "{bad:?}");
        }
        assert_eq!(Key::ROOT.join([b'x'; 256]), Err(KeyError::TooLong));
        assert!(Key::ROOT.join([b'x'; 255]).is_ok());
    }

    #[test]
    fn split_and_join_are_inverse() {
        let key = Key::parse("a/b/c").unwrap();
        let (parent, name) = key.split().unwrap();
        assert_eq!((parent.as_bytes(), name), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(parent.join(name).unwrap(), key);
        assert_eq!(Key::ROOT.split(), None);
        assert!(key.is_under(&parent) && key.is_under(&Key::ROOT) && key.is_under(&key));
        assert!(!Key::parse("a/bc").unwrap().is_under(&parent));
    }
}
