//! Tiers that go away or hang.

use crate::support::{Mount, Over, Proxy, Tiers, noise, wait};
use std::fs;

#[test]
fn scratch_can_be_wiped() {
    let tiers = Tiers::with_azurite();
    let mut mount = Mount::of(&tiers).start();
    fs::create_dir_all(mount.path("share")).expect("mkdir");
    fs::create_dir_all(mount.path("blob")).expect("mkdir");
    fs::write(mount.path("share/f"), "on the share").expect("a write");
    fs::write(mount.path("blob/f"), "on Blob").expect("a write");
    mount.flush();
    mount.unmount();
    {
        let _empty = Over::tmpfs(&tiers.share);
        mount.remount();
        let refused = fs::read(mount.path("share/f")).expect_err("an absent tier");
        assert_eq!(refused.raw_os_error(), Some(libc::EIO), "absent is not ENOENT");
        assert!(fs::write(mount.path("share/g"), "x").is_err());
        assert_eq!(fs::read_dir(&tiers.share).expect("the tmpfs").count(), 0, "nothing is written there");
        assert_eq!(fs::read(mount.path("blob/f")).expect("others go on"), b"on Blob");
        mount.unmount();
    }
    mount.remount();
    assert_eq!(fs::read(mount.path("share/f")).expect("it is back"), b"on the share");
    assert!(!mount.path("share/g").exists());
}

#[test]
fn a_tier_that_goes_away_under_the_mount_is_absent_until_it_is_back() {
    let tiers = Tiers::with_azurite();
    let mount = Mount::of(&tiers).start();
    fs::create_dir_all(mount.path("share")).expect("mkdir");
    fs::write(mount.path("share/f"), "on the share").expect("a write");
    fs::write(mount.path("plain"), "on scratch").expect("a write");
    {
        let _empty = Over::tmpfs(&tiers.share);
        wait::until("the tier to be found absent", || {
            fs::read(mount.path("share/f")).is_err_and(|error| error.raw_os_error() == Some(libc::EIO))
                || fs::File::create(mount.path("share/new")).is_err()
        });
        assert_eq!(fs::read_dir(&tiers.share).expect("the tmpfs").count(), 0, "nothing is written there");
        assert_eq!(fs::read(mount.path("plain")).expect("others go on"), b"on scratch");
    }
    wait::until("the tier to be back", || {
        fs::read(mount.path("share/f")).is_ok_and(|bytes| bytes == b"on the share")
    });
}

#[test]
fn a_sick_tier_stays_alone() {
    let tiers = Tiers::with_azurite();
    tiers.put_blob("blob/cold", b"cold");
    tiers.put_blob("hot/data", &noise(1, 1 << 20));
    let proxy = Proxy::before(tiers.container().service());
    let url = tiers.container().url_through(&proxy.service());
    let mount = Mount::of(&tiers).blob_url(url).start();
    assert!(fs::read(mount.path("hot/data")).expect("a read").len() == 1 << 20);
    wait::until("the hot copy", || tiers.hot_copies().len() == 1);
    fs::create_dir(mount.path("d")).expect("mkdir");

    proxy.hold();
    let cold = mount.path("blob/cold");
    let waiting = std::thread::spawn(move || fs::read(cold));
    for i in 0..50 {
        fs::write(mount.path(&format!("d/f{i}")), "scratch goes on").expect("a write");
        assert_eq!(fs::read(mount.path(&format!("d/f{i}"))).expect("a read"), b"scratch goes on");
    }
    assert!(!waiting.is_finished(), "Blob hangs, so its reader waits");
    proxy.release();
    assert_eq!(waiting.join().expect("a reader").expect("a read after all"), b"cold");
}
