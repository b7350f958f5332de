//! The manifests for Kubernetes: parsed, whole in themselves, and right with the configs they carry.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// All documents of a manifest.
fn documents(name: &str) -> Vec<Value> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/kubernetes").join(name);
    let text = fs::read_to_string(file).expect(name);
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

const MANIFESTS: [&str; 3] = ["daemonset.yaml", "sidecar.yaml", "inference.yaml"];

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}

/// The pods that documents describe.
fn pods(documents: &[Value]) -> Vec<&Value> {
    documents
        .iter()
        .filter_map(|document| match document["kind"].as_str()? {
            "Pod" => Some(&document["spec"]),
            "DaemonSet" | "Deployment" => Some(&document["spec"]["template"]["spec"]),
            _ => None,
        })
        .collect()
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    list(pod, "initContainers").chain(list(pod, "containers"))
}

/// The container that mounts.
fn daemon(documents: &[Value]) -> (&Value, &Value) {
    let found = pods(documents).into_iter().find_map(|pod| {
        let mut all = containers(pod);
        all.find(|container| container["name"] == "tierfs").map(|container| (pod, container))
    });
    found.expect("a container that mounts")
}

/// The config that the manifest carries, as `tierfs config show` tells it.
fn config(documents: &[Value]) -> Value {
    let map = documents.iter().find(|document| document["kind"] == "ConfigMap").expect("a config");
    let files = map["data"].as_object().expect("files");
    assert_eq!(files.len(), 1);
    let (name, text) = files.iter().next().expect("a file");
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join(name);
    fs::write(&file, text.as_str().expect("text")).expect("a config");
    let mut show = Command::new(env!("CARGO_BIN_EXE_tierfs"));
    let output = show.args(["config", "show"]).arg(&file).env("POD_IP", "10.0.0.7").output().expect("tierfs");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", crate::support::mount::told(&output));
    let shown: toml::Table = String::from_utf8_lossy(&output.stdout).parse().expect("TOML");
    serde_json::to_value(shown).expect("JSON")
}

/// `3Gi` or `2GiB` in MiB.
fn mib(size: &Value) -> u64 {
    let size = size.as_str().expect("a size");
    let (number, unit) = size.split_at(size.find(|c: char| !c.is_ascii_digit()).expect("a unit"));
    let number: u64 = number.parse().expect("a number");
    number * if unit.starts_with('G') { 1024 } else { 1 }
}

fn seconds(duration: &Value) -> u64 {
    let duration = duration.as_str().expect("a duration");
    let (number, unit) = duration.split_at(duration.len() - 1);
    number.parse::<u64>().expect("a number") * if unit == "m" { 60 } else { 1 }
}

#[test]
fn every_volume_and_config_that_is_named_is_there() {
    for name in MANIFESTS {
        let documents = documents(name);
        for document in &documents {
            assert!(
                document["apiVersion"].is_string() && document["metadata"]["name"].is_string(),
                "{document}"
            );
        }
        let maps: Vec<&Value> =
            documents.iter().filter(|d| d["kind"] == "ConfigMap").map(|d| &d["metadata"]["name"]).collect();
        for pod in pods(&documents) {
            let volumes: Vec<&Value> = list(pod, "volumes").map(|volume| &volume["name"]).collect();
            for container in containers(pod) {
                for mount in list(container, "volumeMounts") {
                    assert!(volumes.contains(&&mount["name"]), "{name}: {mount}");
                }
            }
            for map in list(pod, "volumes").filter_map(|volume| volume.get("configMap")) {
                assert!(maps.contains(&&map["name"]), "{name}: {map}");
            }
        }
    }
}

#[test]
fn each_daemon_is_started_probed_and_ended_as_its_config_needs() {
    for name in MANIFESTS {
        let documents = documents(name);
        let (pod, container) = daemon(&documents);
        let config = config(&documents);
        let mount = &config["mount"];

        let words = container.to_string();
        for word in ["--foreground", "/etc/tierfs/", "allow_other"] {
            assert!(words.contains(word), "{name}: no {word}");
        }
        assert_eq!(container["securityContext"]["privileged"], true, "{name}");
        let bidirectional: Vec<&str> = list(container, "volumeMounts")
            .filter(|mount| mount["mountPropagation"] == "Bidirectional")
            .filter_map(|mount| mount["mountPath"].as_str())
            .collect();
        assert_eq!(bidirectional, ["/mnt/tierfs"], "{name}");

        // The kubelet comes from outside: loopback would not do.
        let port = &list(container, "ports").next().expect("a port")["containerPort"];
        assert_eq!(mount["metrics"], format!("10.0.0.7:{port}"), "{name}");
        for probe in ["startupProbe", "livenessProbe"] {
            assert_eq!(container[probe]["httpGet"]["path"], "/livez", "{name}");
            assert_eq!(container[probe]["httpGet"]["port"], "metrics", "{name}");
        }

        let limit = mib(&container["resources"]["limits"]["memory"]);
        assert!(limit >= mib(&mount["memory"]) + 512, "{name}: {limit} MiB");
        let grace = pod["terminationGracePeriodSeconds"].as_u64().expect("a grace period");
        if words.contains("ro,allow_other") {
            assert_eq!(mount["catalog"], "memory", "{name}");
        } else {
            assert!(grace > seconds(&mount["drain_timeout"]), "{name}: {grace} s");
        }
    }
}

#[test]
fn the_daemonset_drains_before_it_ends_and_never_restarts_under_a_job() {
    let documents = documents("daemonset.yaml");
    let set = documents.iter().find(|document| document["kind"] == "DaemonSet").expect("a DaemonSet");
    assert_eq!(set["spec"]["updateStrategy"]["type"], "OnDelete");
    let (pod, container) = daemon(&documents);
    let hook: Vec<&str> =
        list(&container["lifecycle"]["preStop"]["exec"], "command").filter_map(Value::as_str).collect();
    let ["/usr/bin/tierfs", "unmount", "--timeout", patience, point] = hook[..] else { panic!("{hook:?}") };
    assert!(container["args"].as_array().expect("arguments").contains(&point.into()));
    // First the hook, then SIGTERM, which drains again what is left.
    let both = seconds(&patience.into()) + seconds(&config(&documents)["mount"]["drain_timeout"]);
    assert!(pod["terminationGracePeriodSeconds"].as_u64() > Some(both));
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/healthz");
}

#[test]
fn jobs_see_mounts_that_come_later() {
    for name in MANIFESTS {
        let documents = documents(name);
        let users = pods(&documents).into_iter().flat_map(|pod| list(pod, "containers"));
        let seen: Vec<&Value> = users
            .filter(|container| container["name"] != "tierfs")
            .flat_map(|container| list(container, "volumeMounts"))
            .collect();
        assert!(!seen.is_empty(), "{name}");
        assert!(seen.iter().all(|mount| mount["mountPropagation"] == "HostToContainer"), "{name}: {seen:?}");
    }
}
