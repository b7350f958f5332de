//! The rows: which work, which subjects, which limit.

use crate::harness::{Bound, Effort, Outcome, measure, seconds};
use crate::peers::Peer;
use crate::support::blob_server::BlobServer;
use crate::support::{Mode, Mount, Tiers};
use crate::{bursts, movement, names, work};
use std::fs;
use std::path::Path;

/// A row: its number, what it is, and how it is measured.
pub type Row = (&'static str, &'static str, fn(Effort) -> Vec<Outcome>);

/// All rows there are.
pub const ROWS: [Row; 12] = [
    (
        "0",
        "what FUSE costs on this machine: a null daemon against the native directory; nothing of tierfs",
        floor,
    ),
    ("1", "sequential read and write of a resident file, passthrough, against the native file", resident),
    ("1b", "the same in ordinary mode, against a null daemon, by 1, 4 and 16 threads", ordinary),
    ("3", "create and close of small files, against mergerfs and a null daemon", create),
    (
        "4",
        "stat of known files; `ls -l` of 100,000 entries right after the mount, against the native directory",
        names::stat_and_list,
    ),
    (
        "5",
        "rename of a directory of 100,000 files: how long, and what is moved before the answer",
        names::rename,
    ),
    ("6m", "memory of the daemon while 4 GiB stream from Blob, by 1 and 4 streams", stream_memory),
    (
        "8",
        "8 processes write 256 MiB each, fsync and close: time to return, time to Blob against a bare client, memory",
        bursts::checkpoint,
    ),
    ("8s", "10,000 files of 4 KiB until they are in Blob, against a bare client's PUTs", bursts::small_files),
    (
        "9",
        "promotion of 4 GiB and of 10,000 small files against a plain download; 4 KiB reads meanwhile",
        movement::promotion,
    ),
    ("10", "decisions of the policy: nanoseconds each", movement::decisions),
    ("11", "a million files in the catalog: the daemon at rest", movement::at_rest),
];

pub const MIB: f64 = 1_048_576.0;

fn floor(effort: Effort) -> Vec<Outcome> {
    let tiers = Tiers::with_directories();
    let (native, source) = (tiers.workspace().join("native"), tiers.workspace().join("null-source"));
    fs::create_dir(&native).and_then(|()| fs::create_dir(&source)).expect("mkdir");
    let null = Peer::null(&source, &tiers.workspace().join("null"));
    let [here, there] = [&native, null.root()].map(|root: &Path| root.join("file"));
    for path in [&here, &there] {
        work::make(path, effort.size(256 << 20));
    }
    let reads = measure(
        effort,
        vec![
            ("native", Box::new(|| cold_read(&here, 1)) as Box<_>),
            ("null", Box::new(|| cold_read(&there, 1))),
        ],
    );
    let creates = measure(
        effort,
        vec![
            ("native", Box::new(|| create_in(&native, effort)) as Box<_>),
            ("null", Box::new(|| create_in(null.root(), effort))),
        ],
    );
    vec![
        reads.ratio("0", "sequential read", "null", "native", 0.0),
        creates.ratio("0", "create and close", "null", "native", 0.0),
    ]
}

fn cold_read(path: &Path, threads: u64) -> f64 {
    work::drop_pages(path);
    seconds(|| work::read(path, threads))
}

/// Seconds that creating files below `root` takes; they are gone afterwards.
fn create_in(root: &Path, effort: Effort) -> f64 {
    let directory = root.join("new");
    fs::create_dir(&directory).expect("mkdir");
    let taken = seconds(|| work::create_files(&directory, effort.count(2000)));
    // By name: a peer whose listing shifts under deletes must not spoil the row.
    work::remove_files(&directory, effort.count(2000));
    fs::remove_dir(&directory).expect("rmdir");
    taken
}

fn resident(effort: Effort) -> Vec<Outcome> {
    let tiers = Tiers::with_directories();
    let mount = Mount::of(&tiers).default_revalidate().mode(Mode::Passthrough).start();
    let (native, through) = (tiers.workspace().join("native"), mount.path("resident"));
    for path in [&native, &through] {
        work::make(path, effort.size(1 << 30));
    }
    let reads = measure(
        effort,
        vec![
            ("native", Box::new(|| seconds(|| work::read(&native, 1)))),
            ("tierfs", Box::new(|| seconds(|| work::read(&through, 1)))),
        ],
    );
    let writes = measure(
        effort,
        vec![
            ("native", Box::new(|| seconds(|| work::overwrite(&native, 1)))),
            ("tierfs", Box::new(|| seconds(|| work::overwrite(&through, 1)))),
        ],
    );
    vec![
        reads.ratio("1", "sequential read, passthrough", "tierfs", "native", 0.95),
        writes.ratio("1", "sequential write, passthrough", "tierfs", "native", 0.90),
    ]
}

fn ordinary(effort: Effort) -> Vec<Outcome> {
    let tiers = Tiers::with_directories();
    let mount = Mount::of(&tiers).default_revalidate().mode(Mode::Ordinary).start();
    let source = tiers.workspace().join("null-source");
    fs::create_dir(&source).expect("mkdir");
    let null = Peer::null(&source, &tiers.workspace().join("null"));
    let (reference, through) = (null.root().join("resident"), mount.path("resident"));
    for path in [&reference, &through] {
        work::make(path, effort.size(256 << 20));
    }
    let mut outcomes = Vec::new();
    for threads in [1, 4, 16] {
        let reads = measure(
            effort,
            vec![
                ("null", Box::new(|| cold_read(&reference, threads))),
                ("tierfs", Box::new(|| cold_read(&through, threads))),
            ],
        );
        let writes = measure(
            effort,
            vec![
                ("null", Box::new(|| seconds(|| work::overwrite(&reference, threads)))),
                ("tierfs", Box::new(|| seconds(|| work::overwrite(&through, threads)))),
            ],
        );
        outcomes.push(reads.ratio(
            "1b",
            &format!("read, ordinary, {threads} threads"),
            "tierfs",
            "null",
            0.90,
        ));
        outcomes.push(writes.ratio(
            "1b",
            &format!("write, ordinary, {threads} threads"),
            "tierfs",
            "null",
            0.90,
        ));
    }
    outcomes
}

fn create(effort: Effort) -> Vec<Outcome> {
    let tiers = Tiers::with_directories();
    let mount = Mount::of(&tiers).default_revalidate().mode(Mode::Passthrough).start();
    let (of_null, of_mergerfs) =
        (tiers.workspace().join("null-source"), tiers.workspace().join("mergerfs-source"));
    fs::create_dir(&of_null).and_then(|()| fs::create_dir(&of_mergerfs)).expect("mkdir");
    let null = Peer::null(&of_null, &tiers.workspace().join("null"));
    let mergerfs = Peer::mergerfs(&of_mergerfs, &tiers.workspace().join("mergerfs"));
    let measured = measure(
        effort,
        vec![
            ("mergerfs", Box::new(|| create_in(mergerfs.root(), effort))),
            ("null", Box::new(|| create_in(null.root(), effort))),
            ("tierfs", Box::new(|| create_in(mount.root(), effort))),
        ],
    );
    vec![
        measured.ratio("3", "create and close", "tierfs", "mergerfs", 1.0),
        measured.ratio("3", "create and close", "tierfs", "null", 0.90),
    ]
}

fn stream_memory(effort: Effort) -> Vec<Outcome> {
    let size = effort.size(1 << 30);
    let names: Vec<_> = (0..4).map(|i| format!("blob/big{i}")).collect();
    let server = BlobServer::start();
    names.iter().for_each(|name| server.put_synthetic("bench", name, size));
    let tiers = Tiers::with_directories();
    let mut outcomes = Vec::new();
    for streams in [1, 4] {
        let mount = Mount::of(&tiers)
            .named(&format!("streams-{streams}"))
            .blob_url(server.container("bench"))
            .mount_key("memory = \"96MiB\"")
            .start();
        let before = server.body_bytes();
        let paths: Vec<_> = names.iter().map(|name| mount.path(name)).collect();
        for group in paths.chunks(streams) {
            std::thread::scope(|scope| {
                group.iter().for_each(|path| drop(scope.spawn(|| work::read(path, 1))))
            });
        }
        let fetched = server.body_bytes() - before;
        assert!(fetched >= 4 * size, "{fetched} bytes fetched: the rest came from a cache");
        let figure = |what: &str, figure, limit| Outcome {
            row: "6m",
            what: format!("{what}, 4 GiB from Blob by {streams} streams"),
            figure,
            spread: 0.0,
            noise: 1.0,
            limit,
            bound: Bound::AtMost,
        };
        outcomes.push(figure("MiB at most", peak_memory(mount.pid()) as f64 / MIB, 200.0));
        outcomes.push(figure("fetched of what was read", fetched as f64 / (4 * size) as f64, 1.05));
    }
    outcomes
}

/// Most bytes the process has had in memory.
pub fn peak_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the daemon's status");
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.expect("VmHWM") << 10
}
