//! What there can't be more of: descriptors, extended attributes.

use crate::support::blob_server::BlobServer;
use crate::support::mount::told;
use crate::support::{BOTH, Mount, Tiers, noise};
use std::fs::{self, File};
use std::io::Read;
use std::process::Command;

/// Limits the daemon's descriptors from now on, for good.
fn limit_descriptors(mount: &Mount, most: u32) {
    let pid = mount.pid().to_string();
    let limit = format!("--nofile={most}:{most}");
    let output = Command::new("prlimit").args(["--pid", &pid, &limit]).output().expect("prlimit");
    assert!(output.status.success(), "{}", told(&output));
}

fn raise_own_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("setrlimit");
    maximum.unwrap_or(u64::MAX)
}

#[test]
fn full_eight_thousand_files_may_be_open_at_once() {
    const COUNT: usize = 8_000;
    assert!(raise_own_limit() > COUNT as u64 + 200, "this test needs `ulimit -Hn` over {COUNT}");
    for mode in BOTH {
        let tiers = Tiers::with_directories();
        let mount = Mount::of(&tiers).mode(mode).default_revalidate().start();
        fs::create_dir(mount.path("d")).expect("mkdir");
        let mut open = Vec::new();
        for i in 0..COUNT {
            let path = mount.path(&format!("d/f{i}"));
            fs::write(&path, i.to_string()).expect("a write");
            open.push(File::open(&path).unwrap_or_else(|error| panic!("file {i}: {error}")));
        }
        for (i, file) in open.iter_mut().enumerate() {
            let mut text = String::new();
            file.read_to_string(&mut text).expect("a read");
            assert_eq!(text, i.to_string());
        }
    }
}

/// No more descriptors in the daemon is an error of the one call, and of nothing else.
#[test]
fn descriptors_that_end_cost_no_bytes() {
    for mode in BOTH {
        let server = BlobServer::start();
        let tiers = Tiers::with_server(&server);
        let mut mount = Mount::of(&tiers).mode(mode).default_revalidate().start();
        for directory in ["d", "blob", "share"] {
            fs::create_dir(mount.path(directory)).expect("mkdir");
        }
        let bytes = noise(1, 100_000);
        let names: Vec<_> = (0..300).map(|i| format!("{}/f{i}", ["d", "blob", "share"][i % 3])).collect();
        for name in &names {
            fs::write(mount.path(name), &bytes).expect("a write");
        }
        limit_descriptors(&mount, 128);
        let mut open = Vec::new();
        let mut refused = 0;
        for name in &names {
            match File::options().read(true).write(true).open(mount.path(name)) {
                Ok(file) => open.push((name, file)),
                Err(error) => {
                    let errno = error.raw_os_error().expect("an errno");
                    assert!([libc::EMFILE, libc::ENFILE].contains(&errno), "{name}: {error}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 0 && open.len() > 20, "{} open, {refused} refused", open.len());
        for (name, file) in &mut open {
            let mut found = Vec::new();
            file.read_to_end(&mut found).expect("what is open can be read");
            assert!(found == bytes, "{name}");
        }
        drop(open);
        // Closed, and all is well again.
        for name in &names {
            assert!(fs::read(mount.path(name)).expect("a read") == bytes, "{name}");
        }
        fs::write(mount.path("d/after"), &bytes).expect("a write");
        mount.flush();
        for name in names.iter().filter(|name| name.starts_with("blob/")) {
            assert!(tiers.expect_blob(name) == bytes, "{name}");
        }
        assert!(mount.unmount().success(), "{}", mount.log());
    }
}

/// As many as listxattr(2) can show, and what home can hold.
#[test]
fn extended_attributes_end_with_enospc() {
    use rustix::fs::{XattrFlags, getxattr, listxattr, setxattr};
    use rustix::io::Errno;
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let mount = Mount::of(&tiers).default_revalidate().start();
    for (directory, most) in [("d", 65), ("blob", 8)] {
        fs::create_dir(mount.path(directory)).expect("mkdir");
        let file = mount.path(directory).join("f");
        fs::write(&file, b"f").expect("a write");
        let value = [b'v'; 1000];
        let set = |i: usize, value: &[u8]| setxattr(&file, format!("user.{i}"), value, XattrFlags::empty());
        let refused = (0..1000).find_map(|i| set(i, &value).err().map(|error| (i, error)));
        let (fitted, error) = refused.expect("an end");
        assert_eq!(error, Errno::NOSPC);
        assert!((most - 3..=most).contains(&fitted), "{directory}: {fitted}");
        let mut buffer = vec![0; 65_536];
        assert_eq!(getxattr(&file, format!("user.{fitted}"), &mut buffer[..]), Err(Errno::NODATA));
        assert_eq!(getxattr(&file, "user.0", &mut buffer[..]), Ok(value.len()));
        let length = listxattr(&file, &mut buffer[..]).expect("listxattr");
        assert_eq!(buffer[..length].iter().filter(|byte| **byte == 0).count(), fitted);
        set(0, b"short").expect("what is smaller fits");
        set(fitted, &value[..500]).expect("what fits now");
    }
}
