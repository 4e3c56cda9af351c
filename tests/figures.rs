//! Each figure in a table of docs/results.md is in the evidence, and each in a table of README.md is in docs/results.md.
//!
//! A comment above each table of docs/results.md names the source of its figures: `evidence: NAME, NAME` for files of
//! docs/evidence, or `measured elsewhere: SOURCE` for figures that no experiment measures.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use brisk::report::evidence::Series;

use crate::measured::{self, Measured};

const UNITS: [&str; 10] = ["%", "us", "ms", "s", "J", "KiB", "MiB", "GiB", "MB", "minutes"];

/// A number in a text: `97.8 % [97.7, 97.9]`.
#[derive(Debug, Clone, PartialEq)]
struct Figure {
    value: Rounded,
    unit: Option<&'static str>,
    interval: Option<[Rounded; 2]>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Rounded {
    value: f64,
    decimals: i32,
}

impl Rounded {
    /// Parses the number that `text` begins with; returns it and the rest of `text`.
    fn parse(text: &str) -> Option<(Self, &str)> {
        let is_part = |letter: char| letter.is_ascii_digit() || letter == '.' || letter == ',';
        let sign = usize::from(text.starts_with('-'));
        let end = text[sign..].find(|letter| !is_part(letter)).map_or(text.len(), |end| end + sign);
        let number = text[..end].trim_end_matches(['.', ',']);
        let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let value = number.replace(',', "").parse().ok()?;
        Some((Self { value, decimals: i32::try_from(decimals).ok()? }, &text[number.len()..]))
    }

    /// True when `exact`, rounded to this many decimals, is this number.
    fn is(self, exact: f64) -> bool {
        (self.value - exact).abs() <= 0.500_001 * 10f64.powi(-self.decimals)
    }
}

/// The numbers of `text` that are not part of a word (`95th`, `lookup-2`).
fn figures(text: &str) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let before = rest[..start].chars().next_back();
        let is_negative = before == Some('-') && rest[..start - 1].chars().next_back().is_none_or(|it| it == ' ');
        let Some((value, after)) = Rounded::parse(&rest[start - usize::from(is_negative)..]) else { break };
        let is_in_word = before.is_some_and(|before| before.is_alphabetic() || (before == '-' && !is_negative))
            || after.starts_with(|letter: char| letter.is_alphabetic());
        rest = after;
        if is_in_word {
            continue;
        }
        let unit = UNITS.into_iter().find(|unit| {
            let after = after.strip_prefix(' ').and_then(|after| after.strip_prefix(unit));
            after.is_some_and(|after| !after.starts_with(|letter: char| letter.is_alphabetic()))
        });
        let after = after.trim_start_matches(' ').trim_start_matches(unit.unwrap_or_default());
        let interval = after.trim_start().strip_prefix('[').and_then(|ends| {
            let (low, ends) = Rounded::parse(ends)?;
            let (high, ends) = Rounded::parse(ends.strip_prefix(", ")?)?;
            Some(([low, high], ends.strip_prefix(']')?))
        });
        if let Some((_, after)) = interval {
            rest = after;
        }
        figures.push(Figure { value, unit, interval: interval.map(|(interval, _)| interval) });
    }
    figures
}

/// The factor from `other` to `unit`.
fn one_of(other: &str, unit: Option<&str>) -> Option<f64> {
    match (other, unit) {
        (_, None) => Some(1.0),
        ("ms", Some("us")) | ("s", Some("ms")) => Some(1e3),
        ("us", Some("ms")) | ("ms", Some("s")) | ("mJ", Some("J")) => Some(1e-3),
        (other, Some(unit)) => (other == unit).then_some(1.0),
    }
}

/// True when `measured` contains `figure` with its interval. A loss may be printed as a positive number.
fn has(measured: &Measured, figure: &Figure) -> bool {
    let none = [None; 2];
    let of_series = measured.series.iter().flat_map(|it| {
        [
            (it.median, it.ci, it.unit.as_str()),
            (it.change, it.change_ci, "%"),
            (it.standard_deviation, none, it.unit.as_str()),
            (Some(it.count as f64), none, ""),
        ]
    });
    let of_claims = measured.claims.iter().map(|it| (it.measured, it.ci, it.unit.as_str()));
    of_series.chain(of_claims).any(|(value, ci, unit)| {
        let (Some(value), Some(factor)) = (value, one_of(unit, figure.unit)) else { return false };
        [factor, -factor].into_iter().any(|factor| {
            let interval_is_there = figure.interval.is_none_or(|[low, high]| match ci {
                [Some(first), Some(second)] => {
                    let (first, second) = (first * factor, second * factor);
                    low.is(first.min(second)) && high.is(first.max(second))
                }
                _ => false,
            });
            figure.value.is(value * factor) && interval_is_there
        })
    })
}

/// A table's body without its first column, which labels the rows, and the comment above the table.
struct Table<'text> {
    source: Option<&'text str>,
    cells: Vec<&'text str>,
}

fn tables(text: &str) -> Vec<Table<'_>> {
    let mut tables: Vec<Table> = Vec::new();
    let (mut source, mut row) = (None, 0);
    for line in text.lines().filter(|line| !line.is_empty()) {
        if !line.starts_with('|') {
            source = line.strip_prefix("<!-- ").and_then(|line| line.strip_suffix(" -->"));
            row = 0;
            continue;
        }
        row += 1;
        if row == 1 {
            tables.push(Table { source: source.take(), cells: Vec::new() });
        } else if let (3.., Some(table)) = (row, tables.last_mut()) {
            table.cells.extend(line.trim_matches('|').split('|').skip(1));
        }
    }
    tables
}

/// The figures of a results' text that are not in the evidence.
fn unfounded(results: &str, evidence: &BTreeMap<String, Measured>) -> Vec<String> {
    let mut unfounded = Vec::new();
    for Table { source, cells } in tables(results) {
        match source.and_then(|source| source.split_once(": ")) {
            Some(("evidence", names)) => {
                let files: Vec<_> = names.split(", ").map(|name| (name, evidence.get(name))).collect();
                let missing = files.iter().filter(|(_, file)| file.is_none());
                unfounded.extend(missing.map(|(name, _)| format!("docs/evidence has no {name}.json")));
                for cell in cells {
                    let is_known =
                        |figure: &Figure| files.iter().any(|(_, file)| file.is_some_and(|it| has(it, figure)));
                    let unknown = figures(cell).into_iter().filter(|figure| !is_known(figure));
                    unfounded.extend(unknown.map(|it| format!("{names} has no {} of {cell:?}", it.value.value)));
                }
            }
            Some(("measured elsewhere", _)) => {}
            _ => {
                unfounded
                    .push(format!("a table does not name the source of its figures: {source:?}, {:?}", cells.first()));
            }
        }
    }
    unfounded
}

fn text(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

// Verifies HOUSE-1.
#[test]
fn each_figure_of_the_results_is_in_the_evidence() {
    let evidence = measured::read_all(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
    let unfounded = unfounded(&text("docs/results.md"), &evidence);
    assert!(unfounded.is_empty(), "docs/results.md:\n{}", unfounded.join("\n"));
}

// Verifies HOUSE-1.
#[test]
fn each_figure_of_the_readme_is_in_the_results() {
    let results = text("docs/results.md");
    let known: Vec<Figure> =
        tables(&results).iter().flat_map(|table| &table.cells).flat_map(|cell| figures(cell)).collect();
    let is_known = |figure: &Figure| {
        known.iter().any(|known| {
            let unit_fits = figure.unit.is_none() || known.unit.is_none() || figure.unit == known.unit;
            unit_fits && figure.value.decimals <= known.value.decimals && figure.value.is(known.value.value)
        })
    };
    let readme = text("README.md");
    let cells: Vec<&str> = tables(&readme).into_iter().flat_map(|table| table.cells).collect();
    let found: Vec<(Figure, &str)> =
        cells.iter().flat_map(|cell| figures(cell).into_iter().map(|it| (it, *cell))).collect();
    assert!(found.len() > 10, "the figures are found");
    let unknown: Vec<String> = found
        .into_iter()
        .filter(|(figure, _)| !is_known(figure))
        .map(|(figure, cell)| format!("docs/results.md has no {} of {cell:?}", figure.value.value))
        .collect();
    assert!(unknown.is_empty(), "README.md:\n{}", unknown.join("\n"));
}

#[test]
fn numbers_are_found_with_unit_and_interval() {
    let number = |value: f64, decimals| Rounded { value, decimals };
    let figure = |value, unit, interval| Figure { value, unit, interval };
    for (text, expected) in [
        ("**85 and 576 ms**", vec![figure(number(85.0, 0), None, None), figure(number(576.0, 0), Some("ms"), None)]),
        ("4,752 [4,752, 4,754]", vec![figure(number(4752.0, 0), None, Some([number(4752.0, 0), number(4754.0, 0)]))]),
        ("-5 % [-43, 1.9]: no", vec![figure(number(-5.0, 0), Some("%"), Some([number(-43.0, 0), number(1.9, 1)]))]),
        ("95th of lookup-2 with p99, 0.4 %.", vec![figure(number(0.4, 1), Some("%"), None)]),
        ("9.5 of 15", vec![figure(number(9.5, 1), None, None), figure(number(15.0, 0), None, None)]),
    ] {
        assert_eq!(figures(text), expected, "{text}");
    }
}

#[test]
fn a_figure_that_was_not_measured_is_found() {
    let series = Series {
        arm: "brisk".to_owned(),
        point: String::new(),
        metric: "launch".to_owned(),
        unit: "ms".to_owned(),
        count: 60,
        rejected: 0,
        median: Some(57.667_4),
        ci: [Some(57.615_8), Some(57.697_5)],
        standard_deviation: Some(0.207_996),
        change: Some(-58.8),
        change_ci: [Some(-59.1), Some(-58.5)],
    };
    let mut measured: Measured = serde_json::from_str(
        r#"{"schema": 1, "experiment": "a", "title": "", "started": "", "commit": "", "brisk": "", "mode": "deterministic",
            "device": {"place": "lab", "kernel": "", "processor": "", "cpu_count": 1, "memory_kib": 1, "energy_source": null},
            "seed": 1, "command": "", "series": [], "claims": []}"#,
    )
    .unwrap();
    measured.series.push(series);
    let evidence = BTreeMap::from([("a".to_owned(), measured)]);
    let of =
        |source: &str, cell: &str| unfounded(&format!("{source}\n\n| 1 | 2 |\n|---|---|\n| 3 | {cell} |\n"), &evidence);
    for cell in ["57.7 ms", "57.67", "0.0577 s", "58.8 % [58.5, 59.1] less", "58 ms, 0.2 ms, n = 60", "no number"] {
        assert_eq!(of("<!-- evidence: a -->", cell), Vec::<String>::new(), "{cell}");
    }
    for cell in ["57.6 ms", "57.7 %", "57.7 us", "57.7 ms [57.6, 57.8]", "58.8 % [58.4, 59.1]", "61"] {
        assert_eq!(of("<!-- evidence: a -->", cell).len(), 1, "{cell}");
    }
    assert_eq!(of("<!-- evidence: b -->", "none"), ["docs/evidence has no b.json"]);
    assert_eq!(of("", "57.7 ms").len(), 1, "it names no source");
    assert_eq!(of("<!-- measured elsewhere: ./dev test --fresh -->", "61"), Vec::<String>::new());
}
