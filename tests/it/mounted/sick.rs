//! Tiers that go away or hang.

use crate::support::{Mode, Mount, Over, Proxy, Tiers, noise, wait};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc;
use std::time::Duration;

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

/// A directory behind a server that can be stopped: a bindfs mount.
struct Served {
    server: Child,
    path: PathBuf,
}

impl Served {
    fn at(path: &Path) -> Self {
        let behind = path.with_extension("behind");
        fs::create_dir(&behind).expect("mkdir");
        let server = Command::new("bindfs").arg("-f").arg(&behind).arg(path).spawn().expect("bindfs");
        wait::until("the mount of the server", || wait::is_mounted(path));
        Self { server, path: path.to_owned() }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.server), signal).expect("a signal");
    }

    /// From now on every call on the directory hangs.
    fn stop(&self) {
        self.signal(Signal::STOP);
    }

    fn go_on(&self) {
        self.signal(Signal::CONT);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.go_on();
        crate::support::mount::detach(&self.path);
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Runs what must not hang.
fn soon<T: Send + 'static>(what: &str, act: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, answer) = mpsc::channel();
    std::thread::spawn(move || done.send(act()));
    answer.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("{what} hangs"))
}

const HANGING: usize = 40;

/// Programs that need the share, in every way.
fn need_the_share(root: &Path) -> Vec<std::thread::JoinHandle<std::io::Result<()>>> {
    let work = |i: usize, root: PathBuf| match i % 8 {
        0 => fs::metadata(root.join(format!("unknown{i}"))).map(drop),
        1 => fs::read(root.join("known")).map(drop),
        2 => fs::write(root.join(format!("new{i}")), "new"),
        3 => fs::rename(root.join(format!("old{i}")), root.join(format!("renamed{i}"))),
        4 => fs::remove_file(root.join(format!("doomed{i}"))),
        5 => fs::create_dir(root.join(format!("dir{i}"))),
        6 => fs::read_dir(&root).map(|names| names.for_each(drop)),
        _ => fs::set_permissions(root.join("known"), std::os::unix::fs::PermissionsExt::from_mode(0o600)),
    };
    let spawn = |i| {
        let root = root.to_owned();
        std::thread::spawn(move || work(i, root))
    };
    (0..HANGING).map(spawn).collect()
}

#[test]
fn a_directory_tier_that_hangs_stays_alone() {
    for mode in [Mode::Passthrough, Mode::Ordinary] {
        let tiers = Tiers::with_azurite();
        let served = Served::at(&tiers.share);
        let mount = Mount::of(&tiers).mode(mode).share_key("deadline = \"3s\"").start();
        for directory in ["share", "share/sub", "blob", "d"] {
            fs::create_dir(mount.path(directory)).expect("mkdir");
        }
        let share = mount.path("share");
        fs::write(share.join("known"), "known").expect("a write");
        for i in 0..HANGING {
            fs::write(share.join(format!("old{i}")), "old").expect("a write");
            fs::write(share.join(format!("doomed{i}")), "doomed").expect("a write");
        }
        fs::write(mount.path("blob/before"), "before").expect("a write");
        mount.flush();

        served.stop();
        let hanging = need_the_share(&share);
        let (scratch, blob) = (mount.path("d"), mount.path("blob"));
        soon("the rest of the mount", move || {
            for i in 0..40 {
                let (new, named) = (scratch.join(format!("new{i}")), scratch.join(format!("named{i}")));
                fs::write(&new, "scratch goes on").expect("a write");
                fs::rename(&new, &named).expect("a rename");
                assert_eq!(fs::read(&named).expect("a read"), b"scratch goes on");
                fs::write(blob.join(format!("f{i}")), "Blob goes on").expect("a write");
                assert_eq!(fs::read(blob.join("before")).expect("a read"), b"before");
            }
        });
        let flushed = mount.path("blob");
        assert!(mount.try_tierfs(&["flush", &flushed.to_string_lossy()]).status.success(), "{}", mount.log());
        assert_eq!(tiers.expect_blob("blob/f39"), b"Blob goes on");
        let root = mount.root().to_owned();
        let size = soon("df", move || rustix::fs::statvfs(&root).expect("statvfs"));
        assert!(size.f_blocks > 0);
        // Not beside the others: the kernel has locked their directory for one that hangs.
        let late = share.join("sub/late");
        let refused = soon("one more call", move || fs::write(late, "late"));
        assert_eq!(refused.expect_err("nobody answers").raw_os_error(), Some(libc::ETIMEDOUT));
        let known = share.join("known");
        assert_eq!(soon("what is known", move || fs::metadata(known)).expect("a stat").len(), 5);

        served.go_on();
        for (i, thread) in hanging.into_iter().enumerate() {
            let ended = soon("who waited", move || thread.join().expect("no panic"));
            let timed_out = ended.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::ETIMEDOUT));
            let unknown =
                i % 8 == 0 && ended.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
            assert!(ended.is_ok() || timed_out || unknown, "{i}: {ended:?}");
        }
        fs::write(share.join("after"), "after").expect("all is well again");
        assert_eq!(fs::read(tiers.share.join("share/after")).expect("at home"), b"after");
        assert_eq!(fs::read(share.join("known")).expect("a read"), b"known");
    }
}

#[test]
fn a_mount_ends_though_a_tier_hangs() {
    let tiers = Tiers::with_azurite();
    let served = Served::at(&tiers.share);
    let mut mount = Mount::of(&tiers).share_key("deadline = \"3s\"").start();
    for directory in ["share", "blob"] {
        fs::create_dir(mount.path(directory)).expect("mkdir");
    }
    served.stop();
    let hanging = need_the_share(&mount.path("share"));
    fs::write(mount.path("blob/f"), "dirty").expect("a write");
    let status = mount.terminate();
    assert_eq!(status.code(), Some(0), "{}", mount.log());
    assert_eq!(tiers.expect_blob("blob/f"), b"dirty");
    served.go_on();
    hanging.into_iter().for_each(|thread| drop(thread.join()));
}

#[test]
fn an_overflow_that_hangs_holds_up_no_full_home_for_long() {
    let tiers = Tiers::with_azurite();
    let _share = Over::small(&tiers.share, "10m");
    let served = Served::at(&tiers.scratch);
    let rules = "[[rule]]\npath = \"models/**\"\nhome = \"share\"\noverflow = \"scratch\"\n\n\
                 [[rule]]\npath = \"**\"\nhome = \"share\"\n";
    let mount = Mount::of(&tiers)
        .rules(rules)
        .share_key("high_water = \"60%\"\nlow_water = \"40%\"")
        .scratch_key("deadline = \"3s\"")
        .start();
    fs::create_dir_all(mount.path("models/d")).expect("mkdir");
    fs::write(mount.path("models/big"), noise(1, 7 << 20)).expect("a write");
    wait::until("the share to be too full", || {
        mount.tierfs(&["plan"]).contains("overflow: share is too full")
    });
    fs::write(mount.path("models/d/there"), "elsewhere").expect("a write");
    assert!(!tiers.share.join("models/d/there").exists());
    served.stop();
    // Whoever finds that it hangs hangs with it; those who come later need it not.
    let (done, answers) = mpsc::channel();
    let made = (0..60).find_map(|i| {
        let (done, file) = (done.clone(), mount.path(&format!("models/d/f{i}")));
        std::thread::spawn(move || fs::write(&file, "at home").map(|()| done.send(i)));
        answers.recv_timeout(Duration::from_secs(1)).ok()
    });
    let made = format!("models/d/f{}", made.expect("a new file"));
    assert_eq!(fs::read(tiers.share.join(made)).expect("there is room for it at home"), b"at home");
    served.go_on();
    wait::until("scratch to answer again", || {
        fs::read(mount.path("models/d/there")).is_ok_and(|bytes| bytes == b"elsewhere")
    });
}
