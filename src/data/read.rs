//! Reads of local files that go on where the system stopped.

use crate::error::Result;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Reads at `offset` until `buffer` is full; fewer bytes only at the end of the file.
///
/// # Errors
/// As read(2).
pub fn read_full(file: &File, offset: u64, buffer: &mut [u8]) -> Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
}
