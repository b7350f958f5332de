use super::*;
use tierfs::control::protocol::WirePath;

fn status() -> Status {
    serde_json::from_value(serde_json::json!({
        "schema": 1, "mountpoint": "/mnt/train", "config": "/etc/tierfs/train.toml", "pid": 4711,
        "version": "0.1.0", "phase": "serving", "mode": "passthrough", "uptime_s": 7500,
        "mode_reason": "Linux 6.18, CAP_SYS_ADMIN",
        "attention": ["tier share is absent: its root is not the one known (not mounted?); mount /mnt/share again"],
        "tiers": [
            {"name": "scratch", "kind": "lustre", "location": "/lustre/team", "state": "ok",
             "capacity": 131_941_395_333_120_u64, "used": 1_319_413_953_331_u64, "free": 1, "files": 12345,
             "hot_bytes": 12_884_901_888_u64, "requests": 7, "errors": 1, "bytes_read": 1024, "bytes_written": 0, "price_micros": 145_000},
            {"name": "share-with-a-long-name", "kind": "azure-files", "location": "/mnt/share", "state": "absent"},
            {"name": "blob", "kind": "blob", "location": "https://x", "state": "ok", "files": 123_456_789,
             "dirty_bytes": 1_048_576, "bytes": 1_099_511_627_776_u64, "price_micros": 20_800},
        ],
        "dirty": {"files": 3, "bytes": 25_165_824, "open_files": 1, "oldest_age_s": 12},
        "queue": {"length": 5, "running": 2, "retrying": 1},
        "last_error": {"at_s": 1000, "message": "blob: 503 Server Busy"},
        "moves": {"committed_files": 1200, "committed_bytes": 5_368_709_120_u64, "hot_copies": 1, "deleted_keys": 2},
        "reads": {"hits": 3, "misses": 1, "fetched_bytes": 1024},
    }))
    .unwrap()
}

fn rendered(status: &Status) -> String {
    rendered_in(status, WIDTH)
}

fn rendered_in(status: &Status, width: usize) -> String {
    let mut out = Vec::new();
    render(status, 1060, Screen { width, style: Style::plain() }, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_screen_is_as_documented() {
    let expected = "\
! tier share is absent: its root is not the one known (not mounted?); mount
  /mnt/share again

/mnt/train  up 2h 5m, pid 4711
passthrough: Linux 6.18, CAP_SYS_ADMIN

TIER         KIND        STATE  CAPACITY     USED     FILES      HOT    DIRTY
scratch      lustre      ok      120 TiB  1.2 TiB    12,345   12 GiB        -
share-with-… azure-files ABSENT        -        -         0        -        -
blob         blob        ok            -        - 123,456,789        -  1.0 MiB

dirty      3 files, 24 MiB, 1 of them open, oldest closed 12 s ago
queue      5 steps, 2 running, 1 to be tried again
reads      75% of 4 opens from a near copy; 1.0 KiB fetched, 0 B from memory
moves      1,200 files committed, 5.0 GiB; 1 hot copy made, 2 keys deleted
cost       23.04 $ a month for what is stored; all on Lustre 148.48 $; see
           `tierstat cost`
scratch    7 requests, 1 error; 1.0 KiB read, 0 B written
error      1m 0s ago: blob: 503 Server Busy
";
    assert_eq!(rendered(&status()), expected);
}

#[test]
fn no_line_is_wider_than_a_screen() {
    let mut long = status();
    long.mountpoint =
        WirePath(b"/mnt/a/very/long/path/to/a/mount/point/of/somebody/who/likes/long/paths".to_vec());
    long.attention.push(format!("{} can't reach its home", "directory/".repeat(20)));
    for (status, width) in [(status(), 80), (status(), 60), (status(), 40), (status(), 30), (long, 72)] {
        for line in rendered_in(&status, width).lines() {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn a_narrow_screen_is_as_documented() {
    let said = rendered_in(&status(), 40);
    let (_, tiers) = said.split_once("SYS_ADMIN\n\n").unwrap();
    let expected = "\
scratch ok
  1.2 TiB of 120 TiB, 12,345 files, hot
  12 GiB, dirty -
share-with-a-long-name ABSENT
  0 files, hot -, dirty -
blob ok
  123,456,789 files, hot -, dirty 1.0
  MiB
";
    assert!(tiers.starts_with(expected), "{tiers}");
}

#[test]
fn a_quiet_mount_says_so() {
    let mut quiet = status();
    quiet.attention.clear();
    quiet.dirty = Default::default();
    quiet.queue = Default::default();
    let said = rendered(&quiet);
    assert!(said.starts_with("/mnt/train"), "{said}");
    assert!(said.contains("dirty      nothing: all is home\nqueue      empty\n"), "{said}");
}

#[test]
fn lines_break_at_spaces() {
    assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
    assert_eq!(wrapped("unbreakable", 3), ["unb", "rea", "kab", "le"]);
}
