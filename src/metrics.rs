//! Text of the Prometheus exposition format (0.0.4): families with their help, samples with labels,
//! histograms. A leaf: knows no metric of ours.

use std::fmt::Write as _;

/// What a page of this is to be called in HTTP.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A page of metrics, written family by family.
#[derive(Debug, Default)]
pub struct Page {
    text: String,
}

/// The samples of one metric.
#[derive(Debug)]
pub struct Family<'a> {
    page: &'a mut Page,
    name: &'a str,
}

/// Names and values that tell the samples of a family apart.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

impl Page {
    /// A value that goes up and down.
    pub fn gauge<'a>(&'a mut self, name: &'a str, help: &str) -> Family<'a> {
        self.family(name, "gauge", help)
    }

    /// A sum that only grows; its name ends in `_total`.
    pub fn counter<'a>(&'a mut self, name: &'a str, help: &str) -> Family<'a> {
        debug_assert!(name.ends_with("_total"), "{name}");
        self.family(name, "counter", help)
    }

    /// Counts of values by their size.
    pub fn histogram<'a>(&'a mut self, name: &'a str, help: &str) -> Family<'a> {
        self.family(name, "histogram", help)
    }

    /// All of it.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }

    fn family<'a>(&'a mut self, name: &'a str, kind: &str, help: &str) -> Family<'a> {
        // Writing to a String can't fail, here and below.
        let _ = writeln!(self.text, "# HELP {name} {}", escaped(help));
        let _ = writeln!(self.text, "# TYPE {name} {kind}");
        Family { page: self, name }
    }

    fn sample(&mut self, (name, suffix): (&str, &str), labels: Labels<'_>, value: f64) {
        let _ = write!(self.text, "{name}{suffix}");
        for (at, (label, text)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{label}=\"{}\"", escaped(text).replace('"', "\\\""));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{after} {value}");
    }
}

impl Family<'_> {
    /// One sample.
    pub fn is(&mut self, labels: Labels<'_>, value: f64) -> &mut Self {
        self.page.sample((self.name, ""), labels, value);
        self
    }

    /// One sample of a whole number.
    pub fn counts(&mut self, labels: Labels<'_>, value: u64) -> &mut Self {
        self.is(labels, float(value))
    }

    /// One histogram: for each upper bound the values up to it and above the bound before, then those above
    /// all; and the sum of all values.
    pub fn spread(
        &mut self,
        labels: Labels<'_>,
        buckets: impl IntoIterator<Item = (f64, u64)>,
        above: u64,
        sum: f64,
    ) -> &mut Self {
        let mut so_far = 0;
        for (bound, count) in buckets {
            so_far += count;
            self.bucket(labels, &bound.to_string(), so_far);
        }
        so_far += above;
        self.bucket(labels, "+Inf", so_far);
        self.page.sample((self.name, "_sum"), labels, sum);
        self.page.sample((self.name, "_count"), labels, float(so_far));
        self
    }

    fn bucket(&mut self, labels: Labels<'_>, bound: &str, count: u64) {
        let mut all = labels.to_vec();
        all.push(("le", bound));
        self.page.sample((self.name, "_bucket"), &all, float(count));
    }
}

#[expect(clippy::cast_precision_loss, reason = "the format has no other numbers")]
fn float(value: u64) -> f64 {
    value as f64
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_as_prometheus_reads_it() {
        let mut page = Page::default();
        page.gauge("t_dirty_bytes", "Not at home.").counts(&[], 5);
        page.counter("t_errors_total", "Failed\ncalls.")
            .counts(&[("tier", "a\"b\\c\nd"), ("operation", "x")], 2);
        page.histogram("t_seconds", "Took.").spread(&[("tier", "a")], [(0.001, 1), (0.5, 2)], 3, 1.25);
        let expected = r#"# HELP t_dirty_bytes Not at home.
# TYPE t_dirty_bytes gauge
t_dirty_bytes 5
# HELP t_errors_total Failed\ncalls.
# TYPE t_errors_total counter
t_errors_total{tier="a\"b\\c\nd",operation="x"} 2
# HELP t_seconds Took.
# TYPE t_seconds histogram
t_seconds_bucket{tier="a",le="0.001"} 1
t_seconds_bucket{tier="a",le="0.5"} 3
t_seconds_bucket{tier="a",le="+Inf"} 6
t_seconds_sum{tier="a"} 1.25
t_seconds_count{tier="a"} 6
"#;
        assert_eq!(page.into_text(), expected);
    }
}
