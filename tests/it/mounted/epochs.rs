//! Training on a dataset that is larger than the tier for hot copies.

use crate::support::blob_server::BlobServer;
use crate::support::{BOTH, Mode, Mount, Tiers, noise, wait};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;
use std::process::Command;

const RULES: &str = r#"
[[rule]]
path = "data/**"
home = "blob"
hot = "scratch"
promote = "heat"
settle = "0s"

[[rule]]
path = "**"
home = "scratch"
"#;

const MIB: usize = 1 << 20;
const FILES: usize = 64;
const FILE: usize = 2 * MIB;

/// Room for half of the dataset below the high water, and the smallest block cache.
fn mount_of(tiers: &Tiers, mode: Mode, name: &str) -> Mount {
    let capacity = FILES * FILE / 2 * 100 / 85 / MIB + 1;
    Mount::of(tiers)
        .named(name)
        .mode(mode)
        .rules(RULES)
        .default_revalidate()
        .mount_key("memory = \"64MiB\"")
        .scratch_key(&format!("capacity = \"{capacity}MiB\""))
        .start()
}

fn dataset(tiers: &Tiers, dir: &str) -> Vec<String> {
    let names: Vec<String> = (0..FILES).map(|file| format!("{dir}/shard-{file:04}")).collect();
    names.iter().enumerate().for_each(|(at, name)| tiers.put_blob(name, &noise(at as u64, FILE)));
    names
}

/// Every file once, by four readers, in a shuffled order; none from the page cache.
fn epoch(mount: &Mount, names: &[String], seed: u64) {
    let mut order: Vec<(usize, PathBuf)> = names.iter().map(|name| mount.path(name)).enumerate().collect();
    order.shuffle(&mut StdRng::seed_from_u64(seed));
    std::thread::scope(|scope| {
        for part in order.chunks(order.len() / 4) {
            scope.spawn(|| part.iter().for_each(|(at, path)| read(path, *at)));
        }
    });
}

fn read(path: &PathBuf, seed: usize) {
    let mut file = File::open(path).expect("an open");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("fadvise");
    let mut bytes = Vec::with_capacity(FILE);
    file.read_to_end(&mut bytes).expect("a read");
    assert!(bytes == noise(seed as u64, FILE), "{}", path.display());
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("fadvise");
}

fn hot_bytes(tiers: &Tiers) -> u64 {
    let copies = tiers.scratch.join(".tierfs/hot");
    tiers.hot_copies().iter().map(|name| fs::metadata(copies.join(name)).map_or(0, |copy| copy.len())).sum()
}

#[test]
fn an_epoch_fetches_only_what_is_not_hot() {
    for mode in BOTH {
        let server = BlobServer::start();
        let tiers = Tiers::with_server(&server);
        let names = dataset(&tiers, "data");
        let mount = mount_of(&tiers, mode, "m");
        let all = (FILES * FILE) as u64;
        server.clear_log();
        epoch(&mount, &names, 1);
        assert_eq!(server.body_bytes(), all, "no byte twice in the first epoch");
        let plan = mount.tierfs_at(&["plan", "--json"], &[""]);
        let plan: serde_json::Value = serde_json::from_slice(&plan.stdout).expect("JSON");
        let scratch = &plan["hot"][0];
        assert_eq!(
            (scratch["tier"].as_str(), scratch["copies"].as_u64()),
            (Some("scratch"), Some(hot_bytes(&tiers)))
        );
        let next = scratch["leaving"].as_array().expect("the next to leave");
        assert!(
            next.len() == 20 && next.iter().all(|copy| names.iter().any(|name| copy["path"] == **name)),
            "{plan}"
        );
        assert!(scratch["too_much"] == 0 && scratch["left"].as_i64().expect("room") < FILE as i64, "{plan}");
        for seed in 2..=4 {
            let hot = hot_bytes(&tiers);
            assert!(hot * 100 >= all * 40, "{hot} of {all} bytes are hot");
            server.clear_log();
            epoch(&mount, &names, seed);
            let share = server.body_bytes() as f64 / (all - hot) as f64;
            println!("{mode:?}, epoch {seed}: {hot} of {all} bytes hot, {share:.3} of the rest fetched");
            assert!(
                share <= 1.05,
                "{share} of what was not hot was fetched in epoch {seed}\n{}",
                mount.log()
            );
        }
    }
}

#[test]
fn full_another_dataset_takes_the_place_of_one_that_is_not_read_any_more() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let (first, second) = (dataset(&tiers, "data/first"), dataset(&tiers, "data/second"));
    let mut mount = mount_of(&tiers, Mode::Ordinary, "m");
    (1..=2).for_each(|seed| epoch(&mount, &first, seed));
    let hot = |mount: &Mount, names: &[String]| {
        names.iter().filter(|name| mount.tierfs_at(&["path"], &[name.as_str()]).status.success()).count()
    };
    assert!(hot(&mount, &first) * 100 >= FILES * 40, "{} of the first are hot", hot(&mount, &first));
    // What is known of it survives the daemon.
    assert!(mount.unmount().success(), "{}", mount.log());
    mount.remount();
    assert!(hot(&mount, &first) * 100 >= FILES * 40);
    wait::until("the second to be hot", || {
        epoch(&mount, &second, 3);
        hot(&mount, &second) * 100 >= FILES * 40
    });
    let (of_first, of_second) = (hot(&mount, &first), hot(&mount, &second));
    assert!(
        of_first + of_second <= FILES * 60 / 100,
        "{of_first} and {of_second} are hot: more than there is room for"
    );
}

#[test]
fn mounts_that_share_a_hot_tier_fetch_each_byte_once() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let names = dataset(&tiers, "data");
    let start = |name| Mount::of(&tiers).named(name).rules(RULES).default_revalidate().start();
    let (one, two) = (start("one"), start("two"));
    server.clear_log();
    for seed in [1, 2] {
        epoch(&one, &names, seed);
        wait::until("the hot copies", || hot_bytes(&tiers) == (FILES * FILE) as u64);
        epoch(&two, &names, seed + 10);
    }
    assert_eq!(server.body_bytes(), (FILES * FILE) as u64);
    let third = start("three");
    server.clear_log();
    epoch(&third, &names, 3);
    assert_eq!(server.body_bytes(), 0, "an empty catalog, and not a byte from Blob");
}

#[test]
fn a_search_or_a_backup_promotes_nothing() {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let names = dataset(&tiers, "data");
    let mount = Mount::of(&tiers).rules(RULES).default_revalidate().start();
    let found =
        Command::new("grep").args(["-rlaF", "no such text"]).arg(mount.path("data")).output().expect("grep");
    assert_eq!(found.status.code(), Some(1), "it has read everything");
    assert!(server.body_bytes() >= (FILES * FILE) as u64);
    assert!(tiers.hot_copies().is_empty(), "{:?}", tiers.hot_copies());
    read(&mount.path(&names[0]), 0);
    wait::until("the hot copy of what was read", || tiers.hot_copies().len() == 1);
}
