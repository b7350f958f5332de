//! `tierfs fsck`: clean after heavy use, and each kind of damage, planted by hand, is found, named and mended where that costs no byte.

use super::*;
use crate::support::site::files_below;
use crate::support::{Mode, noise};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// What fsck says: its exit code, its findings and its last line.
struct Said {
    code: Option<i32>,
    lines: Vec<Value>,
    told: String,
}

impl Said {
    fn of(mount: &Mount, arguments: &[&str]) -> Self {
        let arguments = [&["fsck", "--json"], arguments].concat();
        let output = run(&arguments, mount.config());
        let lines =
            text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        Self { code: output.status.code(), lines, told: told(&output) }
    }

    /// `what path` of each finding, sorted.
    fn findings(&self, when: &str) -> Vec<String> {
        let lines = self.lines.iter().filter(|line| line["when"] == when);
        let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let mut found: Vec<String> =
            lines.map(|line| format!("{} {}", word(&line["what"]), word(&line["path"]))).collect();
        found.sort();
        found
    }
}

#[track_caller]
fn is_clean(mount: &Mount) {
    let said = Said::of(mount, &[]);
    assert_eq!(said.code, Some(0), "{}\n{}", said.told, mount.log());
    assert_eq!(said.findings("found"), Vec::<String>::new());
    let words = succeeded(&run(&["fsck"], mount.config()));
    assert!(words.starts_with("clean: "), "{words}");
}

fn sql(mount: &Mount, text: &str) {
    let raw = rusqlite::Connection::open(mount.config().with_file_name("catalog.db")).expect("the catalog");
    raw.execute_batch(text).expect(text);
}

/// All rows that mean something, and all bytes on the directory tiers.
fn everything(mount: &Mount, tiers: &Tiers) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    let raw = rusqlite::Connection::open(mount.config().with_file_name("catalog.db")).expect("the catalog");
    for table in ["tier", "inode", "dentry", "xattr", "place", "replica", "step", "intent", "lost"] {
        let mut statement = raw.prepare(&format!("SELECT * FROM {table}")).expect(table);
        let columns = statement.column_count();
        let mut rows = statement.query([]).expect(table);
        let mut text = String::new();
        while let Some(row) = rows.next().expect(table) {
            for column in 0..columns {
                text += &format!("{:?} ", row.get_ref(column).expect(table));
            }
            text.push('\n');
        }
        all.insert(table.to_owned(), text.into_bytes());
    }
    for root in [&tiers.scratch, &tiers.share] {
        for name in files_below(root) {
            let path = root.join(name);
            // Links are what they are.
            let bytes = if path.is_symlink() { Vec::new() } else { fs::read(&path).expect("a read") };
            all.insert(path.display().to_string(), bytes);
        }
    }
    all
}

/// Everyday work below `dir`, which leaves something of every kind.
fn work(mount: &Mount, dir: &str) {
    let path = |name: &str| mount.path(&format!("{dir}/{name}"));
    fs::create_dir_all(path("d/e")).expect("mkdir");
    for i in 0..40_u64 {
        let name = path(&format!("d/f{i}"));
        fs::write(&name, noise(i, 1000 + 777 * i as usize)).expect("a write");
        match i % 8 {
            0 => fs::rename(&name, path(&format!("d/e/moved{i}"))).expect("rename"),
            1 => fs::remove_file(&name).expect("rm"),
            2 => fs::set_permissions(&name, fs::Permissions::from_mode(0o600)).expect("chmod"),
            3 => fs::hard_link(&name, path(&format!("d/e/link{i}"))).expect("ln"),
            4 => symlink(format!("f{i}"), path(&format!("d/e/soft{i}"))).expect("ln -s"),
            5 => {
                let file = File::options().read(true).append(true).open(&name).expect("open");
                (&file).write_all(b"more").expect("a write");
                file.set_modified(SystemTime::UNIX_EPOCH + Duration::new(1_000_000, 5)).expect("utimens");
            }
            6 => {
                let file = File::options().write(true).open(&name).expect("open");
                file.write_at(b"over", 100).expect("a write");
                file.set_len(500).expect("truncate");
            }
            _ => {
                let mut bytes = Vec::new();
                File::open(&name).expect("open").read_to_end(&mut bytes).expect("a read");
                fs::write(&name, &bytes[1..]).expect("a write");
            }
        }
    }
    fs::rename(path("d/e"), path("renamed")).expect("rename");
    fs::rename(path("renamed/moved0"), path("d/f2")).expect("rename over");
    fs::create_dir(path("gone")).expect("mkdir");
    fs::remove_dir(path("gone")).expect("rmdir");
    fs::create_dir(path("empty")).expect("mkdir");
}

#[test]
fn a_tree_after_heavy_use_is_clean() {
    for mode in [Mode::Passthrough, Mode::Ordinary] {
        let (_server, tiers) = own();
        let mut mount = Mount::of(&tiers).rules(LATE).mode(mode).start();
        for dir in ["blob", "share", "plain"] {
            work(&mount, dir);
        }
        mount.flush();
        fs::rename(mount.path("blob/d"), mount.path("plain/from-blob")).expect("rename");
        fs::rename(mount.path("share/d"), mount.path("blob/from-share")).expect("rename");
        assert!(mount.unmount().success(), "{}", mount.log());
        is_clean(&mount);
        // In the middle of it, and after the recovery from that.
        mount.remount();
        work(&mount, "blob/again");
        work(&mount, "plain/again");
        mount.kill9();
        let said = Said::of(&mount, &["--repair"]);
        assert_eq!((said.code, said.findings("left")), (Some(0), vec![]), "{}", said.told);
        is_clean(&mount);
        mount.remount();
        mount.flush();
        assert!(mount.unmount().success(), "{}", mount.log());
        is_clean(&mount);
    }
}

/// A staged file as another power loss left it: the bytes, and maybe what they say of themselves.
fn plant_staged(tiers: &Tiers, name: &str, bytes: &[u8], sidecar: Option<Value>) {
    let stages = tiers.scratch.join(".tierfs/stage");
    let stage = fs::read_dir(stages).expect("the stages").next().expect("a stage").expect("a stage").path();
    let path = stage.join(name);
    fs::create_dir_all(path.parent().expect("a parent")).expect("mkdir");
    fs::write(&path, bytes).expect("a write");
    if let Some(sidecar) = sidecar {
        fs::write(
            path.with_file_name(format!("{}.json", path.file_name().expect("a name").to_string_lossy())),
            sidecar.to_string(),
        )
        .expect("a sidecar");
    }
}

fn mtime_ns(tiers: &Tiers, name: &str) -> u64 {
    let stages = tiers.scratch.join(".tierfs/stage");
    let stage = fs::read_dir(stages).expect("the stages").next().expect("a stage").expect("a stage").path();
    let modified = fs::metadata(stage.join(name)).expect("stat").modified().expect("mtime");
    u64::try_from(modified.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_nanos())
        .expect("a time")
}

fn sidecar(path: &str, bytes: &[u8], mtime_ns: u64, seq: u64) -> Value {
    serde_json::json!({
        "v": 1, "path": path, "ino": 900_000 + seq, "generation": 3, "seq": seq, "mode": 0o640, "uid": 7, "gid": 8,
        "mtime_ns": mtime_ns, "size": bytes.len(), "home": "x", "state": "closed"
    })
}

fn orphan(tiers: &Tiers, path: &str, bytes: &[u8], seq: u64) {
    let name = format!("aa/{}-3", 900_000 + seq);
    plant_staged(tiers, &name, bytes, None);
    plant_staged(tiers, &name, bytes, Some(sidecar(path, bytes, 0, seq)));
    let sidecar = sidecar(path, bytes, mtime_ns(tiers, &name), seq);
    // Only the description is written again: the bytes keep their time.
    let stages = tiers.scratch.join(".tierfs/stage");
    let stage = fs::read_dir(stages).expect("the stages").next().expect("a stage").expect("a stage").path();
    fs::write(stage.join(format!("{name}.json")), sidecar.to_string()).expect("a sidecar");
}

#[test]
fn each_kind_of_damage_is_found_and_mended() {
    let tiers = Tiers::with_azurite();
    let mut mount = Mount::of(&tiers).rules(LATE).start();
    for name in [
        "share/missing",
        "share/longer",
        "share/other",
        "share/kept",
        "blob/missing",
        "blob/doomed",
        "blob/old",
        "run/kept",
    ] {
        write(&mount, name, name);
    }
    mount.flush();
    assert!(mount.unmount().success(), "{}", mount.log());
    is_clean(&mount);

    fs::remove_file(tiers.share.join("share/missing")).expect("rm");
    fs::write(tiers.share.join("share/longer"), "longer than it was before").expect("a write");
    fs::write(tiers.share.join("share/other"), "shar3/other").expect("a write");
    tiers.container().delete("blob/missing");
    orphan(&tiers, "blob/deep/orphan", b"orphaned", 7);
    orphan(&tiers, "blob/old", b"a second one", 8);
    plant_staged(&tiers, "bb/1-1", b"nameless", None);
    plant_staged(&tiers, "cc/2-1.copy", b"a copy that died", None);
    let part: PathBuf =
        tiers.scratch.join(".tierfs/hot/aa").join("a".repeat(64)).join(format!("{}.part", "b".repeat(64)));
    fs::create_dir_all(part.parent().expect("a parent")).expect("mkdir");
    File::create(&part).expect("a part").set_modified(SystemTime::UNIX_EPOCH).expect("utimens");
    sql(
        &mount,
        "CREATE TEMP TABLE d AS SELECT ino FROM dentry WHERE name = CAST('doomed' AS BLOB);
         UPDATE replica SET ino = 0, generation = 0 WHERE ino IN d; DELETE FROM dentry WHERE ino IN d;
         DELETE FROM step WHERE ino IN d; DELETE FROM inode WHERE ino IN d;",
    );
    let expected = [
        "delete -",
        "litter -",
        "litter -",
        "missing blob/missing",
        "missing share/missing",
        "orphan -",
        "orphan blob/deep/orphan",
        "orphan blob/old",
        "size share/longer",
        "version share/other",
    ];

    let before = everything(&mount, &tiers);
    let said = Said::of(&mount, &[]);
    assert_eq!(
        (said.code, said.findings("found")),
        (Some(1), expected.map(str::to_owned).to_vec()),
        "{}",
        said.told
    );
    let after = everything(&mount, &tiers);
    for (name, bytes) in &before {
        assert!(after.get(name) == Some(bytes), "{name} was changed by a look");
    }
    assert_eq!(after.len(), before.len(), "a look made something");

    let said = Said::of(&mount, &["--repair"]);
    assert_eq!((said.code, said.findings("left")), (Some(0), vec![]), "{}", said.told);
    is_clean(&mount);
    let lost = succeeded(&run(&["tier", "lost", "--config"], mount.config()));
    assert!(lost.contains("LOST share/missing") && lost.contains("LOST blob/missing"), "{lost}");
    assert!(!part.exists(), "what a dead fill left is gone");

    mount.remount();
    assert_eq!(fs::read(mount.path("share/longer")).expect("a read"), b"longer than it was before");
    assert_eq!(fs::read(mount.path("share/other")).expect("a read"), b"shar3/other");
    assert_eq!(fs::read(mount.path("blob/deep/orphan")).expect("a read"), b"orphaned");
    assert_eq!(
        fs::metadata(mount.path("blob/deep/orphan")).expect("stat").permissions().mode() & 0o7777,
        0o640
    );
    for name in ["share/missing", "blob/missing", "blob/doomed"] {
        assert_eq!(errno(fs::metadata(mount.path(name))), libc::ENOENT, "{name}");
    }
    // The catalog knows a file of that name: nothing goes over it.
    assert_eq!(fs::read(mount.path("blob/old")).expect("a read"), b"blob/old");
    let names = |dir: &str| -> Vec<String> {
        let entries = fs::read_dir(mount.path(dir)).expect("a directory");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    };
    let beside =
        names("blob").into_iter().find(|name| name.starts_with("old.conflict-")).expect("the other one");
    assert_eq!(fs::read(mount.path("blob").join(beside)).expect("a read"), b"a second one");
    let nameless = names("lost+found");
    assert_eq!(nameless.len(), 1, "{nameless:?}");
    assert_eq!(fs::read(mount.path("lost+found").join(&nameless[0])).expect("a read"), b"nameless");
    mount.flush();
    assert_eq!(tiers.expect_blob("blob/deep/orphan"), b"orphaned");
    assert!(tiers.blob("blob/doomed").is_none(), "the delete was done");
    assert!(tiers.blob("blob/old").is_some());
}

#[test]
fn what_a_person_must_decide_is_said_and_left() {
    let (_server, tiers) = own();
    let mut mount = Mount::of(&tiers).rules(LATE).start();
    for name in ["share/one", "share/two", "blob/clean"] {
        write(&mount, name, name);
    }
    mount.flush();
    write(&mount, "blob/dirty", "dirty");
    mount.kill9();
    is_clean(&mount);

    // One file under two names that are two files here; dirty bytes that are gone; tables that contradict each other.
    fs::remove_file(tiers.share.join("share/two")).expect("rm");
    fs::hard_link(tiers.share.join("share/one"), tiers.share.join("share/two")).expect("ln");
    let staged = tiers.staged();
    assert_eq!(staged.len(), 1, "{staged:?}");
    fs::remove_file(tiers.scratch.join(".tierfs/stage").join(&staged[0])).expect("rm");
    sql(
        &mount,
        "UPDATE inode SET nlink = 5 WHERE ino IN (SELECT ino FROM dentry WHERE name = CAST('clean' AS BLOB))",
    );
    let expected = ["catalog -", "lost blob/dirty", "owned-twice share/two"].map(str::to_owned).to_vec();
    let said = Said::of(&mount, &[]);
    let owned_by = |said: &Said, when| -> Vec<String> {
        // Which of the two names is met first is the catalog's business.
        said.findings(when).into_iter().map(|line| line.replace("share/one", "share/two")).collect()
    };
    assert_eq!((said.code, owned_by(&said, "found")), (Some(1), expected.clone()), "{}", said.told);
    let said = Said::of(&mount, &["--repair"]);
    assert_eq!((said.code, owned_by(&said, "left")), (Some(1), expected), "{}", said.told);
    assert!(said.lines.iter().filter(|line| line["when"] == "left").all(|line| line["decide"].is_string()));
    let words = text(&run(&["fsck", "--repair"], mount.config()).stdout);
    assert!(words.contains("left: lost: blob/dirty on tier scratch"), "{words}");
    assert!(words.contains("decide: write it again, or delete it"), "{words}");

    sql(&mount, "UPDATE inode SET nlink = 1 WHERE nlink = 5");
    mount.remount();
    assert_eq!(errno(fs::read(mount.path("blob/dirty"))), libc::EIO, "never an empty file");
    fs::remove_file(mount.path("blob/dirty")).expect("rm");
    fs::remove_file(mount.path("share/two")).expect("rm");
    mount.flush();
    assert!(mount.unmount().success(), "{}", mount.log());
    is_clean(&mount);
}

#[test]
fn what_was_begun_is_finished() {
    let (_server, tiers) = own();
    let mut mount = Mount::of(&tiers).rules(LATE).start();
    write(&mount, "blob/a", "a");
    write(&mount, "run/a", "a");
    mount.flush();
    assert!(mount.unmount().success(), "{}", mount.log());
    mount.set_environment("TIERFS_CRASH_AT", "rename_intended");
    mount.remount();
    assert!(fs::rename(mount.path("run/a"), mount.path("run/b")).is_err());
    mount.wait_for_end();
    mount.set_environment("TIERFS_CRASH_AT", "");
    let said = Said::of(&mount, &[]);
    assert_eq!(
        (said.code, said.findings("found")),
        (Some(1), vec!["unfinished -".to_owned()]),
        "{}",
        said.told
    );
    let said = Said::of(&mount, &["--repair"]);
    assert_eq!((said.code, said.findings("left")), (Some(0), vec![]), "{}", said.told);
    assert_eq!(tiers.scratch_names(), ["run/b"]);
    is_clean(&mount);
}

#[test]
fn an_absent_tier_and_a_mounted_catalog_are_said() {
    let (_server, tiers) = own();
    let mut mount = Mount::of(&tiers).rules(LATE).start();
    write(&mount, "run/a", "a");
    write(&mount, "share/a", "a");
    let busy = run(&["fsck"], mount.config());
    assert!(
        busy.status.code() == Some(1) && text(&busy.stderr).contains("unmount that one first"),
        "{}",
        told(&busy)
    );
    assert!(mount.unmount().success(), "{}", mount.log());
    let away = tiers.workspace().join("away");
    fs::rename(&tiers.scratch, &away).expect("rename");
    fs::create_dir(&tiers.scratch).expect("mkdir");
    for arguments in [&[][..], &["--repair"]] {
        let said = Said::of(&mount, arguments);
        assert_eq!(
            (said.code, said.findings("found")),
            (Some(1), vec!["unreachable -".to_owned()]),
            "{}",
            said.told
        );
        assert!(
            fs::read_dir(&tiers.scratch).expect("a directory").next().is_none(),
            "written to what is not ours"
        );
    }
    fs::remove_dir(&tiers.scratch).expect("rmdir");
    fs::rename(&away, &tiers.scratch).expect("rename");
    is_clean(&mount);
}
