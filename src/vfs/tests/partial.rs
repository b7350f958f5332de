//! Files of which only what is written is staged.

use super::super::open_file::Bytes;
use super::*;
use crate::catalog::StepKind;
use crate::types::Generation;

const TEXT: &str = "0123456789abcdef";

/// A bed where a few bytes are many, with [`TEXT`] at `b/f` on Blob alone.
fn bed(mode: IoMode) -> (Bed, Ino) {
    let mut bed = Bed::with_mode(mode);
    bed.vfs.parts.partial_from = 8;
    let ino = bed.put("b/f", TEXT);
    bed.commit("b/f");
    (bed, ino)
}

impl Bed {
    /// What the mover does with what `name` on the stage holds of `generation`.
    fn arrive(&self, path: &str, name: &[u8], generation: Generation) {
        let (parent, last) = self.end(path);
        let ino = self.ino(path);
        let bytes = self.whole(ino, name);
        let place = self.catalog.ensure_place(parent, self.blob).unwrap();
        self.catalog.begin_commit(ino, place.id, last, "w").unwrap();
        let key = place.key.join(last).unwrap();
        let attrs = Attrs::default();
        let put = self.blobs.put(&key, bytes, &attrs, &Condition::Always);
        let version = self.runtime.block_on(put).unwrap();
        let attributes = self.inode(ino).attr_generation;
        self.catalog.commit_if(ino, generation, attributes, place.id, last, &version, None).unwrap();
    }

    /// What a stage file stands for.
    fn whole(&self, ino: Ino, name: &[u8]) -> bytes::Bytes {
        match self.vfs.staged_bytes(ino, self.scratch, name).unwrap() {
            Bytes::Partial { file, .. } => self.runtime.block_on(file.read(0, 100)).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn deletes(&self) -> usize {
        let steps = self.catalog.steps(crate::types::Seq(0), 100).unwrap();
        steps.iter().filter(|step| matches!(step.what, StepKind::Delete { .. })).count()
    }
}

#[test]
fn what_is_written_is_staged_and_the_rest_is_read_from_home() {
    for mode in [IoMode::Ordinary, IoMode::Passthrough] {
        let (bed, ino) = bed(mode);
        let reader = bed.open("b/f", libc::O_RDONLY);
        let opened = bed.vfs.open(&ME, ino, libc::O_RDWR).unwrap();
        assert!(opened.passthrough.is_none(), "the kernel would read holes");
        assert!(bed.staged(ino).unwrap().is_partial());
        bed.vfs.write(opened.handle, 4, b"XY").unwrap();
        assert_eq!(bed.text(opened.handle).unwrap(), "0123XY6789abcdef");
        assert_eq!(bed.text(reader).unwrap(), "0123XY6789abcdef", "one content for all handles");
        assert_eq!(bed.vfs.getattr(&ME, ino).unwrap().0.size, 16);
        bed.close(opened.handle);
        bed.close(reader);
        assert_eq!((bed.inode(ino).state, bed.cat("b/f").as_str()), (WriteState::Closed, "0123XY6789abcdef"));
        assert_eq!(bed.vfs.native_path(ino).unwrap_err().kind(), Kind::NoAttribute, "no tool may read it");
    }
}

#[test]
fn a_small_file_is_copied() {
    let (bed, _) = bed(IoMode::Ordinary);
    let ino = bed.put("b/small", "1234567");
    bed.commit("b/small");
    let handle = bed.open("b/small", libc::O_RDWR);
    assert!(!bed.staged(ino).unwrap().is_partial());
    bed.close(handle);
}

#[test]
fn an_open_that_changes_nothing_leaves_nothing() {
    let (bed, ino) = bed(IoMode::Ordinary);
    let before = bed.inode(ino);
    bed.close(bed.open("b/f", libc::O_RDWR));
    assert_eq!((bed.inode(ino).state, bed.inode(ino).generation), (WriteState::Clean, before.generation));
    assert!(bed.staged(ino).is_none());
    let stage = bed.vfs.stage(bed.scratch).unwrap();
    assert_eq!(stage.list().unwrap(), [], "neither bytes nor map");
}

#[test]
fn cutting_by_name_costs_no_copy() {
    let (bed, ino) = bed(IoMode::Ordinary);
    for (size, text) in [(12, "0123456789ab"), (14, "0123456789ab\0\0"), (0, "")] {
        let cut = SetAttr { size: Some(size), ..SetAttr::default() };
        assert_eq!(bed.vfs.set_attr(&ME, ino, cut).unwrap().0.size, size);
        assert_eq!(bed.cat("b/f"), text);
    }
}

#[test]
fn a_file_that_is_committed_while_it_is_read_goes_on_from_what_home_has_now() {
    let (bed, ino) = bed(IoMode::Ordinary);
    let writer = bed.open("b/f", libc::O_RDWR);
    bed.vfs.write(writer, 4, b"XY").unwrap();
    let reader = bed.open("b/f", libc::O_RDONLY);
    bed.close(writer);
    let staged = bed.staged(ino).unwrap();
    bed.arrive("b/f", &staged.name, staged.generation);
    bed.finish(ino);
    assert_eq!(bed.inode(ino).state, WriteState::Clean);
    assert_eq!(bed.text(reader).unwrap(), "0123XY6789abcdef", "the version it began from is gone");
    let writer = bed.open("b/f", libc::O_RDWR);
    assert_eq!(bed.staged(ino).unwrap().name, staged.name, "the same stage file");
    bed.vfs.write(writer, 0, b"Z").unwrap();
    bed.close(writer);
    bed.close(reader);
    assert_eq!(bed.cat("b/f"), "Z123XY6789abcdef");
    let again = bed.staged(ino).unwrap();
    bed.arrive("b/f", &again.name, again.generation);
    assert_eq!(bed.runtime.block_on(bed.blobs.head(&again_key())).unwrap().size, 16);
}

fn again_key() -> Key {
    Key::parse("b/f").unwrap()
}

#[test]
fn an_open_file_is_brought_home_as_it_is_and_goes_on() {
    let (bed, ino) = bed(IoMode::Ordinary);
    let writer = bed.open("b/f", libc::O_RDWR);
    bed.vfs.write(writer, 4, b"XY").unwrap();
    assert!(bed.vfs.publish(&bed.vfs.nodes.get(ino)).unwrap().is_some());
    bed.vfs.write(writer, 8, b"later").unwrap();
    let mut rows: Vec<_> = bed.replicas(ino).into_iter().filter(|row| row.staged).collect();
    rows.sort_by_key(|row| row.generation);
    assert!(rows.len() == 2 && rows.iter().all(Replica::is_partial), "{rows:?}");
    assert_eq!(bed.whole(ino, &rows[0].name), "0123XY6789abcdef", "as it was");
    bed.arrive("b/f", &rows[0].name, rows[0].generation);
    assert_eq!(bed.text(writer).unwrap(), "0123XY67laterdef", "on top of what home has now");
    bed.close(writer);
    assert_eq!(bed.whole(ino, &rows[1].name), "0123XY67laterdef");
}

#[test]
fn a_closed_one_is_taken_back_though_others_wait_for_it() {
    let (bed, ino) = bed(IoMode::Ordinary);
    for bytes in ["X", "Y"] {
        let writer = bed.open("b/f", libc::O_RDWR);
        bed.vfs.write(writer, 0, bytes.as_bytes()).unwrap();
        bed.close(writer);
        bed.put(&format!("b/after-{bytes}"), bytes);
    }
    assert_eq!(bed.replicas(ino).iter().filter(|row| row.staged).count(), 1);
    assert_eq!(bed.cat("b/f"), "Y123456789abcdef");
}

#[test]
fn its_base_stays_until_it_is_at_home() {
    let (bed, ino) = bed(IoMode::Ordinary);
    let writer = bed.open("b/f", libc::O_RDWR);
    bed.vfs.write(writer, 4, b"XY").unwrap();
    bed.mv("b/f", "b/g");
    assert_eq!(bed.deletes(), 0, "the old key has what is not written");
    assert_eq!(bed.text(writer).unwrap(), "0123XY6789abcdef");
    let base = bed.replicas(ino).into_iter().find(|row| !row.staged).unwrap();
    let names = bed.catalog.names(ino).unwrap();
    let doomed = bed.catalog.doom(&base, &names, None, crate::catalog::Writers::None, "d");
    assert_eq!(doomed.unwrap_err().kind(), Kind::Busy);
    // Another file gets the name: its commit has to wait until the base is out of the way.
    let other = bed.put("b/f", "new");
    let begun = bed.catalog.begin_commit(other, base.place, b"f", "w2");
    assert_eq!(begun.unwrap_err().kind(), Kind::Busy);
    bed.close(writer);
    let staged = bed.staged(ino).unwrap();
    bed.arrive("b/g", &staged.name, staged.generation);
    bed.catalog.doom(&base, &names, None, crate::catalog::Writers::None, "d").unwrap();
}

#[test]
fn an_unlinked_file_has_what_was_written_and_no_zeros() {
    let (bed, _) = bed(IoMode::Ordinary);
    let writer = bed.open("b/f", libc::O_RDWR);
    bed.vfs.write(writer, 4, b"XY").unwrap();
    bed.rm("b/f");
    bed.blob_delete("b/f");
    assert_eq!(bed.text(writer).unwrap_err().kind(), Kind::Stale, "never zeros");
    let mut here = [0; 2];
    assert!(matches!(bed.vfs.read(writer, 4, &mut here).unwrap(), ReadAnswer::Ready(2)));
    assert_eq!(&here, b"XY");
    bed.close(writer);
}

#[test]
fn a_base_that_changed_is_noticed_at_open_and_afterwards() {
    let (bed, ino) = bed(IoMode::Ordinary);
    bed.blob_put("b/f", "somebody else's");
    assert_eq!(bed.vfs.open(&ME, ino, libc::O_RDWR).unwrap_err().kind(), Kind::Stale);
    assert!(bed.staged(ino).is_none() && bed.inode(ino).state == WriteState::Clean);
    bed.pass(BLOB_WINDOW);
    let writer = bed.open("b/f", libc::O_RDWR);
    bed.blob_put("b/f", "and again");
    assert_eq!(bed.vfs.write(writer, 0, b"S").unwrap(), 1);
    bed.close(writer);
    let reader = bed.open("b/f", libc::O_RDONLY);
    let mut buffer = [0; 8];
    let later = match bed.vfs.read(reader, 1, &mut buffer).unwrap() {
        ReadAnswer::Patched(file) => bed.runtime.block_on(file.read(1, 8)),
        other => panic!("{other:?}"),
    };
    assert_eq!(later.unwrap_err().kind(), Kind::Stale);
    bed.close(reader);
}
