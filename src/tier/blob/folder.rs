//! A directory that stands for a container: demos, laptops, tests without a server.
//!
//! Every file appears and changes in one step (temporary file, fsync, rename or link), is found beneath the root only,
//! and no symlink is followed. No attributes are kept, and a condition on a version is checked just before the step, not
//! with it: the capabilities say so. Any name a key can have is native.

mod write;

use super::listing::prefix_only;
use crate::error::{Error, Kind, Result};
use crate::tier::{
    ByteStream, Capabilities, Cursor, Entry, Object, Page, Resident, Special, Tier, Upload, Usage, absent,
};
use crate::types::{Attrs, Condition, FileKind, Key, Timestamp, Version};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use write::{FolderUpload, Staged};

/// Bytes read at a time.
const CHUNK: u64 = 1024 * 1024;

/// See the module.
#[derive(Debug)]
pub struct FolderBlob {
    name: String,
    root: Arc<Root>,
    capacity: Option<u64>,
}

/// The directory itself; everything is relative to its descriptor.
#[derive(Debug)]
struct Root {
    path: PathBuf,
    fd: OwnedFd,
}

impl FolderBlob {
    /// The directory at `path`, which must be there.
    ///
    /// # Errors
    /// [`Kind::NotFound`], [`Kind::Denied`].
    pub fn open(name: &str, path: &Path, capacity: Option<u64>) -> Result<Self> {
        let fd = rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| Error::from(errno).context(format_args!("directory {}", path.display())))?;
        let root = Arc::new(Root { path: path.to_owned(), fd });
        Ok(Self { name: name.to_owned(), root, capacity })
    }

    /// Runs `work`, which waits for a disk, where that hurts nobody.
    async fn run<T: Send + 'static>(
        &self,
        verb: &str,
        key: &Key,
        work: impl FnOnce(&Root, &Key) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (root, on) = (Arc::clone(&self.root), key.clone());
        let done = tokio::task::spawn_blocking(move || work(&root, &on)).await;
        let done = done.map_err(|error| Error::new(Kind::Interrupted, "stopped").with_source(error))?;
        done.map_err(|error| error.context(format_args!("{}: {verb} {key}", self.name)))
    }
}

/// Beneath the root, over no symlink: anything else is somebody's trap or mistake.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

impl Root {
    fn open_at(&self, key: &Key, flags: OFlags) -> Result<OwnedFd> {
        rustix::fs::openat2(&self.fd, key.as_path(), flags | OFlags::CLOEXEC, Mode::empty(), BENEATH)
            .map_err(outside)
    }

    /// The directory that holds `key`, and its name there.
    fn parent<'a>(&self, key: &'a Key) -> Result<(OwnedFd, &'a [u8])> {
        let (parent, name) = key.split().ok_or_else(|| Error::from(Kind::IsDirectory))?;
        Ok((self.open_at(&parent, OFlags::PATH | OFlags::DIRECTORY)?, name))
    }

    /// Makes `key` a directory with all above it.
    fn make_directories(&self, key: &Key) -> Result<()> {
        let mut made = Key::ROOT;
        for component in key.components() {
            let parent = self.open_at(&made, OFlags::PATH | OFlags::DIRECTORY)?;
            match rustix::fs::mkdirat(&parent, component, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
            made = made.join(component)?;
        }
        self.open_at(&made, OFlags::PATH | OFlags::DIRECTORY).map(drop)
    }

    fn stat(&self, key: &Key) -> Result<Stat> {
        if key.is_root() {
            return Ok(rustix::fs::fstat(&self.fd)?);
        }
        let (parent, name) = self.parent(key).map_err(below_a_file)?;
        Ok(rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn head(&self, key: &Key) -> Result<Object> {
        object_of(&self.stat(key)?).ok_or_else(|| Error::new(Kind::Refused, "neither a file nor a directory"))
    }

    fn check(&self, key: &Key, condition: &Condition) -> Result<()> {
        let found = match self.head(key) {
            Ok(object) => Some(object),
            Err(error) if error.kind() == Kind::NotFound => None,
            Err(error) => return Err(error),
        };
        match (condition, found) {
            (Condition::Absent, Some(_)) => Err(Kind::Exists.into()),
            (Condition::Matches(version), Some(object)) if object.version == *version => Ok(()),
            (Condition::Matches(version), None) if version.0.is_empty() => Ok(()),
            (Condition::Matches(_), _) => Err(Error::new(Kind::Changed, "another version is there")),
            _ => Ok(()),
        }
    }

    fn list(&self, dir: &Key, prefix: &[u8], from: Option<&Cursor>, limit: usize) -> Result<Page> {
        let fd = match self.open_at(dir, OFlags::RDONLY | OFlags::DIRECTORY) {
            Err(error) if error.kind() == Kind::NotFound => return Ok(Page::default()),
            fd => fd?,
        };
        // Names in order: where a page ends, the next goes on, whatever came or went between.
        let mut names = Vec::new();
        for entry in Dir::read_from(&fd)? {
            let name = entry?.file_name().to_bytes().to_vec();
            let is_ours = dir.is_root() && name == b".tierfs";
            let is_after = from.is_none_or(|cursor| hex(&name) > cursor.0);
            if name.starts_with(prefix) && is_after && !is_ours && name != b"." && name != b".." {
                names.push(name);
            }
        }
        names.sort_unstable_by_key(|name| hex(name));
        let limit = limit.max(1);
        let next = (names.len() > limit).then(|| Cursor(hex(&names[limit - 1])));
        names.truncate(limit);
        let mut page = Page { next, ..Page::default() };
        for name in names {
            match rustix::fs::statat(&fd, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => match object_of(&stat) {
                    Some(object) => page.entries.push(Entry { name, object }),
                    None => page.hidden += 1,
                },
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(page)
    }

    fn open_version(&self, key: &Key, version: &Version) -> Result<(File, u64)> {
        let opened = self.open_at(key, OFlags::RDONLY | OFlags::NONBLOCK);
        let file = File::from(opened.map_err(below_a_file)?);
        match object_of(&rustix::fs::fstat(&file)?) {
            Some(object) if object.kind == FileKind::Directory => Err(Kind::IsDirectory.into()),
            Some(object) if object.version == *version => Ok((file, object.size)),
            _ => Err(Error::new(Kind::Changed, "another version is there")),
        }
    }

    fn delete(&self, key: &Key, condition: &Condition) -> Result<()> {
        let kind = self.head(key)?.kind;
        let (parent, name) = self.parent(key)?;
        self.check(key, condition)?;
        let flags = if kind == FileKind::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        Ok(rustix::fs::unlinkat(&parent, name, flags)?)
    }
}

/// In a container there is simply nothing below a file.
fn below_a_file(error: Error) -> Error {
    if error.kind() == Kind::NotDirectory { Kind::NotFound.into() } else { error }
}

/// A symlink on the way is answered as ELOOP or EXDEV; here both mean: not beneath the root.
fn outside(errno: Errno) -> Error {
    match errno {
        Errno::LOOP | Errno::XDEV => Error::new(Kind::Outside, "a symlink is in the way"),
        errno => errno.into(),
    }
}

fn hex(name: &[u8]) -> String {
    use std::fmt::Write;
    name.iter().fold(String::with_capacity(name.len() * 2), |mut text, byte| {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Files and directories; what else lies there is not ours to show.
fn object_of(stat: &Stat) -> Option<Object> {
    let kind = FileKind::from_mode(stat.st_mode)?;
    match kind {
        FileKind::Directory => Some(prefix_only()),
        FileKind::Regular => {
            let nanos = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
            let modified = Timestamp::from_parts(stat.st_mtime, nanos);
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            let changed =
                Timestamp::from_parts(stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or(0));
            let version = format!("{:x}-{size:x}-{:x}-{:x}", stat.st_ino, modified.0, changed.0);
            Some(Object { kind, size, version: Version::new(version), modified, ..prefix_only() })
        }
        _ => None,
    }
}

/// The bytes of `range` of an open file, a chunk at a time.
fn stream(file: File, range: Range<u64>) -> ByteStream {
    let state = Some((Arc::new(file), range));
    futures::stream::unfold(state, |state| async move {
        let (file, range) = state.filter(|(_, range)| !range.is_empty())?;
        let (at, length) = (range.start, (range.end - range.start).min(CHUNK));
        let from = Arc::clone(&file);
        let read = tokio::task::spawn_blocking(move || {
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
            from.read_exact_at(&mut bytes, at).map(|()| Bytes::from(bytes))
        });
        match read.await {
            Ok(Ok(bytes)) => Some((Ok(bytes), Some((file, at + length..range.end)))),
            Ok(Err(error)) => Some((Err(error.into()), None)),
            Err(error) => Some((Err(Error::new(Kind::Interrupted, "stopped").with_source(error)), None)),
        }
    })
    .boxed()
}

#[async_trait]
impl Tier for FolderBlob {
    fn name(&self) -> &str {
        &self.name
    }

    fn location(&self) -> String {
        format!("file://{}", self.root.path.display())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            conditional: false,
            owner_and_mode: false,
            mtime_grain: None,
            symlinks: false,
            hard_links: false,
            xattrs: false,
            special_files: false,
            case_sensitive: true,
            any_name: false,
            empty_directories: true,
            writable: true,
            networked: false,
        }
    }

    async fn probe(&self) -> Result<()> {
        // The descriptor outlives what it was opened on.
        let (named, held) = (std::fs::metadata(&self.root.path), rustix::fs::fstat(&self.root.fd)?);
        let is_same = named.is_ok_and(|named| std::os::unix::fs::MetadataExt::ino(&named) == held.st_ino);
        if is_same { Ok(()) } else { Err(absent(&self.name)) }
    }

    async fn head(&self, key: &Key) -> Result<Object> {
        self.run("look up", key, Root::head).await
    }

    async fn list(&self, dir: &Key, prefix: &[u8], from: Option<Cursor>, limit: usize) -> Result<Page> {
        let prefix = prefix.to_vec();
        self.run("list", dir, move |root, dir| root.list(dir, &prefix, from.as_ref(), limit)).await
    }

    async fn read(&self, key: &Key, range: Range<u64>, version: &Version) -> Result<ByteStream> {
        let version = version.clone();
        let (file, size) = self.run("read", key, move |root, key| root.open_version(key, &version)).await?;
        Ok(stream(file, range.start.min(size)..range.end.min(size)))
    }

    async fn put(&self, key: &Key, bytes: Bytes, _attrs: &Attrs, condition: &Condition) -> Result<Version> {
        let condition = condition.clone();
        self.run("write", key, move |root, key| {
            let staged = Staged::new(root)?;
            staged.file.write_all_at(&bytes, 0)?;
            staged.publish(root, key, &condition)
        })
        .await
    }

    async fn put_special(
        &self,
        key: &Key,
        special: &Special,
        _attrs: &Attrs,
        condition: &Condition,
    ) -> Result<Version> {
        if *special != Special::Directory {
            return Err(Error::new(
                Kind::Unsupported,
                format!("{} holds files and directories only", self.name),
            ));
        }
        let condition = condition.clone();
        self.run("make", key, move |root, key| {
            root.check(key, &condition)?;
            root.make_directories(key)?;
            Ok(Version::new([]))
        })
        .await
    }

    async fn upload(&self, key: &Key, size: u64) -> Result<Box<dyn Upload>> {
        let (root, on) = (Arc::clone(&self.root), key.clone());
        let upload = self.run("upload", key, move |_, _| FolderUpload::start(root, on, size)).await?;
        Ok(Box::new(upload))
    }

    async fn delete(&self, key: &Key, condition: &Condition) -> Result<()> {
        let condition = condition.clone();
        self.run("delete", key, move |root, key| root.delete(key, &condition)).await
    }

    async fn copy(
        &self,
        from: &Key,
        version: &Version,
        to: &Key,
        _attrs: &Attrs,
        condition: &Condition,
    ) -> Result<Version> {
        let (to, version, condition) = (to.clone(), version.clone(), condition.clone());
        self.run("copy", from, move |root, from| {
            let (mut source, _) = root.open_version(from, &version)?;
            let mut staged = Staged::new(root)?;
            std::io::copy(&mut source, &mut staged.file)?;
            root.open_version(from, &version)?;
            staged.publish(root, &to, &condition)
        })
        .await
    }

    async fn set_attrs(&self, key: &Key, _version: &Version, _attrs: &Attrs) -> Result<Version> {
        self.head(key).await?;
        Err(Error::new(Kind::Unsupported, format!("{}: {key}: this tier keeps no attributes", self.name)))
    }

    async fn usage(&self) -> Result<Usage> {
        let found = rustix::fs::fstatvfs(&self.root.fd)?;
        let total = found.f_blocks.saturating_mul(found.f_frsize);
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        let limit = self.capacity.unwrap_or(total);
        Ok(Usage { total: limit, free: free.min(limit), files: found.f_files, files_free: found.f_favail })
    }

    fn resident(&self) -> Option<&dyn Resident> {
        None
    }
}

#[cfg(test)]
mod tests;
