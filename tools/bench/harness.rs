//! Ratios of subjects measured in turn: interleaved repetitions, medians, spreads, and how noisy the machine is.

use std::time::Instant;

/// How a run is to be done.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Repetitions of every subject.
    pub repetitions: usize,
    /// Divides the sizes: 1 for a measurement, more to see that it runs.
    pub shrink: u64,
}

impl Effort {
    /// `bytes` or less, at least 1 MiB.
    pub fn size(self, bytes: u64) -> u64 {
        (bytes / self.shrink).max(1 << 20)
    }

    /// `count` or less, at least 10.
    pub fn count(self, count: usize) -> usize {
        (count / usize::try_from(self.shrink).unwrap_or(usize::MAX)).max(10)
    }
}

/// Which side of the limit is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The figure has to reach the limit.
    AtLeast,
    /// The figure must not pass the limit.
    AtMost,
}

/// One figure with its limit.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Number of the row, as `--list` shows it.
    pub row: &'static str,
    /// What was done, by which subject, against which.
    pub what: String,
    /// The ratio (or, for memory, MiB).
    pub figure: f64,
    /// Spread of the figure: half the distance between its quartiles, as part of it.
    pub spread: f64,
    /// The reference against itself; 1 on a quiet machine.
    pub noise: f64,
    /// What it has to reach.
    pub limit: f64,
    /// Which side of it is right.
    pub bound: Bound,
}

/// What an outcome says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Within the limit.
    Ok,
    /// Not within the limit.
    Missed,
    /// The machine was too noisy to say.
    Void,
}

impl Outcome {
    /// What it says.
    pub fn verdict(&self) -> Verdict {
        let within = match self.bound {
            Bound::AtLeast => self.figure >= self.limit,
            Bound::AtMost => self.figure <= self.limit,
        };
        match (0.95..=1.05).contains(&self.noise) {
            false => Verdict::Void,
            true if within => Verdict::Ok,
            true => Verdict::Missed,
        }
    }
}

/// Something to measure: does the work once and answers the seconds that count.
pub type Subject<'a> = (&'static str, Box<dyn FnMut() -> f64 + 'a>);

/// Seconds that `work` takes.
pub fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// Measured seconds of each subject, by repetition; the first subject is measured twice a round.
#[derive(Debug)]
pub struct Measured {
    names: Vec<&'static str>,
    seconds: Vec<Vec<f64>>,
    reference_again: Vec<f64>,
}

/// Measures all `subjects` in turn, after one round that doesn't count. The first one is the reference for noise.
pub fn measure(effort: Effort, mut subjects: Vec<Subject<'_>>) -> Measured {
    let names = subjects.iter().map(|(name, _)| *name).collect();
    let mut seconds = vec![Vec::new(); subjects.len()];
    let mut reference_again = Vec::new();
    for round in 0..=effort.repetitions {
        // Every other round goes backwards, so that no subject always follows the same one.
        let mut order: Vec<usize> = (0..subjects.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        let taken: Vec<(usize, f64)> = order.into_iter().map(|at| (at, (subjects[at].1)())).collect();
        let again = (subjects[0].1)();
        if round > 0 {
            taken.into_iter().for_each(|(at, taken)| seconds[at].push(taken));
            reference_again.push(again);
        }
    }
    Measured { names, seconds, reference_again }
}

impl Measured {
    /// How fast subject `subject` is as part of how fast subject `reference` is.
    ///
    /// # Panics
    /// If there is no subject of such a name.
    pub fn ratio(
        &self,
        row: &'static str,
        what: &str,
        subject: &str,
        reference: &str,
        limit: f64,
    ) -> Outcome {
        let of = |name: &str| {
            let at = self.names.iter().position(|known| *known == name).expect("a subject of that name");
            &self.seconds[at]
        };
        let (subject_seconds, reference_seconds) = (of(subject), of(reference));
        let ratios: Vec<f64> = reference_seconds.iter().zip(subject_seconds).map(|(n, t)| n / t).collect();
        Outcome {
            row,
            what: format!("{what}: {subject} / {reference}"),
            figure: median(reference_seconds) / median(subject_seconds),
            spread: (quantile(&ratios, 0.75) - quantile(&ratios, 0.25)) / 2.0 / median(&ratios),
            noise: median(&self.seconds[0]) / median(&self.reference_again),
            limit,
            bound: Bound::AtLeast,
        }
    }
}

fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// Value below which the part `part` of `values` lies, interpolated.
pub fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = part * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    low + (high - low) * at.fract()
}
