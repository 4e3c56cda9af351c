//! `brisk memory kills`: the history of kills: the process, the cause, the reason for the choice, and the memory returned.

use std::fmt::Write as _;
use std::process::ExitCode;

use anstyle::Style;
use serde::Serialize;

use crate::cli::output;
use brisk_mechanism::memory::killer::KillRecord;
use brisk_mechanism::memory::killer::kill_log;
use brisk_sys::Root;

/// The number of the JSON schema.
const SCHEMA: u32 = 1;

/// Arguments of `brisk memory kills`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  brisk memory kills            the last ten kills since boot
  brisk memory kills --last 1   the last one
  brisk memory kills --json     all recorded kills")]
pub struct Arguments {
    /// Show this many of the last kills
    #[arg(long, value_name = "N", default_value_t = 10)]
    last: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    kills: Vec<KillRecord>,
}

/// Prints the kills.
///
/// # Errors
/// When the log cannot be read or standard output cannot be written.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let report = Report { schema: SCHEMA, kills: kill_log::read(root)? };
    output::print(&report, arguments.json, |report| {
        if report.kills.is_empty() {
            return "brisk has killed no process since boot.\n".to_owned();
        }
        let first = report.kills.len().saturating_sub(arguments.last);
        report.kills[first..].iter().map(text).collect()
    })?;
    Ok(ExitCode::SUCCESS)
}

fn text(record: &KillRecord) -> String {
    const BOLD: Style = Style::new().bold();
    const FAINT: Style = Style::new().dimmed();
    let mut text = String::new();
    let at_s = record.at.nanoseconds() as f64 / 1e9;
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{BOLD}{}{BOLD:#} ({}) {:.3} s after boot", record.name, record.pid, at_s);
    let _ = writeln!(text, "    cause: {}", record.cause);
    let _ = writeln!(text, "    victim: {}", record.reason);
    let returned = match (record.returned_kib, record.back_after_us) {
        (Some(kib), Some(us)) => format!("{kib} KiB returned within {:.1} ms", us as f64 / 1000.0),
        _ => "the process still exists".to_owned(),
    };
    let _ = writeln!(text, "    memory: {} KiB predicted, {returned}", record.predicted_kib);
    let _ = writeln!(text, "    {FAINT}decided in {:.1} ms{FAINT:#}", record.decided_after_us as f64 / 1000.0);
    text
}
