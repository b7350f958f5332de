//! A mount with workers in it that is killed, mounted again and looked through.

use super::worker::Worker;
use crate::support::mount::told;
use crate::support::{Mode, Mount, MountBuilder, Tiers};
use std::path::Path;
use std::sync::Arc;
use tierfs::catalog::{Catalog, Location};
use tierfs::clock::SystemClock;
use tierfs::types::Seq;

/// A home on Blob by a stage, one with hot copies, one on the share, one on scratch.
pub const RULES: &str = r#"
[[rule]]
path = "blob/**"
home = "blob"
stage = "scratch"
settle = "50ms"

[[rule]]
path = "hot/**"
home = "blob"
hot = "scratch"
promote = "on-read"
settle = "0s"

[[rule]]
path = "share/**"
home = "share"

[[rule]]
path = "**"
home = "scratch"
"#;

/// The same homes where programs wait for their commits, and what is open goes home too.
const WAITING: &str = r#"
[[rule]]
path = "blob/**"
home = "blob"
stage = "scratch"
write = "through"
order = "strict"
settle = "50ms"

[[rule]]
path = "hot/**"
home = "blob"
hot = "scratch"
promote = "on-read"
fsync = "home"
open_upload = "1s"
settle = "0s"

[[rule]]
path = "share/**"
home = "share"

[[rule]]
path = "**"
home = "scratch"
"#;

/// Whether programs wait for their commits.
#[derive(Clone, Copy, Debug)]
pub enum Waits {
    Never,
    Often,
}

pub const ROOTS: [&str; 4] = ["blob", "hot", "share", ""];

pub fn mount(tiers: &Tiers, mode: Mode) -> MountBuilder<'_> {
    Mount::of(tiers).mode(mode).rules(RULES)
}

/// The same where programs wait for their commits, if they do.
pub fn mount_where(tiers: &Tiers, mode: Mode, waits: Waits) -> MountBuilder<'_> {
    match waits {
        Waits::Never => mount(tiers, mode),
        Waits::Often => Mount::of(tiers).mode(mode).rules(WAITING),
    }
}

/// Everything after a death: the mount stands again, all is there, reaches home, and is there once.
pub fn recover(tiers: &Tiers, mount: &mut Mount, workers: &mut [Worker]) {
    stand_again(mount, workers);
    settle(tiers, mount, workers);
}

/// The mount stands again after a death, and all is there.
pub fn stand_again(mount: &mut Mount, workers: &mut [Worker]) {
    workers.iter_mut().for_each(Worker::go_on);
    mount.remount();
    workers.iter_mut().for_each(Worker::verify);
    workers.iter_mut().for_each(Worker::go_on);
    workers.iter_mut().for_each(Worker::verify);
}

/// Nothing is open any more: everything reaches its home, and is where it should be and nowhere else.
pub fn settle(tiers: &Tiers, mount: &Mount, workers: &mut [Worker]) {
    workers.iter_mut().for_each(Worker::let_go);
    workers.iter().for_each(Worker::finish_what_was_open);
    flush(mount);
    workers.iter_mut().for_each(Worker::verify);
    at_home(tiers, workers);
}

pub fn flush(mount: &Mount) {
    let output = mount.try_tierfs(&["flush", "--timeout", "45s"]);
    assert!(output.status.success(), "flush: {}\n{}", told(&output), mount.tierstat(&[]));
}

/// Each tier has what belongs there, byte for byte, and nothing else of the workers.
fn at_home(tiers: &Tiers, workers: &[Worker]) {
    let mut blobs = Vec::new();
    let (mut share, mut scratch) = (Vec::new(), Vec::new());
    for worker in workers {
        let (tree, roots) = (worker.tree(), worker.roots());
        for (path, bytes) in roots[..2].iter().flat_map(|root| tree.below(root)) {
            assert!(
                tiers.blob(path).as_deref() == Some(bytes),
                "{path} on Blob; the last calls were:\n{}",
                worker.history()
            );
            blobs.push(path.clone());
        }
        share.extend(tree.below(&roots[2]).map(|(path, _)| path.clone()));
        scratch.extend(tree.below(&roots[3]).map(|(path, _)| path.clone()));
        for (path, bytes) in tree.below(&roots[2]) {
            assert!(
                std::fs::read(tiers.share.join(path)).is_ok_and(|found| found == bytes),
                "{path} on the share"
            );
        }
    }
    for names in [&mut blobs, &mut share, &mut scratch] {
        names.sort();
    }
    assert_eq!(of_workers(tiers.blob_file_names()), blobs, "files on Blob\n{}", histories(workers));
    assert_eq!(of_workers(tiers.share_names()), share, "files on the share\n{}", histories(workers));
    assert_eq!(of_workers(tiers.scratch_names()), scratch, "files on scratch\n{}", histories(workers));
}

/// Without what programs of their own have: they look themselves.
fn of_workers(mut names: Vec<String>) -> Vec<String> {
    names.retain(|name| name.split('/').all(|part| part != super::programs::PLACE));
    names
}

fn histories(workers: &[Worker]) -> String {
    workers.iter().map(Worker::history).collect::<Vec<_>>().join("\n---\n")
}

/// Ends the mount in order and looks into its catalog: nothing is pending, and it is true by itself.
pub fn check_catalog(mount: &mut Mount) {
    let status = mount.unmount();
    assert!(status.success(), "{status}\n{}", mount.log());
    check(&mount.config().with_file_name("catalog.db"));
}

fn check(catalog: &Path) {
    let catalog = Catalog::open(&Location::Sqlite(catalog.to_owned()), Arc::new(SystemClock::default()))
        .expect("the catalog");
    assert_eq!(catalog.check().expect("a check"), Vec::<String>::new());
    assert_eq!(catalog.dirty().expect("a list").len(), 0, "dirty files");
    let steps = catalog.steps(Seq(0), 10).expect("steps");
    assert!(steps.is_empty(), "steps are left: {steps:?}");
}
