//! The stage of one catalog on one directory tier: dirty bytes, each with a sidecar that says
//! what they are. Nothing here decides what may be removed: that is the caller's, by the catalog.
//!
//! # Disk format
//! Under `.tierfs/stage/<catalog id>/`: `owner` (JSON, [`crate::data::Owner`]) and `lock` (flock held while the
//! owner lives); `<xx>/<name>` staged bytes, `<xx>/<name>.json` their [`Sidecar`],
//! `<xx>/<name>.copy` bytes being copied here from an older generation, `<xx>/<name>.map` of one that is partly
//! staged which bytes it has ([`crate::data::partial`]); `tmp/` temporaries of
//! this owner, emptied by the next.

mod claim;
mod partial;

use crate::catalog::is_partial;
use crate::data::copy::{clone_file, copy_file};
use crate::data::local::{FILE_MODE, Local};
use crate::data::owner::Owner;
use crate::data::partial::Partial;
use crate::data::reader::Reader;
use crate::data::sidecar::Sidecar;
use crate::error::{Error, Kind, Result};
use crate::tier::{Access, Object, RenameMode, Tier};
use crate::types::{FileKind, Key};
use bytes::Bytes;
use claim::Claim;
pub use claim::{Elsewhere, Life};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

const TEMPORARY: &str = "tmp";
const SIDECAR: &[u8] = b".json";
const COPY: &[u8] = b".copy";
const MAP: &[u8] = b".map";
/// One read of a copy from a remote tier: small beside any block cache.
const COPY_PIECE: usize = 1 << 20;

/// What lies on the stage under one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Staged {
    /// The name.
    pub name: Vec<u8>,
    /// The bytes, if they are there.
    pub object: Option<Object>,
    /// Whether a `.copy` is there.
    pub copy: bool,
    /// Whether a map is there.
    pub map: bool,
    /// What the bytes say of themselves; `None` if nothing, or nothing that can be read.
    pub sidecar: Option<Sidecar>,
}

/// The stage of one catalog on one tier, owned by this process until dropped; on a tier that is absent at first, from its first use on.
#[derive(Debug)]
pub struct StageStore {
    /// Used through [`StageStore::local`] only.
    unclaimed: Local,
    root: Key,
    /// None: only to look.
    owner: Option<Owner>,
    elsewhere: Elsewhere,
    claim: Mutex<Claim>,
    is_claimed: AtomicBool,
    /// The machine may have been started anew since the last owner took the stage.
    restarted: AtomicBool,
    temporaries: AtomicU64,
    /// Partly staged files that somebody has in hand.
    partials: Mutex<HashMap<Vec<u8>, Weak<Partial>>>,
    /// Fan-out directories whose own entries are known to be durable.
    durable: Mutex<HashSet<Key>>,
}

impl StageStore {
    /// The tier it is on.
    #[must_use]
    pub fn tier(&self) -> &Arc<dyn Tier> {
        self.unclaimed.tier()
    }

    /// Whether the machine may have been started anew since the last owner took the stage: then nobody writes to what that one had open,
    /// and what was not synced may be gone.
    #[must_use]
    pub fn is_of_an_earlier_boot(&self) -> bool {
        self.restarted.load(Ordering::Acquire)
    }

    /// The key of stage file `name`.
    ///
    /// # Errors
    /// `Invalid` if `name` is not a relative path.
    pub fn key(&self, name: &[u8]) -> Result<Key> {
        Ok(Key::parse([self.root.as_bytes(), b"/", name].concat())?)
    }

    /// The key of its `.copy`.
    ///
    /// # Errors
    /// As [`StageStore::key`].
    pub fn copy_path(&self, name: &[u8]) -> Result<Key> {
        self.suffixed(name, COPY)
    }

    /// The key of stage file `name`, its directory made: for renames onto it by others.
    ///
    /// # Errors
    /// As mkdir(2).
    pub fn prepare(&self, name: &[u8]) -> Result<Key> {
        let key = self.key(name)?;
        if let Some((directory, _)) = key.split() {
            self.local()?.make_directory(&directory)?;
        }
        Ok(key)
    }

    /// Makes stage file `name` and opens it for reading and writing. `mode` is 0600 as long as nobody
    /// is to read it past the mount.
    ///
    /// # Errors
    /// `Exists`, `NoSpace`.
    pub fn create(&self, name: &[u8], mode: u32) -> Result<File> {
        self.local()?.create(&self.key(name)?, mode)
    }

    /// Opens stage file `name`.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn open(&self, name: &[u8], access: Access) -> Result<File> {
        self.local()?.files()?.open(&self.key(name)?, access)
    }

    /// Removes stage file `name`, its sidecar, its map and its `.copy`; what is not there is fine.
    ///
    /// # Errors
    /// As unlink(2).
    pub fn remove(&self, name: &[u8]) -> Result<()> {
        // The bytes go first: a sidecar alone describes nothing, bytes alone could not be told.
        self.local()?.remove(&self.key(name)?)?;
        self.local()?.remove(&self.copy_path(name)?)?;
        if is_partial(name) {
            self.remove_map(name)?;
        }
        self.remove_sidecar(name)
    }

    /// Removes the sidecar alone, when the bytes have become a hot copy.
    ///
    /// # Errors
    /// As unlink(2).
    pub fn remove_sidecar(&self, name: &[u8]) -> Result<()> {
        self.local()?.remove(&self.suffixed(name, SIDECAR)?)
    }

    /// Puts the sidecar of `name` in place in one step; durable with [`StageStore::sync`].
    ///
    /// # Errors
    /// As the tier says.
    pub fn write_sidecar(&self, name: &[u8], sidecar: &Sidecar) -> Result<()> {
        let key = self.suffixed(name, SIDECAR)?;
        self.local()?.write_small(&key, &self.temporary()?, &sidecar.to_json()?)
    }

    /// The sidecar of `name`.
    ///
    /// # Errors
    /// `NotFound`; `Corrupt` if it makes no sense, `Unsupported` if it is of a later version.
    pub fn read_sidecar(&self, name: &[u8]) -> Result<Sidecar> {
        let key = self.suffixed(name, SIDECAR)?;
        let json = self.local()?.read_small(&key)?;
        let json = json.ok_or_else(|| Error::new(Kind::NotFound, format!("no sidecar {key}")))?;
        Sidecar::from_json(&json).map_err(|error| error.context(key))
    }

    /// Makes stage file `name`, its sidecar, its map and their names durable.
    ///
    /// # Errors
    /// As fsync(2).
    pub fn sync(&self, name: &[u8]) -> Result<()> {
        if is_partial(name) {
            self.open_partial(name)?.sync()?;
        } else {
            self.open(name, Access::Read)?.sync_all()?;
        }
        if let Some(sidecar) = self.local()?.open(&self.suffixed(name, SIDECAR)?)? {
            sidecar.sync_all()?;
        }
        let key = self.key(name)?;
        let Some((directory, _)) = key.split() else { return Ok(()) };
        self.local()?.files()?.sync_directory(&directory)?;
        if !self.durable.lock().contains(&directory) {
            self.local()?.files()?.sync_directory(&self.root)?;
            self.durable.lock().insert(directory);
        }
        Ok(())
    }

    /// Ids of all catalogs that have a stage on `tier`.
    ///
    /// # Errors
    /// As the tier says; `Invalid` if it is not a directory.
    pub fn ids(tier: Arc<dyn Tier>) -> Result<Vec<String>> {
        let mut ids = Vec::new();
        Local::new(tier)?.for_each(&Key::parse(claim::ROOT)?, |entry| {
            ids.push(String::from_utf8_lossy(&entry.name).into_owned());
            Ok(())
        })?;
        Ok(ids)
    }

    /// Everything on the stage, for recovery.
    ///
    /// # Errors
    /// As the tier says; a sidecar that can't be read is `None`.
    pub fn list(&self) -> Result<Vec<Staged>> {
        let mut found = BTreeMap::<Vec<u8>, Staged>::new();
        let mut directories = Vec::new();
        self.local()?.for_each(&self.root, |entry| {
            if entry.object.kind == FileKind::Directory && entry.name != TEMPORARY.as_bytes() {
                directories.push(entry.name);
            }
            Ok(())
        })?;
        for directory in directories {
            self.local()?.for_each(&self.root.join(&directory)?, |entry| {
                let path = [&directory, &b"/"[..], &entry.name].concat();
                let base = [SIDECAR, COPY, MAP].into_iter().find_map(|suffix| path.strip_suffix(suffix));
                let staged = found.entry(base.unwrap_or(&path).to_vec()).or_default();
                if path.ends_with(MAP) {
                    staged.map = true;
                } else if path.ends_with(COPY) {
                    staged.copy = true;
                } else if !path.ends_with(SIDECAR) {
                    staged.object = Some(entry.object);
                }
                Ok(())
            })?;
        }
        found.into_iter().map(|(name, staged)| self.described(name, staged)).collect()
    }

    /// Moves stage file `name` to the stage `to` of the same tier, where `new_name` must be free. A partly staged one has its map
    /// there before ([`StageStore::hand_over_map`]).
    ///
    /// # Errors
    /// `Exists`, `NotFound`.
    pub fn hand_over(&self, name: &[u8], to: &Self, new_name: &[u8]) -> Result<()> {
        if is_partial(name) != is_partial(new_name) {
            return Err(Error::new(
                Kind::Invalid,
                "a partly staged file can't become a whole one by its name",
            ));
        }
        let new_key = to.prepare(new_name)?;
        self.local()?.files()?.rename(&self.key(name)?, &new_key, RenameMode::NoReplace)?;
        if is_partial(name) { self.remove_map(name) } else { Ok(()) }
    }

    /// Moves the file at native key `from` of the same tier here, over what is at `name`.
    ///
    /// # Errors
    /// As rename(2).
    pub fn rename_in(&self, from: &Key, name: &[u8]) -> Result<()> {
        self.local()?.rename(from, &self.key(name)?)
    }

    /// Moves stage file `name` to native key `to` of the same tier, whose parent must exist.
    ///
    /// # Errors
    /// As renameat2(2).
    pub fn rename_out(&self, name: &[u8], to: &Key, mode: RenameMode) -> Result<()> {
        self.local()?.files()?.rename(&self.key(name)?, to, mode)
    }

    /// Copies `from` to the `.copy` of `name`, sharing blocks where the file system can.
    ///
    /// # Errors
    /// As the file systems say; no `.copy` is left then.
    pub fn copy_from_file(&self, name: &[u8], from: &File) -> Result<()> {
        let to = self.new_copy(name)?;
        copy_file(from, &to).or_else(|error| self.fail_copy(name, error))
    }

    /// Makes the `.copy` of `name` share the blocks of `from`; false, and no `.copy`, where the file system can't.
    ///
    /// # Errors
    /// As the file systems say.
    pub fn clone_from_file(&self, name: &[u8], from: &File) -> Result<bool> {
        let to = self.new_copy(name)?;
        let cloned = clone_file(from, &to);
        if !cloned {
            self.drop_copy(name)?;
        }
        Ok(cloned)
    }

    /// Makes the `.copy` of `name` as old as `from` is, and durable.
    ///
    /// # Errors
    /// As utimensat(2) and fsync(2).
    pub fn seal_copy(&self, name: &[u8], from: &File) -> Result<()> {
        let copy = self.local()?.files()?.open(&self.copy_path(name)?, Access::ReadWrite)?;
        copy.set_modified(from.metadata()?.modified()?)?;
        Ok(copy.sync_all()?)
    }

    /// Copies all that `reader` reads to the `.copy` of `name`.
    ///
    /// # Errors
    /// As the tiers say; no `.copy` is left then.
    pub async fn copy_from_reader(self: &Arc<Self>, name: &[u8], reader: &Reader) -> Result<()> {
        let owned = name.to_vec();
        let to = self.blocking(move |store| store.new_copy(&owned).map(Arc::new)).await?;
        match self.pull(&to, reader).await {
            Ok(()) => Ok(()),
            Err(error) => {
                let owned = name.to_vec();
                self.blocking(move |store| store.fail_copy(&owned, error)).await
            }
        }
    }

    /// Makes the `.copy` of `name` the stage file.
    ///
    /// # Errors
    /// `NotFound` if there is no `.copy`.
    pub fn finish_copy(&self, name: &[u8]) -> Result<()> {
        // Who still has an earlier file of this name in hand has no part in this one.
        self.partials.lock().remove(name);
        self.local()?.rename(&self.copy_path(name)?, &self.key(name)?)
    }

    async fn pull(self: &Arc<Self>, to: &Arc<File>, reader: &Reader) -> Result<()> {
        let mut at = 0;
        while at < reader.size() {
            let bytes: Bytes = reader.read(at, COPY_PIECE).await?;
            if bytes.is_empty() {
                return Err(Error::new(Kind::Corrupt, "a read in the middle of an object is empty"));
            }
            let (to, offset) = (Arc::clone(to), at);
            at += bytes.len() as u64;
            self.blocking(move |_| Ok(to.write_all_at(&bytes, offset)?)).await?;
        }
        Ok(())
    }

    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        act: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let store = Arc::clone(self);
        tokio::task::spawn_blocking(move || act(&store))
            .await
            .map_err(|error| Error::new(Kind::Interrupted, "the copy was cut off").with_source(error))?
    }

    /// An earlier try may have left one: it is nobody's.
    fn new_copy(&self, name: &[u8]) -> Result<File> {
        let key = self.copy_path(name)?;
        self.local()?.remove(&key)?;
        self.local()?.create(&key, FILE_MODE)
    }

    /// Removes the `.copy` of `name`.
    ///
    /// # Errors
    /// As unlink(2).
    pub fn drop_copy(&self, name: &[u8]) -> Result<()> {
        self.local()?.remove(&self.copy_path(name)?)
    }

    fn fail_copy(&self, name: &[u8], error: Error) -> Result<()> {
        if let Err(second) = self.drop_copy(name) {
            tracing::debug!(error = %second, "a broken copy stays until the next try");
        }
        Err(error)
    }

    fn described(&self, name: Vec<u8>, staged: Staged) -> Result<Staged> {
        let sidecar = match self.read_sidecar(&name) {
            Ok(sidecar) => Some(sidecar),
            Err(error) if error.kind() == Kind::NotFound => None,
            Err(error) if matches!(error.kind(), Kind::Corrupt | Kind::Unsupported) => {
                tracing::warn!(%error, "a staged file can't say what it is");
                None
            }
            Err(error) => return Err(error),
        };
        Ok(Staged { name, sidecar, ..staged })
    }

    fn temporary(&self) -> Result<Key> {
        let number = self.temporaries.fetch_add(1, Ordering::Relaxed);
        Ok(self.root.join(TEMPORARY)?.join(number.to_string())?)
    }

    fn suffixed(&self, name: &[u8], suffix: &[u8]) -> Result<Key> {
        self.key(&[name, suffix].concat())
    }
}
