//! What programs may expect of any file system. Every case also runs on a plain directory, which proves the case itself; on
//! mounts all it left is looked at again after an unmount.

mod bytes;
mod names;

use crate::support::blob_server::BlobServer;
use crate::support::site::files_below;
use crate::support::{Mode, Mount, Over, Tiers, wait};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Runs `case` in a fresh directory of a mount, lets the mount drain and end, and looks at all again: at home and here.
fn on_mount(mode: Mode, below: &str, case: impl Fn(&Path)) {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let mut mount = Mount::of(&tiers).mode(mode).default_revalidate().start();
    let directory = mount.path(below).join("case");
    fs::create_dir_all(&directory).expect("a directory");
    case(&directory);
    if let Some(home) = native_home(&tiers, below) {
        // What a mapping changed after the last look shows when its close has arrived.
        let time =
            |path: PathBuf| fs::symlink_metadata(path).map(|stat| (stat.mtime(), stat.mtime_nsec())).ok();
        wait::until("the times to be those at home", || {
            let names = files_below(&home);
            names.iter().all(|name| time(home.join(name)) == time(directory.join(name)))
        });
    }
    let left = tree(&directory);
    let status = mount.unmount();
    assert!(status.success(), "unmount: {status}\n{}", mount.log());
    for (path, seen) in left.iter().filter(|(_, seen)| seen.is_file()) {
        // Names that Blob can't hold have their own tests.
        let Some(name) = path.to_str() else { continue };
        let at_home = match below {
            "blob" => tiers.blob(&format!("blob/case/{name}")),
            _ => native_home(&tiers, below).and_then(|home| fs::read(home.join(name)).ok()),
        };
        assert!(at_home.as_ref() == Some(&seen.content), "{name}: other bytes at home");
    }
    mount.remount();
    let again = tree(&directory);
    let names = |tree: &std::collections::BTreeMap<PathBuf, Seen>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&again), names(&left), "{:?} on Blob\n{}", tiers.blob_names(), mount.log());
    for (path, seen) in left {
        assert!(again[&path] == seen, "{}: {:?} after a remount, not {seen:?}", path.display(), again[&path]);
    }
}

/// Where the files of a case are on the tier that is their home, if that is a directory.
fn native_home(tiers: &Tiers, below: &str) -> Option<PathBuf> {
    match below {
        "blob" => None,
        "share" => Some(tiers.share.join("share/case")),
        _ => Some(tiers.scratch.join("case")),
    }
}

/// What a look at something tells.
#[derive(PartialEq, Eq)]
struct Seen {
    mode: u32,
    ino: u64,
    links: u64,
    owner: (u32, u32),
    modified: (i64, i64),
    size: u64,
    /// Of a regular file or a symlink.
    content: Vec<u8>,
}

impl Seen {
    fn of(path: &Path) -> Self {
        let stat = fs::symlink_metadata(path).expect("lstat");
        let content = if stat.is_file() {
            read(path)
        } else if stat.is_symlink() {
            fs::read_link(path).expect("readlink").into_os_string().into_encoded_bytes()
        } else {
            Vec::new()
        };
        Self {
            mode: stat.mode(),
            ino: stat.ino(),
            links: stat.nlink(),
            owner: (stat.uid(), stat.gid()),
            modified: (stat.mtime(), stat.mtime_nsec()),
            size: if stat.is_dir() { 0 } else { stat.size() },
            content,
        }
    }

    fn is_file(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFREG
    }
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { mode, ino, links, owner, modified, size, content } = self;
        let hash = crate::support::sha256(content);
        write!(f, "{mode:o} inode {ino} links {links} {owner:?} {modified:?} {size} bytes {hash}")
    }
}

/// All below a directory.
fn tree(directory: &Path) -> BTreeMap<PathBuf, Seen> {
    let mut found = BTreeMap::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(at) = directories.pop() {
        for entry in fs::read_dir(&at).expect("a directory") {
            let path = entry.expect("an entry").path();
            let relative = path.strip_prefix(directory).expect("below it").to_owned();
            found.insert(relative, Seen::of(&path));
            if path.symlink_metadata().is_ok_and(|stat| stat.is_dir()) {
                directories.push(path);
            }
        }
    }
    found
}

fn on_directory(case: impl Fn(&Path)) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    case(directory.path());
}

macro_rules! everywhere {
    ($($family:ident: $($case:ident)*;)*) => {
        mod native { $($(#[test] fn $case() { super::on_directory(super::$family::$case); })*)* }
        mod scratch_passthrough {
            $($(#[test] fn $case() { super::on_mount(super::Mode::Passthrough, "", super::$family::$case); })*)*
        }
        mod scratch_ordinary {
            $($(#[test] fn $case() { super::on_mount(super::Mode::Ordinary, "", super::$family::$case); })*)*
        }
        mod share_passthrough {
            $($(#[test] fn $case() { super::on_mount(super::Mode::Passthrough, "share", super::$family::$case); })*)*
        }
        mod share_ordinary {
            $($(#[test] fn $case() { super::on_mount(super::Mode::Ordinary, "share", super::$family::$case); })*)*
        }
        mod blob_passthrough {
            $($(#[test] fn $case() { super::on_mount(super::Mode::Passthrough, "blob", super::$family::$case); })*)*
        }
        mod blob_ordinary {
            $($(#[test] fn $case() { super::on_mount(super::Mode::Ordinary, "blob", super::$family::$case); })*)*
        }
    };
}

everywhere! {
    names:
        rename_replaces_and_keeps_the_inode
        rename_can_refuse_to_replace_and_can_exchange
        hard_links_are_one_file
        symlinks_come_back_as_they_were
        directories_refuse_what_they_must
        a_big_directory_lists_each_name_once
        c232_a_rewound_directory_is_whole_and_new
        odd_names_are_names
        fifos_and_sockets_are_made
        times_keep_their_nanoseconds
        modes_and_owners_change
        extended_attributes_are_set_listed_and_removed
        c231_inode_numbers_stay
        statfs_has_room;
    bytes:
        what_is_written_is_read
        truncation_cuts_and_grows_with_zeros
        c160_appends_are_whole
        c175_direct_io_reads_what_it_wrote
        open_unlinked_files_live_on
        a_mapping_writes_the_file
        c150_private_and_shared_maps_read_the_file
        preallocation_and_holes
        sparse_files_keep_their_size_and_bytes
        c166_copies_keep_the_hole_at_the_end
        ranges_copy_between_files
        c024_a_rename_while_open_takes_later_writes_along
        a_reader_beside_a_writer_sees_the_writes
        a_duplicate_may_close_first
        c180_locks_exclude_each_other
        c180_programs_take_turns;
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) -> PathBuf {
    fs::write(path, bytes).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
    path.to_owned()
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
}

/// The errno of what must fail.
fn errno<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    result.expect_err("an error").raw_os_error().expect("an errno")
}

/// The names in a directory, sorted.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A directory tier on what refuses direct I/O itself: the daemon does without.
#[test]
fn c175_direct_io_on_a_tier_without_it() {
    use std::os::unix::fs::OpenOptionsExt;
    let tiers = Tiers::with_directories();
    let _scratch = Over::ramfs(&tiers.scratch);
    let mut direct = fs::File::options();
    direct.write(true).create(true).truncate(true).custom_flags(libc::O_DIRECT);
    assert_eq!(errno(direct.open(tiers.scratch.join("native"))), libc::EINVAL, "else this proves nothing");
    let mount = Mount::of(&tiers).mode(Mode::Ordinary).start();
    for directory in ["d", "blob"] {
        fs::create_dir(mount.path(directory)).expect("mkdir");
        let bytes = vec![b'D'; 65536];
        let (from, to) = (write(&mount.path(directory).join("f"), &bytes), mount.path(directory).join("to"));
        let files = [format!("if={}", from.display()), format!("of={}", to.display())];
        let mut dd = std::process::Command::new("dd");
        let dd = dd.args(files).args(["bs=4k", "oflag=direct", "iflag=direct"]).output().expect("dd");
        assert!(dd.status.success(), "{dd:?}");
        assert!(read(&to) == bytes, "{directory}: other bytes");
    }
}
