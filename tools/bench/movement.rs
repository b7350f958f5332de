//! The rows of movement: promotion, what programs feel of it, decisions, and a million files at rest.

use crate::bare::Bare;
use crate::harness::{Bound, Effort, Outcome, Subject, measure, quantile, seconds};
use crate::rows::MIB;
use crate::support::blob_server::BlobServer;
use crate::support::{Mode, Mount, MountBuilder, Tiers};
use crate::work;
use std::fs::{self, File};
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tierfs::policy::admission::decide;
use tierfs::policy::eviction::{Candidates, Worth};
use tierfs::policy::heat::{Decayed, FILE_HALF_LIFE, Fetch, Group, value};

const RULES: &str = r#"
[[rule]]
path = "blob/**"
home = "blob"
hot = "scratch"
[[rule]]
path = "**"
home = "scratch"
"#;

fn mounted<'a>(tiers: &'a Tiers, server: &BlobServer) -> MountBuilder<'a> {
    Mount::of(tiers)
        .default_revalidate()
        .mode(Mode::Passthrough)
        .blob_url(server.container("bench"))
        .rules(RULES)
}

fn figure(row: &'static str, what: String, figure: f64, limit: f64) -> Outcome {
    Outcome { row, what, figure, spread: 0.0, noise: 1.0, limit, bound: Bound::AtMost }
}

pub fn promotion(effort: Effort) -> Vec<Outcome> {
    vec![
        promote(effort, "4 GiB", effort.count(64), effort.size(64 << 20)),
        promote(effort, "10,000 x 64 KiB", effort.count(10_000), 64 << 10),
        felt(effort),
    ]
}

/// `tierfs warm` of a directory that is on Blob alone, against a plain client that downloads the same into files.
fn promote(effort: Effort, what: &str, files: usize, size: u64) -> Outcome {
    let (tiers, server) = (Tiers::with_directories(), BlobServer::start());
    let bare = Bare::of(&server);
    let names: Vec<String> = (0..files).map(|i| format!("blob/{}", work::file_name(i))).collect();
    names.iter().for_each(|name| server.put_synthetic("bench", name, size));
    let mount = mounted(&tiers, &server).start();
    let plain = tiers.scratch.join("plain");
    fs::create_dir(&plain).expect("mkdir");
    let download = || {
        let taken = seconds(|| bare.download(&names, size, &plain, Bare::AT_ONCE / 4));
        fs::remove_dir_all(&plain).and_then(|()| fs::create_dir(&plain)).expect("an empty directory");
        taken
    };
    let warm = || {
        let before = server.body_bytes();
        let taken = seconds(|| drop(mount.tierfs_at(&["warm"], &["blob"])));
        let fetched = server.body_bytes() - before;
        assert!(fetched >= size * files as u64, "{fetched} bytes came from Blob");
        assert!(mount.tierfs_at(&["evict"], &["blob"]).status.success(), "{}", mount.log());
        taken
    };
    let subjects: Vec<Subject<'_>> = vec![("plain download", Box::new(download)), ("tierfs", Box::new(warm))];
    measure(effort, subjects).ratio("9", &format!("promote {what}"), "tierfs", "plain download", 0.85)
}

/// Random 4 KiB reads of a resident file while hot copies are made all the time.
fn felt(effort: Effort) -> Outcome {
    const FILES: usize = 32;
    let (tiers, server) = (Tiers::with_directories(), BlobServer::start());
    let size = effort.size(64 << 20);
    let names: Vec<String> = (0..FILES).map(|i| format!("blob/{}", work::file_name(i))).collect();
    server.container("bench");
    names.iter().for_each(|name| server.put_synthetic("bench", name, size));
    let mount = mounted(&tiers, &server).start();
    let resident = mount.path("resident");
    work::make(&resident, size);
    let (mut quiet, mut moving) = (Vec::new(), Vec::new());
    for _ in 0..effort.repetitions {
        quiet.push(tail(&resident, size, effort));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    mount.tierfs_at(&["warm"], &["blob"]);
                    mount.tierfs_at(&["evict"], &["blob"]);
                }
            });
            moving.push(tail(&resident, size, effort));
            done.store(true, Ordering::Relaxed);
        });
    }
    let ratio = quantile(&moving, 0.5) / quantile(&quiet, 0.5);
    figure("9", "p99 of 4 KiB reads while promoting, of that without".into(), ratio, 1.5)
}

/// The 99th percentile of reads of 4 KiB that programs open the file anew for now and then, in seconds.
fn tail(path: &Path, size: u64, effort: Effort) -> f64 {
    let mut taken = Vec::new();
    let mut buffer = [0; 4096];
    let mut at = 0_u64;
    for _ in 0..effort.count(200) {
        let file = File::open(path).expect("an open");
        for _ in 0..100 {
            // Any walk over the file that read-ahead can't follow.
            at = (at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
                % (size / 4096);
            let began = Instant::now();
            file.read_exact_at(&mut buffer, at * 4096).expect("a read");
            taken.push(began.elapsed().as_secs_f64());
        }
    }
    quantile(&taken, 0.99)
}

/// Nanoseconds of a decision.
pub fn decisions(effort: Effort) -> Vec<Outcome> {
    let turns = effort.count(1_000_000);
    let mut group = Group::default();
    (0..100).for_each(|second| group.open(f64::from(second)));
    let mut file = Decayed::default();
    file.add(3.0, 50.0, FILE_HALF_LIFE);
    let worth = |at: usize| value(group.rate_of(&file, 100.0 + at as f64 * 1e-3), 1 << 20, Fetch::BLOB);
    let mut candidates = Candidates::new(4096);
    let rows = [
        (
            "admit a file",
            seconds(|| {
                (0..turns).for_each(|at| {
                    black_box(decide(1 << 20, worth(at), 0, Some(1e-9)));
                });
            }),
        ),
        (
            "rank a copy",
            seconds(|| {
                (0..turns).for_each(|at| candidates.offer(Worth::Usual(worth(at)), at));
                black_box(candidates.least());
            }),
        ),
    ];
    let each = |(what, taken): (&str, f64)| {
        figure("10", format!("ns to {what}"), taken * 1e9 / turns as f64, 1000.0)
    };
    rows.map(each).to_vec()
}

/// A million files of Blob in the catalog: what the daemon takes at rest.
pub fn at_rest(effort: Effort) -> Vec<Outcome> {
    const DIRECTORIES: usize = 100;
    /// The mover keeps house in it.
    const WATCHED: Duration = Duration::from_secs(40);
    let (tiers, server) = (Tiers::with_directories(), BlobServer::start());
    server.container("bench");
    let files = effort.count(1_000_000);
    for i in 0..files {
        let name = format!("blob/d{}/{}", i % DIRECTORIES, work::file_name(i));
        server.put_synthetic("bench", &name, 1000);
    }
    let mount = mounted(&tiers, &server).start();
    let found: usize =
        (0..DIRECTORIES.min(files)).map(|d| work::list(&mount.path(&format!("blob/d{d}")))).sum();
    assert_eq!(found, files, "files in the catalog");
    // What the kernel knows is the kernel's to keep: a mount at rest has forgotten it.
    fs::write("/proc/sys/vm/drop_caches", "2").expect("the kernel forgets");
    let before = cpu_seconds(mount.pid());
    std::thread::sleep(WATCHED);
    let used = (cpu_seconds(mount.pid()) - before) / WATCHED.as_secs_f64();
    vec![
        figure("11", "a million files at rest: part of a core".into(), used, 0.01),
        figure(
            "11",
            "a million files at rest: MiB of the daemon".into(),
            resident_memory(mount.pid()) as f64 / MIB,
            300.0,
        ),
    ]
}

/// CPU time of a process so far.
fn cpu_seconds(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the daemon's times");
    // The name before them may have any character but ends with the last bracket.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks: f64 = [11, 12].iter().map(|at| fields[*at].parse::<f64>().expect("ticks")).sum();
    ticks / rustix::param::clock_ticks_per_second() as f64
}

fn resident_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the daemon's status");
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.expect("VmRSS") << 10
}
