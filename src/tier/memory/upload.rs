//! Blocks in memory, and their commit.

use super::{MemoryTier, Stored, regular};
use crate::error::{Error, Kind, Result};
use crate::tier::Upload;
use crate::types::{Attrs, Condition, Key, Version};
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use std::collections::BTreeMap;

const BLOCK: u64 = 64 << 10;

#[derive(Debug)]
pub(super) struct MemoryUpload {
    tier: MemoryTier,
    key: Key,
    blocks: Mutex<BTreeMap<u64, Bytes>>,
}

impl MemoryUpload {
    pub(super) fn new(tier: MemoryTier, key: Key) -> Self {
        Self { tier, key, blocks: Mutex::default() }
    }

    fn assemble(&self, count: u64) -> Result<Bytes> {
        let blocks = self.blocks.lock();
        let mut whole = BytesMut::new();
        for index in 0..count {
            let block = blocks.get(&index);
            whole.extend_from_slice(
                block.ok_or_else(|| Error::new(Kind::Invalid, format!("block {index} is missing")))?,
            );
        }
        Ok(whole.freeze())
    }
}

#[async_trait]
impl Upload for MemoryUpload {
    fn block_size(&self) -> u64 {
        BLOCK
    }

    async fn put_block(&self, index: u64, bytes: Bytes) -> Result<()> {
        self.blocks.lock().insert(index, bytes);
        Ok(())
    }

    async fn commit(&self, blocks: u64, attrs: &Attrs, condition: &Condition) -> Result<Version> {
        let whole = self.assemble(blocks)?;
        let done = self.tier.0.store(&self.key, regular(whole, attrs), condition);
        match done {
            Err(error) if matches!(error.kind(), Kind::Exists | Kind::Changed) => {
                let state = self.tier.0.state.lock();
                let ours = state
                    .objects
                    .get(&self.key)
                    .filter(|found| attrs.write_id.is_some() && found.attrs.write_id == attrs.write_id);
                ours.map(Stored::version).ok_or(error)
            }
            other => other,
        }
    }
}
