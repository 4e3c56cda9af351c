//! A writer of OpenMetrics 1.0 text exposition.
//!
//! The rules are those of <https://prometheus.io/docs/specs/om/open_metrics_spec/>: a family's lines stay together, a counter's
//! sample ends in `_total`, an info's in `_info`, a unit is the name's suffix, label values and help texts are escaped, and `#
//! EOF` is the last line. Input that breaks a rule is refused when it is added, so that the text of [`Exposition::finish`] is
//! always valid.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use thiserror::Error;

/// The content type to serve an exposition under.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Labels of one sample: names and values.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// The meaning of a family's samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Counts up from zero since the process started.
    Counter,
    /// A current value that may rise and fall.
    Gauge,
    /// Counts of observations by upper bound.
    Histogram,
    /// Facts as labels, always 1.
    Info,
}

impl MetricKind {
    fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }
}

/// Why a family or a sample was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MetricsError {
    /// Outside `[a-zA-Z_:][a-zA-Z0-9_:]*`, or with the suffix of a sample.
    #[error("metric name {0:?} is not allowed")]
    Name(String),
    /// A second family of that name.
    #[error("metric family {0:?} exists already")]
    Duplicate(String),
    /// The unit is not the last part of the name, or an info has one.
    #[error("metric family {name:?} does not end in its unit {unit:?}")]
    Unit {
        /// The family.
        name: String,
        unit: String,
    },
    /// Outside `[a-zA-Z_][a-zA-Z0-9_]*`, reserved, or twice in one sample.
    #[error("label name {0:?} is not allowed")]
    Label(String),
    /// Not a value of this kind: a counter that is negative or NaN, a gauge's sample in a counter.
    #[error("{value} is not a value of {name:?}")]
    Value {
        /// The family.
        name: String,
        value: String,
    },
    /// The same labels twice in one family.
    #[error("{name:?} has two samples with the labels {labels:?}")]
    SameLabels {
        /// The family.
        name: String,
        /// Its labels as written.
        labels: String,
    },
}

/// An exposition that is being written, family by family.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
    families: BTreeSet<String>,
}

impl Exposition {
    /// An exposition without families.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a family: `name` without `_total` or `_info`, `unit` (`seconds`) as its last part or empty.
    ///
    /// # Errors
    ///
    /// A name or a unit that the format does not allow, or a name that is taken.
    pub fn family(&mut self, name: &str, kind: MetricKind, unit: &str, help: &str) -> Result<Family<'_>, MetricsError> {
        let reserved = ["_total", "_created", "_count", "_sum", "_bucket", "_info", "_gcount", "_gsum"];
        if !is_metric_name(name) || reserved.iter().any(|suffix| name.ends_with(suffix)) {
            return Err(MetricsError::Name(name.to_owned()));
        }
        let unit_fits = unit.is_empty()
            || (kind != MetricKind::Info
                && is_metric_name(unit)
                && name.strip_suffix(unit).is_some_and(|s| s.ends_with('_')));
        if !unit_fits {
            return Err(MetricsError::Unit { name: name.to_owned(), unit: unit.to_owned() });
        }
        if !self.families.insert(name.to_owned()) {
            return Err(MetricsError::Duplicate(name.to_owned()));
        }
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "# TYPE {name} {}", kind.word());
        if !unit.is_empty() {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
        if !help.is_empty() {
            let _ = writeln!(self.text, "# HELP {name} {}", escape(help));
        }
        Ok(Family { text: &mut self.text, name: name.to_owned(), kind, label_sets: BTreeSet::new() })
    }

    /// Ends the exposition and returns its text.
    pub fn finish(mut self) -> String {
        self.text.push_str("# EOF\n");
        self.text
    }
}

/// A family that takes samples; the next family ends it.
#[derive(Debug)]
pub struct Family<'a> {
    text: &'a mut String,
    name: String,
    kind: MetricKind,
    label_sets: BTreeSet<Vec<(String, String)>>,
}

impl Family<'_> {
    /// Adds the sample of a counter or a gauge.
    ///
    /// # Errors
    ///
    /// Labels that are not allowed or used already; a counter's value that is negative, NaN or infinite; another kind.
    pub fn sample(&mut self, labels: Labels<'_>, value: f64) -> Result<&mut Self, MetricsError> {
        let suffix = match self.kind {
            MetricKind::Counter if value.is_finite() && value >= 0.0 => "_total",
            MetricKind::Gauge => "",
            _ => return Err(self.refuse(value)),
        };
        self.reserve_labels(labels)?;
        self.line(suffix, labels, None, value);
        Ok(self)
    }

    /// Adds the sample of an info: its labels.
    ///
    /// # Errors
    ///
    /// Labels that are not allowed or used already; another kind.
    pub fn info(&mut self, labels: Labels<'_>) -> Result<&mut Self, MetricsError> {
        if self.kind != MetricKind::Info {
            return Err(self.refuse(1.0));
        }
        self.reserve_labels(labels)?;
        self.line("_info", labels, None, 1.0);
        Ok(self)
    }

    /// Adds a histogram: `counts[i]` observations above `bounds[i - 1]` and not above `bounds[i]`; the last of `counts` is
    /// above all bounds; `sum` of all observations.
    ///
    /// # Errors
    ///
    /// Labels that are not allowed (`le` is the histogram's own) or used already; bounds that do not rise or do not fit the
    /// counts; a negative or NaN sum; another kind.
    pub fn histogram(
        &mut self,
        labels: Labels<'_>,
        bounds: &[f64],
        counts: &[u64],
        sum: f64,
    ) -> Result<&mut Self, MetricsError> {
        let rising = bounds.windows(2).all(|pair| pair[0] < pair[1]) && bounds.iter().all(|bound| bound.is_finite());
        // The sum is a counter, which cannot fall: bounds below zero are not allowed with it.
        let counted = sum.is_finite() && sum >= 0.0 && bounds.first().is_none_or(|&bound| bound >= 0.0);
        if self.kind != MetricKind::Histogram || counts.len() != bounds.len() + 1 || !rising || !counted {
            return Err(self.refuse(sum));
        }
        if labels.iter().any(|(name, _)| *name == "le") {
            return Err(MetricsError::Label("le".to_owned()));
        }
        self.reserve_labels(labels)?;
        let mut below: u64 = 0;
        for (index, count) in counts.iter().enumerate() {
            below = below.saturating_add(*count);
            let bound = bounds.get(index).map_or_else(|| "+Inf".to_owned(), |bound| float(*bound));
            self.line("_bucket", labels, Some(&bound), below as f64);
        }
        self.line("_count", labels, None, below as f64);
        self.line("_sum", labels, None, sum);
        Ok(self)
    }

    fn refuse(&self, value: f64) -> MetricsError {
        MetricsError::Value { name: self.name.clone(), value: value.to_string() }
    }

    fn reserve_labels(&mut self, labels: Labels<'_>) -> Result<(), MetricsError> {
        let mut set: Vec<(String, String)> = Vec::with_capacity(labels.len());
        for (name, value) in labels {
            if !is_label_name(name) || set.iter().any(|(taken, _)| taken == name) {
                return Err(MetricsError::Label((*name).to_owned()));
            }
            set.push(((*name).to_owned(), (*value).to_owned()));
        }
        set.sort_unstable();
        if self.label_sets.contains(&set) {
            return Err(MetricsError::SameLabels { name: self.name.clone(), labels: format!("{set:?}") });
        }
        self.label_sets.insert(set);
        Ok(())
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, bound: Option<&str>, value: f64) {
        self.text.push_str(&self.name);
        self.text.push_str(suffix);
        let mut separator = '{';
        for (name, value) in labels.iter().copied().chain(bound.map(|bound| ("le", bound))) {
            let _ = write!(self.text, "{separator}{name}=\"{}\"", escape(value));
            separator = ',';
        }
        if separator == ',' {
            self.text.push('}');
        }
        // `float` gives bounds a point; counts and values need none.
        let value = if value.is_finite() { value.to_string() } else { float(value) };
        let _ = writeln!(self.text, " {value}");
    }
}

/// A bound as the specification requires: with a point, so that `1.0` has one spelling.
fn float(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
    } else {
        format!("{value:?}")
    }
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            '"' => escaped.push_str("\\\""),
            '\n' => escaped.push_str("\\n"),
            other => escaped.push(other),
        }
    }
    escaped
}

fn is_metric_name(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_' || first == ':')
        && characters.all(|other| other.is_ascii_alphanumeric() || other == '_' || other == ':')
}

fn is_label_name(name: &str) -> bool {
    is_metric_name(name) && !name.contains(':') && !name.starts_with("__")
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies PROVE-4.
    #[test]
    fn writes_the_kinds_as_the_specification_shows_them() {
        let mut exposition = Exposition::new();
        exposition
            .family("brisk_build", MetricKind::Info, "", "The version that runs.")
            .and_then(|mut family| family.info(&[("version", "0.1.0")]).map(drop))
            .unwrap();
        exposition
            .family("brisk_events", MetricKind::Counter, "", "Events taken.")
            .and_then(|mut family| {
                family.sample(&[("kind", "exec")], 17.0)?.sample(&[("kind", "exit")], 3.0)?;
                Ok(())
            })
            .unwrap();
        exposition
            .family("brisk_resident_bytes", MetricKind::Gauge, "bytes", "Memory in RAM.")
            .and_then(|mut family| family.sample(&[], 2_097_152.0).map(drop))
            .unwrap();
        exposition
            .family("brisk_write_seconds", MetricKind::Histogram, "seconds", "Event to tunable written.")
            .and_then(|mut family| {
                family.histogram(&[("mechanism", "launch")], &[0.0001, 1.0], &[4, 2, 1], 2.5).map(drop)
            })
            .unwrap();
        assert_eq!(
            exposition.finish(),
            r#"# TYPE brisk_build info
# HELP brisk_build The version that runs.
brisk_build_info{version="0.1.0"} 1
# TYPE brisk_events counter
# HELP brisk_events Events taken.
brisk_events_total{kind="exec"} 17
brisk_events_total{kind="exit"} 3
# TYPE brisk_resident_bytes gauge
# UNIT brisk_resident_bytes bytes
# HELP brisk_resident_bytes Memory in RAM.
brisk_resident_bytes 2097152
# TYPE brisk_write_seconds histogram
# UNIT brisk_write_seconds seconds
# HELP brisk_write_seconds Event to tunable written.
brisk_write_seconds_bucket{mechanism="launch",le="0.0001"} 4
brisk_write_seconds_bucket{mechanism="launch",le="1.0"} 6
brisk_write_seconds_bucket{mechanism="launch",le="+Inf"} 7
brisk_write_seconds_count{mechanism="launch"} 7
brisk_write_seconds_sum{mechanism="launch"} 2.5
# EOF
"#
        );
    }

    #[test]
    fn escapes_help_and_label_values() {
        let mut exposition = Exposition::new();
        exposition
            .family("a", MetricKind::Gauge, "", "one\ntwo \"three\" \\four")
            .and_then(|mut family| family.sample(&[("path", "C:\\ \"x\"\ny")], f64::NAN).map(drop))
            .unwrap();
        let text = exposition.finish();
        assert!(text.contains(r#"# HELP a one\ntwo \"three\" \\four"#), "{text}");
        assert!(text.contains(r#"a{path="C:\\ \"x\"\ny"} NaN"#), "{text}");
    }

    #[test]
    fn an_empty_exposition_has_only_its_end() {
        assert_eq!(Exposition::new().finish(), "# EOF\n");
    }

    #[test]
    fn refuses_families_that_break_a_rule() {
        let table = [
            ("", MetricKind::Gauge, ""),
            ("1a", MetricKind::Gauge, ""),
            ("a b", MetricKind::Gauge, ""),
            ("ä", MetricKind::Gauge, ""),
            ("events_total", MetricKind::Counter, ""),
            ("build_info", MetricKind::Info, ""),
            ("wait_seconds", MetricKind::Info, "seconds"),
            ("wait", MetricKind::Gauge, "seconds"),
            ("seconds", MetricKind::Gauge, "seconds"),
            ("xseconds", MetricKind::Gauge, "seconds"),
        ];
        for (name, kind, unit) in table {
            let mut exposition = Exposition::new();
            assert!(exposition.family(name, kind, unit, "").is_err(), "{name:?} {kind:?} {unit:?}");
            assert_eq!(exposition.finish(), "# EOF\n", "a refused family leaves no line");
        }
        let mut exposition = Exposition::new();
        exposition.family("a", MetricKind::Gauge, "", "").unwrap();
        assert_eq!(
            exposition.family("a", MetricKind::Counter, "", "").unwrap_err(),
            MetricsError::Duplicate("a".to_owned())
        );
    }

    // Verifies PROVE-4.
    #[test]
    fn refuses_samples_that_break_a_rule() {
        let mut exposition = Exposition::new();
        let mut counter = exposition.family("a", MetricKind::Counter, "", "").unwrap();
        for value in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(counter.sample(&[], value).is_err(), "{value}");
        }
        for labels in [[("1", "")], [("a-b", "")], [("__reserved", "")], [("a:b", "")], [("", "")]] {
            assert!(counter.sample(&labels, 1.0).is_err(), "{labels:?}");
        }
        assert!(counter.sample(&[("a", "1"), ("a", "2")], 1.0).is_err());
        assert!(counter.info(&[]).is_err());
        counter.sample(&[("a", "1"), ("b", "2")], 1.0).unwrap();
        assert!(counter.sample(&[("b", "2"), ("a", "1")], 1.0).is_err(), "the order of labels does not matter");

        let mut exposition = Exposition::new();
        let mut histogram = exposition.family("h", MetricKind::Histogram, "", "").unwrap();
        assert!(histogram.histogram(&[], &[1.0], &[1], 1.0).is_err(), "one count too few");
        assert!(histogram.histogram(&[], &[2.0, 1.0], &[1, 1, 1], 1.0).is_err(), "bounds fall");
        assert!(histogram.histogram(&[], &[-1.0], &[1, 1], 1.0).is_err(), "a negative bound with a sum");
        assert!(histogram.histogram(&[("le", "1")], &[1.0], &[1, 1], 1.0).is_err());
        assert!(histogram.sample(&[], 1.0).is_err());
        histogram.histogram(&[], &[], &[0], 0.0).unwrap();
    }
}
