//! `scratch_can_be_wiped`, and its twin: a tier that is not mounted is not wiped.

use super::*;
use crate::support::wait;

fn status(mount: &Mount) -> String {
    mount.tierstat(&[])
}

/// A mount with a file in every standing: at home on scratch, on Blob with a hot copy, dirty, dirty over an older version.
fn furnished(tiers: &Tiers) -> Mount {
    let mount = Mount::of(tiers).rules(LATE).start();
    write(&mount, "run/homed", "homed");
    fs::create_dir(mount.path("run/empty")).expect("mkdir");
    write(&mount, "share/kept", "kept");
    write(&mount, "blob/clean", "clean");
    write(&mount, "blob/over", "older");
    mount.flush();
    assert_eq!(fs::read(mount.path("blob/clean")).expect("a read"), b"clean");
    write(&mount, "blob/over", "the newest");
    write(&mount, "blob/dirty", "dirty");
    mount
}

fn wait_until_absent(mount: &Mount) {
    wait::until("the tier to be missed", || status(mount).contains("tier scratch is absent"));
}

#[test]
fn scratch_can_be_wiped() {
    let (_server, tiers) = own();
    let mut mount = furnished(&tiers);
    assert!(!tiers.hot_copies().is_empty(), "what was committed is a hot copy");
    wipe(&tiers.scratch);
    wait_until_absent(&mount);

    // Nobody has said that it was wiped: nothing is lost, nothing is there, nothing is written.
    assert_eq!(errno(fs::read(mount.path("run/homed"))), libc::EIO);
    assert_eq!(errno(fs::read(mount.path("blob/dirty"))), libc::EIO);
    assert!(fs::write(mount.path("blob/new"), "x").is_err() && fs::write(mount.path("new"), "x").is_err());
    assert_eq!(fs::read(mount.path("blob/clean")).expect("home is there"), b"clean");
    assert_eq!(fs::read(mount.path("share/kept")).expect("a read"), b"kept");
    let written: Vec<_> = fs::read_dir(&tiers.scratch).expect("a directory").flatten().collect();
    assert!(written.is_empty(), "written to what is not ours: {written:?}");

    let said = mount.tierfs(&["tier", "accept", "scratch"]);
    let mut lost: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("LOST ")).collect();
    lost.sort_unstable();
    assert_eq!(
        lost,
        [
            "blob/dirty (5 B, on tier scratch)",
            "blob/over (10 B, on tier scratch); home has an older version",
            "run/homed (5 B, on tier scratch)",
        ]
    );
    assert!(said.contains("3 files LOST"), "{said}");
    assert!(mount.log().contains("LOST path=run/homed"), "{}", mount.log());

    for name in ["run/homed", "blob/dirty", "run/empty", "run"] {
        assert_eq!(errno(fs::symlink_metadata(mount.path(name))), libc::ENOENT, "{name}");
    }
    assert_eq!(fs::read(mount.path("blob/over")).expect("the older version"), b"older");
    assert_eq!(fs::read(mount.path("blob/clean")).expect("a read"), b"clean");
    let status_now = status(&mount);
    assert!(status_now.contains("3 files lost") && !status_now.contains("absent"), "{status_now}");

    // It is a tier again.
    write(&mount, "run/homed", "again");
    write(&mount, "blob/dirty", "again");
    mount.flush();
    assert_eq!(tiers.expect_blob("blob/dirty"), b"again");
    assert_eq!(tiers.scratch_names(), ["run/homed"]);
    let refused = mount.try_tierfs(&["tier", "accept", "scratch"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("nothing to accept"), "{}", told(&refused));

    // The list outlives the daemon, until somebody has seen it.
    mount.kill9();
    mount.remount();
    assert!(status(&mount).contains("3 files lost"), "{}", status(&mount));
    assert_eq!(mount.tierfs(&["tier", "lost", "--forget"]).lines().count(), 3);
    assert_eq!(mount.tierfs(&["tier", "lost"]), "");
    assert!(!status(&mount).contains("lost with the tier"), "{}", status(&mount));
    assert!(mount.unmount().success(), "{}", mount.log());
}

/// The same where nobody has it mounted; and what was spared is no loss.
#[test]
fn scratch_can_be_wiped_while_nothing_is_mounted() {
    let (_server, tiers) = own();
    let mut mount = furnished(&tiers);
    mount.kill9();
    let kept = fs::read(tiers.scratch.join("run/homed")).expect("a native file");
    wipe(&tiers.scratch);
    // Restored by somebody, with a new inode and a new time.
    fs::create_dir(tiers.scratch.join("run")).expect("mkdir");
    fs::write(tiers.scratch.join("run/homed"), kept).expect("a write");

    let said = succeeded(&run(&["tier", "accept", "scratch", "--config"], mount.config()));
    assert!(said.contains("LOST blob/dirty") && said.contains("LOST blob/over"), "{said}");
    assert!(!said.contains("run/homed") && said.contains("1 copy still there"), "{said}");
    mount.remount();
    assert_eq!(fs::read(mount.path("run/homed")).expect("a read"), b"homed");
    assert_eq!(fs::read(mount.path("blob/over")).expect("a read"), b"older");
    assert_eq!(errno(fs::read(mount.path("blob/dirty"))), libc::ENOENT);
    let listed = succeeded(&run(&["tier", "lost", "--json", "--config"], mount.config()));
    assert_eq!(listed.lines().count(), 2);
    let first: serde_json::Value =
        serde_json::from_str(listed.lines().next().expect("a line")).expect("JSON");
    assert_eq!(first["tier"], "scratch");
    mount.flush();
    assert!(mount.unmount().success(), "{}", mount.log());
}

/// The twin: another directory lies at the path for a while, as a mount point does without its file system.
#[test]
fn a_tier_that_is_not_mounted_is_not_wiped() {
    let (_server, tiers) = own();
    let mut mount = furnished(&tiers);
    let away = tiers.workspace().join("away");
    mount.kill9();
    fs::rename(&tiers.scratch, &away).expect("rename");
    fs::create_dir(&tiers.scratch).expect("mkdir");

    mount.remount();
    assert!(status(&mount).contains("tier scratch is absent"), "{}", status(&mount));
    assert_eq!(errno(fs::read(mount.path("run/homed"))), libc::EIO);
    assert!(fs::write(mount.path("blob/new"), "x").is_err() && fs::write(mount.path("new"), "x").is_err());
    assert_eq!(fs::read(mount.path("blob/clean")).expect("a read"), b"clean");
    let written: Vec<_> = fs::read_dir(&tiers.scratch).expect("a directory").flatten().collect();
    assert!(written.is_empty(), "written to what is not ours: {written:?}");
    assert_eq!(mount.tierfs(&["tier", "lost"]), "", "nothing is declared lost");

    fs::remove_dir(&tiers.scratch).expect("rmdir");
    fs::rename(&away, &tiers.scratch).expect("rename");
    wait::until("the tier to be back", || fs::read(mount.path("run/homed")).is_ok());
    assert_eq!(fs::read(mount.path("blob/over")).expect("a read"), b"the newest");
    write(&mount, "blob/new", "new");
    mount.flush();
    for (name, bytes) in [("over", "the newest"), ("dirty", "dirty"), ("new", "new")] {
        assert_eq!(tiers.expect_blob(&format!("blob/{name}")), bytes.as_bytes());
    }
    assert_eq!(mount.tierfs(&["tier", "lost"]), "");
    assert!(mount.unmount().success(), "{}", mount.log());
}

#[test]
fn an_acceptance_that_dies_is_finished_by_the_next() {
    let (_server, tiers) = own();
    let mut mount = furnished(&tiers);
    mount.kill9();
    wipe(&tiers.scratch);
    let mut command = tierfs();
    command
        .args(["tier", "accept", "scratch", "--config"])
        .arg(mount.config())
        .env("TIERFS_CRASH_AT", "losses_named");
    let died = command.output().expect("the tierfs binary");
    assert!(died.status.code().is_none(), "{}", told(&died));
    assert!(
        fs::read_dir(&tiers.scratch).expect("a directory").next().is_none(),
        "the tier is as absent as it was"
    );
    let said = succeeded(&run(&["tier", "accept", "scratch", "--config"], mount.config()));
    assert!(said.contains("no file is lost"), "they were named before: {said}");
    let listed = succeeded(&run(&["tier", "lost", "--config"], mount.config()));
    assert_eq!(listed.lines().count(), 3, "{listed}");
    assert!(tiers.scratch.join(".tierfs/id").exists());
    mount.remount();
    write(&mount, "run/new", "new");
    assert_eq!(fs::read(tiers.scratch.join("run/new")).expect("a native file"), b"new");
    assert!(mount.unmount().success(), "{}", mount.log());
}

#[test]
fn what_is_no_wiped_tier_is_not_accepted() {
    let (_server, tiers) = own();
    let mount = furnished(&tiers);
    for (name, why) in
        [("blob", "is no directory"), ("share", "nothing to accept"), ("nvme", "there is no tier nvme")]
    {
        let refused = mount.try_tierfs(&["tier", "accept", name]);
        assert!(!refused.status.success() && text(&refused.stderr).contains(why), "{}", told(&refused));
    }
    // Another file system where the tier was: most likely it is not mounted.
    let covered =
        rustix::mount::mount("t", &tiers.scratch, "tmpfs", rustix::mount::MountFlags::empty(), None);
    if let Err(error) = covered {
        eprintln!("skipped: mounting is not allowed here ({error})");
        return;
    }
    let refused = mount.try_tierfs(&["tier", "accept", "scratch"]);
    rustix::mount::unmount(&tiers.scratch, rustix::mount::UnmountFlags::DETACH).expect("umount");
    assert!(text(&refused.stderr).contains("--any-file-system"), "{}", told(&refused));
    assert_eq!(mount.tierfs(&["tier", "lost"]), "");
    wait::until("the tier to be back", || fs::read(mount.path("run/homed")).is_ok());
}
