//! Bytes of files: reading, writing, mapping, locking.

use super::{names, read, write};
use crate::support::Map;
use rustix::fs::{FallocateFlags, FlockOperation, SeekFrom as Seek};
use std::fs::{self, File};
use std::io::{Read, Seek as _, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

pub(super) fn pattern(len: usize) -> Vec<u8> {
    crate::support::noise(len as u64, len)
}

fn read_write(path: &Path) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(path).expect("open")
}

pub(super) fn what_is_written_is_read(dir: &Path) {
    for size in [0, 1, 4095, 4096, 4097, 131_072, 1_048_577, 9_000_001] {
        let bytes = pattern(size);
        let file = write(&dir.join(format!("f{size}")), &bytes);
        assert_eq!(fs::metadata(&file).expect("stat").len(), size as u64);
        assert!(read(&file) == bytes, "{size} bytes came back different");
        let open = read_write(&file);
        open.write_all_at(b"patch", size as u64 / 2).expect("pwrite");
        open.sync_all().expect("fsync");
        let mut back = [0; 5];
        open.read_exact_at(&mut back, size as u64 / 2).expect("pread");
        assert_eq!(&back, b"patch");
        assert_eq!(open.read_at(&mut back, size as u64 + 100).expect("pread after the end"), 0);
    }
}

pub(super) fn truncation_cuts_and_grows_with_zeros(dir: &Path) {
    let bytes = pattern(300_000);
    let file = write(&dir.join("f"), &bytes);
    let open = read_write(&file);
    open.set_len(100_001).expect("cut");
    open.set_len(200_000).expect("grow");
    let now = read(&file);
    assert!(
        now.len() == 200_000
            && now[..100_001] == bytes[..100_001]
            && now[100_001..].iter().all(|byte| *byte == 0)
    );
    rustix::fs::ftruncate(&open, 10).expect("cut");
    drop(File::options().write(true).truncate(true).open(&file).expect("O_TRUNC"));
    assert_eq!(open.metadata().expect("fstat").len(), 0);
}

/// Runs a shell script with `path` as `$0`, which must succeed.
fn shell(script: &str, path: &Path) -> std::process::Child {
    Command::new("sh").args(["-ec", script]).arg(path).spawn().expect("sh")
}

pub(super) fn c160_appends_are_whole(dir: &Path) {
    let two = dir.join("two");
    assert!(shell("echo a >>$0; echo b >>$0", &two).wait().expect("sh").success());
    assert_eq!(read(&two), b"a\nb\n");

    let file = write(&dir.join("log"), "");
    let writers = (0..4).map(|writer| {
        let line = format!("printf '%099d\\n' $(({writer} * 1000 + i)) >>$0");
        shell(&format!("i=0; while [ $i -lt 500 ]; do {line}; i=$((i + 1)); done"), &file)
    });
    for mut writer in writers.collect::<Vec<_>>() {
        assert!(writer.wait().expect("a writer's end").success());
    }
    let text = String::from_utf8(read(&file)).expect("digits");
    assert!(text.lines().all(|line| line.len() == 99), "a line that is not whole");
    let mut lines: Vec<u32> = text.lines().map(|line| line.parse().expect("a number")).collect();
    lines.sort_unstable();
    assert_eq!(lines, (0..4).flat_map(|writer| (0..500).map(move |i| writer * 1000 + i)).collect::<Vec<_>>());

    // A little at a time, each piece by one of two descriptors.
    let slow = dir.join("slow");
    let append = || File::options().append(true).create(true).open(&slow).expect("O_APPEND");
    let mut writers = [append(), append()];
    for i in 0..1000 {
        writers[i % 2].write_all(format!("{i:09} ").as_bytes()).expect("a piece");
    }
    assert!(read(&slow) == (0..1000).map(|i| format!("{i:09} ")).collect::<String>().into_bytes());
}

/// A buffer that direct I/O accepts.
#[repr(align(4096))]
struct Aligned([u8; 65536]);

pub(super) fn c175_direct_io_reads_what_it_wrote(dir: &Path) {
    let path = dir.join("f");
    let open = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(libc::O_DIRECT)
        .open(&path);
    let open = open.expect("O_DIRECT");
    let mut buffer = Box::new(Aligned([0; 65536]));
    buffer.0.copy_from_slice(&pattern(65536));
    for at in [65536, 0, 131_072] {
        open.write_all_at(&buffer.0, at).expect("a direct write");
    }
    let mut back = Box::new(Aligned([0; 65536]));
    open.read_exact_at(&mut back.0, 131_072).expect("a direct read");
    assert!(back.0 == buffer.0);
    drop(open);
    assert!(read(&path) == pattern(65536).repeat(3));
    a_direct_tail_is_right_or_refused(&path);
    for (name, flag, len) in [
        ("whole", "oflag=direct", 303_104),
        ("tail", "oflag=direct", 300_001),
        ("read", "iflag=direct", 300_001),
    ] {
        let bytes = pattern(len);
        let (from, to) = (write(&dir.join(format!("{name}.source")), &bytes), dir.join(name));
        let files = [format!("if={}", from.display()), format!("of={}", to.display())];
        let dd = Command::new("dd").args(files).args(["bs=4k", "status=none", flag]).output().expect("dd");
        // It leaves direct I/O for the last piece, which the kernel does not tell the file that it passes through.
        let refused = String::from_utf8_lossy(&dd.stderr).contains("Invalid argument");
        let expected = if name == "tail" && refused { &bytes[..len / 4096 * 4096] } else { &bytes };
        assert!(dd.status.success() || expected.len() < len, "dd {flag} of {len}: {dd:?}");
        assert!(read(&to) == expected, "dd {flag} of {len}: other bytes");
    }
}

/// A length that is no multiple of a sector.
fn a_direct_tail_is_right_or_refused(path: &Path) {
    let before = read(path);
    let open = File::options().write(true).custom_flags(libc::O_DIRECT).open(path).expect("O_DIRECT");
    let mut buffer = Box::new(Aligned([0; 65536]));
    buffer.0.fill(b'T');
    let written = match open.write_at(&buffer.0[..5001], before.len() as u64) {
        Ok(written) => written,
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{error}");
            0
        }
    };
    drop(open);
    assert!(read(path) == [&before[..], &buffer.0[..written]].concat(), "{written} bytes of a tail");
}

pub(super) fn open_unlinked_files_live_on(dir: &Path) {
    let path = write(&dir.join("f"), "before");
    let mut open = read_write(&path);
    fs::remove_file(&path).expect("unlink");
    assert_eq!(names(dir), Vec::<String>::new());
    open.write_all_at(b" and after", 6).expect("a write");
    write(&path, "another file of the name");
    let mut text = String::new();
    open.read_to_string(&mut text).expect("a read");
    assert_eq!((text.as_str(), open.metadata().expect("fstat").len()), ("before and after", 16));
    assert_eq!(std::os::unix::fs::MetadataExt::nlink(&open.metadata().expect("fstat")), 0);
    drop(open);
    assert_eq!(read(&path), b"another file of the name");
}

pub(super) fn a_mapping_writes_the_file(dir: &Path) {
    let path = dir.join("f");
    let open = read_write(&path);
    open.set_len(1 << 20).expect("grow");
    let mut map = Map::new(&open, 1 << 20, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    let bytes = pattern(1 << 20);
    map.bytes_mut().copy_from_slice(&bytes);
    map.sync();
    assert!(read(&path) == bytes);
    open.write_all_at(b"by write", 4096).expect("a write");
    assert_eq!(&map.bytes()[4096..4104], b"by write");
    drop(open);
    map.bytes_mut()[..8].copy_from_slice(b"late map");
    map.sync();
    drop(map);
    assert_eq!(&read(&path)[..8], b"late map");
}

pub(super) fn c150_private_and_shared_maps_read_the_file(dir: &Path) {
    let bytes = pattern(3 << 20);
    let path = write(&dir.join("f"), &bytes);
    let open = File::open(&path).expect("open");
    for flags in [libc::MAP_PRIVATE, libc::MAP_SHARED] {
        assert!(Map::new(&open, bytes.len(), libc::PROT_READ, flags).bytes() == bytes);
    }
    let mut private = Map::new(&open, bytes.len(), libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
    private.bytes_mut()[0] ^= 1;
    assert!(read(&path) == bytes);
    let program = dir.join("true");
    fs::copy("/bin/true", &program).expect("a copy of a program");
    assert!(Command::new(&program).status().expect("the copy runs").success());
}

pub(super) fn preallocation_and_holes(dir: &Path) {
    let path = dir.join("f");
    let open = read_write(&path);
    rustix::fs::fallocate(&open, FallocateFlags::empty(), 0, 1 << 20).expect("fallocate");
    assert_eq!(open.metadata().expect("fstat").len(), 1 << 20);
    rustix::fs::fallocate(&open, FallocateFlags::KEEP_SIZE, 1 << 20, 1 << 20)
        .expect("fallocate beyond the end");
    assert_eq!(open.metadata().expect("fstat").len(), 1 << 20);
    open.write_all_at(&pattern(1 << 20), 0).expect("a write");
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&open, punch, 256 << 10, 512 << 10).expect("a punched hole");
    let mut expected = pattern(1 << 20);
    expected[256 << 10..768 << 10].fill(0);
    assert!(read(&path) == expected);
}

pub(super) fn sparse_files_keep_their_size_and_bytes(dir: &Path) {
    let path = dir.join("sparse");
    let open = read_write(&path);
    open.set_len(8 << 20).expect("grow");
    open.write_all_at(b"X", 4 << 20).expect("a write");
    // A file system that knows no holes may call all of it data, but never data a hole.
    let data = rustix::fs::seek(&open, Seek::Data(0)).expect("SEEK_DATA");
    let hole = rustix::fs::seek(&open, Seek::Hole(4 << 20)).expect("SEEK_HOLE");
    assert!(data <= 4 << 20 && hole > 4 << 20 && hole <= 8 << 20, "data at {data}, hole at {hole}");
    assert_eq!(rustix::fs::seek(&open, Seek::Data(8 << 20)), Err(rustix::io::Errno::NXIO));
}

pub(super) fn c166_copies_keep_the_hole_at_the_end(dir: &Path) {
    let elsewhere = tempfile::tempdir().expect("a temporary directory");
    let source = File::create(elsewhere.path().join("s")).expect("a file");
    source.set_len(315_616).expect("grow");
    source.write_all_at(b"X", 4096).expect("a write");
    let mut expected = vec![0; 315_616];
    expected[4096] = b'X';
    let source = elsewhere.path().join("s");
    for how in ["auto", "always", "never"] {
        let (here, again) = (dir.join(how), dir.join(format!("{how}-again")));
        for (from, to) in [(&source, &here), (&here, &again)] {
            let status = Command::new("cp").arg(format!("--sparse={how}")).args([from, to]).status();
            assert!(status.expect("cp").success());
            assert!(read(to) == expected, "--sparse={how}");
        }
    }
    fs::create_dir(dir.join("tar")).expect("mkdir");
    for (directory, out) in [(elsewhere.path(), dir.join("tar")), (&dir.join("tar"), dir.to_owned())] {
        let archive = dir.join("s.tar");
        let tar = |verb: &str, at: &Path| {
            let mut command = Command::new("tar");
            command.arg(verb).arg(&archive).arg("-C").arg(at).arg("s");
            assert!(command.status().expect("tar").success());
        };
        tar("-cSf", directory);
        tar("-xSf", &out);
        assert!(read(&out.join("s")) == expected, "tar -S");
    }
}

pub(super) fn ranges_copy_between_files(dir: &Path) {
    let bytes = pattern(2 << 20);
    let from = File::open(write(&dir.join("from"), &bytes)).expect("open");
    let to = read_write(&dir.join("to"));
    let (mut at, mut into) = (1000, 5);
    let mut left = 1 << 20;
    while left > 0 {
        let copied = rustix::fs::copy_file_range(&from, Some(&mut at), &to, Some(&mut into), left)
            .expect("copy_file_range");
        assert!(copied > 0);
        left -= copied;
    }
    assert!(read(&dir.join("to"))[5..] == bytes[1000..1000 + (1 << 20)]);
}

pub(super) fn c024_a_rename_while_open_takes_later_writes_along(dir: &Path) {
    let (temporary, done) = (dir.join("f.tmp"), dir.join("f"));
    let mut open = read_write(&temporary);
    open.write_all(&[b'A'; 1 << 20]).expect("a write");
    fs::rename(&temporary, &done).expect("rename");
    open.write_all(&[b'B'; 1 << 20]).expect("a write");
    open.sync_all().expect("fsync");
    drop(open);
    let bytes = read(&done);
    assert!(
        bytes.len() == 2 << 20
            && bytes[..1 << 20].iter().all(|b| *b == b'A')
            && bytes[1 << 20..].iter().all(|b| *b == b'B')
    );
    assert_eq!(names(dir), ["f"]);
}

pub(super) fn a_reader_beside_a_writer_sees_the_writes(dir: &Path) {
    let path = write(&dir.join("f"), "");
    let mut reader = File::open(&path).expect("open");
    let mut writer = File::options().append(true).open(&path).expect("open");
    for i in 0..50_u8 {
        writer.write_all(&[i; 1000]).expect("a write");
        let mut seen = vec![0; 1000];
        reader.read_exact(&mut seen).expect("what was written before");
        assert_eq!(seen, [i; 1000]);
        assert_eq!(fs::metadata(&path).expect("stat").len(), (u64::from(i) + 1) * 1000);
    }
    reader.seek(SeekFrom::End(0)).expect("seek");
    assert_eq!(reader.stream_position().expect("a position"), 50_000);
}

pub(super) fn a_duplicate_may_close_first(dir: &Path) {
    let path = dir.join("f");
    let mut open = read_write(&path);
    open.write_all(b"first ").expect("a write");
    drop(open.try_clone().expect("dup"));
    let shell =
        Command::new("sh").args(["-c", "printf second"]).stdout(open.try_clone().expect("dup")).status();
    assert!(shell.expect("sh").success());
    open.write_all(b" third").expect("a write");
    drop(open);
    assert_eq!(String::from_utf8_lossy(&read(&path)), "first second third");
}

pub(super) fn c180_locks_exclude_each_other(dir: &Path) {
    let path = write(&dir.join("lock"), "");
    let (one, two) = (read_write(&path), read_write(&path));
    rustix::fs::flock(&one, FlockOperation::LockExclusive).expect("flock");
    assert_eq!(rustix::fs::flock(&two, FlockOperation::NonBlockingLockShared), Err(rustix::io::Errno::AGAIN));
    rustix::fs::flock(&one, FlockOperation::Unlock).expect("unlock");
    rustix::fs::flock(&two, FlockOperation::NonBlockingLockShared).expect("flock");
    assert_eq!(set_record_lock(&one), 0);
    assert_eq!(set_record_lock(&two), libc::EAGAIN);
    drop(one);
    assert_eq!(set_record_lock(&two), 0);
}

/// Asks for an exclusive fcntl lock that belongs to the open file, and answers the errno.
fn set_record_lock(file: &File) -> i32 {
    let lock = libc::flock {
        l_type: libc::F_WRLCK as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: 10,
        l_len: 10,
        l_pid: 0,
    };
    // SAFETY: fcntl reads the struct for the length of the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } {
        0 => 0,
        _ => std::io::Error::last_os_error().raw_os_error().expect("an errno"),
    }
}

/// What a file lock of a program is: a lock file, and flock(2) on it.
pub(super) fn c180_programs_take_turns(dir: &Path) {
    let (lock, counter) = (write(&dir.join("lock"), ""), write(&dir.join("counter"), "0\n"));
    let begun = Instant::now();
    for _ in 0..100 {
        let open = read_write(&lock);
        rustix::fs::flock(&open, FlockOperation::LockExclusive).expect("flock");
        rustix::fs::flock(&open, FlockOperation::Unlock).expect("unlock");
    }
    let took = begun.elapsed();
    // A second where nothing else runs; a lock that hangs takes for ever.
    assert!(took < Duration::from_secs(30), "100 acquisitions took {took:?}");

    let count = r#"cd "${0%/*}"; i=0
        while [ $i -lt 100 ]; do
            { flock 9; read n <counter; echo $((n + 1)) >counter; } 9<>lock; i=$((i + 1))
        done"#;
    for mut process in (0..8).map(|_| shell(count, &lock)).collect::<Vec<_>>() {
        assert!(process.wait().expect("a counter's end").success());
    }
    assert_eq!(read(&counter), b"800\n");

    let held = read_write(&lock);
    rustix::fs::flock(&held, FlockOperation::LockExclusive).expect("flock");
    let begun = Instant::now();
    let late = Command::new("flock").args(["-w", "2"]).arg(&lock).arg("true").status().expect("flock");
    assert_eq!(late.code(), Some(1), "a lock that is held");
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(1900) && took < Duration::from_secs(20), "gave up after {took:?}");
}
