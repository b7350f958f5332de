//! `tierfs explain`: the rule, the copies, the heat and what comes next, as they are.

use crate::support::mount::told;
use crate::support::{Mount, Tiers, noise, wait};
use std::fs;

fn explained(mount: &Mount, name: &str) -> serde_json::Value {
    let output = mount.tierfs_at(&["explain", "--json"], &[name]);
    assert!(output.status.success(), "{}", told(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn next(explained: &serde_json::Value) -> String {
    explained["next"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|next| next.as_str())
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn explain_says_where_a_file_is_and_why() {
    let tiers = Tiers::with_azurite();
    tiers.put_blob("hot/d/f", &noise(1, 3 << 20));
    tiers.put_blob("blob/far", b"far");
    let mount = Mount::of(&tiers).start();

    let far = explained(&mount, "blob/far");
    assert_eq!((far["rule"]["number"].as_u64(), far["rule"]["home"].as_str()), (Some(1), Some("blob")));
    assert!(next(&far).contains("names no tier for them") && far["heat"].is_null(), "{far}");

    let before = explained(&mount, "hot/d/f");
    assert!(next(&before).contains("the next read makes a hot copy on scratch"), "{before}");
    for _ in 0..3 {
        fs::read(mount.path("hot/d/f")).expect("a read");
    }
    wait::until("the hot copy", || tiers.hot_copies().len() == 1);
    let after = explained(&mount, "hot/d/f");
    let roles: Vec<&str> =
        after["copies"].as_array().expect("copies").iter().filter_map(|copy| copy["role"].as_str()).collect();
    assert_eq!(roles, ["home", "hot"]);
    let opens = after["heat"]["opens"].as_f64().expect("opens");
    assert!(
        (2.9..=3.0).contains(&opens) && after["heat"]["per_day"].as_f64().expect("a rate") > 0.0,
        "{after}"
    );

    fs::write(mount.path("own"), "native").expect("a write");
    assert!(next(&explained(&mount, "own")).contains("no tier for them"));

    // For people; and the rates in `ls`, which is sorted by them.
    let text = told(&mount.tierfs_at(&["explain"], &["hot/d/f", "own"]));
    assert!(text.contains("hot     scratch: .tierfs/hot/") && text.contains("3.0 opens, the last"), "{text}");
    let missing = mount.tierfs_at(&["explain"], &["none"]);
    assert_eq!(missing.status.code(), Some(1), "{}", told(&missing));
}

#[test]
fn explain_says_what_a_dirty_file_waits_for() {
    let tiers = Tiers::with_azurite();
    let rules = crate::support::mount::RULES.replace("settle = \"0s\"", "settle = \"1h\"");
    let mount = Mount::of(&tiers).rules(&rules).start();
    fs::create_dir(mount.path("blob")).expect("mkdir");
    fs::write(mount.path("blob/f"), "soon").expect("a write");
    let dirty = explained(&mount, "blob/f");
    assert_eq!(dirty["state"], "dirty");
    assert!(
        next(&dirty).contains("goes to blob in its turn") && next(&dirty).contains("settling: begins in"),
        "{dirty}"
    );
    mount.flush();
    let clean = explained(&mount, "blob/f");
    assert_eq!(clean["state"], "clean");
}
