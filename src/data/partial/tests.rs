//! Partly staged files against a plain vector of bytes, with crashes at every record.

use super::log::{self, Base};
use super::*;
use crate::clock::{Clock, SystemClock};
use crate::data::{MemoryBudget, Owner, StageStore, Streams};
use crate::tier::{DirectoryKind, DirectoryOptions, DirectoryTier, MemoryTier, Tier, Writing};
use crate::types::{Attrs, Condition, Key, Version};
use proptest::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const NAME: &[u8] = b"07/7-3.partial";
const SIZE: u64 = 96;
const BOOT: &str = "this start of the machine";
const EARLIER: &str = "an earlier one";

fn base_bytes(size: u64) -> Vec<u8> {
    (0..size).map(|at| 1 + (at % 251) as u8).collect()
}

fn base(size: u64, version: Version, location: &str) -> Base {
    Base {
        location: location.into(),
        key: Key::parse("a/b").unwrap(),
        version,
        size,
        generation: Generation(2),
    }
}

/// A stage in a directory, a base in memory.
struct Bed {
    stage: Arc<StageStore>,
    blobs: MemoryTier,
    streams: Arc<Streams>,
    runtime: tokio::runtime::Runtime,
    root: tempfile::TempDir,
    key: Key,
}

impl Bed {
    fn new(size: u64) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let root = tempfile::tempdir().unwrap();
        let options = DirectoryOptions {
            name: "scratch".into(),
            kind: DirectoryKind::Local,
            path: root.path().to_owned(),
            capacity: None,
            expected: None,
            writing: Writing::Allowed,
            deadline: Duration::from_secs(60),
        };
        let directory = DirectoryTier::open(options, clock.clone()).unwrap();
        directory.claim().unwrap();
        let owner = Owner::this_process(clock.as_ref()).unwrap();
        let stage = Arc::new(StageStore::claim(Arc::new(directory), "catalog-1", &owner).unwrap());
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let streams = Streams::new(MemoryBudget::new(16 << 20), runtime.handle().clone());
        let key = Key::parse("a/b").unwrap();
        let blobs = MemoryTier::new("blob", clock);
        let bed = Self { stage, blobs, streams, runtime, root, key };
        let version = bed.put(&base_bytes(size));
        let base = base(size, version, &bed.blobs.location());
        bed.stage.make_partial(NAME, &base).unwrap();
        bed.stage.finish_copy(NAME).unwrap();
        bed
    }

    fn put(&self, bytes: &[u8]) -> Version {
        let (bytes, attrs) = (bytes::Bytes::copy_from_slice(bytes), Attrs::default());
        self.runtime.block_on(self.blobs.put(&self.key, bytes, &attrs, &Condition::Always)).unwrap()
    }

    fn open(&self) -> Patched {
        let partial = self.stage.open_partial(NAME).unwrap();
        let tier: Arc<dyn Tier> = Arc::new(self.blobs.clone());
        let find: Candidates = Arc::new(move |partial: &Partial| {
            let base = partial.base().clone();
            Ok(vec![Candidate { tier: tier.clone(), key: base.key, version: base.version }])
        });
        Patched::new(partial, self.streams.clone(), find)
    }

    fn read(&self, file: &Patched, offset: u64, len: usize) -> crate::error::Result<Vec<u8>> {
        Ok(self.runtime.block_on(file.read(offset, len))?.to_vec())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.root.path().join(".tierfs/stage/catalog-1").join(name)
    }
}

#[derive(Clone, Debug)]
enum Act {
    Write(u64, Vec<u8>),
    Cut(u64),
    Punch(u64, u64),
    Sync,
    Reopen,
}

fn act() -> impl Strategy<Value = Act> {
    let at = || 0..SIZE + 32;
    prop_oneof![
        4 => (at(), prop::collection::vec(any::<u8>(), 1..24)).prop_map(|(at, bytes)| Act::Write(at, bytes)),
        2 => at().prop_map(Act::Cut),
        1 => (at(), 1..24_u64).prop_map(|(at, length)| Act::Punch(at, length)),
        1 => Just(Act::Sync),
        1 => Just(Act::Reopen),
    ]
}

/// The same on a plain vector.
fn on_model(model: &mut Vec<u8>, act: &Act) {
    match act {
        Act::Write(at, bytes) => {
            let at = *at as usize;
            model.resize(model.len().max(at + bytes.len()), 0);
            model[at..at + bytes.len()].copy_from_slice(bytes);
        }
        Act::Cut(size) => model.resize(*size as usize, 0),
        Act::Punch(at, length) => {
            let end = ((at + length) as usize).min(model.len());
            let at = (*at as usize).min(end);
            model[at..end].fill(0);
        }
        Act::Sync | Act::Reopen => {}
    }
}

fn on_file(file: &Partial, act: &Act) {
    match act {
        Act::Write(at, bytes) => assert_eq!(file.write_at(*at, bytes).unwrap(), bytes.len()),
        Act::Cut(size) => file.set_len(*size).unwrap(),
        Act::Punch(at, length) => {
            file.allocate(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, *at, *length).unwrap();
        }
        Act::Sync => file.sync().unwrap(),
        Act::Reopen => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn reads_and_writes_like_any_file(acts in prop::collection::vec(act(), 1..24), probe in (0..SIZE + 40, 1..48_usize)) {
        let bed = Bed::new(SIZE);
        let mut model = base_bytes(SIZE);
        let mut file = bed.open();
        for act in &acts {
            if matches!(act, Act::Reopen) {
                drop(file);
                file = bed.open();
            }
            on_file(file.partial(), act);
            on_model(&mut model, act);
            prop_assert_eq!(file.partial().file().metadata().unwrap().len(), model.len() as u64);
            let (from, len) = (probe.0 as usize, probe.1);
            let expected = &model[from.min(model.len())..(from + len).min(model.len())];
            prop_assert_eq!(bed.read(&file, probe.0, len).unwrap(), expected);
        }
        prop_assert_eq!(bed.read(&file, 0, 1 << 12).unwrap(), model);
    }

    #[test]
    fn data_is_never_told_to_be_a_hole(acts in prop::collection::vec(act(), 1..16)) {
        let bed = Bed::new(SIZE);
        let mut model = base_bytes(SIZE);
        let file = bed.open();
        for act in &acts {
            on_file(file.partial(), act);
            on_model(&mut model, act);
        }
        let mut at = 0;
        while let Ok(data) = file.partial().seek(SeekFrom::Data(at)) {
            prop_assert!(model[at as usize..data as usize].iter().all(|byte| *byte == 0), "{at}..{data}");
            at = file.partial().seek(SeekFrom::Hole(data)).unwrap();
            prop_assert!(at > data && at <= model.len() as u64);
        }
        prop_assert!(model[at as usize..].iter().all(|byte| *byte == 0));
    }

    /// What a killed daemon leaves: all bytes, and the map up to some record. What was not recorded is as before, or, where it
    /// was present before, as it is now; never anything else.
    #[test]
    fn any_prefix_of_the_map_is_a_true_one(acts in prop::collection::vec(act(), 1..12), torn in 0..31_u64) {
        let bed = Bed::new(SIZE);
        let map = bed.file("07/7-3.partial.map");
        let file = bed.open();
        let mut model = base_bytes(SIZE);
        let start = std::fs::metadata(&map).unwrap().len();
        for act in &acts {
            let before = model.clone();
            let length = std::fs::metadata(&map).unwrap().len();
            on_file(file.partial(), act);
            on_model(&mut model, act);
            // The daemon died before the last record of this act was whole.
            let kept = std::fs::read(&map).unwrap();
            if kept.len() as u64 == length || matches!(act, Act::Sync) {
                continue;
            }
            let cut = std::fs::OpenOptions::new().write(true).open(&map).unwrap();
            cut.set_len((kept.len() as u64 - 32 + torn).max(start)).unwrap();
            let mapped = bed.stage.look_at_map(NAME).unwrap();
            let raw = std::fs::read(bed.file("07/7-3.partial")).unwrap();
            let mut seen = raw.clone();
            for gap in mapped.map.missing(&(0..raw.len() as u64)) {
                let gap = gap.start as usize..gap.end as usize;
                seen[gap.clone()].copy_from_slice(&base_bytes(SIZE)[gap]);
            }
            for at in 0..seen.len() {
                let old = before.get(at).copied().unwrap_or(0);
                prop_assert!(seen[at] == model[at] || seen[at] == old, "byte {at} after {act:?}");
            }
            std::fs::write(&map, &kept).unwrap();
        }
    }

    /// After a restart of the machine only what was vouched for counts; the rest is as in the base.
    #[test]
    fn what_was_not_synced_is_not_believed_after_a_restart(
        before in prop::collection::vec(act(), 0..8),
        after in prop::collection::vec(act(), 0..8),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("map");
        let base = base(SIZE, Version::new("v"), "memory");
        let empty = Map::new(SIZE, base.generation);
        std::fs::write(&path, log::written(&base, &empty, EARLIER).unwrap()).unwrap();
        let open = || std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut log = Log::new(open(), log::read(&open(), EARLIER).unwrap());
        let record = |act: &Act| match act {
            Act::Write(at, bytes) => Some(Record::Present(*at, at + bytes.len() as u64)),
            Act::Punch(at, length) => Some(Record::Present(*at, at + length)),
            Act::Cut(size) => Some(Record::Cut(*size)),
            Act::Sync | Act::Reopen => None,
        };
        before.iter().filter_map(record).for_each(|record| log.add(record).unwrap());
        let (sure, spoken) = (log.map().clone(), log.spoken());
        // Written while the others are being synced.
        after.iter().filter_map(record).for_each(|record| log.add(record).unwrap());
        let all = log.map().clone();
        log.vouch(spoken).unwrap();
        let same = |a: &Map, b: &Map| a.missing(&(0..SIZE)) == b.missing(&(0..SIZE));
        let now = log::read(&open(), EARLIER).unwrap();
        prop_assert!(same(&now.map, &all) && now.is_current);
        let later = log::read(&open(), BOOT).unwrap();
        prop_assert!(same(&later.map, &sure) && !later.is_current);
        prop_assert!(!now.is_torn);
        prop_assert!(!later.is_torn || (spoken == 0 && !same(&all, &sure)));
        // Written anew it says the same, and all of it counts.
        std::fs::write(&path, log::written(&base, &later.map, BOOT).unwrap()).unwrap();
        for boot in [BOOT, EARLIER] {
            prop_assert!(same(&log::read(&open(), boot).unwrap().map, &sure));
        }
    }

    #[test]
    fn no_map_file_is_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..256), flip in 0..2000_usize) {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        drop(log::read(&file, BOOT));
        let base = base(SIZE, Version::new("v"), "memory");
        let mut map = Map::new(SIZE, base.generation);
        (0..20).for_each(|at| map.apply(Record::Present(at * 4, at * 4 + 2)));
        let mut good = log::written(&base, &map, BOOT).unwrap();
        let at = flip % good.len();
        good[at] ^= 0x41;
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&good, 0).unwrap();
        if let Ok(read) = log::read(&file, BOOT) {
            // A damaged record counts for nothing: what it spoke of is read from the base.
            let more = read.map.missing(&(0..SIZE));
            let is_missing = |gap: &Range<u64>| more.iter().any(|one| one.start <= gap.start && gap.end <= one.end);
            prop_assert!(map.missing(&(0..SIZE)).iter().all(is_missing));
        }
    }
}

#[test]
fn a_changed_base_is_stale_and_what_is_here_is_read() {
    let bed = Bed::new(1 << 20);
    let file = bed.open();
    file.partial().write_at(1000, b"ours").unwrap();
    bed.put(b"somebody else's");
    assert_eq!(bed.read(&file, 1000, 4).unwrap(), b"ours");
    for offset in [0, 998, 1003] {
        assert_eq!(bed.read(&file, offset, 4).unwrap_err().kind(), Kind::Stale);
    }
}

#[test]
fn without_its_map_it_is_nothing() {
    let bed = Bed::new(SIZE);
    std::fs::remove_file(bed.file("07/7-3.partial.map")).unwrap();
    assert_eq!(bed.stage.open_partial(NAME).unwrap_err().kind(), Kind::Corrupt);
    assert_eq!(bed.stage.look_at_map(NAME).unwrap_err().kind(), Kind::Corrupt);
}

#[test]
fn it_goes_with_its_map_and_is_copied_with_it() {
    let bed = Bed::new(SIZE);
    let file = bed.open();
    file.partial().write_at(10, b"ours").unwrap();
    let copy = b"07/7-3.closed.partial";
    bed.stage.copy_partial(copy, file.partial()).unwrap();
    bed.stage.finish_copy(copy).unwrap();
    file.partial().write_at(20, b"later").unwrap();
    let copied = bed.stage.look_at_map(copy).unwrap();
    assert_eq!(copied.map.missing(&(0..SIZE)), [0..10, 14..SIZE]);
    assert_eq!(copied.base, *file.partial().base());
    drop(file);
    bed.stage.remove(NAME).unwrap();
    let left = bed.stage.list().unwrap();
    assert_eq!(left.iter().map(|staged| &staged.name[..]).collect::<Vec<_>>(), [copy]);
    assert!(left[0].map && left[0].object.is_some());
}

#[test]
fn a_map_alone_is_listed_so_that_it_can_go() {
    let bed = Bed::new(SIZE);
    std::fs::remove_file(bed.file("07/7-3.partial")).unwrap();
    let left = bed.stage.list().unwrap();
    assert!(left.len() == 1 && left[0].map && left[0].object.is_none(), "{left:?}");
    bed.stage.remove(&left[0].name).unwrap();
    assert_eq!(bed.stage.list().unwrap(), []);
}

#[test]
fn others_of_this_process_share_one_map() {
    let bed = Bed::new(SIZE);
    let (one, two) = (bed.stage.open_partial(NAME).unwrap(), bed.stage.open_partial(NAME).unwrap());
    one.write_at(0, b"x").unwrap();
    assert_eq!(two.missing(&(0..SIZE)), std::slice::from_ref(&(1..SIZE)));
}
