//! What other programs do on the tiers, and tiers that can't answer.

use super::*;
use crate::tier::Fault;
use std::fs;

#[test]
fn a_new_native_file_shows_after_revalidate_and_not_before() {
    let bed = Bed::new();
    assert_eq!(bed.kind_of("f"), Kind::NotFound);
    fs::write(bed.native("scratch", "f"), "outside").unwrap();
    assert_eq!(bed.kind_of("f"), Kind::NotFound);
    bed.pass(SCRATCH_WINDOW);
    assert_eq!(bed.cat("f"), "outside");
}

#[test]
fn a_native_change_of_equal_size_is_seen_and_the_kernel_is_told() {
    let bed = Bed::new();
    let ino = bed.put("f", "one");
    bed.pass(SCRATCH_WINDOW);
    assert_eq!(bed.cat("f"), "one");
    bed.told.lock().clear();
    let before = bed.inode(ino).generation;
    fs::write(bed.native("scratch", "f"), "two").unwrap();
    bed.pass(SCRATCH_WINDOW);
    assert_eq!(bed.cat("f"), "two");
    assert_eq!(bed.ino("f"), ino);
    assert!(bed.inode(ino).generation > before);
    assert_eq!(*bed.told.lock(), [Invalidation::Inode(ino)]);
}

#[test]
fn a_native_change_in_place_is_seen_at_the_next_open() {
    let bed = Bed::new();
    let ino = bed.put("f", "one");
    assert_eq!(bed.cat("f"), "one");
    bed.told.lock().clear();
    let before = bed.inode(ino);
    fs::write(bed.native("scratch", "f"), "two!").unwrap();
    assert_eq!(bed.inode(ino).attr.size, 3, "nobody has looked");
    bed.pass(SCRATCH_WINDOW / 100);
    assert_eq!(bed.cat("f"), "two!");
    let after = bed.inode(ino);
    assert!(after.generation > before.generation && after.attr.mtime > before.attr.mtime);
    assert_eq!(after.attr.size, 4);
    assert_eq!(*bed.told.lock(), [Invalidation::Inode(ino)]);
}

#[test]
fn a_deleted_native_file_is_gone_after_revalidate() {
    let bed = Bed::new();
    let ino = bed.put("f", "one");
    fs::remove_file(bed.native("scratch", "f")).unwrap();
    bed.pass(SCRATCH_WINDOW);
    assert_eq!(bed.kind_of("f"), Kind::NotFound);
    let gone = Invalidation::Entry { parent: Ino::ROOT, name: b"f".to_vec() };
    assert!(bed.told.lock().contains(&gone), "{ino}: {:?}", bed.told.lock());
}

#[test]
fn blobs_come_change_and_go() {
    let bed = Bed::new();
    bed.blob_put("b/data", "one");
    assert_eq!(bed.cat("b/data"), "one");
    bed.blob_put("b/data", "two");
    assert_eq!(bed.cat("b/data"), "one", "within the window, of a version that is gone, but cached");
    bed.pass(BLOB_WINDOW);
    assert_eq!(bed.cat("b/data"), "two");
    bed.blob_delete("b/data");
    bed.pass(BLOB_WINDOW);
    assert_eq!(bed.kind_of("b/data"), Kind::NotFound);
}

#[test]
fn a_directory_of_a_container_is_listed_without_an_import() {
    let bed = Bed::new();
    for name in ["b/x/one", "b/x/two", "b/x/deep/three"] {
        bed.blob_put(name, name);
    }
    let mut names = bed.names("b/x");
    names.sort();
    assert_eq!(names, [".", "..", "deep", "one", "two"]);
    assert_eq!(bed.cat("b/x/deep/three"), "b/x/deep/three");
}

#[test]
fn a_failed_answer_is_never_an_absence() {
    let bed = Bed::new();
    bed.blob_put("b/known", "x");
    assert_eq!(bed.cat("b/known"), "x");
    for kind in [Kind::Unavailable, Kind::TimedOut, Kind::Denied] {
        bed.faults.clear();
        bed.faults.always(None, Fault::FailBefore(kind));
        bed.pass(BLOB_WINDOW);
        assert_eq!(bed.kind_of("b/unknown"), kind);
        assert!(bed.find("b/known").is_ok(), "what is known is served");
        assert_eq!(bed.kind_of("b/unknown"), kind, "and the failure was not remembered");
    }
    bed.faults.clear();
    assert_eq!(bed.kind_of("b/unknown"), Kind::NotFound);
    assert_eq!(bed.cat("b/known"), "x");
}

#[test]
fn a_sick_tier_leaves_the_others_alone() {
    let bed = Bed::new();
    bed.faults.always(None, Fault::FailBefore(Kind::Unavailable));
    bed.pass(BLOB_WINDOW);
    bed.put("f", "scratch");
    bed.put("h/f", "share");
    assert_eq!((bed.cat("f"), bed.cat("h/f")), ("scratch".into(), "share".into()));
    assert_eq!(bed.names("h"), [".", "..", "f"]);
}

#[test]
fn an_operation_that_would_wait_for_a_slow_tier_changes_nothing_first() {
    let bed = Bed::new();
    let hurried = Caller { wait: Wait::Never, ..ME };
    let parent = bed.ino("b");
    bed.pass(BLOB_WINDOW);
    let refused = bed.vfs.lookup(&hurried, parent, b"x").unwrap_err();
    assert_eq!(refused.kind(), Kind::WouldBlock);
    assert_eq!(bed.kind_of("b/x"), Kind::NotFound);
}

#[test]
fn our_own_links_unlinks_renames_and_chmods_are_not_outside_changes() {
    let bed = Bed::new();
    let ino = bed.put("f", "one");
    let generation = bed.inode(ino).generation;
    let change = |change| SetAttr { change, ..SetAttr::default() };
    let mode = crate::types::AttrChange { mode: Some(0o600), ..Default::default() };
    bed.vfs.link(ino, Ino::ROOT, b"g").unwrap();
    bed.vfs.set_attr(&ME, ino, change(mode)).unwrap();
    bed.mv("f", "moved");
    bed.rm("g");
    bed.vfs.set_xattr(ino, b"user.x", b"1", 0).unwrap();
    bed.told.lock().clear();
    bed.pass(SCRATCH_WINDOW);
    assert_eq!(bed.cat("moved"), "one");
    assert_eq!(bed.inode(ino).generation, generation);
    assert_eq!(*bed.told.lock(), []);
    assert_eq!(bed.inode(ino).attr.mode, 0o600);
}

#[test]
fn a_directory_that_was_only_a_prefix_gets_a_marker_with_its_last_name() {
    let marked = |bed: &Bed, dir| {
        let steps = bed.catalog.steps(crate::types::Seq(0), 100).unwrap();
        steps.iter().any(|step| step.what == crate::catalog::StepKind::Reconcile(dir))
    };
    let empties: [fn(&Bed); 2] = [|bed| bed.rm("b/x/f"), |bed| bed.mv("b/x/f", "b/f")];
    for empty in empties {
        let bed = Bed::new();
        bed.blob_put("b/x/f", "1");
        let dir = bed.ino("b/x");
        bed.ino("b/x/f");
        assert!(!marked(&bed, dir));
        empty(&bed);
        assert!(marked(&bed, dir));
        bed.blob_delete("b/x/f");
        bed.pass(BLOB_WINDOW);
        assert_eq!(bed.ino("b/x"), dir, "it waits for its marker");
    }
}

#[test]
fn attributes_that_home_cannot_carry_are_refused_at_once() {
    let bed = Bed::new();
    let ino = bed.put("b/f", "1");
    bed.vfs.set_xattr(ino, b"user.small", &[b'x'; 100], 0).unwrap();
    let much = vec![b'x'; 60_000];
    assert_eq!(bed.vfs.set_xattr(ino, b"user.large", &much, 0).unwrap_err().kind(), Kind::NoSpace);
    assert_eq!(bed.vfs.xattr(&ME, ino, b"user.small").unwrap().len(), 100);
    assert_eq!(bed.vfs.xattr(&ME, ino, b"user.large").unwrap_err().kind(), Kind::NoAttribute);
}
