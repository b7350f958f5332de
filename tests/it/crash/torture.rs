//! Random work by several programs, killed at random moments: no acknowledged byte is lost.

use super::programs::{Checkpoints, Fsx};
use super::rig::{self, Waits};
use super::worker::{Dice, Worker};
use crate::support::{Mode, Tiers};
use std::time::Duration;

/// `name` from the environment, for soaks.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn torture(mode: Mode, waits: Waits) {
    let rounds = number("TIERFS_TORTURE_ROUNDS", 6);
    let seed = number("TIERFS_TORTURE_SEED", 1) * 1000;
    let tiers = Tiers::with_azurite();
    let mut mount = rig::mount_where(&tiers, mode, waits).start();
    let mut workers: Vec<Worker> =
        (0..2).map(|i| Worker::new(mount.root(), &rig::ROOTS, &format!("w{i}"), seed + i)).collect();
    let mut job = Checkpoints::start(mount.root(), "blob");
    let mut dice = Dice::new(seed + 99);
    for round in 0..rounds {
        let moment = Duration::from_millis(dice.below(1500) as u64);
        println!("seed {seed}, round {round}: killed after {moment:?}");
        let mut writers: Vec<Fsx> = (0..)
            .zip(["blob", "share", ""])
            .map(|(i, root)| Fsx::start(mount.root(), root, seed + 10 * round + i, mode))
            .collect();
        std::thread::scope(|scope| {
            for worker in &mut workers {
                scope.spawn(move || worker.work(usize::MAX));
            }
            // Any moment will do: the point is that nobody chose it.
            std::thread::park_timeout(moment);
            writers.iter_mut().for_each(Fsx::works);
            mount.kill9();
        });
        job.pause();
        job.verify_order(&tiers);
        rig::stand_again(&mut mount, &mut workers);
        job.verify(mount.root());
        job.resume();
        for writer in &mut writers {
            writer.stop();
            writer.verify(mount.root());
            writer.close(mount.root());
        }
        rig::settle(&tiers, &mount, &mut workers);
        for writer in &mut writers {
            writer.verify(mount.root());
            writer.leave(mount.root(), &tiers);
        }
        job.verify_order(&tiers);
    }
    job.finish();
    rig::flush(&mount);
    job.verify(mount.root());
    job.verify_home(mount.root(), &tiers);
    rig::check_catalog(&mut mount);
}

#[test]
fn full_no_byte_is_lost_passthrough() {
    torture(Mode::Passthrough, Waits::Never);
}

#[test]
fn full_no_byte_is_lost_ordinary() {
    torture(Mode::Ordinary, Waits::Never);
}

#[test]
fn full_no_byte_is_lost_where_programs_wait_for_commits_passthrough() {
    torture(Mode::Passthrough, Waits::Often);
}

#[test]
fn full_no_byte_is_lost_where_programs_wait_for_commits_ordinary() {
    torture(Mode::Ordinary, Waits::Often);
}
