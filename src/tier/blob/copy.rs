//! Copies inside the service: Put Block From URL, then one conditional commit.
//!
//! Never asynchronous Copy Blob: it makes the target visible before its bytes are there. Where the service will not read
//! the source on our behalf, the bytes pass through here, and the commit is the same.

use super::attributes::{self, Metadata};
use super::azrest::{Failure, Listed, Outcome, Properties, Write};
use super::azure::AzureBlob;
use super::upload::{AzureUpload, BLOCKS_MAX, BlockIds, block_size, put_whole, recognised};
use crate::error::{Kind, Result};
use crate::tier::Upload;
use crate::types::{Attrs, Condition, Key, Version};
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt};
use std::sync::Arc;

/// Bytes a request copies: answered well within a request's time-out.
const CHUNK: u64 = 64 * 1024 * 1024;

/// Requests at a time.
const PARALLEL: usize = 4;

impl AzureBlob {
    pub(super) async fn copy_blob(
        &self,
        from: &Key,
        version: &Version,
        to: &Key,
        attrs: &Attrs,
        condition: &Condition,
    ) -> Result<Version> {
        let what = format!("{}: copy {from} to {to}", self.name);
        let (source, target) = (self.blob(from)?, self.blob(to)?);
        let told = |failure: Failure| failure.into_error(&what);
        let found = self.client.head(&source).await.map_err(told)?;
        if found.etag.as_bytes() != &*version.0 {
            return Err(told(Failure::new(Kind::Changed, "the source is another version")));
        }
        let metadata = copied(&found, attrs)?;
        match self.copy_inside(&source, version, &found, &target, &metadata, condition).await {
            Ok(version) => Ok(version),
            Err(failure) if matches!(failure.kind, Kind::Unsupported | Kind::Denied) => {
                tracing::debug!(
                    what,
                    ?failure,
                    "the service does not copy this; its bytes pass through here"
                );
                self.copy_through((from, version, found.size), &target, &metadata, condition, &found).await
            }
            Err(failure) => Err(told(failure)),
        }
    }

    async fn copy_inside(
        &self,
        source: &str,
        version: &Version,
        found: &Properties,
        target: &str,
        metadata: &Metadata,
        condition: &Condition,
    ) -> Outcome<Version> {
        let write = Write {
            metadata,
            condition,
            content_type: found.content_type.as_deref(),
            access_tier: self.access_tier,
        };
        if found.size == 0 {
            return put_whole(&self.client, target, Bytes::new(), write).await;
        }
        let from = self.client.copy_source(source).await?;
        let (ids, chunk) = (BlockIds::new(), CHUNK.max(block_size(found.size)));
        // At most as many as a list may name, by the size of a block.
        let blocks = u32::try_from(found.size.div_ceil(chunk).min(BLOCKS_MAX)).unwrap_or(0);
        let jobs = (0..blocks).map(|index| {
            let start = u64::from(index) * chunk;
            let range = start..(start + chunk).min(found.size);
            let (id, from) = (ids.id(index), &from);
            async move { self.client.put_block_from(target, &id, from, range, version).await }
        });
        let jobs: Vec<_> = jobs.collect();
        futures::stream::iter(jobs).buffer_unordered(PARALLEL).try_collect::<()>().await?;
        let names: Vec<_> = (0..blocks).map(|index| Listed::Sent(ids.id(index))).collect();
        let sent = self.client.put_block_list(target, &names, write);
        recognised(&self.client, target, write, found.size, sent).await
    }

    async fn copy_through(
        &self,
        (from, version, size): (&Key, &Version, u64),
        target: &str,
        metadata: &Metadata,
        condition: &Condition,
        found: &Properties,
    ) -> Result<Version> {
        use crate::tier::Tier;
        let what = self.what("copy", from);
        let upload = AzureUpload::new(Arc::clone(&self.client), what, target.into(), size, self.access_tier);
        let block = usize::try_from(upload.block_size()).unwrap_or(usize::MAX);
        let mut parts = self.read(from, 0..size, version).await?;
        let (mut pending, mut index) = (BytesMut::new(), 0);
        while let Some(part) = parts.try_next().await? {
            pending.extend_from_slice(&part);
            while pending.len() >= block {
                upload.put_block(index, pending.split_to(block).freeze()).await?;
                index += 1;
            }
        }
        if !pending.is_empty() {
            upload.put_block(index, pending.freeze()).await?;
            index += 1;
        }
        upload.finish(index, metadata, condition, found.content_type.as_deref()).await
    }
}

/// The source's metadata with `attrs` in place of its attributes: a copied symlink is a symlink.
fn copied(found: &Properties, attrs: &Attrs) -> Result<Metadata> {
    let mut metadata = attributes::replaced(&found.metadata, attrs)?;
    // Who wrote the source did not write the copy.
    if attrs.write_id.is_none() {
        metadata.remove("tierfs_write_id");
    }
    Ok(metadata)
}
