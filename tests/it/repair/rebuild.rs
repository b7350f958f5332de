//! A damaged catalog is found at start and left as it is; `tierfs rebuild` makes a new one and takes over what is staged.

use super::*;
use crate::support::blob_server::Operation;
use crate::support::wait;
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

fn catalog(mount: &Mount) -> PathBuf {
    mount.config().with_file_name("catalog.db")
}

/// Garbage over the catalog's first page, as a broken disk leaves it; its log, which could mend that, is cut.
fn damage(mount: &Mount) {
    let path = catalog(mount);
    let mut bytes = fs::read(&path).expect("the catalog");
    bytes[100..4096].fill(0xa5);
    fs::write(&path, bytes).expect("damage");
    fs::write(path.with_extension("db-wal"), "").expect("damage");
}

/// What the daemon says that can't start.
#[track_caller]
fn refusal(mount: &Mount) -> String {
    let output = mount.mount_command().output().expect("the tierfs binary");
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    text(&output.stderr)
}

fn owned(mount: &Mount, name: &str, mode: u32, seconds: u64) {
    let path = mount.path(name);
    chown(&path, Some(1000), Some(1001)).expect("chown");
    fs::set_permissions(&path, Permissions::from_mode(mode)).expect("chmod");
    let file = File::options().write(true).open(&path).expect("open");
    file.set_modified(UNIX_EPOCH + Duration::new(seconds, 123_456_789)).expect("utimens");
}

fn facts(path: &Path) -> (u32, u32, u32, u64, i64, i64) {
    let stat = fs::symlink_metadata(path).expect("stat");
    (stat.mode(), stat.uid(), stat.gid(), stat.size(), stat.mtime(), stat.mtime_nsec())
}

/// Names in the order in which they reached Blob since the log was cleared.
pub(super) fn commits(server: &BlobServer) -> Vec<String> {
    let made = |request: &crate::support::blob_server::Logged| {
        matches!(request.operation, Operation::PutBlob | Operation::PutBlockList)
            && request.status.is_some_and(|status| status.is_success())
    };
    let names = server.requests().into_iter().filter(made).map(|request| request.name);
    names.filter(|name| !name.ends_with("run")).collect()
}

#[test]
fn a_damaged_catalog_is_found_at_start_and_left_as_it_is() {
    let (_server, tiers) = own();
    let mut mount = furnished(&tiers);
    assert!(mount.unmount().success(), "{}", mount.log());
    let path = catalog(&mount);
    let good = fs::read(&path).expect("the catalog");
    let garbage = {
        let mut bytes = good.clone();
        let middle = bytes.len() / 2;
        bytes[middle..middle + 4096].fill(0x5a);
        bytes
    };
    let stranger = {
        let other = path.with_file_name("other.db");
        let raw = rusqlite::Connection::open(&other).expect("another database");
        raw.execute_batch("CREATE TABLE mine (x)").expect("a table");
        drop(raw);
        fs::read(other).expect("another database")
    };
    let damages = [
        ("zero length", Vec::new()),
        ("truncated to a page", good[..4096].to_vec()),
        ("truncated in the middle", good[..good.len() / 2 + 100].to_vec()),
        ("garbage in the middle", garbage),
        ("a wrong file", b"[mount]\ncatalog = \"sqlite:///x.db\"\n".to_vec()),
        ("another's database", stranger),
    ];
    for (what, bytes) in damages {
        fs::write(&path, &bytes).expect("damage");
        let said = refusal(&mount);
        assert!(said.contains("tierfs rebuild") && said.contains("is damaged"), "{what}: {said}");
        assert_eq!(said.lines().count(), 1, "{what}: one clear error: {said}");
        assert_eq!(fs::read(&path).expect("the catalog"), bytes, "{what}: it was touched");
        let rebuilt = succeeded(&run(&["rebuild"], mount.config()));
        let aside = rebuilt.split("the old one is ").nth(1).expect("a path").lines().next().expect("a line");
        assert_eq!(fs::read(aside).expect("the old catalog"), bytes, "{what}");
        mount.remount();
        assert_eq!(fs::read(mount.path("blob/clean")).expect("a read"), b"clean", "{what}");
        assert_eq!(fs::read(mount.path("run/homed")).expect("a read"), b"homed", "{what}");
        assert!(mount.unmount().success(), "{what}: {}", mount.log());
    }
    let refused = run(&["rebuild"], mount.config());
    assert_eq!(refused.status.code(), Some(2), "{}", told(&refused));
    assert!(text(&refused.stderr).contains("is sound"), "{}", told(&refused));
}

/// A mount with clean files of every kind at home.
fn furnished(tiers: &Tiers) -> Mount {
    let mount = Mount::of(tiers).rules(LATE).start();
    for name in ["run/homed", "share/kept", "blob/clean", "blob/d/deep"] {
        write(&mount, name, name.rsplit('/').next().expect("a name"));
        owned(&mount, name, 0o4640, 1_234_567_890);
    }
    fs::set_permissions(mount.path("blob/d"), Permissions::from_mode(0o2750)).expect("chmod");
    symlink("clean", mount.path("blob/link")).expect("symlink");
    write(&mount, "blob/over", "older");
    mount.flush();
    mount
}

/// Dirty files in every standing, in this order of their closes.
fn dirty(mount: &Mount) -> File {
    write(mount, "blob/run/a", "first");
    write(mount, "blob/over", "the newest");
    write(mount, "blob/d/b", "in a known directory");
    write(mount, "blob/run/tmp", "renamed");
    write(mount, "blob/run/again", "half");
    owned(mount, "blob/run/a", 0o600, 1_000_000_000);
    // Closed again after all others.
    let append = |name: &str| File::options().append(true).open(mount.path(name)).expect("open");
    append("blob/run/again").write_all(b" and whole").expect("a write");
    fs::rename(mount.path("blob/run/tmp"), mount.path("blob/run/final")).expect("rename");
    write(mount, "blob/run/latest", "final");
    let mut open = File::create(mount.path("blob/run/open")).expect("create");
    open.write_all(b"never closed").expect("a write");
    open
}

#[test]
fn a_rebuild_takes_over_what_is_staged_in_the_order_of_its_closes() {
    let (server, tiers) = own();
    let mut mount = furnished(&tiers);
    let open = dirty(&mount);
    let clean = ["run/homed", "share/kept", "blob/clean", "blob/d/deep", "blob/d"]
        .map(|name| (name, facts(&mount.path(name))));
    let a = facts(&mount.path("blob/run/a"));
    mount.kill9();
    drop(open);
    damage(&mount);
    assert!(refusal(&mount).contains("tierfs rebuild"));
    server.clear_log();

    let said = succeeded(&run(&["rebuild"], mount.config()));
    for name in ["a", "final", "again", "latest"] {
        assert!(said.contains(&format!("taken over: blob/run/{name} (")), "{said}");
    }
    assert!(said.contains("blob/run/open (12 B, never closed)") && said.contains("6 files go on"), "{said}");
    mount.remount();
    for (name, known) in clean {
        let now = facts(&mount.path(name));
        // A directory's own time changes with its entries.
        let compare = |(mode, uid, gid, size, seconds, nanos)| match name {
            "blob/d" => (mode, uid, gid, 0, 0, 0),
            _ => (mode, uid, gid, size, seconds, nanos),
        };
        assert_eq!(compare(now), compare(known), "{name}");
    }
    assert_eq!(fs::read_link(mount.path("blob/link")).expect("readlink"), Path::new("clean"));
    assert_eq!(facts(&mount.path("blob/run/a")), a);
    assert_eq!(fs::read(mount.path("blob/over")).expect("a read"), b"the newest");
    assert_eq!(fs::read(mount.path("blob/run/open")).expect("a read"), b"never closed");
    assert_eq!(errno(fs::metadata(mount.path("blob/run/tmp"))), libc::ENOENT);
    assert_eq!(commits(&server), Vec::<String>::new(), "nothing is asked for yet");

    mount.flush();
    assert_eq!(
        commits(&server),
        ["blob/over", "blob/d/b", "blob/run/a", "blob/run/again", "blob/run/final", "blob/run/latest"],
        "`a` was closed again after its time was set"
    );
    assert_eq!(tiers.expect_blob("blob/over"), b"the newest", "not beside it as a conflict");
    assert_eq!(tiers.expect_blob("blob/run/again"), b"half and whole");
    assert!(tiers.blob("blob/run/open").is_none(), "nobody closed it");
    mount.flush_path("blob/run/open");
    assert_eq!(tiers.expect_blob("blob/run/open"), b"never closed");
    assert!(!tiers.blob_names().iter().any(|name| name.contains("conflict")), "{:?}", tiers.blob_names());
    assert!(mount.unmount().success(), "{}", mount.log());
    let stages = fs::read_dir(tiers.scratch.join(".tierfs/stage")).expect("the stages").count();
    assert_eq!(stages, 1, "nothing is left of the old stage");
    let ids = fs::read_to_string(mount.config().with_file_name("catalog.db.id")).expect("the ids");
    assert_eq!(ids.lines().count(), 1, "nor of its id: {ids}");
}

#[test]
fn a_rebuild_that_dies_is_finished_by_the_next() {
    let (server, tiers) = own();
    let mut mount = furnished(&tiers);
    drop(dirty(&mount));
    mount.kill9();
    damage(&mount);
    for pass in ["1", "2"] {
        let mut command = tierfs();
        command
            .arg("rebuild")
            .arg(mount.config())
            .env("TIERFS_CRASH_AT", format!("taken_over_not_closed:{pass}"));
        let died = command.output().expect("the tierfs binary");
        assert!(!died.status.success() && died.status.code().is_none(), "{}", told(&died));
        assert!(refusal(&mount).contains("tierfs rebuild"), "the damaged one is still in its place");
    }
    server.clear_log();
    succeeded(&run(&["rebuild"], mount.config()));
    mount.remount();
    mount.flush();
    let names = [
        "blob/over",
        "blob/d/b",
        "blob/run/a",
        "blob/run/again",
        "blob/run/final",
        "blob/run/latest",
        "blob/run/open",
    ];
    assert_eq!(commits(&server), names);
    assert_eq!(tiers.expect_blob("blob/over"), b"the newest");
    assert!(mount.unmount().success(), "{}", mount.log());
}

/// Written under a temporary name, then renamed as a whole: what is below the directory says its new path.
#[test]
fn files_of_a_renamed_directory_come_back_under_its_new_name() {
    let (_server, tiers) = own();
    let mut mount = furnished(&tiers);
    write(&mount, "blob/tmp/shards/0", "shard");
    fs::rename(mount.path("blob/tmp"), mount.path("blob/final")).expect("rename");
    write(&mount, "blob/latest", "final");
    // Nothing is dirty there; but whoever asks the mover has it keep its house too. The kernel tells of a close a moment later.
    wait::until("the shard to say its new path", || {
        mount.flush_path("share");
        let described = tiers.sidecars();
        described.iter().any(|sidecar| sidecar.contains("blob/final/shards/0"))
    });
    mount.kill9();
    damage(&mount);
    succeeded(&run(&["rebuild"], mount.config()));
    mount.remount();
    assert_eq!(fs::read(mount.path("blob/final/shards/0")).expect("a read"), b"shard");
    assert_eq!(errno(fs::metadata(mount.path("blob/tmp/shards/0"))), libc::ENOENT);
    mount.flush();
    assert_eq!(tiers.expect_blob("blob/final/shards/0"), b"shard");
    assert!(mount.unmount().success(), "{}", mount.log());
}

/// Home changed behind the dirty file while nobody looked: both are kept.
#[test]
fn what_is_taken_over_overwrites_nobody() {
    let (_server, tiers) = own();
    let mut mount = furnished(&tiers);
    write(&mount, "blob/over", "the newest");
    write(&mount, "blob/new", "ours");
    mount.kill9();
    tiers.put_blob("blob/over", b"by others");
    tiers.put_blob("blob/new", b"by others too");
    damage(&mount);
    succeeded(&run(&["rebuild"], mount.config()));
    mount.remount();
    mount.flush();
    wait::until("both versions", || {
        tiers.blob_names().iter().filter(|name| name.contains(".conflict-")).count() == 2
    });
    let beside = |name: &str| {
        let names = tiers.blob_names();
        let beside = names.iter().find(|other| other.starts_with(&format!("{name}.conflict-")));
        tiers.expect_blob(beside.expect("a conflict copy"))
    };
    assert_eq!(
        (tiers.expect_blob("blob/over"), beside("blob/over")),
        (b"by others".to_vec(), b"the newest".to_vec())
    );
    assert_eq!(
        (tiers.expect_blob("blob/new"), beside("blob/new")),
        (b"by others too".to_vec(), b"ours".to_vec())
    );
    assert!(mount.unmount().success(), "{}", mount.log());
}

#[test]
fn what_can_not_say_what_it_is_gets_a_name() {
    let (_server, tiers) = own();
    let mut mount = furnished(&tiers);
    write(&mount, "blob/mute", "whose?");
    mount.kill9();
    let staged = tiers.staged();
    assert_eq!(staged.len(), 1, "{staged:?}");
    let sidecar = tiers.scratch.join(".tierfs/stage").join(format!("{}.json", staged[0]));
    fs::write(sidecar, "no sidecar").expect("damage");
    damage(&mount);
    let said = succeeded(&run(&["rebuild"], mount.config()));
    assert!(said.contains("look into lost+found"), "{said}");
    mount.remount();
    let found: Vec<PathBuf> = {
        let entries = fs::read_dir(mount.path("lost+found")).expect("a directory");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    };
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(fs::read(&found[0]).expect("a read"), b"whose?");
    fs::copy(&found[0], mount.path("blob/mine")).expect("cp");
    fs::remove_file(&found[0]).expect("rm");
    mount.flush();
    assert_eq!(tiers.expect_blob("blob/mine"), b"whose?");
    assert!(mount.unmount().success(), "{}", mount.log());
}

/// Without its catalog nothing but its mark tells a tier from the mount point below it.
#[test]
fn a_tier_without_its_mark_is_not_rebuilt_upon() {
    let (_server, tiers) = own();
    let mut mount = furnished(&tiers);
    write(&mount, "blob/dirty", "dirty");
    mount.kill9();
    damage(&mount);
    let away = tiers.workspace().join("away");
    fs::rename(&tiers.scratch, &away).expect("rename");
    fs::create_dir(&tiers.scratch).expect("mkdir");
    let refused = run(&["rebuild"], mount.config());
    assert!(text(&refused.stderr).contains("--wiped scratch"), "{}", told(&refused));
    assert!(
        fs::read_dir(&tiers.scratch).expect("a directory").next().is_none(),
        "written to what is not ours"
    );
    fs::remove_dir(&tiers.scratch).expect("rmdir");
    fs::rename(&away, &tiers.scratch).expect("rename");
    succeeded(&run(&["rebuild"], mount.config()));
    mount.remount();
    mount.flush();
    assert_eq!(tiers.expect_blob("blob/dirty"), b"dirty");
    assert!(mount.unmount().success(), "{}", mount.log());
}

/// A catalog that somebody removed is no damage; but what it had staged is said, and can be had.
#[test]
fn the_stage_of_a_removed_catalog_is_not_forgotten() {
    let (_server, tiers) = own();
    let mut mount = furnished(&tiers);
    write(&mount, "blob/dirty", "dirty");
    mount.kill9();
    for suffix in ["", "-wal", "-shm"] {
        let mut path = catalog(&mount).into_os_string();
        path.push(suffix);
        if Path::new(&path).exists() {
            fs::remove_file(path).expect("rm");
        }
    }
    mount.remount();
    assert!(mount.log().contains("1 file is staged by a catalog that is gone"), "{}", mount.log());
    assert_eq!(errno(fs::metadata(mount.path("blob/dirty"))), libc::ENOENT);
    let busy = run(&["rebuild", "--force"], mount.config());
    assert!(text(&busy.stderr).contains("in use by another tierfs daemon"), "{}", told(&busy));
    assert!(mount.unmount().success(), "{}", mount.log());
    succeeded(&run(&["rebuild", "--force"], mount.config()));
    mount.remount();
    assert_eq!(fs::read(mount.path("blob/dirty")).expect("a read"), b"dirty");
    assert!(mount.unmount().success(), "{}", mount.log());
    assert_eq!(tiers.expect_blob("blob/dirty"), b"dirty");
}
