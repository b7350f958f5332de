//! Programs that outlive the daemon and go on writing to what they closed: who waits for a commit behind that does not wait for them.

use super::mapped::Mapped;
use super::rig;
use crate::support::mount::told;
use crate::support::{Mode, Mount, Tiers};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::SystemTime;

const NAME: &str = "blob/kept";
const NEXT: &str = "blob/next";

/// How a program goes on writing to a file after a close of it.
enum Holder {
    Descriptor(File),
    Mapping(Mapped),
}

impl Holder {
    fn write(&self, bytes: &[u8]) {
        let written = match self {
            Self::Descriptor(file) => file.write_all_at(bytes, 0),
            Self::Mapping(mapped) => mapped.write(0, bytes),
        };
        written.expect("by passthrough the kernel goes on");
    }
}

/// What was closed before it in its order goes first.
fn bring_next_home(mount: &Mount, bytes: &str) {
    fs::write(mount.path(NEXT), bytes).expect("a write");
    let flushed =
        mount.try_tierfs(&["flush", "--timeout", "45s", mount.path(NEXT).to_str().expect("a path")]);
    assert!(flushed.status.success(), "{}\n{}", told(&flushed), mount.tierstat(&["queue"]));
}

fn modified(mount: &Mount) -> SystemTime {
    fs::metadata(mount.path(NAME)).and_then(|metadata| metadata.modified()).expect("a time")
}

fn close_and_go_on(hold: fn(File) -> Holder) {
    let tiers = Tiers::with_azurite();
    let mut mount = rig::mount(&tiers, Mode::Passthrough).start();
    fs::create_dir(mount.path("blob")).expect("mkdir");
    let file = File::options().read(true).write(true).create_new(true).open(mount.path(NAME)).expect("open");
    file.write_all_at(b"1 one", 0).expect("a write");
    let holder = hold(file);
    mount.kill9();
    holder.write(b"2 two");
    mount.remount();
    bring_next_home(&mount, "first");
    assert_eq!(tiers.blob(NEXT).as_deref(), Some(&b"first"[..]));
    assert_eq!(tiers.blob(NAME).as_deref(), Some(&b"2 two"[..]), "before what was closed after it");
    holder.write(b"3 six");
    assert_eq!(fs::read(mount.path(NAME)).expect("a read"), b"3 six");
    bring_next_home(&mount, "second");
    drop(holder);
    mount.flush();
    assert_eq!(fs::read(mount.path(NAME)).expect("a read"), b"3 six");
    assert_eq!(tiers.blob(NAME).as_deref(), Some(&b"3 six"[..]), "when it lets go, what it wrote last");
    rig::check_catalog(&mut mount);
}

#[test]
fn a_mapping_that_outlives_the_daemon_holds_up_nobody() {
    close_and_go_on(|file| Holder::Mapping(Mapped::new(&file, 5, 0).expect("a mapping")));
}

#[test]
fn a_descriptor_that_outlives_the_daemon_holds_up_nobody() {
    close_and_go_on(|file| {
        drop(file.try_clone().expect("dup"));
        Holder::Descriptor(file)
    });
}

#[test]
fn what_was_written_while_no_daemon_lived_shows_in_the_times() {
    let tiers = Tiers::with_azurite();
    let mut mount = rig::mount(&tiers, Mode::Passthrough).start();
    fs::create_dir(mount.path("blob")).expect("mkdir");
    let file = File::options().read(true).write(true).create_new(true).open(mount.path(NAME)).expect("open");
    file.write_all_at(b"1 one", 0).expect("a write");
    let before = modified(&mount);
    let mapping = Mapped::new(&file, 5, 0).expect("a mapping");
    drop(file);
    mount.kill9();
    mapping.write(0, b"2 two").expect("by passthrough the kernel goes on");
    drop(mapping);
    mount.remount();
    mount.flush();
    assert_eq!(tiers.blob(NAME).as_deref(), Some(&b"2 two"[..]));
    let after = modified(&mount);
    assert!(after > before, "{after:?} is when it was written last, not {before:?}");
    rig::check_catalog(&mut mount);
}
