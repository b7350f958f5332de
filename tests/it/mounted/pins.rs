//! Hot copies that a person wants gone, or wants kept.

use crate::support::blob_server::BlobServer;
use crate::support::mount::told;
use crate::support::{Mount, Over, Tiers, noise, wait};
use std::fs::{self, File};

const RULES: &str = r#"
[[rule]]
path = "hot/**"
home = "blob"
hot = "scratch"
promote = "on-read"
settle = "1h"

[[rule]]
path = "**"
home = "scratch"
"#;

const MIB: usize = 1 << 20;

fn is_hot(mount: &Mount, name: &str) -> bool {
    mount.tierfs_at(&["path"], &[name]).status.success()
}

fn ask(mount: &Mount, arguments: &[&str], names: &[&str]) -> String {
    let output = mount.tierfs_at(arguments, names);
    assert!(output.status.success(), "{arguments:?} {names:?}: {}", told(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn hot_copies_leave_on_demand_unless_they_are_needed() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let all = ["hot/a", "hot/deep/b", "hot/deep/open", "hot/pinned"];
    for (at, name) in all.iter().enumerate() {
        tiers.put_blob(name, &noise(at as u64, 10_000));
    }
    let mount = Mount::of(&tiers).rules(RULES).start();
    for name in all {
        assert_eq!(fs::read(mount.path(name)).expect("a read").len(), 10_000);
    }
    wait::until("the hot copies", || all.iter().all(|name| is_hot(&mount, name)));
    fs::write(mount.path("hot/dirty"), "not home yet").expect("a write");
    let open = File::open(mount.path("hot/deep/open")).expect("open");
    assert_eq!(ask(&mount, &["pin"], &["hot/pinned"]).trim(), "1 path pinned");

    let checked = ask(&mount, &["evict", "--check"], &["hot"]);
    assert!(checked.starts_with("hot copies of 2 files, 20 KiB, would be dropped\n"), "{checked}");
    assert!(all.iter().all(|name| is_hot(&mount, name)), "a check has dropped something");

    let evicted = ask(&mount, &["evict"], &["hot"]);
    assert!(evicted.starts_with("hot copies of 2 files, 20 KiB, dropped\n"), "{evicted}");
    for stays in ["hot/deep/open (open)", "hot/dirty (not at home yet)", "hot/pinned (pinned)"] {
        assert!(evicted.contains(&format!("stays: {stays}\n")), "{evicted}");
    }
    assert_eq!(all.map(|name| is_hot(&mount, name)), [false, false, true, true]);
    drop(open);
    wait::until("the open file to leave too", || {
        ask(&mount, &["evict"], &["hot/deep"]).starts_with("hot copies of 1 file,")
    });
    assert_eq!(ask(&mount, &["unpin"], &["hot/pinned"]).trim(), "1 pin taken away");
    assert!(ask(&mount, &["evict"], &["hot/pinned"]).starts_with("hot copies of 1 file,"));
    for (at, name) in all.iter().enumerate() {
        assert!(fs::read(mount.path(name)).expect("from Blob") == noise(at as u64, 10_000), "{name}");
    }
    let missing = mount.tierfs_at(&["evict"], &["hot/none"]);
    assert!(!missing.status.success());
}

#[test]
fn what_is_pinned_is_fetched_and_stays_whatever_else_is_read() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let _scratch = Over::small(&tiers.scratch, "40m");
    for at in 0..3 {
        tiers.put_blob(&format!("hot/keep/f{at}"), &noise(at, 2 * MIB));
    }
    for at in 0..8 {
        tiers.put_blob(&format!("hot/flood/f{at}"), &noise(100 + at, 3 * MIB));
    }
    let mut mount = Mount::of(&tiers)
        .rules(RULES)
        .default_revalidate()
        .scratch_key("high_water = \"50%\"\nlow_water = \"20%\"")
        .start();
    assert_eq!(mount.tierfs(&["pin", "--list"]).trim(), "nothing is pinned");
    ask(&mount, &["pin"], &["hot/keep"]);
    ask(&mount, &["pin", "--until", "2261-12-31"], &["hot/keep/f1"]);
    // Nobody reads them.
    let kept = ["hot/keep/f0", "hot/keep/f1", "hot/keep/f2"];
    wait::until("the pinned files to be near", || kept.iter().all(|name| is_hot(&mount, name)));
    let said = ask(&mount, &["explain"], &["hot/keep/f1", "hot/keep/f2"]);
    // The pin that holds longest counts.
    assert_eq!(said.matches("pinned with hot/keep: ").count(), 2, "{said}");
    let listed = mount.tierfs(&["pin", "--list"]);
    assert!(listed.contains("for ever          hot/keep\n"), "{listed}");
    assert!(listed.contains("22611231T000000Z  hot/keep/f1\n"), "{listed}");
    let listed = mount.tierfs(&["pin", "--list", "--json"]);
    assert!(listed.contains(r#"{"path":"hot/keep"}"#), "{listed}");
    for round in 0..2 {
        for at in 0..8 {
            let bytes = fs::read(mount.path(&format!("hot/flood/f{at}"))).expect("a read");
            assert!(bytes == noise(100 + at, 3 * MIB));
        }
        assert!(kept.iter().all(|name| is_hot(&mount, name)), "round {round}: {:?}", tiers.hot_copies());
        // Pins outlive the daemon, and so do renames.
        assert!(mount.unmount().success(), "{}", mount.log());
        mount.remount();
    }
    fs::rename(mount.path("hot/keep"), mount.path("hot/moved")).expect("a rename");
    mount.flush();
    wait::until("the pin to follow", || mount.tierfs(&["pin", "--list"]).contains("  hot/moved\n"));
    let said = ask(&mount, &["unpin"], &["hot/moved/f1"]);
    assert_eq!(said, "1 pin taken away\nhot/moved/f1 stays pinned with hot/moved\n");
    let over = mount.tierfs_at(&["pin", "--until", "2020-01-01"], &["hot/moved"]);
    assert!(told(&over).contains("over already"), "{}", told(&over));
    let wrong = mount.tierfs_at(&["pin", "--until", "soon"], &["hot/moved"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", told(&wrong));
}
