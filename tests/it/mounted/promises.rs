//! Promises that no other file here is about, each test with the promise's name.

use crate::support::{Mode, Mount, Proxy, Tiers, noise, wait};
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
