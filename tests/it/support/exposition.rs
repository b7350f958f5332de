//! A strict reader of Prometheus' text format: whatever a scraper may object to is a panic.

use std::collections::{BTreeMap, BTreeSet};

/// A page that was found to be right.
#[derive(Debug)]
pub struct Page {
    families: BTreeMap<String, Family>,
}

#[derive(Debug, Default)]
struct Family {
    kind: String,
    samples: Vec<Sample>,
}

#[derive(Clone, Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Page {
    /// Reads `text`.
    pub fn read(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line has no end");
        let mut families = BTreeMap::new();
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let (name, help) = header(line, "# HELP ");
            assert!(is_name(name) && help.len() > 3, "{line}");
            let (same, kind) = header(lines.next().expect("a TYPE after a HELP"), "# TYPE ");
            assert_eq!(name, same, "HELP and TYPE name two metrics");
            let mut family = Family { kind: kind.to_owned(), ..Family::default() };
            while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
                family.samples.push(sample(line));
            }
            family.check(name);
            assert!(families.insert(name.to_owned(), family).is_none(), "{name} comes twice");
        }
        Self { families }
    }

    /// Names of all metrics.
    pub fn names(&self) -> BTreeSet<&str> {
        self.families.keys().map(String::as_str).collect()
    }

    /// Names of all labels.
    pub fn labels(&self) -> BTreeSet<&str> {
        let samples = self.families.values().flat_map(|family| &family.samples);
        samples.flat_map(|sample| sample.labels.keys().map(String::as_str)).collect()
    }

    /// The value of the only sample of `name` that has `labels`.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let has = |sample: &&Sample| {
            sample.name == name
                && labels.iter().all(|(label, value)| sample.labels.get(*label).is_some_and(|v| v == value))
        };
        let found: Vec<_> = self.families.values().flat_map(|family| &family.samples).filter(has).collect();
        assert_eq!(found.len(), 1, "{name} {labels:?} is not one sample: {found:?}");
        found[0].value
    }
}

fn header<'a>(line: &'a str, start: &str) -> (&'a str, &'a str) {
    let rest = line.strip_prefix(start).unwrap_or_else(|| panic!("not {start}…: {line}"));
    rest.split_once(' ').unwrap_or_else(|| panic!("half a header: {line}"))
}

fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|first| first.is_ascii_lowercase())
        && letters.all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
        && !name.contains("__")
}

fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
    let value = value.parse().unwrap_or_else(|error| panic!("{error}: {line}"));
    let Some((name, labels)) = series.split_once('{') else {
        return Sample { name: series.to_owned(), labels: BTreeMap::new(), value };
    };
    let labels = labels.strip_suffix('}').unwrap_or_else(|| panic!("labels without end: {line}"));
    Sample { name: name.to_owned(), labels: read_labels(labels, line), value }
}

/// `a="x",b="y\"z"`
fn read_labels(mut text: &str, line: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"").unwrap_or_else(|| panic!("half a label: {line}"));
        assert!(is_name(name), "{line}");
        let mut value = String::new();
        let mut letters = rest.char_indices();
        let end = loop {
            match letters.next().unwrap_or_else(|| panic!("a label without end: {line}")) {
                (at, '"') => break at,
                (_, '\\') => value.push(match letters.next() {
                    Some((_, 'n')) => '\n',
                    Some((_, letter @ ('\\' | '"'))) => letter,
                    other => panic!("a wrong escape {other:?}: {line}"),
                }),
                (_, letter) => value.push(letter),
            }
        };
        assert!(labels.insert(name.to_owned(), value).is_none(), "a label twice: {line}");
        text = &rest[end + 1..];
        text = text.strip_prefix(',').unwrap_or_else(|| {
            assert!(text.is_empty(), "no comma: {line}");
            text
        });
    }
    labels
}

impl Family {
    fn check(&self, name: &str) {
        let mut seen = BTreeSet::new();
        for sample in &self.samples {
            assert!(seen.insert((&sample.name, &sample.labels)), "twice: {sample:?}");
            assert!(sample.value.is_finite(), "{sample:?}");
        }
        match self.kind.as_str() {
            "histogram" => self.check_histogram(name),
            "counter" => {
                assert!(name.ends_with("_total"), "{name} is a counter");
                assert!(self.samples.iter().all(|s| s.name == name && s.value >= 0.0), "{name}");
            }
            "gauge" => {
                assert!(!name.ends_with("_total") && self.samples.iter().all(|s| s.name == name), "{name}");
            }
            kind => panic!("{name} is a {kind}"),
        }
    }

    fn check_histogram(&self, name: &str) {
        let mut series: BTreeMap<BTreeMap<String, String>, Vec<&Sample>> = BTreeMap::new();
        for sample in &self.samples {
            let mut labels = sample.labels.clone();
            labels.remove("le");
            series.entry(labels).or_default().push(sample);
        }
        for (labels, samples) in series {
            let of = |suffix: &str| -> Vec<&Sample> {
                let full = format!("{name}{suffix}");
                samples.iter().copied().filter(|sample| sample.name == full).collect()
            };
            let buckets = of("_bucket");
            let (sums, counts) = (of("_sum"), of("_count"));
            assert_eq!(
                (buckets.len() + 2, sums.len(), counts.len()),
                (samples.len(), 1, 1),
                "{name} {labels:?}"
            );
            let bounds: Vec<f64> =
                buckets.iter().map(|bucket| bucket.labels["le"].parse().expect("a bound")).collect();
            assert!(bounds.is_sorted_by(|a, b| a < b) && bounds.last() == Some(&f64::INFINITY), "{bounds:?}");
            assert!(buckets.is_sorted_by(|a, b| a.value <= b.value), "{name} {labels:?} is not cumulative");
            assert_eq!(buckets.last().expect("a bucket").value, counts[0].value, "{name} {labels:?}");
            assert!((sums[0].value > 0.0) == (counts[0].value > 0.0), "{name} {labels:?}");
        }
    }
}
