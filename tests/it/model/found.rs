//! Stories that ended badly once.

use super::calls::Trouble;
use super::operations::After::{Go, Look};
use super::operations::Operation::*;
use super::story::{tell, tell_with_cold, tell_with_overflow};
use tierfs::tier::RenameMode::{Exchange, Replace};

#[test]
fn what_was_only_opened_outlasts_power() {
    for (chance, gone) in [(0, Wait), (1, Wait), (2, DropHot), (0, DropHot)] {
        tell(&[
            (Create("k/a/b", 10), Go),
            (Flush, Go),
            (gone, Go),
            (Open(0, "k/a/b"), Go),
            (Close(0), Go),
            (Wait, Go),
            (LosePower(chance), Look),
        ]);
    }
}

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

#[test]
fn a_file_with_names_under_two_homes_is_written_to_both() {
    for write in [Truncate("k/a/b", 3), Truncate("s/b", 1)] {
        tell(&[(Link("s/b", "k/a/b"), Go), (Wait, Go), (write, Go)]);
    }
    for name in ["k/a/b", "s/b"] {
        tell(&[
            (Link("s/b", "k/a/b"), Go),
            (Wait, Go),
            (Open(0, name), Go),
            (Write(0, 2, b'!'), Go),
            (Close(0), Go),
        ]);
    }
}

/// What was not synced went, the name with it or not; a row that outlasts the bytes must not make a cut file of them.
#[test]
fn a_closed_file_that_a_power_loss_cut_is_not_shown_and_replaces_nothing() {
    for chance in 0..6 {
        tell(&[(Create("k/a/b", 10), Go), (Fsync(0), Go), (LosePower(chance), Look)]);
        tell(&[
            (Open(0, "k/b"), Go),
            (Write(0, 9, b'!'), Go),
            (Close(0), Go),
            (Open(1, "s/b"), Go),
            (Write(1, 0, b'!'), Go),
            (Fsync(1), Go),
            (LosePower(chance), Look),
        ]);
    }
}

#[test]
fn a_rename_across_homes_outlasts_a_power_loss_or_never_was() {
    for chance in 0..6 {
        tell(&[(Rename("s/a", "h/a/b", Replace), Go), (LosePower(chance), Look)]);
        tell(&[(Rename("s/b", "k/a/b", Replace), Go), (LosePower(chance), Look)]);
        tell(&[(Rename("h/b", "s/b", Exchange), Go), (LosePower(chance), Look)]);
    }
}

#[test]
fn what_was_synced_outlasts_a_power_loss() {
    for chance in 0..6 {
        for path in ["s/a/b", "h/a/b", "k/a/b"] {
            tell(&[
                (CreateOpen(0, path), Go),
                (Write(0, 3, b'!'), Go),
                (Fsync(0), Go),
                (Write(0, 5, b'?'), Go),
                (LosePower(chance), Look),
            ]);
        }
    }
}

#[test]
fn what_was_only_opened_is_after_a_power_loss_what_home_has() {
    for chance in 0..6 {
        tell(&[(Open(0, "k/b"), Go), (Crash, Go), (LosePower(chance), Look)]);
        tell(&[(Open(0, "k/b"), Go), (Open(1, "s/b"), Go), (Fsync(1), Go), (LosePower(chance), Look)]);
    }
}

#[test]
fn a_delete_that_a_power_loss_undoes_leaves_no_file_that_can_not_be_read() {
    for chance in 0..6 {
        tell(&[(Rename("h/b", "s/b", Replace), Go), (Unlink("s/b"), Go), (LosePower(chance), Look)]);
    }
}

#[test]
fn a_directory_moves_on_though_a_file_in_it_waits_for_its_commit() {
    tell(&[
        (Rename("s/a", "k/b", Exchange), Go),
        (Create("h/a/b", 0), Go),
        (Rename("h/b", "k/b/a", Replace), Go),
    ]);
}

#[test]
fn a_directory_made_just_before_a_crash_is_there() {
    for _ in 0..10 {
        tell(&[
            (OutsidePut("s/a/a", 1), Go),
            (Rename("s/a/a", "s/a/b", Replace), Go),
            (Mkdir("s/a/a"), Go),
            (Crash, Look),
        ]);
        for name in ["s/c", "h/c", "k/c"] {
            tell(&[(Mkdir(name), Go), (Crash, Look)]);
        }
    }
}

#[test]
fn what_nobody_uses_goes_and_comes_back() {
    let cool = Cool(u8::MAX, Trouble::Fails);
    tell_with_cold(&[
        (cool, Look),
        (Flush, Look),
        (OpenToRead(0, "h/b"), Go),
        (Read(0), Go),
        (Close(0), Go),
        (Flush, Look),
    ]);
    tell_with_cold(&[
        (cool, Go),
        (Rename("h/a", "h/c", Replace), Look),
        (Flush, Look),
        (Rename("h/c", "s/c", Replace), Look),
    ]);
    tell_with_cold(&[(cool, Go), (Open(0, "h/b"), Go), (Write(0, 3, 7), Go), (Close(0), Look), (cool, Look)]);
    tell_with_cold(&[
        (cool, Go),
        (Link("h/b", "h/c"), Look),
        (Unlink("h/b"), Look),
        (cool, Look),
        (LoseCatalog, Look),
    ]);
}

#[test]
fn a_move_to_the_cold_tier_may_stop_anywhere() {
    for trouble in [Trouble::Fails, Trouble::LosesItsReply, Trouble::IsSent, Trouble::IsAnswered] {
        for pass in 0..12 {
            tell_with_cold(&[(Cool(pass, trouble), Go), (Crash, Look), (Flush, Look)]);
            let write =
                [(Cool(pass, trouble), Go), (Open(0, "h/b"), Go), (Write(0, 0, 9), Go), (Close(0), Look)];
            tell_with_cold(&write);
            tell_with_cold(&[
                (Cool(pass, trouble), Go),
                (Rename("h/b", "k/c", Replace), Look),
                (LosePower(9), Look),
            ]);
            let read = [
                (Cool(u8::MAX, Trouble::Fails), Go),
                (OpenToRead(0, "h/b"), Go),
                (Mover(pass, trouble), Go),
                (Read(0), Look),
            ];
            tell_with_cold(&read);
        }
    }
}

#[test]
fn a_file_that_comes_home_may_stop_anywhere() {
    for trouble in [Trouble::Fails, Trouble::LosesItsReply, Trouble::IsSent, Trouble::IsAnswered] {
        for pass in 0..8 {
            let away = [(Fill, Go), (Create("h/a/b", 7), Go), (Flush, Go), (Room(pass, trouble), Go)];
            for after in [
                &[(Crash, Look)][..],
                &[(Open(0, "h/a/b"), Go), (Write(0, 0, 9), Go), (Close(0), Look)],
                &[(Fill, Go), (OpenEmpty(0, "h/a/b"), Go), (Write(0, 1, 9), Look)],
                &[(Rename("h/a/b", "k/c", Replace), Look), (Crash, Look)],
                &[(Rename("h/b", "h/a/b", Exchange), Look), (Link("h/a/b", "h/c"), Look)],
                &[(Unlink("h/a/b"), Look)],
            ] {
                tell_with_overflow(&[&away[..], after].concat());
            }
        }
    }
}

#[test]
fn what_was_written_as_the_power_went_comes_home_once_it_is_closed() {
    let cool = Cool(u8::MAX, Trouble::Fails);
    tell_with_cold(&[(cool, Go), (OpenEmpty(0, "h/b"), Go), (Chmod("s/a", 416), Go), (LosePower(242), Look)]);
}

#[test]
fn a_file_is_as_long_after_a_power_loss_as_its_bytes_are() {
    for chance in 0..6 {
        tell(&[
            (OpenEmpty(2, "h/a/a"), Go),
            (Flush, Go),
            (Rename("k/b", "h/a/a", Exchange), Go),
            (LosePower(chance), Look),
        ]);
    }
}

#[test]
fn what_a_cut_left_outlasts_a_power_loss() {
    for chance in 0..6 {
        tell(&[(Open(1, "k/b"), Go), (Cut(1, 2), Go), (WriteBack, Go), (LosePower(chance), Look)]);
    }
}

#[test]
fn names_that_share_a_native_file_come_to_rest_beside_one_elsewhere() {
    tell(&[(Link("s/b", "k/a/b"), Go), (Link("s/b", "s/a/b"), Go)]);
}

#[test]
fn a_file_whose_names_have_homes_of_their_own_is_written_to_each() {
    tell(&[(Link("h/a/a", "s/a/b"), Go), (Wait, Go), (Truncate("h/a/a", 0), Go)]);
}

#[test]
fn what_is_only_open_keeps_what_it_was_when_another_takes_its_name() {
    tell(&[(Open(1, "k/b"), Go), (Rename("h/a/a", "k/b", Exchange), Go), (Nudge(68), Go)]);
}

#[test]
fn a_rename_to_a_name_waits_for_what_has_yet_to_leave_its_key() {
    let leaves = (Rename("s/a", "k/b", Exchange), Go);
    tell(&[leaves, (Rename("s/b", "s/a", Replace), Go)]);
    tell(&[
        (Mkdir("s/c"), Go),
        leaves,
        (Rename("s/a", "h/a/b", Replace), Go),
        (Rename("s/c", "s/a", Replace), Go),
    ]);
    tell(&[
        (Mkdir("s/c"), Go),
        (Rename("k/b", "s/b", Replace), Go),
        (Rename("s/b", "h/c", Replace), Go),
        (Rename("s/c", "s/b", Replace), Go),
    ]);
}

#[test]
fn what_others_put_into_a_directory_that_was_exchanged_goes_along() {
    tell(&[(OutsidePut("s/a/b", 6), Go), (Rename("h/b", "s/a", Exchange), Look)]);
}

#[test]
fn an_empty_directory_is_made_where_the_one_above_it_went() {
    tell(&[
        (Rename("k/a/a", "h/b", Replace), Go),
        (Mkdir("k/a/a"), Go),
        (Wait, Go),
        (Rename("s/a", "k/a", Exchange), Go),
    ]);
}

#[test]
fn a_directory_is_made_and_listed_where_a_replaced_file_still_lies() {
    for steps in [0, 63] {
        tell(&[
            (Rename("k/b", "s/b", Replace), Go),
            (Rename("s/a", "s/b", Exchange), Go),
            (Nudge(steps), Look),
        ]);
    }
}

#[test]
fn a_file_that_loses_a_name_while_it_is_written_reaches_the_others() {
    let story = [(Link("h/a/a", "s/a/b"), Go), (Open(2, "s/a/b"), Go), (Unlink("s/a/b"), Go)];
    tell(&story);
    tell(&[&story[..], &[(Write(2, 0, b'!'), Go), (Close(2), Go)]].concat());
}

#[test]
fn what_was_emptied_and_never_closed_is_after_a_power_loss_what_it_was() {
    for chance in 0..6 {
        tell(&[
            (Rename("k/b", "h/a", Exchange), Go),
            (OpenEmpty(0, "h/a"), Go),
            (Mover(6, Trouble::IsSent), Go),
            (LosePower(chance), Look),
        ]);
        tell(&[(OpenEmpty(0, "k/b"), Go), (WriteBack, Go), (LosePower(chance), Look)]);
    }
}

#[test]
fn a_directory_is_made_where_others_put_a_file_into_the_one_that_leaves() {
    tell(&[
        (OutsidePut("s/a/b", 4), Go),
        (Rename("h/a", "k/a/b", Replace), Go),
        (Rename("k/a", "s/a", Exchange), Go),
    ]);
}
