//! More stories that ended badly once: of rows that a crash or a power loss took, and of files with names under several homes.

use super::calls::Trouble;
use super::operations::After::{Go, Look};
use super::operations::Operation::*;
use super::story::tell;
use tierfs::tier::RenameMode::{Exchange, NoReplace, Replace};

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

/// Its bytes were nowhere else: at least the name outlasts.
#[test]
fn a_closed_file_that_was_emptied_as_it_was_opened_is_there_after_a_power_loss() {
    for chance in 0..6 {
        tell(&[(Rename("h/a", "s/a/a", Exchange), Go), (OpenEmpty(1, "h/a"), Go), (LosePower(chance), Look)]);
    }
}

#[test]
fn what_a_deleted_file_had_replaced_does_not_come_back_with_a_power_loss() {
    for chance in 0..6 {
        tell(&[
            (Unlink("k/b"), Go),
            (Rename("h/b", "s/a/a", Replace), Go),
            (LosePower(0), Go),
            (Rename("s/a/a", "k/b", NoReplace), Go),
            (Unlink("k/b"), Go),
            (LosePower(chance), Look),
        ]);
        // What was synced is there until something else is.
        tell(&[
            (Open(0, "k/b"), Go),
            (Write(0, 2, b'!'), Go),
            (Close(0), Go),
            (WriteBack, Go),
            (CreateOpen(1, "k/a/b"), Go),
            (Write(1, 0, b'?'), Go),
            (Fsync(1), Go),
            (Close(1), Go),
            (Rename("k/a/b", "k/b", Replace), Go),
            (LosePower(chance), Look),
        ]);
    }
}

#[test]
fn equal_bytes_under_several_homes_are_no_conflict() {
    for chance in 0..6 {
        tell(&[
            (Link("h/b", "s/c"), Go),
            (Mover(3, Trouble::IsSent), Look),
            (Chmod("s/c", 0o755), Go),
            (LosePower(chance), Go),
        ]);
    }
}

#[test]
fn a_reader_goes_on_while_attributes_are_written_that_no_row_tells_yet() {
    for pass in 0..4 {
        tell(&[(DropHot, Go), (Utimes("k/b", 880_972), Go), (Mover(pass, Trouble::IsAnswered), Look)]);
    }
}

/// The directory is not given up where its files went while its old name was its name.
#[test]
fn a_directory_that_is_renamed_while_it_moves_takes_along_what_has_moved() {
    for pass in 0..4 {
        for trouble in [Trouble::IsSent, Trouble::IsAnswered] {
            tell(&[
                (Rename("h/a", "k/b", Exchange), Go),
                (Mover(pass, trouble), Go),
                (Rename("h/b", "k/b", Exchange), Go),
            ]);
        }
    }
}

#[test]
fn a_file_that_makes_way_for_a_directory_can_be_opened() {
    for pass in 0..3 {
        tell(&[
            (Unlink("k/a/a"), Go),
            (Mkdir("k/a/a"), Go),
            (Rename("s/a", "k/a", Exchange), Go),
            (Mover(pass, Trouble::IsAnswered), Look),
        ]);
    }
}

#[test]
fn a_directory_leaves_though_a_file_that_was_renamed_out_of_it_still_lies_there() {
    tell(&[(Rename("h/a", "s/a", Exchange), Go), (Rename("k/b", "s/a/a", Exchange), Go)]);
}

#[test]
fn a_change_of_mode_of_a_file_that_is_written_at_one_of_two_homes_keeps_its_bytes() {
    tell(&[
        (Link("s/a/a", "h/a/b"), Go),
        (Wait, Go),
        (OpenEmpty(2, "h/a/b"), Go),
        (Chmod("s/a/a", 0o640), Go),
        (Close(2), Look),
    ]);
}

#[test]
fn what_others_put_into_a_directory_shows_where_that_was_renamed_to() {
    tell(&[
        (OutsideDelete("h/a/a"), Go),
        (OutsidePut("s/a/b", 10), Go),
        (Rename("s/a", "h/a/a", Replace), Look),
    ]);
    tell(&[(OutsideTree("s/c"), Go), (Rename("s/c", "h/c", Replace), Look)]);
}

#[test]
fn a_file_is_made_in_a_directory_where_a_replaced_file_still_lies() {
    let changes = [(Rename("s/b", "h/b", Replace), Go), (Rename("k/a", "h/b", Exchange), Go)];
    for made in
        [Create("h/b/b", 5), Mkdir("h/b/b"), Link("h/a/a", "h/b/b"), Rename("h/a/a", "h/b/b", Replace)]
    {
        tell(&[&changes[..], &[(made, Look)]].concat());
    }
}
