//! Several mounts and other tools on the same tiers.

use crate::support::{Mode, Mount, Proxy, Tiers, noise, wait};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

fn reads(path: &Path, expected: &[u8]) -> bool {
    fs::read(path).is_ok_and(|bytes| bytes == expected)
}

#[test]
fn what_one_mount_commits_another_reads() {
    let tiers = Tiers::with_azurite();
    let (one, two) = (Mount::of(&tiers).named("one").start(), Mount::of(&tiers).named("two").start());
    let bytes = noise(1, 9 << 20);
    fs::create_dir_all(one.path("blob/d")).expect("mkdir");
    fs::create_dir_all(one.path("share/d")).expect("mkdir");
    fs::write(one.path("blob/d/f"), &bytes).expect("a write");
    fs::write(one.path("share/d/f"), "on the share").expect("a write");
    one.flush();
    wait::until("the other mount to see it", || reads(&two.path("blob/d/f"), &bytes));
    wait::until("the other mount to see the share", || reads(&two.path("share/d/f"), b"on the share"));
    fs::write(two.path("blob/d/f"), "the other's").expect("a write");
    two.flush();
    wait::until("the first mount to see the change", || reads(&one.path("blob/d/f"), b"the other's"));
    fs::remove_file(one.path("blob/d/f")).expect("unlink");
    one.flush();
    wait::until("the other mount to see the delete", || !two.path("blob/d/f").exists());
}

/// Requests for the bytes of `data.bin`, not for its attributes or what lies below it.
fn fetches(proxy: &Proxy) -> usize {
    proxy
        .requests()
        .iter()
        .filter(|request| request.method == "GET" && request.target.ends_with("/data.bin"))
        .count()
}

#[test]
fn a_hot_copy_of_one_mount_serves_the_other_without_a_get() {
    let tiers = Tiers::with_azurite();
    let bytes = noise(2, 20 << 20);
    tiers.put_blob("hot/data.bin", &bytes);
    let proxy = Proxy::before(tiers.container().service());
    let named = |name| {
        Mount::of(&tiers).named(name).blob_url(tiers.container().url_through(&proxy.service())).start()
    };
    let one = named("one");
    assert!(fs::read(one.path("hot/data.bin")).expect("a read") == bytes);
    assert!(proxy.count("GET", "data.bin") > 0, "the first has to fetch it");
    wait::until("the hot copy", || tiers.hot_copies().len() == 1);
    proxy.clear();
    let two = named("two");
    assert!(fs::read(two.path("hot/data.bin")).expect("a read") == bytes);
    assert_eq!(fetches(&proxy), 0, "{:?}", proxy.requests());
    assert_eq!(tiers.hot_copies().len(), 1);
}

#[test]
fn the_second_read_comes_from_the_hot_copy() {
    for mode in [Mode::Passthrough, Mode::Ordinary] {
        let tiers = Tiers::with_azurite();
        let bytes = noise(3, 20 << 20);
        tiers.put_blob("hot/data.bin", &bytes);
        let proxy = Proxy::before(tiers.container().service());
        let mut mount =
            Mount::of(&tiers).mode(mode).blob_url(tiers.container().url_through(&proxy.service())).start();
        assert!(fs::read(mount.path("hot/data.bin")).expect("a read") == bytes);
        // The first read is the promotion: nothing is fetched twice.
        let fetched = proxy.answer_bytes();
        assert!(fetched < (bytes.len() + bytes.len() / 10) as u64, "{fetched} bytes fetched");
        wait::until("the hot copy", || tiers.hot_copies().len() == 1);
        mount.unmount();
        mount.remount();
        proxy.clear();
        assert!(fs::read(mount.path("hot/data.bin")).expect("a read") == bytes);
        assert_eq!(fetches(&proxy), 0, "{:?}", proxy.requests());
    }
}

#[test]
fn outside_changes_are_seen() {
    let tiers = Tiers::with_azurite();
    tiers.put_blob("blob/f", b"foo0000\n");
    fs::create_dir(tiers.scratch.join("d")).expect("mkdir");
    let native = tiers.scratch.join("d/f");
    fs::write(&native, "foo0000\n").expect("a write");
    let mount = Mount::of(&tiers).start();
    for i in 1..=20 {
        let text = format!("foo{i:04}\n");
        tiers.put_blob("blob/f", text.as_bytes());
        let before = fs::metadata(&native).expect("stat").modified().expect("a time");
        fs::write(&native, &text).expect("a write");
        // As `touch -d` would: only ctime tells.
        fs::File::options().write(true).open(&native).and_then(|f| f.set_modified(before)).expect("utimens");
        wait::until("the new text of the blob", || reads(&mount.path("blob/f"), text.as_bytes()));
        wait::until("the new text on scratch", || reads(&mount.path("d/f"), text.as_bytes()));
    }
    tiers.put_blob("blob/new/deep/g", b"new");
    wait::until("a new blob", || reads(&mount.path("blob/new/deep/g"), b"new"));
    tiers.container().delete("blob/f");
    wait::until("the delete", || !mount.path("blob/f").exists());
    fs::remove_file(&native).expect("unlink");
    wait::until("the delete on scratch", || !mount.path("d/f").exists());
}

#[test]
fn an_existing_container_needs_no_import() {
    let tiers = Tiers::with_azurite();
    for i in 0..30 {
        tiers.put_blob(&format!("blob/d{}/f{i}", i % 3), &noise(i, 1000));
    }
    let proxy = Proxy::before(tiers.container().service());
    let rules = crate::support::mount::RULES.replace("settle", "revalidate = \"1h\"\nsettle");
    let url = tiers.container().url_through(&proxy.service());
    let mount = Mount::of(&tiers).rules(&rules).blob_url(url).start();
    let mut directories: Vec<_> = fs::read_dir(mount.path("blob"))
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    directories.sort();
    assert_eq!(directories.len(), 3);
    for i in 0..30 {
        let path = mount.path(&format!("blob/d{}/f{i}", i % 3));
        assert_eq!(fs::metadata(&path).expect("stat").len(), 1000);
        assert!(fs::read(&path).expect("a read") == noise(i, 1000));
    }
    let looks = proxy.count("HEAD", "/f");
    assert!(looks <= 3 * 3, "after three looks into a directory a list page says it all: {looks}");
}

#[test]
fn no_silent_overwrite() {
    let tiers = Tiers::with_azurite();
    tiers.put_blob("blob/f", b"ABC");
    let (one, two) = (Mount::of(&tiers).named("one").start(), Mount::of(&tiers).named("two").start());
    let write_open = |mount: &Mount| {
        fs::File::options().write(true).truncate(true).open(mount.path("blob/f")).expect("open")
    };
    let (first, second) = (write_open(&one), write_open(&two));
    std::io::Write::write_all(&mut &first, b"ABC-123").expect("a write");
    drop(first);
    one.flush();
    std::io::Write::write_all(&mut &second, b"ABC-XYZ").expect("a write");
    drop(second);
    two.flush();
    let names = tiers.blob_file_names();
    assert_eq!(tiers.expect_blob("blob/f"), b"ABC-123");
    let conflicts: Vec<_> = names.iter().filter(|name| name.starts_with("blob/f.conflict-")).collect();
    assert_eq!((names.len(), conflicts.len()), (2, 1), "{names:?}");
    assert_eq!(tiers.expect_blob(conflicts[0]), b"ABC-XYZ");
    let ino = fs::metadata(two.path("blob/f")).expect("stat").ino();
    wait::until("both to be shown", || {
        reads(&two.path("blob/f"), b"ABC-123") && reads(&two.path(conflicts[0]), b"ABC-XYZ")
    });
    assert!(ino > 0);
}
