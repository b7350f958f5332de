//! Loss and repair, on real mounts: wiped tiers, damaged catalogs, and what fsck and rebuild make of them.

mod adopt;
mod fsck;
mod rebuild;
mod wiped;

use crate::support::blob_server::BlobServer;
use crate::support::mount::{tierfs, told};
use crate::support::{Mount, Tiers};
use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

/// Nothing is committed for an hour unless somebody asks.
const LATE: &str = r#"
[[rule]]
path = "blob/**"
home = "blob"
hot = "scratch"
settle = "1h"

[[rule]]
path = "share/**"
home = "share"

[[rule]]
path = "**"
home = "scratch"
"#;

/// Our own server, and tiers with a container there.
fn own() -> (BlobServer, Tiers) {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    (server, tiers)
}

/// `tierfs ARGUMENTS…`, whatever comes of it.
fn run(arguments: &[&str], config: &Path) -> Output {
    let output = tierfs().args(arguments).arg(config).stdin(Stdio::null()).output();
    output.expect("the tierfs binary")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Errno of what must fail.
#[track_caller]
fn errno<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    result.expect_err("it must fail").raw_os_error().expect("an errno")
}

/// Removes all that is in a directory, as whoever wipes a scratch between campaigns.
fn wipe(root: &Path) {
    for entry in fs::read_dir(root).expect("a directory") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => fs::remove_dir_all(&path).expect("rm -r"),
            false => fs::remove_file(&path).expect("rm"),
        }
    }
}

fn write(mount: &Mount, name: &str, bytes: &str) {
    let path = mount.path(name);
    fs::create_dir_all(path.parent().expect("a parent")).expect("mkdir");
    fs::write(path, bytes).expect("a write");
}

#[track_caller]
fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", told(output));
    text(&output.stdout)
}
