//! The work that subjects do: plain system calls on a path, nothing of tierfs.

use rustix::fs::Advice;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

const BLOCK: usize = 1 << 20;

/// Makes a file of `size` bytes with every page in memory.
pub fn make(path: &Path, size: u64) {
    let block = crate::support::noise(1, BLOCK);
    let file = File::create(path).expect("create");
    for at in (0..size).step_by(BLOCK) {
        file.write_all_at(&block, at).expect("a write");
    }
}

/// Forgets the pages that the file system at `path` itself caches, so that the next read asks for them.
pub fn drop_pages(path: &Path) {
    let file = File::open(path).expect("open");
    file.sync_all().expect("fsync");
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("fadvise");
}

/// Reads all of a file, 1 MiB at a time, with `threads` readers each on a part of its own.
pub fn read(path: &Path, threads: u64) {
    in_parts(path, threads, File::open(path).expect("open"), |file, at, buffer| {
        file.read_exact_at(buffer, at).expect("a read");
    });
}

/// Writes all of an existing file, 1 MiB at a time, with `threads` writers each on a part of its own; close included.
pub fn overwrite(path: &Path, threads: u64) {
    let file = File::options().write(true).open(path).expect("open");
    in_parts(path, threads, file, |file, at, buffer| file.write_all_at(buffer, at).expect("a write"));
}

fn in_parts(path: &Path, threads: u64, file: File, step: impl Fn(&File, u64, &mut [u8]) + Sync) {
    let blocks = fs::metadata(path).expect("stat").len() / BLOCK as u64;
    let each = blocks.div_ceil(threads);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (file, step) = (&file, &step);
            scope.spawn(move || {
                let mut buffer = vec![0x5A; BLOCK];
                for block in thread * each..((thread + 1) * each).min(blocks) {
                    step(file, block * BLOCK as u64, &mut buffer);
                }
            });
        }
    });
    drop(file);
}

/// Removes what [`create_files`] made.
pub fn remove_files(directory: &Path, count: usize) {
    for i in 0..count {
        fs::remove_file(directory.join(file_name(i))).expect("unlink");
    }
}

/// Creates and closes `count` empty files in a new directory.
pub fn create_files(directory: &Path, count: usize) {
    for i in 0..count {
        drop(File::create(directory.join(file_name(i))).expect("create"));
    }
}

/// Name of file number `i` of a directory.
pub fn file_name(i: usize) -> String {
    format!("f{i:06}")
}

/// Asks for the attributes of `count` files, `passes` times.
pub fn stat_files(directory: &Path, count: usize, passes: usize) {
    let paths: Vec<_> = (0..count).map(|i| directory.join(file_name(i))).collect();
    for _ in 0..passes {
        for path in &paths {
            fs::symlink_metadata(path).expect("stat");
        }
    }
}

/// `ls -l`; answers how many entries it shows.
pub fn list(directory: &Path) -> usize {
    let output = Command::new("ls").arg("-l").arg(directory).env("LC_ALL", "C").output().expect("ls");
    assert!(output.status.success(), "ls: {}", String::from_utf8_lossy(&output.stderr));
    // The first line is the total.
    output.stdout.iter().filter(|byte| **byte == b'\n').count() - 1
}
