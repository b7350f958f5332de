//! The rows of large directories: stat, listing, rename.

use crate::harness::{Bound, Effort, Outcome, Subject, measure, quantile, seconds};
use crate::support::blob_server::{BlobServer, Operation};
use crate::support::{Mode, Mount, MountBuilder, Tiers};
use crate::work;
use std::fs;
use std::path::Path;
use std::time::Instant;

const ENTRIES: usize = 100_000;

pub fn stat_and_list(effort: Effort) -> Vec<Outcome> {
    let mut outcomes = vec![stat(effort)];
    outcomes.extend(list(effort, "scratch", "big"));
    outcomes.extend(list(effort, "Blob", "blob/big"));
    outcomes
}

fn stat(effort: Effort) -> Outcome {
    let tiers = Tiers::with_directories();
    let mount = Mount::of(&tiers).default_revalidate().mode(Mode::Passthrough).start();
    let (native, through) = (tiers.workspace().join("native"), mount.path("few"));
    for directory in [&native, &through] {
        fs::create_dir(directory).expect("mkdir");
        work::create_files(directory, 1000);
    }
    let passes = effort.count(200);
    let pass = |directory: &Path| {
        work::stat_files(directory, 1000, 1);
        seconds(|| work::stat_files(directory, 1000, passes))
    };
    let measured = measure(
        effort,
        vec![("native", Box::new(|| pass(&native)) as Box<_>), ("tierfs", Box::new(|| pass(&through)))],
    );
    measured.ratio("4", "stat, warm", "tierfs", "native", 0.90)
}

/// `ls -l` right after the mount, of what the catalog knows and of what only the tier knows.
fn list(effort: Effort, home: &str, directory: &str) -> Vec<Outcome> {
    let (tiers, server) = (Tiers::with_directories(), BlobServer::start());
    let count = effort.count(ENTRIES);
    let native = tiers.workspace().join("native");
    fs::create_dir(&native).expect("mkdir");
    work::create_files(&native, count);
    fill(&tiers, &server, directory, count);
    let [known, found] = ["known", "found"].map(|name| of(&tiers, &server).named(name).start());
    let [known, found] = [known, found].map(std::cell::RefCell::new);
    assert_eq!(work::list(&known.borrow().path(directory)), count, "entries");
    let again = |mount: &std::cell::RefCell<Mount>, forget: fn(&Mount)| {
        let mut mount = mount.borrow_mut();
        assert!(mount.unmount().success(), "{}", mount.log());
        forget(&mount);
        mount.remount();
        let through = mount.path(directory);
        seconds(|| assert_eq!(work::list(&through), count, "entries"))
    };
    let subjects: Vec<Subject<'_>> = vec![
        ("native", Box::new(|| seconds(|| assert_eq!(work::list(&native), count, "entries")))),
        ("tierfs, known", Box::new(|| again(&known, |_| ()))),
        ("tierfs, found", Box::new(|| again(&found, Mount::lose_catalog))),
    ];
    let measured = measure(effort, subjects);
    let what = format!("ls -l of 100,000 on {home}, first time");
    ["tierfs, known", "tierfs, found"]
        .map(|subject| measured.ratio("4", &what, subject, "native", 0.40))
        .to_vec()
}

fn of<'a>(tiers: &'a Tiers, server: &BlobServer) -> MountBuilder<'a> {
    Mount::of(tiers).default_revalidate().mode(Mode::Passthrough).blob_url(server.container("bench"))
}

/// Puts `count` files where others would: on scratch, or on Blob.
fn fill(tiers: &Tiers, server: &BlobServer, directory: &str, count: usize) {
    if directory.starts_with("blob/") {
        server.container("bench");
        for i in 0..count {
            server.put_synthetic("bench", &format!("{directory}/{}", work::file_name(i)), 1000);
        }
    } else {
        fs::create_dir(tiers.scratch.join(directory)).expect("mkdir");
        work::create_files(&tiers.scratch.join(directory), count);
    }
}

pub fn rename(effort: Effort) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for (what, from, to) in [
        ("within scratch", "big", "moved"),
        ("within Blob", "blob/big", "blob/moved"),
        ("scratch to Blob", "big", "blob/moved"),
    ] {
        outcomes.extend(rename_between(effort, what, from, to));
    }
    outcomes
}

/// There and back again; the mover follows meanwhile.
fn rename_between(effort: Effort, what: &str, from: &str, to: &str) -> Vec<Outcome> {
    let (tiers, server) = (Tiers::with_directories(), BlobServer::start());
    let count = effort.count(ENTRIES);
    fill(&tiers, &server, from, count);
    let mount = of(&tiers, &server).start();
    fs::create_dir_all(mount.path("blob")).expect("mkdir");
    assert_eq!(work::list(&mount.path(from)), count, "entries");
    let mut ends = [mount.path(from), mount.path(to)];
    let mut taken = Vec::new();
    let mut moved = None;
    for _ in 0..effort.repetitions {
        let began = Instant::now();
        fs::rename(&ends[0], &ends[1]).expect("a rename");
        let answered = Instant::now();
        taken.push((answered - began).as_secs_f64() * 1e3);
        moved.get_or_insert_with(|| bytes_moved(&server, began, answered));
        ends.reverse();
    }
    let figure = |what: String, figure, limit| Outcome {
        row: "5",
        what,
        figure,
        spread: 0.0,
        noise: 1.0,
        limit,
        bound: Bound::AtMost,
    };
    vec![
        figure(format!("rename of 100,000 files {what}: ms"), quantile(&taken, 0.5), 5.0),
        figure(format!("rename of 100,000 files {what}: slowest ms"), quantile(&taken, 1.0), 50.0),
        figure(
            format!("rename of 100,000 files {what}: requests for bytes before the answer"),
            moved.unwrap_or(0) as f64,
            0.0,
        ),
    ]
}

/// Requests that read or wrote bytes of blobs while the caller waited.
fn bytes_moved(server: &BlobServer, began: Instant, answered: Instant) -> usize {
    use Operation::{Get, PutBlob, PutBlock, PutBlockFromUrl, PutBlockList};
    let moves = |operation| matches!(operation, Get | PutBlob | PutBlock | PutBlockFromUrl | PutBlockList);
    let requests = server.requests();
    requests.iter().filter(|r| moves(r.operation) && (began..answered).contains(&r.began)).count()
}
