//! Access tiers: what is written, and what is archived.

use super::*;
use std::fs;

/// What `user.tierfs.state` says.
pub fn state(path: &Path) -> String {
    String::from_utf8_lossy(&crate::support::mount::xattr(path, "user.tierfs.state")).into_owned()
}

#[test]
fn an_archived_blob_says_so() {
    let (server, tiers, container) = own();
    tiers.put_blob("blob/f", b"text");
    tiers.put_blob("blob/g", b"other");
    let mount = Mount::of(&tiers).start();
    assert_eq!(
        (fs::read(mount.path("blob/f")).expect("a read"), state(&mount.path("blob/f"))),
        (b"text".to_vec(), "clean".into())
    );
    for name in ["f", "g"] {
        server.set_access_tier(&container, &format!("blob/{name}"), "Archive");
    }
    let path = mount.path("blob/g");
    assert_eq!(fs::metadata(&path).expect("it is there").len(), 5);
    assert_eq!(errno(fs::read(&path)), libc::ENODATA);
    assert_eq!(state(&path), "archived");
    assert!(!mount.log().contains("panicked"));
    server.set_access_tier(&container, "blob/g", "Hot");
    assert_eq!((fs::read(&path).expect("a read"), state(&path)), (b"other".to_vec(), "clean".into()));
    // What can't be overwritten is kept beside, and nothing is lost.
    fs::write(mount.path("blob/h"), "new").expect("a write");
    mount.flush();
    assert_eq!(server.get(&container, "blob/h").as_deref(), Some(&b"new"[..]));
}

#[test]
fn blobs_are_written_to_the_access_tier_that_is_asked_for() {
    let (server, tiers, container) = own();
    let mount = Mount::of(&tiers).blob_key("access_tier = \"cool\"").start();
    fs::create_dir(mount.path("blob")).expect("mkdir");
    fs::write(mount.path("blob/small"), "small").expect("a write");
    fs::write(mount.path("blob/big"), vec![1; 20 << 20]).expect("a write");
    mount.flush();
    for name in ["small", "big"] {
        let tier = server.access_tier(&container, &format!("blob/{name}"));
        assert_eq!(tier.as_deref(), Some("Cool"), "{name}");
    }
}

#[test]
fn uploads_keep_to_their_rate() {
    let (server, tiers, container) = own();
    let mount = Mount::of(&tiers).blob_key("upload_max = \"8MiB\"").start();
    fs::create_dir(mount.path("blob")).expect("mkdir");
    let began = std::time::Instant::now();
    fs::write(mount.path("blob/f"), vec![7; 24 << 20]).expect("a write");
    let returned = began.elapsed();
    mount.flush();
    let took = began.elapsed();
    // A second's worth is credit, and the last block is paid for after it is sent.
    assert!(took.as_millis() >= 950, "24 MiB at 8 MiB/s took {took:?}");
    assert!(returned < took, "the writer does not wait for it");
    assert_eq!(server.get(&container, "blob/f").map(|bytes| bytes.len()), Some(24 << 20));
}

#[test]
fn a_rule_has_a_revalidate_of_its_own() {
    let (_server, tiers, _) = own();
    for directory in ["blob/fixed", "blob/live"] {
        tiers.put_blob(&format!("{directory}/f"), b"old");
    }
    let rules = format!(
        "[[rule]]\npath = \"blob/fixed/**\"\nhome = \"blob\"\nstage = \"scratch\"\nrevalidate = \"never\"\n{}",
        crate::support::mount::RULES
    );
    let mount = Mount::of(&tiers).rules(&rules).start();
    let read = |name: &str| fs::read_to_string(mount.path(&format!("blob/{name}/f"))).expect("a read");
    assert_eq!((read("fixed"), read("live")), ("old".into(), "old".into()));
    for directory in ["blob/fixed", "blob/live"] {
        tiers.put_blob(&format!("{directory}/g"), b"new");
        tiers.put_blob(&format!("{directory}/f"), b"new");
    }
    assert_eq!(read("live"), "new");
    assert_eq!(fs::metadata(mount.path("blob/fixed/f")).expect("stat").len(), 3);
    assert!(mount.path("blob/live/g").exists());
}
