//! What programs may expect of any file system. Every case also runs on a plain directory, which proves the case itself.

pub(super) mod bytes;
mod names;

use crate::support::{Mode, Mount, Tiers};
use std::fs;
use std::path::{Path, PathBuf};

/// Runs `case` in a fresh directory of a mount, and lets the mount drain and end.
fn on_mount(mode: Mode, below: &str, case: impl Fn(&Path)) {
    let tiers = Tiers::with_azurite();
    let mut mount = Mount::of(&tiers).mode(mode).start();
    let directory = mount.path(below).join("case");
    fs::create_dir_all(&directory).expect("a directory");
    case(&directory);
    let status = mount.unmount();
    assert!(status.success(), "unmount: {status}\n{}", mount.log());
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
        a_rewound_directory_is_whole_and_new
        odd_names_are_names
        fifos_and_sockets_are_made
        times_keep_their_nanoseconds
        modes_and_owners_change
        extended_attributes_are_set_listed_and_removed
        inode_numbers_stay
        statfs_has_room;
    bytes:
        what_is_written_is_read
        truncation_cuts_and_grows_with_zeros
        appends_of_four_processes_are_whole
        direct_io_reads_what_it_wrote
        open_unlinked_files_live_on
        a_mapping_writes_the_file
        private_and_shared_maps_read_the_file
        preallocation_and_holes
        sparse_files_keep_their_size_and_bytes
        ranges_copy_between_files
        a_rename_while_open_takes_later_writes_along
        a_reader_beside_a_writer_sees_the_writes
        a_duplicate_may_close_first
        locks_exclude_each_other;
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
