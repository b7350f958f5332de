//! A poor share around a good tier, for tests and the demo: no user attributes, hard links, owners,
//! modes or special files; times keep whole seconds.
//! What it can't do it says in its capabilities, like a real one.

use crate::error::{Kind, Result};
use crate::tier::{
    Access, ByteStream, Capabilities, ContentId, Cursor, Object, Page, RenameMode, Resident, Special, Tier,
    Upload, Usage,
};
use crate::types::{AttrChange, Attrs, Condition, Key, TimeChange, Timestamp, Version};
use async_trait::async_trait;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const GRAIN: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub struct Restricted {
    inner: Arc<dyn Tier>,
}

impl Restricted {
    /// Makes `inner` poor.
    #[must_use]
    pub fn new(inner: Arc<dyn Tier>) -> Self {
        Self { inner }
    }

    fn native(&self) -> Result<&dyn Resident> {
        self.inner.resident().ok_or_else(|| Kind::Unsupported.into())
    }
}

fn whole_seconds(time: Timestamp) -> Timestamp {
    let (seconds, _) = time.parts();
    Timestamp::from_parts(seconds, 0)
}

/// What it takes of attributes: the write id travels as before, for callers look at it where
/// conditions are not enough.
fn poor(attrs: &Attrs) -> Attrs {
    Attrs { mtime: attrs.mtime.map(whole_seconds), write_id: attrs.write_id.clone(), ..Attrs::default() }
}

fn poor_object(object: Object) -> Object {
    let mtime = object.attrs.mtime.map(whole_seconds);
    let write_id = object.attrs.write_id;
    Object {
        modified: whole_seconds(object.modified),
        attrs: Attrs { mtime, write_id, ..Attrs::default() },
        native: object.native.map(|native| crate::tier::NativeId { nlink: native.nlink.min(1), ..native }),
        ..object
    }
}

fn poor_page(mut page: Page) -> Page {
    for entry in &mut page.entries {
        entry.object = poor_object(entry.object.clone());
    }
    page
}

fn refuse_nodes(special: &Special) -> Result<()> {
    match special {
        Special::Node { .. } => Err(Kind::Unsupported.into()),
        Special::Directory | Special::Symlink(_) => Ok(()),
    }
}

/// Times only; owner and mode are taken with a smile and forgotten, as SMB does.
fn poor_change(change: &AttrChange) -> AttrChange {
    let whole = |time: Option<TimeChange>| match time {
        Some(TimeChange::To(time)) => Some(TimeChange::To(whole_seconds(time))),
        other => other,
    };
    AttrChange { atime: whole(change.atime), mtime: whole(change.mtime), ..AttrChange::default() }
}

#[async_trait]
impl Tier for Restricted {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn location(&self) -> String {
        self.inner.location()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            owner_and_mode: false,
            mtime_grain: Some(GRAIN),
            hard_links: false,
            xattrs: false,
            special_files: false,
            networked: true,
            ..self.inner.capabilities()
        }
    }

    fn can_carry(&self, attrs: &Attrs) -> bool {
        self.inner.can_carry(attrs)
    }

    async fn probe(&self) -> Result<()> {
        self.inner.probe().await
    }

    async fn head(&self, key: &Key) -> Result<Object> {
        self.inner.head(key).await.map(poor_object)
    }

    async fn list(&self, dir: &Key, prefix: &[u8], from: Option<Cursor>, limit: usize) -> Result<Page> {
        self.inner.list(dir, prefix, from, limit).await.map(poor_page)
    }

    async fn read(&self, key: &Key, range: Range<u64>, version: &Version) -> Result<ByteStream> {
        self.inner.read(key, range, version).await
    }

    async fn put(&self, key: &Key, bytes: Bytes, attrs: &Attrs, condition: &Condition) -> Result<Version> {
        self.inner.put(key, bytes, &poor(attrs), condition).await
    }

    async fn put_special(
        &self,
        key: &Key,
        special: &Special,
        attrs: &Attrs,
        condition: &Condition,
    ) -> Result<Version> {
        refuse_nodes(special)?;
        self.inner.put_special(key, special, &poor(attrs), condition).await
    }

    async fn upload(&self, key: &Key, size: u64) -> Result<Box<dyn Upload>> {
        Ok(Box::new(RestrictedUpload(self.inner.upload(key, size).await?)))
    }

    async fn delete(&self, key: &Key, condition: &Condition) -> Result<()> {
        self.inner.delete(key, condition).await
    }

    async fn copy(
        &self,
        from: &Key,
        version: &Version,
        to: &Key,
        attrs: &Attrs,
        condition: &Condition,
    ) -> Result<Version> {
        self.inner.copy(from, version, to, &poor(attrs), condition).await
    }

    async fn set_attrs(&self, key: &Key, version: &Version, attrs: &Attrs) -> Result<Version> {
        self.inner.set_attrs(key, version, &poor(attrs)).await
    }

    async fn rehydrate(&self, key: &Key) -> Result<()> {
        self.inner.rehydrate(key).await
    }

    async fn usage(&self) -> Result<Usage> {
        self.inner.usage().await
    }

    fn resident(&self) -> Option<&dyn Resident> {
        self.inner.resident().map(|_| self as &dyn Resident)
    }
}

struct RestrictedUpload(Box<dyn Upload>);

#[async_trait]
impl Upload for RestrictedUpload {
    fn block_size(&self) -> u64 {
        self.0.block_size()
    }

    async fn put_block(&self, index: u64, bytes: Bytes) -> Result<()> {
        self.0.put_block(index, bytes).await
    }

    async fn resume(&self, content: ContentId) -> Result<BTreeMap<u64, u64>> {
        self.0.resume(content).await
    }

    async fn sync(&self) -> Result<()> {
        self.0.sync().await
    }

    async fn commit(&self, blocks: u64, attrs: &Attrs, condition: &Condition) -> Result<Version> {
        self.0.commit(blocks, &poor(attrs), condition).await
    }
}

impl Resident for Restricted {
    fn create(&self, key: &Key, mode: u32) -> Result<File> {
        self.native()?.create(key, mode)
    }

    fn open(&self, key: &Key, access: Access) -> Result<File> {
        self.native()?.open(key, access)
    }

    fn stat(&self, key: &Key) -> Result<Object> {
        self.native()?.stat(key).map(poor_object)
    }

    fn stat_open(&self, file: &File) -> Result<Object> {
        self.native()?.stat_open(file).map(poor_object)
    }

    fn report_writes(&self, file: &File) -> Result<()> {
        self.native()?.report_writes(file)
    }

    fn mkdir(&self, key: &Key, mode: u32) -> Result<()> {
        self.native()?.mkdir(key, mode)
    }

    fn ensure_directory(&self, key: &Key) -> Result<()> {
        self.native()?.ensure_directory(key)
    }

    fn make(&self, key: &Key, special: &Special, mode: u32) -> Result<()> {
        refuse_nodes(special)?;
        self.native()?.make(key, special, mode)
    }

    fn link(&self, _from: &Key, _to: &Key) -> Result<()> {
        Err(Kind::Unsupported.into())
    }

    fn rename(&self, from: &Key, to: &Key, mode: RenameMode) -> Result<()> {
        match mode {
            // Neither NFS nor SMB can.
            RenameMode::Exchange => Err(Kind::Unsupported.into()),
            RenameMode::Replace | RenameMode::NoReplace => self.native()?.rename(from, to, mode),
        }
    }

    fn unlink(&self, key: &Key) -> Result<()> {
        self.native()?.unlink(key)
    }

    fn rmdir(&self, key: &Key) -> Result<()> {
        self.native()?.rmdir(key)
    }

    fn set_attr(&self, key: &Key, change: &AttrChange) -> Result<()> {
        self.native()?.set_attr(key, &poor_change(change))
    }

    fn set_attr_open(&self, file: &File, change: &AttrChange) -> Result<()> {
        self.native()?.set_attr_open(file, &poor_change(change))
    }

    fn set_xattr(&self, _key: &Key, _name: &[u8], _value: Option<&[u8]>) -> Result<()> {
        Err(Kind::Unsupported.into())
    }

    fn xattrs(&self, key: &Key) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.native()?.stat(key).map(|_| Vec::new())
    }

    fn sync_directory(&self, key: &Key) -> Result<()> {
        self.native()?.sync_directory(key)
    }

    fn read_directory(&self, dir: &Key, from: Option<Cursor>, limit: usize) -> Result<Page> {
        self.native()?.read_directory(dir, from, limit).map(poor_page)
    }

    fn native_path(&self, key: &Key) -> Result<PathBuf> {
        self.native()?.native_path(key)
    }

    fn device(&self) -> u64 {
        self.inner.resident().map_or(0, Resident::device)
    }

    fn note_used(&self, bytes: u64) {
        if let Ok(native) = self.native() {
            native.note_used(bytes);
        }
    }

    fn usage(&self) -> Result<Usage> {
        self.native()?.usage()
    }
}
