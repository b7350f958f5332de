//! How many reads hot copies serve, on traces of how training reads: ours beside LRU and the optimum.

mod policies;
mod traces;

use policies::{belady, lru, tierfs};
use traces::Trace;

/// Shares of the dataset that a cache holds.
const SHARES: [f64; 3] = [0.2, 0.5, 0.8];

/// Mean hit ratios over all cache sizes: ours, LRU's and Belady's.
fn compare(trace: &Trace) -> [f64; 3] {
    let mut means = [0.0; 3];
    for share in SHARES {
        let slots = (f64::from(trace.largest_set) * share) as usize;
        let [ours, recent, optimum] = [tierfs(trace, slots), lru(trace, slots), belady(trace, slots)];
        let (name, percent) = (trace.name, share * 100.0);
        println!("{name:<16} cache {percent:>3.0}%: tierfs {ours:.3}  LRU {recent:.3}  Belady {optimum:.3}");
        means
            .iter_mut()
            .zip([ours, recent, optimum])
            .for_each(|(mean, ratio)| *mean += ratio / SHARES.len() as f64);
    }
    println!(
        "{:<16} mean: {:.3} of Belady; LRU {:.3} of it",
        trace.name,
        means[0] / means[2],
        means[1] / means[2]
    );
    means
}

#[test]
fn a_shuffled_dataset_keeps_a_stable_part_hot() {
    let [ours, lru, belady] = compare(&traces::shuffled_epochs(1));
    assert!(ours >= 0.97 * belady && ours > 1.5 * lru);
}

#[test]
fn a_cyclic_scan_is_served_as_well_as_can_be() {
    let [ours, lru, belady] = compare(&traces::cyclic_scan());
    assert!(ours >= 0.97 * belady && ours > 10.0 * lru);
}

#[test]
fn another_dataset_takes_the_place_of_the_one_before() {
    let [ours, lru, belady] = compare(&traces::dataset_switch(2));
    assert!(ours >= 0.97 * belady && ours > 1.5 * lru);
}

#[test]
fn favourites_beside_epochs_are_found() {
    let [ours, lru, belady] = compare(&traces::epochs_and_favourites(3));
    assert!(ours >= 0.90 * belady && ours > 1.2 * lru);
}
