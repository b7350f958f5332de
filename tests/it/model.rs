//! The reference model: random operations on a whole tierfs without a kernel, compared with a plain tree after every
//! step, and with the tiers' native layout after every flush.
//!
//! New stories belong to the soak, `PROPTEST_CASES` of them; every run tells those that once failed. A story that fails is
//! shrunk to a short list of operations; once its fault is mended the list stays in `found`.

mod calls;
mod found;
mod mended;
mod operations;
mod past;
mod power;
mod story;
mod tree;
mod world;

use operations::{Scene, Story, story, story_of_power_loss, story_with_full_home, story_with_unused_files};
use proptest::prelude::Strategy;
use proptest::test_runner::{Config, TestError, TestRunner};
use std::cell::Cell;
use std::panic::{catch_unwind, resume_unwind};

/// Enough for some minutes.
const CASES: u32 = 4096;
/// How often a shrunk story is told.
const CHANCES: u32 = 6;
const LONGEST: usize = 60;
const SHORT: usize = 10;

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(CASES)
}

fn tell(cases: u32, stories: impl Strategy<Value = Story>, teller: fn(&[Scene])) {
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 2_000,
        max_shrink_time: 120_000,
        ..Config::default()
    };
    // Threads and batches of rows have their own time: a shorter story gets more than one chance to end badly.
    let failed = Cell::new(false);
    let told = TestRunner::new(config).run(&stories, |scenes| {
        for _ in 0..if failed.get() { CHANCES } else { 1 } {
            let told = catch_unwind(|| teller(&scenes.0));
            failed.set(failed.get() || told.is_err());
            told.unwrap_or_else(|why| resume_unwind(why));
        }
        Ok(())
    });
    match told {
        Ok(()) => {}
        Err(TestError::Fail(why, scenes)) => panic!("{why}\nthe shortest story that ends so:\n{scenes:?}"),
        Err(aborted) => panic!("{aborted}"),
    }
}

#[test]
fn soak_random_operations_do_what_a_plain_tree_does() {
    tell(cases(), story(LONGEST), story::tell);
}

#[test]
fn soak_a_power_loss_leaves_what_was_synced_and_tears_nothing() {
    tell(cases(), story_of_power_loss(SHORT), story::tell);
}

#[test]
fn soak_files_that_nobody_uses_go_and_come_back_as_in_a_plain_tree() {
    tell(cases(), story_with_unused_files(LONGEST), story::tell_with_cold);
}

#[test]
fn soak_what_is_new_while_home_is_full_goes_elsewhere_and_comes_home_as_in_a_plain_tree() {
    tell(cases(), story_with_full_home(LONGEST), story::tell_with_overflow);
}
