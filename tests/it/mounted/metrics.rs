//! Metrics and health by HTTP, of a real mount: right in form, true, and all that dashboard and alert rules ask for.

use crate::support::blob_server::{BlobServer, Effect, WRITES, When};
use crate::support::exposition::Page;
use crate::support::{Mode, Mount, Tiers, noise, wait};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

fn rig() -> (BlobServer, Tiers, Mount) {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let mount = Mount::of(&tiers).mode(Mode::Ordinary).mount_key("metrics = \"0\"").start();
    fs::create_dir(mount.path("blob")).expect("mkdir");
    fs::create_dir(mount.path("hot")).expect("mkdir");
    // What others put into a directory is looked for once it is at home.
    mount.flush();
    (server, tiers, mount)
}

fn get(mount: &Mount, path: &str) -> (u16, String) {
    let status: Value = serde_json::from_str(&mount.tierstat(&["--json"])).expect("JSON");
    let address = status["metrics"].as_str().expect("an address");
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let mut stream = TcpStream::connect(address).expect("a connection");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
    (head[9..12].parse().expect("a code"), body.to_owned())
}

fn scrape(mount: &Mount) -> Page {
    let (code, text) = get(mount, "/metrics");
    assert_eq!(code, 200, "{text}");
    Page::read(&text)
}

#[test]
fn metrics_are_right_in_form_and_true() {
    let (server, tiers, mount) = rig();
    fs::write(mount.path("blob/a"), noise(1, 100_000)).expect("a write");
    tiers.put_blob("hot/b", &noise(2, 300_000));
    mount.flush();
    for _ in 0..2 {
        assert_eq!(fs::read(mount.path("hot/b")).expect("a read").len(), 300_000);
    }
    let page = scrape(&mount);
    let point = mount.root().to_str().expect("a name");
    assert_eq!(page.value("tierfs_mount_info", &[("mountpoint", point), ("mode", "ordinary")]), 1.0);
    assert_eq!(page.value("tierfs_tier_state", &[("tier", "blob"), ("kind", "blob"), ("state", "ok")]), 1.0);
    assert_eq!(page.value("tierfs_tier_state", &[("tier", "blob"), ("state", "sick")]), 0.0);
    assert_eq!(page.value("tierfs_committed_bytes_total", &[]), 100_000.0);
    assert_eq!(page.value("tierfs_dirty_bytes", &[]), 0.0);
    assert_eq!(page.value("tierfs_health_level", &[]), 0.0);
    assert_eq!(page.value("tierfs_tier_read_bytes_total", &[("tier", "blob")]), 300_000.0);
    let reads = [("tier", "blob"), ("operation", "read")];
    assert!(page.value("tierfs_tier_operation_duration_seconds_count", &reads) >= 1.0);
    assert!(page.value("tierfs_tier_operation_duration_seconds_sum", &reads) > 0.0);
    assert_eq!(page.value("tierfs_tier_operation_errors_total", &reads), 0.0);
    assert!(page.value("tierfs_opens_total", &[("from", "home")]) >= 1.0);
    assert!(page.value("process_resident_memory_bytes", &[]) > 1e6);

    // Counters only grow, and what waits is seen.
    let refused = Effect::Refuse { status: 400, code: "InvalidMetadata", retry_after: None };
    server.fault(When::operation(&WRITES).name("bad"), refused);
    fs::write(mount.path("blob/bad"), "text").expect("a write");
    wait::until("the refusal", || scrape(&mount).value("tierfs_blocked_domains", &[]) == 1.0);
    let later = scrape(&mount);
    assert_eq!(later.value("tierfs_dirty_bytes", &[]), 4.0);
    assert_eq!(later.value("tierfs_tier_dirty_bytes", &[("tier", "blob")]), 4.0);
    assert_eq!(
        (later.value("tierfs_blocked_files", &[]), later.value("tierfs_health_level", &[])),
        (1.0, 2.0)
    );
    assert!(
        later.value("tierfs_tier_operation_duration_seconds_count", &reads)
            >= page.value("tierfs_tier_operation_duration_seconds_count", &reads)
    );
}

#[test]
fn healthz_says_what_tierstat_says() {
    let (server, _tiers, mount) = rig();
    assert_eq!(get(&mount, "/healthz"), (200, "fine\n".to_owned()));
    assert_eq!(get(&mount, "/livez"), (200, "serving\n".to_owned()));
    let refused = Effect::Refuse { status: 400, code: "InvalidMetadata", retry_after: None };
    server.fault(When::operation(&WRITES).name("bad"), refused);
    fs::write(mount.path("blob/bad"), "text").expect("a write");
    wait::until("the refusal", || get(&mount, "/healthz").0 == 503);
    let mut tierstat = std::process::Command::new(env!("CARGO_BIN_EXE_tierstat"));
    let told = tierstat.arg("health").arg(mount.root()).output().expect("tierstat");
    assert_eq!(
        (told.status.code(), get(&mount, "/healthz").1),
        (Some(2), String::from_utf8_lossy(&told.stdout).into_owned())
    );
    // Nothing that a new daemon would mend.
    assert_eq!(get(&mount, "/livez").0, 200);
    server.clear_faults();
    mount.flush();
    assert_eq!(get(&mount, "/healthz").0, 200);
}

fn packaged(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging").join(name)).expect(name)
}

/// Words of a query that name metrics or labels.
fn words(query: &str) -> Vec<&str> {
    query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty()).collect()
}

/// All strings under `key`, wherever they are.
fn all<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| match value.as_str() {
            Some(text) if name == key => found.push(text),
            _ => all(value, key, found),
        }),
        Value::Array(values) => values.iter().for_each(|value| all(value, key, found)),
        _ => {}
    }
}

fn check_queries(page: &Page, queries: &[&str]) -> BTreeSet<String> {
    let (names, mut labels) = (page.names(), page.labels());
    labels.extend(["le", "instance", "job"]);
    let mut used = BTreeSet::new();
    for query in queries {
        assert_eq!(query.matches('(').count(), query.matches(')').count(), "{query}");
        let metrics =
            words(query).into_iter().filter(|w| w.starts_with("tierfs_") || w.starts_with("process_"));
        for metric in metrics {
            let family = ["_bucket", "_sum", "_count"]
                .into_iter()
                .find_map(|suffix| metric.strip_suffix(suffix).filter(|family| names.contains(family)))
                .unwrap_or(metric);
            assert!(names.contains(family), "{metric} in {query} is no metric of a mount");
            used.insert(family.to_owned());
        }
        for grouped in query.split("by (").skip(1) {
            for label in words(grouped.split(')').next().expect("an end")) {
                assert!(labels.contains(label), "{label} in {query} is no label");
            }
        }
    }
    used
}

#[test]
fn dashboard_and_alert_rules_ask_for_what_there_is() {
    let (_server, tiers, mount) = rig();
    tiers.put_blob("hot/b", b"bytes");
    fs::read(mount.path("hot/b")).expect("a read");
    let page = scrape(&mount);

    let dashboard: Value = serde_json::from_str(&packaged("grafana/tierfs.json")).expect("JSON");
    let mut queries = Vec::new();
    all(&dashboard, "expr", &mut queries);
    assert!(queries.len() >= 15, "{queries:?}");
    let ids: Vec<_> =
        dashboard["panels"].as_array().expect("panels").iter().map(|panel| &panel["id"]).collect();
    assert!(ids.iter().enumerate().all(|(at, id)| !ids[..at].contains(id)), "{ids:?}");
    let shown = check_queries(&page, &queries);

    let rules: Value = serde_saphyr::from_str(&packaged("prometheus/tierfs-alerts.yaml")).expect("YAML");
    let mut queries = Vec::new();
    all(&rules, "expr", &mut queries);
    let alerted = check_queries(&page, &queries);
    for group in rules["groups"].as_array().expect("groups") {
        for rule in group["rules"].as_array().expect("rules") {
            assert!(rule["alert"].is_string() && rule["labels"]["severity"].is_string(), "{rule}");
            assert!(rule["annotations"]["summary"].as_str().is_some_and(|text| !text.is_empty()), "{rule}");
        }
    }
    for must in [
        "tierfs_dirty_oldest_age_seconds",
        "tierfs_blocked_domains",
        "tierfs_tier_state",
        "tierfs_tier_free_bytes",
        "tierfs_tier_capacity_bytes",
        "tierfs_conflict_copies",
    ] {
        assert!(alerted.contains(must) && shown.contains(must), "{must} is not watched");
    }
}
