//! A directory tier as this module uses it: the calls of `Resident` plus what several callers
//! need (missing parents, small files, removal that may find nothing).

use crate::error::{Error, Kind, Result, found};
use crate::tier::{Access, Cursor, Entry, RenameMode, Resident, Tier};
use crate::types::Key;
use std::fs::File;
use std::io::{Read, Write};
use std::sync::Arc;

/// Everything under `.tierfs` holds bytes whose permissions the mount checks: nobody else gets in.
const DIRECTORY_MODE: u32 = 0o700;
pub(super) const FILE_MODE: u32 = 0o600;
/// Sidecars and owner files are small; anything larger is not ours.
const SMALL_FILE_MAX: u64 = 1 << 20;
const PAGE: usize = 1024;
/// A directory may be removed between its making and its use by whoever tidies up.
const ATTEMPTS: usize = 8;

/// A tier known to be resident.
#[derive(Clone, Debug)]
pub(super) struct Local(Arc<dyn Tier>);

impl Local {
    /// # Errors
    /// `Invalid` if the tier is not resident.
    pub fn new(tier: Arc<dyn Tier>) -> Result<Self> {
        if tier.resident().is_none() {
            return Err(Error::new(Kind::Invalid, format!("tier {} is not a directory", tier.name())));
        }
        Ok(Self(tier))
    }

    pub fn tier(&self) -> &Arc<dyn Tier> {
        &self.0
    }

    /// # Errors
    /// `Absent` if the tier stopped being resident, which none does.
    pub fn files(&self) -> Result<&dyn Resident> {
        self.0.resident().ok_or_else(|| crate::tier::absent(self.0.name()))
    }

    /// Creates `key`, making the directories above it.
    pub fn create(&self, key: &Key, mode: u32) -> Result<File> {
        self.with_parents(key, |files| files.create(key, mode))
    }

    /// Renames over whatever is at `to`, making the directories above it.
    pub fn rename(&self, from: &Key, to: &Key) -> Result<()> {
        let done = self.with_parents(to, |files| files.rename(from, to, RenameMode::Replace));
        done.map_err(|error| error.context(format_args!("{from} → {to}")))
    }

    /// Runs `act`, and again after making the directories above `key` if one was missing.
    fn with_parents<T>(&self, key: &Key, act: impl Fn(&dyn Resident) -> Result<T>) -> Result<T> {
        let files = self.files()?;
        let mut done = act(files);
        for _ in 0..ATTEMPTS {
            match &done {
                Err(error) if error.kind() == Kind::NotFound => self.make_parents(key)?,
                _ => break,
            }
            done = act(files);
        }
        done
    }

    fn make_parents(&self, key: &Key) -> Result<()> {
        match key.split() {
            Some((parent, _)) => self.make_directory(&parent),
            None => Ok(()),
        }
    }

    /// Makes the directory and those above it.
    pub fn make_directory(&self, key: &Key) -> Result<()> {
        if key.is_root() {
            return Ok(());
        }
        match self.files()?.mkdir(key, DIRECTORY_MODE) {
            Err(error) if error.kind() == Kind::NotFound => {
                self.make_parents(key)?;
                self.files()?.mkdir(key, DIRECTORY_MODE).or_else(|error| unless(error, Kind::Exists))
            }
            done => done.or_else(|error| unless(error, Kind::Exists)),
        }
    }

    /// Removes a file; one that is not there is fine.
    pub fn remove(&self, key: &Key) -> Result<()> {
        self.files()?.unlink(key).or_else(|error| unless(error, Kind::NotFound))
    }

    /// Opens a file for reading, `None` if there is none.
    pub fn open(&self, key: &Key) -> Result<Option<File>> {
        found(self.files()?.open(key, Access::Read))
    }

    /// The content of a small file, `None` if there is none.
    pub fn read_small(&self, key: &Key) -> Result<Option<Vec<u8>>> {
        let Some(file) = self.open(key)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(SMALL_FILE_MAX).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Puts a small file at `key` in one step, by way of `temporary`. Not synced.
    pub fn write_small(&self, key: &Key, temporary: &Key, bytes: &[u8]) -> Result<()> {
        let mut file = self.create(temporary, FILE_MODE)?;
        let done = file.write_all(bytes).map_err(Error::from).and_then(|()| self.rename(temporary, key));
        if done.is_err() {
            // The first error tells what happened; a leftover is removed at the next start.
            let _ = self.remove(temporary);
        }
        done
    }

    /// Calls `visit` for every entry of `dir`; a directory that is not there has none.
    pub fn for_each(&self, dir: &Key, mut visit: impl FnMut(Entry) -> Result<()>) -> Result<()> {
        let mut from: Option<Cursor> = None;
        loop {
            let Some(page) = found(self.files()?.read_directory(dir, from.take(), PAGE))? else {
                return Ok(());
            };
            page.entries.into_iter().try_for_each(&mut visit)?;
            match page.next {
                Some(next) => from = Some(next),
                None => return Ok(()),
            }
        }
    }
}

/// Fine if the error is of `kind`.
pub(super) fn unless(error: Error, kind: Kind) -> Result<()> {
    if error.kind() == kind { Ok(()) } else { Err(error) }
}
