//! The rows of checkpoints: how soon their writers go on, and how soon their bytes are in Blob.

use crate::bare::Bare;
use crate::harness::{Bound, Effort, Outcome, Subject, measure, quantile, seconds};
use crate::rows::{MIB, peak_memory};
use crate::support::blob_server::{BlobServer, Effect, Operation, When};
use crate::support::{Mode, Mount, Tiers};
use crate::work;
use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const WRITERS: usize = 8;
const SMALL_FILES: usize = 10_000;
const SMALL: usize = 4 << 10;
/// How long a near and a far service take to answer: those of the rows of cold reads.
const LATENCIES: [Duration; 2] = [Duration::from_millis(3), Duration::from_millis(30)];
const SETTLE: Duration = Duration::from_secs(2);
/// What the daemon of the burst may use, in MiB.
const MEMORY: u64 = 256;

/// As many processes write a shard each, with fsync and close; answers how long that takes.
fn burst(directory: &Path, size: u64) -> f64 {
    seconds(|| {
        let write = |writer: usize| {
            let mut command = Command::new("dd");
            command.args(["if=/dev/zero", "bs=1M", "conv=fsync", "status=none"]);
            command.arg(format!("count={}", size >> 20));
            command.arg(format!("of={}", directory.join(format!("shard-{writer}")).display()));
            command.stdin(Stdio::null()).spawn().expect("dd")
        };
        let mut writers: Vec<_> = (0..WRITERS).map(write).collect();
        assert!(writers.iter_mut().all(|writer| writer.wait().expect("its end").success()));
    })
}

pub fn checkpoint(effort: Effort) -> Vec<Outcome> {
    let size = effort.size(256 << 20);
    let (tiers, server) = (Tiers::with_directories(), BlobServer::start());
    let bare = Bare::of(&server);
    let mount = Mount::of(&tiers)
        .default_revalidate()
        .mode(Mode::Passthrough)
        .blob_url(server.container("bench"))
        .mount_key(&format!("memory = \"{MEMORY}MiB\""))
        .rules(&format!(
            "[[rule]]\npath = \"**\"\nhome = \"blob\"\nstage = \"scratch\"\nsettle = \"{}s\"\n",
            SETTLE.as_secs()
        ))
        .start();
    let native = tiers.scratch.join("native");
    fs::create_dir(&native).and_then(|()| fs::create_dir(mount.path("run"))).expect("mkdir");
    let (uploaded, committed) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
    let commits = || server.count(Operation::PutBlockList) + server.count(Operation::PutBlob);
    let through = || {
        mount.flush();
        let before = commits();
        let taken = burst(&mount.path("run"), size);
        let closed = Instant::now();
        while commits() < before + WRITERS {
            assert!(closed.elapsed() < Duration::from_secs(600), "it does not reach Blob");
            std::thread::park_timeout(Duration::from_millis(2));
        }
        committed.borrow_mut().push(closed.elapsed().saturating_sub(SETTLE).as_secs_f64());
        taken
    };
    let plainly = || {
        let taken = seconds(|| bare.upload(WRITERS, size));
        uploaded.borrow_mut().push(taken);
        taken
    };
    let subjects: Vec<Subject<'_>> = vec![
        ("native", Box::new(|| burst(&native, size))),
        ("tierfs", Box::new(through)),
        ("bare client", Box::new(plainly)),
    ];
    let measured = measure(effort, subjects);
    let median = |values: &RefCell<Vec<f64>>| quantile(&values.borrow(), 0.5);
    let figure = |what: &str, figure, limit| Outcome {
        row: "8",
        what: format!("8 x 256 MiB with fsync: {what}"),
        figure,
        spread: 0.0,
        noise: 1.0,
        limit,
        bound: Bound::AtMost,
    };
    vec![
        measured.ratio("8", "8 x 256 MiB with fsync and close", "tierfs", "native", 1.0 / 1.10),
        figure(
            "committed after settle, of a bare client's upload",
            median(&committed) / median(&uploaded),
            1.25,
        ),
        figure("MiB of the daemon at most", peak_memory(mount.pid()) as f64 / MIB, (MEMORY + 100) as f64),
    ]
}

pub fn small_files(effort: Effort) -> Vec<Outcome> {
    let count = effort.count(SMALL_FILES);
    let cases = ["none", "barrier"].into_iter().flat_map(|order| LATENCIES.map(|latency| (order, latency)));
    cases.map(|(order, latency)| small_files_in(effort, count, order, latency)).collect()
}

fn small_files_in(effort: Effort, count: usize, order: &str, latency: Duration) -> Outcome {
    let (tiers, server) = (Tiers::with_directories(), BlobServer::start());
    server.fault(When::any(), Effect::Latency(latency));
    let bare = Bare::of(&server);
    let mount = Mount::of(&tiers)
        .default_revalidate()
        .mode(Mode::Passthrough)
        .blob_url(server.container("bench"))
        .rules(&format!(
            "[[rule]]\npath = \"**\"\nhome = \"blob\"\nstage = \"scratch\"\norder = \"{order}\"\n"
        ))
        .start();
    let mut round = 0;
    let through = || {
        round += 1;
        let directory = mount.path(&format!("round-{round}"));
        fs::create_dir(&directory).expect("mkdir");
        mount.flush();
        let before = server.count(Operation::PutBlob);
        let taken = seconds(|| {
            write_small(&directory, count);
            mount.flush();
        });
        assert!(server.count(Operation::PutBlob) >= before + count, "all of them are in Blob");
        taken
    };
    let subjects: Vec<Subject<'_>> =
        vec![("bare client", Box::new(|| seconds(|| bare.put(count, SMALL)))), ("tierfs", Box::new(through))];
    let measured = measure(effort, subjects);
    let latency = latency.as_millis();
    let what = format!("10,000 files of 4 KiB durable in Blob at {latency} ms, order = \"{order}\"");
    measured.ratio("8s", &what, "tierfs", "bare client", 0.50)
}

fn write_small(directory: &Path, count: usize) {
    const THREADS: usize = 4;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for i in (thread..count).step_by(THREADS) {
                    fs::write(directory.join(work::file_name(i)), [0; SMALL]).expect("a write");
                }
            });
        }
    });
}
