//! Decorators without repetition: a [`Layer`] says what happens around any call of a tier, and
//! [`Layered`] is the tier with that around every call. Must not know what a layer is for.

use crate::error::{Kind, Result};
use crate::tier::{
    ByteStream, Capabilities, ContentId, Cursor, Object, Pace, Page, Resident, Special, Tier, Upload, Usage,
};
use crate::types::{Attrs, Condition, Key, Version};
use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Which call of a tier (or of an upload) it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(usize)]
pub enum Operation {
    /// [`Tier::probe`]
    Probe,
    /// [`Tier::head`]
    Head,
    /// [`Tier::list`]
    List,
    /// [`Tier::read`], until its stream begins.
    Read,
    /// [`Tier::put`]
    Put,
    /// [`Tier::put_special`]
    PutSpecial,
    /// [`Tier::upload`]
    Upload,
    /// [`Upload::put_block`]
    PutBlock,
    /// [`Upload::commit`]
    Commit,
    /// [`Tier::delete`]
    Delete,
    /// [`Tier::copy`]
    Copy,
    /// [`Tier::set_attrs`]
    SetAttrs,
    /// [`Tier::rehydrate`]
    Rehydrate,
    /// [`Tier::usage`]
    Usage,
}

impl Operation {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 14] = [
        Self::Probe,
        Self::Head,
        Self::List,
        Self::Read,
        Self::Put,
        Self::PutSpecial,
        Self::Upload,
        Self::PutBlock,
        Self::Commit,
        Self::Delete,
        Self::Copy,
        Self::SetAttrs,
        Self::Rehydrate,
        Self::Usage,
    ];

    /// In one word, as in metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::Head => "head",
            Self::List => "list",
            Self::Read => "read",
            Self::Put => "put",
            Self::PutSpecial => "put_special",
            Self::Upload => "upload",
            Self::PutBlock => "put_block",
            Self::Commit => "commit",
            Self::Delete => "delete",
            Self::Copy => "copy",
            Self::SetAttrs => "set_attrs",
            Self::Rehydrate => "rehydrate",
            Self::Usage => "usage",
        }
    }

    /// Whether it may take as long as its bytes need, so that no short deadline cuts it.
    #[must_use]
    pub fn moves_bytes(self) -> bool {
        matches!(self, Self::Put | Self::PutBlock | Self::Commit | Self::Copy)
    }
}

/// Whether a call may be made again when nobody knows whether it was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// It changes nothing, or twice is as good as once, or its write id tells.
    Safe,
    /// It could undo what somebody else did since.
    Unsafe,
}

/// A call as a layer sees it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Which call.
    pub operation: Operation,
    /// On which key.
    pub key: &'a Key,
    /// Bytes that it sends.
    pub sends: u64,
    /// Whether it may be made again.
    pub repeat: Repeat,
}

/// Whether an earlier try of the same call has failed with an outcome that nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// No earlier try.
    First,
    /// An earlier try may have been applied: what it would leave is recognised as success.
    Again,
}

/// Makes the call once; may be used more than once if [`Call::repeat`] allows.
pub type Attempt<'a, T> = &'a (dyn Fn(Turn) -> BoxFuture<'a, Result<T>> + Send + Sync);

/// Opens the stream of a read again for another range.
pub type Reopen = Arc<dyn Fn(Range<u64>) -> BoxFuture<'static, Result<ByteStream>> + Send + Sync>;

/// What happens around the calls of a tier.
#[async_trait]
pub trait Layer: Send + Sync + std::fmt::Debug + 'static {
    /// Makes the call by `attempt`, or doesn't.
    ///
    /// # Errors
    /// Those of the call, or the layer's own.
    async fn around<'a, T: Send>(&self, call: Call<'a>, attempt: Attempt<'a, T>) -> Result<T>;

    /// The pace of background work on the tier, if this is what gives it one.
    fn pace(&self) -> Option<&Arc<Pace>> {
        None
    }

    /// What happens to the bytes of a read; `range` is what `stream` will bring.
    fn stream(self: Arc<Self>, stream: ByteStream, range: Range<u64>, reopen: Reopen) -> ByteStream {
        let _unused = (range, reopen);
        stream
    }

    /// `inner` with this around it.
    fn over(self, inner: Arc<dyn Tier>) -> Arc<dyn Tier>
    where
        Self: Sized,
    {
        Arc::new(Layered { inner, layer: Arc::new(self) })
    }
}

/// A tier with a layer around each of its calls. What it does as files of this machine goes
/// straight to the tier: those are single system calls that nothing may delay.
#[derive(Debug)]
pub struct Layered<L> {
    inner: Arc<dyn Tier>,
    layer: Arc<L>,
}

fn call(operation: Operation, key: &Key) -> Call<'_> {
    Call { operation, key, sends: 0, repeat: Repeat::Safe }
}

/// A write can be told from another's by its id; without one only a blind write may be repeated.
fn write<'a>(operation: Operation, key: &'a Key, attrs: &Attrs, condition: &Condition) -> Call<'a> {
    let safe = attrs.write_id.is_some() || *condition == Condition::Always;
    let repeat = if safe { Repeat::Safe } else { Repeat::Unsafe };
    Call { repeat, ..call(operation, key) }
}

impl<L: Layer> Layered<L> {
    /// After a try of unknown outcome, a refusal may be the trace of our own success.
    async fn recognise(
        &self,
        turn: Turn,
        key: &Key,
        attrs: &Attrs,
        done: Result<Version>,
    ) -> Result<Version> {
        let refused = |kind| matches!(kind, Kind::Exists | Kind::Changed);
        match done {
            Err(error) if turn == Turn::Again && refused(error.kind()) && attrs.write_id.is_some() => {
                match self.inner.head(key).await {
                    Ok(found) if found.attrs.write_id == attrs.write_id => Ok(found.version),
                    // Not ours, or gone again: the refusal stands.
                    Ok(_) => Err(error),
                    Err(missing) if missing.kind() == Kind::NotFound => Err(error),
                    Err(unknown) => Err(unknown),
                }
            }
            other => other,
        }
    }
}

#[async_trait]
impl<L: Layer> Tier for Layered<L> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn location(&self) -> String {
        self.inner.location()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn can_carry(&self, attrs: &Attrs) -> bool {
        self.inner.can_carry(attrs)
    }

    async fn probe(&self) -> Result<()> {
        self.layer.around(call(Operation::Probe, &Key::ROOT), &|_| self.inner.probe()).await
    }

    async fn head(&self, key: &Key) -> Result<Object> {
        self.layer.around(call(Operation::Head, key), &|_| self.inner.head(key)).await
    }

    async fn list(&self, dir: &Key, prefix: &[u8], from: Option<Cursor>, limit: usize) -> Result<Page> {
        let attempt = |_| self.inner.list(dir, prefix, from.clone(), limit);
        self.layer.around(call(Operation::List, dir), &attempt).await
    }

    async fn read(&self, key: &Key, range: Range<u64>, version: &Version) -> Result<ByteStream> {
        let attempt = |_| self.inner.read(key, range.clone(), version);
        let stream = self.layer.around(call(Operation::Read, key), &attempt).await?;
        let (inner, key, version) = (Arc::clone(&self.inner), key.clone(), version.clone());
        let reopen: Reopen = Arc::new(move |range| {
            let (inner, key, version) = (Arc::clone(&inner), key.clone(), version.clone());
            Box::pin(async move { inner.read(&key, range, &version).await })
        });
        Ok(Arc::clone(&self.layer).stream(stream, range, reopen))
    }

    async fn put(&self, key: &Key, bytes: Bytes, attrs: &Attrs, condition: &Condition) -> Result<Version> {
        let call = Call { sends: bytes.len() as u64, ..write(Operation::Put, key, attrs, condition) };
        let bytes = &bytes;
        let attempt = |turn| -> BoxFuture<'_, _> {
            Box::pin(async move {
                let done = self.inner.put(key, bytes.clone(), attrs, condition).await;
                self.recognise(turn, key, attrs, done).await
            })
        };
        self.layer.around(call, &attempt).await
    }

    async fn put_special(
        &self,
        key: &Key,
        special: &Special,
        attrs: &Attrs,
        condition: &Condition,
    ) -> Result<Version> {
        let attempt = |turn| -> BoxFuture<'_, _> {
            Box::pin(async move {
                let done = self.inner.put_special(key, special, attrs, condition).await;
                self.recognise(turn, key, attrs, done).await
            })
        };
        self.layer.around(write(Operation::PutSpecial, key, attrs, condition), &attempt).await
    }

    async fn upload(&self, key: &Key, size: u64) -> Result<Box<dyn Upload>> {
        let attempt = |_| self.inner.upload(key, size);
        let inner = self.layer.around(call(Operation::Upload, key), &attempt).await?;
        Ok(Box::new(LayeredUpload { inner, key: key.clone(), layer: Arc::clone(&self.layer) }))
    }

    async fn delete(&self, key: &Key, condition: &Condition) -> Result<()> {
        // A blind delete made twice could hit what somebody made in between.
        let conditional = matches!(condition, Condition::Matches(_));
        let repeat = if conditional { Repeat::Safe } else { Repeat::Unsafe };
        let attempt = |turn| -> BoxFuture<'_, _> {
            Box::pin(async move {
                match self.inner.delete(key, condition).await {
                    Err(error) if turn == Turn::Again && error.kind() == Kind::NotFound => Ok(()),
                    other => other,
                }
            })
        };
        self.layer.around(Call { repeat, ..call(Operation::Delete, key) }, &attempt).await
    }

    async fn copy(
        &self,
        from: &Key,
        version: &Version,
        to: &Key,
        attrs: &Attrs,
        condition: &Condition,
    ) -> Result<Version> {
        let attempt = |turn| -> BoxFuture<'_, _> {
            Box::pin(async move {
                let done = self.inner.copy(from, version, to, attrs, condition).await;
                self.recognise(turn, to, attrs, done).await
            })
        };
        self.layer.around(write(Operation::Copy, to, attrs, condition), &attempt).await
    }

    async fn set_attrs(&self, key: &Key, version: &Version, attrs: &Attrs) -> Result<Version> {
        let condition = Condition::Matches(version.clone());
        let attempt = |turn| -> BoxFuture<'_, _> {
            Box::pin(async move {
                let done = self.inner.set_attrs(key, version, attrs).await;
                self.recognise(turn, key, attrs, done).await
            })
        };
        self.layer.around(write(Operation::SetAttrs, key, attrs, &condition), &attempt).await
    }

    async fn rehydrate(&self, key: &Key) -> Result<()> {
        self.layer.around(call(Operation::Rehydrate, key), &|_| self.inner.rehydrate(key)).await
    }

    async fn usage(&self) -> Result<Usage> {
        self.layer.around(call(Operation::Usage, &Key::ROOT), &|_| self.inner.usage()).await
    }

    fn resident(&self) -> Option<&dyn Resident> {
        self.inner.resident()
    }

    fn pace(&self) -> Option<&Arc<Pace>> {
        self.layer.pace().or_else(|| self.inner.pace())
    }
}

struct LayeredUpload<L> {
    inner: Box<dyn Upload>,
    key: Key,
    layer: Arc<L>,
}

#[async_trait]
impl<L: Layer> Upload for LayeredUpload<L> {
    fn block_size(&self) -> u64 {
        self.inner.block_size()
    }

    async fn put_block(&self, index: u64, bytes: Bytes) -> Result<()> {
        let call = Call { sends: bytes.len() as u64, ..call(Operation::PutBlock, &self.key) };
        self.layer.around(call, &|_| self.inner.put_block(index, bytes.clone())).await
    }

    async fn resume(&self, content: ContentId) -> Result<BTreeMap<u64, u64>> {
        self.layer.around(call(Operation::Upload, &self.key), &|_| self.inner.resume(content)).await
    }

    async fn sync(&self) -> Result<()> {
        // No request, so nothing to count or to repeat.
        self.inner.sync().await
    }

    async fn blocks_there(&self, version: &Version) -> Result<Vec<u64>> {
        self.layer.around(call(Operation::Upload, &self.key), &|_| self.inner.blocks_there(version)).await
    }

    fn keep_block(&self, index: u64, there: usize) {
        self.inner.keep_block(index, there);
    }

    async fn commit(&self, blocks: u64, attrs: &Attrs, condition: &Condition) -> Result<Version> {
        let call = write(Operation::Commit, &self.key, attrs, condition);
        self.layer.around(call, &|_| self.inner.commit(blocks, attrs, condition)).await
    }
}
