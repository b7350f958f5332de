//! Bytes on their way to a home: seal, send blocks in parallel, check that nothing changed meanwhile.

use crate::catalog::{Content, Inode, Replica, WriteState};
use crate::error::{Error, Kind, Result, found};
use crate::failpoint;
use crate::mover::context::Context;
use crate::mover::jobs::commit::{Act, resident};
use crate::mover::jobs::partial::{self, Block, Patches};
use crate::mover::jobs::subject::Target;
use crate::mover::jobs::{Flow, Halt, conflict};
use crate::mover::status::Counters;
use crate::tier::{Access, ByteStream, ContentId, Piece, Tier, Upload};
use crate::types::{Generation, Ino, Invalidation, Key, Version};
use bytes::{Bytes, BytesMut};
use futures::stream::{FuturesUnordered, StreamExt};
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// End of the name of a staged file that is being copied.
const COPY: &[u8] = b".copy";

/// Files up to this size go in one request.
const ONE_REQUEST_MAX: u64 = 4 << 20;

/// From so many blocks on it is asked what an earlier attempt has sent already; below, the request would cost more than it
/// saves.
const RESUMED_FROM: u64 = 4;

/// Blocks of one file in flight; the limit over all files is the context's.
const BLOCKS_PER_FILE: usize = 16;

/// A source whose bytes are known: as long as its version holds, they are one content.
pub(crate) struct Sealed {
    tier: Arc<dyn Tier>,
    key: Key,
    version: Version,
    generation: Generation,
    pub(crate) size: u64,
    file: Option<Arc<File>>,
    /// New bytes on their way home, which are not background work.
    staged: bool,
    /// What the file has, if not all.
    patches: Option<Patches>,
}

/// Fixes what the bytes of `replica` are.
pub(crate) async fn seal(context: &Arc<Context>, replica: &Replica) -> Flow<Sealed> {
    let tier = context.tier(replica.tier)?;
    let sealed = if tier.resident().is_some() {
        seal_native(context, Arc::clone(&tier), replica).await
    } else {
        tier.head(&replica.key).await.map(|object| Sealed {
            tier,
            key: replica.key.clone(),
            version: object.version,
            generation: replica.generation,
            size: object.size,
            file: None,
            staged: replica.staged,
            patches: None,
        })
    };
    match sealed {
        Ok(sealed) if replica.staged || replica.version.as_ref() == Some(&sealed.version) => Ok(sealed),
        Err(error) if error.kind() == Kind::NotFound && replica.staged => {
            if is_wanted(context, replica)? && !is_being_made(context, replica)? {
                Err(lost(context, replica, error))
            } else {
                Err(Halt::Again)
            }
        }
        Err(error) if error.kind() != Kind::NotFound => Err(error.into()),
        // Somebody else changed or removed the source behind our back.
        _ => {
            let place = context.catalog.place(replica.place)?;
            conflict::look_at(context, &place, &replica.name).await?;
            Err(Halt::Again)
        }
    }
}

/// Whether a staged file should be there: nobody has deleted or committed it meanwhile.
fn is_wanted(context: &Context, replica: &Replica) -> Result<bool> {
    let now = context.catalog.replica_at(replica.place, &replica.name)?;
    Ok(now.is_some_and(|now| now.ino == replica.ino && now.generation == replica.generation))
}

/// Whether its bytes are there, and about to get their name.
fn is_being_made(context: &Context, replica: &Replica) -> Result<bool> {
    let copy = Key::parse([replica.key.as_bytes(), COPY].concat())?;
    let tier = context.tier(replica.tier)?;
    let resident = resident(tier.as_ref())?;
    // It may have got it by now.
    Ok(found(resident.stat(&copy))?.is_some() || found(resident.stat(&replica.key))?.is_some())
}

fn lost(context: &Context, replica: &Replica, error: Error) -> Halt {
    if let Some(ino) = replica.ino {
        context.note_lost(ino, replica);
    }
    let text = format!("the staged bytes are gone: {} is missing", replica.key);
    Halt::Failed(Error::new(Kind::Corrupt, text).with_source(error))
}

async fn seal_native(context: &Arc<Context>, tier: Arc<dyn Tier>, replica: &Replica) -> Result<Sealed> {
    let replica = replica.clone();
    context
        .blocking(move |context| {
            let native = resident(tier.as_ref())?;
            let file = native.open(&replica.key, Access::Read)?;
            file.sync_all()?;
            let object = native.stat_open(&file)?;
            // Whoever writes changes the version before the map.
            let patches = if replica.is_partial() { Some(Patches::seal(context, &replica)?) } else { None };
            let Replica { key, generation, staged, .. } = replica;
            let (version, size, file) = (object.version, object.size, Some(Arc::new(file)));
            Ok(Sealed { tier: Arc::clone(&tier), key, version, generation, size, file, staged, patches })
        })
        .await
}

impl Sealed {
    /// All its bytes; fails where they are another version by now.
    pub(crate) async fn stream(&self) -> Result<ByteStream> {
        self.tier.read(&self.key, 0..self.size, &self.version).await
    }

    /// What the source was when it was sealed.
    pub(crate) fn version(&self) -> &Version {
        &self.version
    }

    /// Which content it is.
    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    /// Waits until so many of its bytes may move to `target`.
    async fn begin_pieces(&self, target: &Arc<dyn Tier>, bytes: u64) -> Vec<Piece> {
        if self.staged {
            return Vec::new();
        }
        let mut pieces = Vec::from_iter(self.tier.begin_piece(bytes).await);
        pieces.extend(target.begin_piece(bytes).await);
        pieces
    }

    /// Equal for every attempt to send these bytes, after a restart too. The generation tells apart what was written within one tick
    /// of a tier's clock.
    fn content(&self) -> ContentId {
        let version = [&self.version.0[..], &self.generation.0.to_le_bytes()].concat();
        ContentId::of(&self.tier.location(), &self.key, &Version::new(version))
    }

    /// Whether the bytes are still those that were sealed.
    async fn holds(self: &Arc<Self>, context: &Arc<Context>) -> Result<bool> {
        let sealed = Arc::clone(self);
        context
            .blocking(move |_| {
                // A blob was read under its version: it can't have been another.
                let Some(file) = &sealed.file else { return Ok(true) };
                file.sync_all()?;
                Ok(resident(sealed.tier.as_ref())?.stat_open(file)?.version == sealed.version)
            })
            .await
    }

    async fn read(self: &Arc<Self>, context: &Arc<Context>, range: Range<u64>) -> Result<Bytes> {
        if self.file.is_some() {
            let (sealed, native) = (Arc::clone(self), range.clone());
            let mut bytes = context.blocking(move |_| sealed.read_native(native)).await?;
            if let Some(patches) = &self.patches {
                patches.patch(&range, &mut bytes).await?;
            }
            return Ok(bytes.into());
        }
        let length = range.end - range.start;
        if length == 0 {
            return Ok(Bytes::new());
        }
        let mut stream = self.tier.read(&self.key, range, &self.version).await?;
        let mut bytes = BytesMut::with_capacity(usize::try_from(length).unwrap_or(0));
        while let Some(part) = stream.next().await {
            bytes.extend_from_slice(&part?);
        }
        if bytes.len() as u64 == length {
            return Ok(bytes.freeze());
        }
        Err(Error::new(Kind::Unavailable, format!("{}: the answer was cut short", self.key)))
    }

    fn read_native(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let length = usize::try_from(range.end - range.start).map_err(|error| {
            Error::new(Kind::Invalid, "a block does not fit into memory").with_source(error)
        })?;
        let mut bytes = vec![0; length];
        match &self.file {
            Some(file) => {
                file.read_exact_at(&mut bytes, range.start).map_err(|error| cut(&self.key, error))?
            }
            None => return Err(Kind::Unsupported.into()),
        }
        Ok(bytes)
    }

    /// The blocks that make it up for `upload`, and what they are a cut of.
    async fn plan(
        &self,
        context: &Context,
        target: &Target,
        upload: &dyn Upload,
    ) -> Result<(Vec<Block>, ContentId)> {
        let Some(patches) = &self.patches else {
            return Ok((partial::even(self.size, upload.block_size().max(1)), self.content()));
        };
        let (pieces, over) = patches.plan(context, self.size, target, upload).await?;
        patches.find_base(context, &pieces).await?;
        let content = patches.content(self.content(), &target.key, &pieces, over.as_ref());
        Ok((pieces, content))
    }
}

fn cut(key: &Key, error: std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::UnexpectedEof {
        return Error::new(Kind::Interrupted, format!("{key} became shorter while it was read"));
    }
    Error::from(error).context(key)
}

/// Sends the bytes of `sealed` towards `target`; nothing is visible before the answered act.
pub(crate) async fn send(context: &Arc<Context>, sealed: &Arc<Sealed>, target: &Target) -> Flow<Act> {
    if sealed.size <= ONE_REQUEST_MAX {
        if let Some(patches) = &sealed.patches {
            patches.find_base(context, &partial::even(sealed.size, ONE_REQUEST_MAX)).await?;
        }
        let _pieces = sealed.begin_pieces(&target.tier, sealed.size).await;
        let _memory = context.stores.reserve(sealed.size).await;
        let bytes = sealed.read(context, 0..sealed.size).await?;
        Counters::add(&context.counters.sent_bytes, sealed.size);
        return Ok(Act::Put { bytes, _memory });
    }
    let upload: Arc<dyn Upload> = target.tier.upload(&target.key, sealed.size).await?.into();
    failpoint::pass("upload_begun");
    let blocks = send_blocks(context, sealed, target, &upload).await?;
    upload.sync().await?;
    failpoint::pass("blocks_sent");
    Ok(Act::Upload { upload, blocks })
}

/// Sends all blocks that are not there yet; answers how many make the whole.
pub(crate) async fn send_blocks(
    context: &Arc<Context>,
    sealed: &Arc<Sealed>,
    target: &Target,
    upload: &Arc<dyn Upload>,
) -> Result<u64> {
    let (cut, content) = sealed.plan(context, target, upload.as_ref()).await?;
    let blocks = cut.len() as u64;
    let there = if blocks < RESUMED_FROM { BTreeMap::new() } else { upload.resume(content).await? };
    if !there.is_empty() {
        tracing::info!(key = %sealed.key, there = there.len(), blocks, "upload taken up where an earlier one ended");
    }
    let mut in_flight = FuturesUnordered::new();
    for (index, block) in (0..).zip(cut) {
        let Block { range, there: kept } = block;
        if let Some(kept) = kept {
            upload.keep_block(index, kept);
            continue;
        }
        if there.get(&index) == Some(&(range.end - range.start)) {
            continue;
        }
        if in_flight.len() >= BLOCKS_PER_FILE
            && let Some(result) = in_flight.next().await
        {
            result?;
        }
        let (sealed, target) = (Arc::clone(sealed), Arc::clone(&target.tier));
        let (context, upload) = (Arc::clone(context), Arc::clone(upload));
        in_flight.push(async move {
            let _pieces = sealed.begin_pieces(&target, range.end - range.start).await;
            send_block(context, sealed, upload, index, range).await
        });
    }
    while let Some(result) = in_flight.next().await {
        result?;
    }
    Ok(blocks)
}

async fn send_block(
    context: Arc<Context>,
    sealed: Arc<Sealed>,
    upload: Arc<dyn Upload>,
    index: u64,
    range: Range<u64>,
) -> Result<()> {
    let _turn = context
        .blocks
        .acquire()
        .await
        .map_err(|closed| Error::new(Kind::Interrupted, "uploads are stopped").with_source(closed))?;
    let length = range.end - range.start;
    let _memory = context.stores.reserve(length).await;
    let bytes = sealed.read(&context, range).await?;
    upload.put_block(index, bytes).await?;
    Counters::add(&context.counters.sent_bytes, length);
    Ok(())
}

/// Whether what was sent may become visible: the bytes held still, no program opened the file for writing,
/// and the key is still one that the file should have.
pub(crate) async fn may_commit(
    context: &Arc<Context>,
    sealed: &Arc<Sealed>,
    before: &Inode,
    target: &Target,
) -> Flow<()> {
    let same = sealed.holds(context).await?;
    let Some(now) = found(context.catalog.inode(before.attr.ino))? else { return Err(Halt::Again) };
    if matches!(now.state, WriteState::Writing | WriteState::ClosedOpen) {
        return Err(Halt::Again);
    }
    if !same {
        return Err(changed(sealed));
    }
    if now.generation != before.generation {
        return Err(Halt::Again);
    }
    is_native(context, before.attr.ino, target)?;
    note_size(context, &now, sealed.size)?;
    Ok(())
}

/// Whether what was sent of an older generation may become visible: the bytes held still, and the key is still one that the
/// file should have.
pub(crate) async fn may_show(
    context: &Arc<Context>,
    sealed: &Arc<Sealed>,
    ino: Ino,
    target: &Target,
) -> Flow<()> {
    if !sealed.holds(context).await? {
        return Err(changed(sealed));
    }
    is_native(context, ino, target)
}

fn changed(sealed: &Sealed) -> Halt {
    let text = format!("{} changed while it was uploaded (still mapped?)", sealed.key);
    Halt::Failed(Error::new(Kind::Busy, text))
}

/// The key is one that the file should have, now.
fn is_native(context: &Context, ino: Ino, target: &Target) -> Flow<()> {
    let Some(dir) = target.place.ino else { return Err(Halt::Again) };
    let native = context.catalog.native_place(dir, target.place.tier)?.map(|place| place.id);
    let names = found(context.catalog.names(ino))?.unwrap_or_default();
    let named = names.iter().any(|(parent, name)| *parent == dir && *name == target.name);
    if named && native == Some(target.place.id) { Ok(()) } else { Err(Halt::Again) }
}

/// A mapping may have outlived the last close, and a power loss a cut: what is on the stage is the truth, and stat must say so.
pub(crate) fn note_size(context: &Context, inode: &Inode, size: u64) -> Result<()> {
    if inode.attr.size == size {
        return Ok(());
    }
    let (mtime, ctime) = (inode.attr.mtime, context.clock.wall());
    context.catalog.resize(inode.attr.ino, Content { size, blocks: size.div_ceil(512), mtime, ctime })?;
    (context.invalidate)(Invalidation::Inode(inode.attr.ino));
    Ok(())
}
