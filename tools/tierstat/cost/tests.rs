use super::*;
use tierfs::control::protocol::{Held, Role, Row, RowState, WirePath};
use tierfs::control::status::Status;

const GIB: u64 = 1 << 30;

fn status() -> Status {
    serde_json::from_value(serde_json::json!({
        "schema": 1, "mountpoint": "/m", "config": "/c", "pid": 1, "version": "0", "phase": "serving",
        "mode": "ordinary", "mode_reason": "asked", "uptime_s": 1,
        "tiers": [
            {"name": "scratch", "kind": "lustre", "location": "/s", "state": "ok", "price_micros": 145_000,
             "hot_bytes": 100 * GIB, "staged_bytes": GIB},
            {"name": "a-blob-tier-with-a-long-name", "kind": "blob", "location": "https://b", "state": "ok",
             "price_micros": 20_800, "bytes": 1000 * GIB},
        ],
        "dirty": {"files": 0, "bytes": 0}, "queue": {"length": 0}
    }))
    .unwrap()
}

fn file(path: &str, gib: u64, tiers: &[&str]) -> Row {
    let held = tiers.iter().map(|tier| Held { tier: (*tier).to_owned(), role: Role::Home });
    Row {
        path: WirePath(path.into()),
        kind: RowKind::File,
        size: gib * GIB,
        mtime_ns: 0,
        state: RowState::Clean,
        held: held.collect(),
        heat: None,
    }
}

fn walked(top: &str, most: usize) -> Bill {
    let blob = "a-blob-tier-with-a-long-name";
    let mut sums = Sums::new(WirePath(top.into()));
    for row in [
        file("d/data/x/1", 600, &[blob]),
        file("d/data/x/2", 400, &[blob, "scratch"]),
        file("d/models/m", 10, &[blob]),
        file("d/readme", 1, &["scratch"]),
    ] {
        sums.add(&row);
    }
    sums.bill(&Prices::of(&status()), most)
}

fn rendered(bill: &Bill) -> String {
    let mut out = Vec::new();
    render(bill, Style::plain(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_screen_is_as_documented() {
    let expected = "\
TIER             KIND           $/GiB    STORED      $/MONTH
scratch          lustre         0.145   401 GiB        58.15
a-blob-tier-wit… blob          0.0208   1.0 TiB        21.01
                 all                                   79.15
                 on Lustre      0.145   1.0 TiB       146.60

    FILES    STORED    $/MONTH  ON LUSTRE  DIRECTORY
        2   1.4 TiB      78.80     145.00  d/data
        1    10 GiB       0.21       1.45  d/models
and 1 more that cost less: --most shows them

Stored bytes at the `price` of each tier in the config; what is provisioned
and empty, requests and traffic are not in it.
";
    assert_eq!(rendered(&walked("d", 2)), expected);
}

#[test]
fn all_files_are_in_one_part() {
    let bill = walked("d", 9);
    let parts: Vec<_> = bill.directories.iter().map(|part| (part.path.to_string(), part.files)).collect();
    assert_eq!(parts, [("d/data".to_owned(), 2), ("d/models".to_owned(), 1), ("d".to_owned(), 1)]);
    let whole = walked("", 9);
    assert_eq!((whole.directories.len(), whole.directories[0].files), (1, 4));
    assert_eq!(whole.directories[0].path.to_string(), "d");
    assert!((whole.usd_per_month - bill.usd_per_month).abs() < 1e-9);
}

#[test]
fn the_catalog_knows_the_tiers_without_a_walk() {
    let bill = Bill::of_status(&status(), &Prices::of(&status()));
    let bytes: Vec<_> = bill.tiers.iter().map(|tier| tier.bytes / GIB).collect();
    assert_eq!((bytes, bill.bytes / GIB), (vec![101, 1000], 1001));
    assert!((bill.all_on_lustre_usd_per_month - 1001.0 * 0.145).abs() < 1e-9);
    assert!(!rendered(&bill).contains("DIRECTORY"));
}

#[test]
fn a_mount_without_lustre_is_compared_with_its_typical_price() {
    let mut status = status();
    status.tiers.remove(0);
    assert!((Bill::of_status(&status, &Prices::of(&status)).lustre_usd_per_gib_month - 0.145).abs() < 1e-9);
}

#[test]
fn money_is_readable() {
    assert_eq!([0.0, 0.004, 1234.565, 1e7].map(dollars), ["0.00", "0.00", "1,234.57", "10,000,000.00"]);
    assert_eq!([0.145, 0.0, 2.0, 0.0208].map(price), ["0.145", "0.00", "2.00", "0.0208"]);
}
