//! What users of such mounts have lost data, time or nerves over, each with the right value: on a real mount, and where it
//! can be on both servers.

mod archive;
mod catalog_lost;
mod changes;
mod inodes;
mod large;
mod links_and_times;
mod maps;
mod names;
mod order;
mod recipe;
mod refused;
mod room;
mod signing_in;
mod trouble;
mod two_mounts;
mod warm;

use crate::support::blob_server::BlobServer;
use crate::support::{Mount, Tiers};
use std::path::Path;

/// Runs `test` on the emulator and on our own server.
fn on_both(test: impl Fn(&Tiers)) {
    test(&Tiers::with_azurite());
    let server = BlobServer::start();
    test(&Tiers::with_server(&server));
}

/// Our own server, tiers with a container there, and its name.
fn own() -> (BlobServer, Tiers, String) {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let name = tiers.container().name().to_owned();
    (server, tiers, name)
}

/// The usual rules, with what is seen on Blob believed for an hour.
fn patient() -> String {
    crate::support::mount::RULES.replace("settle", "revalidate = \"1h\"\nsettle")
}

/// Errno of what must fail.
#[track_caller]
fn errno<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    result.expect_err("it must fail").raw_os_error().expect("an errno")
}

/// A mount whose catalog is gone: it knows only what the tiers say.
fn without_catalog(mount: &mut Mount) {
    assert!(mount.unmount().success(), "{}", mount.log());
    let place = mount.config().parent().map(Path::to_owned).expect("a place");
    for entry in std::fs::read_dir(&place).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("catalog.db")) {
            std::fs::remove_file(path).expect("rm");
        }
    }
    mount.remount();
}
