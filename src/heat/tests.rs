use super::*;
use crate::clock::ManualClock;
use std::time::Duration;

const DIR: Ino = Ino(10);

fn table() -> (Heat, ManualClock) {
    let clock = ManualClock::new(Timestamp(1_700_000_000_000_000_000));
    (Heat::new(Arc::new(clock.clone())), clock)
}

/// Directory 10 has a hundred names, 11 to 19 two each; all are in 9, which has twenty.
fn around(dir: Ino) -> Option<Around> {
    let names = match dir.0 {
        9 => 20,
        10 => 100,
        _ => 2,
    };
    Some(Around { names, parent: (dir != Ino(9)).then_some(Ino(9)) })
}

#[test]
fn opens_are_counted_by_file_and_by_directory() {
    let (heat, clock) = table();
    for round in 0..3 {
        for ino in 100..120 {
            clock.advance(Duration::from_secs(1));
            if ino != 119 || round == 0 {
                heat.opened(Ino(ino), DIR, &around);
            }
        }
    }
    let (often, once) = (heat.rate(Ino(100)), heat.rate(Ino(119)));
    assert!(often > once && once > 0.0 && heat.rate(Ino(99)) == 0.0);
    let (dir, rate) = heat.group(Ino(100)).unwrap();
    assert!(dir == DIR && (rate - 1.0).abs() < 0.1, "{rate}");
    let (opens, last) = heat.opens(Ino(119)).unwrap();
    assert!((opens - 1.0).abs() < 0.01);
    assert_eq!(last, Timestamp(1_700_000_020_000_000_000));
    assert!(heat.opens(Ino(1)).is_none() && heat.group(Ino(1)).is_none());
}

#[test]
fn small_directories_count_with_the_one_above() {
    let (heat, clock) = table();
    for dir in 11..20 {
        clock.advance(Duration::from_secs(1));
        heat.opened(Ino(1000 + dir), Ino(dir), &around);
    }
    assert_eq!(heat.group(Ino(1011)).unwrap().0, Ino(9));
    assert!((heat.rate(Ino(1011)) - heat.rate(Ino(1019))).abs() < 1e-6, "one group");
}

#[test]
fn what_was_known_is_known_again() {
    let (heat, clock) = table();
    for ino in 100..150 {
        clock.advance(Duration::from_millis(500));
        heat.opened(Ino(ino), DIR, &around);
        heat.opened(Ino(100), DIR, &around);
    }
    let rows = heat.take_changed();
    assert_eq!((rows.files.len(), rows.groups.len()), (50, 1));
    assert_eq!(heat.take_changed(), Rows::default());
    heat.put_back(&rows);
    assert_eq!(heat.take_changed().files.len(), 50);

    let next = Heat::new(Arc::new(clock.clone()));
    next.opened(Ino(100), DIR, &around);
    next.restore(rows);
    let (opens, _) = next.opens(Ino(100)).unwrap();
    assert!((opens - heat.opens(Ino(100)).unwrap().0 - 1.0).abs() < 0.01, "{opens}");
    assert!(next.rate(Ino(120)) > 0.0);
    assert!(next.rate(Ino(100)) > 5.0 * next.rate(Ino(120)));
}

#[test]
fn copies_lead_back_to_their_files() {
    let (heat, _) = table();
    heat.note_copy(Ino(7), 77);
    heat.opened(Ino(7), DIR, &around);
    heat.opened(Ino(8), DIR, &around);
    heat.note_copy(Ino(7), 77);
    assert_eq!(heat.by_copy(), HashMap::from([(77, Ino(7))]));
}

#[test]
fn the_table_stays_within_its_bounds() {
    let limit = SHARDS * 64;
    let heat = Heat::with_limit(table().0.clock, limit);
    for ino in 0..2 * limit as u64 {
        heat.opened(Ino(ino), DIR, &around);
        if ino < 100 {
            heat.opened(Ino(ino), DIR, &around);
        }
    }
    let count = || heat.files.iter().map(|shard| shard.lock().len()).sum::<usize>();
    assert_eq!(count(), limit);
    heat.prune();
    assert!(count() <= limit / 8 * 7);
    assert!((0..100).all(|ino| heat.rate(Ino(ino)) > 0.0), "those opened more often stay");
}
