//! Opening for writing, in each way there is, and what FLUSH and RELEASE make of it.

use super::*;
use std::fs;

fn write(bed: &Bed, path: &str, flags: i32, bytes: &[u8]) {
    let handle = bed.open(path, flags);
    bed.vfs.write(handle, 0, bytes).unwrap();
    bed.close(handle);
}

#[test]
fn a_native_file_is_written_in_place() {
    let bed = Bed::new();
    let ino = bed.put("f", "one");
    let before = bed.inode(ino);
    let native = fs::metadata(bed.native("scratch", "f")).unwrap();
    write(&bed, "f", libc::O_RDWR, b"twice");
    let after = fs::metadata(bed.native("scratch", "f")).unwrap();
    assert_eq!(
        std::os::unix::fs::MetadataExt::ino(&native),
        std::os::unix::fs::MetadataExt::ino(&after),
        "the same file"
    );
    assert!(bed.inode(ino).generation > before.generation);
    assert_eq!((bed.inode(ino).attr.size, bed.cat("f").as_str()), (5, "twice"));
    assert_eq!(bed.queued(), 0, "nothing to upload");
}

#[test]
fn the_state_follows_flush_and_release() {
    let bed = Bed::new();
    let (ino, handle) = bed.create("b/f");
    bed.vfs.write(handle, 0, b"one").unwrap();
    assert_eq!(bed.inode(ino).state, WriteState::Writing);
    bed.vfs.flush(&ME, handle).unwrap();
    assert_eq!((bed.inode(ino).state, bed.inode(ino).attr.size), (WriteState::ClosedOpen, 3));
    bed.vfs.write(handle, 3, b" more").unwrap();
    bed.vfs.release(&ME, handle).unwrap();
    let inode = bed.inode(ino);
    assert_eq!((inode.state, inode.attr.size), (WriteState::Closed, 8), "bytes after the last flush count");
}

#[test]
fn an_empty_new_file_is_closed_too() {
    let bed = Bed::new();
    let ino = bed.put("b/empty", "");
    assert_eq!(bed.inode(ino).state, WriteState::Closed);
    let parent = bed.ino("b");
    let made = bed.vfs.mknod(&ME, parent, b"node", libc::S_IFREG | 0o644, 0).unwrap();
    assert_eq!(bed.inode(made.attr.ino).state, WriteState::Closed);
}

#[test]
fn a_closed_file_is_taken_back_under_the_next_generation() {
    let bed = Bed::new();
    let ino = bed.put("b/f", "one");
    let first = (bed.inode(ino).generation, bed.staged(ino).unwrap().key);
    let steps = bed.catalog.steps(crate::types::Seq(0), 100).unwrap();
    let handle = bed.open("b/f", libc::O_RDWR);
    assert_eq!(bed.inode(ino).state, WriteState::Writing);
    assert_eq!(bed.inode(ino).generation, first.0.next());
    assert_eq!(bed.staged(ino).unwrap().key, first.1, "the same stage file");
    bed.vfs.write(handle, 3, b" two").unwrap();
    bed.close(handle);
    assert_eq!(bed.cat("b/f"), "one two");
    let after = bed.catalog.steps(crate::types::Seq(0), 100).unwrap();
    let whats = |steps: Vec<crate::catalog::Step>| steps.into_iter().map(|s| s.what).collect::<Vec<_>>();
    assert_eq!(whats(after), whats(steps), "nothing else was waiting, so it has the last place again");
}

/// Contents on the stage by generation.
fn staged(bed: &Bed, ino: Ino) -> Vec<String> {
    let mut rows: Vec<_> = bed.catalog.replicas(ino).unwrap();
    rows.retain(|row| row.staged);
    rows.sort_by_key(|row| row.generation);
    let scratch = bed.root.path().join("scratch");
    let read = |row: crate::catalog::Replica| std::fs::read(scratch.join(row.key.to_string())).unwrap();
    rows.into_iter().map(|row| String::from_utf8(read(row)).unwrap()).collect()
}

#[test]
fn what_others_wait_for_keeps_its_bytes_when_it_is_written_again() {
    for (flags, rest) in [(libc::O_TRUNC, "new"), (0, "newone")] {
        let bed = Bed::new();
        let ino = bed.put("b/f", "oldone");
        bed.put("b/g", "after");
        let handle = bed.open("b/f", libc::O_WRONLY | flags);
        bed.vfs.write(handle, 0, b"new").unwrap();
        bed.close(handle);
        assert_eq!((bed.cat("b/f"), staged(&bed, ino)), (rest.into(), vec!["oldone".into(), rest.into()]));
    }
}

#[test]
fn the_same_while_it_is_read() {
    let bed = Bed::new();
    let ino = bed.put("b/f", "oldone");
    bed.put("b/g", "after");
    let reader = bed.open("b/f", libc::O_RDONLY);
    let handle = bed.open("b/f", libc::O_WRONLY);
    bed.vfs.write(handle, 0, b"new").unwrap();
    bed.close(handle);
    bed.close(reader);
    assert_eq!(staged(&bed, ino), ["oldone", "newone"]);
}

#[test]
fn an_open_that_writes_nothing_leaves_it_as_it_was() {
    let bed = Bed::new();
    let ino = bed.put("b/f", "one");
    bed.put("b/g", "after");
    let before = bed.catalog.steps(crate::types::Seq(0), 100).unwrap();
    let handle = bed.open("b/f", libc::O_RDWR);
    bed.close(handle);
    assert_eq!(bed.inode(ino).state, WriteState::Closed);
    assert_eq!(staged(&bed, ino), ["one"]);
    assert_eq!(bed.catalog.steps(crate::types::Seq(0), 100).unwrap(), before);
}

#[test]
fn a_clean_file_is_copied_up_before_it_changes() {
    let bed = Bed::new();
    let ino = bed.put("b/f", "one");
    bed.commit("b/f");
    assert!(bed.staged(ino).is_none());
    let handle = bed.open("b/f", libc::O_RDWR);
    bed.vfs.write(handle, 3, b" two").unwrap();
    bed.close(handle);
    assert_eq!(bed.cat("b/f"), "one two");
    let inode = bed.inode(ino);
    assert_eq!(inode.state, WriteState::Closed);
    bed.commit("b/f");
    assert_eq!(bed.cat("b/f"), "one two");
}

#[test]
fn truncation_at_open_copies_nothing_and_counts_as_a_change() {
    let bed = Bed::new();
    let ino = bed.put("b/f", "one");
    bed.commit("b/f");
    bed.faults.always(None, crate::tier::Fault::FailBefore(Kind::Unavailable));
    bed.close(bed.open("b/f", libc::O_WRONLY | libc::O_TRUNC));
    assert_eq!((bed.inode(ino).state, bed.inode(ino).attr.size), (WriteState::Closed, 0));
    assert_eq!(bed.cat("b/f"), "");
}

#[test]
fn a_write_open_that_changes_nothing_is_taken_back() {
    let bed = Bed::new();
    let ino = bed.put("b/f", "one");
    bed.commit("b/f");
    let before = bed.inode(ino);
    let handle = bed.open("b/f", libc::O_RDWR);
    let staged = bed.staged(ino).unwrap();
    bed.close(handle);
    let after = bed.inode(ino);
    assert_eq!((after.generation, after.state), (before.generation, WriteState::Clean));
    assert_eq!((after.attr.mtime, after.attr.ctime), (before.attr.mtime, before.attr.ctime));
    assert!(bed.staged(ino).is_none());
    assert!(!bed.native("scratch", std::str::from_utf8(staged.key.as_bytes()).unwrap()).exists());
    assert_eq!((bed.cat("b/f").as_str(), bed.queued()), ("one", 0));
}

#[test]
fn a_hot_copy_that_readers_have_open_becomes_the_staged_generation() {
    let bed = Bed::with_mode(IoMode::Passthrough);
    let ino = bed.put("k/f", "one");
    let staged = bed.staged(ino).unwrap();
    bed.commit_as_hot_copy("k/f", &staged);
    let reader = bed.vfs.open(&ME, ino, libc::O_RDONLY).unwrap();
    assert!(reader.passthrough.is_some(), "the hot copy is a file");
    let writer = bed.vfs.open(&ME, ino, libc::O_RDWR).unwrap();
    assert_eq!(writer.id, reader.id, "one backing file an inode");
    bed.vfs.write(writer.handle, 3, b" two").unwrap();
    assert_eq!(bed.text(reader.handle).unwrap(), "one two");
    let handles = [writer.handle, reader.handle];
    // What the kernel holds goes with the last handle.
    drop((writer, reader));
    handles.into_iter().for_each(|handle| bed.close(handle));
    assert_eq!((bed.inode(ino).state, bed.cat("k/f").as_str()), (WriteState::Closed, "one two"));
    bed.commit("k/f");
    assert_eq!(bed.cat("k/f"), "one two");
}

#[test]
fn a_reader_of_a_streamed_file_sees_one_version_while_another_writes() {
    let bed = Bed::new();
    bed.put("b/f", "one");
    bed.commit("b/f");
    let reader = bed.open("b/f", libc::O_RDONLY);
    write(&bed, "b/f", libc::O_RDWR | libc::O_TRUNC, b"two");
    let seen = bed.text(reader).unwrap();
    assert!(["one", "two"].contains(&seen.as_str()), "{seen}");
    bed.close(reader);
    assert_eq!(bed.cat("b/f"), "two");
}

#[test]
fn a_staged_file_that_is_read_while_it_is_committed_stays_readable() {
    let bed = Bed::new();
    let ino = bed.put("b/f", "one");
    let reader = bed.open("b/f", libc::O_RDONLY);
    bed.commit("b/f");
    assert_eq!(bed.text(reader).unwrap(), "one");
    bed.close(reader);
    assert!(bed.queued() > 0, "the staged file can go now");
    assert_eq!((bed.inode(ino).state, bed.cat("b/f").as_str()), (WriteState::Clean, "one"));
}

#[test]
fn size_and_times_do_not_go_back_between_create_and_commit() {
    let bed = Bed::new();
    for path in ["f", "b/f", "h/f"] {
        let (parent, name) = bed.end(path);
        let (entry, opened) = bed.vfs.create(&ME, parent, name, 0o644, libc::O_RDWR).unwrap();
        let ino = entry.attr.ino;
        let times = |attr: &Attr| (attr.mtime, attr.ctime);
        let shown = times(&entry.attr);
        assert_eq!(times(&bed.vfs.getattr(&ME, ino).unwrap().0), shown, "{path}: open");
        bed.close(opened.handle);
        assert_eq!(times(&bed.vfs.getattr(&ME, ino).unwrap().0), shown, "{path}: closed");
        bed.pass(BLOB_WINDOW);
        assert_eq!(times(&bed.vfs.getattr(&ME, ino).unwrap().0), shown, "{path}: looked at again");
    }
}

#[test]
fn truncate_without_a_handle() {
    let bed = Bed::new();
    for path in ["f", "b/f", "h/f"] {
        let ino = bed.put(path, "123456");
        let cut = SetAttr { size: Some(3), ..SetAttr::default() };
        assert_eq!(bed.vfs.set_attr(&ME, ino, cut.clone()).unwrap().0.size, 3);
        assert_eq!(bed.cat(path), "123");
        if path.starts_with('b') {
            bed.commit(path);
            let grow = SetAttr { size: Some(5), ..SetAttr::default() };
            assert_eq!(bed.vfs.set_attr(&ME, ino, grow).unwrap().0.size, 5);
            assert_eq!(bed.cat(path), "123\0\0");
        }
    }
}

#[test]
fn a_write_open_that_fails_on_the_stage_leaves_the_file_clean() {
    let bed = Bed::new();
    let ino = bed.put("b/f", "one");
    bed.commit("b/f");
    let before = bed.inode(ino);
    let stage = bed.native("scratch", ".tierfs/stage");
    let own = fs::read_dir(&stage).unwrap().next().unwrap().unwrap().path();
    fs::rename(&own, own.with_extension("gone")).unwrap();
    fs::write(&own, "not a directory").unwrap();
    for flags in [libc::O_RDWR, libc::O_RDWR | libc::O_TRUNC] {
        assert!(bed.vfs.open(&ME, ino, flags).is_err());
        let after = bed.inode(ino);
        assert_eq!((after.state, after.generation), (WriteState::Clean, before.generation));
        assert!(bed.staged(ino).is_none());
        assert_eq!(bed.cat("b/f"), "one");
    }
    fs::remove_file(&own).unwrap();
    fs::rename(own.with_extension("gone"), &own).unwrap();
    write(&bed, "b/f", libc::O_RDWR, b"two");
    assert_eq!(bed.cat("b/f"), "two");
}

/// Stands for a mapping: it keeps the staged file open for writing when every handle is closed.
fn mapping(bed: &Bed, ino: Ino) -> fs::File {
    let staged = bed.staged(ino).unwrap();
    let path = bed.native("scratch", std::str::from_utf8(staged.key.as_bytes()).unwrap());
    fs::File::options().read(true).write(true).open(path).unwrap()
}

#[test]
fn a_mapping_that_outlives_its_handle_keeps_the_write_open() {
    use std::os::unix::fs::FileExt;
    let bed = Bed::with_mode(IoMode::Passthrough);
    let ino = bed.put("b/f", "one");
    bed.commit("b/f");
    // Opened, mapped and closed before anything changed.
    let opened = bed.vfs.open(&ME, ino, libc::O_RDWR).unwrap();
    assert!(opened.passthrough.is_some());
    let mapped = mapping(&bed, ino);
    bed.vfs.flush(&ME, opened.handle).unwrap();
    assert_eq!(bed.vfs.release(&ME, opened.handle).unwrap().settle, Some(ino));
    drop(opened);
    assert_eq!(bed.vfs.settle(ino), Settled::NotYet);
    assert!(bed.vfs.is_open(ino), "the mover leaves it alone");
    mapped.write_all_at(b"two", 0).unwrap();
    assert_eq!(bed.vfs.settle(ino), Settled::NotYet);
    drop(mapped);
    assert_eq!(bed.vfs.settle(ino), Settled::Done);
    assert_eq!((bed.inode(ino).state, bed.cat("b/f").as_str()), (WriteState::Closed, "two"));
    assert!(!bed.vfs.is_open(ino));
}

#[test]
fn a_new_file_is_not_sealed_while_it_is_mapped() {
    use std::os::unix::fs::FileExt;
    let bed = Bed::with_mode(IoMode::Passthrough);
    let (ino, handle) = bed.create("b/f");
    bed.vfs.write(handle, 0, b"one").unwrap();
    let mapped = mapping(&bed, ino);
    bed.vfs.flush(&ME, handle).unwrap();
    bed.vfs.release(&ME, handle).unwrap();
    assert_eq!((bed.vfs.settle(ino), bed.inode(ino).state), (Settled::NotYet, WriteState::ClosedOpen));
    mapped.write_all_at(b"longer", 0).unwrap();
    drop(mapped);
    assert_eq!(bed.vfs.settle(ino), Settled::Done);
    assert_eq!((bed.inode(ino).state, bed.inode(ino).attr.size), (WriteState::Closed, 6));
}

#[test]
fn an_unchanged_passed_through_file_is_taken_back() {
    let bed = Bed::with_mode(IoMode::Passthrough);
    let ino = bed.put("b/f", "one");
    bed.commit("b/f");
    let before = bed.inode(ino);
    bed.close(bed.open("b/f", libc::O_RDWR));
    assert_eq!((bed.inode(ino).generation, bed.inode(ino).state), (before.generation, WriteState::Clean));
    assert!(bed.staged(ino).is_none());
}

#[test]
fn only_a_close_with_something_to_tell_comes_to_the_daemon() {
    let bed = Bed::with_mode(IoMode::Passthrough);
    bed.put("f", "one");
    bed.put("b/f", "one");
    let close = |path: &str, flags| {
        let opened = bed.vfs.open(&ME, bed.ino(path), flags).unwrap();
        bed.vfs.release(&ME, opened.handle).unwrap();
        opened.close
    };
    assert_eq!(close("f", libc::O_RDONLY), Close::Silent);
    assert_eq!(close("f", libc::O_RDWR), Close::SilentIfPassthrough);
    assert_eq!(close("b/f", libc::O_RDONLY), Close::Silent);
    assert_eq!(close("b/f", libc::O_RDWR), Close::Told, "the close row comes before the answer");
}

#[test]
fn a_silent_close_is_known_after_its_release() {
    let bed = Bed::with_mode(IoMode::Passthrough);
    let ino = bed.put("f", "one");
    let before = bed.inode(ino);
    let handle = bed.open("f", libc::O_RDWR);
    bed.vfs.write(handle, 0, b"twice").unwrap();
    bed.vfs.release(&ME, handle).unwrap();
    let after = bed.inode(ino);
    assert!(after.generation > before.generation);
    assert_eq!(after.attr.size, 5);
}

#[test]
fn a_close_on_a_networked_tier_waits_for_its_writes_elsewhere() {
    let bed = Bed::new();
    let handle = bed.create("p/f").1;
    let hasty = Caller { wait: Wait::Never, ..ME };
    assert_eq!(bed.vfs.flush(&hasty, handle).unwrap_err().kind(), Kind::WouldBlock);
    bed.vfs.write(handle, 0, b"one").unwrap();
    bed.close(handle);
    assert_eq!(bed.cat("p/f"), "one");
    assert_eq!(bed.inode(bed.ino("p/f")).attr.size, 3);
}

#[test]
fn a_running_program_is_not_truncated() {
    const FMODE_EXEC: i32 = 0x20;
    let bed = Bed::with_mode(IoMode::Passthrough);
    bed.put("program", "text");
    let running = bed.open("program", libc::O_RDONLY | FMODE_EXEC);
    let truncate = || bed.vfs.open(&ME, bed.ino("program"), libc::O_RDONLY | libc::O_TRUNC);
    assert_eq!(truncate().unwrap_err().kind(), Kind::Os(libc::ETXTBSY));
    assert_eq!(bed.cat("program"), "text");
    bed.close(running);
    bed.close(truncate().unwrap().handle);
    assert_eq!(bed.cat("program"), "");
}
