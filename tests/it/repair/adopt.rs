//! A machine that dies with dirty bytes: another mount takes its stage over, or its files are handed out.

use super::rebuild::commits;
use super::*;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

const FILES: usize = 20;

fn name(i: usize) -> String {
    format!("blob/run/step{i:02}")
}

fn bytes(i: usize) -> String {
    format!("{i} ").repeat(1000 + i)
}

/// A mount that died with dirty files, its catalog gone with it; answers its stage.
fn dead(tiers: &Tiers) -> PathBuf {
    let mut mount = Mount::of(tiers).named("dead").rules(LATE).start();
    // Not in the order of their names.
    for i in (0..FILES).rev() {
        write(&mount, &name(i), &bytes(i));
    }
    fs::set_permissions(mount.path(&name(3)), fs::Permissions::from_mode(0o640)).expect("chmod");
    let stage = stage_of(tiers);
    mount.kill9();
    crate::support::mount::detach(mount.root());
    fs::remove_dir_all(mount.config().parent().expect("its place")).expect("rm -rf");
    stage
}

/// The only stage on scratch.
fn stage_of(tiers: &Tiers) -> PathBuf {
    let mut stages = fs::read_dir(tiers.scratch.join(".tierfs/stage")).expect("stages");
    let stage = stages.next().expect("a stage").expect("an entry").path();
    assert!(stages.next().is_none());
    stage
}

/// Another mount on the same tiers, which is not mounted now.
fn heir(tiers: &Tiers) -> Mount {
    let mut heir = Mount::of(tiers).named("heir").rules(LATE).start();
    assert!(heir.unmount().success(), "{}", heir.log());
    heir
}

fn adopt(stage: &Path, heir: &Mount, options: &[&str]) -> Output {
    let stage = stage.to_str().expect("UTF-8");
    run(&[&["adopt", stage], options, &["--config"]].concat(), heir.config())
}

fn rescue(stage: &Path, to: &Path, options: &[&str]) -> Output {
    run(&[&["rescue", stage.to_str().expect("UTF-8")], options].concat(), to)
}

#[track_caller]
fn refused(output: &Output, code: i32, words: &str) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{}", told(output));
    assert!(said.contains(words), "{said}");
}

#[test]
fn a_dead_mounts_files_are_adopted_in_the_order_of_their_closes() {
    let (server, tiers) = own();
    let stage = dead(&tiers);
    let mut heir = heir(&tiers);
    server.clear_log();
    let said = succeeded(&adopt(&stage, &heir, &[]));
    assert!(said.contains("20 files taken over"), "{said}");
    assert!(!stage.exists(), "nothing is left there");
    heir.remount();
    for i in 0..FILES {
        assert_eq!(fs::read_to_string(heir.path(&name(i))).expect("at once"), bytes(i));
    }
    assert_eq!(fs::metadata(heir.path(&name(3))).expect("stat").permissions().mode() & 0o7777, 0o640);
    heir.flush();
    let in_order: Vec<String> = (0..FILES).rev().map(name).collect();
    assert_eq!(commits(&server), in_order);
    for i in 0..FILES {
        assert_eq!(tiers.expect_blob(&name(i)), bytes(i).as_bytes());
    }
}

#[test]
fn a_dead_mounts_files_are_handed_out_without_config_or_daemon() {
    let (_server, tiers) = own();
    let stage = dead(&tiers);
    let to = tiers.workspace().join("rescued");
    let before = crate::support::site::files_below(&stage);
    let said = succeeded(&rescue(&stage, &to, &[]));
    assert!(said.contains("20 files copied"), "{said}");
    for i in 0..FILES {
        assert_eq!(fs::read_to_string(to.join(name(i))).expect("it is there"), bytes(i));
    }
    assert_eq!(fs::metadata(to.join(name(3))).expect("stat").permissions().mode() & 0o7777, 0o640);
    assert_eq!(crate::support::site::files_below(&stage), before, "the stage is as it was");
    refused(&rescue(&stage, &to, &[]), 2, "is not empty");
    // Who was rescued can still be adopted.
    succeeded(&adopt(&stage, &heir(&tiers), &[]));
}

/// The catalog is gone with all it knew: `check` finds the stage, and what it says to do can be pasted.
#[test]
fn check_names_the_stage_of_a_dead_mount_and_the_commands() {
    let (server, tiers) = own();
    let mut mount = Mount::of(&tiers).named("dead").rules(LATE).start();
    for i in (0..FILES).rev() {
        write(&mount, &name(i), &bytes(i));
    }
    let stage = stage_of(&tiers);
    let mut heir = heir(&tiers);
    let checked = || run(&["check"], heir.config());
    let said = succeeded(&checked());
    assert!(said.contains("20 files") && said.contains("which lives"), "{said}");
    assert!(!said.contains("tierfs adopt"), "{said}");
    mount.kill9();
    crate::support::mount::detach(mount.root());
    fs::remove_dir_all(mount.config().parent().expect("its place")).expect("rm -rf");
    let said = succeeded(&checked());
    let line = said.lines().find(|line| line.contains("tierfs adopt")).expect("a line of the dead stage");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a host name");
    for part in ["warn  tier scratch: stage ", "20 files", "which is dead", host.trim(), " since 20"] {
        assert!(line.contains(part), "no {part:?} in {line}");
    }
    let commands: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
    let to = tiers.workspace().join("rescued");
    let rescue = commands[1].replace("DEST", to.to_str().expect("UTF-8"));
    for command in [&rescue, commands[0]] {
        let arguments = command.strip_prefix("tierfs ").expect("a command of ours").split(' ');
        let output = tierfs().args(arguments).stdin(Stdio::null()).output().expect("the tierfs binary");
        succeeded(&output);
    }
    assert!(!stage.exists());
    for i in 0..FILES {
        assert_eq!(fs::read_to_string(to.join(name(i))).expect("rescued"), bytes(i));
    }
    assert!(!succeeded(&checked()).contains("tierfs adopt"), "all is taken over");
    server.clear_log();
    heir.remount();
    heir.flush();
    assert_eq!(commits(&server), (0..FILES).rev().map(name).collect::<Vec<_>>());
    for i in 0..FILES {
        assert_eq!(tiers.expect_blob(&name(i)), bytes(i).as_bytes());
    }
}

#[test]
fn the_stage_of_a_mount_that_may_live_is_refused() {
    let (_server, tiers) = own();
    let mut living = Mount::of(&tiers).named("living").rules(LATE).start();
    write(&living, &name(0), "dirty");
    let stage = stage_of(&tiers);
    let to = tiers.workspace().join("rescued");
    let heir = heir(&tiers);
    refused(&rescue(&stage, &to, &["--owner-is-gone"]), 1, "in use by pid");
    refused(&adopt(&stage, &heir, &["--owner-is-gone"]), 1, "in use by pid");
    living.kill9();
    // Another machine's: nobody here knows.
    let owner = stage.join("owner");
    let mut said: serde_json::Value =
        serde_json::from_slice(&fs::read(&owner).expect("owner")).expect("JSON");
    said["machine_id"] = "another".into();
    said["host"] = "gpu-7".into();
    fs::write(&owner, said.to_string()).expect("a write");
    refused(&rescue(&stage, &to, &[]), 1, "--owner-is-gone");
    refused(&adopt(&stage, &heir, &[]), 1, "gpu-7");
    succeeded(&rescue(&stage, &to, &["--owner-is-gone"]));
    succeeded(&adopt(&stage, &heir, &["--owner-is-gone"]));
    assert_eq!(fs::read_to_string(to.join(name(0))).expect("rescued"), "dirty");
}

#[test]
fn what_is_no_stage_of_another_is_refused() {
    let (_server, tiers) = own();
    let heir = heir(&tiers);
    let own = stage_of(&tiers);
    refused(&adopt(&own, &heir, &[]), 2, "config's own catalog");
    refused(&adopt(&tiers.scratch, &heir, &[]), 2, "is no stage");
    refused(&adopt(&tiers.scratch.join("missing"), &heir, &[]), 1, "missing");
    let elsewhere = tiers.workspace().join("elsewhere/.tierfs/stage/0a");
    fs::create_dir_all(&elsewhere).expect("mkdir");
    refused(&adopt(&elsewhere, &heir, &[]), 2, "tierfs rescue");
}

const LARGE: usize = 65 << 20;

/// A mount that died with a large file of which two places were written; answers its stage and what the file is.
fn dead_with_a_part(server: &crate::support::blob_server::BlobServer, tiers: &Tiers) -> (PathBuf, Vec<u8>) {
    use std::os::unix::fs::FileExt;
    let mut whole = crate::support::noise(3, LARGE);
    tiers.container().put_in_blocks("blob/large", &whole, 8 << 20);
    let mut mount = Mount::of(tiers).named("dead").rules(LATE).start();
    let file = fs::File::options().write(true).open(mount.path("blob/large")).expect("open");
    for (at, bytes) in [(10 << 20, &b"here"[..]), (LARGE, b"appended")] {
        file.write_all_at(bytes, at as u64).expect("a write");
        whole.resize(whole.len().max(at + bytes.len()), 0);
        whole[at..at + bytes.len()].copy_from_slice(bytes);
    }
    drop(file);
    let stage = stage_of(tiers);
    mount.kill9();
    crate::support::mount::detach(mount.root());
    fs::remove_dir_all(mount.config().parent().expect("its place")).expect("rm -rf");
    server.clear_log();
    (stage, whole)
}

#[test]
fn a_partly_staged_file_is_adopted_with_what_it_lacks() {
    let (server, tiers) = own();
    let (stage, whole) = dead_with_a_part(&server, &tiers);
    let mut heir = heir(&tiers);
    let said = succeeded(&adopt(&stage, &heir, &[]));
    assert!(said.contains("partly staged"), "{said}");
    assert!(!stage.exists(), "nothing is left there");
    heir.remount();
    assert!(fs::read(heir.path("blob/large")).expect("at once") == whole);
    // Its base is not lost to a rename.
    fs::rename(heir.path("blob/large"), heir.path("blob/moved")).expect("rename");
    heir.flush();
    assert!(tiers.expect_blob("blob/moved") == whole);
    assert_eq!(tiers.blob_file_names(), ["blob/moved"]);
}

#[test]
fn a_partly_staged_file_is_handed_out_as_what_it_is() {
    let (server, tiers) = own();
    let (stage, whole) = dead_with_a_part(&server, &tiers);
    let to = tiers.workspace().join("rescued");
    let before = crate::support::site::files_below(&stage);
    let said = succeeded(&rescue(&stage, &to, &[]));
    assert!(said.contains("blob/large.tierfs-partial") && said.contains("partly staged"), "{said}");
    assert!(!to.join("blob/large").exists(), "no file with silent zeros");
    let part = fs::read(to.join("blob/large.tierfs-partial")).expect("a part");
    let about = fs::read(to.join("blob/large.tierfs-partial.json")).expect("what it lacks");
    let about: serde_json::Value = serde_json::from_slice(&about).expect("JSON");
    assert_eq!(about["missing_is_in"]["key"], "blob/large");
    // Whoever has the blob can put the two together.
    let mut together = part;
    let base = tiers.expect_blob("blob/large");
    for gap in about["missing"].as_array().expect("ranges") {
        let end = |at: usize| usize::try_from(gap[at].as_u64().expect("a number")).expect("a size");
        together[end(0)..end(1)].copy_from_slice(&base[end(0)..end(1)]);
    }
    assert!(together == whole);
    assert_eq!(crate::support::site::files_below(&stage), before, "the stage is as it was");
}
