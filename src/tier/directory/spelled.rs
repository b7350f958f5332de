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
        if let Some(known) = self.spelling().known(key) {
            return Ok(known);
        }
        let Some((parent, name)) = key.split() else { return Ok(Key::ROOT) };
        let dir = self.found(&parent, names)?;
        let (plain, own) = (names.plain(name), names.own(name));
        let is_there = if own != plain && self.has(&dir, &own)? {
            Some(&own)
        } else if !self.has(&dir, &plain)? {
            return join(&dir, &plain);
        } else {
            self.lists(&dir, &plain)?.then_some(&plain)
        };
        let spelled = join(&dir, is_there.unwrap_or(&own))?;
        if is_there.is_some() {
            self.spelling().remember(key.clone(), spelled.clone());
        }
        Ok(spelled)
    }

    /// Whether a look at `name` finds anything.
    fn has(&self, dir: &Key, name: &[u8]) -> Result<bool, Errno> {
        let Ok(key) = dir.join(name) else { return Ok(false) };
        match self.open_spelled(&key, OFlags::PATH, Mode::empty()) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(false),
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

    /// A listing of `dir` had `name` with this spelling.
    pub(super) fn is_listed(&self, dir: &Key, name: &[u8], stored: &[u8]) -> Result<(), Errno> {
        if self.spelling().folding().is_some() {
            self.is_made(&join(dir, name)?, &join(&*self.spelled(dir)?, stored)?);
        }
        Ok(())
    }

    /// Something was made under `key`.
    pub(super) fn is_made(&self, key: &Key, spelled: &Key) {
        if !is_ours(key) && self.spelling().folding().is_some() {
            self.spelling().remember(key.clone(), spelled.clone());
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
        self.is_made(key, &spelled);
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
            self.spelling().forget_below(key);
        } else {
            self.spelling().forget(key);
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
            self.spelling().forget_below(from);
            self.spelling().forget_below(to);
            self.is_made(to, &spelled_to);
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
