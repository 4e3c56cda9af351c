//! Papers, their rows, and what was measured, joined: what every form of the report prints.

use std::fmt::Write as _;

use serde::Serialize;

use brisk_report::figure;

use crate::paper::{Paper, Part, Row, Standing};
use crate::results::{Figure, Results};
use crate::verdict::{self, Difference, Verdict};

/// Raised when a field of the JSON form changes its meaning or is removed.
pub const SCHEMA: u32 = 1;

/// Several papers with what was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The papers, in the order of the bibliography.
    pub papers: Vec<ComparedPaper>,
}

/// One paper.
#[derive(Debug, Clone, Serialize)]
pub struct ComparedPaper {
    /// Its name here.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Its authors.
    pub authors: Vec<String>,
    /// The year of its publication.
    pub year: u16,
    /// Where it was published.
    pub venue: String,
    /// What it measured.
    pub device: String,
    /// Its tables and figures, in its order.
    pub parts: Vec<ComparedPart>,
}

/// A table, a figure or a section.
#[derive(Debug, Clone, Serialize)]
pub struct ComparedPart {
    /// `Table 3`.
    pub label: String,
    /// What it shows.
    pub title: String,
    /// What a reader must know.
    pub note: Option<String>,
    /// Its rows.
    pub rows: Vec<ComparedRow>,
}

/// One figure of the paper, beside the two measured here.
#[derive(Debug, Clone, Serialize)]
pub struct ComparedRow {
    /// What is measured.
    pub what: String,
    /// The paper's figure, as the paper prints it.
    pub paper: String,
    /// The same as a range, in `unit` and with the sign of the figures here.
    pub value: Option<[f64; 2]>,
    /// The unit of `value`.
    pub unit: String,
    /// The figure of the paper's method here.
    pub method: Option<Figure>,
    /// True where brisk's own method has an experiment.
    pub has_brisk: bool,
    /// The figure of brisk's own method.
    pub brisk: Option<Figure>,
    /// How brisk's figure differs from that of the paper's method.
    pub difference: Option<Difference>,
    /// What the row shows.
    pub verdict: Verdict,
    /// Why, where the verdict needs a reason.
    pub reason: Option<String>,
}

impl Comparison {
    /// Compares `papers` with `results`.
    pub fn of(papers: &[Paper], results: &Results) -> Self {
        Self { schema: SCHEMA, papers: papers.iter().map(|paper| ComparedPaper::of(paper, results)).collect() }
    }

    /// Every row.
    pub fn rows(&self) -> impl Iterator<Item = &ComparedRow> {
        self.papers.iter().flat_map(ComparedPaper::rows)
    }

    /// The comparison as indented JSON.
    pub fn json(&self) -> String {
        // Plain data with string keys: it can always be serialised.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

impl ComparedPaper {
    fn of(paper: &Paper, results: &Results) -> Self {
        Self {
            name: paper.name.clone(),
            title: paper.title.clone(),
            authors: paper.authors.clone(),
            year: paper.year,
            venue: paper.venue.clone(),
            device: paper.device.clone(),
            parts: paper.parts.iter().map(|part| ComparedPart::of(part, results)).collect(),
        }
    }

    /// Every row.
    pub fn rows(&self) -> impl Iterator<Item = &ComparedRow> {
        self.parts.iter().flat_map(|part| &part.rows)
    }

    /// How many rows have which verdict, in words: `3 reproduced, 1 not reproduced`.
    pub fn tally(&self) -> String {
        tally(self.rows())
    }
}

impl ComparedPart {
    fn of(part: &Part, results: &Results) -> Self {
        Self {
            label: part.label.clone(),
            title: part.title.clone(),
            note: part.note.clone(),
            rows: part.rows.iter().map(|row| ComparedRow::of(row, results)).collect(),
        }
    }
}

impl ComparedRow {
    fn of(row: &Row, results: &Results) -> Self {
        let method = row.method.as_ref().and_then(|source| results.figure(source));
        let brisk = row.brisk.as_ref().and_then(|source| results.figure(source));
        let verdict = verdict::verdict(row, method.as_ref());
        let difference = method.as_ref().zip(brisk.as_ref()).and_then(|(one, other)| verdict::difference(one, other));
        Self {
            what: row.what.value.clone(),
            paper: row.paper.clone(),
            value: row.value.map(|value| [value.low, value.high]),
            unit: row.unit.clone(),
            method,
            has_brisk: row.brisk.is_some(),
            brisk,
            difference,
            verdict,
            reason: reason(row, verdict),
        }
    }

    /// Whether it says only what does the same here: nothing is measured for it.
    pub fn is_description(&self) -> bool {
        self.verdict == Verdict::Described && !self.has_brisk && self.method.is_none()
    }

    /// The verdict with its reason, as a phrase.
    pub fn words(&self) -> String {
        let words = self.verdict.words();
        let Some(reason) = &self.reason else { return words.to_owned() };
        match self.verdict {
            Verdict::DirectionOnly | Verdict::NotReproduced | Verdict::CannotHere => {
                format!("{words}, because {reason}")
            }
            _ => format!("{words}: {reason}"),
        }
    }

    /// The paper's figure in the typography of the others.
    pub fn paper_cell(&self) -> String {
        figure::printed(&self.paper)
    }

    /// The figure of the paper's method here, or why there is none.
    pub fn method_cell(&self) -> String {
        match (&self.method, self.verdict) {
            (Some(figure), _) => cell(figure),
            (None, Verdict::NotOnRecord) => Verdict::NotOnRecord.words().to_owned(),
            (None, _) => figure::UNAVAILABLE.to_owned(),
        }
    }

    /// brisk's figure, or why there is none.
    pub fn brisk_cell(&self) -> String {
        match (&self.brisk, self.has_brisk) {
            (Some(figure), _) => cell(figure),
            (None, true) => Verdict::NotOnRecord.words().to_owned(),
            (None, false) => figure::UNAVAILABLE.to_owned(),
        }
    }
}

fn reason(row: &Row, verdict: Verdict) -> Option<String> {
    let recorded = || row.because.clone().unwrap_or_else(|| "of a reason that is not known yet".to_owned());
    match (verdict, row.standing()) {
        (_, Standing::CannotHere(reason) | Standing::NotYet(reason) | Standing::InTree(reason)) => {
            Some(reason.to_owned())
        }
        (Verdict::NotReproduced, _) => Some(recorded()),
        (Verdict::DirectionOnly, _) => row.because.clone(),
        (Verdict::Described, _) => Some("the paper prints no number".to_owned()),
        (Verdict::Undecided, _) => Some("the interval is too wide; more runs may decide".to_owned()),
        _ => None,
    }
}

/// `48.2 % [46.8, 49.1], n = 16`.
pub fn cell(measured: &Figure) -> String {
    let interval = measured.interval.unwrap_or([f64::NAN; 2]);
    let mut text = figure::with_unit(measured.value, interval, &measured.unit);
    if measured.interval.is_some() {
        let _ = write!(text, " {}", figure::interval(measured.value, interval, &measured.unit));
    }
    let _ = write!(text, ", n{0}={0}{1}", figure::NO_BREAK_SPACE, measured.count);
    if measured.quick {
        text += ", quick form";
    }
    text
}

/// How many of `rows` have which verdict, in words.
pub fn tally<'a>(rows: impl Iterator<Item = &'a ComparedRow>) -> String {
    let verdicts: Vec<Verdict> = rows.map(|row| row.verdict).collect();
    let counted = Verdict::ALL.into_iter().filter_map(|verdict| {
        let count = verdicts.iter().filter(|other| **other == verdict).count();
        (count > 0).then(|| format!("{count} {}", verdict.words()))
    });
    counted.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::built_in;
    use crate::results;

    #[test]
    fn kept_figures_stand_beside_the_papers() {
        let mut results = Results::default();
        let paper = ("paper", "lookup mean", "lookup.paper-gain", [48.1828, 46.7743, 49.065]);
        let brisk = ("transparent", "lookup mean", "lookup.list-gain", [85.5421, 85.5201, 85.5473]);
        results.add_evidence(results::kept("lookup-list", &[paper, brisk]));
        let papers = built_in::select(&["lookup".to_owned()]).unwrap();
        let comparison = Comparison::of(&papers, &results);
        let rows: Vec<&ComparedRow> = comparison.rows().filter(|row| row.method.is_some()).collect();
        assert!(!rows.is_empty());
        for row in rows {
            let (method, brisk) = (row.method.as_ref().unwrap(), row.brisk.as_ref().unwrap());
            assert_eq!((method.experiment.as_str(), method.arm.as_str()), ("lookup-list", "paper"));
            assert!(row.method_cell().contains(", n\u{a0}=\u{a0}30") && brisk.value > method.value, "{row:?}");
            assert_eq!(row.difference, Some(Difference::Above));
        }
        let parsed: serde_json::Value = serde_json::from_str(&comparison.json()).unwrap();
        assert_eq!(parsed["papers"][0]["name"], "lookup");
    }

    #[test]
    fn without_results_no_row_has_a_figure() {
        let papers = built_in::select(&[]).unwrap();
        let comparison = Comparison::of(&papers, &Results::default());
        for row in comparison.rows() {
            assert!(row.method.is_none() && row.brisk.is_none());
            assert!(row.verdict >= Verdict::NotOnRecord, "{}: {}", row.what, row.words());
        }
        assert!(tally(comparison.rows()).contains("not on record"));
    }
}
