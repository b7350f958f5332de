//! readdir: cookies, rewinding, and inode numbers that stay.

use super::*;

fn fill(bed: &Bed, count: usize) {
    bed.mkdir("d");
    for number in 0..count {
        bed.put(&format!("d/{number:03}"), "");
    }
}

#[test]
fn a_listing_in_pieces_has_every_name_once() {
    let bed = Bed::new();
    fill(&bed, 300);
    let handle = bed.vfs.open_directory(bed.ino("d")).unwrap();
    let (mut names, mut after) = (Vec::new(), 0);
    loop {
        let piece = bed.names_after(handle, after, 7);
        let Some((last, _)) = piece.last() else { break };
        after = *last;
        names.extend(piece.into_iter().map(|(_, name)| name));
    }
    names.sort();
    let expected = (0..300).map(|number| format!("{number:03}"));
    assert_eq!(names, [".".to_owned(), "..".to_owned()].into_iter().chain(expected).collect::<Vec<_>>());
}

#[test]
fn names_that_stay_are_not_skipped_when_others_go() {
    let bed = Bed::new();
    fill(&bed, 50);
    let handle = bed.vfs.open_directory(bed.ino("d")).unwrap();
    let first = bed.names_after(handle, 0, 12);
    for (_, name) in &first[2..] {
        bed.rm(&format!("d/{name}"));
    }
    let rest = bed.names_after(handle, first.last().unwrap().0, usize::MAX);
    assert_eq!(rest.len(), 40);
    assert!(rest.iter().all(|(_, name)| first.iter().all(|(_, gone)| gone != name)));
}

#[test]
fn rewinding_shows_what_was_made_since() {
    let bed = Bed::new();
    fill(&bed, 3);
    let handle = bed.vfs.open_directory(bed.ino("d")).unwrap();
    assert_eq!(bed.names_after(handle, 0, usize::MAX).len(), 5);
    bed.put("d/new", "");
    let again = bed.names_after(handle, 0, usize::MAX);
    assert!(again.iter().any(|(_, name)| name == "new"), "{again:?}");
    assert_eq!(again.len(), 6);
    assert!(bed.names_after(handle, again.last().unwrap().0, usize::MAX).is_empty());
}

#[test]
fn every_look_up_that_is_given_out_is_counted() {
    let bed = Bed::new();
    fill(&bed, 4);
    let handle = bed.vfs.open_directory(bed.ino("d")).unwrap();
    let mut room = 4;
    bed.vfs
        .list_entries(handle, 0, &mut |_, _, _| {
            room -= 1;
            if room < 0 { More::Full } else { More::Yes }
        })
        .unwrap();
    // `.` and `..` are not counted; the name that did not fit was given back.
    let (_, known) = bed.vfs.in_memory();
    bed.vfs.forget(bed.ino("d/000"), 1);
    assert!(bed.vfs.in_memory().1 <= known);
}

#[test]
fn an_inode_keeps_its_number_through_writes_renames_commits_and_forgets() {
    let bed = Bed::new();
    let ino = bed.put("b/f", "one");
    bed.commit("b/f");
    assert_eq!(bed.ino("b/f"), ino);
    let handle = bed.open("b/f", libc::O_RDWR);
    bed.vfs.write(handle, 0, b"two").unwrap();
    bed.close(handle);
    bed.mv("b/f", "g");
    bed.vfs.forget(ino, 100);
    bed.pass(BLOB_WINDOW);
    assert_eq!((bed.ino("g"), bed.cat("g").as_str()), (ino, "two"));
    bed.mv("g", "h/g");
    assert_eq!((bed.ino("h/g"), bed.cat("h/g").as_str()), (ino, "two"));
}
