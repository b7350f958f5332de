//! The newest checkpoints stay on the fast tier, whatever else was read since.

use crate::support::blob_server::BlobServer;
use crate::support::{Mount, Over, Tiers, noise, wait};
use std::fs;

/// Above half of scratch hot copies are dropped until 20% are left: room for eight of forty mebibytes.
const RULES: &str = r#"
[[rule]]
path = "runs/**"
home = "blob"
hot = "scratch"
settle = "0s"
keep_hot = { group = "runs/*/*", last = 3 }

[[rule]]
path = "data/**"
home = "blob"
hot = "scratch"
promote = "on-read"
settle = "0s"

[[rule]]
path = "**"
home = "scratch"
"#;

const MIB: usize = 1 << 20;

fn is_hot(mount: &Mount, name: &str) -> bool {
    mount.tierfs_at(&["path"], &[name]).status.success()
}

#[test]
fn the_newest_groups_stay_hot_and_older_ones_leave_first() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let _scratch = Over::small(&tiers.scratch, "40m");
    tiers.put_blob("data/set", &noise(9, 6 * MIB));
    let mut mount = Mount::of(&tiers)
        .rules(RULES)
        .default_revalidate()
        .scratch_key("high_water = \"50%\"\nlow_water = \"20%\"")
        .start();
    let save = |mount: &Mount, step: u64, round: u64| {
        let path = mount.path(&format!("runs/a/step{step}"));
        fs::create_dir_all(&path).expect("mkdir");
        fs::write(path.join("shard"), noise(step + round, 3 * MIB)).expect("a write");
        mount.flush();
    };
    // Of another run, which is counted for itself.
    fs::create_dir_all(mount.path("runs/b/only")).expect("mkdir");
    fs::write(mount.path("runs/b/only/shard"), "small").expect("a write");
    for step in 1..=5 {
        save(&mount, step, 0);
    }
    // Saved again, the first is the newest.
    save(&mount, 1, 100);
    wait::until("the hot copies", || tiers.hot_copies().len() >= 6 && tiers.staged().is_empty());
    assert!(mount.unmount().success(), "{}", mount.log());
    // House-keeping comes half a minute after the start, and at once.
    mount.remount();
    let names = |steps: &[u64]| -> Vec<String> {
        steps.iter().map(|step| format!("runs/a/step{step}/shard")).collect()
    };
    assert!(names(&[1, 4, 5]).iter().all(|name| is_hot(&mount, name)));
    assert!(fs::read(mount.path("data/set")).expect("a read").len() == 6 * MIB);
    wait::until("the copy of what was read, in place of older groups", || {
        is_hot(&mount, "data/set") && !names(&[2, 3]).iter().any(|name| is_hot(&mount, name))
    });
    // Written in place, it takes room that no copy can have.
    fs::write(mount.path("of-others"), noise(10, 10 * MIB)).expect("a write");
    assert!(mount.unmount().success(), "{}", mount.log());
    mount.remount();
    wait::until("the tier to be below its high water", || !is_hot(&mount, "data/set"));
    for name in names(&[1, 4, 5]).iter().chain([&"runs/b/only/shard".to_owned()]) {
        assert!(is_hot(&mount, name), "{name} has left; there are {:?}", tiers.hot_copies());
    }
    assert!(fs::read(mount.path("runs/a/step2/shard")).expect("from Blob") == noise(2, 3 * MIB));
}
