//! A staged file that has only what was written of it: the rest is read from the version it began from, as long as
//! that is there. The stage file is as long as the whole, and a map beside it says which of its bytes count; what the
//! file system thinks are holes says nothing.
//!
//! One object serves all who use the file in this process, so that there is one map: [`StageStore::open_partial`]
//! gives it out.
//!
//! [`StageStore::open_partial`]: crate::data::StageStore::open_partial

pub(super) mod log;
mod map;
mod patched;
#[cfg(test)]
mod tests;

use crate::data::copy::copy_file;
use crate::data::read::read_full;
use crate::error::{Error, Kind, Result};
use crate::types::Generation;
pub use log::Base;
use log::Log;
pub use map::{Map, Record};
use parking_lot::Mutex;
pub use patched::{Candidate, Candidates, Patched};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// What can be done with the ranges of such a file: others would move bytes about.
const ALLOCATIONS: FallocateFlags = FallocateFlags::KEEP_SIZE
    .union(FallocateFlags::PUNCH_HOLE)
    .union(FallocateFlags::ZERO_RANGE)
    .union(FallocateFlags::UNSHARE_RANGE);

/// See the module.
#[derive(Debug)]
pub struct Partial {
    file: File,
    base: Base,
    /// Held from before bytes are written until the record that speaks of them is.
    log: Mutex<Log>,
}

/// What a map beside a stage file says, for who only looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// What the file began from.
    pub base: Base,
    /// What it has of its own.
    pub map: Map,
}

impl Partial {
    /// Goes on with `file` and its map.
    pub(super) fn new(file: File, log: File, read: log::Read) -> Result<Self> {
        let base = read.base.clone();
        let mut log = Log::new(log, read);
        // A cut that was not written down any more.
        if let Err(error) = log.must(Record::Cut(file.metadata()?.len())) {
            tracing::debug!(%error, "the map of a staged file can't be written now");
        }
        Ok(Self { file, base, log: Mutex::new(log) })
    }

    /// The stage file, for its size and its times; its bytes mean nothing without the map.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The version it began from.
    #[must_use]
    pub fn base(&self) -> &Base {
        &self.base
    }

    /// Which bytes it has now.
    #[must_use]
    pub fn map(&self) -> Map {
        self.log.lock().map().clone()
    }

    /// What of `range` must be read from a base.
    #[must_use]
    pub fn missing(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        self.log.lock().map().missing(range)
    }

    /// What of `range` is in the stage file.
    #[must_use]
    pub fn present(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        self.log.lock().map().present(range)
    }

    /// What is missing is the same in `generation`, should home ever have it.
    ///
    /// # Errors
    /// As write(2).
    pub fn goes_on_from(&self, generation: Generation) -> Result<()> {
        self.log.lock().add(Record::Base(generation))
    }

    /// Reads what is present; of what is missing the buffer holds nothing that counts. Fewer bytes only at the end.
    ///
    /// # Errors
    /// As read(2).
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        read_full(&self.file, offset, buffer)
    }

    /// Writes `data` at `offset`; answers how much of it there was room for.
    ///
    /// # Errors
    /// As write(2), if nothing was written that will be remembered.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<usize> {
        let mut log = self.log.lock();
        log.settle()?;
        let mut written = 0;
        while written < data.len() {
            match self.file.write_at(&data[written..], offset + written as u64) {
                Ok(0) => break,
                Ok(count) => written += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) if written > 0 => break,
                Err(error) => return Err(error.into()),
            }
        }
        log.add(Record::Present(offset, offset + written as u64))?;
        Ok(written)
    }

    /// Makes the file `size` bytes long; what is new is zeros.
    ///
    /// # Errors
    /// As ftruncate(2).
    pub fn set_len(&self, size: u64) -> Result<()> {
        let mut log = self.log.lock();
        log.settle()?;
        self.file.set_len(size)?;
        log.must(Record::Cut(size))
    }

    /// Allocates, punches or zeroes a range; `mode` as fallocate(2).
    ///
    /// # Errors
    /// As fallocate(2); [`Kind::Unsupported`] for what moves bytes.
    pub fn allocate(&self, mode: FallocateFlags, offset: u64, length: u64) -> Result<()> {
        if !ALLOCATIONS.contains(mode) {
            return Err(Error::new(Kind::Unsupported, "a partly staged file can't have its bytes moved"));
        }
        let mut log = self.log.lock();
        log.settle()?;
        fallocate(&self.file, mode, offset, length)?;
        if mode.intersects(FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE) {
            log.add(Record::Present(offset, offset.saturating_add(length)))?;
        }
        Ok(())
    }

    /// `SEEK_DATA` or `SEEK_HOLE`: all before the last byte that may be missing is data.
    ///
    /// # Errors
    /// ENXIO past the end.
    pub fn seek(&self, target: SeekFrom) -> Result<u64> {
        let (size, limit) = (self.file.metadata()?.len(), self.log.lock().map().limit());
        Ok(match target {
            SeekFrom::Data(at) if at < limit.min(size) => at,
            SeekFrom::Hole(at) if at < limit.min(size) && limit >= size => size,
            SeekFrom::Hole(at) if at < limit => seek(&self.file, SeekFrom::Hole(limit))?,
            target => seek(&self.file, target)?,
        })
    }

    /// Makes durable what was written by now, and the map that says so.
    ///
    /// # Errors
    /// As fsync(2).
    pub fn sync(&self) -> Result<()> {
        let spoken = {
            let mut log = self.log.lock();
            log.settle()?;
            log.spoken()
        };
        self.file.sync_all()?;
        self.log.lock().vouch(spoken)
    }

    /// Copies what the file has of its own to the empty `to`; answers the map of that. Nobody writes meanwhile.
    pub(super) fn copy_to(&self, to: &File) -> Result<Map> {
        let log = self.log.lock();
        copy_file(&self.file, to)?;
        Ok(log.map().clone())
    }
}
