//! Names, directories and attributes.

use super::{errno, names, read, write};
use rustix::fs::{AtFlags, CWD, Gid, RenameFlags, Timespec, Timestamps, Uid, XattrFlags};
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

pub(super) fn rename_replaces_and_keeps_the_inode(dir: &Path) {
    let (old, new) = (write(&dir.join("old"), "new bytes"), write(&dir.join("new"), "old bytes"));
    let ino = fs::metadata(&old).expect("stat").ino();
    fs::rename(&old, &new).expect("rename");
    assert_eq!((read(&new), fs::metadata(&new).expect("stat").ino()), (b"new bytes".to_vec(), ino));
    assert_eq!(names(dir), ["new"]);
    fs::create_dir(dir.join("d")).expect("mkdir");
    assert_eq!(errno(fs::rename(&new, dir.join("d"))), libc::EISDIR);
    assert_eq!(errno(fs::rename(dir.join("d"), &new)), libc::ENOTDIR);
    write(&dir.join("d/x"), "x");
    fs::create_dir(dir.join("e")).expect("mkdir");
    assert_eq!(errno(fs::rename(dir.join("e"), dir.join("d"))), libc::ENOTEMPTY);
    fs::rename(dir.join("d"), dir.join("e")).expect("rename over an empty directory");
    assert_eq!(read(&dir.join("e/x")), b"x");
    assert_eq!(errno(fs::rename(dir.join("e"), dir.join("e/f"))), libc::EINVAL);
}

pub(super) fn rename_can_refuse_to_replace_and_can_exchange(dir: &Path) {
    let (a, b) = (write(&dir.join("a"), "A"), write(&dir.join("b"), "B"));
    let refused = rustix::fs::renameat_with(CWD, &a, CWD, &b, RenameFlags::NOREPLACE);
    assert_eq!(refused, Err(rustix::io::Errno::EXIST));
    rustix::fs::renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).expect("an exchange");
    assert_eq!((read(&a), read(&b)), (b"B".to_vec(), b"A".to_vec()));
    fs::create_dir(dir.join("d")).expect("mkdir");
    write(&dir.join("d/in"), "in");
    rustix::fs::renameat_with(CWD, dir.join("d"), CWD, &a, RenameFlags::EXCHANGE)
        .expect("an exchange of kinds");
    assert_eq!((read(&dir.join("a/in")), read(&dir.join("d"))), (b"in".to_vec(), b"B".to_vec()));
    rustix::fs::renameat_with(CWD, dir.join("d"), CWD, dir.join("c"), RenameFlags::NOREPLACE)
        .expect("a free name");
    assert_eq!(names(dir), ["a", "b", "c"]);
}

pub(super) fn hard_links_are_one_file(dir: &Path) {
    let (one, two) = (write(&dir.join("one"), "1"), dir.join("two"));
    fs::hard_link(&one, &two).expect("link");
    let (first, second) = (fs::metadata(&one).expect("stat"), fs::metadata(&two).expect("stat"));
    assert_eq!((first.ino(), first.nlink()), (second.ino(), 2));
    write(&two, "changed by the other name");
    assert_eq!(read(&one), b"changed by the other name");
    fs::rename(&one, &two).expect("a rename between names of one file does nothing");
    assert_eq!(names(dir), ["one", "two"]);
    fs::remove_file(&one).expect("unlink");
    assert_eq!((fs::metadata(&two).expect("stat").nlink(), read(&two).len()), (1, 25));
    assert_eq!(errno(fs::hard_link(&two, &two)), libc::EEXIST);
}

pub(super) fn symlinks_come_back_as_they_were(dir: &Path) {
    fs::create_dir(dir.join("d")).expect("mkdir");
    write(&dir.join("d/f"), "through");
    let long = "x/".repeat(500);
    for (name, target) in [
        ("relative", "d/f"),
        ("absolute", "/etc/hostname"),
        ("dangling", "nowhere"),
        ("dir", "d"),
        ("long", &long),
    ] {
        symlink(target, dir.join(name)).expect("symlink");
        assert_eq!(fs::read_link(dir.join(name)).expect("readlink"), Path::new(target));
        let stat = fs::symlink_metadata(dir.join(name)).expect("lstat");
        assert!(stat.is_symlink() && stat.len() == target.len() as u64, "{name}: {stat:?}");
    }
    assert_eq!(read(&dir.join("relative")), b"through");
    assert_eq!(names(&dir.join("dir")), ["f"]);
    assert_eq!(errno(File::open(dir.join("dangling"))), libc::ENOENT);
    symlink("loop", dir.join("loop")).expect("symlink");
    assert_eq!(errno(File::open(dir.join("loop"))), libc::ELOOP);
    assert_eq!(names(dir).len(), 7);
}

pub(super) fn directories_refuse_what_they_must(dir: &Path) {
    fs::create_dir(dir.join("d")).expect("mkdir");
    write(&dir.join("d/f"), "f");
    assert_eq!(errno(fs::create_dir(dir.join("d"))), libc::EEXIST);
    assert_eq!(errno(fs::create_dir(dir.join("none/e"))), libc::ENOENT);
    assert_eq!(errno(fs::create_dir(dir.join("d/f/e"))), libc::ENOTDIR);
    assert_eq!(errno(fs::remove_dir(dir.join("d"))), libc::ENOTEMPTY);
    assert_eq!(errno(fs::remove_dir(dir.join("d/f"))), libc::ENOTDIR);
    assert_eq!(errno(fs::remove_file(dir.join("d"))), libc::EISDIR);
    assert_eq!(errno(fs::read(dir.join("none"))), libc::ENOENT);
    assert_eq!(errno(fs::write(dir.join("d"), "")), libc::EISDIR);
    let exclusive = File::options().write(true).create_new(true).open(dir.join("d/f"));
    assert_eq!(errno(exclusive), libc::EEXIST);
    fs::remove_dir_all(dir.join("d")).expect("rm -r");
    assert_eq!(names(dir), Vec::<String>::new());
}

pub(super) fn a_big_directory_lists_each_name_once(dir: &Path) {
    let expected: BTreeSet<String> = (0..400).map(|i| format!("entry-with-a-longer-name-{i:05}")).collect();
    for (i, name) in expected.iter().enumerate() {
        if i % 3 == 0 {
            fs::create_dir(dir.join(name)).expect("mkdir")
        } else {
            drop(write(&dir.join(name), ""))
        }
    }
    let mut seen = BTreeSet::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let entry = entry.expect("an entry");
        let stat = entry.metadata().expect("lstat");
        assert_eq!(entry.file_type().expect("a type").is_dir(), stat.is_dir());
        assert!(
            seen.insert(entry.file_name().to_string_lossy().into_owned()),
            "{:?} twice",
            entry.file_name()
        );
    }
    assert_eq!(seen, expected);
}

pub(super) fn c232_a_rewound_directory_is_whole_and_new(dir: &Path) {
    for i in 0..300 {
        write(&dir.join(format!("f{i}")), "");
    }
    let mut stream = rustix::fs::Dir::read_from(File::open(dir).expect("a directory")).expect("a stream");
    let listed = |stream: &mut rustix::fs::Dir, limit: usize| -> Vec<Vec<u8>> {
        let entries = std::iter::from_fn(|| stream.read())
            .map(|entry| entry.expect("an entry").file_name().to_bytes().to_vec());
        entries.filter(|name| !name.starts_with(b".")).take(limit).collect()
    };
    assert_eq!(listed(&mut stream, 10).len(), 10);
    write(&dir.join("new"), "");
    for _ in 0..2 {
        stream.rewind();
        let all = listed(&mut stream, usize::MAX);
        assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (301, 301));
        assert!(all.contains(&b"new".to_vec()));
    }
    // As other languages do it: one page, back to 0 by lseek, all pages.
    let open = File::open(dir).expect("a directory");
    let mut buffer = vec![std::mem::MaybeUninit::uninit(); 4096];
    assert!(rustix::fs::RawDir::new(&open, &mut buffer).next().is_some_and(|entry| entry.is_ok()));
    write(&dir.join("newer"), "");
    rustix::fs::seek(&open, rustix::fs::SeekFrom::Start(0)).expect("lseek");
    let mut pages = rustix::fs::RawDir::new(&open, &mut buffer);
    let mut all = BTreeSet::new();
    while let Some(entry) = pages.next() {
        let name = entry.expect("an entry").file_name().to_bytes().to_vec();
        assert!(all.insert(name.clone()), "{} twice", String::from_utf8_lossy(&name));
    }
    assert!(all.len() == 304 && all.contains(b"newer".as_slice()), "{} names", all.len());
}

pub(super) fn odd_names_are_names(dir: &Path) {
    let mut expected = BTreeSet::new();
    for odd in [
        "#", "%", "%41", "?", "&", "+", " ", "'", "(", ")", "[", "]", "{", "}", ";", "=", ",", "~", "é",
        "漢", "🦀", ":", "*", "\"", "|",
    ] {
        let (from, to) = (dir.join(format!("foo{odd}bar.txt")), dir.join(format!("moved{odd}.txt")));
        write(&from, odd);
        fs::rename(&from, &to).expect("rename");
        assert_eq!((errno(fs::metadata(&from)), read(&to)), (libc::ENOENT, odd.as_bytes().to_vec()));
        expected.insert(format!("moved{odd}.txt"));
    }
    let longest = "n".repeat(255);
    write(&dir.join(&longest), "");
    expected.insert(longest.clone());
    assert_eq!(names(dir).into_iter().collect::<BTreeSet<_>>(), expected);
    assert_eq!(errno(File::create(dir.join(longest + "n"))), libc::ENAMETOOLONG);
    let not_utf8 = std::ffi::OsStr::from_bytes(b"bytes\xff\xfe");
    match File::create(dir.join(not_utf8)) {
        Ok(_) => assert!(dir.join(not_utf8).exists()),
        // A home that can't hold such a name has to say so.
        Err(error) => assert!(
            [libc::EILSEQ, libc::EINVAL, libc::EIO].contains(&error.raw_os_error().expect("an errno")),
            "{error}"
        ),
    }
}

pub(super) fn fifos_and_sockets_are_made(dir: &Path) {
    let fifo = dir.join("fifo");
    rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("mkfifo");
    assert!(fs::symlink_metadata(&fifo).expect("lstat").file_type().is_fifo());
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || read(&fifo)
    });
    write(&fifo, "through the pipe");
    assert_eq!(reader.join().expect("a reader"), b"through the pipe");
    rustix::fs::mknodat(CWD, dir.join("socket"), rustix::fs::FileType::Socket, 0o600.into(), 0)
        .expect("mknod");
    assert!(fs::symlink_metadata(dir.join("socket")).expect("lstat").file_type().is_socket());
    fs::rename(&fifo, dir.join("renamed")).expect("rename");
    assert_eq!(names(dir), ["renamed", "socket"]);
}

pub(super) fn times_keep_their_nanoseconds(dir: &Path) {
    let file = write(&dir.join("f"), "f");
    let times = Timestamps {
        last_access: Timespec { tv_sec: 1_580_608_922, tv_nsec: 987_654_321 },
        last_modification: Timespec { tv_sec: 1_580_608_922, tv_nsec: 123_456_789 },
    };
    rustix::fs::utimensat(CWD, &file, &times, AtFlags::empty()).expect("utimensat");
    let stat = fs::metadata(&file).expect("stat");
    assert_eq!((stat.mtime(), stat.mtime_nsec()), (1_580_608_922, 123_456_789));
    assert_eq!((stat.atime(), stat.atime_nsec()), (1_580_608_922, 987_654_321));
    let before = stat.ctime_nsec() + stat.ctime() * 1_000_000_000;
    fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("chmod");
    let stat = fs::metadata(&file).expect("stat");
    assert!(stat.ctime_nsec() + stat.ctime() * 1_000_000_000 >= before);
    assert_eq!((stat.mtime(), stat.mtime_nsec()), (1_580_608_922, 123_456_789));
    // A write moves mtime; a copy with -p sets it before close, and close must not move it again.
    let open = File::options().write(true).open(&file).expect("open");
    io::Write::write_all(&mut &open, b"g").expect("write");
    rustix::fs::futimens(&open, &times).expect("futimens");
    drop(open);
    assert_eq!(fs::metadata(&file).expect("stat").mtime_nsec(), 123_456_789);
    write(&file, "h");
    assert!(fs::metadata(&file).expect("stat").mtime() > 1_580_608_922);
}

pub(super) fn modes_and_owners_change(dir: &Path) {
    let file = write(&dir.join("f"), "f");
    for mode in [0o000, 0o644, 0o755, 0o4755, 0o2755, 0o1777] {
        fs::set_permissions(&file, Permissions::from_mode(mode)).expect("chmod");
        assert_eq!(fs::metadata(&file).expect("stat").mode() & 0o7777, mode);
    }
    rustix::fs::chown(&file, Some(Uid::from_raw(12345)), Some(Gid::from_raw(54321))).expect("chown as root");
    let stat = fs::metadata(&file).expect("stat");
    assert_eq!((stat.uid(), stat.gid()), (12345, 54321));
    fs::create_dir(dir.join("d")).expect("mkdir");
    fs::set_permissions(dir.join("d"), Permissions::from_mode(0o2750)).expect("chmod");
    assert_eq!(fs::metadata(dir.join("d")).expect("stat").mode() & 0o7777, 0o2750);
}

pub(super) fn extended_attributes_are_set_listed_and_removed(dir: &Path) {
    let file = write(&dir.join("f"), "f");
    rustix::fs::setxattr(&file, "user.one", b"1", XattrFlags::CREATE).expect("setxattr");
    let value = super::bytes::pattern(1024);
    rustix::fs::setxattr(&file, "user.two", &value, XattrFlags::empty()).expect("setxattr");
    assert_eq!(
        rustix::fs::setxattr(&file, "user.one", b"2", XattrFlags::CREATE),
        Err(rustix::io::Errno::EXIST)
    );
    assert_eq!(
        rustix::fs::setxattr(&file, "user.none", b"2", XattrFlags::REPLACE),
        Err(rustix::io::Errno::NODATA)
    );
    let mut buffer = vec![0; 4096];
    let length = rustix::fs::getxattr(&file, "user.two", &mut buffer[..]).expect("getxattr");
    assert_eq!(buffer[..length], value);
    assert_eq!(rustix::fs::getxattr(&file, "user.two", &mut buffer[..10]), Err(rustix::io::Errno::RANGE));
    let length = rustix::fs::listxattr(&file, &mut buffer[..]).expect("listxattr");
    let listed: BTreeSet<&[u8]> =
        buffer[..length].split(|byte| *byte == 0).filter(|name| name.starts_with(b"user.")).collect();
    assert_eq!(listed, BTreeSet::from([b"user.one".as_slice(), b"user.two"]));
    rustix::fs::removexattr(&file, "user.one").expect("removexattr");
    assert_eq!(rustix::fs::getxattr(&file, "user.one", &mut buffer[..]), Err(rustix::io::Errno::NODATA));
    fs::rename(&file, dir.join("g")).expect("rename");
    assert_eq!(rustix::fs::getxattr(dir.join("g"), "user.two", &mut buffer[..]), Ok(1024));
}

pub(super) fn c231_inode_numbers_stay(dir: &Path) {
    let file = write(&dir.join("f"), "f");
    let ino = fs::metadata(&file).expect("stat").ino();
    let open = File::open(&file).expect("open");
    write(&file, "rewritten");
    fs::create_dir(dir.join("d")).expect("mkdir");
    fs::rename(&file, dir.join("d/g")).expect("rename");
    assert_eq!(fs::metadata(dir.join("d/g")).expect("stat").ino(), ino);
    assert_eq!(open.metadata().expect("fstat").ino(), ino);
    let listed = fs::read_dir(dir.join("d")).expect("a directory").next().expect("one").expect("an entry");
    assert_eq!(std::os::unix::fs::DirEntryExt::ino(&listed), ino);
}

pub(super) fn statfs_has_room(dir: &Path) {
    let room = rustix::fs::statvfs(dir).expect("statvfs");
    assert!(room.f_blocks > 0 && room.f_bavail > 0 && room.f_bsize > 0 && room.f_namemax >= 255);
}
