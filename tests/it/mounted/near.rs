//! Models at home on a share, with hot copies on a disk of the machine.

use crate::support::mount::told;
use crate::support::{BOTH, Mode, Mount, Tiers, noise, wait};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::time::{Duration, SystemTime};

const RULES: &str = r#"
[[rule]]
path = "models/**"
home = "share"
hot = "scratch"

[[rule]]
path = "**"
home = "scratch"
"#;

fn start(tiers: &Tiers, mode: Mode) -> Mount {
    Mount::of(tiers).mode(mode).rules(RULES).start()
}

/// A model that was put there long ago: files that have just changed are not copied.
fn model(tiers: &Tiers, bytes: &[u8]) {
    fs::create_dir_all(tiers.share.join("models")).expect("mkdir");
    let path = tiers.share.join("models/m");
    fs::write(&path, bytes).expect("a write");
    wait::until("the file to be old enough", || {
        let changed = fs::metadata(&path).and_then(|found| found.modified()).expect("metadata");
        SystemTime::now().duration_since(changed).is_ok_and(|age| age > Duration::from_millis(2100))
    });
}

fn native(mount: &Mount, name: &str) -> String {
    told(&mount.tierfs_at(&["path"], &[name]))
}

#[test]
fn a_model_on_the_share_is_read_from_the_disk_the_next_time() {
    for mode in BOTH {
        let tiers = Tiers::with_directories();
        let bytes = noise(1, 9 << 20);
        model(&tiers, &bytes);
        let mut mount = start(&tiers, mode);
        assert!(fs::read(mount.path("models/m")).expect("a read") == bytes);
        wait::until("the hot copy", || tiers.hot_copies().len() == 1);
        let hits = || mount.status()["reads"]["hits"].as_u64().expect("a count");
        // An open that comes before the last release shares what is open.
        wait::until("an open of the hot copy", || {
            assert!(fs::read(mount.path("models/m")).expect("a read") == bytes);
            hits() > 0
        });
        let text = told(&mount.tierfs_at(&["explain"], &["models/m"]));
        assert!(text.contains("read from the hot copy on scratch"), "{text}");

        // Changed on the share by others: the copy is of what was.
        let other = noise(2, 5 << 20);
        fs::write(tiers.share.join("models/m"), &other).expect("a write");
        assert!(fs::read(mount.path("models/m")).expect("a read") == other);
        assert!(mount.unmount().success(), "{}", mount.log());
        mount.remount();
        assert!(fs::read(mount.path("models/m")).expect("a read") == other);
    }
}

#[test]
fn a_writer_beside_readers_of_the_hot_copy_is_seen_and_reaches_the_share() {
    for mode in BOTH {
        let tiers = Tiers::with_directories();
        let mut bytes = noise(3, 4 << 20);
        model(&tiers, &bytes);
        let mount = start(&tiers, mode);
        assert!(fs::read(mount.path("models/m")).expect("a read") == bytes);
        wait::until("the hot copy", || tiers.hot_copies().len() == 1);
        let mut reader = File::open(mount.path("models/m")).expect("an open");
        let mut seen = Vec::new();
        reader.read_to_end(&mut seen).expect("a read");
        assert!(seen == bytes);
        let mut writer =
            File::options().write(true).open(mount.path("models/m")).expect("an open for writing");
        writer.seek(SeekFrom::Start(100)).expect("a seek");
        writer.write_all(b"written beside a reader").expect("a write");
        bytes[100..123].copy_from_slice(b"written beside a reader");
        seen.clear();
        reader.seek(SeekFrom::Start(0)).expect("a seek");
        reader.read_to_end(&mut seen).expect("a read");
        assert!(seen == bytes, "{mode:?}: one file for all who have it open");
        drop((writer, reader));
        mount.flush();
        assert!(fs::read(mount.path("models/m")).expect("a read") == bytes);
        wait::until("the share to have it", || {
            fs::read(tiers.share.join("models/m")).is_ok_and(|now| now == bytes)
        });
    }
}

#[test]
fn warm_copies_models_to_the_disk() {
    let tiers = Tiers::with_directories();
    model(&tiers, &noise(4, 3 << 20));
    let mount = start(&tiers, Mode::Ordinary);
    let warmed = told(&mount.tierfs_at(&["warm"], &["models"]));
    assert!(warmed.contains("1 file, 3.0 MiB fetched"), "{warmed}");
    assert_eq!(tiers.hot_copies().len(), 1);
    assert!(native(&mount, "models/m").contains("/models/m"), "{}", native(&mount, "models/m"));
}
