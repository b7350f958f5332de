//! Many names and big files: what they cost in requests, bytes and time.

use super::*;
use crate::support::Mode;
use crate::support::blob_server::{Effect, Operation, When};
use crate::support::mount::told;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// Time that the process has had a processor.
fn worked(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the daemon's times");
    // After the name in parentheses: utime and stime are the 12th and 13th.
    let fields = stat.rsplit_once(')').expect("a name").1.split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|field| field.parse::<u64>().expect("ticks")).sum();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

/// Most bytes the process has had in memory.
fn peak_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the daemon's status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().strip_suffix(" kB").and_then(|kib| kib.parse::<u64>().ok()).expect("a number") << 10
}

/// C140
#[test]
fn a_hundred_thousand_names_cost_a_page_each_five_thousand() {
    let (server, tiers, container) = own();
    let count = 100_000;
    for i in 0..count {
        server.put_synthetic(&container, &format!("blob/many/f{i:06}"), i);
    }
    let mount = Mount::of(&tiers).rules(&patient()).start();
    assert!(fs::metadata(mount.path("blob/many")).expect("stat").is_dir());
    server.clear_log();
    let began = Instant::now();
    let shown = fs::read_dir(mount.path("blob/many")).expect("a directory").count();
    let took = began.elapsed();
    let (lists, heads) = (server.count(Operation::List), server.count(Operation::Head));
    eprintln!("{shown} names in {took:?}, daemon {:?}, {lists} lists, {heads} heads", worked(mount.pid()));
    assert_eq!(shown, usize::try_from(count).expect("a count"));
    assert!(lists <= 100_000 / 5000 + 1, "{lists} list calls");
    assert_eq!(heads, 0);
    // The daemon's own time: other work on this machine is no fault of its.
    let worked = worked(mount.pid());
    assert!(worked < Duration::from_secs(20), "{worked:?}");
    let peak = peak_memory(mount.pid());
    assert!(peak < 200 * MIB, "{peak} bytes of memory");
    for i in (0..count).step_by(997) {
        assert_eq!(fs::metadata(mount.path(&format!("blob/many/f{i:06}"))).expect("stat").len(), i);
    }
    assert_eq!(
        (server.count(Operation::List), server.count(Operation::Head)),
        (lists, 0),
        "the pages said it all"
    );
}

#[test]
fn a_name_in_an_unlisted_directory_costs_two_requests() {
    let (server, tiers, container) = own();
    for i in 0..20 {
        server.put_synthetic(&container, &format!("blob/d/f{i}"), 10);
    }
    let mount = Mount::of(&tiers).rules(&patient()).start();
    fs::metadata(mount.path("blob/d")).expect("stat");
    server.clear_log();
    assert_eq!(fs::metadata(mount.path("blob/d/f7")).expect("stat").len(), 10);
    let seen = server.requests();
    assert!(
        server.count(Operation::Head) <= 1 && server.count(Operation::List) <= 1 && seen.len() <= 2,
        "{seen:?}"
    );
}

/// C240
#[test]
fn a_part_of_a_big_file_costs_a_part() {
    let (server, tiers, container) = own();
    let size = 1 << 30;
    for name in ["head", "middle", "tail"] {
        server.put_synthetic(&container, &format!("blob/{name}"), size);
    }
    let mount = Mount::of(&tiers).start();
    server.fault(When::operation(&[Operation::Get]), Effect::bandwidth(50_000_000));
    let read = |name: &str, offset: u64, length: usize, limit: u64| {
        server.clear_log();
        let began = Instant::now();
        let file = File::open(mount.path(&format!("blob/{name}"))).expect("open");
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, offset).expect("a read");
        let took = began.elapsed();
        assert!(took < Duration::from_secs(1), "{name}: {took:?}");
        assert!(bytes == server.bytes_at(offset..offset + length as u64), "{name}: wrong bytes");
        drop(file);
        let moved = server.body_bytes();
        eprintln!("{name}: {moved} bytes in {took:?}");
        assert!(moved <= limit, "{name}: {moved} bytes moved");
    };
    read("head", 0, 4096, 2 * MIB);
    read("tail", size - 65536, 65536, 32 * MIB);
    read("middle", size / 2 + 77, 4096, 32 * MIB);
    // `file` and its like read a little from the start, and then some more.
    let mut start = Vec::new();
    File::open(mount.path("blob/head")).expect("open").take(MIB).read_to_end(&mut start).expect("a read");
    assert!(start == server.bytes_at(0..MIB));
}

/// The daemon's memory has the config's limit, however much is read through it: four readers of files
/// that are each larger than that.
#[test]
fn bounded() {
    let (server, tiers, container) = own();
    let size = 192 * MIB;
    for i in 0..4 {
        server.put_synthetic(&container, &format!("blob/big{i}"), size);
    }
    let mount = Mount::of(&tiers).rules(&patient()).mount_key("memory = \"64MiB\"").start();
    std::thread::scope(|scope| {
        for i in 0..4 {
            let path = mount.path(&format!("blob/big{i}"));
            scope.spawn(move || {
                let mut file = File::open(path).expect("open");
                let mut buffer = vec![0; MIB as usize];
                let mut seen = 0;
                loop {
                    match file.read(&mut buffer).expect("a read") {
                        0 => break assert_eq!(seen, size),
                        count => seen += count as u64,
                    }
                }
            });
        }
    });
    let peak = peak_memory(mount.pid());
    assert!(peak < 164 * MIB, "{peak} bytes of memory for 64 MiB of budget");
}

/// A control group that holds one process to so much memory; it goes when the process is gone.
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// `None` where control groups are not ours to make.
    fn holding(pid: u32, limit: u64) -> Option<Self> {
        let makers = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        makers.into_iter().find_map(|(root, file)| {
            let group = Self(Path::new(root).join(format!("tierfs-test-{pid}")));
            fs::create_dir(&group.0).ok()?;
            fs::write(group.0.join(file), limit.to_string()).ok()?;
            fs::write(group.0.join("cgroup.procs"), pid.to_string()).ok()?;
            Some(group)
        })
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.0) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}

/// Their order is not the case: one after the other they would take minutes on their way to Blob.
const CROWD: &str = r#"
[[rule]]
path = "blob/**"
home = "blob"
stage = "scratch"
order = "none"
settle = "0s"

[[rule]]
path = "share/**"
home = "share"

[[rule]]
path = "**"
home = "scratch"
"#;

fn c070(mode: Mode, home: &str, count: usize) {
    let (server, tiers, container) = own();
    let group;
    let mount = Mount::of(&tiers).mode(mode).rules(CROWD).default_revalidate().start();
    group = MemoryGroup::holding(mount.pid(), 512 * MIB);
    eprintln!("{}", group.as_ref().map_or("no control group", |_| "held to 512 MiB"));
    let directory = mount.path(home).join("m");
    fs::create_dir_all(&directory).expect("mkdir");
    let began = Instant::now();
    let script = format!("for i in $(seq {count}); do echo $i >$0/$i & done; wait");
    let made = Command::new("bash").args(["-c", &script]).arg(&directory).output().expect("bash");
    eprintln!("made after {:?}", began.elapsed());
    assert!(made.status.success() && made.stderr.is_empty(), "{}", told(&made));
    let right = |when: &str| {
        for i in 1..=count {
            let text = fs::read_to_string(directory.join(i.to_string())).expect("a read");
            assert_eq!(text, format!("{i}\n"), "{when}");
        }
        assert_eq!(fs::read_dir(&directory).expect("a directory").count(), count, "{when}");
    };
    right("at once");
    mount.flush();
    right("at home");
    if home == "blob" {
        for i in 1..=count {
            let text = server.get(&container, &format!("blob/m/{i}")).expect("a blob");
            assert_eq!(text, format!("{i}\n").into_bytes());
        }
    }
    let peak = peak_memory(mount.pid());
    eprintln!("{peak} bytes of memory at most");
    assert!(peak < 512 * MIB, "{peak} bytes of memory");
    mount.tierstat(&[]);
}

#[test]
fn full_c070_two_thousand_files_at_once_blob_passthrough() {
    c070(Mode::Passthrough, "blob", 2000);
}

#[test]
fn full_c070_two_thousand_files_at_once_share_ordinary() {
    c070(Mode::Ordinary, "share", 2000);
}

// As many as the case has; two cores need minutes for so many processes.
#[test]
fn soak_c070_ten_thousand_files_at_once_blob_passthrough() {
    c070(Mode::Passthrough, "blob", 10_000);
}

#[test]
fn soak_c070_ten_thousand_files_at_once_blob_ordinary() {
    c070(Mode::Ordinary, "blob", 10_000);
}

#[test]
fn soak_c070_ten_thousand_files_at_once_scratch_passthrough() {
    c070(Mode::Passthrough, "scratch", 10_000);
}

#[test]
fn soak_c070_ten_thousand_files_at_once_share_ordinary() {
    c070(Mode::Ordinary, "share", 10_000);
}

/// Of what others put there, and more than one page of it.
#[test]
fn c232_a_rewound_listing_of_blob_is_whole_and_new() {
    let (server, tiers, container) = own();
    let count = 12_000;
    for i in 0..count {
        server.put_synthetic(&container, &format!("blob/many/f{i:05}"), 1);
    }
    let mount = Mount::of(&tiers).rules(&patient()).start();
    let open = File::open(mount.path("blob/many")).expect("a directory");
    let mut stream = rustix::fs::Dir::read_from(&open).expect("a stream");
    let listed = |stream: &mut rustix::fs::Dir, limit: usize| -> BTreeSet<Vec<u8>> {
        let names = std::iter::from_fn(|| stream.read());
        let names = names.map(|entry| entry.expect("an entry").file_name().to_bytes().to_vec());
        names.filter(|name| !name.starts_with(b".")).take(limit).collect()
    };
    assert_eq!(listed(&mut stream, 10).len(), 10);
    for (round, new) in ["new", "newer", "newest"].into_iter().enumerate() {
        fs::write(mount.path("blob/many").join(new), new).expect("a write");
        stream.rewind();
        let all = listed(&mut stream, usize::MAX);
        assert_eq!(all.len(), count + round + 1);
        assert!(all.contains(new.as_bytes()), "{new}");
    }
}
