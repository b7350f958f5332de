//! Copies the bytes of one local file to another: shared blocks where the file system can, else
//! inside the kernel, else through here. Holes stay holes.

use crate::error::Result;
use rustix::fs::{SeekFrom, copy_file_range, ftruncate, ioctl_ficlone, seek};
use rustix::io::Errno;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

const BUFFER: usize = 1 << 20;

/// Makes the empty file `to` share the blocks of `from`; false where the file system can't.
pub(super) fn clone_file(from: &File, to: &File) -> bool {
    ioctl_ficlone(to, from).is_ok()
}

/// Makes the empty file `to` hold what `from` holds.
///
/// # Errors
/// As the file systems say; `to` holds part of it then.
pub(super) fn copy_file(from: &File, to: &File) -> Result<()> {
    // Any refusal of a clone (other file system, no support, …) only means: copy.
    if clone_file(from, to) {
        return Ok(());
    }
    let size = from.metadata()?.len();
    ftruncate(to, size)?;
    let mut at = 0;
    while let Some(data) = next_data(from, at, size)? {
        at = data.end;
        copy_range(from, to, data)?;
    }
    Ok(())
}

/// The first run of data from `at` on.
fn next_data(from: &File, at: u64, size: u64) -> Result<Option<Range<u64>>> {
    if at >= size {
        return Ok(None);
    }
    let start = match seek(from, SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        // No holes known here: all of it is data.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some(at..size)),
        Err(errno) => return Err(errno.into()),
    };
    let end = seek(from, SeekFrom::Hole(start))?;
    Ok((start < size).then(|| start..end.min(size)))
}

fn copy_range(from: &File, to: &File, mut range: Range<u64>) -> Result<()> {
    while !range.is_empty() {
        let (mut read_at, mut write_at) = (range.start, range.start);
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(1 << 30);
        match copy_file_range(from, Some(&mut read_at), to, Some(&mut write_at), len) {
            // Some file systems answer 0 instead of refusing.
            Ok(0) => return copy_through(from, to, range),
            Ok(copied) => range.start += copied as u64,
            Err(Errno::INTR) => {}
            // Other file systems, old kernels, …: what is really wrong shows again on the plain way.
            Err(_) => return copy_through(from, to, range),
        }
    }
    Ok(())
}

fn copy_through(from: &File, to: &File, mut range: Range<u64>) -> Result<()> {
    let mut buffer = vec![0; BUFFER];
    while !range.is_empty() {
        let len = usize::try_from(range.end - range.start).unwrap_or(BUFFER).min(BUFFER);
        let read = from.read_at(&mut buffer[..len], range.start)?;
        if read == 0 {
            // The file was cut meanwhile; its size says what is left.
            break;
        }
        to.write_all_at(&buffer[..read], range.start)?;
        range.start += read as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn pair() -> (File, File) {
        (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap())
    }

    fn content(file: &File) -> Vec<u8> {
        let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn holes_stay_holes_and_the_end_is_kept() {
        let (from, to) = pair();
        from.write_all_at(b"start", 0).unwrap();
        from.write_all_at(b"X", 8 << 20).unwrap();
        from.set_len((16 << 20) + 3).unwrap();
        copy_file(&from, &to).unwrap();
        assert!(content(&from) == content(&to));
        assert!(to.metadata().unwrap().blocks() <= from.metadata().unwrap().blocks() + 16);
    }

    #[test]
    fn every_way_gives_the_same_bytes() {
        let bytes: Vec<u8> = (0..3 * BUFFER as u64 + 17).map(|at| (at / 3) as u8).collect();
        for copy in [copy_range, copy_through] {
            let (from, to) = pair();
            from.write_all_at(&bytes, 0).unwrap();
            copy(&from, &to, 5..bytes.len() as u64).unwrap();
            assert!(content(&to)[5..] == bytes[5..]);
        }
    }

    #[test]
    fn an_empty_file_and_a_lone_hole_copy() {
        for size in [0, 5 << 20] {
            let (from, to) = pair();
            from.set_len(size).unwrap();
            copy_file(&from, &to).unwrap();
            assert_eq!(to.metadata().unwrap().len(), size);
        }
    }
}
