//! Several ranks on mounts of their own write one checkpoint: flush, barrier, marker. What `latest` names in Blob is there.

use super::*;
use crate::support::blob_server::{Effect, Operation, When};
use crate::support::mount::end_with_us;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const RANKS: usize = 2;

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A Python that runs the examples as a user would, with our `tierfs` in its path.
fn python(program: &Path, example: &str, rounds: usize, mounts: &[Mount]) -> Command {
    let binaries = Path::new(env!("CARGO_BIN_EXE_tierfs")).parent().expect("a directory");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(program);
    command.arg(project("packaging/examples").join(example)).args(["--steps", &rounds.to_string()]);
    command.args(mounts.iter().map(|mount| mount.path("blob/run")));
    command.env("PATH", format!("{}:{path}", binaries.display())).env("PYTHONDONTWRITEBYTECODE", "1");
    command.stdin(Stdio::null());
    end_with_us(&mut command);
    command
}

/// Two mounts of a container whose answers are late, lost and refused now and then.
fn rig() -> (BlobServer, Tiers, String, Vec<Mount>) {
    let (server, tiers, container) = own();
    let mounts: Vec<Mount> =
        ["one", "two"].iter().map(|name| Mount::of(&tiers).named(name).start()).collect();
    for mount in &mounts {
        std::fs::create_dir_all(mount.path("blob/run")).expect("mkdir");
        mount.flush();
    }
    let writes = [Operation::PutBlob, Operation::PutBlock, Operation::PutBlockList];
    server.fault(When::operation(&writes).percent(40), Effect::Latency(Duration::from_millis(40)));
    server.fault(When::operation(&writes).percent(7), Effect::ApplyThenDrop);
    server.fault(When::operation(&writes).percent(5), Effect::busy(0));
    (server, tiers, container, mounts)
}

/// Looks at the marker and at what it names all the time until the ranks have ended; answers the steps that were seen.
fn watch(
    server: &BlobServer,
    container: &str,
    ranks: &mut [Child],
    is_whole: &dyn Fn(usize, usize, &[u8]) -> bool,
) -> usize {
    let mut last = 0;
    let mut seen = 0;
    loop {
        let ended = ranks.iter_mut().all(|rank| rank.try_wait().expect("a look").is_some());
        if let Some(marker) = server.get(container, "blob/run/latest") {
            let marker = String::from_utf8(marker).expect("a marker is text");
            let step: usize = marker
                .trim()
                .strip_prefix("step-")
                .and_then(|step| step.parse().ok())
                .expect("a whole marker");
            assert!(step >= last, "latest went back from {last} to {step}");
            for rank in 0..RANKS {
                let name = format!("blob/run/step-{step:06}/shard-{rank}");
                let shard = server.get(container, &name);
                let shard =
                    shard.unwrap_or_else(|| panic!("latest names step {step}, and there is no {name}"));
                assert!(is_whole(step, rank, &shard), "{name} is not what was saved");
            }
            seen += usize::from(step > last);
            last = step;
        }
        if ended {
            return seen;
        }
        std::thread::yield_now();
    }
}

fn plain(rounds: usize) {
    let (server, _tiers, container, mounts) = rig();
    let ranks = python(Path::new("python3"), "checkpoint.py", rounds, &mounts).spawn().expect("python3");
    let shard = |step: usize, rank: usize, bytes: &[u8]| {
        bytes == format!("step {step}, rank {rank}\n").repeat(20_000).as_bytes()
    };
    let mut ranks = [ranks];
    let seen = watch(&server, &container, &mut ranks, &shard);
    assert!(ranks[0].wait().expect("its end").success());
    assert!(seen > 0, "nothing was seen");
    let newest = server.get(&container, "blob/run/latest").expect("a marker");
    assert_eq!(newest, format!("step-{rounds:06}\n").into_bytes());
    for mount in &mounts {
        mount.flush();
    }
}

#[test]
fn the_marker_never_names_what_is_not_there() {
    plain(4);
}

#[test]
fn soak_the_marker_never_names_what_is_not_there() {
    let rounds = std::env::var("TIERFS_SOAK_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    plain(rounds.unwrap_or(200));
}

/// The environment's torch, or a stand-in for it.
#[test]
fn the_marker_of_a_torch_job_never_names_what_is_not_there() {
    let (server, tiers, container, mounts) = rig();
    let has_torch = |python: &PathBuf| {
        let looked =
            Command::new(python).args(["-c", "import torch.distributed"]).stderr(Stdio::null()).status();
        looked.is_ok_and(|status| status.success())
    };
    let found = [project("target/venv/bin/python"), "python3".into()].into_iter().find(has_torch);
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let rank = |rank: usize| {
        let program = found.clone().unwrap_or_else(|| "python3".into());
        let mut command = python(&program, "checkpoint_torch.py", 3, &mounts);
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", RANKS.to_string());
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
        if found.is_none() {
            command.env("PYTHONPATH", project("tests/checks/standin"));
            command.env("STANDIN_BARRIER", tiers.workspace().join("barrier"));
        }
        command.spawn().expect("python")
    };
    let mut ranks: Vec<Child> = (0..RANKS).map(rank).collect();
    let seen = watch(&server, &container, &mut ranks, &|_, _, shard| shard.len() > 10_000);
    assert!(ranks.iter_mut().all(|rank| rank.wait().expect("its end").success()));
    assert!(seen > 0, "nothing was seen");
    assert_eq!(server.get(&container, "blob/run/latest").as_deref(), Some(&b"step-000003\n"[..]));
}
