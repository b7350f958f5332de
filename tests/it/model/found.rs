//! Stories that ended badly once.

use super::operations::After::{Go, Look};
use super::operations::Operation::*;
use super::story::tell;
use tierfs::tier::RenameMode::{Exchange, Replace};

#[test]
fn a_file_and_a_directory_change_places_across_homes() {
    tell(&[(Rename("s/b", "h/a", Exchange), Go)]);
}

#[test]
fn a_create_that_is_refused_takes_nothing_from_where_its_directory_was() {
    tell(&[(Rename("k/a", "h/a", Exchange), Look), (Create("h/a/a", 1), Look)]);
}

#[test]
fn what_leaves_the_stage_takes_its_description_along() {
    tell(&[
        (Rename("h/b", "h/a/b", Replace), Go),
        (Rename("h/a/a", "k/a/a", Replace), Go),
        (Rename("h/a", "k/a", Exchange), Go),
    ]);
}

#[test]
fn a_directory_that_others_emptied_can_be_removed_and_replaced() {
    tell(&[(OutsideDelete("h/a/a"), Go), (Rmdir("h/a"), Go)]);
    tell(&[(Mkdir("h/c"), Go), (OutsideDelete("h/a/a"), Go), (Rename("h/c", "h/a", Replace), Go)]);
    tell(&[(OutsideDelete("k/a/a"), Go), (Rmdir("k/a"), Go)]);
}

#[test]
fn a_name_is_free_as_soon_as_its_directory_changed_places_and_left() {
    for make in [Create("h/a", 0), Mkdir("h/a")] {
        tell(&[(Rename("h/a", "s/a", Exchange), Go), (Rename("h/a", "s/a/b", Replace), Go), (make, Go)]);
    }
}

#[test]
fn a_new_file_linked_under_another_home_reaches_both() {
    tell(&[(Create("k/a/b", 0), Go), (Link("k/a/b", "s/a/b"), Go)]);
    tell(&[(Create("s/b/b", 4), Go), (Create("s/a/b", 4), Go), (Link("s/a/b", "k/a/b"), Go)]);
}

#[test]
fn an_open_file_keeps_its_name_when_directories_change_places_across_homes() {
    for _ in 0..20 {
        tell(&[(Open(0, "h/a/a"), Go), (Rename("k/a", "h/a", Exchange), Go), (Wait, Go)]);
    }
}
