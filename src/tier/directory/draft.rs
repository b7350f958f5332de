//! Whole files into a directory tier: a temporary file in `.tierfs/tmp`, made durable, then
//! renamed, then the directory made durable.

use super::root::{PARENT_MODE, Root};
use super::write::{check, make, remove, rename, rename_no_replace};
use super::{Inner, attributes, object, random_name};
use crate::error::{Error, Kind, Result};
use crate::tier::Special;
use crate::types::{Attrs, Condition, FileKind, Key, Timestamp, Version};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;

const ABANDONED_SECONDS: i64 = 7 * 86_400;

/// A file under a temporary name; removed when dropped before it got its own.
#[derive(Debug)]
pub(super) struct Draft {
    root: Arc<Root>,
    key: Key,
    file: Option<File>,
    placed: bool,
}

impl Draft {
    /// A new empty file.
    pub(super) fn file(root: Arc<Root>) -> Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let mode = Mode::from_raw_mode(0o600);
        let (key, fd) = in_temporary(&root, |key| root.open(key, flags, mode))?;
        Ok(Self { root, key, file: Some(fd.into()), placed: false })
    }

    /// A new symlink or special file.
    pub(super) fn special(root: Arc<Root>, special: &Special) -> Result<Self, Errno> {
        let (key, ()) = in_temporary(&root, |key| make(&root, key, special, 0o600))?;
        Ok(Self { root, key, file: None, placed: false })
    }

    /// The open file.
    pub(super) fn open_file(&self) -> Result<&File> {
        self.file.as_ref().ok_or_else(|| Error::from(Kind::Invalid))
    }

    /// Whether it has its name, even if making that durable failed.
    pub(super) fn is_placed(&self) -> bool {
        self.placed
    }

    /// Gives it its attributes and its name; durable afterwards. What no attribute says of the mode is 0644.
    pub(super) fn place(
        &mut self,
        inner: &Inner,
        key: &Key,
        attrs: &Attrs,
        condition: &Condition,
    ) -> Result<Version> {
        let holds = inner.capabilities();
        let fd = self.root.open(&self.key, OFlags::PATH, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        let kind = FileKind::from_mode(stat.st_mode).ok_or(Kind::Corrupt)?;
        let mode = attrs.mode.or(Some(0o644));
        attributes::apply(fd.as_fd(), kind, &Attrs { mode, ..attrs.clone() }, &holds)?;
        if let Some(file) = &self.file {
            file.sync_all()?;
        }
        self.rename(key, condition)?;
        // rename changes ctime, so only now.
        Ok(object::version(&rustix::fs::fstat(&fd)?))
    }

    fn rename(&mut self, key: &Key, condition: &Condition) -> Result<()> {
        let (parent, _) = key.split().ok_or(Kind::IsDirectory)?;
        let made = self.root.ensure_directory(&parent, PARENT_MODE)?;
        match condition {
            Condition::Absent => rename_no_replace(&self.root, &self.key, key)?,
            Condition::Always => rename(&self.root, &self.key, key)?,
            // No file system renames on condition: between this look and the rename another
            // program may still come in, hence `conditional` is not among the capabilities.
            Condition::Matches(_) => {
                check(&self.root, key, condition)?;
                rename(&self.root, &self.key, key)?;
            }
        }
        self.placed = true;
        Ok(self.root.sync_upwards(&parent, made)?)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.placed
            && let Err(error) = remove(&self.root, &self.key)
        {
            tracing::debug!(key = %self.key, %error, "a temporary file stays behind");
        }
    }
}

/// Makes something under a fresh name in `.tierfs/tmp`, and that directory if it is missing.
fn in_temporary<T>(root: &Root, make: impl Fn(&Key) -> Result<T, Errno>) -> Result<(Key, T), Errno> {
    let named =
        Key::parse(super::TEMPORARY).and_then(|directory| Ok((directory.join(random_name())?, directory)));
    let Ok((key, directory)) = named else { return Err(Errno::INVAL) };
    let made = match make(&key) {
        Err(Errno::NOENT) => {
            root.ensure_directory(&directory, 0o755)?;
            make(&key)?
        }
        other => other?,
    };
    Ok((key, made))
}

/// Removes temporary files that a crash left behind long ago. By ctime, which no caller can set
/// back; after as many days as Blob keeps uncommitted blocks.
pub(super) fn tidy(root: &Root, now: Timestamp) {
    let Ok(directory) = Key::parse(super::TEMPORARY) else { return };
    let Ok(fd) = root.open(&directory, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()) else { return };
    let Ok(entries) = rustix::fs::Dir::read_from(&fd) else { return };
    let oldest = now.parts().0 - ABANDONED_SECONDS;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Ok(stat) = rustix::fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        if stat.st_ctime < oldest && FileKind::from_mode(stat.st_mode) != Some(FileKind::Directory) {
            // Another mount may have been faster.
            let _gone = rustix::fs::unlinkat(&fd, name, AtFlags::empty());
        }
    }
}
