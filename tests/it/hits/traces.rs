//! Seeded traces of opens: one a second, all files of one size.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

/// Files of a dataset.
const FILES: u32 = 1000;

/// Times that a dataset is read.
const EPOCHS: usize = 8;

/// Opens in their order.
pub struct Trace {
    pub name: &'static str,
    /// Directory and file of each open.
    pub opens: Vec<(u32, u32)>,
    /// Files of the largest dataset.
    pub largest_set: u32,
}

fn epochs(dir: u32, epochs: usize, mut next: impl FnMut(&mut Vec<u32>)) -> Vec<(u32, u32)> {
    let mut order: Vec<u32> = (0..FILES).collect();
    let mut opens = Vec::new();
    for _ in 0..epochs {
        next(&mut order);
        opens.extend(order.iter().map(|file| (dir, *file)));
    }
    opens
}

/// Every epoch in another order.
pub fn shuffled_epochs(seed: u64) -> Trace {
    let mut random = StdRng::seed_from_u64(seed);
    let opens = epochs(0, EPOCHS, |order| order.shuffle(&mut random));
    Trace { name: "shuffled epochs", opens, largest_set: FILES }
}

/// Every epoch in the same order.
pub fn cyclic_scan() -> Trace {
    let opens = epochs(0, EPOCHS, |_| {});
    Trace { name: "cyclic scan", opens, largest_set: FILES }
}

/// One dataset, then another.
pub fn dataset_switch(seed: u64) -> Trace {
    let mut random = StdRng::seed_from_u64(seed);
    let mut opens = epochs(0, EPOCHS, |order| order.shuffle(&mut random));
    opens.extend(epochs(1, EPOCHS, |order| order.shuffle(&mut random)));
    Trace { name: "dataset switch", opens, largest_set: FILES }
}

/// Epochs over one dataset, and between them as many opens of another, of which some are asked for far more often (Zipf's law, s = 1).
pub fn epochs_and_favourites(seed: u64) -> Trace {
    let mut random = StdRng::seed_from_u64(seed);
    let mut ranks: Vec<u32> = (0..FILES).collect();
    ranks.shuffle(&mut random);
    let weights: Vec<f64> = (1..=FILES).map(|rank| 1.0 / f64::from(rank)).collect();
    let sum: f64 = weights.iter().sum();
    let mut opens = Vec::new();
    for open in epochs(0, EPOCHS, |order| order.shuffle(&mut random)) {
        let mut at = random.random_range(0.0..sum);
        let favourite = weights.iter().position(|weight| {
            at -= weight;
            at < 0.0
        });
        opens.push(open);
        opens.push((1, ranks[favourite.unwrap_or(0)]));
    }
    Trace { name: "epochs and Zipf", opens, largest_set: FILES }
}
