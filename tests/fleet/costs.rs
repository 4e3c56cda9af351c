//! What the guide says a larger fleet costs: its figures follow from those that were measured, and the command that measures Spark works.

use std::path::Path;
use std::process::Command;

use super::{has, said};
use crate::patience::{LONG_PATIENCE, OutputWithin};

const GUIDE: &str = include_str!("../../docs/guides/fleet.md");
const SPARK_FACTOR: &str = include_str!("../../packaging/fleet/spark_factor.py");
const MEASURED: &str = "How large a fleet";
const ON_PAPER: &str = "A hundred times as large, on Spark";
/// How much larger the fleet on paper is.
const TIMES: f64 = 100.0;

/// The section of the guide under this heading.
fn section(heading: &str) -> &'static str {
    let (_, after) = GUIDE.split_once(&format!("\n## {heading}\n")).unwrap();
    after.split("\n## ").next().unwrap()
}

fn number(cell: &str) -> f64 {
    cell.trim().replace(',', "").parse().unwrap_or_else(|_| panic!("{cell} is no number"))
}

/// The rows of its table: a question, and the numbers beside it.
fn table(section: &'static str) -> Vec<(&'static str, Vec<f64>)> {
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    rows.map(|(question, cells)| (question, cells.trim_end_matches('|').split('|').map(number).collect())).collect()
}

/// The number that stands before `words`.
fn before(section: &'static str, words: &str) -> f64 {
    let (text, _) = section.split_once(words).unwrap_or_else(|| panic!("{words}: {section}"));
    number(text.rsplit([' ', '\n', '(']).next().unwrap())
}

/// Whether `stated` is `exact`, rounded to as many digits as a guide has.
fn is_rounded(stated: f64, exact: f64) -> bool {
    (stated - exact).abs() <= (exact.abs() * 0.05).max(0.006)
}

#[test]
fn the_costs_on_paper_follow_from_what_was_measured() {
    let (measured, on_paper) = (section(MEASURED), section(ON_PAPER));
    let rows = before(measured, " rows in ");
    assert!((before(on_paper, " rows in ") - rows * TIMES).abs() < 0.5, "a hundred times {rows} rows");
    let gb = before(measured, " GB, in the page cache");
    assert!(
        is_rounded(before(on_paper, " GB of files"), gb * TIMES)
            && is_rounded(before(on_paper, " bytes a row"), gb * 1e9 / rows)
    );
    let (seconds, costs) = (table(measured), table(on_paper));
    assert_eq!(seconds.len(), costs.len());
    let questions: Vec<&str> = costs.iter().map(|(question, _)| *question).collect();
    assert!(
        SPARK_FACTOR.contains(&format!("QUESTIONS = {questions:?}\n")),
        "the program measures all of {questions:?}"
    );
    let mut total = 0.0;
    for ((question, seconds), (same, costs)) in seconds.iter().zip(&costs) {
        let (&[_, _, cpu_s, _], &[factor, _, core_hours]) = (&seconds[..], &costs[..]) else { panic!("{question}") };
        let exact = TIMES * cpu_s * factor / 3600.0;
        assert!(question == same && is_rounded(core_hours, exact), "{question}: {core_hours} for {exact}");
        total += exact;
    }
    let stated = before(on_paper, " core-hours together");
    assert!(is_rounded(stated, total), "{stated} for {total}");
    for formula in ["price of all answers", "hours until the answer"] {
        assert!(on_paper.contains(&format!("{formula} = {stated} ")), "{formula}");
    }
}

#[test]
#[ignore = "deep: Spark is a download of 450 MB"]
fn the_factor_between_duckdb_and_spark_is_measured() {
    if !has("duckdb") || !has("pyspark") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    said(
        folder.path(),
        &["fleet", "simulate", "--devices", "60", "--days", "4", "--builds", "2", "--to", "fleet", "-q"],
    );
    // One that only groups, and one that joins.
    let questions = ["boots", "switched_on"];
    let programs = Path::new(env!("CARGO_BIN_EXE_brisk")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([programs].into_iter().chain(std::env::split_paths(&path))).unwrap();
    let mut command = Command::new("python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/fleet/spark_factor.py")).arg("fleet").args(questions);
    command.current_dir(folder.path()).env("PATH", path);
    let output = command.output_within(LONG_PATIENCE);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.iter().map(|cells| cells[0]).collect::<Vec<_>>(), questions, "{text}");
    for cells in lines {
        let figures: Vec<f64> = cells[1..].iter().map(|cell| number(cell)).collect();
        // A small fleet may take less than a hundredth of a second in DuckDB, and shuffle less than a tenth of a MB.
        let [_, spark_s, factor, _, shuffled_rows] = figures[..] else { panic!("{text}") };
        assert!(spark_s > 0.0 && factor > 0.0 && shuffled_rows > 0.0, "{text}");
    }
}
