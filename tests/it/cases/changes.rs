//! Changes by others: seen, and never wiped out.

use super::*;
use crate::support::wait;
use std::fs;
use std::io::Write;

/// C041
#[test]
fn an_outside_overwrite_of_equal_size_is_seen() {
    on_both(|tiers| {
        tiers.put_blob("blob/f", b"foo----\n");
        let native = tiers.scratch.join("f");
        fs::write(&native, "foo----\n").expect("a write");
        let mount = Mount::of(tiers).start();
        let before = fs::metadata(&native).expect("stat").modified().expect("a time");
        for i in 0..=50 {
            let text = format!("foo{i:04}\n");
            tiers.put_blob("blob/f", text.as_bytes());
            fs::write(&native, &text).expect("a write");
            // As `touch -d` would: only ctime tells.
            fs::File::options()
                .write(true)
                .open(&native)
                .and_then(|f| f.set_modified(before))
                .expect("utimens");
            // Nothing may stay unseen for any time here, so the next read must be right.
            assert_eq!(fs::read_to_string(mount.path("blob/f")).expect("a read"), text);
            assert_eq!(fs::read_to_string(mount.path("f")).expect("a read"), text);
        }
    });
}

/// C050
#[test]
fn two_writers_of_one_file_lose_nothing() {
    on_both(|tiers| {
        tiers.put_blob("blob/f", b"ABC");
        let (one, two) = (Mount::of(tiers).named("one").start(), Mount::of(tiers).named("two").start());
        let append =
            |mount: &Mount| fs::File::options().append(true).open(mount.path("blob/f")).expect("open");
        let (mut first, mut second) = (append(&one), append(&two));
        first.write_all(b"-123").expect("a write");
        drop(first);
        one.flush();
        assert_eq!(tiers.expect_blob("blob/f"), b"ABC-123");
        second.write_all(b"-XYZ").expect("a write");
        let told = second.sync_all();
        drop(second);
        two.flush();
        assert_eq!(tiers.expect_blob("blob/f"), b"ABC-123", "{told:?}");
        let names = tiers.blob_file_names();
        let conflicts: Vec<_> = names.iter().filter(|name| name.starts_with("blob/f.conflict-")).collect();
        assert_eq!((names.len(), conflicts.len()), (2, 1), "{names:?}");
        assert_eq!(tiers.expect_blob(conflicts[0]), b"ABC-XYZ");
        let said = two.tierstat(&[]);
        assert!(said.contains("1 file changed at home"), "{said}");
        for mount in [&one, &two] {
            let reads = |name: &str, text: &[u8]| fs::read(mount.path(name)).is_ok_and(|bytes| bytes == text);
            wait::until("both to be shown", || {
                reads("blob/f", b"ABC-123") && reads(conflicts[0], b"ABC-XYZ")
            });
        }
    });
}

/// C050 where a rule asks for it: the last writer wins, whole.
#[test]
fn the_last_writer_wins_where_a_rule_says_so() {
    let rules = crate::support::mount::RULES.replacen("settle", "conflict = \"overwrite\"\nsettle", 1);
    on_both(|tiers| {
        tiers.put_blob("blob/f", b"ABC");
        let mount = |name: &str| Mount::of(tiers).named(name).rules(&rules).start();
        let (one, two) = (mount("one"), mount("two"));
        let big = crate::support::noise(5, 20 << 20);
        for (mine, theirs) in [(b"ABC-XYZ".to_vec(), b"ABC-123".to_vec()), (big.clone(), big[1..].to_vec())] {
            let append =
                |mount: &Mount| fs::File::options().write(true).open(mount.path("blob/f")).expect("open");
            let (mut first, mut second) = (append(&one), append(&two));
            first.write_all(&theirs).expect("a write");
            drop(first);
            one.flush();
            assert!(tiers.expect_blob("blob/f") == theirs);
            second.write_all(&mine).expect("a write");
            drop(second);
            two.flush();
            assert!(tiers.expect_blob("blob/f") == mine);
            assert_eq!(tiers.blob_file_names(), ["blob/f"]);
            assert!(fs::read(two.path("blob/f")).expect("a read") == mine);
            wait::until("the other to see it", || {
                fs::read(one.path("blob/f")).is_ok_and(|found| found == mine)
            });
        }
        // Two who make it at once.
        fs::write(one.path("blob/new"), "theirs").expect("a write");
        fs::write(two.path("blob/new"), "mine").expect("a write");
        one.flush();
        two.flush();
        let found = tiers.expect_blob("blob/new");
        assert!(found == b"theirs" || found == b"mine", "never a mix");
        assert_eq!(tiers.blob_file_names(), ["blob/f", "blob/new"]);
    });
}

/// C130
#[test]
fn rmdir_asks_the_tier() {
    on_both(|tiers| {
        tiers.put_blob("blob/d/a", b"a");
        tiers.put_blob("blob/d/s/b", b"b");
        let mount = Mount::of(tiers).start();
        for directory in ["blob/d", "blob/d/s", "blob"] {
            assert_eq!(errno(fs::remove_dir(mount.path(directory))), libc::ENOTEMPTY, "{directory}");
        }
        // Seen empty once, and filled by somebody else.
        fs::create_dir(mount.path("blob/e")).expect("mkdir");
        mount.flush();
        assert_eq!(fs::read_dir(mount.path("blob/e")).expect("a directory").count(), 0);
        tiers.put_blob("blob/e/late", b"late");
        assert_eq!(errno(fs::remove_dir(mount.path("blob/e"))), libc::ENOTEMPTY);
        mount.flush();
        assert_eq!(tiers.blob_file_names(), ["blob/d/a", "blob/d/s/b", "blob/e/late"]);
        assert_eq!(fs::read(mount.path("blob/d/s/b")).expect("a read"), b"b");
        for file in ["blob/d/a", "blob/d/s/b", "blob/e/late"] {
            fs::remove_file(mount.path(file)).expect("rm");
        }
        for directory in ["blob/d/s", "blob/d", "blob/e"] {
            fs::remove_dir(mount.path(directory)).expect("rmdir");
        }
        mount.flush();
        assert_eq!(tiers.blob_file_names(), Vec::<String>::new());
    });
}
