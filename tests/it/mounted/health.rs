//! Trouble with a voice: what keeps files from their home is said, with its age, and how urgent it is.

use crate::support::blob_server::{BlobServer, Effect, WRITES, When};
use crate::support::mount::{on_own_server, told};
use crate::support::{Mode, Mount, Tiers, noise, wait};
use std::fs::{self, File};
use std::io::Write;
use std::process::{Command, Output};

fn rig() -> (BlobServer, Tiers, Mount) {
    on_own_server(crate::support::mount::RULES, Mode::Ordinary, &["blob"])
}

fn health(mount: &Mount) -> Output {
    let mut tierstat = Command::new(env!("CARGO_BIN_EXE_tierstat"));
    tierstat.arg("health").arg(mount.root()).output().expect("the tierstat binary")
}

#[track_caller]
fn is(mount: &Mount, code: i32, words: &str) {
    let output = health(mount);
    assert_eq!(output.status.code(), Some(code), "{}", told(&output));
    assert!(told(&output).contains(words), "{}", told(&output));
}

/// Whoever rotates a secret: all is refused for a while, nothing is given up, and nobody has to ask again.
#[test]
fn denied_uploads_are_kept_told_and_go_on_by_themselves() {
    let (server, tiers, mount) = rig();
    let denied = Effect::DENIED;
    server.fault(When::operation(&WRITES), denied);
    let files: Vec<_> = (0..5).map(|i| (format!("blob/f{i}"), noise(i, 100_000))).collect();
    for (name, bytes) in &files {
        fs::write(mount.path(name), bytes).expect("a write");
    }
    wait::until("the refusal to be told", || mount.status()["queue"]["retrying"] == 1);
    let told = mount.status();
    assert_eq!(told["failing"]["about"], "blob/f0");
    for error in [&told["failing"]["error"], &told["last_error"]["message"]] {
        let error = error.as_str().expect("text");
        assert!(error.contains("403") && error.contains("credentials"), "{error}");
    }
    assert!(told["last_error"]["at_s"].as_u64() > Some(0) && told["failing"]["since_s"].as_u64() < Some(60));
    assert_eq!((&told["dirty"]["files"], &told["dirty"]["bytes"]), (&5.into(), &500_000.into()));
    assert!(told["dirty"]["oldest_age_s"].is_u64(), "{told}");
    assert_eq!(told["queue"]["length"], 5);
    let blob = told["tiers"].as_array().expect("tiers").iter().find(|tier| tier["name"] == "blob");
    assert_eq!(blob.expect("the tier")["dirty_bytes"], 500_000);
    let screen = mount.tierstat(&[]);
    assert!(screen.contains("oldest closed") && screen.contains("1 to be tried again"), "{screen}");
    assert!(screen.lines().any(|line| line.starts_with("error") && line.contains(" ago: ")), "{screen}");
    assert_eq!(tiers.blob_file_names(), [""; 0]);
    for (name, bytes) in &files {
        assert!(&fs::read(mount.path(name)).expect("kept") == bytes, "{name}");
    }

    server.clear_faults();
    wait::until("all to be home", || tiers.blob_file_names().len() == files.len());
    for (name, bytes) in &files {
        assert!(&tiers.expect_blob(name) == bytes, "{name}");
    }
    wait::until("nothing to be left", || {
        let now = mount.status();
        now["queue"]["retrying"] == 0 && now["dirty"]["files"] == 0 && now["failing"].is_null()
    });
    is(&mount, 0, "fine");
    // What went wrong last stays told, with its age.
    assert!(mount.tierstat(&[]).contains(" ago: blob/f0"), "{}", mount.tierstat(&[]));
}

#[test]
fn health_is_2_while_a_person_is_needed_and_0_afterwards() {
    let (server, tiers, mut mount) = rig();
    is(&mount, 0, "fine");
    let refused = Effect::Refuse { status: 400, code: "InvalidMetadata", retry_after: None };
    server.fault(When::operation(&WRITES).name("bad"), refused);
    fs::write(mount.path("blob/bad"), "text").expect("a write");
    wait::until("the refusal", || mount.status()["blocked_files"] == 1);
    is(&mount, 2, "now  blob/bad can't reach its home");
    server.clear_faults();
    mount.flush();
    is(&mount, 0, "fine");

    // Both versions are kept, until somebody has dealt with the second.
    let mut ours = File::options().append(true).open(mount.path("blob/bad")).expect("open");
    tiers.put_blob("blob/bad", b"theirs");
    ours.write_all(b"ours").expect("a write");
    drop(ours);
    mount.flush();
    is(&mount, 2, "1 file changed at home");
    let names = tiers.blob_file_names();
    let aside = names.iter().find(|name| name.contains(".conflict-")).expect("a conflict copy");
    fs::rename(mount.path(aside), mount.path("blob/ours")).expect("a rename");
    is(&mount, 0, "fine");
    assert_eq!(mount.status()["conflicts"], 1);
    mount.flush();

    let mark = tiers.scratch.join(".tierfs/id");
    let kept = fs::read(&mark).expect("the mark");
    fs::remove_file(&mark).expect("rm");
    wait::until("the tier to be missed", || health(&mount).status.code() == Some(2));
    is(&mount, 2, "tier scratch is absent");
    fs::write(&mark, kept).expect("a write");
    wait::until("the tier to be back", || health(&mount).status.code() == Some(0));

    mount.kill9();
    is(&mount, 2, "the daemon of");
    crate::support::mount::detach(mount.root());
    is(&mount, 3, "is not in a tierfs mount");
}
