//! Partly staged files on the stage: made, given out, copied. Their map is durable before the file has its name, and goes after it,
//! so that a file without one is broken and never taken for a whole one.

use super::{MAP, StageStore};
use crate::catalog::is_partial;
use crate::data::local::FILE_MODE;
use crate::data::owner::boot_id;
use crate::data::partial::{Base, Map, Mapped, Partial, log};
use crate::error::{Error, Kind, Result};
use crate::tier::Access;
use crate::types::{Generation, Key};
use std::fs::File;
use std::io::Write;
use std::sync::Arc;

impl StageStore {
    /// The key of the map of `name`.
    ///
    /// # Errors
    /// As [`StageStore::key`].
    pub fn map_path(&self, name: &[u8]) -> Result<Key> {
        self.suffixed(name, MAP)
    }

    /// Makes the map of `name`, which has nothing of its own yet, and a `.copy` that is as long as `base`.
    ///
    /// # Errors
    /// As the tier says; no `.copy` is left then.
    pub fn make_partial(&self, name: &[u8], base: &Base) -> Result<File> {
        self.must_be_partial(name)?;
        let file = self.new_copy(name)?;
        let made = file
            .set_len(base.size)
            .map_err(Error::from)
            .and_then(|()| self.write_map(name, base, &Map::new(base.size, base.generation)));
        made.or_else(|error| self.fail_copy(name, error)).map(|()| file)
    }

    /// Copies what `from` has of its own to the `.copy` of `name`, and its map.
    ///
    /// # Errors
    /// As the file systems say; no `.copy` is left then.
    pub fn copy_partial(&self, name: &[u8], from: &Partial) -> Result<()> {
        self.must_be_partial(name)?;
        let to = self.new_copy(name)?;
        let copied = from.copy_to(&to).and_then(|map| {
            // The new map vouches for all of it.
            to.sync_all()?;
            self.write_map(name, from.base(), &map)
        });
        copied.or_else(|error| self.fail_copy(name, error))
    }

    /// The partly staged file `name`, the same for all who use it.
    ///
    /// # Errors
    /// `NotFound`; `Corrupt` if its map is missing or makes no sense.
    pub fn open_partial(&self, name: &[u8]) -> Result<Arc<Partial>> {
        self.must_be_partial(name)?;
        let mut partials = self.partials.lock();
        if let Some(partial) = partials.get(name).and_then(std::sync::Weak::upgrade) {
            return Ok(partial);
        }
        let file = self.open(name, Access::ReadWrite)?;
        let (log, read) = self.current_map(name)?;
        let partial = Arc::new(Partial::new(file, log, read)?);
        partials.retain(|_, partial| partial.strong_count() > 0);
        partials.insert(name.to_vec(), Arc::downgrade(&partial));
        Ok(partial)
    }

    /// What the map of `name` says; nothing changes.
    ///
    /// # Errors
    /// As [`StageStore::open_partial`].
    pub fn look_at_map(&self, name: &[u8]) -> Result<Mapped> {
        let size = self.local()?.files()?.stat(&self.key(name)?)?.size;
        let read = log::read(&self.map_file(name, Access::Read)?, &self.boot()?)?;
        let mut map = read.map;
        map.apply(crate::data::partial::Record::Cut(size));
        Ok(Mapped { base: read.base, map })
    }

    /// Whether a restart of the machine took some of what was written to `name`, of which nothing was ever synced: then it is no version
    /// of anything.
    ///
    /// # Errors
    /// As [`StageStore::open_partial`].
    pub fn is_torn(&self, name: &[u8]) -> Result<bool> {
        Ok(log::read(&self.map_file(name, Access::Read)?, &self.boot()?)?.is_torn)
    }

    /// The map, as one that can be gone on with: what an earlier start of the machine made of it is written anew as far as it is believed.
    fn current_map(&self, name: &[u8]) -> Result<(File, log::Read)> {
        let boot = self.boot()?;
        let file = self.map_file(name, Access::ReadWrite)?;
        let read = log::read(&file, &boot).map_err(|error| error.context(self.about_map(name)))?;
        if read.is_current {
            return Ok((file, read));
        }
        tracing::warn!(name = %String::from_utf8_lossy(name), "what was not synced before the machine was started anew is read from home again");
        self.write_map(name, &read.base, &read.map)?;
        let file = self.map_file(name, Access::ReadWrite)?;
        let read = log::read(&file, &boot)?;
        Ok((file, read))
    }

    fn map_file(&self, name: &[u8], access: Access) -> Result<File> {
        match self.local()?.files()?.open(&self.map_path(name)?, access) {
            Err(error) if error.kind() == Kind::NotFound => {
                let text = format!("{}: without its map nobody can say what it holds", self.about_map(name));
                Err(Error::new(Kind::Corrupt, text).with_source(error))
            }
            other => other,
        }
    }

    fn about_map(&self, name: &[u8]) -> String {
        format!("partly staged file {}", String::from_utf8_lossy(name))
    }

    /// Puts a map in place in one step, durably.
    fn write_map(&self, name: &[u8], base: &Base, map: &Map) -> Result<()> {
        let (key, temporary) = (self.map_path(name)?, self.temporary()?);
        let bytes = log::written(base, map, &self.boot()?)?;
        let local = self.local()?;
        let mut file = local.create(&temporary, FILE_MODE)?;
        let done = file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(Error::from);
        let done = done.and_then(|()| local.rename(&temporary, &key));
        if done.is_err() {
            // The first error tells what happened; a leftover is removed at the next start.
            let _ = local.remove(&temporary);
        }
        done?;
        self.sync_parent(&key)
    }

    pub(super) fn remove_map(&self, name: &[u8]) -> Result<()> {
        self.partials.lock().remove(name);
        let key = self.map_path(name)?;
        if self.local()?.open(&key)?.is_none() {
            return Ok(());
        }
        self.sync_parent(&key)?;
        self.local()?.remove(&key)
    }

    /// Puts the map of `name` beside `new_name` of the stage `to`, where what is missing counts as `base` of a file; 0: nobody answers for
    /// it any more.
    ///
    /// # Errors
    /// As [`StageStore::open_partial`].
    pub fn hand_over_map(&self, name: &[u8], to: &Self, new_name: &[u8], base: Generation) -> Result<()> {
        // The new map vouches for all of it.
        self.open(name, Access::Read)?.sync_all()?;
        let mapped = self.look_at_map(name)?;
        let base = Base { generation: base, ..mapped.base };
        to.write_map(new_name, &base, &mapped.map.based_on(base.generation))
    }

    /// Names the time since this machine was started, as the owner of the stage knows it.
    fn boot(&self) -> Result<String> {
        self.owner.as_ref().map_or_else(boot_id, |owner| Ok(owner.boot_id.clone()))
    }

    fn sync_parent(&self, key: &Key) -> Result<()> {
        key.split().map_or(Ok(()), |(parent, _)| self.local()?.files()?.sync_directory(&parent))
    }

    fn must_be_partial(&self, name: &[u8]) -> Result<()> {
        match is_partial(name) {
            true => Ok(()),
            false => Err(Error::new(Kind::Invalid, "this stage file is a whole one by its name")),
        }
    }
}
