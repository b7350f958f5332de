//! The daemon dies at every place that `failpoint` names, with programs that outlive it.

use super::rig;
use super::worker::Worker;
use crate::support::{Mode, Tiers, noise};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tierfs::failpoint::{POINTS, Point};

/// Operations after which a place counts as unreachable.
const OPERATIONS: usize = 3_000;

/// Where another test drives the daemon's parts, or a command, because no program leads there by calls alone.
const BY_PARTS: [&str; 4] =
    ["directory_moved_not_recorded", "losses_named", "sent_away_not_moved", "taken_over_not_closed"];

fn die_at(point: &Point, pass: u32, mode: Mode) {
    println!("{} ({pass}) {mode:?}: {}", point.name, point.promise);
    let tiers = Tiers::with_azurite();
    let mut mount = rig::mount(&tiers, mode).start();
    let mut workers = [Worker::new(mount.root(), &rig::ROOTS, "w", u64::from(pass))];
    for i in 0..6 {
        let (path, bytes) = (format!("hot/w/seed{i}"), noise(i, 300_000));
        tiers.put_blob(&path, &bytes);
        workers[0].knows(&path, bytes);
    }
    assert!(mount.unmount().success());
    mount.set_environment("TIERFS_CRASH_AT", &format!("{}:{pass}", point.name));
    mount.remount();
    if workers[0].work(OPERATIONS) {
        mount.wait_for_end();
    } else {
        assert!(pass > 1, "{} was never reached", point.name);
        mount.kill9();
    }
    mount.set_environment("TIERFS_CRASH_AT", "");
    rig::recover(&tiers, &mut mount, &mut workers);
    rig::check_catalog(&mut mount);
}

fn reachable(mode: Mode) -> impl Iterator<Item = &'static Point> {
    let only = std::env::var("TIERFS_CRASH_POINT").ok();
    POINTS.iter().filter(move |point| {
        only.as_ref().is_none_or(|only| only == point.name)
            && !BY_PARTS.contains(&point.name)
            // The kernel holds a hot copy open only when it passes it through.
            && (mode == Mode::Passthrough || point.name != "hot_copy_claimed")
    })
}

/// Dies at each point; one that loses something keeps no other from being tried.
fn die_at_each<'a>(points: impl Iterator<Item = &'a Point>, passes: &[u32], mode: Mode) {
    let mut lost = Vec::new();
    for point in points {
        for pass in passes {
            let died = std::panic::catch_unwind(|| die_at(point, *pass, mode));
            lost.extend(died.is_err().then(|| format!("{} ({pass})", point.name)));
        }
    }
    assert_eq!(lost, Vec::<String>::new(), "{mode:?}");
}

#[test]
fn soak_nothing_is_lost_wherever_the_daemon_dies_passthrough() {
    die_at_each(reachable(Mode::Passthrough).step_by(2), &[1], Mode::Passthrough);
}

#[test]
fn soak_nothing_is_lost_wherever_the_daemon_dies_ordinary() {
    die_at_each(reachable(Mode::Ordinary).skip(1).step_by(2), &[1], Mode::Ordinary);
}

#[test]
fn soak_nothing_is_lost_at_any_point_passthrough() {
    die_at_each(reachable(Mode::Passthrough), &[1, 2, 5], Mode::Passthrough);
}

#[test]
fn soak_nothing_is_lost_at_any_point_ordinary() {
    die_at_each(reachable(Mode::Ordinary), &[1, 2, 5], Mode::Ordinary);
}

fn passes(dir: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).expect("sources").flatten() {
        if entry.path().is_dir() {
            passes(&entry.path(), found);
            continue;
        }
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        let names = text.split("pass(\"").skip(1).filter_map(|rest| rest.split('"').next());
        found.extend(names.map(str::to_owned));
    }
}

#[test]
fn every_point_is_in_the_table_with_its_promise() {
    let mut found = BTreeSet::new();
    passes(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    let known: BTreeSet<String> = POINTS.iter().map(|point| point.name.to_owned()).collect();
    assert_eq!(found, known);
    assert_eq!(known.len(), POINTS.len(), "a name stands twice");
}
