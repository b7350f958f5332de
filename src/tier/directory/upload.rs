//! An upload to a directory tier: blocks written at their places in a temporary file.

use super::draft::Draft;
use super::{Inner, blocking};
use crate::error::{Error, Kind, Result};
use crate::tier::Upload;
use crate::types::{Attrs, Condition, Key, Version};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;

const BLOCK: u64 = 8 << 20;

#[derive(Debug)]
struct State {
    draft: Option<Draft>,
    /// Length of each block that arrived.
    blocks: BTreeMap<u64, u64>,
    /// Write id of a commit that succeeded.
    committed: Option<Option<String>>,
}

#[derive(Debug)]
struct Shared {
    inner: Arc<Inner>,
    key: Key,
    /// Serialises commits: one that timed out for its caller may still run.
    state: Mutex<State>,
    /// Of the draft, for writing blocks without the lock.
    file: File,
}

/// See [`Upload`].
#[derive(Debug)]
pub(super) struct DirectoryUpload(Arc<Shared>);

impl DirectoryUpload {
    pub(super) fn start(inner: Arc<Inner>, key: Key) -> Result<Self> {
        let draft = Draft::file(inner.writable_root()?.share())?;
        let file = draft.open_file()?.try_clone()?;
        let state = State { draft: Some(draft), blocks: BTreeMap::new(), committed: None };
        Ok(Self(Arc::new(Shared { inner, key, state: Mutex::new(state), file })))
    }
}

#[async_trait]
impl Upload for DirectoryUpload {
    fn block_size(&self) -> u64 {
        BLOCK
    }

    async fn put_block(&self, index: u64, bytes: Bytes) -> Result<()> {
        let shared = Arc::clone(&self.0);
        blocking(move || shared.write(index, &bytes)).await
    }

    async fn sync(&self) -> Result<()> {
        let shared = Arc::clone(&self.0);
        blocking(move || Ok(shared.file.sync_all()?)).await
    }

    async fn commit(&self, blocks: u64, attrs: &Attrs, condition: &Condition) -> Result<Version> {
        let (shared, attrs, condition) = (Arc::clone(&self.0), attrs.clone(), condition.clone());
        blocking(move || shared.commit(blocks, &attrs, &condition)).await
    }
}

impl Shared {
    fn write(&self, index: u64, bytes: &[u8]) -> Result<()> {
        let start = index.checked_mul(BLOCK).ok_or(Kind::Invalid)?;
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if length > BLOCK {
            return Err(Error::new(Kind::Invalid, "a block is larger than the block size"));
        }
        write_all_at(&self.file, bytes, start)?;
        self.state.lock().blocks.insert(index, length);
        Ok(())
    }

    fn commit(&self, blocks: u64, attrs: &Attrs, condition: &Condition) -> Result<Version> {
        let mut state = self.state.lock();
        if let Some(write_id) = &state.committed {
            return self.recognise(write_id.as_deref(), attrs);
        }
        let length = total(&state.blocks, blocks)?;
        super::write::check(&*self.inner.writable_root()?, &self.key, condition)?;
        self.file.set_len(length)?;
        let draft = state.draft.as_mut().ok_or(Kind::Invalid)?;
        let done = draft.place(&self.inner, &self.key, attrs, condition);
        // It may be visible and only its directory not synced: a retry must know.
        if draft.is_placed() {
            state.committed = Some(attrs.write_id.clone());
        }
        done
    }

    /// A second commit of the same write: fine as long as nobody came after it.
    fn recognise(&self, committed: Option<&str>, attrs: &Attrs) -> Result<Version> {
        let root = self.inner.root()?;
        let now = root.stat(&self.key).map_err(|errno| match errno {
            Errno::NOENT | Errno::NOTDIR => Kind::Changed.into(),
            other => Error::from(other),
        })?;
        let own = rustix::fs::fstat(&self.file)?;
        let is_ours = super::root::identity(&now) == super::root::identity(&own);
        if !is_ours || committed != attrs.write_id.as_deref() {
            return Err(Kind::Changed.into());
        }
        let (parent, _) = self.key.split().ok_or(Kind::IsDirectory)?;
        root.sync_upwards(&parent, usize::MAX)?;
        Ok(super::object::version(&now))
    }
}

impl Drop for Shared {
    /// Removing the draft may hang with its tier, so not on a thread that others need.
    fn drop(&mut self) {
        let draft = self.state.get_mut().draft.take();
        if let (Some(draft), Ok(runtime)) = (draft, tokio::runtime::Handle::try_current()) {
            runtime.spawn_blocking(move || drop(draft));
        }
    }
}

/// Length of blocks `0..count`, all of them there and all but the last full.
fn total(blocks: &BTreeMap<u64, u64>, count: u64) -> Result<u64> {
    for index in 0..count {
        match blocks.get(&index) {
            Some(&BLOCK) => {}
            Some(_) if index + 1 == count => {}
            _ => return Err(Error::new(Kind::Invalid, format!("block {index} is missing or short"))),
        }
    }
    let last = count.checked_sub(1).and_then(|last| Some(last * BLOCK + blocks.get(&last)?));
    Ok(last.unwrap_or(0))
}

fn write_all_at(file: &File, mut bytes: &[u8], mut at: u64) -> Result<()> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(file, bytes, at) {
            Ok(0) => return Err(Kind::NoSpace.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                at += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
