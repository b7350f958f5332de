//! Promises that no other file here is about, each test with the promise's name.

use crate::support::{BOTH, Mode, Mount, Proxy, Tiers, noise, wait};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::symlink;

/// Names whose content became visible at home, in that order.
fn commits(proxy: &Proxy) -> Vec<String> {
    let is_block = |target: &str| target.contains("comp=block&") || target.ends_with("comp=block");
    let requests = proxy.requests().into_iter();
    requests
        .filter(|request| {
            request.method == "PUT" && !is_block(&request.target) && !request.target.contains("comp=metadata")
        })
        .filter_map(|request| Some(request.target.split('?').next()?.rsplit('/').next()?.to_owned()))
        .filter(|name| name.starts_with("shard-") || name == "latest")
        .collect()
}

#[test]
fn commits_keep_close_order() {
    let tiers = Tiers::with_azurite();
    let proxy = Proxy::before(tiers.container().service());
    let mount = Mount::of(&tiers).blob_url(tiers.container().url_through(&proxy.service())).start();
    fs::create_dir_all(mount.path("blob/run")).expect("mkdir");
    // Big ones first, so that their uploads end after those of the small ones have begun.
    let names: Vec<String> = (0..6).map(|i| format!("shard-{i}")).chain(["latest".to_owned()]).collect();
    for (i, name) in names.iter().enumerate() {
        let size = if i % 2 == 0 { 24 << 20 } else { 100 };
        fs::write(mount.path("blob/run").join(name), noise(i as u64, size)).expect("a write");
    }
    wait::until("the last commit", || tiers.blob("blob/run/latest").is_some());
    assert_eq!(commits(&proxy), names);
}

#[test]
fn one_version_or_the_other() {
    for mode in [Mode::Passthrough, Mode::Ordinary] {
        let tiers = Tiers::with_azurite();
        let (first, second) = (noise(1, 40 << 20), noise(2, 40 << 20));
        tiers.put_blob("blob/f", &first);
        let mount = Mount::of(&tiers).mode(mode).start();
        let mut reader = File::open(mount.path("blob/f")).expect("open");
        let mut head = vec![0; 1 << 20];
        reader.read_exact(&mut head).expect("a read");
        tiers.put_blob("blob/f", &second);
        let mut rest = Vec::new();
        match reader.seek(SeekFrom::Start(36 << 20)).and_then(|_| reader.read_to_end(&mut rest)) {
            Ok(_) => assert!(rest == first[36 << 20..], "a mix of two versions"),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ESTALE)),
        }
        assert!(head == first[..1 << 20]);
        drop(reader);
        wait::until("the new version, whole", || {
            fs::read(mount.path("blob/f")).is_ok_and(|bytes| bytes == second)
        });
    }
}

#[test]
fn errors_tell_the_truth() {
    let tiers = Tiers::with_azurite();
    for i in 0..20 {
        tiers.put_blob(&format!("blob/f{i}"), format!("{i}").as_bytes());
    }
    let proxy = Proxy::before(tiers.container().service());
    let url = tiers.container().url_through(&proxy.service());
    let mount = Mount::of(&tiers).blob_url(url).blob_key("deadline = \"1s\"").start();
    let read = |name: &str| fs::read(mount.path(name)).map_err(|error| error.raw_os_error().unwrap_or(0));
    assert_eq!(read("blob/none"), Err(libc::ENOENT), "the tier said so");
    proxy.cut();
    for i in 0..3 {
        let errno = read(&format!("blob/f{i}")).expect_err("an unreachable tier");
        assert!([libc::EIO, libc::ETIMEDOUT].contains(&errno), "errno {errno}");
    }
    proxy.mend();
    // No failed answer was taken for an absence.
    for i in 0..20 {
        let expected = Ok(format!("{i}").into_bytes());
        wait::until("the tier to be back", || read(&format!("blob/f{i}")) == expected);
    }
}

#[test]
fn stays_inside() {
    let tiers = Tiers::with_azurite();
    let outside = tiers.workspace().join("outside");
    fs::create_dir(&outside).expect("mkdir");
    fs::write(outside.join("f"), "secret").expect("a write");
    fs::create_dir(tiers.scratch.join("d")).expect("mkdir");
    fs::write(tiers.scratch.join("d/f"), "inside").expect("a write");
    let mount = Mount::of(&tiers).start();
    let directory = File::open(mount.path("d")).expect("a directory");
    assert_eq!(fs::read(mount.path("d/f")).expect("a read"), b"inside");

    // Somebody puts a way out where a directory was; the mount's own directory handle still points at it.
    fs::rename(tiers.scratch.join("d"), tiers.scratch.join("moved")).expect("rename");
    symlink(&outside, tiers.scratch.join("d")).expect("symlink");
    let open = |name: &str, flags| rustix::fs::openat(&directory, name, flags, rustix::fs::Mode::RUSR);
    if let Ok(found) = open("f", rustix::fs::OFlags::RDONLY) {
        let mut text = String::new();
        File::from(found).read_to_string(&mut text).expect("a read");
        assert_eq!(text, "inside", "read through a symlink out of the tier");
    }
    let made = open("new", rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY);
    assert!(!outside.join("new").exists(), "written through a symlink out of the tier: {made:?}");
    assert_eq!(fs::read(outside.join("f")).expect("a read"), b"secret");
    wait::until("the symlink to be shown as one", || {
        fs::symlink_metadata(mount.path("d")).is_ok_and(|stat| stat.is_symlink())
    });
}

/// Links and names that others left on a tier lead nowhere else, whatever is done by way of them.
#[test]
fn stays_inside_whatever_others_left_there() {
    for mode in BOTH {
        let tiers = Tiers::with_directories();
        let outside = tiers.workspace().join("outside");
        fs::create_dir(&outside).expect("mkdir");
        fs::write(outside.join("f"), "secret").expect("a write");
        for root in [tiers.scratch.clone(), tiers.share.join("share")] {
            fs::create_dir_all(&root).expect("mkdir");
            symlink(&outside, root.join("directory")).expect("symlink");
            symlink(outside.join("f"), root.join("file")).expect("symlink");
            symlink("../../outside/f", root.join("up")).expect("symlink");
            symlink("loop", root.join("loop")).expect("symlink");
            symlink(root.join(".tierfs"), root.join("own")).expect("symlink");
            for name in ["..odd", "...", "a\\..\\b", "new\nline", " ", "-rf", "C:\\x", "%2e%2e"] {
                fs::write(root.join(name), name).expect("a write");
            }
        }
        let mut mount = Mount::of(&tiers).mode(mode).start();
        for root in [mount.root().to_owned(), mount.path("share")] {
            for (name, target) in [("directory", outside.clone()), ("file", outside.join("f"))] {
                // Shown as what it is: following it is the business of who reads it, outside the mount.
                assert_eq!(fs::read_link(root.join(name)).expect("readlink"), target);
            }
            for name in ["..odd", "...", "a\\..\\b", "new\nline", " ", "-rf", "C:\\x", "%2e%2e"] {
                assert_eq!(fs::read_to_string(root.join(name)).expect("a read"), name);
                fs::rename(root.join(name), root.join(format!("{name}.moved"))).expect("a rename");
                fs::remove_file(root.join(format!("{name}.moved"))).expect("rm");
            }
            // What acts on a link acts on the link.
            for name in ["directory", "file", "up", "loop", "own"] {
                rustix::fs::chownat(
                    rustix::fs::CWD,
                    root.join(name),
                    Some(rustix::fs::Uid::from_raw(12345)),
                    None,
                    rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
                )
                .expect("lchown");
                fs::rename(root.join(name), root.join("moved")).expect("a rename");
                fs::remove_file(root.join("moved")).expect("rm");
            }
            assert!(!root.join(".tierfs").exists() || root != mount.root(), "ours is not shown");
        }
        mount.flush();
        assert!(mount.unmount().success(), "{}", mount.log());
        let stat = fs::metadata(outside.join("f")).expect("stat");
        assert_eq!(std::os::unix::fs::MetadataExt::uid(&stat), 0);
        assert_eq!(fs::read(outside.join("f")).expect("a read"), b"secret");
        assert_eq!(crate::support::site::files_below(&outside), ["f"]);
        assert_eq!(tiers.scratch_names(), [""; 0]);
        assert_eq!(tiers.share_names(), [""; 0]);
    }
}
