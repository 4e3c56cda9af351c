//! One paper as its file describes it: TOML, unknown keys refused, every mistake named with its line and column.

use brisk_base::toml_text::{self, Located};
use serde::{Deserialize, Deserializer, Serialize};

/// A paper.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Its name here: that of its file, and of the mechanism that it is about.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Its authors, in its order.
    pub authors: Vec<String>,
    /// The year of its publication.
    pub year: u16,
    /// Where it was published.
    pub venue: String,
    /// Its digital object identifier.
    pub doi: Option<String>,
    /// What it measured.
    pub device: String,
    /// What its authors proposed.
    pub proposed: String,
    /// Which of it holds today.
    pub today: String,
    /// What brisk does instead, and why.
    pub instead: String,
    /// What is doubtful in it, or in how it is read here, each with the decision.
    #[serde(default)]
    pub doubts: Vec<String>,
    /// Its tables, figures and measured statements, in its order.
    #[serde(rename = "part")]
    pub parts: Vec<Part>,
}

/// A table, a figure, or a section whose text has a measured statement.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// `Table 3`, `Figure 9`, `Section IV.2`.
    pub label: String,
    /// What it shows.
    pub title: String,
    /// What a reader of the comparison must know.
    pub note: Option<String>,
    /// True where the paper draws bars: then the page draws them too.
    #[serde(default)]
    pub bars: bool,
    /// The curve of a run that is of the same kind as the paper's.
    pub course: Option<Course>,
    /// Its rows.
    #[serde(rename = "row")]
    pub rows: Vec<Row>,
}

/// A quantity in the course of an experiment, by the names that proof.json has.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Course {
    /// The experiment.
    pub experiment: String,
    /// The quantity (`applications alive`).
    pub what: String,
}

/// One figure of the paper, and what measures the same thing here.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// What is measured.
    pub what: Located<String>,
    /// The paper's figure with its unit, as the paper prints it.
    pub paper: String,
    /// The same as a number or a range, in `unit` and with the sign of this tree's figure; absent where the paper gives words.
    pub value: Option<PaperValue>,
    /// The unit of `value` and of the figures measured here.
    #[serde(default)]
    pub unit: String,
    /// What the paper's figure says.
    #[serde(default)]
    pub expects: Expectation,
    /// How far from `value` a figure may be, in `unit`; by default a tenth of `value`.
    pub tolerance: Option<f64>,
    /// Where the paper's method is measured here.
    pub method: Option<Source>,
    /// Where brisk's own method is measured.
    pub brisk: Option<Source>,
    /// Why the figure here differs, where it does.
    pub because: Option<String>,
    /// Why it cannot be reproduced here.
    pub cannot: Option<String>,
    /// Why it is not measured yet.
    pub not_yet: Option<String>,
    /// The part of this tree that does what the paper describes, where there is no figure to reproduce.
    pub in_tree: Option<String>,
}

/// A number of a paper, or its range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PaperValue {
    /// The lower end.
    pub low: f64,
    /// The upper end; the same for a single number.
    pub high: f64,
}

/// What a paper's figure says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expectation {
    /// A difference from a baseline: its sign counts.
    #[default]
    Effect,
    /// No difference: the figure is within the tolerance of zero.
    NoEffect,
    /// A quantity that is compared with nothing.
    Level,
    /// Words: there is a difference, above zero.
    Positive,
    /// Words: there is a difference, below zero.
    Negative,
    /// The paper draws it and prints no number: the figure measured here stands beside it, and nothing is judged.
    Unstated,
}

/// A figure of an experiment of this tree, by the names that proof.json has.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The experiment.
    pub experiment: String,
    /// The arm.
    pub arm: String,
    /// The metric.
    pub metric: String,
    /// The point of the workload; absent where there is one only, or for a claim about all of them.
    pub point: Option<String>,
    /// The claim that computes the figure; without one it is the series' own.
    pub claim: Option<String>,
    /// True for the reduction of the series against its baseline, in %, where no claim computes it.
    #[serde(default)]
    pub gain: bool,
}

/// How a row stands, before any measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing<'a> {
    /// The paper's method is measured there.
    Measured(&'a Source),
    /// It cannot be reproduced here, for this reason.
    CannotHere(&'a str),
    /// It is not measured yet, for this reason.
    NotYet(&'a str),
    /// There is nothing to measure; this part of the tree does it.
    InTree(&'a str),
}

/// A mistake in a paper's file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}:{line}:{column}: {message}")]
pub struct PaperError {
    /// The file.
    pub origin: String,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// What is wrong, and what is valid.
    pub message: String,
}

impl Paper {
    /// Parses `text`; `origin` names it in errors.
    ///
    /// # Errors
    /// [`PaperError`] when it is not TOML, has unknown keys or does not make sense.
    pub fn parse(origin: &str, text: &str) -> Result<Self, PaperError> {
        let fault = |(line, column), message| PaperError { origin: origin.to_owned(), line, column, message };
        let paper: Self =
            toml_text::from_str(text).map_err(|error| fault(error.position(), error.message().to_owned()))?;
        let rows = paper.parts.iter().flat_map(|part| &part.rows);
        let mut faults = rows.filter_map(|row| Some((row.what.offset, row.fault()?)));
        match faults.next() {
            Some((offset, message)) => Err(fault(toml_text::position(text.as_bytes(), offset), message)),
            None => Ok(paper),
        }
    }

    /// The experiments that its rows name, in the order of the rows, without duplicates.
    pub fn experiments(&self) -> Vec<&str> {
        let rows = self.parts.iter().flat_map(|part| &part.rows);
        let mut names = Vec::new();
        for source in rows.flat_map(|row| [&row.method, &row.brisk]).flatten() {
            if !names.contains(&source.experiment.as_str()) {
                names.push(&source.experiment);
            }
        }
        names
    }
}

impl Row {
    /// How it stands.
    pub fn standing(&self) -> Standing<'_> {
        let reasons = [
            self.cannot.as_deref().map(Standing::CannotHere),
            self.not_yet.as_deref().map(Standing::NotYet),
            self.in_tree.as_deref().map(Standing::InTree),
        ];
        let reason = reasons.into_iter().flatten().next();
        // The parser rejects rows without any of the four.
        self.method.as_ref().map(Standing::Measured).or(reason).unwrap_or(Standing::NotYet(""))
    }

    /// How far from its value a figure may be.
    pub fn tolerance(&self) -> f64 {
        let tenth = self.value.map_or(0.0, |value| value.low.abs().max(value.high.abs()) / 10.0);
        self.tolerance.unwrap_or(tenth)
    }

    fn fault(&self) -> Option<String> {
        let Self { value, tolerance, method, cannot, not_yet, in_tree, .. } = self;
        let given = [method.is_some(), cannot.is_some(), not_yet.is_some(), in_tree.is_some()];
        if given.iter().filter(|given| **given).count() != 1 {
            return Some("a row has exactly one of `method`, `cannot`, `not_yet` and `in_tree`".to_owned());
        }
        if tolerance.is_some_and(|tolerance| !(tolerance.is_finite() && tolerance >= 0.0)) {
            return Some("a `tolerance` is a number from 0".to_owned());
        }
        let needs_value = matches!(self.expects, Expectation::Effect | Expectation::Level);
        if method.is_some() && needs_value && value.is_none() {
            return Some(
                "a measured row needs a `value`, or `expects` in words: positive, negative, no-effect, unstated"
                    .to_owned(),
            );
        }
        let crosses_zero = value.is_some_and(|value| value.low <= 0.0 && value.high >= 0.0);
        if method.is_some() && self.expects == Expectation::Effect && crosses_zero {
            return Some("the `value` of an effect is above or below zero; write expects = \"no-effect\"".to_owned());
        }
        if self.expects == Expectation::NoEffect && method.is_some() && tolerance.is_none() {
            return Some("a row that expects no effect needs a `tolerance`".to_owned());
        }
        let sources = [method, &self.brisk].into_iter().flatten();
        sources.into_iter().find_map(|source| {
            (source.gain && source.claim.is_some()).then(|| "a claim computes its figure: leave `gain` out".to_owned())
        })
    }
}

impl<'de> Deserialize<'de> for PaperValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = PaperValue;

            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("a number, or a range [low, high]")
            }

            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<PaperValue, E> {
                self.visit_f64(value as f64)
            }

            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<PaperValue, E> {
                self.visit_f64(value as f64)
            }

            fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<PaperValue, E> {
                let is_valid = value.is_finite();
                is_valid
                    .then_some(PaperValue { low: value, high: value })
                    .ok_or_else(|| E::custom("a finite number is expected"))
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<PaperValue, A::Error> {
                let (low, high): (Option<f64>, Option<f64>) = (list.next_element()?, list.next_element()?);
                let is_over = list.next_element::<f64>()?.is_none();
                match (low, high) {
                    (Some(low), Some(high)) if is_over && low.is_finite() && low < high && high.is_finite() => {
                        Ok(PaperValue { low, high })
                    }
                    _ => Err(serde::de::Error::custom("a range is [low, high], the lower number first")),
                }
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "name = \"boot\"\ntitle = \"T\"\nauthors = [\"A\"]\nyear = 2013\nvenue = \"V\"\ndevice = \"D\"\n\
                        proposed = \"P\"\ntoday = \"T\"\ninstead = \"I\"\n[[part]]\nlabel = \"Table 1\"\ntitle = \"X\"\n";

    fn parse(row: &str) -> Result<Paper, PaperError> {
        Paper::parse("papers/x.toml", &format!("{HEAD}[[part.row]]\nwhat = \"W\"\npaper = \"17.65 %\"\n{row}\n"))
    }

    fn row(text: &str) -> Row {
        parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).parts.remove(0).rows.remove(0)
    }

    const METHOD: &str = "method = { experiment = \"e\", arm = \"a\", metric = \"m\" }";

    #[test]
    fn a_row_is_measured_or_says_why_not() {
        let measured = row(&format!("value = 17.65\nunit = \"%\"\n{METHOD}"));
        assert!(matches!(measured.standing(), Standing::Measured(source) if source.experiment == "e"));
        assert!((measured.tolerance() - 1.765).abs() < 1e-9);
        assert_eq!(row("cannot = \"no phone\"").standing(), Standing::CannotHere("no phone"));
        assert_eq!(row("not_yet = \"no arm\"").standing(), Standing::NotYet("no arm"));
        assert_eq!(row("in_tree = \"brisk boot record\"").standing(), Standing::InTree("brisk boot record"));
        let range = row(&format!("value = [2, 5]\ntolerance = 0\n{METHOD}"));
        assert_eq!((range.value, range.tolerance()), (Some(PaperValue { low: 2.0, high: 5.0 }), 0.0));
        assert_eq!(row(&format!("expects = \"unstated\"\n{METHOD}")).expects, Expectation::Unstated);
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let one = "exactly one of";
        for (text, line, expected) in [
            ("", 14, one.to_owned()),
            (&*format!("cannot = \"x\"\n{METHOD}"), 14, one.to_owned()),
            ("cannot = \"x\"\nnot_yet = \"y\"", 14, one.to_owned()),
            (METHOD, 14, "needs a `value`".to_owned()),
            (&format!("value = [-1, 2]\n{METHOD}"), 14, "above or below zero".to_owned()),
            (&format!("value = [5, 2]\n{METHOD}"), 16, "the lower number first".to_owned()),
            (&format!("value = [1, 2, 3]\n{METHOD}"), 16, "the lower number first".to_owned()),
            (&format!("value = nan\n{METHOD}"), 16, "a finite number".to_owned()),
            (&format!("value = \"5\"\n{METHOD}"), 16, "a number, or a range".to_owned()),
            (&format!("value = 1\ntolerance = -1\n{METHOD}"), 14, "a number from 0".to_owned()),
            (&format!("expects = \"no-effect\"\n{METHOD}"), 14, "needs a `tolerance`".to_owned()),
            ("expects = \"less\"", 16, "unknown variant `less`".to_owned()),
            ("verdict = \"reproduced\"", 16, "unknown field `verdict`".to_owned()),
            ("method = { experiment = \"e\", arm = \"a\" }", 16, "missing field `metric`".to_owned()),
            (
                "value = 1\nmethod = { experiment = \"e\", arm = \"a\", metric = \"m\", claim = \"c\", gain = true }",
                14,
                "leave `gain` out".to_owned(),
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.message.contains(&expected), "{text}: {error}");
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.to_string().starts_with(&format!("papers/x.toml:{line}:")), "{error}");
        }
    }

    #[test]
    fn no_cut_of_a_file_is_taken_for_the_whole() {
        let whole = include_str!("../../../papers/lookup.toml");
        let rows = |paper: &Paper| paper.parts.iter().map(|part| part.rows.len()).sum::<usize>();
        let all = rows(&Paper::parse("lookup", whole).unwrap());
        for end in whole.char_indices().map(|(end, _)| end).step_by(17) {
            if let Ok(paper) = Paper::parse("cut", &whole[..end]) {
                assert!(rows(&paper) <= all);
            }
        }
    }

    #[test]
    fn experiments_are_listed_once() {
        let both = format!("value = 1\n{METHOD}\nbrisk = {{ experiment = \"f\", arm = \"a\", metric = \"m\" }}");
        let again = format!("\n[[part.row]]\nwhat = \"V\"\npaper = \"2\"\nvalue = 2\n{METHOD}");
        assert_eq!(parse(&(both + &again)).unwrap().experiments(), ["e", "f"]);
    }
}
