//! create, rename, exchange and unlink over rules.

use super::*;
use crate::types::{AttrChange, Generation};
use std::fs;
use std::os::unix::fs::MetadataExt;

#[test]
fn a_native_file_is_made_where_its_rule_says() {
    let bed = Bed::new();
    bed.put("f", "scratch");
    bed.put("h/f", "share");
    let staged = bed.put("b/f", "blob");
    assert_eq!(fs::read(bed.native("scratch", "f")).unwrap(), b"scratch");
    assert_eq!(fs::read(bed.native("share", "h/f")).unwrap(), b"share");
    assert!(bed.staged(staged).is_some_and(|replica| replica.tier == bed.scratch));
    assert_eq!(bed.inode(staged).state, WriteState::Closed);
}

#[test]
fn rename_over_rules_moves_nothing_before_the_answer() {
    let bed = Bed::new();
    let ino = bed.put("f", "bytes");
    bed.mv("f", "b/f");
    assert_eq!((bed.kind_of("f"), bed.cat("b/f").as_str()), (Kind::NotFound, "bytes"));
    let inode = bed.inode(ino);
    assert_eq!(inode.state, WriteState::Closed);
    assert!(bed.staged(ino).is_some(), "the native file became the staged generation");
    assert!(!bed.native("scratch", "f").exists());
    assert!(bed.queued() > 0);

    let back = bed.put("b/g", "other");
    bed.commit("b/g");
    bed.mv("b/g", "g");
    assert_eq!((bed.kind_of("b/g"), bed.cat("g").as_str()), (Kind::NotFound, "other"));
    assert!(bed.replicas(back).iter().any(|replica| replica.tier == bed.blob), "the bytes follow later");
}

#[test]
fn rename_of_an_open_file_goes_on_writing_to_it() {
    let bed = Bed::new();
    for (from, to) in [("tmp", "b/final"), ("b/tmp", "final2"), ("h/tmp", "final3"), ("tmp4", "final4")] {
        let (ino, handle) = bed.create(from);
        bed.vfs.write(handle, 0, b"AAAA").unwrap();
        bed.mv(from, to);
        bed.vfs.write(handle, 4, b"BBBB").unwrap();
        bed.vfs.fsync(handle).unwrap();
        assert_eq!(bed.vfs.getattr(&ME, ino).unwrap().0.size, 8, "{from} to {to}");
        bed.close(handle);
        bed.pass(BLOB_WINDOW);
        assert_eq!((bed.kind_of(from), bed.cat(to).as_str()), (Kind::NotFound, "AAAABBBB"), "{from} to {to}");
        assert_eq!(bed.vfs.getattr(&ME, ino).unwrap().0.size, 8, "{from} to {to}");
    }
}

#[test]
fn rename_replaces_a_file_of_another_home() {
    let bed = Bed::new();
    for (from, to) in [("one", "b/two"), ("b/three", "four"), ("h/five", "six")] {
        bed.put(from, "new");
        let old = bed.put(to, "old");
        bed.mv(from, to);
        assert_eq!((bed.kind_of(from), bed.cat(to).as_str()), (Kind::NotFound, "new"), "{from} to {to}");
        assert_ne!(bed.ino(to), old);
        bed.pass(BLOB_WINDOW);
        assert_eq!(bed.cat(to), "new", "{from} to {to}");
    }
}

#[test]
fn noreplace_and_exchange() {
    let bed = Bed::new();
    for (a, b) in [("a", "b/a"), ("c", "d"), ("b/e", "b/f"), ("h/g", "g")] {
        let (first, second) = (bed.put(a, "first"), bed.put(b, "second"));
        assert_eq!(bed.rename(a, b, RenameMode::NoReplace).unwrap_err().kind(), Kind::Exists);
        bed.rename(a, b, RenameMode::Exchange).unwrap();
        assert_eq!((bed.ino(a), bed.ino(b)), (second, first), "{a} and {b}");
        bed.pass(BLOB_WINDOW);
        assert_eq!((bed.cat(a).as_str(), bed.cat(b).as_str()), ("second", "first"), "{a} and {b}");
    }
    assert_eq!(bed.rename("a", "none", RenameMode::Exchange).unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn a_directory_moves_with_what_nobody_has_listed() {
    let bed = Bed::new();
    bed.blob_put("b/x/unlisted", "1");
    fs::create_dir(bed.native("scratch", "dir")).unwrap();
    fs::write(bed.native("scratch", "dir/unlisted"), "2").unwrap();
    bed.pass(BLOB_WINDOW);
    bed.mv("b/x", "b/y");
    bed.mv("dir", "moved");
    bed.pass(BLOB_WINDOW);
    assert_eq!((bed.cat("b/y/unlisted").as_str(), bed.cat("moved/unlisted").as_str()), ("1", "2"));
    assert_eq!(bed.kind_of("b/x"), Kind::NotFound);
    assert_eq!(bed.kind_of("dir"), Kind::NotFound);
}

#[test]
fn rmdir_asks_the_tiers() {
    let bed = Bed::new();
    bed.blob_put("b/d/a", "1");
    bed.ino("b/d");
    let parent = bed.ino("b");
    assert_eq!(bed.vfs.rmdir(&ME, parent, b"d").unwrap_err().kind(), Kind::NotEmpty);
    assert_eq!(bed.cat("b/d/a"), "1");
}

#[test]
fn a_failed_native_rename_changes_nothing() {
    let bed = Bed::new();
    bed.put("f", "bytes");
    fs::create_dir(bed.native("scratch", "target")).unwrap();
    fs::write(bed.native("scratch", "target/in the way"), "").unwrap();
    assert!(bed.rename("f", "target", RenameMode::Replace).is_err());
    assert_eq!(bed.cat("f"), "bytes");
    assert_eq!(bed.catalog.intents().unwrap(), []);
}

#[test]
fn an_unlinked_file_lives_as_long_as_it_is_open() {
    let bed = Bed::new();
    for path in ["f", "b/f", "h/f"] {
        let (ino, handle) = bed.create(path);
        bed.vfs.write(handle, 0, b"bytes").unwrap();
        bed.rm(path);
        assert_eq!(bed.kind_of(path), Kind::NotFound);
        assert_eq!(bed.text(handle).unwrap(), "bytes", "{path}");
        bed.vfs.write(handle, 5, b" more").unwrap();
        bed.vfs.flush(&ME, handle).unwrap();
        bed.vfs.fsync(handle).unwrap();
        let mode = crate::types::AttrChange { mode: Some(0o600), ..Default::default() };
        let change = SetAttr { change: mode, size: Some(7), handle: Some(handle) };
        assert_eq!(bed.vfs.set_attr(&ME, ino, change).unwrap().0.size, 7, "{path}");
        assert_eq!(bed.vfs.getattr(&ME, ino).unwrap().0.nlink, 0);
        bed.vfs.release(&ME, handle).unwrap();
        bed.vfs.forget(ino, 10);
        assert_eq!(bed.catalog.inode(ino).unwrap_err().kind(), Kind::NotFound, "{path}");
    }
    assert_eq!(bed.catalog.orphans().unwrap(), []);
}

#[test]
fn a_creation_that_fails_leaves_nothing() {
    let bed = Bed::new();
    // The stage takes nothing more.
    let stage = bed.native("scratch", ".tierfs/stage");
    let owner = fs::read_dir(&stage).unwrap().next().unwrap().unwrap().path();
    fs::rename(&owner, owner.with_extension("gone")).unwrap();
    fs::write(&owner, "not a directory").unwrap();
    let parent = bed.ino("b");
    assert!(bed.vfs.create(&ME, parent, b"f", 0o644, libc::O_RDWR).is_err());
    assert_eq!(bed.kind_of("b/f"), Kind::NotFound);
    assert_eq!(bed.catalog.orphans().unwrap(), []);
}

#[test]
fn a_name_is_free_though_its_key_still_holds_what_was_replaced() {
    let bed = Bed::new();
    for again in ["file", "written file", "directory", "symlink", "link"] {
        let path = again.replace(' ', "-");
        bed.put(&path, "old");
        let held = (again == "written file").then(|| bed.open(&path, libc::O_RDWR));
        bed.put("b/tmp", "new");
        bed.mv("b/tmp", &path);
        if let Some(held) = held {
            bed.vfs.write(held, 0, b"older, but written later").unwrap();
            bed.close(held);
        }
        bed.mv(&path, &format!("b/{path}"));
        assert_eq!(bed.kind_of(&path), Kind::NotFound, "{again}");
        let (parent, name) = bed.end(&path);
        match again {
            "directory" => {
                bed.mkdir(&path);
                bed.put(&format!("{path}/below"), "in it");
            }
            "symlink" => drop(bed.vfs.symlink(&ME, parent, name, b"target").unwrap()),
            "link" => {
                let other = bed.put("other", "newest");
                bed.vfs.link(other, parent, name).unwrap();
            }
            _ => drop(bed.put(&path, "newest")),
        }
        bed.pass(SCRATCH_WINDOW);
        if again.ends_with("file") || again == "link" {
            assert_eq!(bed.cat(&path), "newest", "{again}");
            assert_eq!(fs::read(bed.native("scratch", &path)).unwrap(), b"newest", "{again}");
        }
        assert_eq!(bed.cat(&format!("b/{path}")), "new", "{again}");
        assert_eq!(bed.catalog.check().unwrap(), Vec::<String>::new());
    }
}

#[test]
fn what_others_wrote_under_a_key_that_was_left_is_kept() {
    let bed = Bed::new();
    bed.put("f", "old");
    bed.put("b/tmp", "new");
    bed.mv("b/tmp", "f");
    bed.mv("f", "b/f");
    fs::write(bed.native("scratch", "f"), "theirs").unwrap();
    let (parent, name) = bed.end("f");
    bed.pass(SCRATCH_WINDOW);
    let made = bed.vfs.create(&ME, parent, name, 0o644, libc::O_RDWR | libc::O_EXCL);
    assert_eq!(made.unwrap_err().kind(), Kind::Exists);
    bed.pass(SCRATCH_WINDOW);
    assert_eq!((bed.cat("f").as_str(), bed.cat("b/f").as_str()), ("theirs", "new"));
}

#[test]
fn a_file_goes_with_its_name_also_where_its_directory_was_before() {
    let bed = Bed::new();
    bed.mkdir("d");
    bed.put("d/f", "native");
    bed.mv("d", "b/d");
    let held = bed.open("b/d/f", libc::O_RDWR);
    bed.vfs.write(held, 0, b"changed in place").unwrap();
    bed.rm("b/d/f");
    bed.close(held);
    assert!(!bed.native("scratch", "d/f").exists());
    bed.pass(BLOB_WINDOW);
    assert_eq!((bed.kind_of("b/d/f"), bed.names("b/d")), (Kind::NotFound, vec![".".into(), "..".into()]));
}

#[test]
fn what_was_replaced_is_not_told_of_what_replaces_it() {
    let bed = Bed::new();
    let old = bed.put("f", "old");
    bed.vfs.set_xattr(old, b"user.old", b"1", 0).unwrap();
    let new = bed.put("b/tmp", "new");
    bed.mv("b/tmp", "f");
    let native = bed.native("scratch", "f");
    let before = fs::metadata(&native).unwrap();
    bed.vfs.set_xattr(new, b"user.new", b"1", 0).unwrap();
    let change = AttrChange { mode: Some(0o600), ..Default::default() };
    bed.vfs.set_attr(&ME, new, SetAttr { change, size: Some(2), handle: None }).unwrap();
    bed.pass(SCRATCH_WINDOW);
    assert_eq!((bed.ino("f"), bed.cat("f").as_str()), (new, "ne"));
    assert_eq!(bed.vfs.xattr_names(new).unwrap(), b"user.new\0");
    let after = fs::metadata(&native).unwrap();
    let version = |of: &fs::Metadata| (of.len(), of.ctime(), of.ctime_nsec());
    assert_eq!(version(&before), version(&after), "it is what the mover expects to overwrite");
}

#[test]
fn a_rename_onto_a_key_that_the_mover_writes_goes_by_the_stage() {
    let bed = Bed::new();
    let old = bed.put("b/old", "old");
    bed.mv("b/old", "f");
    let place = bed.catalog.ensure_place(Ino::ROOT, bed.scratch).unwrap();
    bed.catalog.begin_commit(old, place.id, b"f", "w").unwrap();
    let new = bed.put("g", "new");
    bed.mv("g", "f");
    assert!(!bed.native("scratch", "f").exists() && !bed.native("scratch", "g").exists());
    fs::write(bed.native("scratch", "f"), "old").unwrap();
    let object = bed.vfs.resident(bed.scratch).unwrap().stat(&Key::parse("f").unwrap()).unwrap();
    let (version, native) = (&object.version, object.native);
    bed.catalog.commit_if(old, Generation(1), 1, place.id, b"f", version, native).unwrap();
    bed.pass(SCRATCH_WINDOW);
    assert_eq!((bed.ino("f"), bed.cat("f").as_str()), (new, "new"));
    assert!(bed.staged(new).is_some() && bed.queued() > 0);
}

#[test]
fn the_only_copy_of_a_file_outlives_the_name_it_lies_under() {
    let bed = Bed::new();
    for way in ["unlinked", "replaced", "replaced from Blob"] {
        let name = way.replace(' ', "-");
        let other = format!("b/{name}");
        let ino = bed.put(&name, "bytes");
        let (parent, last) = bed.end(&other);
        // As on a tier without hard links.
        bed.catalog.link(ino, parent, last, None, Some("d"), bed.vfs.now()).unwrap();
        match way {
            "unlinked" => bed.rm(&name),
            "replaced" => {
                bed.put("tmp", "new");
                bed.mv("tmp", &name);
            }
            _ => {
                bed.put("b/tmp", "new");
                bed.mv("b/tmp", &name);
            }
        }
        bed.pass(BLOB_WINDOW);
        assert_eq!((bed.ino(&other), bed.cat(&other).as_str()), (ino, "bytes"), "{way}");
        match bed.find(&name) {
            Ok(_) => assert_eq!(bed.cat(&name), "new", "{way}"),
            Err(error) => assert_eq!((error.kind(), way), (Kind::NotFound, "unlinked")),
        }
        assert_eq!(bed.catalog.check().unwrap(), Vec::<String>::new());
    }
}

#[test]
fn a_link_under_another_home_is_told_there() {
    let bed = Bed::new();
    let ino = bed.put("f", "bytes");
    let (parent, name) = bed.end("g");
    bed.vfs.link(ino, parent, name).unwrap();
    assert_eq!(bed.queued(), 0, "the native link is all");
    let (parent, name) = bed.end("b/g");
    bed.vfs.link(ino, parent, name).unwrap();
    assert_eq!(bed.queued(), 1, "its home is Blob");
}

#[test]
fn the_root_is_believed_as_long_as_any_name() {
    let bed = Bed::new();
    assert_eq!(bed.vfs.getattr(&ME, Ino::ROOT).unwrap().1, SCRATCH_WINDOW);
}
