//! Commits without order: many at once, and still the right ones under each name.

use super::*;
use crate::support::blob_server::{Effect, Operation, When};
use crate::support::site::files_below;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// All that is closed waits for a flush; `blob/**` without order.
fn loose() -> String {
    crate::support::mount::RULES.replacen("settle = \"0s\"", "settle = \"1h\"\norder = \"none\"", 1)
}

#[test]
fn small_files_without_order_keep_many_requests_in_flight() {
    let (server, tiers, container) = own();
    let (count, latency) = (1000, Duration::from_millis(500));
    let mount = Mount::of(&tiers).rules(&loose()).start();
    for directory in 0..10 {
        fs::create_dir_all(mount.path(&format!("blob/d{directory}"))).expect("mkdir");
    }
    for i in 0..count {
        fs::write(mount.path(&format!("blob/d{}/f{i}", i % 10)), format!("file {i}")).expect("a write");
    }
    server.fault(When::operation(&[Operation::PutBlob]), Effect::Latency(latency));
    server.clear_log();
    mount.flush();
    let puts: Vec<_> = server
        .requests()
        .into_iter()
        .filter(|request| request.operation == Operation::PutBlob && request.name.contains("/f"))
        .collect();
    assert_eq!(puts.len(), count);
    let most = server.most_at_once();
    // Not for a moment only: on the average over all but the last round, of which little is left to send.
    let spent: Duration = puts.iter().map(|put| put.took).sum();
    let first = puts.iter().map(|put| put.began).min().expect("a request");
    let last = puts.iter().map(|put| put.began).max().expect("a request");
    let average = spent.as_secs_f64() / (last - first + latency).as_secs_f64();
    eprintln!("{most} requests at most, {average:.1} on the average, {:?} in all", last - first + latency);
    assert!(most >= 32, "{most} requests at most");
    assert!(average >= 32.0, "{average:.1} requests on the average");
    for i in 0..count {
        let found = server.get(&container, &format!("blob/d{}/f{i}", i % 10));
        assert_eq!(found, Some(format!("file {i}").into_bytes()), "f{i}");
    }
}

/// What is done to few names over and over, while their requests take as long as they like.
#[test]
fn without_order_each_name_ends_with_its_last_content() {
    let (server, tiers, container) = own();
    let mount = Mount::of(&tiers).rules(&loose().replace("settle = \"1h\"", "settle = \"0s\"")).start();
    for directory in ["blob/a", "blob/b"] {
        fs::create_dir_all(mount.path(directory)).expect("mkdir");
    }
    for (percent, pause) in [(50, 3), (30, 20), (20, 60)] {
        let slow = When::operation(&[Operation::PutBlob, Operation::Delete, Operation::PutBlockFromUrl]);
        server.fault(slow.percent(percent), Effect::Latency(Duration::from_millis(pause)));
    }
    let mut dice = 7_u64;
    let mut roll = |sides: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % sides
    };
    let mut expected: BTreeMap<String, String> = BTreeMap::new();
    for round in 0..300 {
        let mut name = || format!("blob/{}/f{}", ["a", "b"][roll(2) as usize], roll(4));
        let (one, other) = (name(), name());
        match roll(4) {
            0 if expected.contains_key(&one) && one != other => {
                fs::rename(mount.path(&one), mount.path(&other)).expect("a rename");
                let text = expected.remove(&one).expect("it is there");
                expected.insert(other, text);
            }
            1 if expected.contains_key(&one) => {
                fs::remove_file(mount.path(&one)).expect("rm");
                expected.remove(&one);
            }
            2 if round % 10 == 0 => {
                // A directory that moves takes all along.
                fs::rename(mount.path("blob/a"), mount.path("blob/t")).expect("a rename");
                fs::rename(mount.path("blob/b"), mount.path("blob/a")).expect("a rename");
                fs::rename(mount.path("blob/t"), mount.path("blob/b")).expect("a rename");
                let swapped = expected.into_iter().map(|(name, text)| {
                    let to = if name.starts_with("blob/a/") { "blob/b/" } else { "blob/a/" };
                    (format!("{to}{}", &name["blob/a/".len()..]), text)
                });
                expected = swapped.collect();
            }
            _ => {
                fs::write(mount.path(&one), format!("{round}")).expect("a write");
                expected.insert(one, format!("{round}"));
            }
        }
    }
    mount.flush();
    let names: Vec<String> = expected.keys().cloned().collect();
    assert_eq!(tiers.blob_file_names(), names);
    assert_eq!(files_below(&mount.path("blob")).len(), names.len());
    for (name, text) in &expected {
        assert_eq!(server.get(&container, name), Some(text.clone().into_bytes()), "{name} in Blob");
        assert_eq!(fs::read_to_string(mount.path(name)).expect("a read"), *text, "{name}");
    }
}
