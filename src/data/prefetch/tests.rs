use super::*;
use crate::data::ranges::RangeSet;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const ROOM: u64 = GIB;

fn stream(prefetch: &mut Prefetch, from: u64, reads: u64, len: u64) -> Vec<Plan> {
    (0..reads).map(|n| prefetch.on_read(from + n * len, len, GIB, ROOM)).collect()
}

#[test]
fn the_first_request_is_small() {
    let plan = Prefetch::default().on_read(0, 4096, GIB, ROOM);
    assert_eq!(plan, Plan { wanted: 0..FIRST, ..Plan::default() });
    let plan = Prefetch::default().on_read(0, 1 << 20, GIB, ROOM);
    assert_eq!(plan, Plan { wanted: 0..1 << 20, ..Plan::default() });
}

#[test]
fn a_footer_is_asked_for_exactly() {
    let size = GIB - 10;
    let plan = Prefetch::default().on_read(size - 8, 4096, size, ROOM);
    assert_eq!(plan, Plan { wanted: GIB - ALIGN..size, ..Plan::default() });
}

#[test]
fn a_stream_is_followed_with_a_growing_window_in_parts() {
    let mut prefetch = Prefetch::default();
    let plans = stream(&mut prefetch, 0, 1024, 128 << 10);
    let mut asked = 0;
    for (n, plan) in plans.iter().enumerate() {
        assert_eq!(plan.cancel, []);
        asked = asked.max(plan.wanted.end);
        for part in &plan.ahead {
            assert_eq!(part.start, asked, "read {n}");
            assert!(part.end - part.start <= PART);
            asked = part.end;
        }
        let next = (n as u64 + 1) * (128 << 10);
        assert!(asked >= next && asked - next <= WINDOW_MAX);
        assert!(n < 512 || asked - next >= WINDOW_MAX - PART, "full after 64 MiB");
    }
    let mut late = plans[700..].iter().flat_map(|plan| &plan.ahead);
    assert!(late.all(|part| part.end - part.start == PART), "whole parts once the window is full");
    assert_eq!(prefetch.windows(), WINDOW_MAX);
}

#[test]
fn reads_out_of_order_stay_one_stream() {
    let mut prefetch = Prefetch::default();
    let mut order: Vec<u64> = (0..256).collect();
    order.chunks_mut(4).for_each(|four| four.swap(1, 3));
    for (n, at) in order.into_iter().enumerate() {
        let plan = prefetch.on_read(at * (128 << 10), 128 << 10, GIB, ROOM);
        assert!(plan.cancel.is_empty(), "read {n}");
    }
    assert_eq!(prefetch.cursors.len(), 1);
}

/// The kernel has two of its windows under way and sends their requests in any order.
#[test]
fn whatever_the_kernel_reorders_is_asked_for_once() {
    let mut seed = 7u64;
    for _ in 0..64 {
        let mut prefetch = Prefetch::default();
        let mut order: Vec<u64> = (0..128).collect();
        for window in order.chunks_mut(8) {
            for n in (1..window.len()).rev() {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                window.swap(n, (seed >> 33) as usize % (n + 1));
            }
        }
        let mut passed = 0;
        for (n, &at) in order.iter().enumerate() {
            let plan = prefetch.on_read(at * MIB, MIB, GIB, ROOM);
            assert_eq!(plan.cancel, [], "{order:?} at read {n}");
            passed = passed.max(plan.passed.end);
            let unread = (0..128).find(|at| !order[..=n].contains(at)).unwrap_or(128);
            assert!(passed <= unread * MIB, "{order:?} at read {n}: unread bytes are the first to go");
        }
        assert_eq!(prefetch.cursors.len(), 1, "{order:?}");
    }
}

#[test]
fn what_is_jumped_over_is_cancelled() {
    let mut prefetch = Prefetch::default();
    stream(&mut prefetch, 0, 64, MIB);
    let cancelled = |prefetch: &mut Prefetch, at| prefetch.on_read(at * MIB, MIB, GIB, ROOM).cancel.pop();
    assert_eq!(cancelled(&mut prefetch, 76), Some(64 * MIB..69 * MIB));
    assert_eq!(cancelled(&mut prefetch, 77), Some(69 * MIB..70 * MIB));
}

#[test]
fn a_seek_cancels_what_was_ahead() {
    let mut prefetch = Prefetch::default();
    let asked = stream(&mut prefetch, 0, 64, MIB).iter().flat_map(|p| &p.ahead).map(|r| r.end).max();
    let plan = prefetch.on_read(GIB / 2, 4096, GIB, ROOM);
    assert_eq!(plan.cancel, vec![64 * MIB..asked.unwrap()]);
    assert_eq!(plan.ahead, []);
    assert_eq!(prefetch.windows(), 0);
}

#[test]
fn two_streams_leave_each_other_alone_after_a_first_cancel() {
    let mut prefetch = Prefetch::default();
    let mut cancels = Vec::new();
    for n in 0..64 {
        for base in [0, GIB / 2] {
            let plan = prefetch.on_read(base + n * MIB, MIB, GIB, ROOM);
            cancels.extend(plan.cancel.into_iter().map(|_| n));
        }
    }
    assert!(cancels.iter().all(|&n| n < 2), "{cancels:?}");
    assert!(prefetch.windows() > WINDOW_MAX);
}

#[test]
fn a_stream_nobody_reads_any_more_is_cancelled() {
    let mut prefetch = Prefetch::default();
    stream(&mut prefetch, 0, 32, MIB);
    prefetch.on_read(GIB / 2, 4096, GIB, ROOM);
    stream(&mut prefetch, 32 * MIB, 32, MIB);
    assert!(prefetch.cursors.iter().any(|cursor| cursor.steady));
    let cancelled = stream(&mut prefetch, GIB / 2 + 4096, IDLE_READS + 1, 4096)
        .iter()
        .any(|plan| plan.cancel.iter().any(|range| range.start == 64 * MIB));
    assert!(cancelled);
}

#[test]
fn random_reads_get_no_read_ahead() {
    let mut prefetch = Prefetch::default();
    let mut fetched = RangeSet::default();
    let (mut read, mut at) = (0, 1u64);
    for _ in 0..4096 {
        at = at.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let plan = prefetch.on_read((at >> 20) % (GIB / 4096) * 4096, 4096, GIB, ROOM);
        read += 4096;
        fetched.insert(plan.wanted);
        plan.ahead.into_iter().for_each(|range| fetched.insert(range));
    }
    assert!(fetched.bytes() <= 16 * read, "{} x", fetched.bytes() / read);
}

#[test]
fn without_room_there_is_no_read_ahead() {
    let mut prefetch = Prefetch::default();
    for n in 0..64 {
        assert_eq!(prefetch.on_read(n * MIB, MIB, GIB, 0).ahead, []);
    }
    assert_eq!(prefetch.windows(), 0);
}

proptest! {
    #[test]
    fn plans_are_sound(
        reads in prop::collection::vec((0u64..64, 1u64..2048, any::<bool>()), 1..200),
        size in 1u64..200 * MIB,
        room in 0u64..128 * MIB,
    ) {
        let mut prefetch = Prefetch::default();
        let mut at = 0;
        for (jump, kib, seek) in reads {
            let offset = if seek { jump * 3 * MIB + jump * 512 } else { at };
            if offset >= size {
                continue;
            }
            let len = kib * 512;
            let before = prefetch.windows();
            let plan = prefetch.on_read(offset, len, size, room);
            at = offset + len;
            let end = at.min(size);
            prop_assert!(plan.wanted.start <= offset && plan.wanted.end >= end && plan.wanted.end <= size);
            prop_assert!(plan.wanted.end - plan.wanted.start <= (end - offset + 2 * ALIGN).max(FIRST));
            prop_assert!(prefetch.windows() <= before + room);
            for range in &plan.ahead {
                prop_assert!(range.start < range.end && range.end <= size);
                prop_assert!(range.end - range.start <= PART);
            }
            let cursor = prefetch.cursors.iter().max_by_key(|cursor| cursor.used).unwrap();
            let ahead = plan.ahead.last().map_or(0, |range| range.end.saturating_sub(cursor.next));
            prop_assert!(ahead <= cursor.window, "{} ahead of {:?}", ahead, cursor);
            prop_assert!(plan.ahead.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }
}
