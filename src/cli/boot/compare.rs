//! `brisk boot compare`: what changed between two boots, or between two sets of boots.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use anyhow::{Context, bail};
use serde::Serialize;

use crate::cli::output;
use brisk_chart::compare::{self, ComparedMeasure, FigureChange, Figures};
use brisk_chart::summary::seconds;
use brisk_experiment::statistics;

/// The number of the JSON schema.
const SCHEMA: u32 = 1;
/// How many processes are listed.
const PROCESSES: usize = 12;
/// With fewer boots a side the interval is too wide to be useful.
const ENOUGH_BOOTS: usize = 5;

/// Arguments of `brisk boot compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A and B are recordings, or folders of several: boots vary, so record five or more of each. The interval is
the 95 % bootstrap interval of the difference of the means; without at least two boots a side there is
none, and a difference does not predict the next boot.

Examples:
  brisk boot compare before.tgz after.tgz
  brisk boot compare recordings/stock recordings/preload --json")]
pub struct Arguments {
    /// The first recording, or a folder of several
    #[arg(value_name = "A")]
    before: PathBuf,
    /// The second recording, or a folder of several
    #[arg(value_name = "B")]
    after: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: u32,
    boots: [usize; 2],
    measures: Vec<MeasureLine>,
    processes: Vec<ProcessLine<'a>>,
}

#[derive(Debug, Serialize)]
struct MeasureLine {
    measure: ComparedMeasure,
    unit: &'static str,
    #[serde(flatten)]
    line: Line,
}

#[derive(Debug, Serialize)]
struct ProcessLine<'a> {
    process: &'a str,
    unit: &'static str,
    #[serde(flatten)]
    line: Line,
}

/// Means, their difference and its interval.
#[derive(Debug, Clone, Copy, Serialize)]
struct Line {
    before: f64,
    after: f64,
    difference: f64,
    /// `null` with fewer than two boots on a side.
    ci: Option<[f64; 2]>,
}

/// Reads, compares and prints.
///
/// # Errors
/// When a recording cannot be read, or a folder holds none.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let (before, after) = (figures(&arguments.before)?, figures(&arguments.after)?);
    let processes = compare::processes(&before, &after, PROCESSES);
    let measures = ComparedMeasure::ALL.into_iter().zip(compare::measures(&before, &after));
    let report = Report {
        schema: SCHEMA,
        boots: [before.len(), after.len()],
        measures: measures
            .map(|(measure, change)| {
                let unit = if measure.is_mib() { "MiB" } else { "ms" };
                MeasureLine { measure, unit, line: Line::of(&change) }
            })
            .collect(),
        processes: processes
            .iter()
            .map(|change| ProcessLine { process: change.process, unit: "ms", line: Line::of(change) })
            .collect(),
    };
    output::print(&report, arguments.json, text)?;
    Ok(ExitCode::SUCCESS)
}

/// The figures of one recording, or of each recording in a folder.
fn figures(path: &Path) -> anyhow::Result<Vec<Figures>> {
    let recordings = recordings(path)?;
    recordings.iter().map(|path| super::open(path).map(|boot| compare::figures(&boot))).collect()
}

/// `path` itself when it is a recording, otherwise every archive and folder of logs in it, sorted by name.
fn recordings(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let is_recording = |folder: &Path| {
        ["proc_stat.log", "proc_ps.log", "taskstats.log"].iter().any(|name| folder.join(name).is_file())
    };
    if !path.is_dir() || is_recording(path) {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))? {
        let entry = entry?.path();
        let is_archive =
            entry.extension().is_some_and(|extension| ["tgz", "gz", "tar"].iter().any(|known| extension == *known));
        if is_archive && entry.is_file() || is_recording(&entry) {
            found.push(entry);
        }
    }
    if found.is_empty() {
        bail!("{} holds no recording: neither logs, nor archives or folders of logs", path.display());
    }
    found.sort();
    Ok(found)
}

impl Line {
    fn of(change: &FigureChange<'_>) -> Self {
        let pick = |values: &[f64], drawn: &[usize]| {
            compare::mean(&drawn.iter().map(|&index| values[index]).collect::<Vec<_>>())
        };
        let strata = [change.before.len(), change.after.len()];
        let ci = statistics::stratified_bootstrap(&strata, &mut |drawn| {
            pick(&change.after, &drawn[1]) - pick(&change.before, &drawn[0])
        });
        Self {
            before: compare::mean(&change.before),
            after: compare::mean(&change.after),
            difference: change.difference(),
            // Adding 0.0 turns -0.0 into 0.0.
            ci: ci.iter().all(|end| end.is_finite()).then_some(ci.map(|end| end + 0.0)),
        }
    }
}

const BOLD: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();
const NAME_WIDTH: usize = 24;

fn text(report: &Report<'_>) -> String {
    let mut text = String::new();
    let [before, after] = report.boots;
    let heading = |text: &mut String, what: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{BOLD}{what:NAME_WIDTH$}  {:>10}  {:>10}  {:>11}  95 % interval{BOLD:#}",
            "A", "B", "difference"
        );
    };
    heading(&mut text, &format!("boots: {before}, {after}"));
    for MeasureLine { measure, unit, line } in &report.measures {
        row(&mut text, &measure.words(), unit, line);
    }
    text.push('\n');
    heading(&mut text, "CPU time");
    for ProcessLine { process, unit, line } in &report.processes {
        row(&mut text, process, unit, line);
    }
    if report.processes.is_empty() {
        text.push_str("no process's CPU time differs\n");
    }
    let fewest = before.min(after);
    if fewest < ENOUGH_BOOTS {
        let why = if fewest < 2 { "one boot a side gives no interval" } else { "few boots give wide intervals" };
        let _ = writeln!(text, "\n{FAINT}{why}: record {ENOUGH_BOOTS} or more of each{FAINT:#}");
    }
    text
}

fn row(text: &mut String, name: &str, unit: &str, line: &Line) {
    let figure = |value: f64| match unit {
        "MiB" => format!("{:.0} MiB", value.abs()),
        // Casts from floats saturate.
        _ => seconds(value.abs().round() as u32),
    };
    let signed = |value: f64| {
        let text = figure(value);
        let sign = match value < 0.0 {
            _ if text == figure(0.0) => "",
            true => "-",
            false => "+",
        };
        format!("{sign}{text}")
    };
    let interval = line.ci.map_or_else(String::new, |[low, high]| format!("{} to {}", signed(low), signed(high)));
    let style = match line.ci {
        Some([_, high]) if high < 0.0 => AnsiColor::Green.on_default(),
        Some([low, _]) if low > 0.0 => AnsiColor::Red.on_default(),
        _ => Style::new(),
    };
    let name: String = name.chars().take(NAME_WIDTH).collect();
    let (before, after, difference) = (figure(line.before), figure(line.after), signed(line.difference));
    let line = format!("{name:NAME_WIDTH$}  {before:>10}  {after:>10}  {style}{difference:>11}{style:#}  {interval}");
    let _ = writeln!(text, "{}", line.trim_end());
}
