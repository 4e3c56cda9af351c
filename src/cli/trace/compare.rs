//! `brisk trace compare`: the same launch in two traces, part by part.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::explain::{Answer, Selection, explained, missing};
use crate::cli::output;
use brisk_trace::compare::{Comparison, Row, compare, sentence, signed};
use brisk_trace::explain::Explanation;
use brisk_trace::json::File;
use brisk_trace::model::Tid;
use brisk_trace::target;
use brisk_trace::words::ms;

/// The number of the JSON schema.
const SCHEMA: u32 = 1;
/// How many parts are listed.
const LISTED: usize = 16;

/// Arguments of `brisk trace compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Explains the same launch in both traces, as `brisk trace explain` does, and shows how long each part took
and by how much B differs. Without --launch and --process it is the first launch of A, and the launch of
the same name in B. Threads are compared by their names. The differences add up to that of the launches.

Two launches of one application differ by chance as well: compare several before you conclude.

Exit code 0 when both were compared, 1 when a trace has no launch; then --process names one.

Examples:
  brisk trace compare stock.dat boosted.dat
  brisk trace compare before.pftrace after.pftrace --launch com.example.shop")]
pub struct Arguments {
    /// The first trace
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The second trace
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Compare this launch: its number in each list, or its name
    #[arg(long, value_name = "N|NAME", conflicts_with = "process")]
    launch: Option<String>,
    /// Compare this process: its name
    #[arg(long, value_name = "NAME")]
    process: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: u32,
    sentence: String,
    a: Side<'a>,
    b: Side<'a>,
    #[serde(flatten)]
    comparison: Comparison,
}

/// What is compared.
#[derive(Debug, Serialize)]
struct Side<'a> {
    trace: File<'a>,
    thread: &'a str,
    tid: Tid,
    pid: Tid,
    from_ns: u64,
    to_ns: u64,
}

impl<'a> Side<'a> {
    fn of(answer: &'a Answer, explanation: &'a Explanation) -> Self {
        Self {
            trace: File::of(&answer.trace, missing(answer)),
            thread: &explanation.thread,
            tid: explanation.tid,
            pid: explanation.process,
            from_ns: explanation.from_ns,
            to_ns: explanation.to_ns,
        }
    }
}

/// Reads, explains, compares and prints.
///
/// # Errors
/// When a file is no trace, or has no such launch or process.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut selection =
        Selection { launch: arguments.launch.clone(), process: arguments.process.clone(), ..Selection::default() };
    let a = explained(&arguments.a, &selection)?;
    if let (None, Some(place)) = (&selection.launch, a.launch) {
        selection.launch = Some(a.launches[place].name.clone());
    }
    let b = explained(&arguments.b, &selection)?;
    let (Some(of_a), Some(of_b)) = (a.explanations.first(), b.explanations.first()) else {
        let (path, answer) = if a.explanations.is_empty() { (&arguments.a, &a) } else { (&arguments.b, &b) };
        let busiest = target::busiest(&answer.trace, &answer.timelines).join(", ");
        eprintln!(
            "brisk: {} has no launch; name a process with --process, those that ran most: {busiest}",
            path.display()
        );
        return Ok(ExitCode::from(1));
    };
    let comparison = compare(of_a, of_b);
    let (a, b) = (Side::of(&a, of_a), Side::of(&b, of_b));
    let report = Report { schema: SCHEMA, sentence: sentence(&comparison), a, b, comparison };
    output::print(&report, arguments.json, text)?;
    Ok(ExitCode::SUCCESS)
}

const BOLD: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();

/// Writing to a string cannot fail.
fn text(report: &Report<'_>) -> String {
    let mut text = String::new();
    for (name, side) in [("A", &report.a), ("B", &report.b)] {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let (from, to) = (seconds(side.from_ns), seconds(side.to_ns));
        let _ = writeln!(text, "{name}: {} ({}), {from:.6} s to {to:.6} s", side.thread, side.tid);
    }
    let _ = writeln!(text, "{BOLD}{}{BOLD:#}\n", report.sentence);
    let _ = writeln!(text, "{:>12}  {:>12}  {:>13}", "A", "B", "difference");
    let comparison = &report.comparison;
    for row in comparison.parts.iter().take(LISTED) {
        line(&mut text, row.a_ns, row.b_ns, row.difference_ns, &row.words());
    }
    if let Some(rest @ [_, ..]) = comparison.parts.get(LISTED..) {
        let [a_ns, b_ns] = [|row: &Row| row.a_ns, |row: &Row| row.b_ns].map(|of| rest.iter().map(of).sum());
        let difference_ns = rest.iter().map(|row| row.difference_ns).sum();
        line(&mut text, a_ns, b_ns, difference_ns, &format!("{} others, see --json", rest.len()));
    }
    line(&mut text, comparison.a_ns, comparison.b_ns, comparison.difference_ns, "all");
    for (name, side) in [("A", &report.a), ("B", &report.b)] {
        for what in &side.trace.missing {
            let _ = writeln!(text, "{FAINT}note on {name}: {what}{FAINT:#}");
        }
    }
    text
}

fn line(text: &mut String, a_ns: u64, b_ns: u64, difference_ns: i64, words: &str) {
    let style = match difference_ns {
        0 => Style::new(),
        _ if difference_ns < 0 => AnsiColor::Green.on_default(),
        _ => AnsiColor::Red.on_default(),
    };
    let (a, b, difference) = (ms(a_ns), ms(b_ns), signed(difference_ns));
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{a:>12}  {b:>12}  {style}{difference:>13}{style:#}  {words}");
}
