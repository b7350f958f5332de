//! Random work, killed at random moments: no acknowledged byte is lost.

use super::rig;
use super::worker::{Dice, Worker};
use crate::support::{Mode, Tiers};
use std::time::Duration;

/// `name` from the environment, for soaks.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn torture(mode: Mode) {
    let rounds = number("TIERFS_TORTURE_ROUNDS", 6);
    let seed = number("TIERFS_TORTURE_SEED", 1) * 1000;
    let tiers = Tiers::with_azurite();
    let mut mount = rig::mount(&tiers, mode).start();
    let mut workers: Vec<Worker> =
        (0..2).map(|i| Worker::new(mount.root(), &rig::ROOTS, &format!("w{i}"), seed + i)).collect();
    let mut dice = Dice::new(seed + 99);
    for round in 0..rounds {
        let moment = Duration::from_millis(dice.below(1500) as u64);
        println!("seed {seed}, round {round}: killed after {moment:?}");
        std::thread::scope(|scope| {
            for worker in &mut workers {
                scope.spawn(move || worker.work(usize::MAX));
            }
            // Any moment will do: the point is that nobody chose it.
            std::thread::park_timeout(moment);
            mount.kill9();
        });
        rig::recover(&tiers, &mut mount, &mut workers);
    }
    rig::check_catalog(&mut mount);
}

#[test]
fn full_no_byte_is_lost_passthrough() {
    torture(Mode::Passthrough);
}

#[test]
fn full_no_byte_is_lost_ordinary() {
    torture(Mode::Ordinary);
}
