//! Files as memory: what loads weights and runs programs.

use super::*;
use crate::support::{BOTH, Map, noise, wait};
use std::fs::{self, File};
use std::process::Command;

const HOMES: [&str; 4] = ["scratch", "share", "blob", "hot"];

/// Private and shared maps give the bytes, and the program runs.
fn works(mount: &Mount, home: &str, bytes: &[u8], when: &str) {
    let open = File::open(mount.path(&format!("{home}/weights"))).expect("open");
    for flags in [libc::MAP_PRIVATE, libc::MAP_SHARED] {
        let map = Map::new(&open, bytes.len(), libc::PROT_READ, flags);
        assert!(map.bytes() == bytes, "{home}: other bytes in a map {when}");
    }
    let program = Command::new(mount.path(&format!("{home}/program"))).arg("it runs").output();
    assert_eq!(program.expect("a program").stdout, b"it runs\n", "{home}: {when}");
}

#[test]
fn c150_files_are_mapped_and_programs_run() {
    for mode in BOTH {
        let tiers = Tiers::with_azurite();
        let mut mount = Mount::of(&tiers).mode(mode).start();
        let bytes = noise(150, (5 << 20) + 17);
        for home in HOMES {
            fs::create_dir(mount.path(home)).expect("mkdir");
            fs::write(mount.path(&format!("{home}/weights")), &bytes).expect("a write");
            fs::copy("/bin/echo", mount.path(&format!("{home}/program"))).expect("a copy");
            works(&mount, home, &bytes, "when it is fresh");
        }
        assert!(mount.unmount().success(), "{}", mount.log());
        // Out of Blob, where nothing else has it any more.
        assert_eq!(tiers.staged(), [""; 0]);
        fs::remove_dir_all(tiers.scratch.join(".tierfs/hot")).expect("the hot copies");
        mount.remount();
        for home in HOMES {
            works(&mount, home, &bytes, "out of its home");
        }
        wait::until("hot copies", || tiers.hot_copies().len() == 2);
        assert!(mount.unmount().success(), "{}", mount.log());
        mount.remount();
        for home in HOMES {
            works(&mount, home, &bytes, "out of a hot copy");
        }
    }
}
