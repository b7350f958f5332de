//! The stage: ownership, sidecars, recovery, copies.

use super::support::*;
use crate::clock::SystemClock;
use crate::data::{MemoryBudget, Owner, Reader, Sidecar, SidecarState, StageStore, Streams};
use crate::error::Kind;
use crate::tier::Access;
use crate::types::{Generation, Ino, Key, Seq};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::sync::Arc;

const NAME: &[u8] = b"3f/1234-5";
const MODE: u32 = 0o600;

fn me() -> Owner {
    Owner::this_process(&SystemClock::default()).unwrap()
}

fn claim(directory: &Arc<Directory>, owner: &Owner) -> crate::error::Result<StageStore> {
    StageStore::claim(Arc::clone(directory) as _, "catalog-1", owner)
}

fn sidecar() -> Sidecar {
    Sidecar {
        path: Key::parse("run/a.pt").unwrap(),
        ino: Ino(1234),
        generation: Generation(5),
        seq: Some(Seq(9)),
        mode: 0o644,
        uid: 0,
        gid: 0,
        mtime_ns: 1,
        size: 5,
        home: "fake://remote".into(),
        base: None,
        state: SidecarState::Closed,
    }
}

#[test]
fn a_stage_belongs_to_one_living_owner() {
    let directory = Directory::new();
    let first = claim(&directory, &me()).unwrap();
    let busy = claim(&directory, &me()).unwrap_err();
    assert_eq!(busy.kind(), Kind::Busy, "the lock tells");
    drop(first);
    claim(&directory, &me()).unwrap();
}

#[test]
fn owners_that_may_live_are_respected_and_dead_ones_replaced() {
    let directory = Directory::new();
    let parent = {
        let pid = std::os::unix::process::parent_id();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let started = stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap().parse().unwrap();
        Owner { pid, started, ..me() }
    };
    drop(claim(&directory, &parent).unwrap());
    assert_eq!(claim(&directory, &me()).unwrap_err().kind(), Kind::Busy, "alive though not locked");
    let dead = [
        Owner { started: parent.started + 1, ..parent.clone() },
        Owner { boot_id: "an earlier boot".into(), ..parent.clone() },
    ];
    for owner in dead {
        fs::write(
            directory.path(&Key::parse(".tierfs/stage/catalog-1/owner").unwrap()),
            serde_json::to_vec(&owner).unwrap(),
        )
        .unwrap();
        drop(claim(&directory, &me()).unwrap());
    }
    let elsewhere = Owner { machine_id: "another".into(), host: "node-7".into(), ..me() };
    fs::write(
        directory.path(&Key::parse(".tierfs/stage/catalog-1/owner").unwrap()),
        serde_json::to_vec(&elsewhere).unwrap(),
    )
    .unwrap();
    let busy = claim(&directory, &me()).unwrap_err();
    assert_eq!(busy.kind(), Kind::Busy);
    assert!(busy.to_string().contains("node-7") && busy.to_string().contains("tierfs adopt"), "{busy}");
}

#[test]
fn staged_files_are_private_and_go_with_all_that_is_theirs() {
    let directory = Directory::new();
    let stage = claim(&directory, &me()).unwrap();
    let mut file = stage.create(NAME, MODE).unwrap();
    file.write_all(b"hello").unwrap();
    assert_eq!(stage.create(NAME, MODE).unwrap_err().kind(), Kind::Exists);
    stage.write_sidecar(NAME, &sidecar()).unwrap();
    stage.write_sidecar(NAME, &Sidecar { seq: None, ..sidecar() }).unwrap();
    assert_eq!(stage.read_sidecar(NAME).unwrap(), Sidecar { seq: None, ..sidecar() });
    stage.copy_from_file(NAME, &file).unwrap();
    stage.sync(NAME).unwrap();
    let path = directory.path(&stage.key(NAME).unwrap());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    stage.remove(NAME).unwrap();
    stage.remove(NAME).unwrap();
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
    assert_eq!(stage.open(NAME, Access::Read).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(stage.read_sidecar(NAME).unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn names_stay_on_the_stage() {
    let directory = Directory::new();
    let stage = claim(&directory, &me()).unwrap();
    for bad in [&b"../x"[..], b"", b"/x", b"a//b", b"a\0"] {
        assert_eq!(stage.create(bad, MODE).unwrap_err().kind(), Kind::Invalid);
    }
}

#[test]
fn all_that_is_staged_is_found_again() {
    let directory = Directory::new();
    let stage = claim(&directory, &me()).unwrap();
    stage.create(NAME, MODE).unwrap().write_all(b"hello").unwrap();
    stage.write_sidecar(NAME, &sidecar()).unwrap();
    stage.create(b"00/7-1", MODE).unwrap();
    let source = stage.open(NAME, Access::Read).unwrap();
    stage.copy_from_file(b"01/8-1", &source).unwrap();
    stage.write_sidecar(b"02/9-1", &sidecar()).unwrap();
    fs::write(directory.path(&stage.key(b"02/9-1.json").unwrap()), b"{torn").unwrap();
    drop(stage);
    let left = Key::parse(".tierfs/stage/catalog-1/tmp/0").unwrap();
    fs::write(directory.path(&left), b"torn").unwrap();
    let stage = claim(&directory, &me()).unwrap();
    assert!(!directory.path(&left).exists());
    let found: Vec<_> = stage
        .list()
        .unwrap()
        .into_iter()
        .map(|staged| {
            let name = String::from_utf8(staged.name).unwrap();
            (name, staged.object.map(|object| object.size), staged.copy, staged.sidecar.is_some())
        })
        .collect();
    assert_eq!(
        found,
        [
            ("00/7-1".into(), Some(0), false, false),
            ("01/8-1".into(), None, true, false),
            ("02/9-1".into(), None, false, false),
            ("3f/1234-5".into(), Some(5), false, true),
        ]
    );
}

#[test]
fn native_files_move_in_and_out() {
    let directory = Directory::new();
    let stage = claim(&directory, &me()).unwrap();
    let native = Key::parse("native").unwrap();
    fs::write(directory.path(&native), b"bytes").unwrap();
    stage.rename_in(&native, NAME).unwrap();
    assert!(!directory.path(&native).exists());
    stage.rename_out(NAME, &native, crate::tier::RenameMode::NoReplace).unwrap();
    assert_eq!(fs::read(directory.path(&native)).unwrap(), b"bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_remote_object_is_copied_in_one_step() {
    let (directory, remote) = (Directory::new(), Remote::new());
    let stage = Arc::new(claim(&directory, &me()).unwrap());
    let streams = Streams::new(MemoryBudget::new(16 * MIB), tokio::runtime::Handle::current());
    let size = 20 * MIB + 7;
    let reader = Reader::open(remote.source(size), streams, None);
    stage.copy_from_reader(NAME, &reader).await.unwrap();
    assert_eq!(stage.open(NAME, Access::Read).unwrap_err().kind(), Kind::NotFound);
    stage.finish_copy(NAME).unwrap();
    let mut bytes = vec![0; size as usize];
    stage.open(NAME, Access::Read).unwrap().read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == content(0..size));
    assert_eq!(remote.sent(), size);

    *remote.version.lock() = crate::types::Version::new("v2");
    let error = stage.copy_from_reader(b"aa/1-1", &fresh(&remote)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Stale);
    assert!(!directory.path(&stage.copy_path(b"aa/1-1").unwrap()).exists(), "no broken copy is left");
}

fn fresh(remote: &Arc<Remote>) -> Arc<Reader> {
    let streams = Streams::new(MemoryBudget::new(16 * MIB), tokio::runtime::Handle::current());
    Reader::open(remote.source(MIB), streams, None)
}
