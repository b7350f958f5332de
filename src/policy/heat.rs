//! Heat: how often a file is opened, from how often it and its neighbours were opened lately. Pure.
//!
//! The rate of file x in group g is `rate(x) = R_g · (n_x + α) / (S_g + α·size_g)`: how busy the group is
//! now (R_g, fast), times the share of its opens that fall to x (slow; additive smoothing with α opens a
//! file, as in Lidstone's law). The two are apart because they change at different speeds: a dataset is read
//! or not read from one minute to the next, while which of its files are wanted takes epochs to show.
//!
//! R_g is the mean of the present run: opens without an unusual silence between them. It covers one to two
//! passes over the group, and halves for every half pass of silence after it, or half the longest silence known.
//! n_x and S_g decay with a half-life h, `n(t + h) = n(t) / 2`: each is a number and the time it is of.

use crate::types::Ino;
use std::time::Duration;

/// Opens that every file of a group is taken to have had beyond those counted (α). With 2, a file that was read once more
/// than its neighbours, as half of them are in the middle of an epoch, is at most 1.33 times as hot.
const SMOOTHING: f64 = 2.0;

/// Half-life of a file's count: it must outlast an epoch, and the longest take days.
pub const FILE_HALF_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Shortest half-life of a group's rate, and what is never an unusual silence: programs pause.
pub const GROUP_HALF_LIFE_MIN: Duration = Duration::from_secs(60);

/// Longest half-life of a group's rate: what was not read for days is not in use.
pub const GROUP_HALF_LIFE_MAX: Duration = Duration::from_secs(24 * 3600);

/// A silence is unusual if it is this much longer than the mean one.
const UNUSUAL: f64 = 10.0;

/// What the first open of a new run is taken to stand for: this part of the silence before it, so that a second silence
/// like it is usual, ...
const FIRST_OF_RUN: f64 = 8.0;

/// ... but no longer than this, in seconds: a dataset is used again after days as if it were new.
const FIRST_OF_RUN_MAX: f64 = 600.0;

/// What an open leaves of the memory of a long silence: it fades over thousands of opens.
const FORGET_SILENCE: f64 = 0.9998;

/// Groups of fewer files say too little of their own; those of the directory above count with them.
pub const GROUP_MIN: u64 = 16;

/// Seconds since the Unix epoch. Clocks jump: a moment before the last one known counts as that one.
pub type Seconds = f64;

/// A count that halves with every half-life.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Decayed {
    /// How many, at that time.
    pub value: f64,
    /// When.
    pub at: Seconds,
}

impl Decayed {
    /// What is left of it now.
    #[must_use]
    pub fn now(&self, now: Seconds, half_life: Duration) -> f64 {
        self.value * (-(now - self.at).max(0.0) / half_life.as_secs_f64()).exp2()
    }

    /// Adds to what is left of it.
    pub fn add(&mut self, more: f64, now: Seconds, half_life: Duration) {
        *self = Self { value: self.now(now, half_life) + more, at: now.max(self.at) };
    }
}

/// What is known of one file: its opens.
pub type File = Decayed;

/// What is known of a group of files: mostly a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Group {
    /// Opens of the present run.
    pub run_opens: f64,
    /// Seconds they stand for.
    pub run_time: f64,
    /// When it was last opened.
    pub last: Seconds,
    /// The longest silence between opens, in seconds: for so long it may be silent without being out of use.
    pub silence: f64,
    /// All opens of its files (S_g).
    pub opens: Decayed,
    /// Files it has (size_g): those counted, or those listed if that is more.
    pub files: u64,
    /// Files of it that were opened.
    pub counted: u64,
}

impl Group {
    /// One of its files is opened.
    pub fn open(&mut self, now: Seconds) {
        let gap = (now - self.last).max(0.0);
        if self.run_opens == 0.0 {
            (self.run_opens, self.run_time) = (1.0, 1.0);
        } else {
            self.silence = gap.max(self.silence * FORGET_SILENCE);
            let usual = UNUSUAL * self.run_time / self.run_opens;
            if gap > usual.max(GROUP_HALF_LIFE_MIN.as_secs_f64()) {
                (self.run_opens, self.run_time) = (1.0, (gap / FIRST_OF_RUN).min(FIRST_OF_RUN_MAX));
            } else {
                self.run_opens += 1.0;
                self.run_time += gap;
            }
        }
        if self.run_opens > 2.0 * (self.files.max(GROUP_MIN) as f64) {
            self.run_opens /= 2.0;
            self.run_time /= 2.0;
        }
        self.last = now.max(self.last);
        self.opens.add(1.0, now, FILE_HALF_LIFE);
    }

    /// Adds what was known of it before this run.
    pub fn continue_from(&mut self, earlier: &Self) {
        let mut opens = earlier.opens;
        opens.add(self.opens.value, self.opens.at, FILE_HALF_LIFE);
        let counted = self.counted.max(earlier.counted);
        let (files, silence) = (self.files.max(earlier.files), self.silence.max(earlier.silence));
        *self = if self.run_opens > 0.0 { *self } else { *earlier };
        *self = Self { opens, files, counted, silence, ..*self };
    }

    /// Opens a second, now (R_g).
    #[must_use]
    pub fn rate(&self, now: Seconds) -> f64 {
        if self.run_opens == 0.0 {
            return 0.0;
        }
        let rate = self.run_opens / self.run_time.max(1e-3);
        let half_life = (self.files as f64 / rate).max(self.silence) / 2.0;
        let (min, max) = (GROUP_HALF_LIFE_MIN.as_secs_f64(), GROUP_HALF_LIFE_MAX.as_secs_f64());
        rate * (-(now - self.last).max(0.0) / half_life.clamp(min, max)).exp2()
    }

    /// Opens a second of one of its files, now.
    #[must_use]
    pub fn rate_of(&self, file: &File, now: Seconds) -> f64 {
        let opens = file.now(now, FILE_HALF_LIFE);
        let all = self.opens.now(now, FILE_HALF_LIFE) + SMOOTHING * self.files.max(1) as f64;
        self.rate(now) * (opens + SMOOTHING) / all
    }
}

/// Heat of one file, as it is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileRow {
    /// The file.
    pub ino: Ino,
    /// The group it counts with.
    pub group: Ino,
    /// Its opens.
    pub opens: File,
}

/// Heat of one group, as it is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupRow {
    /// Its directory.
    pub dir: Ino,
    /// What is known of it.
    pub group: Group,
}

/// Rows to be written, or that were read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Of files.
    pub files: Vec<FileRow>,
    /// Of groups.
    pub groups: Vec<GroupRow>,
}

/// What it costs to read a file from its home.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fetch {
    /// Until the first byte comes.
    pub latency: Duration,
    /// Bytes a second after it.
    pub bandwidth: f64,
}

impl Fetch {
    /// Of a Blob account as one VM sees it: 30 ms to the first byte, about a gigabyte a second.
    pub const BLOB: Self = Self { latency: Duration::from_millis(30), bandwidth: 1e9 };
    /// Of a mounted share: 3 ms, about a gigabyte a second.
    pub const SHARE: Self = Self { latency: Duration::from_millis(3), bandwidth: 1e9 };

    /// How long a program waits for a file of `size` bytes.
    #[must_use]
    pub fn time(&self, size: u64) -> Duration {
        self.latency + Duration::from_secs_f64(size as f64 / self.bandwidth)
    }
}

/// Seconds of waiting that a hot copy saves a second, for each byte it takes: copies of the least value leave first.
#[must_use]
pub fn value(rate: f64, size: u64, fetch: Fetch) -> f64 {
    rate * fetch.time(size).as_secs_f64() / size.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: f64 = 3600.0;

    fn epochs(group: &mut Group, files: &mut [File], epochs: usize, start: Seconds, each: f64) -> Seconds {
        let mut now = start;
        for _ in 0..epochs {
            for file in &mut *files {
                now += each;
                group.open(now);
                file.add(1.0, now, FILE_HALF_LIFE);
            }
        }
        now
    }

    #[test]
    fn counts_halve_and_clocks_that_jump_back_change_nothing() {
        let (mut count, minute) = (Decayed::default(), Duration::from_secs(60));
        count.add(8.0, 1000.0, minute);
        assert!((count.now(1060.0, minute) - 4.0).abs() < 1e-9);
        assert!((count.now(0.0, minute) - 8.0).abs() < 1e-9);
        count.add(1.0, 500.0, minute);
        assert_eq!((count.value, count.at), (9.0, 1000.0));
    }

    #[test]
    fn rates_are_those_of_the_group_shared_by_its_files() {
        let (mut group, mut files) = (Group { files: 1000, ..Group::default() }, vec![File::default(); 1000]);
        let now = epochs(&mut group, &mut files, 3, 1e9, 1.0);
        assert!((group.rate(now) - 1.0).abs() < 0.05, "{}", group.rate(now));
        let sum: f64 = files.iter().map(|file| group.rate_of(file, now)).sum();
        assert!((sum - 1.0).abs() < 0.05, "{sum}");
    }

    #[test]
    fn a_file_read_once_more_is_not_clearly_hotter() {
        for epoch in 1..5 {
            let (mut group, mut files) = (Group { files: 64, ..Group::default() }, vec![File::default(); 64]);
            epochs(&mut group, &mut files, epoch, 1e9, 0.1);
            let now = epochs(&mut group, &mut files[..32], 1, 1e9 + 1000.0, 0.1);
            let (ahead, behind) = (group.rate_of(&files[0], now), group.rate_of(&files[63], now));
            assert!(ahead > behind && ahead < 1.34 * behind, "{epoch}: {ahead} {behind}");
        }
    }

    #[test]
    fn what_falls_silent_cools_within_an_epoch_and_a_usual_silence_is_none() {
        let (mut group, mut files) = (Group { files: 1000, ..Group::default() }, vec![File::default(); 1000]);
        let now = epochs(&mut group, &mut files, 5, 1e9, 1.0);
        let rate = group.rate(now);
        assert!(group.rate(now + 60.0) > 0.9 * rate, "a pause");
        assert!(group.rate(now + 1000.0) < 0.3 * rate, "a pass later");
        // Validation: a small set, once an hour.
        let (mut small, mut files) = (Group { files: 20, ..Group::default() }, vec![File::default(); 20]);
        let mut now = 1e9;
        for _ in 0..4 {
            now = epochs(&mut small, &mut files, 1, now + HOUR, 0.5);
        }
        assert!(small.rate(now + HOUR) > 0.2 * small.rate(now));
    }

    #[test]
    fn a_group_that_is_used_again_is_known_by_what_it_does_now() {
        let (mut group, mut files) = (Group { files: 5000, ..Group::default() }, vec![File::default(); 5000]);
        let now = epochs(&mut group, &mut files, 1, 1e9, 1.0);
        let now = epochs(&mut group, &mut files[..3000], 1, now + 72.0 * HOUR, 0.2);
        assert!((group.rate(now) - 2.5).abs() < 0.1, "{}", group.rate(now));
        // One open every two hours.
        let mut slow = Group { files: 1, ..Group::default() };
        (0..20).for_each(|open| slow.open(1e9 + f64::from(open) * 2.0 * HOUR));
        assert!(slow.rate(1e9 + 38.0 * HOUR) <= 1.0 / 600.0);
    }

    #[test]
    fn small_files_save_more_waiting_per_byte() {
        let of = |size| value(1.0, size, Fetch::BLOB);
        assert!(of(4096) > 100.0 * of(64 << 20) && of(0).is_finite());
        assert!(value(2.0, 4096, Fetch::BLOB) > of(4096));
        assert!(of(1 << 20) > value(1.0, 1 << 20, Fetch::SHARE));
    }
}
