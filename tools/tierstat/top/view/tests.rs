use super::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::time::{Duration, Instant};
use tierfs::control::protocol::{QueueWhat, WirePath};

fn sample(seconds: u64, read: u64, steps: Option<u64>) -> Sample {
    let status: serde_json::Result<Status> = serde_json::from_value(serde_json::json!({
        "schema": 1, "mountpoint": "/mnt/train", "config": "/c", "pid": 1, "version": "0", "phase": "serving",
        "mode": "ordinary", "mode_reason": "asked", "uptime_s": 60 + seconds,
        "attention": ["tier share is absent: mount it again"],
        "tiers": [
            {"name": "scratch", "kind": "lustre", "location": "/s", "state": "ok", "free": 1_u64 << 40},
            {"name": "share", "kind": "azure-files", "location": "/f", "state": "absent"},
            {"name": "blob", "kind": "blob", "location": "https://b", "state": "ok", "bytes_read": read,
             "requests": read >> 20, "dirty_bytes": 5 << 20},
        ],
        "dirty": {"files": 2, "bytes": 5 << 20, "oldest_age_s": 12}, "queue": {"length": 2, "running": 1},
        "reads": {"hits": 3, "misses": 1}
    }));
    let step = |seq| QueueRow {
        seq,
        domain: "rule0".into(),
        what: QueueWhat::Write,
        path: WirePath(format!("checkpoints/run/shard-{seq}").into()),
        bytes: 1 << 20,
        age_s: 12,
        state: if seq == 0 { QueueState::Retrying } else { QueueState::Waiting },
        error: (seq == 0).then(|| "503 Server Busy".into()),
        next_s: None,
    };
    let at = Instant::now() + Duration::from_secs(seconds);
    Sample { at, status: status.unwrap(), queue: steps.map(|n| (0..n).map(step).collect()) }
}

fn drawn(view: &View, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

fn seen(steps: Option<u64>) -> View {
    let mut view = View::default();
    view.take(Ok(sample(0, 0, steps)));
    view.take(Ok(sample(2, 200 << 20, steps)));
    view
}

#[test]
fn the_screen_is_as_documented() {
    let expected = [
        "! tier share is absent: mount it again",
        "/mnt/train  up 1m 2s",
        "TIER         STATE  READ/s    WRITE/s   CALLS/s  ERRORS/s DIRTY    HOT",
        "scratch      ok     -         -         -        -        -        -",
        "share        ABSENT -         -         -        -        -        -",
        "blob         ok     100 MiB   -         100.0    -        5.0 MiB  -",
        "",
        "dirty 5.0 MiB in 2 files, oldest 12 s",
        "queue 2 steps, 1 running, 0 to be tried again, 75% of opens near",
        "",
        "STATE     AGE      BYTES    PATH",
        "retrying  12 s     1.0 MiB  checkpoints/run/shard-0: 503 Server Busy",
        "waiting   12 s     1.0 MiB  checkpoints/run/shard-1",
        "",
        "q quits",
    ];
    assert_eq!(drawn(&seen(Some(2)), 78, 15), expected);
}

#[test]
fn any_size_is_drawn_and_any_queue() {
    for (width, height) in [(40, 24), (40, 5), (1, 1), (200, 60), (80, 2)] {
        for steps in [None, Some(0), Some(100)] {
            assert_eq!(drawn(&seen(steps), width, height).len(), usize::from(height));
        }
    }
    let narrow = drawn(&seen(Some(2)), 40, 24);
    assert!(narrow.iter().any(|line| line == "TIER         STATE  READ/s    WRITE/s"), "{narrow:#?}");
    let blind = drawn(&seen(None), 80, 24);
    assert!(blind.iter().any(|line| line.contains("not in sight")), "{blind:#?}");
}

#[test]
fn a_daemon_that_went_away_is_said_beside_what_was_seen() {
    let mut view = seen(Some(1));
    view.take(Err("the daemon of /mnt/train is gone".into()));
    let said = drawn(&view, 80, 24);
    assert_eq!(said[0], "! the daemon of /mnt/train is gone");
    assert!(said.iter().any(|line| line.starts_with("scratch")), "{said:#?}");
    let mut never = View::default();
    assert_eq!(drawn(&never, 80, 3)[0], "looking…");
    never.take(Err("nobody".into()));
    assert_eq!(drawn(&never, 80, 3)[0], "nobody");
}
