//! More stories that ended badly once: of rows that a crash or a power loss took, and of files with names under several homes.

use super::operations::After::{Go, Look};
use super::operations::Operation::*;
use super::story::tell;

/// The row of a link that was made natively may be lost; the file says itself that it has two names, whichever is looked at first.
#[test]
fn names_that_a_crash_left_of_one_native_file_are_one_file() {
    for new in ["s/a/b", "s/c"] {
        for _ in 0..6 {
            tell(&[(Link("s/a/a", new), Go), (Crash, Look)]);
        }
    }
    for _ in 0..6 {
        tell(&[(Link("h/a/a", "h/a/b"), Go), (Crash, Look), (Truncate("h/a/b", 2), Look)]);
    }
}

#[test]
fn a_delete_that_a_power_loss_undoes_leaves_what_home_has() {
    for chance in 0..6 {
        tell(&[(Open(2, "k/b"), Go), (Close(2), Go), (Unlink("k/b"), Go), (LosePower(chance), Look)]);
    }
}
