//! Files of the demo: bytes that don't compress, known by their seed.

use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

const BLOCK: usize = 1 << 20;

/// SHA-256 of a content.
pub(super) type Sum = [u8; 32];

/// A content: `blocks` MiB grown from `seed`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content {
    pub(super) seed: u64,
    pub(super) blocks: u64,
}

impl Content {
    pub(super) fn size(self) -> u64 {
        self.blocks * BLOCK as u64
    }

    /// Makes `path` anew with this content.
    pub(super) fn write(self, path: &Path) -> io::Result<()> {
        let mut file = File::create_new(path)?;
        self.each_block(&mut |block| file.write_all(block))
    }

    pub(super) fn sum(self) -> Sum {
        let mut hash = Sha256::new();
        let hashed = self.each_block(&mut |block| {
            hash.update(block);
            Ok(())
        });
        debug_assert!(hashed.is_ok(), "hashing does not fail");
        hash.finalize().into()
    }

    fn each_block(self, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut block = noise(self.seed);
        for index in 0..self.blocks {
            block[..8].copy_from_slice(&index.to_le_bytes());
            each(&block)?;
        }
        Ok(())
    }
}

/// xorshift64: no storage finds anything to deduplicate between seeds.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut block = Vec::with_capacity(BLOCK);
    while block.len() < BLOCK {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        block.extend_from_slice(&state.to_le_bytes());
    }
    block
}

/// Reads all of `path`; answers how many bytes.
pub(super) fn read(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let mut block = vec![0; BLOCK];
    let mut size = 0;
    loop {
        match file.read(&mut block)? {
            0 => return Ok(size),
            got => size += got as u64,
        }
    }
}

/// SHA-256 of what `path` holds.
pub(super) fn sum_of(path: &Path) -> io::Result<Sum> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut block = vec![0; BLOCK];
    loop {
        match file.read(&mut block)? {
            0 => return Ok(hash.finalize().into()),
            got => hash.update(&block[..got]),
        }
    }
}

/// SHA-256 of what `path` holds, read through a mapping as a model loader does.
pub(super) fn sum_of_mapping(path: &Path) -> io::Result<Sum> {
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    let file = File::open(path)?;
    let size = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    // SAFETY: a new mapping at an address the kernel chooses; nothing else knows it.
    let start = unsafe { mmap(std::ptr::null_mut(), size, ProtFlags::READ, MapFlags::SHARED, &file, 0)? };
    // SAFETY: `size` readable bytes are mapped at `start`, and only this process, which does not
    // write, and the demo's own daemon know the file.
    let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), size) };
    let sum = Sha256::digest(bytes).into();
    // SAFETY: the mapping made above; `bytes` is not used any more.
    unsafe { munmap(start, size)? };
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_is_what_it_says() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("x");
        let content = Content { seed: 1, blocks: 2 };
        content.write(&path).unwrap();
        assert_eq!(read(&path).unwrap(), content.size());
        assert_eq!(sum_of(&path).unwrap(), content.sum());
        assert_eq!(sum_of_mapping(&path).unwrap(), content.sum());
        assert_ne!(content.sum(), Content { seed: 2, blocks: 2 }.sum());
    }
}
