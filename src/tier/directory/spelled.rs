//! Keys of a root as they are spelled there, and what changes names.

use super::names::Names;
use super::root::{Parent, Root, unless_stale};
use crate::types::Key;
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;
use std::borrow::Cow;

impl Root {
    /// `key` as it is spelled here; for what is not here, as it would be. Names under `.tierfs` are ours, and plain.
    pub(super) fn spelled<'k>(&self, key: &'k Key) -> Result<Cow<'k, Key>, Errno> {
        let names = match self.spelling().names() {
            Some(names) if !is_ours(key) => names,
            _ => return Ok(Cow::Borrowed(key)),
        };
        if self.spelling().folding().is_some() {
            return self.found(key, &names).map(Cow::Owned);
        }
        let mut spelled = Key::ROOT;
        for name in key.components() {
            spelled = join(&spelled, &names.plain(name))?;
        }
        Ok(Cow::Owned(spelled))
    }

    /// The spelling that is there, where case folds.
    fn found(&self, key: &Key, names: &Names) -> Result<Key, Errno> {
        let Some((parent, name)) = key.split() else { return Ok(Key::ROOT) };
        let dir = self.found(&parent, names)?;
        let (plain, own) = (names.plain(name), names.own(name));
        let (plain_key, own_key) = (join(&dir, &plain), join(&dir, &own));
        for known in [&plain_key, &own_key].into_iter().flatten() {
            if self.spelling().is_known(known) {
                return Ok(known.clone());
            }
        }
        let found = if own != plain && self.has(&own_key)? {
            own_key?
        } else if !self.has(&plain_key)? {
            return plain_key;
        } else if self.lists(&dir, &plain)? {
            plain_key?
        } else {
            return own_key;
        };
        self.spelling().remember(found.clone());
        Ok(found)
    }

    /// Whether a look at `key` finds anything; what is too long is nowhere.
    fn has(&self, key: &Result<Key, Errno>) -> Result<bool, Errno> {
        let Ok(key) = key else { return Ok(false) };
        match self.open_spelled(key, OFlags::PATH, Mode::empty()) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Whether the directory lists `name` with this very spelling.
    fn lists(&self, dir: &Key, name: &[u8]) -> Result<bool, Errno> {
        let fd = self.open_spelled(dir, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        for entry in Dir::new(fd)? {
            if entry?.file_name().to_bytes() == name {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The name that `stored`, found in `dir`, stands for.
    pub(super) fn name(&self, dir: &Key, stored: Vec<u8>) -> Option<Vec<u8>> {
        match self.spelling().names() {
            Some(names) if dir.is_root() || !is_ours(dir) => names.name(&stored),
            _ => Some(stored),
        }
    }

    /// A listing of `dir` had `stored`.
    pub(super) fn is_listed(&self, dir: &Key, stored: &[u8]) -> Result<(), Errno> {
        if self.spelling().folding().is_some() {
            self.is_there(&join(&*self.spelled(dir)?, stored)?);
        }
        Ok(())
    }

    /// Something has just this spelling.
    pub(super) fn is_there(&self, spelled: &Key) {
        if !is_ours(spelled) && self.spelling().folding().is_some() {
            self.spelling().remember(spelled.clone());
        }
    }

    /// Makes something new under `key`.
    pub(super) fn making(
        &self,
        key: &Key,
        make: impl Fn(&Parent<'_>, &[u8]) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let _making = self.spelling().making();
        let spelled = self.spelled(key)?;
        unless_stale(|| {
            let (parent, name) = self.place(&spelled)?;
            make(&parent, name)
        })?;
        self.is_there(&spelled);
        Ok(())
    }

    /// unlinkat(2).
    pub(super) fn removing(&self, key: &Key, flags: AtFlags) -> Result<(), Errno> {
        let spelled = self.spelled(key)?;
        unless_stale(|| {
            let (parent, name) = self.place(&spelled)?;
            rustix::fs::unlinkat(parent, name, flags)
        })?;
        if flags.contains(AtFlags::REMOVEDIR) {
            self.spelling().forget_below(&spelled);
        } else {
            self.spelling().forget(&spelled);
        }
        Ok(())
    }

    /// Moves what is under `from` to `to`, or swaps the two.
    pub(super) fn renaming(
        &self,
        from: &Key,
        to: &Key,
        rename: impl Fn(&Parent<'_>, &[u8], &Parent<'_>, &[u8]) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let _making = self.spelling().making();
        let (spelled_from, spelled_to) = (self.spelled(from)?, self.spelled(to)?);
        unless_stale(|| {
            let ((from_parent, from_name), (to_parent, to_name)) =
                (self.place(&spelled_from)?, self.place(&spelled_to)?);
            rename(&from_parent, from_name, &to_parent, to_name)
        })?;
        if self.spelling().folding().is_some() {
            self.spelling().forget_below(&spelled_from);
            self.spelling().forget_below(&spelled_to);
            self.is_there(&spelled_to);
        }
        Ok(())
    }
}

fn is_ours(key: &Key) -> bool {
    key.components().next().is_none_or(|first| first == super::OWN_DIRECTORY.as_bytes())
}

fn join(dir: &Key, name: &[u8]) -> Result<Key, Errno> {
    dir.join(name).map_err(|error| match error {
        crate::types::KeyError::TooLong => Errno::NAMETOOLONG,
        crate::types::KeyError::Invalid => Errno::INVAL,
    })
}
